//! How far each trial is from the one that leads, with an interval.

use super::{
    MetricResult, Results, TrialResult,
    objective::{ObjectivePart, mean_of_means, scores},
};
use eval::statistics::Interval;
use serde::{Deserialize, Serialize};

/// The paired difference of the objective between a trial and the one that leads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The mean over the objective's metrics of the mean difference on the
    /// questions for which both trials have a score. Negative: this trial is behind.
    pub mean: f64,
    /// The 95 % interval of that mean (paired bootstrap); none of fewer than
    /// two questions.
    pub interval: Option<Interval>,
    /// The questions for which both have a score by at least one metric.
    pub n_questions: usize,
}

impl Results {
    /// Each trial's difference to the trial that leads, in the order of the
    /// trials: on the questions that trials are chosen by. None for the leading
    /// trial itself, for trials that share no scored question with it, and for
    /// trials that a search stopped: when they were stopped depends on their
    /// scores, so an interval would be too narrow.
    pub fn differences(&self) -> Vec<Option<Difference>> {
        let metrics: Vec<&MetricResult> = self.metrics.iter().filter(|metric| metric.objective).collect();
        let leading = match self.winner.first() {
            Some(first) => self.trials.iter().find(|trial| trial.trial.id == first),
            None => self.trials.first(),
        };
        let of = |trial: &TrialResult| self.difference(&metrics, leading?, trial);
        self.trials.iter().map(of).collect()
    }

    fn difference(&self, metrics: &[&MetricResult], leading: &TrialResult, trial: &TrialResult) -> Option<Difference> {
        if trial.trial.id == leading.trial.id || [leading, trial].iter().any(|trial| trial.stopped.is_some()) {
            return None;
        }
        let part = ObjectivePart { questions: &self.questions, test: false };
        let paired = |metric: &&MetricResult| -> Vec<Option<f64>> {
            let both = scores(trial, metric, part).into_iter().zip(scores(leading, metric, part));
            both.map(|(own, first)| Some(own? - first?)).collect()
        };
        let columns: Vec<Vec<Option<f64>>> = metrics.iter().map(paired).collect();
        let (mean, interval) = mean_of_means(&columns, (-1.0, 1.0))?;
        let rows = columns.first().map_or(0, Vec::len);
        Some(Difference {
            mean: mean?,
            interval,
            n_questions: (0..rows).filter(|&row| columns.iter().any(|column| column[row].is_some())).count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Winner, fixture},
        Difference,
    };
    use crate::search::{Stop, StopKind};

    #[test]
    fn differences_are_paired_with_the_winner_and_scaled() {
        let mut results = fixture::results(4);
        let scores = |values: [Option<f64>; 5]| values.to_vec();
        let first = scores([Some(1.0), Some(0.5), Some(0.0), Some(1.0), None]);
        let behind = scores([Some(0.5), Some(0.0), Some(0.0), None, Some(1.0)]);
        fixture::score(&mut results, "recall", &[first.clone(), behind, vec![None; 5], first]);
        results.metrics[0].objective = true;
        results.trials[3].stopped =
            Some(Stop { kind: StopKind::Eliminated, questions: 4, reason: "t01 is better".to_owned() });
        let differences = results.differences();
        assert_eq!(differences[0], None, "the winner itself");
        let behind = differences[1].unwrap();
        assert!((behind.mean + 1.0 / 3.0).abs() < 1e-12, "{behind:?}");
        assert_eq!(behind.n_questions, 3);
        let interval = behind.interval.unwrap();
        assert!(interval.low < behind.mean && behind.mean < interval.high, "{interval:?}");
        assert_eq!(differences[2..], [None, None], "without scores, and stopped by a search");
        results.metrics[0].higher_is_better = false;
        assert!(results.differences()[1].unwrap().mean > 0.0, "less is better");
    }

    #[test]
    fn without_a_winner_the_first_trial_is_compared_with() {
        let mut results = fixture::results(2);
        fixture::score(&mut results, "recall", &[vec![Some(1.0); 5], vec![Some(0.0); 5]]);
        results.metrics[0].objective = true;
        results.winner = Winner::Refused("scores are missing".to_owned());
        assert_eq!(results.differences().iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
        results.metrics[0].objective = false;
        assert_eq!(results.differences(), [None, None], "without an objective there is no difference");
    }

    /// The differences of two trials by these metrics, the first of which leads.
    fn of(columns: &[[&[Option<f64>]; 2]]) -> Option<Difference> {
        let mut results = fixture::results(2);
        results.questions.truncate(columns[0][0].len());
        results.trials.iter_mut().for_each(|trial| trial.questions.truncate(columns[0][0].len()));
        for (number, [first, second]) in columns.iter().enumerate() {
            fixture::score(&mut results, &format!("m{number}"), &[first.to_vec(), second.to_vec()]);
            results.metrics[number].objective = true;
        }
        let differences = results.differences();
        assert_eq!(differences[0], None);
        differences[1]
    }

    #[test]
    fn the_difference_is_the_mean_over_metrics_of_the_means_over_questions() {
        let (one, half, zero, none) = (Some(1.0), Some(0.5), Some(0.0), None::<f64>);
        // Scores of the leading trial and of the other by one or two metrics; the mean, the questions, an interval.
        type Case<'a> = (&'a str, &'a [[&'a [Option<f64>]; 2]], Option<(f64, usize, bool)>);
        let table: [Case<'_>; 7] = [
            ("equal", &[[&[one, zero], &[one, zero]]], Some((0.0, 2, true))),
            ("behind on one of two", &[[&[one, half], &[half, half]]], Some((-0.25, 2, true))),
            ("ahead where it counts", &[[&[zero, none], &[one, one]]], Some((1.0, 1, false))),
            // By the first metric −1 over one question, by the second 0.5 over both.
            ("two metrics", &[[&[one, none], &[zero, one]], [&[half, half], &[one, one]]], Some((-0.25, 2, false))),
            // A question counts if one metric has both scores.
            ("other questions", &[[&[one, none], &[one, one]], [&[none, one], &[one, one]]], Some((0.0, 2, false))),
            ("nothing in common", &[[&[one, none], &[none, one]]], None),
            ("nothing in common by one metric", &[[&[one, one], &[one, one]], [&[one, none], &[none, one]]], None),
        ];
        for (case, columns, expected) in table {
            let found = of(columns);
            match expected {
                None => assert_eq!(found, None, "{case}"),
                Some((mean, questions, has_interval)) => {
                    let found = found.unwrap_or_else(|| panic!("{case}"));
                    assert!((found.mean - mean).abs() < 1e-12, "{case}: {found:?}");
                    assert_eq!((found.n_questions, found.interval.is_some()), (questions, has_interval), "{case}");
                }
            }
        }
    }

    #[test]
    fn questions_of_the_test_split_do_not_count() {
        let mut results = fixture::results(2);
        let scores = |values: [f64; 5]| values.map(Some).to_vec();
        let (first, second) = (scores([1.0, 1.0, 1.0, 0.0, 0.0]), scores([0.5, 0.5, 0.5, 1.0, 1.0]));
        fixture::score(&mut results, "recall", &[first, second]);
        results.metrics[0].objective = true;
        results.questions[3..].iter_mut().for_each(|question| question.split = Some(eval::dataset::Split::Test));
        let found = results.differences()[1].unwrap();
        assert_eq!((found.mean, found.n_questions), (-0.5, 3));
    }

    #[test]
    fn all_trials_are_compared_with_the_one_that_leads_wherever_it_stands() {
        let mut results = fixture::results(3);
        fixture::score(&mut results, "recall", &[vec![Some(0.2); 5], vec![Some(0.5); 5], vec![Some(0.9); 5]]);
        results.metrics[0].objective = true;
        let means = |results: &super::Results| {
            results.differences().iter().map(|found| found.map(|found| (found.mean * 10.0).round())).collect::<Vec<_>>()
        };
        for (winner, expected) in [
            (Winner::Trial("t03".to_owned()), [Some(-7.0), Some(-4.0), None]),
            (Winner::Leads("t02".to_owned()), [Some(-3.0), None, Some(4.0)]),
            (Winner::Refused("open".to_owned()), [None, Some(3.0), Some(7.0)]),
            (Winner::Leads("t09".to_owned()), [None, None, None]),
        ] {
            results.winner = winner;
            assert_eq!(means(&results), expected, "{:?}", results.winner);
        }
        // Of a leading trial that was stopped there is no difference at all.
        results.winner = Winner::Leads("t02".to_owned());
        results.trials[1].stopped = Some(Stop { kind: StopKind::OutOfCalls, questions: 4, reason: "late".to_owned() });
        assert_eq!(means(&results), [None, None, None]);
    }
}
