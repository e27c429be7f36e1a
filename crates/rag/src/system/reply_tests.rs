//! What replies say, and what is wrong with them.

use super::*;
use serde_json::json;
use std::collections::BTreeMap;

const SECTION: &str = "[systems.app]";

fn reader(passage: &Value, question: &str) -> ReplyReader {
    let passage: PassagePaths = serde_json::from_value(passage.clone()).expect("paths of a passage");
    let settings =
        ReplySettings { answer: "answer", passages: "sources", passage: &passage, trace: "meta.trace", question };
    ReplyReader::new(&settings).expect("a reader")
}

fn read_with(reader: &ReplyReader, reply: &Value) -> Result<SystemReply, String> {
    let parameters = BTreeMap::new();
    let question = SystemQuestion { id: "q1", text: "Who is\n Ada?", history: &[], seed: 0, parameters: &parameters };
    reader.read(&question, reply, SECTION).map_err(|error| error.to_string())
}

fn passages(paths: &Value, items: &Value) -> Result<Vec<ReplyPassage>, String> {
    let reply = read_with(&reader(paths, ""), &json!({ "answer": "a", "sources": items }))?;
    Ok(reply.passages.expect("the system returns passages"))
}

#[test]
fn an_answer_is_a_text_and_may_be_empty() {
    let read = |answer: &Value| read_with(&reader(&json!({}), ""), &json!({ "answer": answer, "sources": [] }));
    assert_eq!(read(&json!("Ada")).expect("a reply").answer.as_deref(), Some("Ada"));
    assert_eq!(read(&json!("")).expect("a reply").answer.as_deref(), Some(""), "a refusal to answer is an answer");
    for (answer, kind) in [(json!(null), "null"), (json!(7), "a number"), (json!(true), "a boolean")] {
        assert_eq!(
            read(&answer).expect_err("no text"),
            format!(
                "[systems.app] sent an answer that cannot be read: `answer` is {kind}, and not a text: correct `answer` \
                 under [systems.app]"
            )
        );
    }
    let missing = read_with(&reader(&json!({}), ""), &json!({ "output": "x", "docs": [] })).expect_err("no answer");
    assert!(missing.contains("it has `output`, `docs`: set `answer = \"output\"` under [systems.app]"), "{missing}");
}

#[test]
fn passages_are_texts_or_objects_with_paths() {
    let paths = json!({
        "text": "content", "document": "meta.source", "start": "meta.from", "end": "meta.to", "page": "meta.page",
        "id": "id", "score": "score"
    });
    let items = json!([
        "plain",
        { "content": "full", "meta": { "source": "a.pdf", "from": 10, "to": "20", "page": 3 }, "id": 7, "score": 0.5 },
        { "content": "", "meta": { "source": 12, "from": -1, "to": 2.5, "page": "4" }, "score": "0.25" },
        { "content": "bare", "meta": null, "score": null },
    ]);
    let named = |text: &str| ReplyPassage { text: text.to_owned(), ..ReplyPassage::default() };
    let expected = [
        named("plain"),
        ReplyPassage {
            document: Some("a.pdf".to_owned()),
            start: Some(10),
            end: Some(20),
            page: Some(3),
            id: Some("7".to_owned()),
            score: Some(0.5),
            ..named("full")
        },
        ReplyPassage { document: Some("12".to_owned()), page: Some(4), score: Some(0.25), ..named("") },
        named("bare"),
    ];
    assert_eq!(passages(&paths, &items), Ok(expected.into()));
    assert_eq!(passages(&json!({}), &json!([])), Ok(Vec::new()), "it found nothing");
    let ids = passages(&json!({ "text": "", "id": "id" }), &json!([{ "id": "x", "text": "kept out" }]));
    assert_eq!(ids, Ok(vec![ReplyPassage { id: Some("x".to_owned()), ..ReplyPassage::default() }]));
}

#[test]
fn a_passage_that_cannot_be_read_is_named_by_its_position() {
    let refusal = |items: Value| passages(&json!({ "document": "source" }), &items).expect_err("a refusal");
    assert!(
        refusal(json!(["a", 5])).contains("passage 2 of `sources`: it is a number, and neither a text nor an object")
    );
    let renamed = refusal(json!([{ "text": "a" }, { "page_content": "b" }]));
    assert!(
        renamed.contains(
            "passage 2 of `sources`: `text` is not in the reply; it has `page_content`: set `passage.text \
                          = \"page_content\"`"
        ),
        "{renamed}"
    );
    assert!(refusal(json!([{ "text": null }])).contains("passage 1 of `sources`: `text` is null"));
    assert!(refusal(json!([{ "text": "a", "source": { "x": 1 } }])).contains("`passage.document` leads to an object"));
    let no_list = refusal(json!({ "0": "a" }));
    assert!(no_list.contains("`sources` is an object, and not a list; it has `0`"), "{no_list}");
    assert!(refusal(Value::Null).contains("`sources` is null, and not a list"));
    let missing = read_with(&reader(&json!({}), ""), &json!({ "answer": "a", "docs": ["x"] })).expect_err("no list");
    assert!(missing.contains("set `passages = \"docs\"` under [systems.app]"), "{missing}");
}

#[test]
fn a_reply_to_another_question_is_an_error() {
    let read = |echo: Value| {
        let reply = json!({ "answer": "a", "sources": [], "query": echo });
        read_with(&reader(&json!({}), "query"), &reply)
    };
    assert!(read(json!("Who is Ada?")).is_ok());
    assert!(read(json!("  Who is\tAda?\n")).is_ok(), "whitespace makes no other question");
    let other = read(json!("Who is Bob?")).expect_err("another question");
    assert!(other.contains("it replied to another question: `query` is “Who is Bob?”, but “Who is Ada?” was asked"));
    assert!(read(json!("who is ada?")).is_err());
    assert!(read(Value::Null).expect_err("no echo").contains("`query` is null"));
}

#[test]
fn the_trace_of_a_reply_is_kept_if_it_is_there() {
    let read = |reply: Value| read_with(&reader(&json!({}), ""), &reply).expect("a reply").trace;
    let with = |trace: Value| json!({ "answer": "a", "sources": [], "meta": { "trace": trace } });
    assert_eq!(read(with(json!("t-1"))).as_deref(), Some("t-1"));
    assert_eq!(read(with(json!(17))).as_deref(), Some("17"));
    assert_eq!(read(with(json!({}))), None);
    assert_eq!(read(json!({ "answer": "a", "sources": [] })), None);
}

#[test]
fn settings_of_paths_are_checked_at_once() {
    let passage = PassagePaths::default();
    let settings = ReplySettings { answer: "answer", passages: "", passage: &passage, trace: "", question: "" };
    let refusal = |settings: &ReplySettings<'_>| ReplyReader::new(settings).expect_err("a refusal");
    assert!(ReplyReader::new(&settings).is_ok());
    assert!(refusal(&ReplySettings { answer: "a..b", ..settings }).starts_with("`answer`: `a..b` is no path"));
    assert!(refusal(&ReplySettings { answer: "", ..settings }).contains("are both empty"));
    let passage = PassagePaths { page: Some("[".to_owned()), ..PassagePaths::default() };
    assert!(refusal(&ReplySettings { passage: &passage, ..settings }).starts_with("`passage.page`: "));
}

fn usage(paths: &Value, price: SystemPrice, reply: &Value) -> StatedUsage {
    let paths: UsagePaths = serde_json::from_value(paths.clone()).expect("paths of the usage");
    UsageReader::new(&paths, price).expect("a reader").read(reply)
}

#[test]
fn numbers_that_no_call_can_have_are_unknown() {
    let paths = json!({ "prompt_tokens": "in", "completion_tokens": "out", "cost_usd": "cost" });
    let read = |input: Value, output: Value, cost: Value| {
        let stated = usage(&paths, SystemPrice::default(), &json!({ "in": input, "out": output, "cost": cost }));
        (stated.tokens.map(|tokens| (tokens.prompt_tokens, tokens.completion_tokens)), stated.cost_usd)
    };
    assert_eq!(read(json!(100), json!("20"), json!(0.01)), (Some((100, 20)), Some(0.01)));
    assert_eq!(read(json!(0), json!(20.0), json!(0)), (Some((0, 20)), Some(0.0)));
    for wrong in [json!(-1), json!(1.5), json!("NaN"), json!(1e12), json!(null), json!([1])] {
        assert_eq!(read(wrong, json!(20), json!(0.01)), (None, Some(0.01)));
    }
    for wrong in [json!(-0.1), json!("NaN"), json!("inf"), json!(1e9), json!(null), json!({})] {
        assert_eq!(read(json!(1), json!(2), wrong), (Some((1, 2)), None));
    }
    assert_eq!(usage(&json!({}), SystemPrice::default(), &json!({ "in": 1 })), StatedUsage::default());
}

#[test]
fn prices_make_a_cost_unless_the_reply_states_one() {
    let paths = json!({ "prompt_tokens": "in", "completion_tokens": "out", "cost_usd": "cost" });
    let call = SystemPrice { call: Some(0.25), ..SystemPrice::default() };
    let tokens = SystemPrice { input: Some(1.0), output: Some(10.0), ..SystemPrice::default() };
    let cost = |price, reply: &Value| usage(&paths, price, reply).cost_usd;
    let counted = json!({ "in": 1_000_000, "out": 100_000 });
    assert_eq!(cost(call, &json!({})), Some(0.25));
    assert_eq!(cost(tokens, &counted), Some(2.0));
    assert_eq!(cost(SystemPrice { call: Some(0.25), ..tokens }, &counted), Some(2.25));
    assert_eq!(cost(tokens, &json!({ "in": 5 })), None, "tokens that are not counted have no price");
    assert_eq!(cost(tokens, &json!({ "in": 1, "out": 1, "cost": 0.5 })), Some(0.5));
    let wrong = SystemPrice { call: Some(f64::NAN), ..SystemPrice::default() };
    assert!(UsageReader::new(&UsagePaths::default(), wrong).expect_err("a refusal").contains("`price.call`"));
    let uncounted = UsageReader::new(&UsagePaths::default(), tokens).expect_err("a refusal");
    assert!(uncounted.contains("set `usage.prompt_tokens`, or `price.call`"), "{uncounted}");
}
