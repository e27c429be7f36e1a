//! Compares two trials, metric by metric, on the questions that both were
//! asked.

use super::{MetricResult, Results, SEED, TrialResult, no_such_trial};
use crate::Error;
use eval::{
    Missing, Score,
    statistics::{Comparison, holm_of_known},
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// The scores of trials: all that a comparison needs of the results, which hold
/// every passage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScoreTable {
    /// Each metric and its range.
    metrics: Vec<RangedMetric>,
    /// By trial: for each of the metrics its scores, in the order of the dataset.
    trials: BTreeMap<String, Vec<Vec<StoredScore>>>,
}

/// A trial's scores by metric, with the metric's range.
pub(crate) type ScoresByMetric<'a> = BTreeMap<&'a str, ((f64, f64), Vec<Score>)>;

/// A score as a comparison needs it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum StoredScore {
    Value(f64),
    /// No score; `true` if there should be one.
    Missing(bool),
}

impl StoredScore {
    fn of(score: &Score) -> Self {
        score.value().map_or_else(|| Self::Missing(score.is_failure()), Self::Value)
    }

    pub(crate) fn score(self) -> Score {
        match self {
            Self::Value(value) => Score::Value(value),
            Self::Missing(true) => Score::Missing(Missing::ProviderError(String::new())),
            Self::Missing(false) => Score::Missing(Missing::NotAsked(String::new())),
        }
    }
}

impl ScoreTable {
    /// The scores of one of the trials.
    pub(crate) fn of_one_trial(&self, id: &str) -> Self {
        let trials = self.trials.iter().filter(|(trial, _)| *trial == id);
        Self {
            metrics: self.metrics.clone(),
            trials: trials.map(|(id, scores)| (id.clone(), scores.clone())).collect(),
        }
    }

    /// The names of the metrics.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|(metric, _)| metric.as_str())
    }

    /// A trial's scores by metric, in the order of the dataset, with the
    /// metric's range.
    pub(crate) fn by_metric(&self, id: &str) -> Option<ScoresByMetric<'_>> {
        let columns = self.metrics.iter().zip(self.trials.get(id)?);
        let scores = |kept: &[StoredScore]| kept.iter().map(|kept| kept.score()).collect();
        Some(columns.map(|((metric, range), kept)| (metric.as_str(), (*range, scores(kept)))).collect())
    }

    /// The scores of these trials.
    pub(crate) fn of<'a>(metrics: &[MetricResult], trials: impl IntoIterator<Item = &'a TrialResult>) -> Self {
        let metrics: Vec<_> = metrics.iter().map(|metric| (metric.name.clone(), metric.range)).collect();
        let of = |trial: &TrialResult, metric: &str| {
            let scored = trial.questions.iter().filter_map(|question| question.scores.get(metric));
            scored.map(|scored| StoredScore::of(&scored.score)).collect()
        };
        let of_trial = |trial: &TrialResult| metrics.iter().map(|(name, _)| of(trial, name)).collect();
        let trials = trials.into_iter().map(|trial| (trial.trial.id.clone(), of_trial(trial))).collect();
        Self { metrics, trials }
    }

    /// Compares two trials, metric by metric. Differences are the first minus the second.
    ///
    /// # Errors
    /// If there is no such trial.
    pub(crate) fn compare(&self, first: &str, second: &str) -> Result<Vec<MetricComparison>, Error> {
        let of =
            |id: &str| self.trials.get(id).ok_or_else(|| no_such_trial(id, self.trials.keys().map(String::as_str)));
        let (first, second) = (of(first)?, of(second)?);
        let scores = |kept: &Vec<StoredScore>| kept.iter().map(|kept| kept.score()).collect::<Vec<Score>>();
        Ok(compare_metrics(&self.metrics, |i| (scores(&first[i]), scores(&second[i]))))
    }
}

/// A metric's name with its range.
pub(crate) type RangedMetric = (String, (f64, f64));

/// Compares scores of the same questions by metrics.
/// `scores` gives those of a metric, of the first and of the second.
pub(crate) fn compare_metrics(
    metrics: &[RangedMetric],
    scores: impl Fn(usize) -> (Vec<Score>, Vec<Score>) + Sync,
) -> Vec<MetricComparison> {
    let of = |i: usize| {
        let (first, second) = scores(i);
        Comparison::of(&first, &second, metrics[i].1, SEED)
    };
    let comparisons: Vec<Comparison> = (0..metrics.len()).into_par_iter().map(of).collect();
    let p_values: Vec<Option<f64>> = comparisons.iter().map(|comparison| comparison.p_value).collect();
    let rows = metrics.iter().zip(holm_of_known(&p_values)).zip(comparisons);
    rows.map(|(((metric, _), corrected), comparison)| MetricComparison {
        metric: metric.clone(),
        corrected,
        comparison,
    })
    .collect()
}

impl Results {
    /// Compares two trials, metric by metric. Differences are the first minus the second.
    ///
    /// # Errors
    /// If there is no such trial.
    pub fn compare(&self, first: &str, second: &str) -> Result<Vec<MetricComparison>, Error> {
        ScoreTable::of(&self.metrics, [self.trial(first)?, self.trial(second)?]).compare(first, second)
    }
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
