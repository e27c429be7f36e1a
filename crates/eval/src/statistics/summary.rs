//! The mean of a metric over questions, with its uncertainty.
//!
//! When to use it: for every number on a leaderboard. Failed rows are not dropped:
//! the mean is over the scored rows, and `worst` and `best` are the means if each
//! failed row had the lowest or the highest score of the metric's range. Rows to
//! which the metric does not apply, or which were left out on purpose, are no
//! failures, because they are the same for every trial.

use super::{bootstrap_mean, mean};
use crate::Score;
use serde::{Deserialize, Serialize};

/// A mean with its interval, counts and bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The mean of the scored rows; none if there are none.
    pub mean: Option<f64>,
    /// The lower end of the mean's 95 % bootstrap interval; none below two rows.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// Rows with a score.
    pub n_scored: usize,
    /// Rows that should have a score and have none.
    pub n_failed: usize,
    /// All rows, also those that do not apply or were not asked.
    pub n_total: usize,
    /// The mean if every failed row had the lowest score of the range, also where lower is better.
    pub worst: Option<f64>,
    /// The mean if every failed row had the highest score of the range.
    pub best: Option<f64>,
}

impl Summary {
    /// Summarises scores of a metric with this range.
    pub fn of(scores: &[Score], range: (f64, f64), seed: u64) -> Self {
        let values: Vec<f64> = scores.iter().filter_map(Score::value).collect();
        let n_failed = scores.iter().filter(|score| score.is_failure()).count();
        let interval = bootstrap_mean(&values, range, seed);
        let n_bounded = values.len() + n_failed;
        let bound = |filler: f64| {
            if n_bounded == 0 {
                return None;
            }
            Some((values.iter().sum::<f64>() + filler * n_failed as f64) / n_bounded as f64)
        };
        Self {
            mean: mean(&values),
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            n_scored: values.len(),
            n_failed,
            n_total: scores.len(),
            worst: bound(range.0),
            best: bound(range.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Missing;

    fn failed() -> Score {
        Score::Missing(Missing::JudgeUnparsable("?".into()))
    }

    #[test]
    fn failed_rows_are_counted_and_bound_the_mean() {
        let scores = [Score::Value(0.5), failed(), Score::Value(1.0), failed()];
        let summary = Summary::of(&scores, (0.0, 1.0), 0);
        assert_eq!(summary.mean, Some(0.75));
        assert_eq!((summary.n_scored, summary.n_failed, summary.n_total), (2, 2, 4));
        assert_eq!((summary.worst, summary.best), (Some(0.375), Some(0.875)));
    }

    #[test]
    fn the_mean_of_the_reference_vector_leaves_the_empty_row_out_and_says_so() {
        let empty = Score::Missing(Missing::EmptyInput("no statements".into()));
        let summary = Summary::of(&[Score::Value(0.5), empty, Score::Value(1.0)], (0.0, 1.0), 0);
        assert_eq!(summary.mean, Some(0.75));
        assert_eq!((summary.n_scored, summary.n_total), (2, 3));
    }

    #[test]
    fn rows_that_do_not_apply_are_no_failures() {
        let scores = [Score::Value(0.5), Score::Missing(Missing::NotApplicable("no reference".into()))];
        let summary = Summary::of(&scores, (0.0, 1.0), 0);
        assert_eq!((summary.n_failed, summary.n_total), (0, 2));
        assert_eq!((summary.worst, summary.best), (Some(0.5), Some(0.5)));
    }

    #[test]
    fn nothing_scored_has_no_mean() {
        let summary = Summary::of(&[failed()], (0.0, 1.0), 0);
        assert_eq!((summary.mean, summary.worst, summary.best), (None, Some(0.0), Some(1.0)));
        assert_eq!(Summary::of(&[], (0.0, 1.0), 0).worst, None);
    }
}
