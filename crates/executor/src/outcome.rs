//! The outcome of an attempt, for controllers.

use crate::ErrorClass;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How one attempt ended, for a [`Controller`](crate::Controller).
/// Cancelled attempts are left out: they say nothing about the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// How it ended.
    pub kind: OutcomeKind,
    /// How long it took.
    pub latency: Duration,
    /// The wait that the other side asked for.
    pub retry_after: Option<Duration>,
    /// Whether the task will be tried again.
    pub will_retry: bool,
    /// How many attempts were in flight once it had started, itself included.
    pub in_flight: usize,
    /// How many others were in flight when it ended.
    pub others: usize,
    /// Its cost, as the caller estimated it.
    pub cost: u64,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutcomeKind {
    /// With a result.
    Completed,
    /// With an error.
    Failed(ErrorClass),
    /// It took too long.
    TimedOut,
}

impl OutcomeKind {
    /// Whether the other side refused the call for lack of capacity.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Failed(ErrorClass::RateLimited | ErrorClass::Overloaded))
    }
}

impl Outcome {
    /// The outcome of an attempt that ran alone, without a requested wait and
    /// without another attempt.
    pub fn new(kind: OutcomeKind, latency: Duration) -> Self {
        Self { kind, latency, retry_after: None, will_retry: false, in_flight: 1, others: 0, cost: 0 }
    }
}
