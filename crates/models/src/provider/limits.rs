//! How many calls an endpoint takes: told, or learned while it is used.

use crate::Error;
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
    /// Refuses numbers that no limit can have.
    pub(crate) fn check(&self, model: &str, concurrency: Option<usize>) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::Config(format!("{model}: {what}")));
        if concurrency == Some(0) {
            return refuse("`concurrency` must be at least 1; leave it out to have it learned");
        }
        let rates = [("requests_per_minute", self.requests_per_minute), ("tokens_per_minute", self.tokens_per_minute)];
        for (name, rate) in rates {
            if rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
                return refuse(&format!("`limits.{name}` must be above 0; leave it out to have it learned"));
            }
        }
        if self.hedge.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return refuse("`limits.hedge` is a share of the calls: from 0 to 1, such as 0.02");
        }
        Ok(())
    }

    fn settings(self, maximum: usize) -> AdaptiveSettings {
        AdaptiveSettings {
            maximum,
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            ..AdaptiveSettings::default()
        }
    }

    fn second_attempts(self) -> Option<Hedge> {
        let extra_share = self.hedge.filter(|share| *share > 0.0)?;
        Some(Hedge { extra_share, ..Hedge::default() })
    }

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
                let limiter = Limiter::new(Arc::new(Adaptive::new(known.settings(maximum))));
                match known.second_attempts() {
                    Some(hedge) => limiter.with_hedge(hedge),
                    None => limiter,
                }
            }
        }
    }

    /// The settings of a limit that can be shared with other processes, and
    /// what is said of second attempts.
    pub(crate) fn shared(&self) -> Option<(AdaptiveSettings, Option<Hedge>)> {
        match *self {
            Self::Fixed(_) => None,
            Self::Learned { maximum, known } => Some((known.settings(maximum), known.second_attempts())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_cannot_be_are_refused_by_name() {
        let refusal = |limits: EndpointLimits, concurrency| limits.check("gpt", concurrency).unwrap_err().to_string();
        let none = EndpointLimits::default();
        assert!(refusal(none, Some(0)).contains("concurrency"));
        let requests = EndpointLimits { requests_per_minute: Some(0.0), ..none };
        assert!(refusal(requests, None).contains("limits.requests_per_minute"));
        let tokens = EndpointLimits { tokens_per_minute: Some(f64::NAN), ..none };
        assert!(refusal(tokens, None).contains("limits.tokens_per_minute"));
        assert!(refusal(EndpointLimits { hedge: Some(2.0), ..none }, None).contains("from 0 to 1"));
        assert!(none.check("gpt", Some(1)).is_ok());
    }

    #[test]
    fn what_is_known_reaches_the_limiter() {
        let known = EndpointLimits { requests_per_minute: Some(60.0), ..EndpointLimits::default() };
        assert_eq!(known.within(Some(3)).maximum(), 3);
        assert_eq!(known.within(None).maximum(), MAXIMUM);
        assert_eq!(Limits::Fixed(2).limiter().status().target, 2);
    }
}
