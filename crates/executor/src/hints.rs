//! Announcements of the other side about its limits.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;

/// An announcement of the other side about its limits that came with an answer;
/// HTTP providers send it in headers. Every part may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateHints {
    /// When the call of this answer was sent. Between processes, its age is sent instead.
    #[serde(with = "age")]
    pub sent: Instant,
    /// The limit on calls.
    pub requests: RateHint,
    /// The limit on the cost of calls: for a model, on tokens.
    pub tokens: RateHint,
}

/// The announcement about one limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RateHint {
    /// How many per minute.
    pub per_minute: Option<f64>,
    /// How many are left at present.
    pub remaining: Option<f64>,
    /// The time after which all of them are available again.
    pub reset: Option<Duration>,
}

impl RateHints {
    /// An empty announcement for a call sent then.
    pub fn new(sent: Instant) -> Self {
        Self { sent, requests: RateHint::default(), tokens: RateHint::default() }
    }
}

impl RateHint {
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Serialises a time as its age.
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
