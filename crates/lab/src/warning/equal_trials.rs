//! `equal-trials`: trials that are equal on every question, which count as one in the tests.

use super::{EqualTrials, Finding, RunFacts, TrialFacts, WarningKind, WarningTime};
use crate::number::listed;

pub(super) const KIND: WarningKind = WarningKind {
    title: "trials that are equal on every question",
    meaning: "These trials gave the same passages and answers for every question, or have the same scores everywhere. They \
              are one observation: in the tests that say who may be the best they count as one, and each gets the verdict \
              of the first. Otherwise a setting that does nothing would make every trial look tied, and the correction for \
              many trials would be too strict. A winner is named also if others equal it in passages and answers; trials \
              with the same scores and other passages stay tied.",
    action: "remove what does nothing from the space, or ask questions on which these trials differ",
    found: WarningTime::After,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.equal.iter().filter(|equal| equal.trials.len() > 1).map(|equal| finding(facts, equal)).collect()
}

fn finding(facts: &RunFacts, equal: &EqualTrials) -> Finding {
    let differing = differing_axes(facts, &equal.trials);
    let differing = match differing.len() {
        0 => String::new(),
        _ => format!("; they differ in {}", listed(&differing)),
    };
    let text = match (equal.same_output, equal.answers) {
        (true, true) => format!("the same passages and answers for every question, so they count as one{differing}"),
        (true, false) => format!("the same passages for every question, so they count as one{differing}"),
        (false, _) => {
            let by = facts.objective.join(", ");
            format!("the same scores for every question by {by}, so they count as one in the tests{differing}")
        }
    };
    Finding { trials: equal.trials.clone(), text, count: Some(equal.trials.len()), total: Some(facts.trials.len()) }
}

/// The axes on which trials have different values.
fn differing_axes<'a>(facts: &'a RunFacts, trials: &[String]) -> Vec<&'a str> {
    let own: Vec<&TrialFacts> = facts.trials.iter().filter(|trial| trials.contains(&trial.trial)).collect();
    let Some((first, others)) = own.split_first() else { return Vec::new() };
    let differs =
        |(axis, label): &(&String, &String)| others.iter().any(|other| other.labels.get(*axis) != Some(*label));
    first.labels.iter().filter(differs).map(|(axis, _)| axis.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{
        TrialFindings, WarningCode,
        fixture::{only, run, told, trial},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::EqualTrials;

    fn labelled(id: &str, enrich: &str, chunker: &str) -> TrialFacts {
        let labels = [("chunker", chunker), ("enrich", enrich)];
        let labels = labels.map(|(axis, label)| (axis.to_owned(), label.to_owned())).into();
        TrialFacts { labels, ..trial(id, TrialFindings::default()) }
    }

    fn facts(same_output: bool, answers: bool) -> RunFacts {
        let trials = vec![
            labelled("t03", "none", "sentence"),
            labelled("t07", "heading", "sentence"),
            labelled("t08", "heading", "token"),
        ];
        let equal = EqualTrials { trials: vec!["t03".to_owned(), "t07".to_owned()], same_output, answers };
        RunFacts { equal: vec![equal], ..run(trials) }
    }

    #[test]
    fn equal_trials_are_told_together_with_what_they_differ_in() {
        for (same_output, answers, text) in [
            (true, true, "the same passages and answers for every question, so they count as one"),
            (true, false, "the same passages for every question, so they count as one"),
            (false, true, "the same scores for every question by ndcg, so they count as one in the tests"),
        ] {
            let found = only(CODE, &facts(same_output, answers));
            assert_eq!(found.text, format!("t03 and t07: {text}; they differ in enrich"));
            assert_eq!((found.count, found.total), (Some(2), Some(3)));
        }
    }

    #[test]
    fn a_trial_that_equals_no_other_is_not_told() {
        let mut facts = facts(true, false);
        facts.equal[0].trials.truncate(1);
        assert!(told(CODE, &facts).is_empty());
        facts.equal.clear();
        assert!(told(CODE, &facts).is_empty());
    }
}
