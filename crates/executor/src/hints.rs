//! What the other side says of its limits.

use std::time::Duration;
use tokio::time::Instant;

/// What the other side says of its limits with an answer, as HTTP providers
/// do in headers. Everything may be missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateHints {
    /// When the call that this came with was sent.
    pub sent: Instant,
    /// The limit on calls.
    pub requests: RateHint,
    /// The limit on what calls cost, for a model in tokens.
    pub tokens: RateHint,
}

/// What is said of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RateHint {
    /// How many per minute.
    pub per_minute: Option<f64>,
    /// How many are left now.
    pub remaining: Option<f64>,
    /// After which time all are there again.
    pub reset: Option<Duration>,
}

impl RateHints {
    /// Nothing yet, of a call sent then.
    pub fn new(sent: Instant) -> Self {
        Self { sent, requests: RateHint::default(), tokens: RateHint::default() }
    }
}

impl RateHint {
    /// Whether anything is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
