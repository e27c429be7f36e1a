//! The interval of a statistic, and what all ways to compute one share.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// How many times the sample is drawn again.
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

/// How far the ends of an interval are from its middle, in standard errors:
/// beyond those of a normal distribution, by more the fewer items there are.
pub(super) fn reach(items: usize) -> Option<f64> {
    let n = items.max(2) as f64;
    let student = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
    Some((n / (n - 1.0)).sqrt() * student.inverse_cdf(1.0 - MISSED / 2.0))
}
