//! Writes chunks and their vectors into a database.

use super::{DescribeWork, KeyContext, TimedComponent};
use crate::{layout::Format, operator::Operator, plan::graph::TaskId};
use rag::{index::IndexKind, vector_index::VectorIndexConfig};
use serde::{Deserialize, Serialize};
use store::Key;

/// The version of the records.
const VERSION: u32 = 1;

/// Writes the chunks with the vectors of the dense index into a database.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FillIndexWork {
    pub(crate) index: VectorIndexConfig,
    pub(crate) chunks: Vec<TaskId>,
    /// The file of the dense index.
    pub(crate) dense: Vec<TaskId>,
}

/// The name of a database among the identities of a run; none if the index is in no database.
pub(crate) fn database_name(index: &VectorIndexConfig) -> Option<String> {
    Some(format!("index.{}:{}", index.name(), index.database_name()?))
}

impl DescribeWork for FillIndexWork {
    fn operator(&self) -> Operator {
        Operator::Index
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.chunks.iter().chain(&self.dense).copied().collect()
    }

    /// The address is part of the key, because a database elsewhere holds nothing of this one; user and password are not.
    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let address = database_name(&self.index).and_then(|name| cx.inputs.identities.get(&name));
        cx.builder("fill_index", &self.inputs())
            .field("version", &VERSION)
            .field("index", &(self.index.name(), self.index.version(), self.index.build_settings()))
            .field("address", &address)
            .finish()
    }

    fn format(&self) -> Format {
        Format::Index(IndexKind::Database)
    }

    fn counts_in_price(&self) -> bool {
        false
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        TimedComponent { words: format!("fill {}", self.index.name()), ..TimedComponent::default() }
    }
}
