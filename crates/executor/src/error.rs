//! Why a task has no result, and whether it is worth another try.

use serde::{Deserialize, Serialize};
use std::{convert::Infallible, fmt, time::Duration};

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The error of the task's last attempt.
    #[error(transparent)]
    Failed(E),
    /// The last attempt took too long.
    #[error("no result within {after:?}")]
    TimedOut {
        /// The limit of one attempt.
        after: Duration,
    },
    /// The deadline passed before there was a result.
    #[error("no result before its deadline{}", .last.as_ref().map(|last| format!("; the last attempt said: {last}")).unwrap_or_default())]
    DeadlineExceeded {
        /// The error of the last failed attempt.
        last: Option<String>,
    },
    /// The other side refused every call for so long that waiting was given up.
    /// The refused calls may be tried again later.
    #[error("every call was refused for {after:?}; the last refusal said: {last}")]
    Stalled {
        /// How long nothing got through.
        after: Duration,
        /// The error of the last refusal.
        last: String,
    },
    /// The task panicked. That is a bug, so it is not tried again.
    #[error("the task panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The run was cancelled before there was a result.
    #[error("cancelled")]
    Cancelled,
}

/// The kind of a failure: it decides about retries, and tells a
/// [`Controller`](crate::Controller) how much load the other side can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorClass {
    /// The other side asks for fewer calls.
    RateLimited,
    /// The other side cannot keep up.
    Overloaded,
    /// It may work the next time: a broken connection, a timeout, a bad answer.
    Transient,
    /// The same call would fail again.
    Permanent,
    /// The call was not made because its budget is used up.
    Budget,
}

/// An error that knows its class. Its text may become part of an [`Error`], so
/// it must hold no secret.
pub trait Retryable: fmt::Display {
    /// What kind of failure it is.
    fn class(&self) -> ErrorClass;

    /// The wait that the other side asked for.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// Whether the error means that there was no answer in time: a task may
    /// have time limits of its own.
    fn is_timeout(&self) -> bool {
        false
    }
}

impl Retryable for Infallible {
    fn class(&self) -> ErrorClass {
        match *self {}
    }
}
