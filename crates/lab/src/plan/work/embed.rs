//! Chunks to vectors.

use super::{DescribeWork, KeyContext, Sizes, TimedComponent};
use crate::{
    operator::Operator,
    plan::{graph::TaskId, model_load::ModelLoad},
};
use serde::{Deserialize, Serialize};
use store::Key;

/// Embeds one shard of chunks with the named model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmbedWork {
    pub(crate) model: String,
    pub(crate) chunks: TaskId,
    /// What is searched in place of the chunks' texts.
    #[serde(default)]
    pub(crate) enriched: Option<TaskId>,
}

impl DescribeWork for EmbedWork {
    fn operator(&self) -> Operator {
        Operator::EMBED
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.enriched.unwrap_or(self.chunks)]
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        cx.builder("embed", &self.inputs()).field("model", cx.identity(&self.model)).finish()
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        TimedComponent::model(&self.model)
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        sizes.of_embedding(&self.model, self.enriched.unwrap_or(self.chunks))
    }
}
