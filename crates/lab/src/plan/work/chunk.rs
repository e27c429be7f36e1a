//! Documents to chunks.

use super::{DescribeWork, KeyContext, Sizes, component};
use crate::{
    operator::Operator,
    plan::{graph::TaskId, model_load::ModelLoad},
};
use rag::{Choice, Component, InputSize, chunk::ChunkerConfig};
use serde::{Deserialize, Serialize};
use store::Key;

/// Cuts one shard of documents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ChunkWork {
    pub(crate) chunker: ChunkerConfig,
    /// The trial's embedder, if the chunker needs it.
    pub(crate) embedder: Option<String>,
    pub(crate) documents: TaskId,
}

impl DescribeWork for ChunkWork {
    fn operator(&self) -> Operator {
        Operator::CHUNK
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.documents]
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let builder = component(cx.builder("chunk", &[self.documents]), &self.chunker);
        cx.with_models(builder, &self.chunker, self.embedder.as_deref()).finish()
    }

    fn component(&self) -> Option<(&dyn Choice, Option<&str>)> {
        Some((&self.chunker, self.embedder.as_deref()))
    }

    fn counts_in_price(&self) -> bool {
        self.embedder.is_some() || !self.chunker.models().is_empty()
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        sizes.of_documents(&self.chunker, sizes.shard())
    }

    fn estimate_output(&self, sizes: &Sizes<'_>) -> InputSize {
        sizes.chunks_of(&self.chunker)
    }
}
