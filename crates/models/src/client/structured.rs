//! Replies that must match a JSON Schema. Models in this process are held to
//! the schema token by token, and many endpoints do the same. Other models
//! write words around the JSON, add properties of their own or leave something
//! out. In all cases a caller gets JSON that matches the schema, or an error:
//! the value is searched for in the reply, and a remote model that did not
//! write a matching value is asked once more.

use crate::{
    ChatRequest, ChatResponse, Error, Finish, FunctionError, Message, schema,
    visible::{on_one_line, visible},
};
use serde_json::Value;
use std::borrow::Cow;

/// How much of a reply an error shows, in characters.
const SHOWN: usize = 200;

/// Why a reply does not hold the value that was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplyError {
    #[error("it is empty")]
    Empty,
    #[error("it is no JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("its JSON breaks off")]
    BreaksOff,
    #[error("its JSON is nested too deeply")]
    TooDeep,
    #[error("it holds several JSON values that differ")]
    Ambiguous,
    #[error(transparent)]
    Mismatch(#[from] schema::Mismatch),
    #[error("{cause} (it met its limit of {max_tokens} tokens)")]
    CutOff { max_tokens: u32, cause: Box<ReplyError> },
}

/// Replaces a response's text by the JSON value in it, if a schema asks for one.
///
/// # Errors
/// Why the reply does not match; the response is then unchanged.
pub(super) fn accept(request: &ChatRequest, response: &mut ChatResponse) -> Result<(), ReplyError> {
    let Some(wanted) = &request.schema else { return Ok(()) };
    let text = value(wanted, &response.text).map_err(|cause| match response.finish {
        Finish::Length => ReplyError::CutOff { max_tokens: request.max_tokens, cause: Box::new(cause) },
        _ => cause,
    })?;
    response.text = text.into_owned();
    Ok(())
}

/// The request that repeats the question, with the reason why the first reply did not match.
pub(super) fn correction_request(request: &ChatRequest, reply: &str, reason: &ReplyError) -> ChatRequest {
    let mut request = request.clone();
    // Some endpoints refuse a message without content.
    if !reply.trim().is_empty() {
        request.messages.push(Message::assistant(reply));
    }
    let instruction = request.schema.as_ref().map(schema::instruction).unwrap_or_default();
    request.messages.push(Message::user(format!("This reply cannot be used: {reason}. {instruction}")));
    request
}

pub(super) fn mismatch(model: &str, reason: &ReplyError, reply: &str) -> Error {
    let reason = visible(&reason.to_string()).into_owned();
    Error::SchemaMismatch { model: model.to_owned(), reason, reply: on_one_line(reply, SHOWN) }
}

/// The error for a user's function that stands for a model and returned something unusable.
/// It says what the function must return, because its author can fix it.
pub(super) fn function_mismatch(
    function: FunctionError,
    request: &ChatRequest,
    reason: &ReplyError,
    reply: &str,
) -> Error {
    let wanted = request.schema.as_ref().map(Value::to_string).unwrap_or_default();
    let reason = reason.to_string();
    let (reason, reply) = (visible(&reason), on_one_line(reply, SHOWN));
    let message = format!(
        "its return value does not match the schema: {reason}; it must return JSON, as a text or as a dictionary, \
         that matches the schema {wanted}; it returned: {reply}"
    );
    Error::Function(Box::new(FunctionError { message, ..function }))
}

/// The one JSON value in a reply that matches the schema: the whole reply, or a
/// value between words or in a code fence. Nothing is guessed: if two different
/// values match, neither is taken, and a part of a value that breaks off is not
/// taken either.
fn value<'a>(wanted: &Value, reply: &'a str) -> Result<Cow<'a, str>, ReplyError> {
    let text = reply.trim();
    let whole = match serde_json::from_str::<Value>(text) {
        Ok(value) => return Ok(fitting(wanted, value, text)?.1),
        Err(_) if text.is_empty() => return Err(ReplyError::Empty),
        Err(error) => error,
    };
    let mut found = None;
    let mut mismatch = None;
    let mut read_to = 0;
    for (start, _) in text.match_indices(['{', '[']) {
        if start < read_to {
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                read_to = start + values.byte_offset();
                match (fitting(wanted, value, &text[start..read_to]), &found) {
                    (Ok((value, _)), Some((other, _))) if *other != value => {
                        return Err(ReplyError::Ambiguous);
                    }
                    (Ok(fitting), _) => found = Some(fitting),
                    (Err(error), _) => mismatch = mismatch.or(Some(error)),
                }
            }
            Some(Err(error)) if error.is_eof() => return Err(ReplyError::BreaksOff),
            // Else the value would be read again from every bracket.
            Some(Err(error)) if error.to_string().starts_with("recursion limit") => {
                return Err(ReplyError::TooDeep);
            }
            _ => {}
        }
    }
    match (found, mismatch) {
        (Some((_, text)), _) => Ok(text),
        (None, Some(mismatch)) => Err(mismatch.into()),
        (None, None) => Err(whole.into()),
    }
}

/// A value that matches the schema, and its text. If necessary, properties that
/// were not asked for are left out.
fn fitting<'a>(wanted: &Value, value: Value, text: &'a str) -> Result<(Value, Cow<'a, str>), schema::Mismatch> {
    let Err(mismatch) = schema::check(wanted, &value) else { return Ok((value, Cow::Borrowed(text))) };
    let pruned = schema::without_extras(wanted, value);
    // The mismatch of the whole value says more.
    schema::check(wanted, &pruned).map_err(|_| mismatch)?;
    let text = Cow::Owned(pruned.to_string());
    Ok((pruned, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(reply: &str) -> Result<String, String> {
        let wanted = json!({
            "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"],
            "additionalProperties": false
        });
        value(&wanted, reply).map(Cow::into_owned).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_found_between_words_and_in_a_code_fence() {
        for reply in [
            r#"{"a": 1}"#,
            " \n{\"a\": 1}\n",
            "```json\n{\"a\": 1}\n```",
            "Sure, with {braces} and [brackets]: {\"a\": 1} That is all.",
            "First {\"b\": 2}, then {\"a\": 1}, which is {\"a\":1}.",
            r#"{"a": 1, "because": "I think so"}"#,
        ] {
            assert_eq!(found(reply).map(|text| text.replace(' ', "")), Ok(r#"{"a":1}"#.to_owned()), "{reply}");
        }
    }

    #[test]
    fn what_is_no_such_value_has_a_reason() {
        let cases = [
            ("", "it is empty"),
            (&format!("so: {}", "[".repeat(200_000)), "its JSON is nested too deeply"),
            ("I cannot do that.", "it is no JSON: expected value at line 1 column 1"),
            (r#"{"a": "1"}"#, "at /a: \"1\" is not of the type integer"),
            (r#"Here: {"a": 1.5}"#, "at /a: 1.5 is not of the type integer"),
            (r#"[{"a": 1}]"#, "[{\"a\":1}] is not of the type object"),
            (r#"{"a": 1"#, "its JSON breaks off"),
            (r#"Here: {"x": {"a": 1}, "#, "its JSON breaks off"),
            (r#"{"a": 1} or {"a": 2}"#, "it holds several JSON values that differ"),
        ];
        for (reply, reason) in cases {
            assert_eq!(found(reply), Err(reason.to_owned()), "{reply}");
        }
    }

    #[test]
    fn a_reply_that_fits_stays_as_it_is_and_one_that_was_cut_says_so() {
        let request = ChatRequest { schema: Some(json!({ "type": "integer" })), ..ChatRequest::new(Vec::new(), 7) };
        let accepted = |text: &str, finish| {
            let (text, usage) = (text.to_owned(), crate::Usage::default());
            let mut response = ChatResponse { text, finish, usage, choices: Vec::new(), seconds: 1.0 };
            accept(&request, &mut response).map(|()| response.text).map_err(|error| error.to_string())
        };
        assert_eq!(accepted("12", Finish::Length), Ok("12".to_owned()));
        let reason = accepted("-", Finish::Length).expect_err("no number");
        assert!(reason.ends_with("(it met its limit of 7 tokens)"), "{reason}");
    }

    #[test]
    fn asking_again_shows_the_reply_the_reason_and_the_schema() {
        let request = ChatRequest { schema: Some(json!({ "type": "integer" })), ..ChatRequest::new(Vec::new(), 7) };
        let again = correction_request(&request, "one", &ReplyError::BreaksOff);
        assert_eq!(again.messages[0], Message::assistant("one"));
        let asked = &again.messages[1].content;
        assert!(asked.contains("its JSON breaks off") && asked.contains(r#"{"type":"integer"}"#), "{asked}");
        assert_eq!(
            (correction_request(&request, " ", &ReplyError::Empty).messages.len(), again.schema),
            (1, request.schema)
        );
    }
}
