//! Failures of user functions, for their author.

use super::count;
use lab::{FunctionFailure, ScoreResults};
use std::fmt::Write;

/// At most this many different failures are shown.
const SHOWN: usize = 5;

/// Failures of user functions, as text: each different failure once, with the trials
/// that it concerns and its traceback. None if nothing failed.
pub fn function_failures<'a>(failures: impl IntoIterator<Item = &'a FunctionFailure>) -> Option<String> {
    let mut kinds: Vec<Vec<&FunctionFailure>> = Vec::new();
    let key = |one: &FunctionFailure| (one.label.clone(), one.failure.kind, one.failure.message.clone());
    for failure in failures {
        match kinds.iter_mut().find(|kind| key(kind[0]) == key(failure)) {
            Some(kind) => kind.push(failure),
            None => kinds.push(vec![failure]),
        }
    }
    let mut text = String::new();
    for kind in kinds.iter().take(SHOWN) {
        let (first, mut trials) = (kind[0], kind.iter().map(|failure| failure.trial.as_str()).collect::<Vec<_>>());
        trials.dedup();
        trials.retain(|trial| !trial.is_empty());
        let _ = write!(text, "\nfailed: {} {}", first.failure.stage, first.failure);
        let mut concerned = Vec::new();
        if !trials.is_empty() {
            concerned.push(format!("in {}", join_names(&trials)));
        }
        let mut questions: Vec<&str> = kind.iter().filter_map(|failure| failure.question.as_deref()).collect();
        questions.sort_unstable();
        questions.dedup();
        if !questions.is_empty() {
            concerned.push(format!("at {}", join_names(&questions)));
        }
        if !concerned.is_empty() {
            let _ = write!(text, "\n    {}", concerned.join(", "));
        }
        for line in first.failure.traceback.iter().flat_map(|traceback| traceback.lines()) {
            let _ = write!(text, "\n    {line}");
        }
    }
    if kinds.len() > SHOWN {
        let _ = write!(text, "\nand {} other failures", count(kinds.len() - SHOWN));
    }
    (!text.is_empty()).then(|| text.trim_start().to_owned())
}

/// The failures of user functions in scored answers, as text; none if nothing failed.
pub fn function_failures_of_scores(results: &ScoreResults) -> Option<String> {
    function_failures(&results.function_failures())
}

fn join_names(names: &[&str]) -> String {
    match names {
        [first, second, third, rest @ ..] if rest.len() > 1 => {
            format!("{first}, {second}, {third} and {} more", count(rest.len()))
        }
        few => few.join(", "),
    }
}
