//! The common form of a reply, in which functions and programs reply: a text, or a table with `answer`, `passages`,
//! `usage`, `trace` and `version`.

use super::{ReplyPassage, SystemPrice, SystemReply};
use models::{StatedUsage, Usage};
use serde_json::{Map, Value};

const FIELDS: [&str; 5] = ["answer", "passages", "usage", "trace", "version"];
const PASSAGE_FIELDS: [&str; 7] = ["text", "document", "start", "end", "page", "id", "score"];
const USAGE_FIELDS: [&str; 3] = ["prompt_tokens", "completion_tokens", "cost_usd"];
/// No system reads or writes more tokens for one question; a larger count is unknown.
const MAX_TOKENS: u64 = 1_000_000_000;

/// Why a reply cannot be used. The text names the position and the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum ReplyMistake {
    #[error("the reply is {0}: it must be a text, or a table with `answer`, `passages`, or both")]
    NoReply(String),
    #[error("the reply has neither `answer` nor `passages`{0}")]
    Nothing(String),
    #[error("`{place}` has no field `{field}`; the fields are {known}")]
    UnknownField { place: String, field: String, known: String },
    #[error("`{place}` is {found}: {wanted} is wanted")]
    WrongType { place: String, found: String, wanted: &'static str },
    #[error("`{place}` has no `text`, and neither `document` nor `id`")]
    EmptyPassage { place: String },
    #[error("`{place}` begins at {start} and ends at {end}, which is before that")]
    Backwards { place: String, start: u64, end: u64 },
}

/// Reads a reply in the common form. A field that is null counts as missing.
///
/// # Errors
/// A field that is not in the common form, or neither an answer nor passages.
pub fn read_reply(body: &Value, price: Option<&SystemPrice>) -> Result<SystemReply, ReplyMistake> {
    let fields = match body {
        Value::String(answer) => {
            let usage = usage_of_reply(body, price);
            return Ok(SystemReply { answer: Some(answer.clone()), usage, ..SystemReply::default() });
        }
        Value::Object(fields) => fields,
        other => return Err(ReplyMistake::NoReply(describe(other))),
    };
    check_fields(fields, "reply", &FIELDS)?;
    if let Some(usage) = present(fields, "usage") {
        check_usage(usage)?;
    }
    let passages = present(fields, "passages").map(read_passages).transpose()?;
    let answer = text(fields, "answer", "answer")?;
    if answer.is_none() && passages.is_none() {
        let names = fields.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { names } else { format!("; it has {names}, and what is null is missing") };
        return Err(ReplyMistake::Nothing(names));
    }
    Ok(SystemReply {
        answer,
        passages,
        usage: usage_of_reply(body, price),
        trace: name(fields, "trace", "trace")?,
        version: name(fields, "version", "version")?,
    })
}

/// What a reply in the common form says that it cost, else what the price gives. A number that is negative or no
/// number is unknown.
pub fn usage_of_reply(body: &Value, price: Option<&SystemPrice>) -> StatedUsage {
    let usage = body.get("usage");
    let count = |name| usage?.get(name)?.as_u64().filter(|count| *count <= MAX_TOKENS);
    let tokens = count("prompt_tokens")
        .zip(count("completion_tokens"))
        .map(|(prompt_tokens, completion_tokens)| Usage { prompt_tokens, completion_tokens, ..Usage::default() });
    let stated = usage.and_then(|usage| usage.get("cost_usd")?.as_f64());
    let stated = stated.filter(|cost| cost.is_finite() && *cost >= 0.0);
    StatedUsage { tokens, cost_usd: stated.or_else(|| price?.cost_usd(tokens)) }
}

fn read_passages(passages: &Value) -> Result<Vec<ReplyPassage>, ReplyMistake> {
    let Value::Array(passages) = passages else { return Err(wrong("passages", passages, "a list")) };
    passages.iter().enumerate().map(|(position, passage)| read_passage(passage, position)).collect()
}

fn read_passage(passage: &Value, position: usize) -> Result<ReplyPassage, ReplyMistake> {
    let place = format!("passages[{position}]");
    let fields = match passage {
        Value::String(text) => return Ok(ReplyPassage { text: text.clone(), ..ReplyPassage::default() }),
        Value::Object(fields) => fields,
        other => return Err(wrong(&place, other, "a text, or a table with `text`,")),
    };
    check_fields(fields, &place, &PASSAGE_FIELDS)?;
    let at = |name: &str| format!("{place}.{name}");
    let number = |name: &str| match present(fields, name) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| wrong(&at(name), value, "a whole number from 0")),
    };
    let page = match present(fields, "page") {
        None => None,
        Some(value) => {
            let page = value.as_u64().and_then(|page| u32::try_from(page).ok()).filter(|page| *page > 0);
            Some(page.ok_or_else(|| wrong(&at("page"), value, "the number of a page from 1"))?)
        }
    };
    let score = match present(fields, "score") {
        None => None,
        Some(value) => Some(value.as_f64().ok_or_else(|| wrong(&at("score"), value, "a number"))?),
    };
    let read = ReplyPassage {
        text: text(fields, "text", &at("text"))?.unwrap_or_default(),
        document: text(fields, "document", &at("document"))?,
        start: number("start")?,
        end: number("end")?,
        page,
        id: name(fields, "id", &at("id"))?,
        score,
    };
    if let (Some(start), Some(end)) = (read.start, read.end)
        && end < start
    {
        return Err(ReplyMistake::Backwards { place, start, end });
    }
    let is_empty = read.text.is_empty() && read.document.is_none() && read.id.is_none();
    if is_empty { Err(ReplyMistake::EmptyPassage { place }) } else { Ok(read) }
}

/// Other fields than the known ones are left out, because providers add theirs, but one of the known ones must be
/// there.
fn check_usage(usage: &Value) -> Result<(), ReplyMistake> {
    let Value::Object(fields) = usage else { return Err(wrong("usage", usage, "a table")) };
    match fields.is_empty() || USAGE_FIELDS.iter().any(|name| fields.contains_key(*name)) {
        true => Ok(()),
        false => check_fields(fields, "usage", &USAGE_FIELDS),
    }
}

fn check_fields(fields: &Map<String, Value>, place: &str, known: &[&str]) -> Result<(), ReplyMistake> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(field) => {
            let (place, field, known) = (place.to_owned(), field.clone(), known.join(", "));
            Err(ReplyMistake::UnknownField { place, field, known })
        }
    }
}

fn present<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn text(fields: &Map<String, Value>, name: &str, place: &str) -> Result<Option<String>, ReplyMistake> {
    match present(fields, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(place, other, "a text")),
    }
}

/// A name, which may also be written as a number.
fn name(fields: &Map<String, Value>, name: &str, place: &str) -> Result<Option<String>, ReplyMistake> {
    match present(fields, name) {
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        _ => text(fields, name, place),
    }
}

fn wrong(place: &str, found: &Value, wanted: &'static str) -> ReplyMistake {
    ReplyMistake::WrongType { place: place.to_owned(), found: describe(found), wanted }
}

/// A value in a few words.
fn describe(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(fields) => {
            let names = fields.keys().take(5).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            format!("a table with {}", if names.is_empty() { "nothing" } else { &names })
        }
        Value::String(text) => format!("the text “{}”", crate::lines::beginning(text)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &Value) -> Result<SystemReply, ReplyMistake> {
        read_reply(body, None)
    }

    #[test]
    fn a_whole_reply_is_read() {
        let body = json!({
            "answer": "Löwen 🦁", "trace": 17, "version": "2",
            "passages": ["plain", { "text": "t", "document": "a.md", "start": 3, "end": 9, "page": 2, "id": 4, "score": 0.5 },
                { "document": "b.md", "text": null }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 2, "cost_usd": 0.01, "total_tokens": 9 },
        });
        let reply = read(&body).unwrap();
        assert_eq!((reply.answer.as_deref(), reply.trace.as_deref()), (Some("Löwen 🦁"), Some("17")));
        let passages = reply.passages.unwrap();
        assert_eq!((passages[0].text.as_str(), passages[2].document.as_deref()), ("plain", Some("b.md")));
        let second = ReplyPassage {
            text: "t".to_owned(),
            document: Some("a.md".to_owned()),
            start: Some(3),
            end: Some(9),
            page: Some(2),
            id: Some("4".to_owned()),
            score: Some(0.5),
        };
        assert_eq!(passages[1], second);
        assert_eq!((reply.usage.tokens.unwrap().total(), reply.usage.cost_usd), (9, Some(0.01)));
        assert_eq!(read(&json!("just text")).unwrap().answer.as_deref(), Some("just text"));
    }

    #[test]
    fn an_empty_answer_is_one_and_no_passages_are_another_thing_than_an_empty_list() {
        let declined = read(&json!({ "answer": "" })).unwrap();
        assert_eq!((declined.answer.as_deref(), declined.passages), (Some(""), None));
        let nothing_found = read(&json!({ "answer": null, "passages": [] })).unwrap();
        assert_eq!((nothing_found.answer, nothing_found.passages), (None, Some(Vec::new())));
    }

    #[test]
    fn a_mistake_is_named_by_its_position_and_field() {
        for (body, expected) in [
            (json!(null), "the reply is null: it must be a text"),
            (json!({}), "has neither `answer` nor `passages`"),
            (json!({ "answer": null }), "it has `answer`, and what is null is missing"),
            (json!({ "answer": 5 }), "`answer` is 5: a text is wanted"),
            (
                json!({ "answer": "a", "sources": [] }),
                "`reply` has no field `sources`; the fields are answer, passages",
            ),
            (json!({ "passages": "text" }), "`passages` is the text “text”: a list is wanted"),
            (json!({ "passages": ["a", 5] }), "`passages[1]` is 5: a text"),
            (json!({ "passages": [{ "txt": "a" }] }), "`passages[0]` has no field `txt`"),
            (json!({ "passages": ["a", { "text": "b", "page": "iv" }] }), "`passages[1].page` is the text “iv”"),
            (json!({ "passages": [{ "text": "b", "page": 0 }] }), "the number of a page from 1"),
            (json!({ "passages": [{ "text": "b", "start": -1 }] }), "`passages[0].start` is -1"),
            (json!({ "passages": [{ "text": "b", "start": 5, "end": 2 }] }), "begins at 5 and ends at 2"),
            (json!({ "passages": [{ "score": 1.0 }] }), "`passages[0]` has no `text`"),
            (
                json!({ "answer": "a", "usage": { "tokens": 5 } }),
                "`usage` has no field `tokens`; the fields are prompt",
            ),
            (json!({ "answer": "a", "trace": [1] }), "`trace` is a list of 1"),
        ] {
            let mistake = read(&body).unwrap_err().to_string();
            assert!(mistake.contains(expected), "{body}: {mistake}");
        }
    }

    #[test]
    fn what_a_reply_does_not_state_is_unknown_and_not_nothing() {
        let usage = |usage: Value, price: Option<SystemPrice>| {
            usage_of_reply(&json!({ "answer": "a", "usage": usage }), price.as_ref())
        };
        assert_eq!(usage(json!(null), None), StatedUsage::default());
        assert_eq!(
            usage(json!({ "cost_usd": -1.0, "prompt_tokens": -3, "completion_tokens": 1 }), None).cost_usd,
            None
        );
        assert_eq!(usage(json!({ "prompt_tokens": 3 }), None).tokens, None);
        let per_call = SystemPrice { call: Some(0.002), ..SystemPrice::default() };
        assert_eq!(usage(json!(null), Some(per_call)).cost_usd, Some(0.002));
        assert_eq!(usage(json!({ "cost_usd": 0.5 }), Some(per_call)).cost_usd, Some(0.5), "a reply knows best");
        let per_token = SystemPrice { call: None, input: Some(1.0), output: Some(2.0) };
        assert_eq!(usage(json!(null), Some(per_token)).cost_usd, None);
        let tokens = json!({ "prompt_tokens": 1_000_000, "completion_tokens": 500_000 });
        assert_eq!(usage(tokens, Some(per_token)).cost_usd, Some(2.0));
    }
}
