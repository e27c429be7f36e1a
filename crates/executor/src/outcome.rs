//! What became of an attempt, for controllers, and of a task, for people.

use crate::ErrorClass;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// Of so many failed attempts it is kept what they said.
const KEPT: usize = 64;

/// How one attempt ended, as a [`Controller`](crate::Controller) is told.
/// Cancelled attempts are not told: they say nothing of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// How it ended.
    pub kind: OutcomeKind,
    /// How long it took.
    pub latency: Duration,
    /// How long the other side asked to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether the task will be tried again.
    pub will_retry: bool,
    /// How many attempts were in flight once it had started, itself included.
    pub in_flight: usize,
    /// How many others were in flight when it ended.
    pub others: usize,
    /// What it was said to cost.
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
    /// Whether the other side refused the call for want of room.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Failed(ErrorClass::RateLimited | ErrorClass::Overloaded))
    }
}

impl Outcome {
    /// An outcome of an attempt that was alone, without a wish to be left
    /// alone and without another attempt.
    pub fn new(kind: OutcomeKind, latency: Duration) -> Self {
        Self { kind, latency, retry_after: None, will_retry: false, in_flight: 1, others: 0, cost: 0 }
    }
}

/// Where a task stands. Its text is the one that Phoenix users know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExecutionStatus {
    /// It was not run to its end: there was a cancellation.
    #[default]
    DidNotRun,
    /// Its first attempt had a result.
    Completed,
    /// A later attempt had a result.
    CompletedWithRetries,
    /// No attempt had a result.
    Failed,
}

impl fmt::Display for ExecutionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DidNotRun => "DID NOT RUN",
            Self::Completed => "COMPLETED",
            Self::CompletedWithRetries => "COMPLETED WITH RETRIES",
            Self::Failed => "FAILED",
        })
    }
}

/// How a task went.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExecutionDetails {
    /// What each failed attempt said, in order; of more than
    /// 64, the first 63 and the last.
    pub errors: Vec<String>,
    /// Where the task stands.
    pub status: ExecutionStatus,
    /// The time spent in attempts, in seconds; waiting and back-off are not part of it.
    pub execution_seconds: f64,
}

impl ExecutionDetails {
    pub(crate) fn complete(&mut self) {
        self.status = match self.errors.is_empty() {
            true => ExecutionStatus::Completed,
            false => ExecutionStatus::CompletedWithRetries,
        };
    }

    /// Keeps what a failed attempt said. A call may be refused any number of
    /// times, so not all of it is kept.
    pub(crate) fn failed_attempt(&mut self, said: String) {
        self.errors.truncate(KEPT - 1);
        self.errors.push(said);
    }

    pub(crate) fn fail(&mut self) {
        self.status = ExecutionStatus::Failed;
    }
}
