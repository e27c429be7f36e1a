//! Chunks to vectors that an enricher makes from their documents.

use super::{DescribeWork, KeyContext, Sizes, TimedComponent, component};
use crate::{
    operator::Operator,
    plan::{graph::TaskId, model_load::ModelLoad},
};
use rag::{Choice, enrich::EnrichConfig};
use serde::{Deserialize, Serialize};
use store::Key;

/// Embeds one shard of chunks with the named model, as the enricher does it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmbedInContextWork {
    pub(crate) enricher: EnrichConfig,
    pub(crate) model: String,
    /// The documents that the chunks were cut from.
    pub(crate) documents: TaskId,
    pub(crate) chunks: TaskId,
}

impl DescribeWork for EmbedInContextWork {
    fn operator(&self) -> Operator {
        Operator::EMBED
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.documents, self.chunks]
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let builder = component(cx.builder("embed_in_context", &self.inputs()), &self.enricher);
        builder.field("model", cx.identity(&self.model)).finish()
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        let words = format!("{} with {}", self.model, self.enricher.name());
        TimedComponent { words, settings: self.enricher.value(), ..TimedComponent::model(&self.model) }
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        sizes.of_reading(&self.model)
    }
}
