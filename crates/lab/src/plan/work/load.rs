//! Files to documents.

use super::{DescribeWork, KeyContext, TimedComponent};
use crate::{
    operator::Operator,
    plan::{
        PlannedFiles,
        graph::{PlanInputs, TaskId},
    },
};
use rag::{Metadata, load};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Key;

/// Parses files whose contents must still have these keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LoadWork {
    pub(crate) files: PlannedFiles,
    /// What the corpus' table of metadata says of them, by path.
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, Metadata>,
}

impl DescribeWork for LoadWork {
    fn operator(&self) -> Operator {
        Operator::Load
    }

    fn inputs(&self) -> Vec<TaskId> {
        Vec::new()
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let builder = match self.metadata.is_empty() {
            true => cx.builder("load", &[]),
            false => cx.builder("load", &[]).field("metadata", &self.metadata),
        };
        builder
            .field("version", &load::VERSION)
            .field("limits", &cx.inputs.experiment.corpus.limits)
            .field("pdf", cx.inputs.pdf_library)
            .named_keys("files", self.files.iter().map(|(file, key)| (file.path.as_str(), key)))
            .finish()
    }

    fn rows(&self, _: &PlanInputs<'_>) -> Option<usize> {
        Some(self.files.len())
    }

    fn counts_in_price(&self) -> bool {
        false
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        TimedComponent { words: "files".to_owned(), ..TimedComponent::default() }
    }
}
