//! How many calls an endpoint takes: stated by the user, or learned during use.

use executor::{AdaptiveSettings, Hedge, RetryPolicy};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most calls in flight, if no smaller number is given.
const MAXIMUM: usize = 256;

/// The known limits of an endpoint. Limits that are left out are learned: from
/// the headers of answers, from refusals, and from latencies.
///
/// All uses of one model at one endpoint with one key share one limit. If
/// several entries of `[models]` state different rates or `concurrency` for it, the
/// smallest of each holds for all of them. `hedge` and `refusal_timeout_seconds` hold
/// for their own entry only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// How long refusals for lack of capacity (429, 503) may continue with no
    /// call getting through, in seconds; then the calls fail, and the next run
    /// makes them again. As long as any call gets through, no call is given up
    /// because of a refusal. 300 if left out, and never less than one answer
    /// may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal_timeout_seconds: Option<f64>,
}

/// How many calls a model takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limits {
    /// This many at once.
    Fixed(usize),
    /// As many as the endpoint turns out to take.
    Learned {
        /// The most at once.
        maximum: usize,
        /// The known limits.
        known: EndpointLimits,
        /// How long one answer may take, in seconds.
        timeout_seconds: f64,
    },
}

impl EndpointLimits {
    /// These limits, with at most this many calls in flight; [`MAXIMUM`] if the settings do not say.
    pub(crate) fn within(self, concurrency: Option<usize>, timeout_seconds: f64) -> Limits {
        Limits::Learned { maximum: concurrency.unwrap_or(MAXIMUM).max(1), known: self, timeout_seconds }
    }

    /// The stricter of two limits, number by number.
    fn stricter(self, other: Self) -> Self {
        let least = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            requests_per_minute: least(self.requests_per_minute, other.requests_per_minute),
            tokens_per_minute: least(self.tokens_per_minute, other.tokens_per_minute),
            // Each handle has its own settings for second attempts and refusals.
            hedge: self.hedge,
            refusal_timeout_seconds: self.refusal_timeout_seconds,
        }
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

    /// These limits, with another number of calls in flight at most.
    pub(crate) fn with_concurrency(self, concurrency: usize) -> Self {
        match self {
            Self::Fixed(_) => Self::Fixed(concurrency),
            Self::Learned { known, timeout_seconds, .. } => {
                Self::Learned { maximum: concurrency, known, timeout_seconds }
            }
        }
    }

    /// The settings of a limit that is learned.
    pub(crate) fn settings(&self) -> Option<AdaptiveSettings> {
        match *self {
            Self::Fixed(_) => None,
            Self::Learned { maximum, known, .. } => Some(AdaptiveSettings {
                maximum,
                requests_per_minute: known.requests_per_minute,
                tokens_per_minute: known.tokens_per_minute,
                ..AdaptiveSettings::default()
            }),
        }
    }

    /// The stricter of two limits: each handle of a model may have limits of
    /// its own.
    pub(crate) fn stricter(&self, other: &Self) -> Self {
        match (*self, *other) {
            (
                Self::Learned { maximum, known, timeout_seconds },
                Self::Learned { maximum: others, known: other, .. },
            ) => Self::Learned { maximum: maximum.min(others), known: known.stricter(other), timeout_seconds },
            (one, other) => Self::Fixed(one.maximum().min(other.maximum())),
        }
    }

    pub(crate) fn second_attempts(&self) -> Option<Hedge> {
        let Self::Learned { known, .. } = self else { return None };
        let extra_share = known.hedge.filter(|share| *share > 0.0)?;
        Some(Hedge { extra_share, ..Hedge::default() })
    }

    /// This policy, with the time limit for refusals.
    pub(crate) fn retry_policy(&self, policy: RetryPolicy) -> RetryPolicy {
        let Self::Learned { known, timeout_seconds, .. } = *self else { return policy };
        let stated = known.refusal_timeout_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let answer = Duration::try_from_secs_f64(timeout_seconds).unwrap_or_default();
        // Runs have the default policy. A caller that passed a shorter one to `Client::with_retry`, such as a service
        // for people who wait, wants failures early, so the settings cannot lengthen it.
        let max_refused = match policy.max_refused < RetryPolicy::default().max_refused {
            true => stated.map_or(policy.max_refused, |stated| stated.min(policy.max_refused)),
            false => stated.unwrap_or(policy.max_refused).max(answer),
        };
        RetryPolicy { max_refused, ..policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_waited_for_as_long_as_is_told_and_one_answer_at_least() {
        let waits = |told, timeout| {
            let known = EndpointLimits { refusal_timeout_seconds: told, ..EndpointLimits::default() };
            known.within(None, timeout).retry_policy(RetryPolicy::default()).max_refused.as_secs()
        };
        assert_eq!((waits(None, 60.0), waits(None, 900.0)), (300, 900));
        assert_eq!((waits(Some(20.0), 5.0), waits(Some(20.0), 60.0)), (20, 60));
        assert_eq!(waits(Some(1e300), 5.0), 300, "what is no time is not told");
    }

    #[test]
    fn of_two_limits_both_hold() {
        let limits = |concurrency, requests: Option<f64>, tokens: Option<f64>| {
            let none = EndpointLimits::default();
            EndpointLimits { requests_per_minute: requests, tokens_per_minute: tokens, ..none }.within(concurrency, 1.0)
        };
        let both = limits(Some(4), Some(60.0), None).stricter(&limits(None, Some(90.0), Some(1000.0)));
        assert_eq!(both, limits(Some(4), Some(60.0), Some(1000.0)));
        assert_eq!(Limits::Fixed(3).stricter(&Limits::Fixed(2)), Limits::Fixed(2));
    }

    #[test]
    fn what_is_known_reaches_the_limiter() {
        let known = EndpointLimits { requests_per_minute: Some(60.0), ..EndpointLimits::default() };
        assert_eq!(known.within(Some(3), 1.0).maximum(), 3);
        assert_eq!(known.within(None, 1.0).maximum(), MAXIMUM);
        assert_eq!(known.within(None, 1.0).settings().and_then(|settings| settings.requests_per_minute), Some(60.0));
    }
}
