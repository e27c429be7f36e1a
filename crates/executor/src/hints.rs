//! What the other side says of its limits.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;

/// What the other side says of its limits with an answer, as HTTP providers
/// do in headers. Everything may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateHints {
    /// When the call that this came with was sent; between processes, its age travels.
    #[serde(with = "age")]
    pub sent: Instant,
    /// The limit on calls.
    pub requests: RateHint,
    /// The limit on what calls cost, for a model in tokens.
    pub tokens: RateHint,
}

/// What an answer says of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
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
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A time as how long it has been.
mod age {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;
    use tokio::time::Instant;

    pub(super) fn serialize<S: Serializer>(at: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
        at.elapsed().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Instant, D::Error> {
        let age = Duration::deserialize(deserializer)?;
        let now = Instant::now();
        Ok(now.checked_sub(age).unwrap_or(now))
    }
}
