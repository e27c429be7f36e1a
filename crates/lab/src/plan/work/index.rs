//! Texts or vectors of chunks to an index of any kind.

use super::{DescribeWork, KeyContext, TimedComponent};
use crate::{layout::Format, operator::Operator, plan::graph::TaskId};
use rag::{
    analysis::TextAnalysis,
    index::{GraphSettings, IndexKind},
};
use serde::{Deserialize, Serialize};
use store::Key;

/// Makes a file of an index: of a part of the corpus, which is mostly the whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IndexWork {
    pub(crate) kind: IndexKind,
    /// What it is made from: chunks, what is searched in their place, or vectors.
    pub(crate) from: Vec<TaskId>,
    /// Whether it is made from what is searched in place of chunks' texts.
    #[serde(default)]
    pub(crate) enriched: bool,
    /// How texts are cut into terms. None for an index of vectors.
    #[serde(default)]
    pub(crate) analysis: Option<TextAnalysis>,
    /// How a graph over vectors is built. None for other indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) graph: Option<GraphSettings>,
}

impl IndexWork {
    /// An index of the vectors in these shards.
    pub(crate) fn from_vectors(kind: IndexKind, from: Vec<TaskId>) -> Self {
        Self { kind, from, enriched: false, analysis: None, graph: None }
    }
}

impl DescribeWork for IndexWork {
    fn operator(&self) -> Operator {
        Operator::Index
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.from.clone()
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let kind = format!("index_{}", self.kind.name());
        let builder = cx.builder(&kind, &self.from).field("version", &self.kind.version());
        match (&self.analysis, &self.graph) {
            (Some(analysis), _) => builder.field("analysis", analysis).finish(),
            (None, Some(graph)) => builder.field("graph", graph).finish(),
            (None, None) => builder.finish(),
        }
    }

    fn format(&self) -> Format {
        Format::Index(self.kind)
    }

    fn counts_in_price(&self) -> bool {
        false
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        TimedComponent { words: self.kind.name().to_owned(), ..TimedComponent::default() }
    }
}
