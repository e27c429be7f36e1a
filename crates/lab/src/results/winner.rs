//! Chooses the winner: orders the trials, finds the sets that may hold the best
//! of them, and names a winner unless missing scores could change the choice.

use super::{
    MetricResult, TrialResult, Winner, front,
    objective::{Part, scores, summary},
};
use crate::search::StopKind;
use eval::{
    Missing, Question, Score,
    statistics::{self, Scores, Standing, confidence_sets},
};

/// If all trials are equal, one of them is called worse in this share of experiments.
pub(super) const SIGNIFICANT: f64 = 0.05;
pub(super) const SEED: u64 = 0x5EED;

/// Orders the trials, tells which may be the best, and names a winner unless
/// missing scores could change who that is.
///
/// If the dataset is split, all of that uses the questions to choose by, and
/// each trial's mean over the other questions is reported beside it.
pub(super) fn choose(
    trials: &mut [TrialResult],
    metrics: &[MetricResult],
    objective: &[String],
    questions: &[Question],
) -> Winner {
    let choosing: Vec<&MetricResult> = metrics.iter().filter(|metric| metric.objective).collect();
    let part = Part { questions, test: false };
    let reported = Part { questions, test: true };
    for trial in trials.iter_mut() {
        (trial.test, trial.group, trial.objective) = (None, None, None);
        (trial.p_value, trial.tied, trial.effect_size, trial.questions_needed) = (None, false, None, None);
        if !choosing.is_empty() && !questions.is_empty() {
            trial.objective = summary(trial, &choosing, part);
            trial.test = summary(trial, &choosing, reported);
        }
    }
    // A stopped trial was asked fewer questions, so its mean does not compare:
    // it comes after the others and takes no part in what follows.
    trials.sort_by(|a, b| {
        let stopped = a.stopped.is_some().cmp(&b.stopped.is_some());
        stopped.then_with(|| mean(b).total_cmp(&mean(a))).then_with(|| a.trial.id.cmp(&b.trial.id))
    });
    front::mark(trials);
    if questions.is_empty() {
        return Winner::Refused("there are no golden questions: see [dataset]".to_owned());
    }
    if choosing.is_empty() {
        return Winner::Refused(nothing_chooses(metrics));
    }
    let is_open = unproven(trials) > 0;
    let finalists = trials.iter().filter(|trial| trial.stopped.is_none()).count();
    let trials = &mut trials[..finalists];
    if trials.first().is_none_or(|trial| trial.objective.is_none()) {
        return Winner::Refused(format!(
            "no trial has scores for {}{}",
            objective.join(", "),
            reasons(trials, &choosing)
        ));
    }
    compare(trials, &choosing, part);
    if let Some(better) = leads_by_other_questions(trials) {
        let first = &trials[0].trial.id;
        return Winner::Refused(format!(
            "`{first}` has the highest mean, but not on the same questions as the others: on those that both have scores \
             for, `{better}` is better; see `compare {better} {first}`"
        ));
    }
    let ranked = trials.iter().filter(|trial| trial.objective.is_some()).count();
    match overtaken(trials, &choosing) {
        Some(other) => Winner::Refused(format!(
            "scores are missing, and with them `{other}` could be better than `{}`: run again to ask for them, or see `show {other}`",
            trials[0].trial.id
        )),
        None if ranked > 1 && !is_open && !trials.iter().any(|trial| trial.tied) => {
            Winner::Trial(trials[0].trial.id.clone())
        }
        None => Winner::Leads(trials[0].trial.id.clone()),
    }
}

/// How many trials a search stopped without having shown that another is better.
pub(super) fn unproven(trials: &[TrialResult]) -> usize {
    let is_open = |trial: &&TrialResult| trial.stopped.as_ref().is_some_and(|stop| stop.kind != StopKind::Eliminated);
    trials.iter().filter(is_open).count()
}

/// The trial that is best on the questions that trials share, if it is not the
/// one with the highest mean: a metric may not apply to some answers, and these
/// may be the ones that are hard for all trials.
fn leads_by_other_questions(trials: &[TrialResult]) -> Option<String> {
    let (first, others) = trials.split_first()?;
    let is_best = |trial: &&TrialResult| trial.group == Some(1);
    if is_best(&first) { None } else { others.iter().find(is_best).map(|trial| trial.trial.id.clone()) }
}

/// Fills in groups, p-values and the questions needed. Trials are in order,
/// the one that leads first.
fn compare(trials: &mut [TrialResult], metrics: &[&MetricResult], part: Part<'_>) {
    let columns: Vec<Scores> =
        metrics.iter().map(|metric| trials.iter().map(|trial| scores(trial, metric, part)).collect()).collect();
    let standings = confidence_sets(&columns, SIGNIFICANT, SEED);
    let asked = columns.iter().flatten().map(Vec::len).max().unwrap_or_default();
    for (number, (trial, standing)) in trials.iter_mut().zip(standings).enumerate() {
        // A trial without scores of a metric has no objective, so it gets no group.
        let Standing { group, p_value, more_questions } =
            if trial.objective.is_some() { standing } else { Standing::default() };
        trial.group = group;
        if number > 0 {
            trial.p_value = p_value;
            trial.tied = group == Some(1);
            trial.questions_needed = more_questions.map(|more| asked + more);
            trial.effect_size = statistics::effect_size(&differences(&columns, number));
        }
    }
}

/// Per question, the mean over metrics of the difference to the trial that
/// leads, where both have the score.
fn differences(metrics: &[Scores], trial: usize) -> Vec<f64> {
    let questions = metrics.first().map_or(0, |metric| metric[trial].len());
    let at = |question: usize| {
        let both = metrics.iter().filter_map(|metric| Some(metric[trial][question]? - metric[0][question]?));
        statistics::mean(&both.collect::<Vec<f64>>())
    };
    (0..questions).filter_map(at).collect()
}

fn mean(trial: &TrialResult) -> f64 {
    trial.objective.as_ref().and_then(|summary| summary.mean).unwrap_or(f64::NEG_INFINITY)
}

/// A trial that could be better than the first one if the missing scores were known.
fn overtaken(trials: &[TrialResult], metrics: &[&MetricResult]) -> Option<String> {
    let (first, others) = trials.split_first()?;
    let misses = |trial: &TrialResult| trial.objective.as_ref().is_none_or(|summary| summary.n_failed > 0);
    let floor = first.objective.as_ref().and_then(|summary| summary.worst)?;
    let could = |trial: &&TrialResult| match &trial.objective {
        // A metric that applies to none of its questions will never say more.
        None => !metrics.iter().any(|metric| applies_nowhere(trial, metric)),
        Some(summary) if misses(trial) => summary.best.is_none_or(|best| best > floor),
        Some(_) => misses(first) && mean(trial) > floor,
    };
    others.iter().find(could).map(|trial| trial.trial.id.clone())
}

/// Whether a metric has nothing to look at in a trial, such as passages where nothing is retrieved.
fn applies_nowhere(trial: &TrialResult, metric: &MetricResult) -> bool {
    let mut scores = trial.questions.iter().filter_map(|question| question.scores.get(&metric.name)).peekable();
    scores.peek().is_some() && scores.all(|scored| matches!(scored.score, Score::Missing(Missing::NotApplicable(_))))
}

/// Why no metric of the experiment chooses.
fn nothing_chooses(metrics: &[MetricResult]) -> String {
    if metrics.is_empty() {
        return "the experiment has no metrics: see `metrics` under [evaluate]".to_owned();
    }
    "every metric is given by a judge, and a judge chooses only where it is named and qualified: see `objective` under \
     [evaluate] and `reverie judge`"
        .to_owned()
}

/// The first reason why a metric has no scores at all.
fn reasons(trials: &[TrialResult], metrics: &[&MetricResult]) -> String {
    let empty = metrics.iter().find(|metric| {
        trials.iter().all(|trial| trial.metrics.get(&metric.name).is_none_or(|summary| summary.n_scored == 0))
    });
    let first = empty.and_then(|metric| {
        let mut all = trials.iter().flat_map(|trial| &trial.questions);
        all.find_map(|question| match &question.scores.get(&metric.name)?.score {
            eval::Score::Missing(missing) => Some(format!(": {} is missing everywhere, since {missing}", metric.name)),
            eval::Score::Value(_) => None,
        })
    });
    first.unwrap_or_default()
}
