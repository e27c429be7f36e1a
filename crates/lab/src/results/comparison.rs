//! Compares two trials, metric by metric, on the questions that both were
//! asked.

use super::{Results, TrialResult, winner::SEED};
use crate::Error;
use eval::{
    Score,
    statistics::{Comparison, holm_of_known},
};
use serde::{Deserialize, Serialize};

/// The comparison of two trials by one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricComparison {
    /// The metric.
    pub metric: String,
    /// The p-value, corrected for the number of metrics.
    pub corrected: Option<f64>,
    /// Everything else.
    #[serde(flatten)]
    pub comparison: Comparison,
}

impl Results {
    /// Compares two trials, metric by metric. Differences are the first minus the second.
    ///
    /// # Errors
    /// If there is no such trial.
    pub fn compare(&self, first: &str, second: &str) -> Result<Vec<MetricComparison>, Error> {
        let (first, second) = (self.trial(first)?, self.trial(second)?);
        let of = |name: &str, range| Comparison::of(&scores(first, name), &scores(second, name), range, SEED);
        let comparisons: Vec<Comparison> = self.metrics.iter().map(|metric| of(&metric.name, metric.range)).collect();
        let p_values: Vec<Option<f64>> = comparisons.iter().map(|comparison| comparison.p_value).collect();
        let rows = self.metrics.iter().zip(holm_of_known(&p_values)).zip(comparisons);
        Ok(rows
            .map(|((metric, corrected), comparison)| MetricComparison {
                metric: metric.name.clone(),
                corrected,
                comparison,
            })
            .collect())
    }
}

/// A metric's scores, in the order of the dataset.
fn scores(trial: &TrialResult, metric: &str) -> Vec<Score> {
    let score = |scored: &eval::Scored| scored.score.clone();
    trial.questions.iter().filter_map(|question| question.scores.get(metric).map(score)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;

    #[test]
    fn p_values_are_corrected_for_the_number_of_metrics_that_have_one() {
        let mut results = fixture::results(2);
        let scored = |value| vec![Some(value); 5];
        fixture::score(&mut results, "recall", &[scored(1.0), scored(0.0)]);
        fixture::score(&mut results, "ndcg", &[scored(0.5), scored(0.5)]);
        fixture::score(&mut results, "token_f1", &[vec![None; 5], scored(0.5)]);
        let rows = results.compare("t01", "t02").unwrap();
        let told: Vec<_> =
            rows.iter().map(|row| (row.metric.as_str(), row.comparison.p_value, row.corrected)).collect();
        // Five equal wins have p = 2/32, and there are two tests.
        assert_eq!(told[0], ("recall", Some(0.0625), Some(0.125)));
        assert_eq!(told[1], ("ndcg", Some(1.0), Some(1.0)));
        assert_eq!(told[2], ("token_f1", None, None));
        assert_eq!(rows[0].comparison.mean_difference, Some(1.0));
        let turned = results.compare("t02", "t01").unwrap();
        assert_eq!(turned[0].comparison.mean_difference, Some(-1.0), "first minus second");
        assert!(results.compare("t01", "t09").is_err());
    }
}
