//! Everything to scores.

use super::{EarlierRows, Keys, Kind, Made, MadeOf, Making, Purpose};
use crate::{
    Error,
    artifact::ScoreRow,
    estimate::{Load, Sizes, asked_tokens, score},
    operator::Operator,
    plan::{Inputs, TaskId},
    ranges::RangePart,
    task::{answers_by_question, passages_by_question},
};
use async_trait::async_trait;
use eval::{MetricConfig, Missing, Question, Sample, Score as Value, Scored};
use futures::{StreamExt, stream};
use rag::Item;
use serde::{Deserialize, Serialize};
use store::{Key, KeyBuilder};

/// Scores some questions by one metric.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Score {
    pub(crate) metric: MetricConfig,
    pub(crate) passages: TaskId,
    /// The answers, if the metric looks at them.
    pub(crate) answers: Vec<TaskId>,
    pub(crate) questions: Vec<usize>,
    /// Whether the trial retrieves nothing, so that metrics that look at passages do not apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) without_passages: bool,
    /// Which part of which range these questions are, if the metric looks at answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<RangePart>,
}

impl Score {
    /// The key of everything that decides the scores of answers but the
    /// questions. `answers` is the same key of the answers.
    pub(crate) fn stem(
        cx: &Keys<'_>,
        metric: &MetricConfig,
        (passages, without_passages): (TaskId, bool),
        answers: Option<&Key>,
    ) -> Key {
        let builder = cx.builder("score", &[passages]).field("answers", &answers);
        of_metric(cx, builder, metric, without_passages).finish()
    }
}

/// Adds what decides the scores of a metric but its inputs and the questions.
fn of_metric(cx: &Keys<'_>, builder: KeyBuilder, metric: &MetricConfig, without_passages: bool) -> KeyBuilder {
    let (evaluate, needs) = (&cx.inputs.experiment.evaluate, metric.needs());
    let judges = evaluate.judges.iter().filter(|_| needs.judge);
    let embedder = evaluate.embedder.iter().filter(|_| needs.embedder);
    let models: Vec<_> = judges.chain(embedder).map(|model| cx.identity(model)).collect();
    // Trials that retrieve keep the keys that they had before there were others.
    let builder = if without_passages { builder.field("without_passages", &true) } else { builder };
    builder.field("version", &metric.version()).field("config", &metric.keyed()).field("models", &models)
}

#[async_trait]
impl Kind for Score {
    fn operator(&self) -> Operator {
        if self.metric.judged() { Operator::Judge } else { Operator::Score }
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.answers.iter().copied().chain([self.passages]).collect()
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        if let Some(part) = &self.part {
            return part.key();
        }
        let questions: Vec<&Question> = self.questions.iter().map(|&i| &cx.inputs.questions[i]).collect();
        let builder = cx.builder("score", &self.inputs());
        of_metric(cx, builder, &self.metric, self.without_passages).field("questions", &questions).finish()
    }

    fn rows(&self, _: &Inputs<'_>) -> Option<usize> {
        Some(self.questions.len())
    }

    /// Judging is expensive; any other score is quickly made again.
    fn is_exclusive(&self) -> bool {
        self.metric.judged()
    }

    fn runs_function(&self) -> bool {
        self.metric.runs_function()
    }

    fn purpose(&self) -> Purpose {
        Purpose::Evaluation
    }

    /// What judges use is no part of a trial's price.
    fn calls_models(&self) -> bool {
        false
    }

    fn made_of(&self) -> MadeOf<'_> {
        let settings = serde_json::to_value(&self.metric).unwrap_or_default();
        MadeOf { words: self.metric.label(), settings, models: Vec::new(), evaluates: true }
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        let found = sizes.given(self.passages);
        let answer = self.answers.iter().map(|&id| sizes.given(id).text_tokens).max().unwrap_or_default();
        let questions = self.questions.iter().map(|&i| &sizes.questions[i]);
        let applies = questions.filter(|question| self.metric.applies(question).is_ok());
        let one = |question| Item { text_tokens: asked_tokens(question) + answer, ..found };
        applies.flat_map(|question| score(&sizes.experiment.evaluate, &self.metric, one(question))).collect()
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let cx = making.cx;
        let metric = self.metric.build(&making.models().metric_context(&cx.experiment.evaluate))?;
        let passages = passages_by_question(cx, making.inputs, self.passages).await?;
        let answers = answers_by_question(cx, making.inputs, &self.answers).await?;
        let one = async |i: usize| {
            let question = &cx.questions[i];
            let found = passages.get(&question.id).map_or(&[][..], |found| &found.passages);
            let scored = match answers.get(&question.id) {
                _ if self.without_passages && self.metric.needs().passages => {
                    Scored::missing(Missing::NotApplicable("the trial retrieves nothing".to_owned()))
                }
                Some(Err(error)) if self.metric.needs_answer() => Scored::missing(error.missing()),
                answer => {
                    let answer = answer.and_then(|answer| answer.as_ref().ok());
                    self.metric.score(&*metric, &Sample { question, passages: found, answer, columns: None }).await
                }
            };
            making.made(1);
            ScoreRow { question: question.id.clone(), scored }
        };
        let earlier = match &self.part {
            Some(part) => making.earlier_rows(part, &self.questions, |row: &ScoreRow| &row.question).await?,
            None => EarlierRows::none(&self.questions),
        };
        let calls: Vec<_> = earlier.missing.iter().map(|&i| one(i)).collect();
        let at_once = cx.experiment.engine.local.tasks.max(self.metric.functions_at_once());
        let rows: Vec<ScoreRow> = stream::iter(calls).buffered(at_once).collect().await;
        let count = |holds: fn(&Missing) -> bool| {
            let missing = |row: &&ScoreRow| matches!(&row.scored.score, Value::Missing(missing) if holds(missing));
            rows.iter().filter(missing).count()
        };
        if count(|missing| matches!(missing, Missing::Cancelled)) > 0 {
            return Err(models::Error::Cancelled.into());
        }
        let errors = count(|missing| matches!(missing, Missing::ProviderError(_) | Missing::Budget(_)));
        let function_errors = count(|missing| matches!(missing, Missing::FunctionError(_)));
        let made = Made::with_earlier(rows, earlier, cx, |row| &row.question)?;
        Ok(Made { errors, function_errors, ..made })
    }
}
