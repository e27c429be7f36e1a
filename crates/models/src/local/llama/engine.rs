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
    job::{JobOutcome, LlamaJob, OutcomeSender, ids},
    shared::{EngineSettings, EngineState},
    worker::LlamaWorker,
};
use crate::Error;
use llama_cpp_2::model::LlamaModel;
use std::sync::Arc;
use tokio::{runtime::Runtime, sync::oneshot};

/// A handle to the threads; they end when it is dropped.
pub(crate) struct LlamaEngine {
    shared: Arc<EngineState>,
}

impl LlamaEngine {
    /// Starts the threads. They sleep, and hold no weights, until the first job.
    pub(crate) fn start(settings: EngineSettings) -> Result<Self, Error> {
        let shared = Arc::new(EngineState::new(settings));
        // The engine is made first, so that the threads end if one of them cannot be started.
        let engine = Self { shared: shared.clone() };
        for thread in 0..shared.settings.workers() {
            let failed = |error: std::io::Error| shared.failure(format!("no thread could be started: {error}"));
            // Without drivers, this runtime is only used to wait for cores.
            let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(failed)?;
            let shared = shared.clone();
            let run = move || {
                let _leaves = ThreadExit(&shared, thread);
                work(&shared, thread, &runtime);
            };
            std::thread::Builder::new().name("llama".into()).spawn(run).map_err(failed)?;
        }
        Ok(engine)
    }

    /// Runs a job. Dropping the future ends it after its current step.
    pub(crate) async fn run(&self, job: LlamaJob) -> Result<JobOutcome, Error> {
        let _call = self.shared.call_load.enter();
        let (reply, outcome) = oneshot::channel();
        self.shared.queue.push(&ids(&job.prompt), (job, reply));
        outcome.await.map_err(|_| self.shared.failure("its threads have ended"))?
    }
}

impl Drop for LlamaEngine {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

/// Reports that a thread has ended, even after a panic, so that no caller waits
/// for an answer that cannot come.
struct ThreadExit<'a>(&'a EngineState, usize);

impl Drop for ThreadExit<'_> {
    fn drop(&mut self) {
        self.0.queue.leave(self.1);
    }
}

/// What one thread does.
fn work(shared: &EngineState, thread: usize, runtime: &Runtime) {
    // A thread without weights holds no prompts, has no answer to send, and has nothing to copy for other threads.
    // If loading fails, the job gets the error, and the next job tries again.
    while let Some((job, reply)) = shared.queue.next(thread, Vec::new(), || (), |_| None) {
        if reply.is_closed() {
            continue;
        }
        match shared.weights() {
            Ok(model) => return work_with(shared, &model, thread, runtime, (job, reply)),
            // The caller may be gone; then nobody needs the error.
            Err(error) => drop(reply.send(Err(error))),
        }
    }
}

fn work_with(
    shared: &EngineState,
    model: &LlamaModel,
    thread: usize,
    runtime: &Runtime,
    first: (LlamaJob, OutcomeSender),
) {
    let mut next = Some(first);
    let mut worker: Option<LlamaWorker<'_>> = None;
    while let Some((job, reply)) = next {
        let made = match worker.take() {
            Some(worker) => Ok(worker),
            None => LlamaWorker::new(shared, model, runtime, thread),
        };
        let outcome = made.and_then(|made| worker.insert(made).answer(job, &reply));
        let prompts = worker.as_ref().map(LlamaWorker::prompts).unwrap_or_default();
        let copy = |prompt: &[i32]| worker.as_ref()?.copy_of(prompt);
        next = shared.queue.next(thread, prompts, || drop(reply.send(outcome)), copy);
    }
}
