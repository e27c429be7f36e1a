//! Statistics of scores: means with intervals, bounds for missing scores, paired
//! tests with correction, and the quality of a judge; and totals from a sample.
//!
//! Everything is exact or seeded, so that equal scores give equal numbers on
//! every machine. The functions take scores and labels: none depends on a metric or trial.

mod agreement;
mod bootstrap;
mod confidence_set;
mod corrected;
mod drift;
mod effect;
mod front;
mod interval;
mod judge;
mod large_sample;
mod noise;
mod paired;
mod power;
mod preference;
mod random;
mod sequential;
mod seriation;
mod stratified;
mod summary;

pub use agreement::{Agreement, ClassAgreement};
pub use bootstrap::{bootstrap, bootstrap_mean, bootstrap_mean_of_means, bootstrap_means, bootstrap_ratio};
pub use confidence_set::{MOST_QUESTIONS, Scores, Standing, confidence_sets, corrected_level, equality_p_value};
pub use corrected::{CorrectedMean, corrected_mean};
pub use drift::FallDetector;
pub use effect::{effect_size, questions_needed};
pub use front::front_shares;
pub use interval::Interval;
pub(crate) use judge::balanced_accuracy_interval;
pub use judge::{auc, balanced_accuracy};
pub use noise::NoiseBudget;
pub use paired::{Comparison, holm, holm_of_known, sign_flip_p_value_of_loss};
pub use power::{detectable_difference, detectable_difference_of_binary_scores, detectable_loss, fewest_losses};
pub use preference::{FEWEST_VOTED_QUESTIONS, Preference, QuestionVotes};
pub use random::Random;
pub use sequential::betting_evidence;
pub use seriation::seriation;
pub use stratified::{RESAMPLES_OF_TOTAL, SampleWeights, StratifiedSample};
pub use summary::Summary;

/// The arithmetic mean, if there are values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
}

/// The median: the middle value, or the mean of the two middle ones. `None` if there are no values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

/// The sample variance, by n − 1; 0 if n is 1.
fn variance(values: &[f64]) -> f64 {
    let center = mean(values).unwrap_or_default();
    values.iter().map(|x| (x - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_variance_have_the_values_of_the_textbook() {
        assert_eq!((mean(&[]), mean(&[3.0]), mean(&[1.0, 2.0, 6.0])), (None, Some(3.0), Some(3.0)));
        assert_eq!((variance(&[]), variance(&[3.0]), variance(&[1.0, 2.0, 6.0])), (0.0, 0.0, 7.0));
    }
}
