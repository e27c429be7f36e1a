//! Threads that answer requests, sharing one copy of the weights. Each thread
//! owns a context and computes one request at a time; a request that is alone
//! gets all cores.
//!
//! Why not one batch over all requests? On a CPU the cores are the limit, not
//! the memory. Measured with the 0.5 B model (Q5_0) on one core: a step with
//! one token takes 21 ms, with two 81 ms, with four 107 ms; and two threads
//! on one request wait for each other at hundreds of barriers per token,
//! where two requests on a thread each wait for nothing.
//!
//! It also makes an answer a function of its request alone. The kernels of
//! llama.cpp round differently for one token, a few and many, so that an
//! answer from a batch depends on what else was in the batch, and a resumed
//! run would not repeat an uninterrupted one. Here a prompt is always computed
//! in steps of many tokens, an answer always in steps of one, and only what
//! was computed as a prompt is reused for a prompt.

use super::{
    Sampler, Vocabulary, Writer, backend,
    load::Load,
    queue::Queue,
    worker::{Computed, Worker},
};
use crate::{CpuBudget, Error, Finish, OnPiece};
use llama_cpp_2::{
    model::{LlamaModel, params::LlamaModelParams},
    token::LlamaToken,
};
use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{runtime::Runtime, sync::oneshot};

/// The settings of an engine.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The model's name, for errors.
    pub(crate) model: String,
    /// The GGUF file.
    pub(crate) path: PathBuf,
    /// Prompt and answer of one request, in tokens.
    pub(crate) context_length: usize,
    /// How many prompts are kept for what they share with the next.
    pub(crate) sequences: usize,
    /// How many threads to use in all.
    pub(crate) threads: usize,
    /// The cores.
    pub(crate) cpu: CpuBudget,
}

impl Settings {
    /// How many requests are computed at once.
    pub(crate) fn workers(&self) -> usize {
        self.sequences.min(self.threads)
    }

    /// How many prompts each of them keeps.
    pub(super) fn slots_each(&self) -> usize {
        self.sequences.div_ceil(self.workers())
    }
}

/// A request that was checked and is ready to run.
#[derive(Debug)]
pub(crate) struct Job {
    /// The conversation up to where the answer begins; never empty.
    pub(crate) prompt: Vec<LlamaToken>,
    /// What is asked for.
    pub(crate) goal: Goal,
    /// Kept until the job is done, since a grammar refers to it.
    pub(crate) vocabulary: Arc<Vocabulary>,
}

/// The kind of result that a job asks for.
#[derive(Debug)]
pub(crate) enum Goal {
    /// The probabilities of groups of tokens as the first token of the answer.
    Choices(Vec<Vec<i32>>),
    /// An answer in words.
    Text(Box<Writing>),
}

/// An answer being written.
#[derive(Debug)]
pub(crate) struct Writing {
    /// Chooses its tokens.
    pub(crate) sampler: Sampler,
    /// Puts its text together.
    pub(crate) writer: Writer,
    /// How many tokens it may have, at least 1.
    pub(crate) limit: usize,
    /// The reader of the answer while it is written.
    pub(crate) reader: Option<Reader>,
}

/// Takes the pieces of an answer.
#[derive(Clone)]
pub(crate) struct Reader(pub(crate) OnPiece);

impl Reader {
    pub(super) fn read(&self, piece: &str) {
        if !piece.is_empty() {
            (self.0)(piece);
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// The result of a job.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The answer.
    pub(crate) text: String,
    /// Why it ended; `None` for choices.
    pub(crate) finish: Option<Finish>,
    /// One probability per choice.
    pub(crate) choices: Vec<f64>,
    /// How many tokens of the prompt had been computed before.
    pub(crate) cached: usize,
    /// How many tokens were written.
    pub(crate) written: usize,
    /// How long it took, without the time in the queue.
    pub(crate) seconds: f64,
}

/// A handle to the threads; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Engine {
    shared: Arc<Shared>,
}

/// Where an outcome goes; closed when nobody waits for it any more.
pub(super) type Reply = oneshot::Sender<Result<Outcome, Error>>;

/// The state that the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) queue: Queue<(Job, Reply), Computed>,
    load: Load,
    /// Also held while a context is made, which llama.cpp cannot do twice at
    /// a time for one model.
    weights: Mutex<Option<Arc<LlamaModel>>>,
}

impl Engine {
    /// Starts the threads. They sleep, and hold no weights, until the first job.
    pub(crate) fn start(settings: Settings) -> Result<Self, Error> {
        let queue = Queue::new(settings.workers());
        let shared = Arc::new(Shared { settings, queue, load: Load::default(), weights: Mutex::new(None) });
        // The engine is made first, so that the threads end if one of them cannot be started.
        let engine = Self { shared: shared.clone() };
        for thread in 0..shared.settings.workers() {
            let failed = |error: std::io::Error| shared.failure(format!("no thread could be started: {error}"));
            // Without drivers, this runtime is only used to wait for cores.
            let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(failed)?;
            let shared = shared.clone();
            let work = move || {
                let _leaves = Leaves(&shared, thread);
                shared.work(thread, &runtime);
            };
            std::thread::Builder::new().name("llama".into()).spawn(work).map_err(failed)?;
        }
        Ok(engine)
    }

    /// Runs a job. Dropping the future ends it after its current step.
    pub(crate) async fn run(&self, job: Job) -> Result<Outcome, Error> {
        let _call = self.shared.load.enter();
        let (reply, outcome) = oneshot::channel();
        self.shared.queue.push(&ids(&job.prompt), (job, reply));
        outcome.await.map_err(|_| self.shared.failure("its threads have ended"))?
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

/// Reports that a thread has ended, even after a panic, so that no caller waits
/// for an answer that cannot come.
struct Leaves<'a>(&'a Shared, usize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.queue.leave(self.1);
    }
}

pub(super) fn ids(tokens: &[LlamaToken]) -> Vec<i32> {
    tokens.iter().map(|token| token.0).collect()
}

impl Shared {
    /// What one thread does.
    fn work(&self, thread: usize, runtime: &Runtime) {
        // If loading fails, the job gets the error, and the next job tries again.
        while let Some((job, reply)) = self.queue.next(thread, Vec::new(), || (), |_| None) {
            if reply.is_closed() {
                continue;
            }
            match self.weights() {
                Ok(model) => return self.work_with(&model, thread, runtime, (job, reply)),
                // The caller may be gone; then nobody needs the error.
                Err(error) => drop(reply.send(Err(error))),
            }
        }
    }

    fn work_with(&self, model: &LlamaModel, thread: usize, runtime: &Runtime, first: (Job, Reply)) {
        let mut next = Some(first);
        let mut worker: Option<Worker<'_>> = None;
        while let Some((job, reply)) = next {
            let made = match worker.take() {
                Some(worker) => Ok(worker),
                None => Worker::new(self, model, runtime, thread),
            };
            let outcome = made.and_then(|made| worker.insert(made).answer(job, &reply));
            let prompts = worker.as_ref().map(Worker::prompts).unwrap_or_default();
            let copy = |prompt: &[i32]| worker.as_ref()?.copy_of(prompt);
            next = self.queue.next(thread, prompts, || drop(reply.send(outcome)), copy);
        }
    }

    fn weights(&self) -> Result<Arc<LlamaModel>, Error> {
        let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
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
        if self.load.is_single() { self.settings.threads } else { self.settings.threads / self.settings.workers() }
    }

    /// Runs `make` while no other thread makes a context.
    pub(super) fn alone<T>(&self, make: impl FnOnce() -> T) -> T {
        let _alone = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        make()
    }

    pub(super) fn failure(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::runtime(&self.settings.model, cause)
    }
}
