//! The default controller: learns concurrency, calls per minute and tokens
//! per minute at once, from what is said and from what happens.
//!
//! - **Rates.** Each limit on calls or tokens is a token bucket. Its rate and
//!   level come from the answers' headers as soon as one is heard, or were
//!   declared. Where nothing is said and calls are refused although fewer are
//!   in flight than were accepted before, a rate is learned from how many
//!   were accepted lately, and raised slowly while none is refused.
//! - **Concurrency.** It starts with a few calls and, until the first answer,
//!   lets in one more every few milliseconds, so that a slow and generous
//!   provider is not met with a slow start. Then it grows by one with each
//!   answer, as TCP's slow start does, until a call is refused for which no
//!   rate is to blame, or until more calls in flight only make each slower.
//!   The number that was accepted then is kept; at times, less often after
//!   each refusal, one more is tried, and while that is accepted it grows fast
//!   again.
//! - **What is said is weighed against what is seen.** A limit of nothing, or
//!   one that more calls passed in a minute than it allows, is not believed;
//!   nor is a rate blamed for refusals that go on though calls are held back
//!   by it. What is not believed holds nothing back, and refusals then teach
//!   concurrency. No pause is longer than a minute.
//! - A refusal is one of [`ErrorClass::RateLimited`] or
//!   [`ErrorClass::Overloaded`]; other failures say nothing of limits, but
//!   three time-outs in a row halve the concurrency.
//!
//! Sources: V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988
//! (slow start); L. Brakmo, L. Peterson, "TCP Vegas", 1995 (latency as a sign
//! of a queue).

pub(crate) mod bucket;
mod credence;

use crate::{Controller, ErrorClass, Outcome, OutcomeKind, RateHints};
use bucket::Bucket;
use credence::Credence;
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Until the first answer, one more call may start after each such time.
const PACE: Duration = Duration::from_millis(5);
/// So many accepted calls before one more is tried, and at most.
const PROBE_AFTER: (u32, u32) = (25, 400);
/// Once calls take this many times the shortest usual time, more in flight
/// only means a longer queue on the other side.
const QUEUED: f64 = 4.0;
/// The weight of the newest call in the usual time.
const SMOOTHING: f64 = 0.1;
/// So many time-outs in a row halve the concurrency.
const TIMEOUTS: u32 = 3;
/// The accepted calls from which a rate is learned.
const ACCEPTED: usize = 64;
/// A limit on concurrency that was lowered refuses for a moment; refusals that
/// lower it again after such a time are due to a rate.
const AGAIN: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(20);
/// The weight of the newest attempt in the share of refusals, and the share
/// below which they say nothing: some providers refuse at random.
const SHARE: f64 = 1.0 / 128.0;
const NOISE: f64 = 0.02;
/// How a learned rate grows each second without a refusal, and what is left of it after one.
const RATE_GROWTH: f64 = 0.02;
const RATE_CUT: f64 = 0.95;
/// No wish to be left alone pauses all calls for longer, and one that is
/// longer than the second is for the call that it was said to.
const PAUSE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(300));

/// What is known of the other side from the start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveSettings {
    /// Calls in flight at first; 8 by default.
    pub initial: usize,
    /// Calls in flight at most; 256 by default.
    pub maximum: usize,
    /// The limit on calls, where it is known; else it is learned.
    pub requests_per_minute: Option<f64>,
    /// The limit on tokens, where it is known; else it is learned.
    pub tokens_per_minute: Option<f64>,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self { initial: 8, maximum: 256, requests_per_minute: None, tokens_per_minute: None }
    }
}

/// See the [module's head](self).
pub struct Adaptive {
    initial: usize,
    maximum: AtomicUsize,
    target: AtomicUsize,
    state: Mutex<State>,
    listeners: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
}

#[derive(Debug)]
struct State {
    began: Option<Instant>,
    started: usize,
    /// Whether any attempt has ended.
    answered: bool,
    concurrency: f64,
    /// The most calls in flight of which one more was accepted, since the
    /// limit was last seen to be lower.
    proven: usize,
    growth: Growth,
    /// The concurrency before it was last raised to try one more.
    tried_from: Option<f64>,
    requests: Bucket,
    tokens: Bucket,
    /// The limits per minute that were declared, of calls and of tokens.
    declared: (Option<f64>, Option<f64>),
    /// Whether the rate of calls was learned, not told.
    learned: bool,
    refused: Option<Instant>,
    /// When fewer in flight were accepted than before.
    lowered: Option<Instant>,
    raised: Instant,
    /// Nothing starts before.
    paused_until: Option<Instant>,
    /// What was said last, as far as it is believed.
    hints: Option<RateHints>,
    credence: Credence,
    usual: Option<f64>,
    shortest: f64,
    timeouts: u32,
    /// Of the attempts, smoothed.
    refused_share: f64,
    accepted: VecDeque<Instant>,
}

/// How concurrency grows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Growth {
    /// By one with each answer.
    Fast,
    /// By `step`, once `left` more calls were accepted with all places taken.
    Probing { left: u32, after: u32, step: usize },
}

impl Adaptive {
    /// A controller that knows this much.
    pub fn new(settings: AdaptiveSettings) -> Self {
        let now = Instant::now();
        let maximum = settings.maximum.max(1);
        let settings = AdaptiveSettings { maximum, initial: settings.initial.clamp(1, maximum), ..settings };
        let state = State {
            began: None,
            started: 0,
            answered: false,
            concurrency: settings.initial as f64,
            proven: 0,
            growth: Growth::Fast,
            tried_from: None,
            requests: Bucket::new(settings.requests_per_minute, now),
            tokens: Bucket::new(settings.tokens_per_minute, now).estimated(),
            declared: (settings.requests_per_minute, settings.tokens_per_minute),
            learned: false,
            refused: None,
            lowered: None,
            raised: now,
            paused_until: None,
            hints: None,
            credence: Credence::default(),
            usual: None,
            shortest: f64::INFINITY,
            timeouts: 0,
            refused_share: 0.0,
            accepted: VecDeque::new(),
        };
        // Until the first answer, it is `admit` that holds calls back.
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
        (state.requests.rate(), state.tokens.rate())
    }

    /// Declares limits per minute anew, such as when a plan was upgraded.
    pub fn declare(&self, requests_per_minute: Option<f64>, tokens_per_minute: Option<f64>) {
        let now = Instant::now();
        let mut state = self.state();
        state.declared = (requests_per_minute, tokens_per_minute);
        state.requests = Bucket::new(requests_per_minute, now);
        state.tokens = Bucket::new(tokens_per_minute, now).estimated();
        state.learned = false;
        drop(state);
        self.changed();
    }

    /// Takes what else is known of the same limits: of two numbers for one,
    /// the smaller holds from now on. Nothing becomes larger.
    pub fn restrict(&self, settings: &AdaptiveSettings) {
        let maximum = settings.maximum.max(1);
        let before = self.maximum.fetch_min(maximum, Ordering::AcqRel);
        let mut held = self.state();
        let state = &mut *held;
        let smaller = |limit: Option<f64>, declared: Option<f64>| {
            limit.filter(|limit| declared.is_none_or(|declared| *limit < declared))
        };
        let requests = smaller(settings.requests_per_minute, state.declared.0);
        let tokens = smaller(settings.tokens_per_minute, state.declared.1);
        if before <= maximum && requests.is_none() && tokens.is_none() {
            return;
        }
        let now = Instant::now();
        if requests.is_some() {
            state.declared.0 = requests;
            state.requests = Bucket::new(requests, now);
            state.learned = false;
        }
        if tokens.is_some() {
            state.declared.1 = tokens;
            state.tokens = Bucket::new(tokens, now).estimated();
        }
        match state.answered {
            true => self.publish(state),
            false => _ = self.target.fetch_min(maximum, Ordering::AcqRel),
        }
        drop(held);
        self.changed();
    }

    fn changed(&self) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        listeners.iter().for_each(|listener| listener());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, state: &State) {
        let target = (state.concurrency as usize).clamp(1, self.maximum());
        self.target.store(target, Ordering::Release);
    }
}

impl Controller for Adaptive {
    fn target(&self) -> usize {
        self.target.load(Ordering::Acquire)
    }

    fn maximum(&self) -> usize {
        self.maximum.load(Ordering::Acquire)
    }

    fn admit(&self, cost: u64, now: Instant) -> Result<(), Instant> {
        let state = &mut *self.state();
        if let Some(until) = state.paused_until.filter(|until| *until > now) {
            return Err(until);
        }
        if !state.answered {
            let began = *state.began.get_or_insert(now);
            if state.started >= self.initial {
                let turn = state.started - self.initial + 1;
                let at = began + PACE * u32::try_from(turn).unwrap_or(u32::MAX);
                if at > now {
                    return Err(at);
                }
            }
        }
        state.raise_learned(now);
        let cost = cost as f64;
        let waits = [state.requests.ready(1.0, now), state.tokens.ready(cost, now)];
        if let Some(at) = waits.into_iter().flatten().max() {
            return Err(at);
        }
        state.started += 1;
        state.requests.spend(1.0, now);
        state.tokens.spend(cost, now);
        Ok(())
    }

    fn hear(&self, hints: &RateHints) {
        let now = Instant::now();
        let state = &mut *self.state();
        let hints = state.credence.hear(hints);
        state.requests.hear(&hints.requests, hints.sent, now);
        state.tokens.hear(&hints.tokens, hints.sent, now);
        if hints.requests.per_minute.is_some() {
            state.learned = false;
        }
        state.hints = Some(hints);
        // A known rate needs this many in flight, by Little's law.
        if let (Some(rate), Some(usual)) = (state.requests.rate().filter(|_| !state.learned), state.usual)
            && state.growth == Growth::Fast
        {
            state.concurrency = state.concurrency.max((1.5 * rate * usual).min(self.maximum() as f64));
        }
        self.publish(state);
    }

    fn record(&self, outcome: &Outcome) {
        let now = Instant::now();
        let state = &mut *self.state();
        if !state.answered {
            state.answered = true;
            state.concurrency = (state.started.max(self.initial) as f64).min(self.maximum() as f64);
        }
        if outcome.kind == OutcomeKind::TimedOut {
            state.timeouts += 1;
            if state.timeouts == TIMEOUTS {
                state.timeouts = 0;
                state.concurrency = (state.concurrency / 2.0).max(1.0);
            }
        } else {
            state.timeouts = 0;
        }
        state.refused_share += SHARE * (f64::from(u8::from(outcome.kind.is_refusal())) - state.refused_share);
        match outcome.kind {
            OutcomeKind::Completed => {
                state.accept(outcome, now, self.maximum());
                if state.credence.accepted(outcome.latency, now) {
                    // What was heard of it goes with the belief in it.
                    state.requests = Bucket::new(state.declared.0, now);
                    state.hints = state.hints.map(|hints| state.credence.believed(&hints));
                }
                if state.credence.took(outcome.cost as f64) {
                    state.tokens = Bucket::new(state.declared.1, now).estimated();
                    state.hints = state.hints.map(|hints| state.credence.believed(&hints));
                }
            }
            kind if kind.is_refusal() => state.refuse(outcome, now),
            OutcomeKind::Failed(_) | OutcomeKind::TimedOut => {}
        }
        self.publish(state);
    }

    fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }
}

impl State {
    fn accept(&mut self, outcome: &Outcome, now: Instant, maximum: usize) {
        let seconds = outcome.latency.as_secs_f64();
        let usual = self.usual.map_or(seconds, |usual| usual + SMOOTHING * (seconds - usual));
        self.usual = Some(usual);
        self.shortest = self.shortest.min(usual);
        self.accepted.push_back(now);
        if self.accepted.len() > ACCEPTED {
            self.accepted.pop_front();
        }
        let in_flight = outcome.in_flight;
        // Of those that wait on the other side no more are needed, and where
        // places were left free, more of them say nothing.
        let queued = usual > QUEUED * self.shortest;
        let full = in_flight + 1 >= self.concurrency as usize;
        // A call that started before the limit was lowered says nothing of it now.
        let current =
            self.lowered.is_none_or(|lowered| now.checked_sub(outcome.latency).is_some_and(|at| at >= lowered));
        if current {
            self.proven = self.proven.max(in_flight);
        }
        if queued || (self.concurrency as usize) >= maximum {
            return;
        }
        match &mut self.growth {
            Growth::Fast if 2 * in_flight >= self.concurrency as usize => self.concurrency += 1.0,
            Growth::Fast => {}
            Growth::Probing { left, after, step } if full => {
                if current && self.tried_from.is_some_and(|before| in_flight as f64 > before) {
                    // One more was accepted: there is more, so go faster.
                    self.tried_from = None;
                    *left = (in_flight as u32).min(*left);
                    *after = PROBE_AFTER.0;
                }
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.tried_from = Some(self.concurrency);
                    self.concurrency += *step as f64;
                    *step = (2 * *step).min(in_flight.max(1));
                    *left = *after;
                }
            }
            Growth::Probing { .. } => {}
        }
        self.concurrency = self.concurrency.min(maximum as f64);
    }

    fn refuse(&mut self, outcome: &Outcome, now: Instant) {
        let started = now.checked_sub(outcome.latency).unwrap_or(now);
        self.requests.refund(1.0, started);
        self.tokens.refund(outcome.cost as f64, started);
        let first = self.refused.is_none_or(|refused| now.saturating_duration_since(refused) > Duration::from_secs(1));
        self.refused = Some(now);
        let is_limited = outcome.kind == OutcomeKind::Failed(ErrorClass::RateLimited);
        if is_limited && self.rate_is_to_blame(outcome) && self.credence.blames(outcome.latency, now) {
            if self.hints.is_some_and(|hints| hints.requests.remaining.is_none_or(|remaining| remaining >= 1.0)) {
                self.tokens.was_too_cheap();
            }
            self.pause(outcome.retry_after, now);
            return;
        }
        // Those of the calls in flight that were not refused were accepted;
        // the others will tell in a moment.
        let others = outcome.others.max(1);
        let after = match self.growth {
            Growth::Probing { after, .. } if first => (after * 2).min(PROBE_AFTER.1),
            Growth::Probing { after, .. } => after,
            Growth::Fast => PROBE_AFTER.0,
        };
        self.growth = Growth::Probing { left: after, after, step: 1 };
        if let Some(before) = self.tried_from.take() {
            // One more was too many. Which of the calls in flight it was
            // is the other side's choice.
            self.concurrency = self.concurrency.min(before);
            self.proven = self.proven.min(before as usize);
            return;
        }
        if outcome.in_flight > self.proven {
            self.concurrency = self.concurrency.min(others.max(self.proven) as f64);
            return;
        }
        // Fewer than before are accepted: either the limit is lower now, or
        // it is not on concurrency.
        let since = self.lowered.map(|lowered| now.saturating_duration_since(lowered));
        if since.is_some_and(|since| since < outcome.latency) || self.refused_share < NOISE {
            return;
        }
        self.proven = 0;
        self.concurrency = self.concurrency.min(others as f64);
        let told =
            self.hints.is_some_and(|hints| hints.requests.per_minute.is_some() || hints.tokens.per_minute.is_some());
        let again = since.is_some_and(|since| AGAIN.contains(&since));
        if again && !told && outcome.kind == OutcomeKind::Failed(ErrorClass::RateLimited) {
            self.learn_rate(outcome, now);
        }
        self.lowered = Some(now);
    }

    /// Whether what was said last leaves nothing for such a call.
    fn rate_is_to_blame(&self, outcome: &Outcome) -> bool {
        let Some(hints) = &self.hints else { return false };
        // Without a rate there is nothing to hold calls back by.
        let short = |bucket: &Bucket, remaining: Option<f64>, needed: f64| {
            bucket.rate().is_some() && remaining.is_some_and(|remaining| remaining < needed)
        };
        let credible = outcome.retry_after.is_none_or(|wait| wait <= PAUSE.1);
        credible
            && (short(&self.requests, hints.requests.remaining, 1.0)
                || short(&self.tokens, hints.tokens.remaining, outcome.cost as f64))
    }

    /// Concurrency alone does not explain the refusals: a rate does.
    fn learn_rate(&mut self, outcome: &Outcome, now: Instant) {
        self.pause(outcome.retry_after, now);
        let span = self.accepted.front().map_or(0.0, |oldest| now.saturating_duration_since(*oldest).as_secs_f64());
        let lately = self.accepted.len() as f64 / span.max(1e-3);
        let rate = match self.requests.rate() {
            Some(rate) if self.learned => rate * RATE_CUT,
            _ => lately,
        };
        if rate > 0.0 {
            self.requests.learn(rate, now);
            self.learned = true;
            self.raised = now;
            // From now on the rate holds calls back, so concurrency need not.
            self.growth = Growth::Fast;
            self.concurrency = self.concurrency.max(2.0 * rate * self.usual.unwrap_or(1.0));
        }
    }

    fn raise_learned(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.raised).as_secs_f64();
        if self.learned
            && since >= 1.0
            && let Some(rate) = self.requests.rate()
        {
            self.requests.raise(rate * (1.0 + RATE_GROWTH * since), now);
            self.raised = now;
        }
    }

    /// Starts nothing for as long as the other side asks, within bounds.
    fn pause(&mut self, wait: Option<Duration>, now: Instant) {
        if let Some(wait) = wait.filter(|wait| *wait <= PAUSE.1) {
            let until = now + wait.min(PAUSE.0);
            self.paused_until = Some(self.paused_until.map_or(until, |paused| paused.max(until)));
        }
    }
}

impl std::fmt::Debug for Adaptive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adaptive")
            .field("maximum", &self.maximum())
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
