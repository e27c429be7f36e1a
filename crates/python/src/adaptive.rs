//! The limit of `executor` for calls that the user's event loop makes:
//! [`executor::AdaptiveController`] learns how many may be in flight and how fast they may
//! start. A call that was refused for lack of capacity has not failed: it rests,
//! and is made again for as long as other calls get through.

use executor::{AdaptiveController, AdaptiveSettings, Controller, ErrorClass, Outcome, OutcomeKind, RetryPolicy};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The latency of an attempt, and how many others were in flight.
#[derive(Debug, Clone, Copy)]
pub struct AttemptLoad {
    /// How long it took.
    pub latency: Duration,
    /// How many attempts were in flight once it had started, itself included.
    pub in_flight: usize,
    /// How many others were in flight when it ended.
    pub others: usize,
}

/// A limit that is learned, and kept in memory from run to run of the same executor object.
#[derive(Debug)]
pub struct LearnedLimit {
    controller: AdaptiveController,
    retry: RetryPolicy,
    state: Mutex<LimitState>,
}

#[derive(Debug, Default)]
struct LimitState {
    /// When the controller admits the next call, if not now.
    paused_until: Option<Instant>,
    /// The first refusal since a call got through.
    refused_since: Option<Instant>,
}

impl LearnedLimit {
    /// A limit that has learned nothing yet; `maximum` is the most calls at once.
    pub fn new(maximum: usize) -> Self {
        let settings = AdaptiveSettings { maximum, ..AdaptiveSettings::default() };
        Self { controller: AdaptiveController::new(settings), retry: RetryPolicy::default(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, LimitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls may be in flight now.
    pub fn target(&self) -> usize {
        self.controller.target()
    }

    /// How long no call may start; `None` if a call may start now.
    pub fn pause_left(&self) -> Option<Duration> {
        let (mut state, now) = (self.state(), Instant::now());
        state.paused_until = state.paused_until.filter(|until| *until > now);
        state.paused_until.map(|until| until - now)
    }

    /// Charges a call to the rate limits. `false` if it has to wait: see
    /// [`LearnedLimit::pause_left`].
    pub fn admit(&self) -> bool {
        // What a call costs in tokens is not known here.
        let admitted = self.controller.admit(0, Instant::now());
        self.state().paused_until = admitted.err();
        admitted.is_ok()
    }

    /// A call had a result.
    pub fn record_success(&self, load: AttemptLoad) {
        self.state().refused_since = None;
        self.record(OutcomeKind::Completed, load, None, false);
    }

    /// A call failed for another reason than capacity, or took too long.
    pub fn record_failure(&self, load: AttemptLoad, timed_out: bool, again: bool) {
        let kind = if timed_out { OutcomeKind::TimedOut } else { OutcomeKind::Failed(ErrorClass::Transient) };
        self.record(kind, load, None, again);
    }

    /// A call was refused, for the `refusals`-th time. Returns how long it rests; none
    /// if no call has got through for too long.
    pub fn record_refusal(
        &self,
        load: AttemptLoad,
        retry_after: Option<Duration>,
        call: u64,
        refusals: u32,
    ) -> Option<Duration> {
        let now = Instant::now();
        let since = *self.state().refused_since.get_or_insert(now);
        let is_hopeless = now.saturating_duration_since(since) >= self.retry.max_refused;
        let rest = self.retry.delay(ErrorClass::RateLimited, retry_after, refusals, call).filter(|_| !is_hopeless);
        self.record(OutcomeKind::Failed(ErrorClass::RateLimited), load, retry_after, rest.is_some());
        rest
    }

    fn record(
        &self,
        kind: OutcomeKind,
        AttemptLoad { latency, in_flight, others }: AttemptLoad,
        retry_after: Option<Duration>,
        will_retry: bool,
    ) {
        let mut outcome = Outcome::new(kind, latency);
        (outcome.retry_after, outcome.will_retry) = (retry_after, will_retry);
        (outcome.in_flight, outcome.others) = (in_flight, others);
        self.controller.record(&outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(latency: Duration) -> AttemptLoad {
        AttemptLoad { latency, in_flight: 1, others: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_calls_rest_until_nothing_has_got_through_for_too_long() {
        let limit = LearnedLimit::new(64);
        let refuse = |refusals| limit.record_refusal(alone(Duration::from_millis(10)), None, 3, refusals);
        assert!(limit.admit());
        assert!(refuse(1).is_some_and(|rest| rest <= Duration::from_millis(500)));
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!(refuse(2).is_some(), "five minutes are not over");
        limit.record_success(alone(Duration::from_millis(10)));
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!(refuse(3).is_some(), "a call got through in between");
        tokio::time::advance(Duration::from_secs(301)).await;
        assert_eq!(refuse(4), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wish_of_the_other_side_is_kept() {
        let limit = LearnedLimit::new(64);
        let wish = Duration::from_millis(1500);
        assert_eq!(limit.record_refusal(alone(Duration::ZERO), Some(wish), 0, 1), Some(wish));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_calls_start_little_by_little_and_a_pause_ends_by_itself() {
        let limit = LearnedLimit::new(64);
        let started = (0..64).take_while(|_| limit.admit()).count();
        assert_eq!(started, 8);
        let pause = limit.pause_left().expect("a pause");
        tokio::time::advance(pause).await;
        assert_eq!(limit.pause_left(), None);
        assert!(limit.admit());
    }

    #[tokio::test(start_paused = true)]
    async fn the_target_grows_with_results_and_falls_with_refusals() {
        let limit = LearnedLimit::new(64);
        let full = |n: usize| AttemptLoad { latency: Duration::from_millis(10), in_flight: n, others: n - 1 };
        assert!(limit.admit());
        limit.record_success(full(8));
        for _ in 0..30 {
            limit.record_success(full(limit.target()));
        }
        let before = limit.target();
        assert!(before > 30, "{before}");
        limit.record_refusal(full(before), None, 0, 1);
        assert!(limit.target() < before, "{} of {before}", limit.target());
    }
}
