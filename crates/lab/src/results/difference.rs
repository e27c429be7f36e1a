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
    use super::super::{Winner, fixture};
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
}
