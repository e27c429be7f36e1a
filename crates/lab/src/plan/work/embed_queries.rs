//! Questions, or the queries that were written for them, to vectors.

use super::{DescribeWork, KeyContext, Sizes, TimedComponent};
use crate::{
    operator::Operator,
    plan::{
        graph::{PlanInputs, TaskId},
        model_load::ModelLoad,
    },
};
use serde::{Deserialize, Serialize};
use store::Key;

/// Embeds all questions with the named model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmbedQueriesWork {
    pub(crate) model: String,
    /// The task that writes the queries, if they are not the questions themselves.
    pub(crate) queries: Option<TaskId>,
    /// Whether one text for each question is embedded, the question as it
    /// stands alone, and not each of its queries.
    #[serde(default)]
    pub(crate) standalone: bool,
}

impl DescribeWork for EmbedQueriesWork {
    fn operator(&self) -> Operator {
        Operator::EmbedQueries
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.queries.into_iter().collect()
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let builder = cx.builder("embed_queries", &self.inputs()).field("model", cx.identity(&self.model));
        match self.queries {
            Some(_) if self.standalone => builder.field("standalone", &true).finish(),
            Some(_) => builder.finish(),
            None => {
                let texts: Vec<_> = cx.inputs.questions.iter().map(|question| &question.question).collect();
                builder.field("texts", &texts).finish()
            }
        }
    }

    fn rows(&self, inputs: &PlanInputs<'_>) -> Option<usize> {
        (self.queries.is_none() || self.standalone).then_some(inputs.questions.len())
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        TimedComponent::model(&self.model)
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        vec![(&self.model, ModelLoad::embedding(sizes.all_question_tokens(&self.model)))]
    }
}
