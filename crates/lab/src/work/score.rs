//! Everything to scores.

use super::{Keys, Kind, Made, MadeOf, Making, Purpose};
use crate::{
    Error,
    artifact::{self, ScoreRow},
    estimate::{Load, Sizes, asked_tokens, score},
    operator::Operator,
    plan::{Inputs, TaskId},
    task::{answers_by_question, passages_by_question},
};
use async_trait::async_trait;
use eval::{MetricConfig, Missing, Question, Sample, Score as Value, Scored};
use futures::{StreamExt, stream};
use rag::Item;
use serde::{Deserialize, Serialize};
use store::Key;

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
        let (evaluate, needs) = (&cx.inputs.experiment.evaluate, self.metric.needs());
        let questions: Vec<&Question> = self.questions.iter().map(|&i| &cx.inputs.questions[i]).collect();
        let judges = evaluate.judges.iter().filter(|_| needs.judge);
        let embedder = evaluate.embedder.iter().filter(|_| needs.embedder);
        let models: Vec<_> = judges.chain(embedder).map(|model| cx.identity(model)).collect();
        let builder = cx.builder("score", &self.inputs());
        // Trials that retrieve keep the keys that they had before there were others.
        let builder = if self.without_passages { builder.field("without_passages", &true) } else { builder };
        builder
            .field("version", &self.metric.version())
            .field("config", &self.metric.keyed())
            .field("models", &models)
            .field("questions", &questions)
            .finish()
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
                    self.metric.score(&*metric, &Sample { question, passages: found, answer }).await
                }
            };
            making.made(1);
            ScoreRow { question: question.id.clone(), scored }
        };
        let calls: Vec<_> = self.questions.iter().map(|&i| one(i)).collect();
        let rows: Vec<ScoreRow> = stream::iter(calls).buffered(cx.experiment.engine.local.tasks).collect().await;
        let count = |holds: fn(&Missing) -> bool| {
            let missing = |row: &&ScoreRow| matches!(&row.scored.score, Value::Missing(missing) if holds(missing));
            rows.iter().filter(missing).count()
        };
        if count(|missing| matches!(missing, Missing::Cancelled)) > 0 {
            return Err(models::Error::Cancelled.into());
        }
        let errors = count(|missing| matches!(missing, Missing::ProviderError(_) | Missing::Budget(_)));
        let function_errors = count(|missing| matches!(missing, Missing::FunctionError(_)));
        Ok(Made { errors, function_errors, ..Made::of(artifact::encode(&rows)?, rows.len()) })
    }
}
