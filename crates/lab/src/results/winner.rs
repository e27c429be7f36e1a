//! Who won: trials in order, each tested against the best, and a winner
//! unless missing scores could change who that is.

use super::{MetricResult, QuestionResult, TrialResult, Winner, front, groups};
use eval::{
    Missing, Question, Score,
    dataset::Split,
    statistics::{self, Summary},
};
use std::collections::BTreeMap;

/// Below this corrected p-value a difference is called real.
pub(super) const SIGNIFICANT: f64 = 0.05;
pub(super) const SEED: u64 = 0x5EED;

/// Which of the questions count.
#[derive(Clone, Copy)]
struct Part<'a> {
    questions: &'a [Question],
    test: bool,
}

impl Part<'_> {
    /// A trial's questions of this part; trials have theirs in the order of
    /// the dataset.
    fn of(self, trial: &TrialResult) -> Vec<&QuestionResult> {
        let belongs = |question: &Question| (question.split == Some(Split::Test)) == self.test;
        trial
            .questions
            .iter()
            .zip(self.questions)
            .filter(|(_, question)| belongs(question))
            .map(|(own, _)| own)
            .collect()
    }
}

/// Per question, how much it adds to the objective: the mean over questions
/// of these contributions is the mean over metrics of their means, also where
/// metrics are asked of different numbers of questions. `fill` stands for a
/// score that is missing though it was asked for.
fn contributions(
    trial: &TrialResult,
    metrics: &[&MetricResult],
    part: Part<'_>,
    fill: impl Fn(&MetricResult) -> f64,
) -> Vec<f64> {
    let questions: Vec<&QuestionResult> = part.of(trial);
    let asked = |metric: &MetricResult| {
        let not_asked = |question: &&&QuestionResult| {
            !matches!(
                question.scores[&metric.name].score,
                Score::Missing(Missing::NotAsked(_) | Missing::NotApplicable(_))
            )
        };
        questions.iter().filter(not_asked).count()
    };
    let counts: Vec<usize> = metrics.iter().map(|metric| asked(metric)).collect();
    questions
        .iter()
        .map(|question| {
            let parts =
                metrics.iter().zip(&counts).map(|(metric, &count)| match &question.scores[&metric.name].score {
                    // What a metric does not apply to is not missing.
                    Score::Missing(Missing::NotAsked(_) | Missing::NotApplicable(_)) => 0.0,
                    score => {
                        scaled(metric, score.value().unwrap_or_else(|| fill(metric))) * questions.len() as f64
                            / count.max(1) as f64
                    }
                });
            parts.sum::<f64>() / metrics.len().max(1) as f64
        })
        .collect()
}

/// Per question, the mean of the objective's metrics on a scale from 0 to 1;
/// none where one of them was not asked. A score that failed counts as the
/// mean of the trial's others.
pub(super) fn question_scores(trial: &TrialResult, metrics: &[MetricResult]) -> Vec<Option<f64>> {
    let metrics: Vec<&MetricResult> = metrics.iter().filter(|metric| metric.objective).collect();
    let score = |question: &QuestionResult| {
        let part = |metric: &&MetricResult| match &question.scores[&metric.name].score {
            Score::Missing(Missing::NotAsked(_)) => None,
            score => {
                let mean = || trial.metrics[&metric.name].mean.unwrap_or_else(|| worst(metric));
                Some(scaled(metric, score.value().unwrap_or_else(mean)))
            }
        };
        let parts: Option<Vec<f64>> = metrics.iter().map(part).collect();
        parts.and_then(|parts| statistics::mean(&parts))
    };
    trial.questions.iter().map(score).collect()
}

/// A value on a scale where 0 is worst and 1 is best.
fn scaled(metric: &MetricResult, value: f64) -> f64 {
    let (low, high) = metric.range;
    let share = (value - low) / (high - low);
    if metric.higher_is_better { share } else { 1.0 - share }
}

fn worst(metric: &MetricResult) -> f64 {
    if metric.higher_is_better { metric.range.0 } else { metric.range.1 }
}

fn best(metric: &MetricResult) -> f64 {
    if metric.higher_is_better { metric.range.1 } else { metric.range.0 }
}

/// Orders the trials, tests each against the best, and names a winner unless
/// missing scores could change who that is.
///
/// Where the dataset is split, all of that is done by the questions to choose
/// by, and each trial's mean over the others is told beside it.
pub(super) fn choose(
    trials: &mut [TrialResult],
    metrics: &[MetricResult],
    objective: &[String],
    questions: &[Question],
) -> Winner {
    let metrics: Vec<&MetricResult> = metrics.iter().filter(|metric| metric.objective).collect();
    if metrics.is_empty() || trials.iter().all(|trial| trial.questions.is_empty()) {
        return Winner::Refused(
            "no golden questions, or no metric that may choose: see `objective` under [evaluate]".to_owned(),
        );
    }
    let part = Part { questions, test: false };
    let reported = Part { questions, test: true };
    for trial in trials.iter_mut() {
        (trial.test, trial.group) = (None, None);
        (trial.p_value, trial.tied, trial.effect_size, trial.questions_needed) = (None, false, None, None);
        let scored =
            |metric: &&&MetricResult| trial.metrics.get(&metric.name).is_some_and(|summary| summary.n_scored > 0);
        if metrics.iter().filter(scored).count() == metrics.len() {
            // A missing score counts as the mean of those that are there: the
            // bounds below say whether that could matter.
            let of = |part| {
                let mean = |metric: &MetricResult| trial.metrics[&metric.name].mean.unwrap_or_else(|| worst(metric));
                let values = contributions(trial, &metrics, part, mean);
                Summary::of(&values.into_iter().map(Score::finite).collect::<Vec<_>>(), (0.0, 1.0), SEED)
            };
            let mut summary = of(part);
            trial.test = Some(of(reported)).filter(|summary| summary.n_total > 0);
            let parts = || metrics.iter().map(|metric| &trial.metrics[&metric.name]);
            summary.n_scored = parts().map(|part| part.n_scored).sum();
            summary.n_failed = parts().map(|part| part.n_failed).sum();
            summary.n_total = parts().map(|part| part.n_total).sum();
            summary.worst = statistics::mean(&contributions(trial, &metrics, part, worst));
            summary.best = statistics::mean(&contributions(trial, &metrics, part, best));
            trial.objective = Some(summary);
        }
    }
    let value =
        |trial: &TrialResult| trial.objective.as_ref().and_then(|summary| summary.mean).unwrap_or(f64::NEG_INFINITY);
    // What a search stopped was asked fewer questions, so its mean is another
    // one: it comes after the others and takes no part in what follows.
    trials.sort_by(|a, b| {
        let stopped = a.stopped.is_some().cmp(&b.stopped.is_some());
        stopped.then_with(|| value(b).total_cmp(&value(a))).then_with(|| a.trial.id.cmp(&b.trial.id))
    });
    front::mark(trials);
    let finalists = trials.iter().filter(|trial| trial.stopped.is_none()).count();
    let trials = &mut trials[..finalists];
    let Some(first) = trials.first().filter(|trial| trial.objective.is_some()) else {
        return Winner::Refused(format!("no trial has scores for {}", objective.join(", ")));
    };

    let fill = |trial: &TrialResult| {
        let means: BTreeMap<String, f64> =
            trial.metrics.iter().filter_map(|(name, summary)| Some((name.clone(), summary.mean?))).collect();
        contributions(trial, &metrics, part, |metric| means.get(&metric.name).copied().unwrap_or_else(|| worst(metric)))
    };
    let scores: Vec<Option<Vec<f64>>> =
        trials.iter().map(|trial| trial.objective.as_ref().map(|_| fill(trial))).collect();
    let winning = scores[0].as_deref().unwrap_or_default();
    let differences: Vec<Vec<f64>> = scores[1..]
        .iter()
        .flatten()
        .map(|scores| scores.iter().zip(winning).map(|(own, best)| own - best).collect())
        .collect();
    let raw: Vec<f64> =
        differences.iter().map(|differences| statistics::sign_flip_p_value(differences, SEED)).collect();
    let (id, floor) =
        (first.trial.id.clone(), first.objective.as_ref().and_then(|summary| summary.worst).unwrap_or(0.0));
    let others = trials[1..].iter_mut().filter(|trial| trial.objective.is_some());
    for ((trial, p_value), differences) in others.zip(statistics::holm(&raw)).zip(&differences) {
        trial.p_value = Some(p_value);
        trial.tied = p_value > SIGNIFICANT;
        trial.effect_size = statistics::effect_size(differences);
        trial.questions_needed = statistics::questions_needed(differences).filter(|_| trial.tied);
    }
    for (trial, group) in trials.iter_mut().zip(groups::groups(&scores)) {
        trial.group = group;
    }
    let rival = trials[1..]
        .iter()
        .filter(|trial| {
            trial
                .objective
                .as_ref()
                .is_none_or(|summary| has_missing(summary) && summary.best.is_none_or(|best| best > floor))
        })
        .map(|trial| trial.trial.id.clone())
        .next();
    let first_misses = trials[0].objective.as_ref().is_some_and(has_missing);
    let overtaken = first_misses
        .then(|| trials[1..].iter().find(|trial| value(trial) > floor).map(|trial| trial.trial.id.clone()))
        .flatten();
    match rival.or(overtaken) {
        Some(other) => Winner::Refused(format!(
            "scores are missing, and with them `{other}` could be better than `{id}`: run again to ask for them, or see `show {other}`"
        )),
        None => Winner::Trial(id),
    }
}

fn has_missing(summary: &Summary) -> bool {
    summary.n_failed > 0
}
