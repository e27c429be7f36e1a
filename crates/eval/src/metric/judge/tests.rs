//! Tests of the verdicts.

use super::super::testing::{FakeJudge, wait};
use super::*;
use async_trait::async_trait;
use models::{ChatModel, Client, Error, Finish, Identity, Model, Usage};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

fn ask(fake: FakeJudge, items: &[&str]) -> Result<Vec<ItemVerdict>, Missing> {
    let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
    let inquiry = Inquiry {
        shared: "<context>\nx\n</context>".to_owned(),
        tag: "statement",
        items: &items,
        question: "Is it so?",
        per_call: 2,
    };
    let judge = Judge::new(&fake.chat(), &[], 0.5);
    wait(judge.verdicts(&inquiry, &mut Transcript::default()))
}

fn words(verdicts: &[ItemVerdict]) -> Vec<Option<bool>> {
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
fn a_model_without_probabilities_is_asked_for_them_once_before_the_first_verdict() {
    let fake = FakeJudge::new().without_probabilities();
    let (seen, probes) = (fake.seen(), fake.probes());
    let judge = Judge::new(&fake.chat(), &[], 0.5);
    let items = vec!["a".to_owned()];
    for _ in 0..3 {
        let inquiry = Inquiry { shared: "x".into(), tag: "statement", items: &items, question: "So?", per_call: 1 };
        wait(judge.verdicts(&inquiry, &mut Transcript::default())).unwrap();
    }
    let n_choices = seen.lock().unwrap().iter().filter(|request| !request.choices.is_empty()).count();
    assert_eq!((probes.load(Relaxed), n_choices, seen.lock().unwrap().len()), (1, 0, 3));
}

/// A judge of twenty items whose calls end in a given order. Its reply to the
/// fourth item is a word without probabilities.
struct Ordered {
    identity: Identity,
    /// Items that have not ended, the next one last.
    order: Mutex<Vec<usize>>,
    /// Requests that ask for words.
    written: Arc<AtomicUsize>,
}

const ITEMS: usize = 20;
const ODD: usize = 4;

impl Model for Ordered {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        ITEMS
    }
}

#[async_trait]
impl ChatModel for Ordered {
    fn context_length(&self) -> usize {
        1 << 20
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        let prompt = &request.messages.last().unwrap().content;
        let item = prompt.split("item ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
        if request.choices.is_empty() {
            self.written.fetch_add(1, Relaxed);
        }
        if let Some(item) = item {
            while self.order.lock().unwrap().last() != Some(&item) {
                tokio::task::yield_now().await;
            }
            self.order.lock().unwrap().pop();
        }
        let choices = match item {
            Some(ODD) => Vec::new(),
            Some(item) if item % 3 == 0 => vec![0.3, 0.7],
            _ => vec![0.8, 0.2],
        };
        let text = "Yes".to_owned();
        Ok(ChatResponse { text, finish: Finish::Stop, usage: Usage::default(), choices, seconds: 0.0 })
    }
}

/// The verdicts of twenty scores that are made at once, each with its detail.
fn verdicts_in_order(order: &[usize]) -> (Vec<(Vec<ItemVerdict>, Value)>, usize) {
    let identity = Identity {
        provider: "test".to_owned(),
        model: "ordered".to_owned(),
        revision: String::new(),
        parameters: Value::Null,
    };
    let written = Arc::<AtomicUsize>::default();
    let order = Mutex::new(order.iter().rev().copied().collect());
    let model = Ordered { identity, order, written: written.clone() };
    let judge = Judge::new(&Client::new(None).chat(Arc::new(model)), &[], 0.5);
    let one = async |number: usize| {
        let items = vec![format!("item {number} .")];
        let inquiry = Inquiry { shared: "x".into(), tag: "statement", items: &items, question: "So?", per_call: 1 };
        let mut transcript = Transcript::default();
        let verdicts = judge.verdicts(&inquiry, &mut transcript).await.unwrap();
        (verdicts, transcript.scored(Ok(1.0)).detail)
    };
    let all = wait(futures::future::join_all((1..=ITEMS).map(one)));
    (all, written.load(Relaxed))
}

#[test]
fn one_reply_without_probabilities_changes_nothing_for_other_items_in_any_order_of_completion() {
    let forwards: Vec<usize> = (1..=ITEMS).collect();
    let backwards: Vec<usize> = forwards.iter().rev().copied().collect();
    let odd_first: Vec<usize> =
        std::iter::once(ODD).chain(forwards.iter().copied().filter(|&item| item != ODD)).collect();
    let mut shuffled = forwards.clone();
    crate::statistics::Random::new(7).shuffle(&mut shuffled);
    let (expected, _) = verdicts_in_order(&forwards);
    for (number, (verdicts, detail)) in (1..).zip(&expected) {
        let probability = if number % 3 == 0 { 0.3 } else { 0.8 };
        assert_eq!(verdicts[0].probability, (number != ODD).then_some(probability), "item {number}");
        assert_eq!(verdicts[0].yes, Some(number == ODD || number % 3 != 0), "item {number}");
        assert_eq!(detail["measured_by"], "probability", "item {number}");
    }
    for order in [&forwards, &backwards, &odd_first, &shuffled] {
        let (found, written) = verdicts_in_order(order);
        assert_eq!(found, expected, "{order:?}");
        assert_eq!(written, 0, "nothing is asked in another form, {order:?}");
    }
}

#[test]
fn a_reply_without_probabilities_counts_by_its_word_and_one_with_neither_has_no_verdict() {
    let verdicts = ask(FakeJudge::new().verdicts("1yn?0"), &["a", "b", "c", "d", "e"]).unwrap();
    assert_eq!(words(&verdicts), [Some(true), Some(true), Some(false), None, Some(false)]);
    assert_eq!(
        verdicts.iter().map(|verdict| verdict.probability.is_some()).collect::<Vec<_>>(),
        [true, false, false, false, true]
    );
    assert!(matches!(require_all(&verdicts), Err(Missing::JudgeUnparsable(_))));
}

#[test]
fn the_detail_of_a_score_says_what_its_verdicts_were_read_from() {
    let measured = |fake: FakeJudge| {
        let judge = Judge::new(&fake.chat(), &[], 0.5);
        let items = vec!["a".to_owned()];
        let inquiry = Inquiry { shared: "x".into(), tag: "statement", items: &items, question: "So?", per_call: 1 };
        let mut transcript = Transcript::default();
        wait(judge.verdicts(&inquiry, &mut transcript)).unwrap();
        transcript.scored(Ok(1.0)).detail["measured_by"].clone()
    };
    assert_eq!(measured(FakeJudge::new()), "probability");
    assert_eq!(measured(FakeJudge::new().without_probabilities()), "words");
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
    assert!(matches!(require_all(&verdicts), Err(Missing::JudgeUnparsable(_))));
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
        let judge = Judge::new(&FakeJudge::new().replies(&[reply]).chat(), &[], 0.5);
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
    let judge = Judge::new(&FakeJudge::new().verdicts("1").chat(), &[], 0.5);
    let items = vec!["a".to_owned()];
    let inquiry = Inquiry { shared: "x".repeat(2_000), tag: "statement", items: &items, question: "So?", per_call: 1 };
    let mut transcript = Transcript::default();
    wait(judge.verdicts(&inquiry, &mut transcript)).unwrap();
    let scored = transcript.scored(Ok(1.0));
    let call = &scored.detail["transcript"][0];
    assert_eq!(call["probabilities"], json!([0.9, 0.1]));
    assert!(call["prompt"].as_str().unwrap().chars().count() < 500);
}
