//! The settings and the state that the threads of an engine share: the queue and the weights.

use super::{
    backend,
    call_load::CallLoad,
    job::{LlamaJob, OutcomeSender},
    queue::JobQueue,
};
use crate::{CpuBudget, Error, locked};
use llama_cpp_2::{
    context::session::SeqState,
    model::{LlamaModel, params::LlamaModelParams},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// The settings of an engine.
#[derive(Debug, Clone)]
pub(crate) struct EngineSettings {
    /// The model's name, for errors.
    pub(crate) model: String,
    pub(crate) path: PathBuf,
    /// Prompt and answer of one request, in tokens.
    pub(crate) context_length: usize,
    /// How many prompts are kept, so that the next request reuses what it shares with one.
    pub(crate) sequences: usize,
    /// How many threads to use in all.
    pub(crate) threads: usize,
    pub(crate) cpu: CpuBudget,
}

impl EngineSettings {
    /// How many requests are computed at once.
    pub(crate) fn workers(&self) -> usize {
        self.sequences.min(self.threads)
    }

    /// How many prompts each worker keeps.
    pub(super) fn slots_each(&self) -> usize {
        self.sequences.div_ceil(self.workers())
    }
}

/// A prompt with what a context computed for it.
#[derive(Debug)]
pub(super) struct PromptState {
    pub(super) tokens: Vec<i32>,
    pub(super) state: SeqState,
}

/// The state that the threads share.
pub(super) struct EngineState {
    pub(super) settings: EngineSettings,
    pub(super) queue: JobQueue<(LlamaJob, OutcomeSender), PromptState>,
    /// The calls at present.
    pub(super) call_load: CallLoad,
    /// Also held while a context is made, which llama.cpp cannot do twice at
    /// a time for one model.
    weights: Mutex<Option<Arc<LlamaModel>>>,
}

impl EngineState {
    pub(super) fn new(settings: EngineSettings) -> Self {
        let queue = JobQueue::new(settings.workers());
        Self { settings, queue, call_load: CallLoad::default(), weights: Mutex::new(None) }
    }

    /// The weights, which are loaded the first time.
    pub(super) fn weights(&self) -> Result<Arc<LlamaModel>, Error> {
        let mut weights = locked(&self.weights);
        if let Some(model) = &*weights {
            return Ok(model.clone());
        }
        let path = &self.settings.path;
        let model = LlamaModel::load_from_file(backend()?, path, &LlamaModelParams::default()).map_err(|_| {
            Error::bad_file(path, "llama.cpp cannot load its weights: it is cut off, or does not fit into memory")
        })?;
        Ok(weights.insert(Arc::new(model)).clone())
    }

    /// How many threads a request gets at present.
    pub(super) fn threads_for_a_call(&self) -> usize {
        if self.call_load.is_single() { self.settings.threads } else { self.settings.threads / self.settings.workers() }
    }

    /// Runs `make` while no other thread makes a context.
    pub(super) fn exclusively<T>(&self, make: impl FnOnce() -> T) -> T {
        let _lock = locked(&self.weights);
        make()
    }

    pub(super) fn failure(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::runtime(&self.settings.model, cause)
    }
}
