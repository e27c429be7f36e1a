//! A whole run: many inputs, one task for each, results as they come.

use crate::{
    Call, Completed, Completions, Error, ExecutionDetails, Limiter, Retryable,
    attempt::panic_message,
    completions::{Delivery, Order},
};
use futures::{FutureExt, Stream, StreamExt, poll};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    sync::{
        Semaphore,
        mpsc::{UnboundedSender, unbounded_channel},
    },
    task::JoinSet,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How many inputs per possible call in flight are taken ahead, so that
/// back-offs, late neighbours (in an ordered run) and a slow reader do not
/// leave slots empty.
const WINDOW_PER_SLOT: usize = 4;

/// A task that does not wait, but takes longer than this, computes.
const COMPUTES: Duration = Duration::from_micros(50);
/// After so many tasks that did not wait, others have a turn.
const TURN: u32 = 64;

/// Runs a task for each of many inputs. Cheap to clone; each run is its own.
#[derive(Debug, Clone)]
pub struct Executor {
    limiter: Limiter,
    window: usize,
    call: Call,
    on_failure: OnFailure,
    stop: CancellationToken,
    cancel: CancellationToken,
    grace: Duration,
}

/// What a task that failed for good means for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// They go on.
    #[default]
    Continue,
    /// The run is cancelled.
    Cancel,
}

impl Executor {
    /// An executor whose calls pass this limiter.
    pub fn builder(limiter: Limiter) -> ExecutorBuilder {
        let window = limiter.maximum().saturating_mul(WINDOW_PER_SLOT);
        let (stop, cancel) = (CancellationToken::new(), CancellationToken::new());
        let on_failure = OnFailure::default();
        let grace = Duration::from_secs(1);
        ExecutorBuilder(Self { limiter, window, call: Call::default(), on_failure, stop, cancel, grace })
    }

    /// Runs a task for each input, and gives the results as they come. The
    /// input is cloned for each attempt. An iterator is given as
    /// [`futures::stream::iter`].
    ///
    /// Inputs are taken when there is room for them, so the stream may be
    /// endless. After a cancellation, tasks that were taken but have no result
    /// end with [`Error::Cancelled`]; inputs that were not taken have no entry.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled: the tasks run on it.
    pub fn run<S, F, Fut, T, E>(&self, inputs: S, task: F) -> Completions<T, E>
    where
        S: Stream + Send + 'static,
        S::Item: Clone + Send,
        F: Fn(S::Item) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Retryable + Send + 'static,
    {
        self.start(inputs, task, Order::AsCompleted)
    }

    /// [`Executor::run`], with the results in the order of the inputs. A late
    /// one holds back those after it, and when the window is full of them,
    /// also new tasks.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub fn run_ordered<S, F, Fut, T, E>(&self, inputs: S, task: F) -> Completions<T, E>
    where
        S: Stream + Send + 'static,
        S::Item: Clone + Send,
        F: Fn(S::Item) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Retryable + Send + 'static,
    {
        self.start(inputs, task, Order::AsGiven)
    }

    /// Runs a task for each input of a list, and gives one entry for each, in
    /// the same order, also for those that did not run.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn run_all<I, F, Fut, T, E>(&self, inputs: Vec<I>, task: F) -> Vec<Completed<T, E>>
    where
        I: Clone + Send + 'static,
        F: Fn(I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Retryable + Send + 'static,
    {
        let did_not_run =
            |index| Completed { index, output: Err(Error::Cancelled), details: ExecutionDetails::default() };
        let mut all: Vec<_> = (0..inputs.len()).map(did_not_run).collect();
        let mut results = self.run(futures::stream::iter(inputs), task);
        while let Some(completed) = results.next().await {
            let index = completed.index;
            if let Some(entry) = all.get_mut(index) {
                *entry = completed;
            }
        }
        all
    }

    fn start<S, F, Fut, T, E>(&self, inputs: S, task: F, order: Order) -> Completions<T, E>
    where
        S: Stream + Send + 'static,
        S::Item: Clone + Send,
        F: Fn(S::Item) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Retryable + Send + 'static,
    {
        let (sender, receiver) = unbounded_channel();
        // A failure may cancel this run, but not others with the same token.
        let cancel = self.cancel.child_token();
        let run = Self { cancel: cancel.clone(), ..self.clone() };
        let feeder = AbortOnDropHandle::new(tokio::spawn(run.feed(inputs, task, sender)));
        Completions::new(receiver, order, cancel, self.grace, feeder)
    }

    /// Takes inputs while there is room in the window, and runs their tasks.
    /// The channel needs no bound of its own: each delivery holds a place.
    async fn feed<S, F, Fut, T, E>(self, inputs: S, task: F, sender: UnboundedSender<Delivery<T, E>>)
    where
        S: Stream + Send + 'static,
        S::Item: Clone + Send,
        F: Fn(S::Item) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Retryable + Send + 'static,
    {
        let mut inputs = std::pin::pin!(inputs);
        let (executor, task) = (Arc::new(self), Arc::new(task));
        let window = Arc::new(Semaphore::new(executor.window));
        // Dropped with this future, and with it every task in flight.
        let mut in_flight = JoinSet::new();
        let (mut computes, mut polled) = (false, 0u32);
        let mut cancelled = std::pin::pin!(executor.cancel.cancelled());
        let mut stopped = std::pin::pin!(executor.stop.cancelled());
        for index in 0.. {
            while in_flight.try_join_next().is_some() {}
            let next = async {
                // The semaphore is never closed, so there always is a place.
                let place = window.clone().acquire_owned().await.ok()?;
                Some((place, AssertUnwindSafe(inputs.next()).catch_unwind().await))
            };
            let taken = tokio::select! {
                biased;
                () = &mut cancelled => break,
                () = &mut stopped => break,
                taken = next => taken,
            };
            let (place, input) = match taken {
                Some((place, Ok(Some(input)))) => (place, input),
                Some((_, Ok(None))) | None => break,
                Some((place, Err(payload))) => {
                    // Inputs that broke off must not look like inputs that ended.
                    let message = format!("while making an input: {}", panic_message(&*payload));
                    let (output, details) = (Err(Error::Panicked { message }), ExecutionDetails::default());
                    let _ = sender.send(Delivery { completed: Completed { index, output, details }, place });
                    break;
                }
            };
            let (run, task, results) = (executor.clone(), task.clone(), sender.clone());
            let mut call = Box::pin(async move {
                let Self { limiter, call, stop, cancel, .. } = &*run;
                let attempt = move || task(input.clone());
                let (output, details) = limiter.call_unless_stopped(*call, stop, cancel, attempt).await;
                let failed = !matches!(output, Ok(_) | Err(Error::Cancelled));
                if failed && run.on_failure == OnFailure::Cancel {
                    run.cancel.cancel();
                }
                // Fails only if the reader is gone, and then nobody misses it.
                let _ = results.send(Delivery { completed: Completed { index, output, details }, place });
            });
            // A task of its own costs more than many a call; one that does
            // not wait needs none. But what computes belongs on its own thread.
            let poll_here = !computes;
            if poll_here {
                let began = Instant::now();
                if poll!(&mut call).is_ready() {
                    computes = began.elapsed() > COMPUTES;
                    polled += 1;
                    if polled % TURN == 0 {
                        tokio::task::yield_now().await;
                    }
                    continue;
                }
            }
            in_flight.spawn(call);
        }
        drop(sender);
        while in_flight.join_next().await.is_some() {}
    }
}

/// Builds an [`Executor`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ExecutorBuilder(Executor);

impl ExecutorBuilder {
    /// How many inputs may be taken whose results were not yet read: the
    /// bound of the run's memory. Four times the limiter's maximum if not set.
    pub fn window(mut self, inputs: usize) -> Self {
        self.0.window = inputs;
        self
    }

    /// The priority of the run's calls at the limiter; a higher one goes first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.0.call = self.0.call.with_priority(priority);
        self
    }

    /// The group of the run's calls at the limiter: groups take turns.
    pub fn group(mut self, group: u64) -> Self {
        self.0.call = self.0.call.with_group(group);
        self
    }

    /// What each of the run's calls costs of the limit besides the number of calls.
    pub fn cost(mut self, cost: u64) -> Self {
        self.0.call = self.0.call.with_cost(cost);
        self
    }

    /// What a task that failed for good means for the others.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.0.on_failure = on_failure;
        self
    }

    /// When this token is cancelled, no more inputs are taken and no task
    /// begins, but those in flight go on to their end, retries included.
    pub fn stop_token(mut self, stop: CancellationToken) -> Self {
        self.0.stop = stop;
        self
    }

    /// When this token is cancelled, tasks in flight are cancelled too.
    pub fn cancel_token(mut self, cancel: CancellationToken) -> Self {
        self.0.cancel = cancel;
        self
    }

    /// How long after a cancellation the run waits for tasks that ignore it,
    /// such as one that blocks its thread; 1 s if not set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.0.grace = grace;
        self
    }

    /// The executor.
    pub fn build(mut self) -> Executor {
        self.0.window = self.0.window.clamp(1, Semaphore::MAX_PERMITS);
        self.0
    }
}

#[cfg(test)]
mod tests;
