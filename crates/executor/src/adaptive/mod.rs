//! The default controller: learns concurrency, calls per minute and tokens per
//! minute at once, from what the other side announces and from how it behaves.
//!
//! - **Rates.** Each limit on calls or tokens is a token bucket. Its rate and
//!   level are declared, or come from the headers of answers. If no limit is
//!   known and calls are refused although fewer are in flight than were
//!   accepted before, a rate is learned from the number of calls that were
//!   accepted lately; it is raised slowly while no call is refused.
//! - **Concurrency.** It starts with a few calls and, until the first answer,
//!   lets in one more every few milliseconds, so that a slow but generous
//!   provider is used well from the start. Then it grows by one with each
//!   answer, as in TCP's slow start, until a call is refused and no rate is to
//!   blame, or until more calls in flight only make each call slower. The
//!   number that was accepted then is kept. From time to time, less often after
//!   each refusal, one more call is tried; while that is accepted, the number
//!   grows fast again.
//! - **Announcements are compared with what happens.** A limit is not believed
//!   if it is zero, or if more calls pass within a minute than it allows. A
//!   rate is not blamed for refusals that continue although calls are held back
//!   by it. A limit that is not believed holds no calls back; refusals then
//!   lower the concurrency. No pause is longer than a minute.
//! - A refusal is an error of the class [`ErrorClass::RateLimited`] or
//!   [`ErrorClass::Overloaded`]. Other failures say nothing about limits, but
//!   three time-outs in a row halve the concurrency.
//!
//! Sources: V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988
//! (slow start); L. Brakmo, L. Peterson, "TCP Vegas", 1995 (latency as a sign
//! of a queue).

pub(crate) mod bucket;
mod concurrency;
mod rates;
mod recent;
mod trust;

use crate::{Controller, ErrorClass, Outcome, OutcomeKind, RateHints};
use bucket::Bucket;
use concurrency::Concurrency;
use rates::Rates;
use recent::{Attempts, LatencyTrend};
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use trust::Trust;

/// Until the first answer, one more call may start after each interval.
const PACE: Duration = Duration::from_millis(5);

/// What is known about the limits of the other side from the start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveSettings {
    /// Calls in flight at first; 8 by default.
    pub initial: usize,
    /// Calls in flight at most; 256 by default.
    pub maximum: usize,
    /// The limit on calls, if it is known; otherwise it is learned.
    pub requests_per_minute: Option<f64>,
    /// The limit on tokens, if it is known; otherwise it is learned.
    pub tokens_per_minute: Option<f64>,
}

impl AdaptiveSettings {
    /// The smaller of each number of two settings; a limit that only one of them states holds.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        let least = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            initial: self.initial.min(other.initial),
            maximum: self.maximum.min(other.maximum),
            requests_per_minute: least(self.requests_per_minute, other.requests_per_minute),
            tokens_per_minute: least(self.tokens_per_minute, other.tokens_per_minute),
        }
    }
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self { initial: 8, maximum: 256, requests_per_minute: None, tokens_per_minute: None }
    }
}

/// The controller that the [module's documentation](self) describes.
pub struct AdaptiveController {
    initial: usize,
    maximum: AtomicUsize,
    target: AtomicUsize,
    state: Mutex<AdaptiveState>,
    listeners: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
}

#[derive(Debug)]
struct AdaptiveState {
    start: StartPace,
    concurrency: Concurrency,
    rates: Rates,
    announced: Announcements,
    attempts: Attempts,
    latency: LatencyTrend,
}

/// The state before the first answer.
#[derive(Debug, Default)]
struct StartPace {
    began: Option<Instant>,
    /// Calls that were let in so far.
    started: usize,
    /// Whether any attempt has ended.
    answered: bool,
}

/// The limits that the other side announced.
#[derive(Debug, Default)]
struct Announcements {
    /// The last announcement, as far as it is believed.
    hints: Option<RateHints>,
    trust: Trust,
}

impl AdaptiveController {
    /// A controller with this knowledge.
    pub fn new(settings: AdaptiveSettings) -> Self {
        let maximum = settings.maximum.max(1);
        let settings = AdaptiveSettings { maximum, initial: settings.initial.clamp(1, maximum), ..settings };
        let state = AdaptiveState {
            start: StartPace::default(),
            concurrency: Concurrency::new(settings.initial),
            rates: Rates::new(&settings, Instant::now()),
            announced: Announcements::default(),
            attempts: Attempts::default(),
            latency: LatencyTrend::default(),
        };
        // Until the first answer, `admit` holds calls back.
        Self {
            initial: settings.initial,
            maximum: maximum.into(),
            target: maximum.into(),
            state: Mutex::new(state),
            listeners: Mutex::default(),
        }
    }

    /// The learned or declared limits per second: calls, tokens.
    pub fn rates(&self) -> (Option<f64>, Option<f64>) {
        let state = self.state();
        (state.rates.requests.rate(), state.rates.tokens.rate())
    }

    /// Applies further settings for the same limits: if both state a number,
    /// the smaller one holds from now on. No limit becomes larger.
    pub fn restrict(&self, settings: &AdaptiveSettings) {
        let state = self.state();
        let stricter = settings.stricter(state.rates.declared);
        self.apply(state, &stricter, self.target().min(stricter.maximum.max(1)));
    }

    /// Replaces the limits that were declared so far, whether they are larger or
    /// smaller. What was learned of the concurrency stays.
    pub fn declare(&self, settings: &AdaptiveSettings) {
        self.apply(self.state(), settings, settings.maximum.max(1));
    }

    /// Applies declared limits, and tells the listeners if one is new. Before the first
    /// answer, no concurrency is learned, and `admit` holds calls back: the target is then
    /// only a cap, `at_first`.
    fn apply(&self, mut state: MutexGuard<'_, AdaptiveState>, declared: &AdaptiveSettings, at_first: usize) {
        let maximum = declared.maximum.max(1);
        let before = self.maximum.swap(maximum, Ordering::AcqRel);
        if !state.rates.declare(declared, Instant::now()) && before == maximum {
            return;
        }
        match state.start.answered {
            true => self.publish(&state),
            false => self.target.store(at_first, Ordering::Release),
        }
        drop(state);
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        listeners.iter().for_each(|listener| listener());
    }

    fn state(&self) -> MutexGuard<'_, AdaptiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, state: &AdaptiveState) {
        let target = state.concurrency.whole().clamp(1, self.maximum());
        self.target.store(target, Ordering::Release);
    }
}

impl Controller for AdaptiveController {
    fn target(&self) -> usize {
        self.target.load(Ordering::Acquire)
    }

    fn maximum(&self) -> usize {
        self.maximum.load(Ordering::Acquire)
    }

    fn admit(&self, cost: u64, now: Instant) -> Result<(), Instant> {
        let state = &mut *self.state();
        let paused = state.rates.paused_until(now);
        if let Some(at) = paused.or_else(|| state.start.paced_until(self.initial, now)) {
            return Err(at);
        }
        state.rates.take(cost as f64, now)?;
        state.start.started += 1;
        Ok(())
    }

    fn apply_hints(&self, hints: &RateHints) {
        let now = Instant::now();
        let state = &mut *self.state();
        let hints = state.announced.trust.apply_hints(hints);
        state.rates.apply_hints(&hints, now);
        state.announced.hints = Some(hints);
        if let (Some(rate), Some(usual)) = (state.rates.known_rate(), state.latency.usual()) {
            // By Little's law, a known rate needs this many calls in flight.
            state.concurrency.raise_if_fast((1.5 * rate * usual).min(self.maximum() as f64));
        }
        self.publish(state);
    }

    fn record(&self, outcome: &Outcome) {
        let now = Instant::now();
        let state = &mut *self.state();
        if !state.start.answered {
            state.start.answered = true;
            state.concurrency.set((state.start.started.max(self.initial) as f64).min(self.maximum() as f64));
        }
        if state.attempts.record(outcome.kind) {
            state.concurrency.halve();
        }
        match outcome.kind {
            OutcomeKind::Completed => state.accept(outcome, now, self.maximum()),
            kind if kind.is_refusal() => state.refuse(outcome, now),
            OutcomeKind::Failed(_) | OutcomeKind::TimedOut => {}
        }
        self.publish(state);
    }

    fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }
}

impl StartPace {
    /// When the next call may start, if not now.
    fn paced_until(&mut self, initial: usize, now: Instant) -> Option<Instant> {
        if self.answered {
            return None;
        }
        let began = *self.began.get_or_insert(now);
        let turn = self.started.checked_sub(initial)? + 1;
        let at = began + PACE * u32::try_from(turn).unwrap_or(u32::MAX);
        (at > now).then_some(at)
    }
}

impl Announcements {
    /// Whether the other side names a limit on calls or on tokens.
    fn names_a_limit(&self) -> bool {
        self.hints.is_some_and(|hints| hints.requests.per_minute.is_some() || hints.tokens.per_minute.is_some())
    }

    /// Drops limits that are no longer believed.
    fn drop_refuted(&mut self) {
        self.hints = self.hints.map(|hints| self.trust.believed(&hints));
    }
}

impl AdaptiveState {
    fn accept(&mut self, outcome: &Outcome, now: Instant, maximum: usize) {
        self.latency.record(outcome.latency);
        self.attempts.accept(now);
        self.concurrency.accept(outcome, self.latency.is_queued(), maximum, now);
        if self.announced.trust.accept(outcome.latency, now) {
            self.rates.forget_requests(now);
            self.announced.drop_refuted();
        }
        if self.announced.trust.accept_tokens(outcome.cost as f64) {
            self.rates.forget_tokens(now);
            self.announced.drop_refuted();
        }
    }

    fn refuse(&mut self, outcome: &Outcome, now: Instant) {
        let started = now.checked_sub(outcome.latency).unwrap_or(now);
        self.rates.refund(outcome.cost as f64, started);
        let is_first = self.attempts.refuse(now);
        let is_limited = outcome.kind == OutcomeKind::Failed(ErrorClass::RateLimited);
        if is_limited && self.rate_is_to_blame(outcome) && self.announced.trust.attributes_to_rate(outcome.latency, now)
        {
            let has_calls = |hints: RateHints| hints.requests.remaining.is_none_or(|remaining| remaining >= 1.0);
            if self.announced.hints.is_some_and(has_calls) {
                self.rates.tokens.raise_charge();
            }
            self.rates.pause(outcome.retry_after, now);
            return;
        }
        let was_lowered_again = self.concurrency.refuse(outcome, is_first, self.attempts.refused_share(), now);
        if was_lowered_again && is_limited && !self.announced.names_a_limit() {
            self.learn_rate(outcome, now);
        }
    }

    /// Whether the last announcement leaves too little for such a call.
    fn rate_is_to_blame(&self, outcome: &Outcome) -> bool {
        let Some(hints) = &self.announced.hints else { return false };
        // A limit without a rate cannot hold calls back.
        let short = |bucket: &Bucket, remaining: Option<f64>, needed: f64| {
            bucket.rate().is_some() && remaining.is_some_and(|remaining| remaining < needed)
        };
        outcome.retry_after.is_none_or(rates::is_meant_for_all)
            && (short(&self.rates.requests, hints.requests.remaining, 1.0)
                || short(&self.rates.tokens, hints.tokens.remaining, outcome.cost as f64))
    }

    /// Learns a rate, because concurrency alone does not explain the refusals.
    fn learn_rate(&mut self, outcome: &Outcome, now: Instant) {
        self.rates.pause(outcome.retry_after, now);
        if let Some(rate) = self.rates.learn(self.attempts.accepted_per_second(now), now) {
            // From now on the rate holds calls back, so the concurrency may be higher.
            self.concurrency.grow_fast_from(2.0 * rate * self.latency.usual().unwrap_or(1.0));
        }
    }
}

impl std::fmt::Debug for AdaptiveController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adaptive")
            .field("maximum", &self.maximum())
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
