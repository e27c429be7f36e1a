//! Questions to queries.

use super::{DescribeWork, KeyContext, Sizes, component};
use crate::{
    operator::Operator,
    plan::{
        graph::{PlanInputs, TaskId},
        model_load::ModelLoad,
    },
};
use rag::{Axis, Choice, InputSize, query::QueryConfig};
use serde::{Deserialize, Serialize};
use store::Key;

/// Writes the queries of all questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WriteQueriesWork {
    pub(crate) writer: QueryConfig,
    /// The trial's embedder, if the writer needs it.
    pub(crate) embedder: Option<String>,
}

impl DescribeWork for WriteQueriesWork {
    fn operator(&self) -> Operator {
        Operator::Stage(Axis::Query)
    }

    fn inputs(&self) -> Vec<TaskId> {
        Vec::new()
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let questions: Vec<_> = cx.inputs.questions.iter().map(|question| (&question.id, &question.question)).collect();
        let mut builder = component(cx.builder("query", &[]), &self.writer).field("questions", &questions);
        if cx.inputs.has_turns() {
            let turns: Vec<_> = cx.inputs.questions.iter().map(|question| &question.turns).collect();
            builder = builder.field("turns", &turns);
        }
        cx.with_models(builder, &self.writer, self.embedder.as_deref()).finish()
    }

    fn rows(&self, inputs: &PlanInputs<'_>) -> Option<usize> {
        Some(inputs.questions.len())
    }

    fn component(&self) -> Option<(&dyn Choice, Option<&str>)> {
        Some((&self.writer, self.embedder.as_deref()))
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        sizes.of_questions(&self.writer, InputSize::default(), 0..sizes.questions.len())
    }
}
