//! What tasks share, for tests: a store in a folder, no corpus and no models.

use super::{ModelHandles, RunContext, RunInputs};
use crate::{layout::LAYOUT, spec::Experiment};
use eval::Question;
use models::{Client, CpuBudget, ModelDirectory, provider};
use rag::load::Source;
use std::{path::Path, sync::Arc};
use store::{ArtifactStore, EventLog};

/// The run context of this experiment, with its store, its log and everything else in a folder.
pub(crate) fn run_context(folder: &Path, experiment: Experiment, questions: Vec<Question>) -> RunContext {
    let context = provider::ModelContext {
        directory: ModelDirectory::new(folder.to_owned(), Vec::new()),
        cpu: CpuBudget::new(1),
        environment: Arc::new(|_: &str| None),
    };
    let models = ModelHandles::new(experiment.models.clone(), context, Client::new(None));
    std::fs::create_dir_all(folder.join("docs")).unwrap();
    let source = Source::parse(&folder.join("docs").display().to_string(), &[], &[], &[]).unwrap();
    RunContext::new(
        Arc::new(experiment),
        ArtifactStore::open(&folder.join("store").display().to_string(), &[], LAYOUT).unwrap(),
        RunInputs { source, questions, views: Default::default() },
        folder.join("scratch"),
        "run".to_owned(),
        EventLog::open(folder.join("events.jsonl")).unwrap(),
        Arc::new(models),
    )
}
