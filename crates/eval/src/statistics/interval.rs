//! A confidence interval, and what all methods that compute intervals use.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The number of resamples.
pub(super) const RESAMPLES: usize = 10_000;

/// The share of intervals that may miss the true value.
pub(super) const MISSED: f64 = 0.05;

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The distance from the middle of an interval to its ends, in standard errors:
/// that of Student's t, expanded by √(n / (n − 1)).
pub(super) fn reach(items: usize) -> Option<f64> {
    let n = items.max(2) as f64;
    Some((n / (n - 1.0)).sqrt() * student_quantile(n - 1.0)?)
}

/// The distance from the middle of an interval to its ends, in standard errors, by Student's t with so many degrees of
/// freedom.
pub(super) fn student_quantile(freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(1.0 - MISSED / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reach_is_that_of_students_t_expanded_for_small_samples() {
        // t(0.975) of 1 and of 9 degrees of freedom, times √(n / (n − 1)).
        for (items, expected) in [(2, 12.7062 * 2f64.sqrt()), (10, 2.262_157 * (10.0 / 9.0f64).sqrt())] {
            assert!((reach(items).unwrap() - expected).abs() < 1e-3, "{items}: {:?}", reach(items));
        }
        assert!((reach(1_000_000).unwrap() - 1.96).abs() < 1e-3);
        assert_eq!(reach(0), reach(2), "there is no interval of fewer than two items");
    }
}
