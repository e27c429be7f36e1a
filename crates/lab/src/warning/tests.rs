//! Tests of the list of kinds, and of how findings become warnings.

use super::fixture::{run, trial};
use super::*;
use std::collections::BTreeSet;

fn empty(searched: usize, empty: usize) -> TrialFindings {
    TrialFindings { searched, empty, ..TrialFindings::default() }
}

#[test]
fn codes_are_written_with_hyphens_and_read_by_the_same_name() {
    assert_eq!(WarningCode::RetrievesNothing.name(), "retrieves-nothing");
    assert_eq!(WarningCode::EvidenceInNoChunk.name(), "evidence-in-no-chunk");
    let names: BTreeSet<String> = WarningCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), WarningCode::ALL.len());
    for &code in WarningCode::ALL {
        let name = code.name();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        assert_eq!(WarningCode::of_name(&name), Some(code));
        assert_eq!(serde_json::from_value::<WarningCode>(name.clone().into()).unwrap(), code);
    }
    assert_eq!(WarningCode::of_name("retrieves_nothing"), None);
}

#[test]
fn each_kind_says_what_it_means_and_what_to_do() {
    for &code in WarningCode::ALL {
        let WarningKind { title, meaning, action, .. } = code.kind();
        assert!(!title.is_empty() && !title.ends_with('.'), "{code:?}");
        assert!(meaning.ends_with('.') && meaning.len() > 80, "{code:?}");
        assert!(!action.is_empty() && !action.ends_with('.'), "{code:?}");
        assert!(title.len() < 60, "{code:?}: a title stands in a list");
    }
}

#[test]
fn facts_of_nothing_give_no_warning() {
    assert!(find(&RunFacts::default(), &[]).is_empty());
    let quiet = run(vec![trial("t01", empty(5, 0)), trial("t02", empty(5, 0))]);
    assert!(find(&quiet, &[]).is_empty());
}

#[test]
fn warnings_come_in_the_order_of_the_list_and_without_those_that_are_ignored() {
    let mut facts = run(vec![trial("t01", empty(5, 2)), trial("t02", empty(5, 0))]);
    facts.corpus.unread_types = [(".csv".to_owned(), 1)].into();
    let codes = |ignored: &[WarningCode]| find(&facts, ignored).iter().map(|warning| warning.code).collect::<Vec<_>>();
    assert_eq!(codes(&[]), [WarningCode::RetrievesNothing, WarningCode::UnreadTypes]);
    assert_eq!(codes(&[WarningCode::RetrievesNothing]), [WarningCode::UnreadTypes]);
    assert_eq!(codes(&[WarningCode::MixedLanguages]).len(), 2);
    assert!(codes(WarningCode::ALL).is_empty());
}

#[test]
fn trials_with_the_same_statement_share_a_warning() {
    let facts = run(vec![trial("t01", empty(5, 2)), trial("t02", empty(5, 3)), trial("t03", empty(5, 2))]);
    let found = find(&facts, &[]);
    let told: Vec<(&[String], &str)> =
        found.iter().map(|warning| (warning.trials.as_slice(), warning.text.as_str())).collect();
    assert_eq!(
        told,
        [
            (&["t01".to_owned(), "t03".to_owned()][..], "t01 and t03: nothing was retrieved for 2 of 5 questions"),
            (&["t02".to_owned()][..], "t02: nothing was retrieved for 3 of 5 questions"),
        ]
    );
    assert!(found[0].concerns("t03") && !found[0].concerns("t02"));
    assert_eq!(found[0].action, WarningCode::RetrievesNothing.kind().action);
}

#[test]
fn each_group_of_equal_trials_is_a_warning_of_its_own() {
    let equal =
        |ids: [&str; 2]| EqualTrials { trials: ids.map(str::to_owned).to_vec(), same_output: true, answers: false };
    let trials = ["t01", "t02", "t03", "t04"].map(|id| trial(id, empty(5, 0))).to_vec();
    let facts = RunFacts { equal: vec![equal(["t01", "t02"]), equal(["t03", "t04"])], ..run(trials) };
    let told: Vec<String> = find(&facts, &[]).into_iter().map(|warning| warning.text).collect();
    let text = "the same passages for every question, so they count as one";
    assert_eq!(told, [format!("t01 and t02: {text}"), format!("t03 and t04: {text}")]);
}

#[test]
fn what_is_ignored_is_not_looked_for_and_neither_is_what_needs_chunks_that_are_elsewhere() {
    assert_eq!(looked_for(&[], true), WarningCode::ALL);
    let without = |codes: &[WarningCode]| {
        WarningCode::ALL.iter().copied().filter(|code| !codes.contains(code)).collect::<Vec<_>>()
    };
    assert_eq!(looked_for(&[WarningCode::LongTexts], true), without(&[WarningCode::LongTexts]));
    let of_chunks = [WarningCode::EvidenceInNoChunk, WarningCode::NoSharedWords];
    assert_eq!(looked_for(&[], false), without(&of_chunks));
}

#[test]
fn all_trials_are_told_as_all_and_many_are_counted() {
    let ids = |n: usize| (1..=n).map(|n| format!("t{n:02}")).collect::<Vec<_>>();
    assert_eq!(named_trials(&ids(0), 12), None);
    assert_eq!(named_trials(&ids(1), 1).as_deref(), Some("t01"));
    assert_eq!(named_trials(&ids(12), 12).as_deref(), Some("all trials"));
    assert_eq!(named_trials(&ids(6), 12).as_deref(), Some("t01, t02, t03, t04, t05 and t06"));
    assert_eq!(named_trials(&ids(8), 12).as_deref(), Some("t01, t02, t03, t04, t05 and 3 more trials"));
}

#[test]
fn a_warning_is_written_and_read_whole() {
    let facts = run(vec![trial("t01", empty(5, 2)), trial("t02", empty(5, 0))]);
    let warning = find(&facts, &[]).remove(0);
    let written = serde_json::to_value(&warning).unwrap();
    assert_eq!(
        (&written["code"], &written["count"], &written["total"]),
        (&"retrieves-nothing".into(), &2.into(), &5.into())
    );
    assert_eq!(serde_json::from_value::<Warning>(written).unwrap(), warning);
}
