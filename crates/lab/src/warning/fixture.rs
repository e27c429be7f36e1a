//! Facts for the tests of warnings.

use super::{RunFacts, TrialFacts, TrialFindings, Warning, WarningCode, of_code};

/// A trial with this id and these findings.
pub(super) fn trial(id: &str, found: TrialFindings) -> TrialFacts {
    TrialFacts {
        trial: id.to_owned(),
        retriever: "bm25".to_owned(),
        searches_words: true,
        found: Some(found),
        ..TrialFacts::default()
    }
}

/// Facts with these trials only.
pub(super) fn run(trials: Vec<TrialFacts>) -> RunFacts {
    RunFacts { trials, objective: vec!["ndcg".to_owned()], ..RunFacts::default() }
}

/// The sentences of the warnings with this code.
pub(super) fn told(code: WarningCode, facts: &RunFacts) -> Vec<String> {
    of_code(code, facts).into_iter().map(|warning| warning.text).collect()
}

/// The only warning with this code.
pub(super) fn only(code: WarningCode, facts: &RunFacts) -> Warning {
    let mut found = of_code(code, facts);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}
