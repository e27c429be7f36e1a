//! The limiter: lets calls of many callers through, within one limit.

use crate::{
    Call, Controller, Error, ErrorClass, FixedController, Hedge, Outcome, OutcomeKind, RateHints, RetryPolicy,
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

/// Lets calls through as its [`Controller`] allows, and repeats calls that
/// failed for a passing reason. There is one limiter for each limited thing.
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
        Self::new(Arc::new(FixedController::new(concurrency)))
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

    /// The present state, and counts of what has happened so far.
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

    /// Passes on to the controller what the other side announces about its limits. A
    /// task does so as soon as it has its answer, before it ends.
    pub fn apply_hints(&self, hints: &RateHints) {
        self.slots.apply_hints(hints);
    }

    /// Makes a call: waits for a slot and makes an attempt. If the attempt
    /// fails for a passing reason, the call gives the slot back, waits, and
    /// tries again.
    ///
    /// A call that is refused for lack of capacity has not failed: it is tried
    /// again as long as other calls get through, and given up with
    /// [`Error::Stalled`] only when no call has got through for
    /// [`RetryPolicy::max_refused`].
    ///
    /// Calls with a higher priority go first. Within a priority, retries go before first
    /// attempts, then groups take turns, then the order of arrival decides. A cancellation
    /// drops the attempt in flight; so does dropping the future.
    ///
    /// # Errors
    /// The error of the last attempt, or why there was no attempt.
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
        let (call, mut last) = (call.into(), None);
        let attempts = self.attempts(call, cancel, task, &mut last);
        match call.deadline {
            None => attempts.await,
            Some(deadline) => match tokio::time::timeout_at(deadline, attempts).await {
                Ok(result) => result,
                Err(_) => Err(Error::DeadlineExceeded { last }),
            },
        }
    }

    /// Makes the attempts of a call; `last` becomes the error of the last failed one.
    async fn attempts<T, E, F, Fut>(
        &self,
        call: Call,
        cancel: &CancellationToken,
        mut task: F,
        last: &mut Option<String>,
    ) -> Result<T, Error<E>>
    where
        E: Retryable,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let number = self.slots.next_call();
        let (mut attempts, mut failures, mut refusals) = (0, 0, 0);
        let (mut at_the_end, mut refused) = (false, None);
        loop {
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let slot = match self.slots.try_acquire(&call) {
                Some(slot) => slot,
                None => tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Err(Error::Cancelled),
                    slot = self.slots.acquire(&call, attempts, at_the_end) => match slot {
                        Ok(slot) => slot,
                        Err(refusal) => return Err(self.stalled(refusal.as_ref().to_owned())),
                    },
                },
            };
            attempts += 1;
            let started = slot.since();
            // If a result is there at the moment of a cancellation, the result wins.
            let ended = tokio::select! {
                biased;
                ended = self.attempt(&call, &mut task) => Some(ended),
                () = cancel.cancelled() => None,
            };
            let latency = started.elapsed();
            let (error, kind, class, retry_after) = match ended {
                None => return Err(Error::Cancelled),
                Some(Attempt::Finished(Ok(output))) => {
                    if self.hedge.is_some() {
                        self.latencies.record(latency);
                    }
                    slot.finish(Outcome::new(OutcomeKind::Completed, latency));
                    return Ok(output);
                }
                Some(Attempt::Finished(Err(error))) => {
                    let (class, retry_after) = (error.class(), error.retry_after());
                    let kind = if error.is_timeout() { OutcomeKind::TimedOut } else { OutcomeKind::Failed(class) };
                    (Error::Failed(error), kind, class, retry_after)
                }
                Some(Attempt::TimedOut(after)) => {
                    (Error::TimedOut { after }, OutcomeKind::TimedOut, ErrorClass::Transient, None)
                }
                Some(Attempt::Panicked(message)) => {
                    let class = ErrorClass::Permanent;
                    (Error::Panicked { message }, OutcomeKind::Failed(class), class, None)
                }
            };
            let text = error.to_string();
            let is_refusal = kind.is_refusal();
            let tries = if is_refusal { &mut refusals } else { &mut failures };
            *tries += 1;
            let delay = self.retry.delay(class, retry_after, *tries, number);
            at_the_end |= self.retry.exceeds(retry_after);
            // A wait that ends after the deadline would be useless.
            let delay = delay.filter(|delay| call.deadline.is_none_or(|deadline| Instant::now() + *delay < deadline));
            let gives_up = is_refusal && delay.is_some() && {
                refused.get_or_insert_with(|| self.slots.refusals.enter());
                self.slots.give_up(self.retry.max_refused, &text)
            };
            // The slot is given back here: a call that waits holds none.
            slot.finish(Outcome {
                retry_after,
                will_retry: delay.is_some() && !gives_up,
                ..Outcome::new(kind, latency)
            });
            if gives_up {
                return Err(self.stalled(text));
            }
            let Some(delay) = delay else { return Err(error) };
            *last = Some(text);
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Error::Cancelled),
                () = tokio::time::sleep(delay) => {}
                () = self.slots.refusals.until_given_up(), if is_refusal => {
                    return Err(self.stalled(last.take().unwrap_or_default()));
                }
            }
        }
    }

    /// The error of a call that is given up because no call gets through.
    fn stalled<E>(&self, last: String) -> Error<E> {
        Error::Stalled { after: self.retry.max_refused, last }
    }

    /// Makes one attempt, and a second one beside it if the first is late.
    async fn attempt<T, E, F, Fut>(&self, call: &Call, task: &mut F) -> Attempt<T, E>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let late = self.hedge.and_then(|hedge| Some((hedge, self.latencies.late_after(&hedge)?)));
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
        if !self.latencies.allow_hedge(hedge) {
            return None;
        }
        self.slots.counters.hedged.fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }
}

/// The present state of a limiter, and counts of how attempts ended. The
/// difference between two states gives the rates.
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
    /// Attempts that failed, and were neither refused nor timed out.
    pub failed: u64,
    /// Attempts that the other side refused for lack of capacity.
    pub refused: u64,
    /// Attempts that took too long.
    pub timed_out: u64,
    /// Second attempts beside late ones.
    pub hedged: u64,
    /// The cost of attempts with a result, as callers estimated it.
    pub cost: u64,
}

impl LimiterStatus {
    /// All attempts that ended.
    pub fn attempts(&self) -> u64 {
        self.completed + self.failed + self.refused + self.timed_out
    }

    /// The share of all attempts that were refused, or 0 before the first.
    pub fn refused_share(&self) -> f64 {
        let attempts = self.attempts();
        if attempts == 0 { 0.0 } else { self.refused as f64 / attempts as f64 }
    }
}

#[cfg(test)]
mod tests;
