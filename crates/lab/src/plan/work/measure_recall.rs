//! An approximate index beside the exact one, to the share of the nearest chunks that it finds.

use super::{DescribeWork, KeyContext, searched_index};
use crate::{
    operator::Operator,
    plan::graph::{PlanInputs, TaskId},
};
use rag::{index::IndexKind, vector_index::VectorIndexConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Key;

/// The version of the measurement.
const VERSION: u32 = 1;

/// Searches the vectors of all questions in both indexes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MeasureRecallWork {
    pub(crate) index: VectorIndexConfig,
    /// The files of both indexes.
    pub(crate) indexes: BTreeMap<IndexKind, Vec<TaskId>>,
    pub(crate) question_vectors: TaskId,
    /// How many chunks are searched for.
    pub(crate) chunks: usize,
}

impl DescribeWork for MeasureRecallWork {
    fn operator(&self) -> Operator {
        Operator::Score
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.indexes.values().flatten().copied().chain([self.question_vectors]).collect()
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let questions: Vec<_> = cx.inputs.questions.iter().map(|question| &question.id).collect();
        let builder = cx.builder("measure_recall", &self.inputs()).field("version", &VERSION);
        searched_index(builder, &self.index).field("chunks", &self.chunks).field("questions", &questions).finish()
    }

    fn rows(&self, inputs: &PlanInputs<'_>) -> Option<usize> {
        Some(inputs.questions.len())
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    fn counts_in_price(&self) -> bool {
        false
    }
}
