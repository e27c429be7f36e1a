//! A trial's objective: the mean over its metrics of their means, each on a
//! scale where 0 is worst and 1 is best.
//!
//! Three cases are kept apart: a score that exists; a score that should exist and is missing, which
//! widens the bounds; and a question that a metric was not asked of or does not apply to, which is
//! ignored.

use super::{MetricResult, QuestionResult, SEED, TrialResult};
use eval::{
    Question,
    dataset::Split,
    statistics::{self, Interval, Summary, bootstrap_mean_of_means},
};
use std::collections::BTreeMap;

/// Which of the questions count.
#[derive(Clone, Copy)]
pub(super) struct ObjectivePart<'a> {
    /// All questions, in the order of the dataset.
    pub(super) questions: &'a [Question],
    /// Whether these are the questions of the split `test`, or those that trials are chosen by.
    pub(super) test: bool,
}

impl ObjectivePart<'_> {
    /// A trial's questions of this part, in the order of the dataset.
    fn of(self, trial: &TrialResult) -> impl Iterator<Item = &QuestionResult> {
        let belongs = move |question: &Question| (question.split == Some(Split::Test)) == self.test;
        trial.questions.iter().zip(self.questions).filter(move |(_, question)| belongs(question)).map(|(own, _)| own)
    }
}

/// One metric's scores of a trial, scaled; none where a score is missing.
pub(super) fn scores(trial: &TrialResult, metric: &MetricResult, part: ObjectivePart<'_>) -> Vec<Option<f64>> {
    let score =
        |question: &QuestionResult| question.scores[&metric.name].score.value().map(|it| to_unit_scale(metric, it));
    part.of(trial).map(score).collect()
}

/// The objective with its interval and bounds. None if a metric has no score.
pub(super) fn summary(trial: &TrialResult, metrics: &[&MetricResult], part: ObjectivePart<'_>) -> Option<Summary> {
    let columns: Vec<Vec<Option<f64>>> = metrics.iter().map(|metric| scores(trial, metric, part)).collect();
    let (mean, interval) = mean_of_means(&columns, (0.0, 1.0))?;
    let missing =
        |metric: &MetricResult| part.of(trial).filter(|own| own.scores[&metric.name].score.is_failure()).count();
    let n_missing: Vec<usize> = metrics.iter().map(|metric| missing(metric)).collect();
    // The objective with every missing score at one end of the range.
    let bound = |end: f64| {
        let filled = columns.iter().zip(&n_missing).map(|(column, &missing)| {
            let known = || column.iter().flatten();
            (known().sum::<f64>() + end * missing as f64) / (known().count() + missing) as f64
        });
        filled.sum::<f64>() / metrics.len() as f64
    };
    Some(Summary {
        mean,
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        n_scored: columns.iter().map(|column| column.iter().flatten().count()).sum(),
        n_failed: n_missing.iter().sum(),
        n_total: columns.iter().map(Vec::len).sum(),
        worst: Some(bound(0.0)),
        best: Some(bound(1.0)),
    })
}

/// The mean over metrics of their means over questions, and its 95 % interval
/// (bootstrap). None if a metric has no score; the mean is none without metrics.
pub(super) fn mean_of_means(
    columns: &[Vec<Option<f64>>],
    range: (f64, f64),
) -> Option<(Option<f64>, Option<Interval>)> {
    let mean = |column: &Vec<Option<f64>>| statistics::mean(&column.iter().copied().flatten().collect::<Vec<f64>>());
    let means: Vec<f64> = columns.iter().map(mean).collect::<Option<_>>()?;
    let borrowed: Vec<&[Option<f64>]> = columns.iter().map(Vec::as_slice).collect();
    Some((statistics::mean(&means), bootstrap_mean_of_means(&borrowed, range, SEED)))
}

/// A trial's contributions to the objective, one for each question; see
/// [`contribution`].
pub(super) fn question_scores(
    trial: &TrialResult,
    metrics: &[MetricResult],
    weights: &BTreeMap<String, Vec<f64>>,
) -> Vec<Option<f64>> {
    let value = |(number, question): (usize, &QuestionResult)| {
        contribution(metrics, weights, number, |metric| question.scores[&metrics[metric].name].score.value())
    };
    trial.questions.iter().enumerate().map(value).collect()
}

/// What a question contributes to a trial's objective: the mean over the
/// metrics, each multiplied with its weight (1 if none is given). None where a
/// metric with a weight above 0 has no score, for whatever reason: a metric that
/// does not apply to one trial's answer is no reason to call that trial worse or
/// better than another. The mean of the contributions is the objective if each
/// metric has the weight (all questions) / (its questions) at the questions that
/// it is asked of, and 0 at the others. `score` gives the score of a metric by
/// its place.
pub(crate) fn contribution(
    metrics: &[MetricResult],
    weights: &BTreeMap<String, Vec<f64>>,
    question: usize,
    score: impl Fn(usize) -> Option<f64>,
) -> Option<f64> {
    let weight = |metric: &MetricResult| {
        weights.get(&metric.name).map_or(1.0, |weights| weights.get(question).copied().unwrap_or_default())
    };
    let chosen = metrics.iter().enumerate().filter(|(_, metric)| metric.objective);
    let counted = chosen.clone().map(|(i, metric)| (i, metric, weight(metric))).filter(|(_, _, weight)| *weight > 0.0);
    let parts = counted.map(|(i, metric, weight)| Some(weight * to_unit_scale(metric, score(i)?)));
    let parts: Vec<f64> = parts.collect::<Option<_>>()?;
    Some(parts.iter().sum::<f64>() / chosen.count() as f64).filter(|_| !parts.is_empty())
}

/// A value on a scale where 0 is worst and 1 is best.
pub(super) fn to_unit_scale(metric: &MetricResult, value: f64) -> f64 {
    let (low, high) = metric.range;
    let share = (value - low) / (high - low);
    if metric.higher_is_better { share } else { 1.0 - share }
}

#[cfg(test)]
mod tests {
    use super::{super::fixture, *};

    fn metric(range: (f64, f64), higher_is_better: bool) -> MetricResult {
        MetricResult {
            name: "m".to_owned(),
            judged: false,
            objective: true,
            range,
            higher_is_better,
            correctness: false,
        }
    }

    #[test]
    fn the_worst_end_of_a_range_is_zero_and_the_best_one() {
        // The range, whether more is better, the value and its place.
        for (range, higher_is_better, value, expected) in [
            ((0.0, 1.0), true, 0.25, 0.25),
            ((0.0, 1.0), false, 0.25, 0.75),
            ((1.0, 5.0), true, 1.0, 0.0),
            ((1.0, 5.0), true, 5.0, 1.0),
            ((1.0, 5.0), true, 2.0, 0.25),
            ((1.0, 5.0), false, 2.0, 0.75),
            ((-1.0, 1.0), true, 0.0, 0.5),
            ((-1.0, 1.0), false, 1.0, 0.0),
            ((-1.0, 1.0), false, -1.0, 1.0),
        ] {
            let found = to_unit_scale(&metric(range, higher_is_better), value);
            assert!((found - expected).abs() < 1e-12, "{value} of {range:?}, {higher_is_better}: {found}");
        }
    }

    /// A trial with the scores 0.1 to 0.5, of which the last two questions are in the split `test`.
    fn split() -> super::super::Results {
        let mut results = fixture::results(1);
        fixture::score(&mut results, "m", &[vec![Some(0.1), Some(0.2), None, Some(0.4), Some(0.5)]]);
        results.metrics[0].objective = true;
        results.questions[3..].iter_mut().for_each(|question| question.split = Some(Split::Test));
        results
    }

    #[test]
    fn a_part_of_the_questions_has_its_own_scores_in_their_order() {
        let results = split();
        let of = |test| {
            scores(&results.trials[0], &results.metrics[0], ObjectivePart { questions: &results.questions, test })
        };
        assert_eq!((of(false), of(true)), (vec![Some(0.1), Some(0.2), None], vec![Some(0.4), Some(0.5)]));
    }

    #[test]
    fn a_part_has_its_own_mean_bounds_and_counts() {
        let results = split();
        let metrics: Vec<&MetricResult> = results.metrics.iter().collect();
        let of = |test| {
            summary(&results.trials[0], &metrics, ObjectivePart { questions: &results.questions, test }).unwrap()
        };
        let (tune, test) = (of(false), of(true));
        let close = |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?}");
        close(tune.mean, 0.15);
        close(tune.worst, 0.1);
        close(tune.best, 1.3 / 3.0);
        assert_eq!((tune.n_scored, tune.n_failed, tune.n_total), (2, 1, 3));
        for bound in [test.mean, test.worst, test.best] {
            close(bound, 0.45);
        }
        assert_eq!((test.n_scored, test.n_failed, test.n_total), (2, 0, 2));
    }

    #[test]
    fn without_questions_of_a_part_there_is_no_objective() {
        let mut results = split();
        results.questions.iter_mut().for_each(|question| question.split = None);
        let metrics: Vec<&MetricResult> = results.metrics.iter().collect();
        let part = ObjectivePart { questions: &results.questions, test: true };
        assert_eq!(summary(&results.trials[0], &metrics, part), None);
    }

    #[test]
    fn one_score_has_a_mean_and_no_interval() {
        let mut results = fixture::results(1);
        fixture::score(&mut results, "m", &[vec![Some(0.5)]]);
        results.trials[0].questions.truncate(1);
        let metrics: Vec<&MetricResult> = results.metrics.iter().collect();
        let found = summary(&results.trials[0], &metrics, ObjectivePart { questions: &results.questions, test: false });
        let found = found.unwrap();
        assert_eq!((found.mean, found.low, found.high, found.n_total), (Some(0.5), None, None, 1));
    }

    #[test]
    fn contributions_are_none_where_a_score_is_missing_and_follow_the_questions() {
        let results = split();
        let found = question_scores(&results.trials[0], &results.metrics, &BTreeMap::new());
        assert_eq!(found, [Some(0.1), Some(0.2), None, Some(0.4), Some(0.5)]);
        let weights = BTreeMap::from([("m".to_owned(), vec![0.0, 2.0, 0.0, -1.0])]);
        let found = question_scores(&results.trials[0], &results.metrics, &weights);
        assert_eq!(found, [None, Some(0.4), None, None, None], "nothing counts without a weight above 0");
        let mut unchosen = results.clone();
        unchosen.metrics[0].objective = false;
        assert_eq!(question_scores(&unchosen.trials[0], &unchosen.metrics, &BTreeMap::new()), [None; 5]);
    }
}
