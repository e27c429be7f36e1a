//! `setting-without-effect`: two values of an axis that gave the same passages and answers in all trials that differ
//! only in them.

use super::{EqualTrials, Finding, RunFacts, TrialFacts, WarningKind, WarningTime};
use crate::number::counted;
use std::collections::BTreeMap;

pub(super) const KIND: WarningKind = WarningKind {
    title: "a setting without effect",
    meaning: "Every two trials that differ only in this choice gave the same passages and answers for every question. The \
              choice did nothing here, for example `heading` on documents without headings, and its trials were run \
              twice for one result.",
    action: "remove one of the two values from the space",
    found: WarningTime::After,
    needs_chunks: false,
    find,
};

/// An axis, and the labels of two of its values in alphabetical order.
type ComparedValues<'a> = (&'a str, &'a str, &'a str);

/// The trials that differ only in two values, the number of pairs that they form, and the number of equal pairs.
#[derive(Default)]
struct ValuePairs {
    trials: Vec<String>,
    pairs: usize,
    equal: usize,
}

fn find(facts: &RunFacts) -> Vec<Finding> {
    let mut by_values: BTreeMap<ComparedValues<'_>, ValuePairs> = BTreeMap::new();
    let run: Vec<&TrialFacts> = facts.trials.iter().filter(|trial| trial.found.is_some()).collect();
    for (i, one) in run.iter().enumerate() {
        for other in &run[i + 1..] {
            let Some(values) = only_difference(one, other) else { continue };
            let pairs = by_values.entry(values).or_default();
            pairs.pairs += 1;
            pairs.equal += usize::from(facts.equal.iter().any(|equal| holds_both(equal, one, other)));
            for trial in [one, other] {
                if !pairs.trials.contains(&trial.trial) {
                    pairs.trials.push(trial.trial.clone());
                }
            }
        }
    }
    let without_effect = by_values.into_iter().filter(|(_, pairs)| pairs.equal == pairs.pairs);
    without_effect.map(|(values, pairs)| finding(facts, values, pairs)).collect()
}

fn finding(facts: &RunFacts, (axis, one, other): ComparedValues<'_>, pairs: ValuePairs) -> Finding {
    let is_heading = |label: &str| label == "heading" || label.starts_with("heading(");
    let why = match facts.corpus.with_headings {
        0 if axis == "enrich" && (is_heading(one) || is_heading(other)) => ": no document has a title or headings",
        _ => "",
    };
    let which = match pairs.pairs {
        1 => "both trials that differ".to_owned(),
        n => format!("all {} of trials that differ", counted(n, "pair")),
    };
    let answers = if facts.equal.iter().any(|equal| equal.answers) { " and answers" } else { "" };
    let text = format!(
        "{axis} `{one}` and `{other}` made no difference: {which} only in this gave the same passages{answers}{why}"
    );
    // The sentence is about the axis, so it does not begin with the names of trials.
    Finding { trials: Vec::new(), text, count: Some(pairs.trials.len()), total: Some(facts.trials.len()) }
}

/// The axis on which two trials differ, with both values; none if they differ on several axes.
fn only_difference<'a>(one: &'a TrialFacts, other: &'a TrialFacts) -> Option<ComparedValues<'a>> {
    let mut differing = one.labels.iter().filter_map(|(axis, label)| {
        let there = other.labels.get(axis)?;
        (label != there).then_some((axis.as_str(), label.as_str(), there.as_str()))
    });
    let (axis, own, theirs) = differing.next()?;
    if differing.next().is_some() {
        return None;
    }
    Some((axis, own.min(theirs), own.max(theirs)))
}

fn holds_both(equal: &EqualTrials, one: &TrialFacts, other: &TrialFacts) -> bool {
    equal.same_output && equal.trials.contains(&one.trial) && equal.trials.contains(&other.trial)
}

#[cfg(test)]
mod tests {
    use super::super::{
        TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::SettingWithoutEffect;

    fn labelled(id: &str, chunker: &str, enrich: &str) -> TrialFacts {
        let labels = [("chunker", chunker), ("enrich", enrich)];
        let labels = labels.map(|(axis, label)| (axis.to_owned(), label.to_owned())).into();
        TrialFacts { labels, ..trial(id, TrialFindings::default()) }
    }

    /// Two chunkers, each with `none` and `heading`. `equal` has the pairs of equal trials.
    fn facts(equal: &[[&str; 2]], same_output: bool) -> RunFacts {
        let trials = vec![
            labelled("t01", "sentence", "none"),
            labelled("t02", "sentence", "heading"),
            labelled("t03", "token", "none"),
            labelled("t04", "token", "heading"),
        ];
        let equal = equal.iter().map(|both| {
            let trials = both.iter().map(|&id| id.to_owned()).collect();
            EqualTrials { trials, same_output, answers: false }
        });
        RunFacts { equal: equal.collect(), ..run(trials) }
    }

    const BOTH: [[&str; 2]; 2] = [["t01", "t02"], ["t03", "t04"]];

    #[test]
    fn a_value_that_changes_no_trial_is_told_once() {
        let mut facts = facts(&BOTH, true);
        let expected = "enrich `heading` and `none` made no difference: all 2 pairs of trials that differ only in this gave \
                        the same passages";
        assert_eq!(told(CODE, &facts), [format!("{expected}: no document has a title or headings")]);
        facts.corpus.with_headings = 3;
        assert_eq!(told(CODE, &facts), [expected]);
        facts.equal.iter_mut().for_each(|equal| equal.answers = true);
        assert_eq!(told(CODE, &facts), [format!("{expected} and answers")]);
    }

    #[test]
    fn a_value_that_changes_one_trial_or_only_the_passages_is_not_told() {
        assert!(told(CODE, &facts(&BOTH[..1], true)).is_empty(), "with `token` it changes something");
        assert!(told(CODE, &facts(&BOTH, false)).is_empty(), "only the scores are equal");
        assert!(told(CODE, &facts(&[], true)).is_empty());
    }

    #[test]
    fn trials_that_differ_in_two_choices_and_trials_that_did_not_run_say_nothing_of_one() {
        assert!(told(CODE, &facts(&[["t01", "t04"]], true)).is_empty());
        let mut planned = facts(&BOTH, true);
        planned.trials.iter_mut().for_each(|trial| trial.found = None);
        assert!(told(CODE, &planned).is_empty());
    }

    #[test]
    fn one_pair_is_told_as_both_trials() {
        let mut facts = facts(&BOTH[..1], true);
        facts.trials.truncate(2);
        facts.corpus.with_headings = 1;
        let expected = "enrich `heading` and `none` made no difference: both trials that differ only in this gave the same \
                        passages";
        assert_eq!(told(CODE, &facts), [expected]);
    }
}
