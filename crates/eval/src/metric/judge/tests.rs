//! Tests of the verdicts.

use super::super::testing::{FakeJudge, wait};
use super::*;

fn ask(fake: FakeJudge, items: &[&str]) -> Result<Vec<Verdict>, Missing> {
    let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
    let inquiry = Inquiry {
        shared: "<context>\nx\n</context>".to_owned(),
        tag: "statement",
        items: &items,
        question: "Is it so?",
        per_call: 2,
    };
    let judge = Judge::new(fake.chat(), 0.5);
    wait(judge.verdicts(&inquiry, &mut Transcript::default()))
}

fn words(verdicts: &[Verdict]) -> Vec<Option<bool>> {
    verdicts.iter().map(|verdict| verdict.yes).collect()
}

#[test]
fn verdicts_by_probability_and_in_words_agree() {
    let wanted = [Some(true), Some(false), Some(true)];
    let probable = ask(FakeJudge::new().verdicts("101"), &["a", "b", "c"]).unwrap();
    assert_eq!(words(&probable), wanted);
    assert_eq!(probable[1].probability, Some(0.1));
    let written = ask(FakeJudge::new().verdicts("101").without_probabilities(), &["a", "b", "c"]).unwrap();
    assert_eq!(words(&written), wanted);
    assert_eq!(written[1].probability, None);
}

#[test]
fn a_model_without_probabilities_is_asked_for_them_once() {
    let fake = FakeJudge::new().without_probabilities();
    let seen = fake.seen();
    let judge = Judge::new(fake.chat(), 0.5);
    let items = vec!["a".to_owned()];
    for _ in 0..3 {
        let inquiry = Inquiry { shared: "x".into(), tag: "statement", items: &items, question: "So?", per_call: 1 };
        wait(judge.verdicts(&inquiry, &mut Transcript::default())).unwrap();
    }
    let n_choices = seen.lock().unwrap().iter().filter(|request| !request.choices.is_empty()).count();
    assert_eq!((n_choices, seen.lock().unwrap().len()), (1, 4));
}

#[test]
fn nothing_to_ask_asks_nobody() {
    let fake = FakeJudge::new();
    let seen = fake.seen();
    assert_eq!(ask(fake, &[]), Ok(Vec::new()));
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn verdicts_are_matched_by_number_and_others_are_ignored() {
    let reply = json!({ "verdicts": [
        { "number": 3, "verdict": "no" },
        { "number": 1, "verdict": "Yes", "reason": "r" },
        { "number": 0, "verdict": "Yes" },
        { "number": 9, "verdict": "Yes" },
        { "number": 2, "verdict": "maybe" }
    ] });
    let verdicts = read_numbered(reply.as_object().unwrap(), 3);
    assert_eq!(words(&verdicts), [Some(true), None, Some(false)]);
    assert!(matches!(complete(&verdicts), Err(Missing::JudgeUnparsable(_))));
}

#[test]
fn a_number_with_two_different_verdicts_has_none() {
    let reply = json!({ "verdicts": [
        { "number": 1, "verdict": "Yes" }, { "number": 1, "verdict": "No" }, { "number": 1, "verdict": "Yes" },
        { "number": 2, "verdict": "No" }, { "number": 2, "verdict": "No" }
    ] });
    assert_eq!(words(&read_numbered(reply.as_object().unwrap(), 2)), [None, Some(false)]);
}

#[test]
fn statements_that_cannot_be_read_are_told_from_none() {
    let statements = |reply: &str| {
        let judge = Judge::new(FakeJudge::new().replies(&[reply]).chat(), 0.5);
        wait(judge.statements("q", "text", 3, &mut Transcript::default()))
    };
    assert_eq!(statements(r#"{"statements": []}"#), Ok(Vec::new()));
    assert_eq!(statements(r#"{"statements": [" a ", "", "b"]}"#), Ok(vec!["a".to_owned(), "b".to_owned()]));
    for broken in [r#"{"statements": ["a""#, r#"{"facts": []}"#, r#"{"statements": [1]}"#, "I cannot do that."] {
        assert!(matches!(statements(broken), Err(Missing::JudgeUnparsable(_))), "{broken}");
    }
    assert!(statements(r#"{"statements": ["a", "b", "c", "d"]}"#).is_err());
}

#[test]
fn a_word_is_read_at_the_beginning_only() {
    assert_eq!(yes_or_no(" Yes, it is"), Some(true));
    assert_eq!(yes_or_no("NO."), Some(false));
    assert_eq!(yes_or_no("Not sure"), None);
    assert_eq!(yes_or_no(""), None);
}

#[test]
fn the_transcript_keeps_prompts_replies_and_probabilities() {
    let judge = Judge::new(FakeJudge::new().verdicts("1").chat(), 0.5);
    let items = vec!["a".to_owned()];
    let inquiry = Inquiry { shared: "x".repeat(2_000), tag: "statement", items: &items, question: "So?", per_call: 1 };
    let mut transcript = Transcript::default();
    wait(judge.verdicts(&inquiry, &mut transcript)).unwrap();
    let scored = transcript.scored(Ok(1.0));
    let call = &scored.detail["transcript"][0];
    assert_eq!(call["probabilities"], json!([0.9, 0.1]));
    assert!(call["prompt"].as_str().unwrap().chars().count() < 500);
}
