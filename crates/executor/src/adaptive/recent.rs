//! How recent attempts ended, and how long they took.

use crate::OutcomeKind;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// This many time-outs in a row halve the concurrency.
const TIMEOUTS: u32 = 3;
/// A rate is learned from this many accepted calls.
const ACCEPTED: usize = 64;
/// The weight of the newest attempt in the share of refusals.
const SHARE: f64 = 1.0 / 128.0;
/// Refusals within this time of each other are one event.
const EVENT: Duration = Duration::from_secs(1);
/// If calls take this many times the shortest usual time, more calls in flight
/// only make the queue on the other side longer.
const QUEUED: f64 = 4.0;
/// The weight of the newest call in the usual time.
const SMOOTHING: f64 = 0.1;

/// How attempts ended.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// When the last [`ACCEPTED`] accepted attempts ended.
    accepted: VecDeque<Instant>,
    /// When the last refused attempt ended.
    refused: Option<Instant>,
    /// The share of refused attempts, smoothed.
    refused_share: f64,
    /// Time-outs in a row.
    timeouts: u32,
}

impl Attempts {
    /// Records the end of an attempt. Returns whether it was the last of
    /// [`TIMEOUTS`] time-outs in a row.
    pub(super) fn record(&mut self, kind: OutcomeKind) -> bool {
        self.refused_share += SHARE * (f64::from(u8::from(kind.is_refusal())) - self.refused_share);
        self.timeouts = if kind == OutcomeKind::TimedOut { self.timeouts + 1 } else { 0 };
        let are_many = self.timeouts == TIMEOUTS;
        if are_many {
            self.timeouts = 0;
        }
        are_many
    }

    pub(super) fn accept(&mut self, now: Instant) {
        self.accepted.push_back(now);
        if self.accepted.len() > ACCEPTED {
            self.accepted.pop_front();
        }
    }

    /// Records a refusal. Returns whether it is the first after a while.
    pub(super) fn refuse(&mut self, now: Instant) -> bool {
        let before = self.refused.replace(now);
        before.is_none_or(|refused| now.saturating_duration_since(refused) > EVENT)
    }

    pub(super) fn refused_share(&self) -> f64 {
        self.refused_share
    }

    pub(super) fn accepted_per_second(&self, now: Instant) -> f64 {
        let span = self.accepted.front().map_or(0.0, |oldest| now.saturating_duration_since(*oldest).as_secs_f64());
        self.accepted.len() as f64 / span.max(1e-3)
    }
}

/// The time of accepted calls, in seconds.
#[derive(Debug)]
pub(super) struct LatencyTrend {
    usual: Option<f64>,
    /// The shortest usual time so far.
    shortest: f64,
}

impl Default for LatencyTrend {
    fn default() -> Self {
        Self { usual: None, shortest: f64::INFINITY }
    }
}

impl LatencyTrend {
    pub(super) fn record(&mut self, latency: Duration) {
        let seconds = latency.as_secs_f64();
        let usual = self.usual.map_or(seconds, |usual| usual + SMOOTHING * (seconds - usual));
        self.usual = Some(usual);
        self.shortest = self.shortest.min(usual);
    }

    pub(super) fn usual(&self) -> Option<f64> {
        self.usual
    }

    /// Whether calls wait in a queue on the other side.
    pub(super) fn is_queued(&self) -> bool {
        self.usual.is_some_and(|usual| usual > QUEUED * self.shortest)
    }
}
