//! Texts or vectors of chunks to an index of any kind.

use super::{DescribeWork, KeyContext, TimedComponent};
use crate::{layout::Format, operator::Operator, plan::graph::TaskId};
use rag::{analysis::TextAnalysis, index::IndexKind};
use serde::{Deserialize, Serialize};
use store::Key;

/// Makes an index that has one file.
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
        match &self.analysis {
            Some(analysis) => builder.field("analysis", analysis).finish(),
            None => builder.finish(),
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
