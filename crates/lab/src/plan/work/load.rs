//! Files to documents.

use super::{DescribeWork, KeyContext, TimedComponent};
use crate::{
    operator::Operator,
    plan::{
        PlannedFiles,
        graph::{PlanInputs, TaskId},
    },
};
use rag::{Choice, Component, Metadata, load, parse::ParseConfig};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::Key;

/// Parses files whose contents must still have these keys.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct LoadWork {
    pub(crate) files: PlannedFiles,
    /// What the corpus' table of metadata says of them, by path.
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, Metadata>,
    /// How they are parsed; none if by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parser: Option<Box<ParseConfig>>,
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
        let builder = match &self.parser {
            None => builder,
            Some(parser) => builder.field("parser", &(parser.version(), parser.settings_for_key())),
        };
        let precisions = self.parser.iter().flat_map(|parser| parser.precisions()).collect::<BTreeSet<_>>();
        let builder = match precisions.is_empty() {
            true => builder,
            false => builder.field("precisions", &precisions),
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

    fn runs_function(&self) -> bool {
        self.parser.as_ref().is_some_and(|parser| parser.runs_function())
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        match &self.parser {
            None => TimedComponent { words: "files".to_owned(), ..TimedComponent::default() },
            Some(parser) => TimedComponent {
                words: format!("files by {}", parser.name()),
                settings: parser.value(),
                ..TimedComponent::default()
            },
        }
    }
}
