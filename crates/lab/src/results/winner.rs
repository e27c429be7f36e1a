//! Chooses the winner: orders the trials, finds the sets that may hold the best
//! of them, and names a winner unless missing scores could change the choice.

use super::{
    EqualTrial, MetricResult, SEED, TrialResult, Winner, equal, front,
    objective::{ObjectivePart, scores, summary},
};
use crate::{action::Action, search::StopKind};
use eval::{
    Missing, Question, Score,
    statistics::{self, Scores, Standing, confidence_sets},
};
use std::collections::BTreeMap;

/// If all trials are equal, one of them is called worse in this share of experiments.
pub(super) const SIGNIFICANT: f64 = 0.05;

/// Orders the trials, finds those that may be the best, and names a winner unless missing scores
/// could change the choice.
///
/// If the dataset is split, all of that uses the tune split, and
/// each trial's mean over the other questions is reported beside it.
pub(crate) fn choose(
    trials: &mut [TrialResult],
    metrics: &[MetricResult],
    objective: &[String],
    questions: &[Question],
) -> Winner {
    let choosing: Vec<&MetricResult> = metrics.iter().filter(|metric| metric.objective).collect();
    let part = ObjectivePart { questions, test: false };
    let reported = ObjectivePart { questions, test: true };
    for trial in trials.iter_mut() {
        (trial.test, trial.group, trial.objective) = (None, None, None);
        (trial.p_value, trial.tied, trial.effect_size, trial.questions_needed) = (None, false, None, None);
        trial.equal_to = None;
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
    let is_whole = finalists == trials.len();
    let trials = &mut trials[..finalists];
    if trials.first().is_none_or(|trial| trial.objective.is_none()) {
        return Winner::Refused(format!(
            "no trial has scores for {}{}",
            objective.join(", "),
            reasons(trials, &choosing)
        ));
    }
    equal::mark(trials, &choosing, part);
    compare(trials, &choosing, part);
    if let Some(better) = best_on_shared_questions(trials) {
        let first = &trials[0].trial.id;
        return Winner::Refused(format!(
            "`{first}` has the highest mean, but not on the same questions as the others: on those that both have scores \
             for, `{better}` is better; see `compare {better} {first}`"
        ));
    }
    // A trial that gave the same output as the first one is the same winner, so it does not compete with it.
    let first = trials[0].trial.id.clone();
    let others = || trials.iter().skip(1).filter(|trial| trial.objective.is_some() && !trial.is_same_as(&first));
    match overtaken(trials, &choosing) {
        Some(other) => Winner::Refused(format!(
            "scores are missing, and with them `{other}` could be better than `{}`: {}, or see `show {other}`",
            trials[0].trial.id,
            remedy(trials, &choosing)
        )),
        None if trials.iter().all(scores_nothing) => {
            let by = objective.join(", ");
            let lacks_scores =
                |trial: &TrialResult| trial.objective.as_ref().is_some_and(|summary| summary.n_failed > 0);
            Winner::Refused(if trials.iter().any(lacks_scores) {
                format!(
                    "all scores by {by} that are known are the worst, and some are missing: {}",
                    remedy(trials, &choosing)
                )
            } else if is_whole {
                format!(
                    "every trial has the worst score by {by} for every question, so that none is better than another"
                )
            } else {
                format!(
                    "every trial that was asked all questions has the worst score by {by} for each, so that none is named"
                )
            })
        }
        None if others().count() > 0 && !is_open && !others().any(|trial| trial.tied) => Winner::Trial(first),
        None => Winner::Leads(first),
    }
}

/// Whether all known scores of a trial by the objective are the worst possible, or none are known.
fn scores_nothing(trial: &TrialResult) -> bool {
    trial.objective.as_ref().is_none_or(|summary| summary.mean == Some(0.0))
}

impl TrialResult {
    /// Whether it gave the same passages and answers for every question as the trial with this id.
    pub(super) fn is_same_as(&self, id: &str) -> bool {
        self.equal_to.as_ref().is_some_and(|EqualTrial { trial, same_output }| *same_output && trial == id)
    }
}

/// How many trials a search stopped without having shown that another is better. Trials that a person stopped do not
/// count: whoever stops a trial takes it out of the comparison.
pub(super) fn unproven(trials: &[TrialResult]) -> usize {
    let kinds = [StopKind::Eliminated, StopKind::ByPerson];
    let is_open = |trial: &&TrialResult| trial.stopped.as_ref().is_some_and(|stop| !kinds.contains(&stop.kind));
    trials.iter().filter(is_open).count()
}

/// The trial that is best on the questions that trials share, if it is not the
/// one with the highest mean. The two differ if a metric does not apply to
/// some answers of a trial, such as those to hard questions.
fn best_on_shared_questions(trials: &[TrialResult]) -> Option<String> {
    let (first, others) = trials.split_first()?;
    let is_best = |trial: &&TrialResult| trial.group == Some(1);
    if is_best(&first) { None } else { others.iter().find(is_best).map(|trial| trial.trial.id.clone()) }
}

/// Fills in groups, p-values and the questions needed. Trials are in order, the leading one first. Of trials that are
/// equal on every question, only the first takes part in the test. The others get its result.
fn compare(trials: &mut [TrialResult], metrics: &[&MetricResult], part: ObjectivePart<'_>) {
    let columns: Vec<Scores> =
        metrics.iter().map(|metric| trials.iter().map(|trial| scores(trial, metric, part)).collect()).collect();
    let representatives = equal::representatives(trials);
    let distinct: Vec<usize> = (0..trials.len()).filter(|&number| representatives[number] == number).collect();
    let of_distinct = |column: &Scores| distinct.iter().map(|&number| column[number].clone()).collect();
    let tested: Vec<Scores> = columns.iter().map(of_distinct).collect();
    let tested = confidence_sets(&tested, SIGNIFICANT, SEED);
    // `distinct` is sorted and holds every representative, so `partition_point` is its position.
    let standings = representatives.iter().map(|first| tested[distinct.partition_point(|number| number < first)]);
    let asked = columns.iter().flatten().map(Vec::len).max().unwrap_or_default();
    for (number, (trial, standing)) in trials.iter_mut().zip(standings).enumerate() {
        // A trial without scores of a metric has no objective, so it gets no group.
        let Standing { group, p_value, more_questions } =
            if trial.objective.is_some() { standing } else { Standing::default() };
        trial.group = group;
        if number > 0 {
            // If no other trial was tested, the first one has no p-value. For a trial that equals it, the p-value is 1.
            trial.p_value = p_value.or((representatives[number] == 0).then_some(1.0));
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

/// What can be done about missing scores, by the reason.
fn remedy(trials: &[TrialResult], metrics: &[&MetricResult]) -> String {
    let mut again = 0;
    let mut stay: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let scores = trials.iter().flat_map(|trial| &trial.questions).flat_map(|question| {
        metrics.iter().filter_map(|metric| question.scores.get(&metric.name)).map(|scored| &scored.score)
    });
    for score in scores {
        match score {
            Score::Missing(missing) if missing.can_be_retried() => again += 1,
            Score::Missing(missing) if missing.is_failure() => {
                let advice = match missing {
                    Missing::JudgeUnparsable(_) => "; use another judge, or several, for these",
                    _ => "",
                };
                let why = || format!("cannot be obtained by another run, because {missing}{advice}");
                stay.entry(missing.name()).or_insert_with(|| (0, why())).0 += 1;
            }
            _ => {}
        }
    }
    let mut parts: Vec<String> = stay.into_values().map(|(n, why)| format!("{n} of them {why}")).collect();
    if again > 0 {
        let them = if parts.is_empty() { "them".to_owned() } else { format!("the other {again}") };
        parts.push(format!("run again to ask for {them}"));
    }
    parts.join("; ")
}

/// Whether a metric applies to no question of a trial, such as one of passages if nothing is retrieved.
fn applies_nowhere(trial: &TrialResult, metric: &MetricResult) -> bool {
    let mut scores = trial.questions.iter().filter_map(|question| question.scores.get(&metric.name)).peekable();
    scores.peek().is_some()
        && scores.all(|scored| match &scored.score {
            Score::Missing(missing) => {
                matches!(missing, Missing::NotApplicable(_)) || missing.missing_place().is_some()
            }
            Score::Value(_) => false,
        })
}

/// Why no metric of the experiment can choose a winner.
fn nothing_chooses(metrics: &[MetricResult]) -> String {
    if metrics.is_empty() {
        return "the experiment has no metrics: see `metrics` under [evaluate]".to_owned();
    }
    format!(
        "every metric is given by a judge, and a judge chooses only where it is named and qualified: see `objective` under \
         [evaluate] and {}",
        Action::Judge(None)
    )
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

#[cfg(test)]
mod tests {
    use super::super::{Results, fixture};
    use super::*;
    use eval::Scored;

    /// Two trials, of which one lacks its first scores for this reason.
    fn with_missing(reason: &Missing, lacking: usize) -> Results {
        let mut results = fixture::results(2);
        fixture::score(&mut results, "faithfulness", &[vec![Some(0.9); 5], vec![Some(0.8); 5]]);
        for question in &mut results.trials[1].questions[..lacking] {
            question.scores.insert("faithfulness".to_owned(), Scored::missing(reason.clone()));
        }
        results.metrics[0].objective = true;
        results
    }

    fn refusal(reason: &Missing) -> String {
        let mut results = with_missing(reason, 4);
        let objective = ["faithfulness".to_owned()];
        match choose(&mut results.trials, &results.metrics, &objective, &results.questions) {
            Winner::Refused(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn run_again_is_said_only_where_running_again_can_help() {
        for reason in [Missing::ProviderError("down".into()), Missing::Budget("the budget was reached".into())] {
            let text = refusal(&reason);
            assert!(text.contains("run again to ask for them"), "{text}");
        }
        for (reason, said) in [
            (Missing::JudgeUnparsable("no JSON".into()), "cannot be read: no JSON; use another judge"),
            (Missing::NotFinite("NaN".into()), "the formula gave NaN"),
            (Missing::EmptyInput("no answer".into()), "empty input: no answer"),
        ] {
            let text = refusal(&reason);
            assert!(text.contains("4 of them cannot be obtained by another run") && text.contains(said), "{text}");
            assert!(!text.contains("run again"), "{text}");
        }
    }

    #[test]
    fn both_kinds_of_missing_scores_are_counted_apart() {
        let mut results = with_missing(&Missing::JudgeUnparsable("no JSON".into()), 2);
        for question in &mut results.trials[1].questions[2..4] {
            let missing = Scored::missing(Missing::ProviderError("down".into()));
            question.scores.insert("faithfulness".to_owned(), missing);
        }
        let metrics: Vec<&MetricResult> = results.metrics.iter().collect();
        let text = remedy(&results.trials, &metrics);
        assert!(
            text.starts_with("2 of them cannot be obtained") && text.ends_with("run again to ask for the other 2"),
            "{text}"
        );
    }
}
