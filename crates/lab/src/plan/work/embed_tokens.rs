//! Chunks to a vector for each of their tokens, once for a chunk table and a
//! model: what it is; `task/work/embed_tokens.rs` does it.

use super::{DescribeWork, KeyContext, Sizes, TimedComponent};
use crate::{
    layout::Format,
    operator::Operator,
    plan::{graph::TaskId, model_load::ModelLoad},
};
use rag::index::IndexKind;
use serde::{Deserialize, Serialize};
use store::Key;

/// The kind of index that these vectors form.
const KIND: IndexKind = IndexKind::Tokens;

/// Embeds each token of one shard of chunks with the named model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmbedTokensWork {
    pub(crate) model: String,
    pub(crate) chunks: TaskId,
    /// What is searched in place of the chunks' texts.
    #[serde(default)]
    pub(crate) enriched: Option<TaskId>,
}

impl DescribeWork for EmbedTokensWork {
    fn operator(&self) -> Operator {
        Operator::EMBED
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.enriched.unwrap_or(self.chunks)]
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let builder = cx.builder("embed_tokens", &self.inputs()).field("version", &KIND.version());
        builder.field("model", cx.identity(&self.model)).finish()
    }

    fn format(&self) -> Format {
        Format::Index(KIND)
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        TimedComponent { words: format!("tokens of {}", self.model), ..TimedComponent::model(&self.model) }
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        sizes.of_embedding(&self.model, self.enriched.unwrap_or(self.chunks))
    }
}
