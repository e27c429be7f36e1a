//! Percentile bootstrap intervals.
//!
//! For the uncertainty of a mean (or of any statistic) over questions, without
//! assuming how scores are distributed. The questions are drawn anew with
//! replacement, 2,000 times; the interval runs from the 2.5th to the 97.5th
//! percentile of what the statistic was. It is too narrow below about ten
//! questions, and has no width where all values are equal: read it with the
//! number of questions beside it.
//!
//! Source: B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", 1993,
//! chapter 13.

use super::{Random, mean};
use serde::{Deserialize, Serialize};

/// How many times the sample is drawn anew.
pub const RESAMPLES: usize = 2_000;

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The 2.5th percentile.
    pub low: f64,
    /// The 97.5th percentile.
    pub high: f64,
}

/// The interval of a mean. None of fewer than two values: one value says
/// nothing about how much values differ.
pub fn bootstrap_mean(values: &[f64], seed: u64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    // Summing in place spares an index list per resample.
    let mut random = Random::new(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..values.len()).map(|_| values[random.below(values.len())]).sum::<f64>() / values.len() as f64)
        .collect();
    // Rounding of sums must not push an end of the interval beyond the values.
    let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &x| (a.min(x), b.max(x)));
    means.iter_mut().for_each(|x| *x = x.clamp(least, most));
    interval(means)
}

/// The interval of any statistic of `n` items: the statistic is given the
/// positions that were drawn. Draws for which it has no value (such as an AUC
/// of one class) are left out; none if fewer than half have one.
pub fn bootstrap(n: usize, seed: u64, statistic: impl Fn(&[usize]) -> Option<f64>) -> Option<Interval> {
    if n < 2 {
        return None;
    }
    let mut random = Random::new(seed);
    let mut drawn = vec![0; n];
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.iter_mut().for_each(|position| *position = random.below(n));
        values.extend(statistic(&drawn).filter(|value| value.is_finite()));
    }
    if values.len() * 2 < RESAMPLES { None } else { interval(values) }
}

fn interval(mut values: Vec<f64>) -> Option<Interval> {
    mean(&values)?;
    values.sort_by(f64::total_cmp);
    Some(Interval { low: quantile(&values, 0.025), high: quantile(&values, 0.975) })
}

/// The quantile of sorted values, with a straight line between neighbours.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_near_the_normal_one_for_many_values() {
        // 0..100: mean 49.5, standard error 28.866 / 10, so ± 5.66 for 95 %.
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = bootstrap_mean(&values, 1).unwrap();
        assert!((interval.low - 43.84).abs() < 0.6, "{interval:?}");
        assert!((interval.high - 55.16).abs() < 0.6, "{interval:?}");
    }

    #[test]
    fn the_interval_depends_on_the_seed_alone() {
        let values = [0.1, 0.5, 0.9, 0.3];
        assert_eq!(bootstrap_mean(&values, 5), bootstrap_mean(&values, 5));
    }

    #[test]
    fn equal_values_give_an_interval_of_no_width() {
        assert_eq!(bootstrap_mean(&[0.7; 9], 3), Some(Interval { low: 0.7, high: 0.7 }));
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(bootstrap_mean(&[0.5], 0), None);
        assert_eq!(bootstrap_mean(&[], 0), None);
    }

    #[test]
    fn quantiles_lie_on_the_line_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.5);
        assert_eq!(quantile(&[1.0, 2.0], 0.975), 1.975);
        assert_eq!(quantile(&[4.0], 0.025), 4.0);
    }

    #[test]
    fn a_statistic_without_values_has_no_interval() {
        assert_eq!(bootstrap(10, 0, |_| None), None);
        assert!(bootstrap(10, 0, |drawn| Some(drawn[0] as f64)).is_some());
    }
}
