//! Calls of one kind, by many callers, within one limit.

use crate::{
    Call, Controller, Error, ErrorClass, ExecutionDetails, Fixed, Hedge, Outcome, OutcomeKind, RateHints, RetryPolicy,
    Retryable,
    attempt::{Attempt, attempt},
    hedge::Latencies,
    slots::{Slot, Slots},
};
use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Lets calls through as its [`Controller`] allows, and tries again what
/// failed for a passing reason. There is one for each thing that is limited.
///
/// Clones share the limit; how to retry, how long to wait for an attempt and
/// when to make a second one belong to each handle.
#[derive(Debug, Clone)]
pub struct Limiter {
    slots: Arc<Slots>,
    latencies: Arc<Latencies>,
    retry: RetryPolicy,
    attempt_timeout: Option<Duration>,
    hedge: Option<Hedge>,
}

impl Limiter {
    /// A limiter with the default [`RetryPolicy`], no time limit and no second attempts.
    pub fn new(controller: Arc<dyn Controller>) -> Self {
        Self {
            slots: Slots::new(controller),
            latencies: Arc::default(),
            retry: RetryPolicy::default(),
            attempt_timeout: None,
            hedge: None,
        }
    }

    /// At most this many calls in flight.
    pub fn fixed(concurrency: usize) -> Self {
        Self::new(Arc::new(Fixed::new(concurrency)))
    }

    /// This handle, with another retry policy.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// This handle, with a time limit for each attempt. An attempt that
    /// exceeds it is dropped, and counts as a transient failure.
    #[must_use]
    pub fn with_attempt_timeout(self, limit: Duration) -> Self {
        Self { attempt_timeout: Some(limit), ..self }
    }

    /// This handle, with a second attempt beside one that is late.
    #[must_use]
    pub fn with_hedge(self, hedge: Hedge) -> Self {
        Self { hedge: Some(hedge), ..self }
    }

    /// What is going on now, and what happened so far.
    pub fn status(&self) -> LimiterStatus {
        let (in_flight, waiting) = self.slots.counts();
        let counters = &self.slots.counters;
        LimiterStatus {
            in_flight,
            waiting,
            target: self.slots.controller().target(),
            completed: counters.completed.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
            timed_out: counters.timed_out.load(Ordering::Relaxed),
            hedged: counters.hedged.load(Ordering::Relaxed),
            cost: counters.cost.load(Ordering::Relaxed),
        }
    }

    /// Tells the controller what the other side says of its limits. A task
    /// does so as soon as it has its answer, before it ends.
    pub fn hear(&self, hints: &RateHints) {
        self.slots.hear(hints);
    }

    /// Makes a call: waits for a slot, makes an attempt, and where that fails
    /// for a passing reason gives the slot back, waits, and tries again.
    ///
    /// A higher priority goes first; within one, retries go before first
    /// attempts, then groups take turns, then who came first. A cancellation
    /// drops the attempt in flight. So does dropping the future.
    ///
    /// # Errors
    /// The error of the last attempt, or why there was none.
    pub async fn call<T, E, F, Fut>(
        &self,
        call: impl Into<Call>,
        cancel: &CancellationToken,
        task: F,
    ) -> Result<T, Error<E>>
    where
        E: Retryable,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call_with_details(call, cancel, task).await.0
    }

    /// [`Limiter::call`], and how it went.
    pub async fn call_with_details<T, E, F, Fut>(
        &self,
        call: impl Into<Call>,
        cancel: &CancellationToken,
        task: F,
    ) -> (Result<T, Error<E>>, ExecutionDetails)
    where
        E: Retryable,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call_unless_stopped(call.into(), cancel, cancel, task).await
    }

    /// A call that `stop` prevents as long as it has not begun, and `cancel`
    /// ends at any time.
    pub(crate) async fn call_unless_stopped<T, E, F, Fut>(
        &self,
        call: Call,
        stop: &CancellationToken,
        cancel: &CancellationToken,
        task: F,
    ) -> (Result<T, Error<E>>, ExecutionDetails)
    where
        E: Retryable,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut details = ExecutionDetails::default();
        let attempts = self.attempts(call, stop, cancel, task, &mut details);
        let result = match call.deadline {
            None => attempts.await,
            Some(deadline) => match tokio::time::timeout_at(deadline, attempts).await {
                Ok(result) => result,
                Err(_) => {
                    details.fail();
                    Err(Error::DeadlineExceeded { last: details.errors.last().cloned() })
                }
            },
        };
        (result, details)
    }

    async fn attempts<T, E, F, Fut>(
        &self,
        call: Call,
        stop: &CancellationToken,
        cancel: &CancellationToken,
        mut task: F,
        details: &mut ExecutionDetails,
    ) -> Result<T, Error<E>>
    where
        E: Retryable,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let number = self.slots.next_call();
        let mut attempts = 0;
        loop {
            if cancel.is_cancelled() || (attempts == 0 && stop.is_cancelled()) {
                return Err(Error::Cancelled);
            }
            let slot = match self.slots.try_acquire(&call) {
                Some(slot) => slot,
                None => tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Err(Error::Cancelled),
                    () = stop.cancelled(), if attempts == 0 => return Err(Error::Cancelled),
                    slot = self.slots.acquire(&call, attempts) => slot,
                },
            };
            attempts += 1;
            let started = slot.since();
            // A result that is there at the moment of a cancellation wins.
            let ended = tokio::select! {
                biased;
                ended = self.attempt(&call, &mut task) => Some(ended),
                () = cancel.cancelled() => None,
            };
            let latency = started.elapsed();
            details.execution_seconds += latency.as_secs_f64();
            let failure = match ended {
                None => return Err(Error::Cancelled),
                Some(Attempt::Finished(Ok(output))) => {
                    if self.hedge.is_some() {
                        self.latencies.record(latency);
                    }
                    slot.finish(Outcome::new(OutcomeKind::Completed, latency));
                    details.complete();
                    return Ok(output);
                }
                Some(Attempt::Finished(Err(error))) => Failure {
                    kind: OutcomeKind::Failed(error.class()),
                    class: error.class(),
                    retry_after: error.retry_after(),
                    text: error.to_string(),
                    error: Error::Failed(error),
                },
                Some(Attempt::TimedOut(after)) => Failure {
                    kind: OutcomeKind::TimedOut,
                    class: ErrorClass::Transient,
                    retry_after: None,
                    text: format!("no result within {after:?}"),
                    error: Error::TimedOut { after },
                },
                Some(Attempt::Panicked(message)) => Failure {
                    kind: OutcomeKind::Failed(ErrorClass::Permanent),
                    class: ErrorClass::Permanent,
                    retry_after: None,
                    text: format!("the task panicked: {message}"),
                    error: Error::Panicked { message },
                },
            };
            details.errors.push(failure.text);
            let delay = self.retry.delay(failure.class, failure.retry_after, attempts, number);
            // A wait that ends behind the deadline would be in vain.
            let delay = delay.filter(|delay| call.deadline.is_none_or(|deadline| Instant::now() + *delay < deadline));
            // The slot is given back here: nobody holds one while waiting.
            slot.finish(Outcome {
                retry_after: failure.retry_after,
                will_retry: delay.is_some(),
                ..Outcome::new(failure.kind, latency)
            });
            let Some(delay) = delay else {
                details.fail();
                return Err(failure.error);
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Error::Cancelled),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    /// One attempt, and where it is late a second one beside it.
    async fn attempt<T, E, F, Fut>(&self, call: &Call, task: &mut F) -> Attempt<T, E>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let late = self.hedge.and_then(|hedge| Some((hedge, self.latencies.late(&hedge)?)));
        let Some((hedge, late)) = late else {
            return attempt(task, self.attempt_timeout).await;
        };
        let mut first = pin!(attempt(task, self.attempt_timeout));
        tokio::select! {
            biased;
            ended = &mut first => return ended,
            () = tokio::time::sleep(late) => {}
        }
        let Some(_slot) = self.second_slot(call, &hedge) else {
            return first.await;
        };
        let mut second = pin!(attempt(task, self.attempt_timeout));
        tokio::select! {
            biased;
            ended = &mut first => match ended {
                Attempt::Finished(Ok(_)) => ended,
                _ => second.await,
            },
            ended = &mut second => match ended {
                Attempt::Finished(Ok(_)) => ended,
                _ => first.await,
            },
        }
    }

    fn second_slot(&self, call: &Call, hedge: &Hedge) -> Option<Slot> {
        let slot = self.slots.try_acquire(call)?;
        if !self.latencies.take(hedge) {
            return None;
        }
        self.slots.counters.hedged.fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }

    /// The most calls that will ever be in flight.
    pub(crate) fn maximum(&self) -> usize {
        self.slots.controller().maximum()
    }
}

/// An attempt without a result.
struct Failure<E> {
    kind: OutcomeKind,
    class: ErrorClass,
    retry_after: Option<Duration>,
    text: String,
    error: Error<E>,
}

/// What a limiter is doing, and how attempts ended so far. Two of them, some
/// time apart, give the rates between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimiterStatus {
    /// Calls in flight.
    pub in_flight: usize,
    /// Calls waiting for a slot.
    pub waiting: usize,
    /// How many the controller allows in flight.
    pub target: usize,
    /// Attempts with a result.
    pub completed: u64,
    /// Attempts that failed without being refused or late.
    pub failed: u64,
    /// Attempts that the other side refused for want of room.
    pub refused: u64,
    /// Attempts that took too long.
    pub timed_out: u64,
    /// Second attempts beside late ones.
    pub hedged: u64,
    /// What those with a result were said to cost.
    pub cost: u64,
}

impl LimiterStatus {
    /// The share of all attempts that were refused, or 0 before the first.
    pub fn refused_share(&self) -> f64 {
        let attempts = self.completed + self.failed + self.refused + self.timed_out;
        if attempts == 0 { 0.0 } else { self.refused as f64 / attempts as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExecutionStatus;
    use std::{
        collections::VecDeque,
        fmt,
        sync::{
            Mutex, PoisonError,
            atomic::{AtomicU32, Ordering},
        },
    };

    #[derive(Debug, Clone, PartialEq)]
    struct Fault(ErrorClass, Option<Duration>);

    impl fmt::Display for Fault {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }

    impl std::error::Error for Fault {}

    impl Retryable for Fault {
        fn class(&self) -> ErrorClass {
            self.0
        }
        fn retry_after(&self) -> Option<Duration> {
            self.1
        }
    }

    /// Calls in flight, calls waiting, and the target.
    fn places(limiter: &Limiter) -> (usize, usize, usize) {
        let status = limiter.status();
        (status.in_flight, status.waiting, status.target)
    }

    const TRANSIENT: Fault = Fault(ErrorClass::Transient, None);

    /// A task that fails with each of these in turn, then succeeds.
    fn failing(faults: &[Fault]) -> impl FnMut() -> std::future::Ready<Result<u32, Fault>> + use<> {
        let mut faults: VecDeque<Fault> = faults.iter().cloned().collect();
        move || std::future::ready(faults.pop_front().map_or(Ok(7), Err))
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_honoured_to_the_millisecond() {
        let limiter = Limiter::fixed(1);
        let wishes = [7_001, 250].map(|ms| Fault(ErrorClass::RateLimited, Some(Duration::from_millis(ms))));
        let started = Instant::now();
        let (output, details) = limiter.call_with_details(0, &CancellationToken::new(), failing(&wishes)).await;
        assert_eq!(output, Ok(7));
        assert_eq!(started.elapsed(), Duration::from_millis(7_251));
        assert_eq!(details.status, ExecutionStatus::CompletedWithRetries);
        assert_eq!(details.errors, ["RateLimited", "RateLimited"]);
        assert_eq!(details.execution_seconds, 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_backs_off_holds_no_slot() {
        let limiter = Limiter::fixed(1);
        let cancel = CancellationToken::new();
        let limited = Fault(ErrorClass::RateLimited, Some(Duration::from_secs(60)));
        let task = failing(&[limited]);
        let slow = limiter.call(0, &cancel, task);
        let quick = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(places(&limiter), (0, 0, 1));
            let output = limiter.call(0, &cancel, failing(&[])).await;
            (output, Instant::now())
        };
        let started = Instant::now();
        let (slow, (quick, quick_end)) = tokio::join!(slow, quick);
        assert_eq!((slow, quick), (Ok(7), Ok(7)));
        assert_eq!(quick_end - started, Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_hangs_is_dropped_and_tried_again() {
        let limiter = Limiter::fixed(1).with_attempt_timeout(Duration::from_secs(3));
        let attempts = AtomicU32::new(0);
        let task = || async {
            if attempts.fetch_add(1, Ordering::SeqCst) < 2 {
                std::future::pending::<()>().await;
            }
            Ok::<_, Fault>(())
        };
        let (output, details) = limiter.call_with_details(0, &CancellationToken::new(), task).await;
        assert_eq!(output, Ok(()));
        assert_eq!(details.errors.len(), 2);
        assert_eq!(details.execution_seconds, 6.0);

        let limiter = limiter.with_retry(RetryPolicy::never());
        let hanging = || std::future::pending::<Result<(), Fault>>();
        let (output, details) = limiter.call_with_details(0, &CancellationToken::new(), hanging).await;
        assert_eq!(output, Err(Error::TimedOut { after: Duration::from_secs(3) }));
        assert_eq!(details.status, ExecutionStatus::Failed);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_counted_and_the_last_error_is_the_result() {
        let limiter = Limiter::fixed(1).with_retry(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() });
        let (output, details) =
            limiter.call_with_details(0, &CancellationToken::new(), failing(&[TRANSIENT, TRANSIENT, TRANSIENT])).await;
        assert_eq!(output, Err(Error::Failed(TRANSIENT)));
        assert_eq!((details.errors.len(), details.status), (3, ExecutionStatus::Failed));

        for class in [ErrorClass::Permanent, ErrorClass::Budget] {
            let fault = Fault(class, None);
            let (output, details) =
                limiter.call_with_details(0, &CancellationToken::new(), failing(std::slice::from_ref(&fault))).await;
            assert_eq!(output, Err(Error::Failed(fault)));
            assert_eq!(details.errors.len(), 1);
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_slot() {
        let limiter = Limiter::fixed(1);
        let cancel = CancellationToken::new();
        // Once while the future is made, and once while it runs.
        let early = || -> std::future::Ready<Result<(), Fault>> { std::panic::panic_any("early") };
        let late = || async { std::panic::panic_any::<Result<(), Fault>>(Ok(())) };
        let panicked = |message: &str| Err(Error::Panicked { message: message.to_owned() });
        assert_eq!(limiter.call(0, &cancel, early).await, panicked("early"));
        assert_eq!(
            limiter.call::<(), Fault, _, _>(0, &cancel, || async { late().await }).await,
            panicked("(no message)")
        );
        assert_eq!(limiter.call(0, &cancel, failing(&[])).await, Ok(7));
        assert_eq!(limiter.status().in_flight, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancellation_ends_waiting_running_and_backing_off() {
        let limiter = Limiter::fixed(1);
        let cancel = CancellationToken::new();
        let hour = Fault(ErrorClass::RateLimited, Some(Duration::from_secs(300)));
        let task = failing(&[hour]);
        let backing_off = limiter.call(1, &cancel, task);
        let running = limiter.call(0, &cancel, std::future::pending::<Result<u32, Fault>>);
        let waiting = limiter.call(0, &cancel, failing(&[]));
        let canceller = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(places(&limiter), (1, 1, 1));
            cancel.cancel();
        };
        let started = Instant::now();
        let outputs = tokio::join!(backing_off, running, waiting, canceller);
        assert_eq!(outputs, (Err(Error::Cancelled), Err(Error::Cancelled), Err(Error::Cancelled), ()));
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        assert_eq!(places(&limiter), (0, 0, 1));
        assert_eq!(limiter.call(0, &cancel, failing(&[])).await, Err(Error::Cancelled), "and nothing starts after it");
    }

    #[derive(Debug, Default)]
    struct Recorder(Mutex<Vec<Outcome>>);

    impl Controller for Recorder {
        fn target(&self) -> usize {
            1
        }
        fn maximum(&self) -> usize {
            1
        }
        fn record(&self, outcome: &Outcome) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(*outcome);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_controller_hears_of_every_attempt() {
        let recorder = Arc::new(Recorder::default());
        let retry = RetryPolicy { max_attempts: 2, ..RetryPolicy::default() };
        let limiter = Limiter::new(recorder.clone()).with_retry(retry);
        let wish = Some(Duration::from_secs(2));
        let limited = Fault(ErrorClass::RateLimited, wish);
        let cancel = CancellationToken::new();
        let _ = limiter.call(0, &cancel, failing(std::slice::from_ref(&limited))).await;
        let _ = limiter.call(0, &cancel, failing(&[TRANSIENT, TRANSIENT])).await;
        let heard: Vec<_> = recorder
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|outcome| (outcome.kind, outcome.retry_after, outcome.will_retry))
            .collect();
        let transient = OutcomeKind::Failed(ErrorClass::Transient);
        assert_eq!(
            heard,
            [
                (OutcomeKind::Failed(ErrorClass::RateLimited), wish, true),
                (OutcomeKind::Completed, None, false),
                (transient, None, true),
                (transient, None, false),
            ]
        );
    }
}
