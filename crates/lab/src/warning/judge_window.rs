//! `judge-window`: prompts that are longer than the judge reads.
//!
//! Before a run, the judge's limit is compared with a prompt of as many full chunks as the trial allows. After a run,
//! the missing verdicts are counted: those that a judge did not give because its prompt was too long.

use super::{Finding, RunFacts, TrialFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "a judge asked beyond its window",
    meaning: "A judge that is shown passages reads a limited number of tokens. A longer prompt is refused, so that scores \
              are missing, most often those of trials with large chunks; or an endpoint cuts it without a word. Before a \
              run, the full chunks of a prompt are counted; steps that shorten or lengthen passages are not.",
    action: "use a judge that reads more, smaller chunks, or a smaller `top_k`",
    found: WarningTime::BeforeAndAfter,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    let of_trial = |trial: &TrialFacts| match &trial.found {
        Some(found) if found.beyond_judge > 0 => {
            let (n, all) = (count(found.beyond_judge), counted(found.judged, "verdict"));
            let text = format!("{n} of {all} are missing, because the prompt was longer than the judge reads");
            vec![Finding::of_trial(trial, text, found.beyond_judge, Some(found.judged))]
        }
        Some(_) => Vec::new(),
        None => planned(facts, trial),
    };
    facts.trials.iter().flat_map(of_trial).collect()
}

fn planned(facts: &RunFacts, trial: &TrialFacts) -> Vec<Finding> {
    let Some((size, passages)) = trial.chunk_size.zip(trial.passages) else { return Vec::new() };
    let tokens = size.saturating_mul(passages);
    let beyond = |judge: &String| {
        let window = facts.model(judge).window.filter(|window| *window < tokens)?;
        let text = format!(
            "the judge `{judge}` reads {} tokens, and {} of up to {} tokens have up to {}",
            count(window),
            counted(passages, "chunk"),
            count(size),
            count(tokens)
        );
        Some(Finding::planned(trial, text))
    };
    facts.judges.iter().filter_map(beyond).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{
        ModelFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::JudgeWindow;

    fn planned(chunk_size: Option<usize>, passages: Option<usize>, judges: &[&str]) -> RunFacts {
        let trial = TrialFacts { chunk_size, passages, found: None, ..trial("t01", TrialFindings::default()) };
        let reads = ModelFacts { window: Some(4096), ..ModelFacts::default() };
        RunFacts {
            judges: judges.iter().map(|&judge| judge.to_owned()).collect(),
            models: [("judge".to_owned(), reads)].into(),
            ..run(vec![trial])
        }
    }

    #[test]
    fn passages_that_do_not_fit_are_told_before_a_run() {
        let expected = "t01: the judge `judge` reads 4,096 tokens, and 5 chunks of up to 1,024 tokens have up to 5,120";
        assert_eq!(told(CODE, &planned(Some(1024), Some(5), &["judge"])), [expected]);
    }

    #[test]
    fn passages_that_fit_and_sizes_that_are_not_known_are_not_told() {
        for (size, passages, judges) in [
            (Some(512), Some(5), &["judge"][..]),
            (None, Some(5), &["judge"]),
            (Some(1024), None, &["judge"]),
            (Some(1024), Some(5), &["other"]),
            (Some(1024), Some(5), &[]),
        ] {
            assert!(told(CODE, &planned(size, passages, judges)).is_empty(), "{size:?} {passages:?} {judges:?}");
        }
    }

    #[test]
    fn after_a_run_the_verdicts_that_are_missing_for_this_reason_are_told() {
        let found = |beyond_judge| {
            let found = TrialFindings { beyond_judge, judged: 40, ..TrialFindings::default() };
            let facts = planned(Some(1024), Some(5), &["judge"]);
            RunFacts { trials: vec![TrialFacts { found: Some(found), ..facts.trials[0].clone() }], ..facts }
        };
        let expected = "t01: 7 of 40 verdicts are missing, because the prompt was longer than the judge reads";
        assert_eq!(told(CODE, &found(7)), [expected]);
        assert!(told(CODE, &found(0)).is_empty(), "everything fitted, whatever the settings said");
    }
}
