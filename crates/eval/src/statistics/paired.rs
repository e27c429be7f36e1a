//! Tests of differences, question by question.
//!
//! When to use it: to test whether one trial is better than another. Both answered
//! the same questions, so the difficulty of the questions cancels.
//!
//! - p-value: paired randomisation (sign-flip) test, two-sided, or one-sided
//!   where only a loss is of interest. If the trials were equal, each difference
//!   could as well have the other sign. All 2ⁿ signs are tried up to 16
//!   questions, else 10,000 random ones, and then p = (as extreme + 1) /
//!   (tried + 1), so that p is never 0. For more than 10,000 differences the
//!   sum over random signs is normal, and p is taken from that distribution.
//! - many comparisons: Holm's step-down correction.
//!
//! Sources: E. W. Noreen, "Computer-Intensive Methods for Testing Hypotheses",
//! 1989; M. D. Smucker et al., "A Comparison of Statistical Significance Tests
//! for Information Retrieval Evaluation", CIKM 2007; S. Holm, Scandinavian
//! Journal of Statistics 6 (1979).

use super::{Interval, Random, bootstrap_mean, effect_size, mean, questions_needed};
use crate::Score;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// Up to this many differences, every assignment of signs is tried.
const EXACT_UP_TO: usize = 16;
const RANDOM_FLIPS: usize = 10_000;
/// With more differences than this, the sum over random signs is normal to
/// within the noise of 10,000 draws.
const NORMAL_FROM: usize = 10_000;

/// One trial against another on the same questions in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The mean of (first − second) over the questions that both have a score for.
    pub mean_difference: Option<f64>,
    /// The 95 % interval of that mean (paired bootstrap).
    pub interval: Option<Interval>,
    /// How likely a mean this far from 0 is if neither is better. Not corrected.
    pub p_value: Option<f64>,
    /// Questions that both have a score for.
    pub n_pairs: usize,
    /// Questions in all.
    pub n_total: usize,
    /// The mean difference in standard deviations of the differences (Cohen's d).
    pub effect_size: Option<f64>,
    /// The approximate number of questions that would tell the two apart.
    pub questions_needed: Option<usize>,
    /// The mean difference if every failed score had the value of the metric's range
    /// that is worst for the first.
    pub least: Option<f64>,
    /// The same, best for the first.
    pub most: Option<f64>,
}

impl Comparison {
    /// Compares two lists of scores of the same questions. `range` is the
    /// metric's. Questions beyond the shorter list are not compared.
    pub fn of(first: &[Score], second: &[Score], range: (f64, f64), seed: u64) -> Self {
        let mut differences = Vec::new();
        let (mut least, mut most, mut n_bounded) = (0.0, 0.0, 0usize);
        for (a, b) in first.iter().zip(second) {
            if let (Some(a), Some(b)) = (a.value(), b.value()) {
                differences.push(a - b);
            }
            if let (Some(a), Some(b)) = (a.bounds(range), b.bounds(range)) {
                least += a.0 - b.1;
                most += a.1 - b.0;
                n_bounded += 1;
            }
        }
        let bound = |sum: f64| if n_bounded == 0 { None } else { Some(sum / n_bounded as f64) };
        Self {
            mean_difference: mean(&differences),
            interval: bootstrap_mean(&differences, (range.0 - range.1, range.1 - range.0), seed),
            p_value: if differences.is_empty() { None } else { Some(sign_flip_p_value(&differences, seed)) },
            effect_size: effect_size(&differences),
            questions_needed: questions_needed(&differences),
            n_pairs: differences.len(),
            n_total: first.len().max(second.len()),
            least: bound(least),
            most: bound(most),
        }
    }
}

/// The two-sided p-value of the sign-flip test: 1 for no differences at all.
pub(super) fn sign_flip_p_value(differences: &[f64], seed: u64) -> f64 {
    share_as_extreme(differences, seed, f64::abs)
}

/// The one-sided p-value of the sign-flip test: how likely a sum as low as this
/// one is if neither is better. 1 for no differences at all.
pub fn sign_flip_p_value_of_loss(differences: &[f64], seed: u64) -> f64 {
    share_as_extreme(differences, seed, |sum| -sum)
}

/// The share of sign assignments whose sum is at least as extreme as the observed
/// one. `extreme` measures a sum.
fn share_as_extreme(differences: &[f64], seed: u64, extreme: fn(f64) -> f64) -> f64 {
    // A difference of 0 is the same with either sign.
    let differences: Vec<f64> = differences.iter().copied().filter(|x| *x != 0.0).collect();
    let observed = extreme(differences.iter().sum::<f64>());
    // Sums in another order round differently; equal ones must count as equal.
    let observed = observed - differences.iter().map(|x| x.abs()).sum::<f64>() * 1e-12;
    let flipped_sum = |signs: &mut dyn FnMut(usize) -> bool| {
        extreme(differences.iter().enumerate().map(|(i, x)| if signs(i) { -x } else { *x }).sum::<f64>())
    };
    if differences.len() <= EXACT_UP_TO {
        let n_all = 1u32 << differences.len();
        let n_extreme = (0..n_all).filter(|bits| flipped_sum(&mut |i| bits >> i & 1 == 1) >= observed).count();
        return n_extreme as f64 / f64::from(n_all);
    }
    if differences.len() > NORMAL_FROM {
        let deviation = differences.iter().map(|x| x * x).sum::<f64>().sqrt();
        // The smallest p that 10,000 draws can show stays the smallest.
        let floor = 1.0 / (RANDOM_FLIPS + 1) as f64;
        let beyond = |sum: f64| 1.0 - Normal::standard().cdf(sum / deviation);
        // Two-sided if a sum and its opposite are equally extreme.
        let sides = if extreme(-1.0) == extreme(1.0) { 2.0 } else { 1.0 };
        return (sides * beyond(observed)).clamp(floor, 1.0);
    }
    let mut random = Random::new(seed);
    let mut n_extreme = 0usize;
    for _ in 0..RANDOM_FLIPS {
        let mut bits = 0;
        let sum = flipped_sum(&mut |i| {
            if i % 64 == 0 {
                bits = random.next_u64();
            }
            bits >> (i % 64) & 1 == 1
        });
        n_extreme += usize::from(sum >= observed);
    }
    (n_extreme + 1) as f64 / (RANDOM_FLIPS + 1) as f64
}

/// Holm's corrected p-values, in the order given. Rejecting those below α
/// keeps the chance of any false rejection below α.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &position) in order.iter().enumerate() {
        let scaled = p_values[position] * (p_values.len() - rank) as f64;
        largest = largest.max(scaled.min(1.0));
        corrected[position] = largest;
    }
    corrected
}

/// [`holm`] of the tests that have a p-value; the others stay `None`.
pub fn holm_of_known(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let known: Vec<f64> = p_values.iter().copied().flatten().collect();
    let mut corrected = holm(&known).into_iter();
    p_values.iter().map(|p_value| p_value.and_then(|_| corrected.next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Missing;

    #[test]
    fn five_equal_wins_have_p_two_of_thirty_two() {
        assert_eq!(sign_flip_p_value(&[1.0; 5], 0), 2.0 / 32.0);
        assert_eq!(sign_flip_p_value(&[-0.1; 5], 0), 2.0 / 32.0);
    }

    #[test]
    fn the_exact_test_counts_every_assignment_of_signs() {
        // Sums of ±1 ±2 ±3: 6, 4, 2, 0 and their negatives; |sum| ≥ 4 in 4 of 8.
        assert_eq!(sign_flip_p_value(&[-1.0, 2.0, 3.0], 0), 0.5);
    }

    #[test]
    fn no_difference_has_p_one() {
        assert_eq!(sign_flip_p_value(&[], 0), 1.0);
        assert_eq!(sign_flip_p_value(&[0.0; 40], 0), 1.0);
        let balanced: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 0.3 } else { -0.3 }).collect();
        assert_eq!(sign_flip_p_value(&balanced, 9), 1.0);
    }

    #[test]
    fn the_test_of_many_differences_agrees_with_the_exact_binomial() {
        // 6,100 of 12,000 won: two-sided, the sign test has p = 0.0692.
        let differences: Vec<f64> = (0..12_000).map(|i| if i < 6_100 { 0.5 } else { -0.5 }).collect();
        assert!((sign_flip_p_value(&differences, 0) - 0.0692).abs() < 0.003);
        assert!((sign_flip_p_value_of_loss(&differences, 0) - (1.0 - 0.0692 / 2.0)).abs() < 0.003);
        assert_eq!(sign_flip_p_value(&[1.0; 12_000], 0), 1.0 / 10_001.0);
    }

    #[test]
    fn the_random_test_agrees_with_the_exact_one() {
        // 20 differences of ±1 with 15 wins: P(|wins − 10| ≥ 5) = 0.041389.
        let differences: Vec<f64> = (0..20).map(|i| if i < 15 { 1.0 } else { -1.0 }).collect();
        let p = sign_flip_p_value(&differences, 4);
        assert!((p - 0.041_389).abs() < 0.008, "{p}");
    }

    #[test]
    fn the_one_sided_test_counts_losses_alone() {
        assert_eq!(sign_flip_p_value_of_loss(&[-1.0; 5], 0), 1.0 / 32.0);
        assert_eq!(sign_flip_p_value_of_loss(&[1.0; 5], 0), 1.0);
        assert_eq!(sign_flip_p_value_of_loss(&[], 0), 1.0);
        assert_eq!(sign_flip_p_value_of_loss(&[0.0; 40], 0), 1.0);
        // 20 differences of ±1 with 15 losses: P(losses ≥ 15) = 0.020695.
        let losses: Vec<f64> = (0..20).map(|i| if i < 15 { -1.0 } else { 1.0 }).collect();
        let p = sign_flip_p_value_of_loss(&losses, 4);
        assert!((p - 0.020_695).abs() < 0.006, "{p}");
        let gains: Vec<f64> = losses.iter().map(|x| -x).collect();
        assert!(sign_flip_p_value_of_loss(&gains, 4) > 0.97);
    }

    #[test]
    fn holm_gives_the_textbook_values() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, want) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - want).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn what_has_no_p_value_is_no_test_to_correct_for() {
        assert_eq!(holm_of_known(&[None, Some(0.25), None, Some(0.5)]), [None, Some(0.5), None, Some(0.5)]);
        assert_eq!(holm_of_known(&[Some(0.25), None]), [Some(0.25), None]);
        assert_eq!(holm_of_known(&[None]), [None]);
    }

    #[test]
    fn a_failed_score_leaves_the_pairs_and_widens_the_bounds() {
        let failed = Score::Missing(Missing::ProviderError("down".into()));
        let first = [Score::Value(1.0), failed.clone(), Score::Value(0.5)];
        let second = [Score::Value(0.0), Score::Value(0.5), Score::Value(0.5)];
        let comparison = Comparison::of(&first, &second, (0.0, 1.0), 0);
        assert_eq!((comparison.n_pairs, comparison.n_total), (2, 3));
        assert_eq!(comparison.mean_difference, Some(0.5));
        assert_eq!(comparison.least, Some(0.5 / 3.0));
        assert_eq!(comparison.most, Some(0.5));
    }

    #[test]
    fn questions_that_were_not_asked_are_no_part_of_the_bounds() {
        let skipped = Score::Missing(Missing::NotAsked("limit".into()));
        let first = [Score::Value(1.0), skipped.clone()];
        let comparison = Comparison::of(&first, &[Score::Value(0.0), skipped], (0.0, 1.0), 0);
        assert_eq!((comparison.least, comparison.most), (Some(1.0), Some(1.0)));
    }
}
