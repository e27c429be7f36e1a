//! Learns from refusals how many calls may be in flight.

use crate::Outcome;
use std::{ops::Range, time::Duration};
use tokio::time::Instant;

/// How many accepted calls it takes before one more is tried, at first and at most.
const PROBE_AFTER: u32 = 25;
const PROBE_AFTER_AT_MOST: u32 = 400;
/// When a limit on concurrency is lowered, refusals follow for a moment.
/// Refusals that lower the level again within this range of time afterwards are
/// caused by a rate.
const LOWERED_AGAIN: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(20);
/// A share of refusals below this means nothing: some providers refuse at
/// random.
const NOISE: f64 = 0.02;

/// The present concurrency, and what is known about its limit.
#[derive(Debug)]
pub(super) struct Concurrency {
    /// Its whole part is how many calls may be in flight.
    level: f64,
    growth: ConcurrencyGrowth,
    /// The most calls in flight when one of them was accepted, since the limit
    /// last seemed lower.
    proven: usize,
    /// The level before it was last raised to try one more.
    tried_from: Option<f64>,
    /// When fewer calls in flight were accepted than before.
    lowered: Option<Instant>,
}

/// How concurrency grows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ConcurrencyGrowth {
    /// By one with each answer.
    Fast,
    /// By `step`, once `left` more calls were accepted with all places taken.
    Probing { left: u32, after: u32, step: usize },
}

impl Concurrency {
    pub(super) fn new(initial: usize) -> Self {
        Self { level: initial as f64, growth: ConcurrencyGrowth::Fast, proven: 0, tried_from: None, lowered: None }
    }

    /// How many calls may be in flight.
    pub(super) fn whole(&self) -> usize {
        self.level as usize
    }

    pub(super) fn set(&mut self, level: f64) {
        self.level = level;
    }

    /// Halves the level, because calls time out.
    pub(super) fn halve(&mut self) {
        self.level = (self.level / 2.0).max(1.0);
    }

    /// Raises the level to this, if no refusal has ended the fast growth.
    pub(super) fn raise_if_fast(&mut self, level: f64) {
        if self.growth == ConcurrencyGrowth::Fast {
            self.level = self.level.max(level);
        }
    }

    /// Lets the level grow fast again, from at least this level.
    pub(super) fn grow_fast_from(&mut self, level: f64) {
        self.growth = ConcurrencyGrowth::Fast;
        self.level = self.level.max(level);
    }

    /// A call was accepted. `is_queued` says that calls wait on the other side,
    /// so that more calls would not be faster.
    pub(super) fn accept(&mut self, outcome: &Outcome, is_queued: bool, maximum: usize, now: Instant) {
        let in_flight = outcome.in_flight;
        // If places are free, more places would make no difference.
        let full = in_flight + 1 >= self.whole();
        // A call that started before the limit was lowered says nothing about the present limit.
        let current =
            self.lowered.is_none_or(|lowered| now.checked_sub(outcome.latency).is_some_and(|at| at >= lowered));
        if current {
            self.proven = self.proven.max(in_flight);
        }
        if is_queued || self.whole() >= maximum {
            return;
        }
        match &mut self.growth {
            ConcurrencyGrowth::Fast if 2 * in_flight >= self.level as usize => self.level += 1.0,
            ConcurrencyGrowth::Fast => {}
            ConcurrencyGrowth::Probing { left, after, step } if full => {
                if current && self.tried_from.is_some_and(|before| in_flight as f64 > before) {
                    // One more call was accepted, so there is more room: grow faster.
                    self.tried_from = None;
                    *left = (in_flight as u32).min(*left);
                    *after = PROBE_AFTER;
                }
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.tried_from = Some(self.level);
                    self.level += *step as f64;
                    *step = (2 * *step).min(in_flight.max(1));
                    *left = *after;
                }
            }
            ConcurrencyGrowth::Probing { .. } => {}
        }
        self.level = self.level.min(maximum as f64);
    }

    /// A call was refused, and no known rate is to blame. `is_first` says that
    /// no other call was refused just before. Returns whether the level was
    /// lowered twice in a short time, which a limit on concurrency does not
    /// explain.
    pub(super) fn refuse(&mut self, outcome: &Outcome, is_first: bool, refused_share: f64, now: Instant) -> bool {
        // The calls in flight that were not refused were accepted; the refused
        // ones end in a moment.
        let others = outcome.others.max(1);
        let after = match self.growth {
            ConcurrencyGrowth::Probing { after, .. } if is_first => (after * 2).min(PROBE_AFTER_AT_MOST),
            ConcurrencyGrowth::Probing { after, .. } => after,
            ConcurrencyGrowth::Fast => PROBE_AFTER,
        };
        self.growth = ConcurrencyGrowth::Probing { left: after, after, step: 1 };
        if let Some(before) = self.tried_from.take() {
            // One call was too many; the other side chooses which of the calls
            // in flight it refuses.
            self.level = self.level.min(before);
            self.proven = self.proven.min(before as usize);
            return false;
        }
        if outcome.in_flight > self.proven {
            self.level = self.level.min(others.max(self.proven) as f64);
            return false;
        }
        // Fewer calls than before are accepted: either the limit is lower now,
        // or the limit is not on concurrency.
        let since = self.lowered.map(|lowered| now.saturating_duration_since(lowered));
        if since.is_some_and(|since| since < outcome.latency) || refused_share < NOISE {
            return false;
        }
        self.proven = 0;
        self.level = self.level.min(others as f64);
        self.lowered = Some(now);
        since.is_some_and(|since| LOWERED_AGAIN.contains(&since))
    }
}
