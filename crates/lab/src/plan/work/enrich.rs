//! Chunks to what is searched in place of their texts.

use super::{DescribeWork, KeyContext, Sizes, component};
use crate::{
    operator::Operator,
    plan::{graph::TaskId, model_load::ModelLoad},
};
use rag::{Axis, Choice, Component, InputSize, enrich::EnrichConfig};
use serde::{Deserialize, Serialize};
use store::Key;

/// Writes what is searched in place of the texts of one shard of chunks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EnrichWork {
    pub(crate) enricher: EnrichConfig,
    /// The trial's embedder, if the enricher needs it.
    pub(crate) embedder: Option<String>,
    /// The documents that the chunks were cut from.
    pub(crate) documents: TaskId,
    pub(crate) chunks: TaskId,
}

impl DescribeWork for EnrichWork {
    fn operator(&self) -> Operator {
        Operator::Stage(Axis::Enrich)
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.documents, self.chunks]
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let builder = component(cx.builder("enrich", &self.inputs()), &self.enricher);
        cx.with_models(builder, &self.enricher, self.embedder.as_deref()).finish()
    }

    fn component(&self) -> Option<(&dyn Choice, Option<&str>)> {
        Some((&self.enricher, self.embedder.as_deref()))
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        sizes.of_documents(&self.enricher, sizes.output_of(self.chunks))
    }

    fn estimate_output(&self, sizes: &Sizes<'_>) -> InputSize {
        let chunks = sizes.output_of(self.chunks);
        let written: u64 = self.enricher.estimate_calls(chunks).iter().map(|ask| ask.completion_tokens).sum();
        InputSize { passage_tokens: chunks.passage_tokens + written, ..chunks }
    }
}
