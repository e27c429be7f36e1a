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

/// Compares two sets of scores of the same questions. `scores` returns both sets for the metric of
/// this index.
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
    use super::{super::fixture, *};

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

    /// Two trials with these scores by one metric of this range.
    fn table(range: (f64, f64), first: &[Option<f64>; 5], second: &[Option<f64>; 5]) -> ScoreTable {
        let mut results = fixture::results(2);
        fixture::score(&mut results, "recall", &[first.to_vec(), second.to_vec()]);
        results.metrics[0].range = range;
        ScoreTable::of(&results.metrics, &results.trials)
    }

    #[test]
    fn only_questions_with_both_scores_are_compared_and_a_failed_one_widens_the_bounds() {
        let first = [Some(1.0), Some(0.5), None, Some(0.5), None];
        let second = [Some(0.0), Some(0.5), Some(1.0), None, None];
        let row = &table((0.0, 1.0), &first, &second).compare("t01", "t02").unwrap()[0].comparison;
        assert_eq!((row.mean_difference, row.n_pairs, row.n_total), (Some(0.5), 2, 5));
        // At worst 1, 0, 0 − 1, 0.5 − 1 and 0 − 1; at best 1, 0, 1 − 1, 0.5 − 0 and 1 − 0.
        let close = |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < 1e-12, "{row:?}");
        close(row.least, -1.5 / 5.0);
        close(row.most, 2.5 / 5.0);
    }

    #[test]
    fn trials_without_a_common_question_have_no_difference_and_no_p_value() {
        let row = &table((0.0, 1.0), &[Some(1.0), None, None, None, None], &[None, Some(1.0), None, None, None])
            .compare("t01", "t02")
            .unwrap()[0];
        let numbers = &row.comparison;
        assert_eq!((numbers.mean_difference, numbers.p_value, row.corrected, numbers.n_pairs), (None, None, None, 0));
    }

    #[test]
    fn a_trial_compared_with_itself_differs_nowhere() {
        let scores = [Some(1.0), Some(0.25), None, Some(0.5), Some(0.0)];
        let row = &table((0.0, 1.0), &scores, &scores).compare("t01", "t01").unwrap()[0];
        let numbers = &row.comparison;
        assert_eq!((numbers.mean_difference, numbers.p_value, numbers.n_pairs), (Some(0.0), Some(1.0), 4));
    }

    #[test]
    fn a_table_knows_its_metrics_in_their_order_and_its_trials_by_their_ids() {
        let mut results = fixture::results(2);
        fixture::score(&mut results, "ndcg", &[vec![Some(1.0); 5], vec![Some(0.0); 5]]);
        fixture::score(&mut results, "abstention", &[vec![Some(0.5); 5], vec![None; 5]]);
        results.metrics[1].range = (0.0, 5.0);
        let table = ScoreTable::of(&results.metrics, &results.trials);
        assert_eq!(table.metrics().collect::<Vec<_>>(), ["ndcg", "abstention"]);
        assert_eq!(table.by_metric("t09"), None);
        let scores = table.by_metric("t01").unwrap();
        assert_eq!(scores["ndcg"], ((0.0, 1.0), vec![Score::Value(1.0); 5]));
        assert_eq!(scores["abstention"], ((0.0, 5.0), vec![Score::Value(0.5); 5]));
        assert!(table.by_metric("t02").unwrap()["abstention"].1.iter().all(Score::is_failure));

        let one = table.of_one_trial("t02");
        assert_eq!(one.metrics().collect::<Vec<_>>(), ["ndcg", "abstention"]);
        assert_eq!((one.by_metric("t01"), one.by_metric("t02")), (None, table.by_metric("t02")));
        let error = one.compare("t02", "t01").unwrap_err().to_string();
        assert_eq!(error, "there is no trial `t01`; there are t02");
    }

    #[test]
    fn a_stored_score_is_a_number_or_whether_there_should_be_one() {
        let not_asked = Score::Missing(Missing::NotApplicable("no passages".to_owned()));
        let failed = Score::Missing(Missing::JudgeUnparsable("no JSON".to_owned()));
        for (score, written) in
            [(Score::Value(0.25), "0.25"), (Score::Value(1.0), "1.0"), (failed, "true"), (not_asked, "false")]
        {
            let stored = StoredScore::of(&score);
            assert_eq!(serde_json::to_string(&stored).unwrap(), written);
            assert_eq!(serde_json::from_str::<StoredScore>(written).unwrap(), stored);
            let read = stored.score();
            assert_eq!((read.value(), read.is_failure()), (score.value(), score.is_failure()), "{written}");
        }
        // Earlier versions wrote whole numbers without a point.
        assert_eq!(serde_json::from_str::<StoredScore>("1").unwrap(), StoredScore::Value(1.0));
    }

    #[test]
    fn p_values_grow_with_the_number_of_metrics_and_keep_their_order() {
        let scores = |value: f64| vec![Score::Value(value); 6];
        let metric = |name: &str| (name.to_owned(), (0.0, 1.0));
        // Six wins have p = 2/64, six equal scores 1.
        let compare = |metrics: &[(&str, f64)]| {
            let named: Vec<RangedMetric> = metrics.iter().map(|(name, _)| metric(name)).collect();
            let rows = compare_metrics(&named, |i| (scores(metrics[i].1), scores(0.0)));
            rows.into_iter().map(|row| (row.metric, row.corrected.unwrap())).collect::<Vec<_>>()
        };
        let named = |rows: &[(&str, f64)]| rows.iter().map(|(name, p)| ((*name).to_owned(), *p)).collect::<Vec<_>>();
        assert_eq!(compare(&[("a", 1.0)]), named(&[("a", 0.03125)]));
        assert_eq!(compare(&[("a", 1.0), ("b", 0.5)]), named(&[("a", 0.0625), ("b", 0.0625)]));
        assert_eq!(compare(&[("b", 0.0), ("a", 1.0), ("c", 0.0)]), named(&[("b", 1.0), ("a", 0.09375), ("c", 1.0)]));
        assert_eq!(compare_metrics(&[], |_| unreachable!()), []);
    }
}
