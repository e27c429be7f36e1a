//! A second attempt beside one that takes unusually long.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The number of durations that are remembered.
const REMEMBERED: usize = 128;
/// With fewer durations, it is not known what is unusual.
const NEEDED: usize = 20;

/// When a second attempt is made beside one that is still in flight; the
/// first result wins, and the other attempt is dropped.
///
/// The other side may charge for both, so it is off unless asked for.
///
/// Source: J. Dean, L. Barroso, "The Tail at Scale", CACM 56 (2013).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    /// At most this share of all calls gets a second attempt, which bounds the
    /// extra cost. 0.02 by default.
    pub extra_share: f64,
    /// An attempt is late after this many times the 95th percentile of the last
    /// 128 latencies. 2 by default.
    pub factor: f64,
}

impl Default for Hedge {
    fn default() -> Self {
        Self { extra_share: 0.02, factor: 2.0 }
    }
}

/// The usual latency, and the number of second attempts.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<LatencyWindow>);

#[derive(Debug, Default)]
struct LatencyWindow {
    recent: Vec<Duration>,
    next: usize,
    calls: u64,
    hedged: u64,
}

impl Latencies {
    /// Remembers the latency of an attempt that succeeded.
    pub(crate) fn record(&self, latency: Duration) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.calls += 1;
        let next = seen.next;
        match seen.recent.get_mut(next) {
            Some(place) => *place = latency,
            None => seen.recent.push(latency),
        }
        seen.next = (next + 1) % REMEMBERED;
    }

    /// After which time an attempt is late; `None` while too little is known.
    pub(crate) fn late_after(&self, hedge: &Hedge) -> Option<Duration> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.recent.len() < NEEDED {
            return None;
        }
        let mut sorted = seen.recent.clone();
        drop(seen);
        let rank = (sorted.len() * 95 / 100).min(sorted.len() - 1);
        let (_, percentile, _) = sorted.select_nth_unstable(rank);
        Some(percentile.mul_f64(hedge.factor.max(1.0)))
    }

    /// Takes the right to a second attempt, if the bound leaves one.
    pub(crate) fn allow_hedge(&self, hedge: &Hedge) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = (seen.hedged + 1) as f64 <= hedge.extra_share * seen.calls as f64;
        seen.hedged += u64::from(allowed);
        allowed
    }
}
