//! Tests of majorities.

use super::super::super::testing::{FakeJudge, wait};
use super::super::{require_all, table};
use super::*;

fn panel(fakes: Vec<FakeJudge>) -> Judge {
    let chats: Vec<Chat> = fakes.into_iter().map(FakeJudge::chat).collect();
    Judge::new(&chats[0], &chats[1..], 0.5)
}

fn ask(judge: &Judge, items: &[&str]) -> (Result<Vec<ItemVerdict>, Missing>, Value) {
    let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
    let inquiry =
        Inquiry { shared: "x".to_owned(), tag: "statement", items: &items, question: "Is it so?", per_call: 9 };
    let mut transcript = Transcript::default();
    let verdicts = wait(judge.verdicts(&inquiry, &mut transcript));
    (verdicts, transcript.scored(Ok(1.0)).detail)
}

#[test]
fn the_majority_of_three_judges_counts_whatever_way_they_answer_in() {
    let judge = panel(vec![
        FakeJudge::new().named("a").verdicts("110"),
        FakeJudge::new().named("b").verdicts("010").without_probabilities(),
        FakeJudge::new().named("c").verdicts("100"),
    ]);
    let (verdicts, detail) = ask(&judge, &["x", "y", "z"]);
    let verdicts = verdicts.unwrap();
    assert_eq!(require_all(&verdicts), Ok(vec![true, true, false]));
    // 2 of 3, 2 of 3 and 3 of 3 said the same.
    assert!((detail["agreement"].as_f64().unwrap() - 7.0 / 9.0).abs() < 1e-12);
    let rows = table(&["x".to_owned(), "y".to_owned(), "z".to_owned()], &verdicts);
    assert_eq!(rows[0]["votes"][1]["judge"], "b");
    assert_eq!(rows[0]["votes"][1]["verdict"], false);
    assert_eq!(rows[0]["probability"], Value::Null, "one of them gave none");
    // Three calls of `a` and of `c`; of `b`, which has no probabilities, one with
    // all items.
    let judges: Vec<&str> =
        detail["transcript"].as_array().unwrap().iter().map(|call| call["judge"].as_str().unwrap()).collect();
    assert_eq!(judges, ["a", "a", "a", "b", "c", "c", "c"]);
    assert_eq!(detail["measured_by"], json!({ "a": "probability", "b": "words", "c": "probability" }));
}

#[test]
fn the_probability_of_a_panel_is_the_mean() {
    let judge =
        panel(vec![FakeJudge::new().verdicts("1"), FakeJudge::new().verdicts("1"), FakeJudge::new().verdicts("0")]);
    let probability = ask(&judge, &["x"]).0.unwrap()[0].probability.unwrap();
    assert!((probability - (0.9 + 0.9 + 0.1) / 3.0).abs() < 1e-12, "{probability}");
}

#[test]
fn a_tie_is_no_verdict_and_says_so() {
    let judge = panel(vec![FakeJudge::new().verdicts("10"), FakeJudge::new().verdicts("11")]);
    let verdicts = ask(&judge, &["x", "y"]).0.unwrap();
    assert_eq!(verdicts.iter().map(|verdict| verdict.yes).collect::<Vec<_>>(), [Some(true), None]);
    let Err(Missing::JudgeUnparsable(reason)) = require_all(&verdicts) else { unreachable!() };
    assert_eq!(reason, "1 of 2 items have no verdict: no majority of 2 judges");
}

#[test]
fn a_judge_that_cannot_be_read_has_no_vote_and_the_others_need_more_than_half_of_all() {
    let unreadable = || FakeJudge::new().replies(&["no JSON"]).without_probabilities();
    let judge = panel(vec![FakeJudge::new().verdicts("1"), unreadable(), FakeJudge::new().verdicts("1")]);
    assert_eq!(require_all(&ask(&judge, &["x"]).0.unwrap()), Ok(vec![true]));
    let judge = panel(vec![FakeJudge::new().verdicts("1"), unreadable(), FakeJudge::new().verdicts("0")]);
    assert!(require_all(&ask(&judge, &["x"]).0.unwrap()).is_err());
    let judge = panel(vec![FakeJudge::new().verdicts("1"), unreadable(), unreadable()]);
    assert!(require_all(&ask(&judge, &["x"]).0.unwrap()).is_err(), "one of three is no majority");
}

#[test]
fn a_judge_that_fails_is_a_provider_error_and_what_the_others_said_is_kept() {
    let judge = panel(vec![FakeJudge::new().verdicts("1"), FakeJudge::new().failing(), FakeJudge::new()]);
    let (verdicts, detail) = ask(&judge, &["x"]);
    assert!(matches!(verdicts, Err(Missing::ProviderError(_))), "{verdicts:?}");
    assert_eq!(detail["transcript"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_first_judge_alone_writes_the_items() {
    let second = FakeJudge::new().statements(&["x"]);
    let seen = second.seen();
    let judge = panel(vec![FakeJudge::new().statements(&["a", "b"]), second]);
    assert_eq!(wait(judge.statements("q", "t", 5, &mut Transcript::default())), Ok(vec!["a".into(), "b".into()]));
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn a_majority_is_more_than_half_of_all_votes() {
    assert_eq!(majority_value(&[Some(1), Some(1), Some(2)]), Some(1));
    assert_eq!(majority_value(&[Some(1), Some(2)]), None);
    assert_eq!(majority_value(&[Some(1), None, None]), None);
    assert_eq!(majority_value::<u8>(&[]), None);
}
