//! The limits on calls and on tokens: declared, announced or learned.

use super::AdaptiveSettings;
use super::bucket::{Bucket, spend_both};
use crate::RateHints;
use std::time::Duration;
use tokio::time::Instant;

/// The growth of a learned rate in each second without a refusal, and the share that remains
/// after a refusal.
const RATE_GROWTH: f64 = 0.02;
const RATE_CUT: f64 = 0.95;
/// A requested wait pauses all calls for no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A longer requested wait concerns only the call that it came with.
const LONGEST_COMMON_WAIT: Duration = Duration::from_secs(300);

/// The limits on how many calls may start.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) requests: Bucket,
    pub(super) tokens: Bucket,
    /// The limits that were declared.
    pub(super) declared: AdaptiveSettings,
    /// When the learned rate of calls was last raised; none if the rate was not learned.
    learned: Option<Instant>,
    /// No call starts before this time.
    paused_until: Option<Instant>,
}

impl Rates {
    pub(super) fn new(settings: &AdaptiveSettings, now: Instant) -> Self {
        Self {
            requests: Bucket::new(settings.requests_per_minute, now),
            tokens: Bucket::new(settings.tokens_per_minute, now).estimated(),
            declared: *settings,
            learned: None,
            paused_until: None,
        }
    }

    /// Replaces the limits that were declared. Returns whether one is different.
    pub(super) fn declare(&mut self, settings: &AdaptiveSettings, now: Instant) -> bool {
        let before = std::mem::replace(&mut self.declared, *settings);
        let requests = settings.requests_per_minute != before.requests_per_minute;
        let tokens = settings.tokens_per_minute != before.tokens_per_minute;
        if requests {
            self.forget_requests(now);
            self.learned = None;
        }
        if tokens {
            self.forget_tokens(now);
        }
        requests || tokens
    }

    /// Until when no call starts, if calls are paused.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }

    /// Takes the cost of a call, or says when it will be available.
    pub(super) fn take(&mut self, cost: f64, now: Instant) -> Result<(), Instant> {
        self.raise_learned(now);
        spend_both(&mut self.requests, &mut self.tokens, cost, now)
    }

    /// Gives back the cost of a refused call that started then.
    pub(super) fn refund(&mut self, cost: f64, started: Instant) {
        self.requests.refund(1.0, started);
        self.tokens.refund(cost, started);
    }

    /// Applies the announcement of the other side.
    pub(super) fn apply_hints(&mut self, hints: &RateHints, now: Instant) {
        self.requests.apply_hints(&hints.requests, hints.sent, now);
        self.tokens.apply_hints(&hints.tokens, hints.sent, now);
        if hints.requests.per_minute.is_some() {
            self.learned = None;
        }
    }

    /// The rate of calls per second, if it was declared or announced.
    pub(super) fn known_rate(&self) -> Option<f64> {
        self.requests.rate().filter(|_| self.learned.is_none())
    }

    /// Returns to the declared limit on calls, because the announced limit does not hold.
    pub(super) fn forget_requests(&mut self, now: Instant) {
        self.requests = Bucket::new(self.declared.requests_per_minute, now);
    }

    /// Returns to the declared limit on tokens.
    pub(super) fn forget_tokens(&mut self, now: Instant) {
        self.tokens = Bucket::new(self.declared.tokens_per_minute, now).estimated();
    }

    /// Learns the rate of calls from the number accepted per second lately, or
    /// lowers the rate that was learned before. Returns the rate, if there is
    /// one.
    pub(super) fn learn(&mut self, accepted_per_second: f64, now: Instant) -> Option<f64> {
        let rate = match self.requests.rate() {
            Some(rate) if self.learned.is_some() => rate * RATE_CUT,
            _ => accepted_per_second,
        };
        if rate > 0.0 {
            self.requests.learn(rate, now);
            self.learned = Some(now);
            return Some(rate);
        }
        None
    }

    fn raise_learned(&mut self, now: Instant) {
        let Some(raised) = self.learned else { return };
        let since = now.saturating_duration_since(raised).as_secs_f64();
        if since >= 1.0
            && let Some(rate) = self.requests.rate()
        {
            self.requests.raise(rate * (1.0 + RATE_GROWTH * since), now);
            self.learned = Some(now);
        }
    }

    /// Starts no call for the wait that the other side asks for, within bounds.
    pub(super) fn pause(&mut self, wait: Option<Duration>, now: Instant) {
        if let Some(wait) = wait.filter(|wait| is_meant_for_all(*wait)) {
            let until = now + wait.min(LONGEST_PAUSE);
            self.paused_until = Some(self.paused_until.map_or(until, |paused| paused.max(until)));
        }
    }
}

/// Whether such a requested wait may concern more than the call that it came
/// with.
pub(super) fn is_meant_for_all(wait: Duration) -> bool {
    wait <= LONGEST_COMMON_WAIT
}
