//! How many calls an endpoint takes: told, or learned while it is used.

use executor::{Adaptive, AdaptiveSettings, Hedge, Limiter};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Calls in flight at most, where nobody says less.
const MAXIMUM: usize = 256;

/// What is known of an endpoint's limits. What is left out is learned: from
/// the headers of its answers, from refusals, and from how long it takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EndpointLimits {
    /// Calls per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<f64>,
    /// Tokens per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<f64>,
    /// The share of calls that may be made a second time when the first
    /// attempt takes unusually long; the provider may charge for both. None
    /// if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<f64>,
}

/// How many calls a model takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limits {
    /// This many at once.
    Fixed(usize),
    /// As many as it shows to take.
    Learned {
        /// At once, at most.
        maximum: usize,
        /// What is known.
        known: EndpointLimits,
    },
}

impl EndpointLimits {
    /// With at most this many calls in flight, or as many as usual.
    pub(crate) fn within(self, concurrency: Option<usize>) -> Limits {
        Limits::Learned { maximum: concurrency.unwrap_or(MAXIMUM).max(1), known: self }
    }
}

impl Limits {
    /// Calls in flight at most.
    pub fn maximum(&self) -> usize {
        match self {
            Self::Fixed(concurrency) => *concurrency,
            Self::Learned { maximum, .. } => *maximum,
        }
    }

    pub(crate) fn limiter(&self) -> Limiter {
        match *self {
            Self::Fixed(concurrency) => Limiter::fixed(concurrency),
            Self::Learned { maximum, known } => {
                let settings = AdaptiveSettings {
                    maximum,
                    requests_per_minute: known.requests_per_minute,
                    tokens_per_minute: known.tokens_per_minute,
                    ..AdaptiveSettings::default()
                };
                let limiter = Limiter::new(Arc::new(Adaptive::new(settings)));
                match known.hedge.filter(|share| *share > 0.0) {
                    Some(extra_share) => limiter.with_hedge(Hedge { extra_share, ..Hedge::default() }),
                    None => limiter,
                }
            }
        }
    }
}
