//! What each axis changes: the difference that one value makes in place of
//! another, all else being equal.
//!
//! Two values of an axis are compared over the pairs of trials that differ on
//! this axis only; an embedder that one of the two trials does not use counts as
//! equal. The differences are averaged over the pairs for each question, and the
//! interval of their mean over questions is a bootstrap, as on the leaderboard.

use super::columns::varying;
use crate::{
    plan::trial::{NONE, SYSTEM, label_names},
    results::{Results, TrialResult},
};
use eval::statistics::{Interval, bootstrap_mean, mean};
use rag::Axis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const SEED: u64 = 0xEFFE;

/// What a value of an axis changes in place of the value of the leading trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The axis.
    pub axis: String,
    /// The value, as its label.
    pub value: String,
    /// The value that it is compared with: that of the leading trial.
    pub baseline: String,
    /// Pairs of trials that differ on this axis only. Without any, nothing is
    /// known of the effect.
    pub pairs: usize,
    /// Questions for which some pair has scores.
    pub questions: usize,
    /// The mean difference of the objective (value − baseline), on a scale from 0 to 1.
    pub difference: Option<f64>,
    /// Its 95 % interval over questions.
    pub interval: Option<Interval>,
}

/// The effects of all values on all axes on which trials differ; the axes in
/// their order, the best value of each first.
pub(super) fn effects(results: &Results) -> Vec<Effect> {
    let axes = varying(results.trials.iter().map(|found| &found.trial));
    if results.objective.is_empty() {
        return Vec::new();
    }
    let scores = results.contributions(&BTreeMap::new());
    let mut all = Vec::new();
    for axis in &axes {
        let on_axis = || results.trials.iter().filter(|found| is_on_axis(found, axis));
        let Some(first) = on_axis().next() else { continue };
        let baseline = label(first, axis);
        let mut values: Vec<&str> = on_axis().map(|found| label(found, axis)).collect();
        values.sort_unstable();
        values.dedup();
        let others = values.into_iter().filter(|value| *value != baseline);
        let mut effects: Vec<Effect> = others.map(|value| effect(results, &scores, axis, value, baseline)).collect();
        let by_difference = |effect: &Effect| effect.difference.unwrap_or(f64::NEG_INFINITY);
        effects.sort_by(|one, other| by_difference(other).total_cmp(&by_difference(one)));
        all.extend(effects);
    }
    all
}

/// What a value of an axis changes in place of another. `scores`: the contributions of each trial to the objective.
pub(super) fn effect(
    results: &Results,
    scores: &BTreeMap<String, Vec<Option<f64>>>,
    axis: &str,
    value: &str,
    baseline: &str,
) -> Effect {
    let is_ours = |found: &TrialResult, value: &str| is_on_axis(found, axis) && label(found, axis) == value;
    let with = |value: &str| results.trials.iter().filter(|found| is_ours(found, value)).collect();
    let (ours, theirs): (Vec<&TrialResult>, Vec<&TrialResult>) = (with(value), with(baseline));
    let mut pairs = 0;
    let mut by_question: Vec<Vec<f64>> = vec![Vec::new(); results.questions.len()];
    for one in &ours {
        for other in theirs.iter().filter(|other| is_equal_but(axis, one, other)) {
            let (Some(one), Some(other)) = (scores.get(&one.trial.id), scores.get(&other.trial.id)) else { continue };
            pairs += 1;
            for ((one, other), differences) in one.iter().zip(other).zip(&mut by_question) {
                differences.extend(one.zip(*other).map(|(one, other)| one - other));
            }
        }
    }
    let differences: Vec<f64> = by_question.iter().filter_map(|differences| mean(differences)).collect();
    Effect {
        axis: axis.to_owned(),
        value: value.to_owned(),
        baseline: baseline.to_owned(),
        pairs,
        questions: differences.len(),
        difference: mean(&differences),
        interval: bootstrap_mean(&differences, (-1.0, 1.0), SEED),
    }
}

fn label<'a>(found: &'a TrialResult, axis: &str) -> &'a str {
    found.trial.labels.get(axis).map_or(NONE, String::as_str)
}

/// Whether a trial can have values on an axis: pipelines on the axes of `[space]`, systems on their parameters.
fn is_on_axis(found: &TrialResult, axis: &str) -> bool {
    match Axis::NAMES.contains(&axis) {
        true => found.trial.pipeline().is_some(),
        false => axis != SYSTEM && label(found, axis) != NONE,
    }
}

/// Whether two trials have equal values on all other axes. An embedder that one of them does not
/// use makes no difference.
fn is_equal_but(axis: &str, one: &TrialResult, other: &TrialResult) -> bool {
    let is_used = |found: &TrialResult, axis: &str| axis != Axis::Embedder.name() || label(found, axis) != NONE;
    label_names([&one.trial.labels, &other.trial.labels])
        .iter()
        .filter(|name| *name != axis)
        .all(|name| label(one, name) == label(other, name) || !is_used(one, name) || !is_used(other, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    /// Trials with these labels (chunker, retriever) and scores.
    fn results(trials: &[(&str, &str, [f64; 5])]) -> Results {
        let mut results = fixture::results(trials.len());
        let scores: Vec<Vec<Option<f64>>> =
            trials.iter().map(|(_, _, scores)| scores.iter().copied().map(Some).collect()).collect();
        fixture::score(&mut results, "recall", &scores);
        fixture::choose(&mut results, "recall", &vec![1; trials.len()]);
        results.metrics[0].objective = true;
        for (found, (chunker, retriever, _)) in results.trials.iter_mut().zip(trials) {
            found.trial.labels.insert("chunker".to_owned(), (*chunker).to_owned());
            found.trial.labels.insert("retriever".to_owned(), (*retriever).to_owned());
        }
        results
    }

    #[test]
    fn an_effect_compares_only_what_was_equal_in_all_else() {
        // The easy retriever was tried with `b` only, so that the mean of `b` is higher than that of `a`.
        let results = results(&[
            ("a", "bm25", [0.6, 0.6, 0.6, 0.6, 0.6]),
            ("b", "bm25", [0.5, 0.5, 0.5, 0.5, 0.4]),
            ("b", "easy", [1.0, 1.0, 1.0, 1.0, 1.0]),
        ]);
        let effects = effects(&results);
        let of = |axis: &str, value: &str| {
            effects.iter().find(|effect| effect.axis == axis && effect.value == value).unwrap().clone()
        };
        let chunker = of("chunker", "b");
        assert_eq!((chunker.baseline.as_str(), chunker.pairs, chunker.questions), ("a", 1, 5));
        assert!((chunker.difference.unwrap() + 0.12).abs() < 1e-9, "{chunker:?}");
        let Interval { low, high } = chunker.interval.unwrap();
        assert!(low < -0.12 && -0.12 < high, "{low} {high}");
        let retriever = of("retriever", "easy");
        assert!((retriever.difference.unwrap() - 0.52).abs() < 1e-9, "{retriever:?}");
    }

    #[test]
    fn values_that_were_never_tried_with_the_same_others_have_no_effect() {
        let results = results(&[("a", "bm25", [0.6; 5]), ("b", "easy", [0.5; 5])]);
        for effect in effects(&results) {
            assert_eq!((effect.pairs, effect.difference, effect.interval), (0, None, None));
        }
    }

    #[test]
    fn an_effect_is_the_mean_over_questions_of_the_mean_over_pairs() {
        // `b` in place of `a`: by the first retriever 0.2 more, by the second 0.4 less, for the first question; nothing
        // for the others.
        let results = results(&[
            ("a", "bm25", [0.5, 0.5, 0.5, 0.5, 0.5]),
            ("b", "bm25", [0.7, 0.5, 0.5, 0.5, 0.5]),
            ("a", "easy", [0.9, 0.5, 0.5, 0.5, 0.5]),
            ("b", "easy", [0.5, 0.5, 0.5, 0.5, 0.5]),
        ]);
        let all = effects(&results);
        let chunker = all.iter().find(|effect| effect.axis == "chunker").unwrap();
        assert_eq!((chunker.value.as_str(), chunker.pairs, chunker.questions), ("b", 2, 5));
        let expected = (0.2 - 0.4) / 2.0 / 5.0;
        assert!((chunker.difference.unwrap() - expected).abs() < 1e-9, "{chunker:?}");
    }

    #[test]
    fn a_question_counts_where_both_trials_of_a_pair_have_its_score() {
        let mut results = results(&[("a", "bm25", [0.5; 5]), ("b", "bm25", [0.75; 5])]);
        let scores = [
            vec![None, Some(0.5), Some(0.5), Some(0.5), Some(0.5)],
            vec![Some(0.75), None, Some(0.75), Some(0.25), Some(1.0)],
        ];
        results.metrics.clear();
        fixture::score(&mut results, "recall", &scores);
        results.metrics[0].objective = true;
        let effect = effects(&results).remove(0);
        assert_eq!((effect.pairs, effect.questions), (1, 3));
        assert!((effect.difference.unwrap() - (0.25 + 0.5 - 0.25) / 3.0).abs() < 1e-9, "{effect:?}");
    }

    #[test]
    fn values_are_compared_with_that_of_the_first_trial_the_best_first_and_those_without_a_pair_last() {
        let results = results(&[
            ("a", "bm25", [0.5; 5]),
            ("worse", "bm25", [0.25; 5]),
            ("alone", "easy", [1.0; 5]),
            ("better", "bm25", [0.75; 5]),
        ]);
        let chunkers: Vec<(String, String, usize)> = effects(&results)
            .into_iter()
            .filter(|effect| effect.axis == "chunker")
            .map(|effect| (effect.value, effect.baseline, effect.pairs))
            .collect();
        let expected = [("better", 1), ("worse", 1), ("alone", 0)];
        assert_eq!(chunkers, expected.map(|(value, pairs)| (value.to_owned(), "a".to_owned(), pairs)));
    }

    #[test]
    fn an_embedder_that_one_of_two_trials_does_not_use_makes_no_difference_between_them() {
        let mut results = results(&[("a", "bm25", [0.5; 5]), ("a", "dense", [0.75; 5]), ("a", "hybrid", [1.0; 5])]);
        for (found, embedder) in results.trials.iter_mut().zip([NONE, "small", "large"]) {
            found.trial.labels.insert("embedder".to_owned(), embedder.to_owned());
        }
        let retrievers: Vec<(String, usize)> = effects(&results)
            .into_iter()
            .filter(|effect| effect.axis == "retriever")
            .map(|effect| (effect.value, effect.pairs))
            .collect();
        assert_eq!(retrievers, [("hybrid".to_owned(), 1), ("dense".to_owned(), 1)]);
        // Among trials that both use one, another embedder is another trial.
        results.trials.remove(0);
        let effect = effects(&results).into_iter().find(|effect| effect.axis == "retriever").unwrap();
        assert_eq!((effect.baseline.as_str(), effect.value.as_str(), effect.pairs), ("dense", "hybrid", 0));
    }

    #[test]
    fn without_an_objective_or_with_one_trial_nothing_has_an_effect() {
        let mut two = results(&[("a", "bm25", [0.5; 5]), ("b", "bm25", [0.75; 5])]);
        two.objective.clear();
        assert_eq!(effects(&two), []);
        assert_eq!(effects(&results(&[("a", "bm25", [0.5; 5])])), []);
        two.trials.clear();
        assert_eq!(effects(&two), []);
    }
}
