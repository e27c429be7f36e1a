//! Effect size, and the number of questions that would show the difference.
//!
//! When to use it: in addition to a p-value, which shows neither. A difference that
//! is not significant may be zero or may need more questions; the second number
//! shows which is likely.
//!
//! - effect size: Cohen's d of paired differences, their mean over their
//!   standard deviation. By Cohen's rule of thumb 0.2 is small, 0.5 medium,
//!   0.8 large.
//! - questions needed: ((z(1 − α/2) + z(power)) / d)², for α = 0.05 and a
//!   power of 0.8. It is an estimate, because it takes the observed differences for
//!   the true ones. At least six: a two-sided sign-flip test of five questions has
//!   no p-value below 0.05.
//!
//! Source: J. Cohen, "Statistical Power Analysis for the Behavioral Sciences",
//! 1988, chapter 2.

use super::{fewest_losses, mean};

const ALPHA: f64 = 0.05;
/// The normal quantile of 0.975 and that of 0.8.
const SIGNIFICANCE: f64 = 1.959_964;
const POWER: f64 = 0.841_621;

/// Cohen's d of paired differences; `None` if fewer than two, or all equal.
pub fn effect_size(differences: &[f64]) -> Option<f64> {
    let center = mean(differences)?;
    let squares: f64 = differences.iter().map(|x| (x - center).powi(2)).sum();
    let deviation = (squares / (differences.len() as f64 - 1.0)).sqrt();
    // Differences that are equal but for rounding have no spread.
    (differences.len() > 1 && deviation > 1e-12).then(|| center / deviation)
}

/// About how many questions it takes to tell two trials with these differences
/// apart. `None` if it takes more than a million, or if all differences are equal.
pub fn questions_needed(differences: &[f64]) -> Option<usize> {
    let effect = effect_size(differences)?.abs();
    let needed = ((SIGNIFICANCE + POWER) / effect).powi(2).ceil();
    let needed = needed.max(fewest_losses(ALPHA / 2.0) as f64);
    // Trials that need a million questions are equal in practice.
    (needed <= 1e6).then_some(needed as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effect_is_the_mean_in_standard_deviations() {
        // Mean 2, deviations −1, 0, 1: standard deviation 1.
        assert_eq!(effect_size(&[1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(effect_size(&[0.5]), None);
        assert_eq!(effect_size(&[0.3; 8]), None);
    }

    #[test]
    fn a_medium_effect_needs_32_pairs() {
        // Textbook: d = 0.5, α = 0.05, power 0.8: 31.4 by the normal formula.
        let differences = [-0.5 + 1.5 / 3f64.sqrt(), 1.5, 0.5 - 1.0, 0.5];
        let scale = effect_size(&differences).unwrap() / 0.5;
        // Shift the mean until the effect is one half.
        let center = mean(&differences).unwrap();
        let shifted: Vec<f64> = differences.iter().map(|x| x - center + center / scale).collect();
        assert!((effect_size(&shifted).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(questions_needed(&shifted), Some(32));
    }

    #[test]
    fn no_difference_is_told_by_fewer_than_six_questions() {
        assert_eq!(questions_needed(&[1.0, 1.01, 0.99, 1.0]), Some(6));
    }

    #[test]
    fn equal_trials_are_never_told_apart() {
        assert_eq!(questions_needed(&[0.0; 50]), None);
        assert_eq!(questions_needed(&[1.0, -1.0, 1.0, -1.0]), None);
    }
}
