//! Finds trials that are equal on every question. In the tests, equal trials count as one observation
//! ([`representatives`]), and reports name them together.
//!
//! The test behind the groups swaps the scores of trials within each question. It assumes that each trial could have
//! had the scores of the others. Two equal columns can never differ, so the second one adds no information. It would
//! also pull the mean of all trials towards the equal ones, and make the correction for many trials too strict.

use super::{
    EqualTrial, MetricResult, QuestionResult, Results, TrialResult,
    objective::{ObjectivePart, scores},
};
use crate::warning::EqualTrials;
use store::{Key, KeyBuilder};

/// The bits of a trial's scores by the metrics of the objective, one metric after the other.
type ScoreBits = Vec<Option<u64>>;

/// Sets `equal_to` of each trial to the earlier trial that it equals, if possible one with the same output. `trials`
/// are in the order of the leaderboard. Two kinds of trials equal none: those that a search stopped, because they were
/// not asked everything, and those that lack a score that they should have.
pub(super) fn mark(trials: &mut [TrialResult], metrics: &[&MetricResult], part: ObjectivePart<'_>) {
    let keys: Vec<Option<ScoreBits>> = trials.iter().map(|trial| complete_scores(trial, metrics, part)).collect();
    // Outputs are compared only where scores are equal: hashing them costs more.
    let outputs: Vec<Option<Key>> = (0..trials.len())
        .map(|i| {
            let has_equal = keys[i].is_some() && (0..trials.len()).any(|j| j != i && keys[j] == keys[i]);
            if has_equal { output_key(&trials[i]) } else { None }
        })
        .collect();
    for i in 0..trials.len() {
        let equals = |j: &usize| keys[i].is_some() && keys[*j] == keys[i];
        let first = (0..i).find(equals);
        let same = (0..i).filter(equals).find(|&j| outputs[i].is_some() && outputs[j] == outputs[i]);
        trials[i].equal_to =
            same.or(first).map(|j| EqualTrial { trial: trials[j].trial.id.clone(), same_output: same.is_some() });
    }
}

/// For each trial, the position of the first trial with the same scores, as set by [`mark`]. It is the trial's own
/// position if no earlier trial has them.
pub(super) fn representatives(trials: &[TrialResult]) -> Vec<usize> {
    let mut firsts: Vec<usize> = Vec::with_capacity(trials.len());
    for (i, trial) in trials.iter().enumerate() {
        let earlier =
            trial.equal_to.as_ref().and_then(|equal| trials[..i].iter().position(|it| it.trial.id == equal.trial));
        // The earlier trial already has a representative.
        firsts.push(earlier.map_or(i, |earlier| firsts[earlier]));
    }
    firsts
}

/// The bits of a trial's scores. None for a stopped trial, for a trial that lacks a score that it should have, and for
/// a trial without any score.
fn complete_scores(trial: &TrialResult, metrics: &[&MetricResult], part: ObjectivePart<'_>) -> Option<ScoreBits> {
    let fails = |question: &QuestionResult| {
        metrics.iter().any(|metric| question.scores.get(&metric.name).is_some_and(|scored| scored.score.is_failure()))
    };
    if trial.stopped.is_some() || trial.questions.iter().any(fails) {
        return None;
    }
    let columns = metrics.iter().flat_map(|metric| scores(trial, metric, part));
    let bits: ScoreBits = columns.map(|score| score.map(|score| (score + 0.0).to_bits())).collect();
    bits.iter().any(Option::is_some).then_some(bits)
}

/// The hash of a trial's output: the passages and the answer of each question. None for a trial without any output:
/// then nothing can be compared.
pub(super) fn output_key(trial: &TrialResult) -> Option<Key> {
    if let Some(rows) = &trial.rows {
        return rows.output;
    }
    let mut key = KeyBuilder::new("output");
    let mut has_output = false;
    for question in &trial.questions {
        has_output |= !question.passages.is_empty() || question.answer.is_some();
        let passages: Vec<_> =
            question.passages.iter().map(|passage| (&passage.document, passage.spans(), &passage.text)).collect();
        let answer = question.answer.as_ref().map(|answer| (&answer.text, &answer.citations));
        key = key.field("question", &(&question.question, passages, answer));
    }
    has_output.then(|| key.finish())
}

impl Results {
    /// Groups of trials that are equal on every question, in the order of the leaderboard. The trials of a group have
    /// either the same passages and answers, or only the same scores. A group of the second kind names only the first
    /// trial with each output.
    pub(crate) fn equal_trials(&self) -> Vec<EqualTrials> {
        let answers = self.trials.iter().flat_map(|trial| &trial.questions).any(|question| question.answer.is_some());
        let mut equal: Vec<EqualTrials> = Vec::new();
        for trial in &self.trials {
            let Some(EqualTrial { trial: first, same_output }) = &trial.equal_to else { continue };
            let group = equal.iter_mut().find(|group| group.same_output == *same_output && group.trials[0] == *first);
            match group {
                Some(group) => group.trials.push(trial.trial.id.clone()),
                None => {
                    let trials = vec![first.clone(), trial.trial.id.clone()];
                    equal.push(EqualTrials { trials, same_output: *same_output, answers });
                }
            }
        }
        equal
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rag::{Answer, Passage};

    /// Trials with these scores and passages, marked.
    fn marked(trials: &[([Option<f64>; 5], &str)]) -> Results {
        let mut results = fixture::results(trials.len());
        let scores: Vec<Vec<Option<f64>>> = trials.iter().map(|(scores, _)| scores.to_vec()).collect();
        fixture::score(&mut results, "recall", &scores);
        for (trial, (_, passage)) in results.trials.iter_mut().zip(trials) {
            for question in trial.questions.iter_mut().filter(|_| !passage.is_empty()) {
                question.passages = vec![Passage::of_text("a.md".to_owned(), (*passage).to_owned())];
            }
        }
        mark_all(&mut results);
        results
    }

    fn mark_all(results: &mut Results) {
        let metrics: Vec<&MetricResult> = results.metrics.iter().collect();
        let part = ObjectivePart { questions: &results.questions, test: false };
        mark(&mut results.trials, &metrics, part);
    }

    /// For each trial, the id of the trial that it equals, with a `!` if the output is the same.
    fn equals(results: &Results) -> Vec<String> {
        let told = |trial: &TrialResult| {
            let equal = trial.equal_to.as_ref();
            equal.map_or_else(String::new, |it| it.trial.clone() + if it.same_output { "!" } else { "" })
        };
        results.trials.iter().map(told).collect()
    }

    const HALF: [Option<f64>; 5] = [Some(0.5); 5];
    const OTHER: [Option<f64>; 5] = [Some(0.5), Some(0.5), Some(0.5), Some(0.5), Some(0.25)];

    #[test]
    fn trials_are_equal_by_their_output_or_only_by_their_scores() {
        let results = marked(&[(HALF, "x"), (HALF, "y"), (HALF, "x"), (OTHER, "x"), (HALF, "y")]);
        assert_eq!(equals(&results), ["", "t01", "t01!", "", "t02!"]);
        assert_eq!(representatives(&results.trials), [0, 0, 0, 3, 0]);
        let told: Vec<(Vec<String>, bool)> =
            results.equal_trials().into_iter().map(|equal| (equal.trials, equal.same_output)).collect();
        let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
        assert_eq!(told, [(ids(&["t01", "t02"]), false), (ids(&["t01", "t03"]), true), (ids(&["t02", "t05"]), true)]);
    }

    #[test]
    fn trials_that_gave_nothing_have_no_output_that_could_be_equal() {
        let results = marked(&[(HALF, ""), (HALF, "")]);
        assert_eq!(equals(&results), ["", "t01"]);
        assert_eq!(representatives(&results.trials), [0, 0]);
    }

    #[test]
    fn an_answer_makes_a_difference_to_the_output() {
        let mut results = marked(&[(HALF, "x"), (HALF, "x")]);
        assert_eq!(equals(&results), ["", "t01!"]);
        results.trials[1].questions[4].answer = Some(Answer { text: "no".to_owned(), ..Answer::default() });
        mark_all(&mut results);
        assert_eq!(equals(&results), ["", "t01"]);
    }

    #[test]
    fn a_missing_score_and_a_stopped_trial_equal_nothing() {
        let failed = [None, Some(0.5), Some(0.5), Some(0.5), Some(0.5)];
        let results = marked(&[(failed, "x"), (failed, "x")]);
        assert_eq!(equals(&results), ["", ""], "the missing score may differ");
        let mut results = marked(&[(HALF, "x"), (HALF, "x")]);
        let kind = crate::search::StopKind::Eliminated;
        results.trials[1].stopped = Some(crate::search::Stop { kind, questions: 5, reason: "late".to_owned() });
        mark_all(&mut results);
        assert_eq!(equals(&results), ["", ""]);
    }

    #[test]
    fn a_score_of_minus_zero_is_the_same_as_zero() {
        let zero = |zero: f64| [Some(zero), Some(1.0), Some(1.0), Some(1.0), Some(1.0)];
        assert_eq!(equals(&marked(&[(zero(0.0), "x"), (zero(-0.0), "x")])), ["", "t01!"]);
    }

    #[test]
    fn trials_without_equals_represent_themselves() {
        let results = marked(&[(HALF, "x"), (OTHER, "x")]);
        assert_eq!(representatives(&results.trials), [0, 1]);
        assert!(results.equal_trials().is_empty());
    }
}
