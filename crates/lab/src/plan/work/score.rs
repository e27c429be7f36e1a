//! Everything to scores.

use super::{DescribeWork, KeyContext, Sizes, TimedComponent};
use crate::{
    operator::Operator,
    plan::{
        graph::{PlanInputs, ReplyContents, TaskId},
        model_load::{ModelLoad, score},
        ranges::RangePart,
    },
};
use eval::{MetricConfig, Question};
use rag::InputSize;
use serde::{Deserialize, Serialize};
use store::{Key, KeyBuilder};

/// Scores some questions by one metric.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ScoreWork {
    pub(crate) metric: MetricConfig,
    pub(crate) passages: TaskId,
    /// The answers, if the metric looks at them.
    pub(crate) answers: Vec<TaskId>,
    pub(crate) questions: Vec<usize>,
    /// The number of the parser that makes the trial's documents: the evidence of the questions has places in these.
    #[serde(default, skip_serializing_if = "is_first")]
    pub(crate) parser: usize,
    /// Whether the trial retrieves nothing, so that metrics that look at passages do not apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) without_passages: bool,
    /// What the replies of the system hold, if the trial is one. `answers` are then its replies, whatever the metric
    /// looks at: where one failed there are no passages either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replies: Option<ReplyContents>,
    /// Which part of which range these questions are, if the metric looks at answers, or the trial is a system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<RangePart>,
}

fn is_first(parser: &usize) -> bool {
    *parser == 0
}

/// What a metric looks at, for the key of its scores.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScoredKey<'a> {
    /// A pipeline's passages, and the stem of its answers if it writes any.
    Pipeline { passages: TaskId, without_passages: bool, answers: Option<&'a Key> },
    /// The stems of a system's replies and of the places of its passages.
    System { replies: &'a Key, places: &'a Key },
}

impl ScoreWork {
    /// The key of everything that decides the scores of a range, except the questions.
    pub(crate) fn stem(cx: &KeyContext<'_>, metric: &MetricConfig, scored: ScoredKey<'_>) -> Key {
        let (builder, without_passages) = match scored {
            ScoredKey::Pipeline { passages, without_passages, answers } => {
                (cx.builder("score", &[passages]).field("answers", &answers), without_passages)
            }
            // The task that finds the places has another key in each step of a search.
            ScoredKey::System { replies, places } => {
                (cx.builder("score", &[]).key("replies", replies).key("places", places), false)
            }
        };
        add_metric(cx, builder, metric, without_passages).finish()
    }
}

/// Adds what decides a metric's scores, except its inputs and the questions.
fn add_metric(cx: &KeyContext<'_>, builder: KeyBuilder, metric: &MetricConfig, without_passages: bool) -> KeyBuilder {
    let (evaluate, needs) = (&cx.inputs.experiment.evaluate, metric.needs());
    let judges = evaluate.judges.iter().filter(|_| needs.judge);
    let embedder = evaluate.embedder.iter().filter(|_| needs.embedder);
    let models: Vec<_> = judges.chain(embedder).map(|model| cx.identity(model)).collect();
    // Trials that retrieve keep the keys from before this field.
    let builder = if without_passages { builder.field("without_passages", &true) } else { builder };
    builder.field("version", &metric.version()).field("config", &metric.key_settings()).field("models", &models)
}

impl DescribeWork for ScoreWork {
    fn operator(&self) -> Operator {
        if self.metric.needs_judge() { Operator::Judge } else { Operator::Score }
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.answers.iter().copied().chain([self.passages]).collect()
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        if let Some(part) = &self.part {
            return part.key();
        }
        let all = cx.inputs.questions_for(self.parser);
        let questions: Vec<&Question> = self.questions.iter().map(|&i| &all[i]).collect();
        let builder = cx.builder("score", &self.inputs());
        add_metric(cx, builder, &self.metric, self.without_passages).field("questions", &questions).finish()
    }

    fn rows(&self, _: &PlanInputs<'_>) -> Option<usize> {
        Some(self.questions.len())
    }

    /// Judging is expensive; any other score is quickly made again.
    fn is_exclusive(&self) -> bool {
        self.metric.needs_judge()
    }

    fn runs_function(&self) -> bool {
        self.metric.runs_function()
    }

    /// What judges use is no part of a trial's price.
    fn counts_in_price(&self) -> bool {
        false
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        let settings = serde_json::to_value(&self.metric).unwrap_or_default();
        TimedComponent { words: self.metric.label(), settings, models: Vec::new(), uses_judges: true }
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        let found = sizes.output_of(self.passages);
        let answer = self.answers.iter().map(|&id| sizes.output_of(id).text_tokens).max().unwrap_or_default();
        let questions = self.questions.iter().copied();
        let applies = questions.filter(|&i| self.metric.applies(&sizes.questions[i]).is_ok());
        let of_question = |i: usize| {
            let item = |model: &str| {
                let item = sizes.judged(model, i, found);
                InputSize { text_tokens: item.text_tokens + answer, ..item }
            };
            score(&sizes.experiment.evaluate, &self.metric, item)
        };
        applies.flat_map(of_question).collect()
    }
}
