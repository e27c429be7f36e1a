//! `/v1/chat/completions`: the answer is a function of the whole request, so that any
//! change of it changes the answer. `stop`, `temperature`, tools and images are accepted
//! but not obeyed.

use crate::{
    SimulatorSettings,
    reply::{CREATED, ReplyContent, ReplyUsage, RequestError, SimulatedReply, estimated_tokens, number, word},
    schema,
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

/// The most alternatives that OpenAI gives for a token.
const MOST_ALTERNATIVES: usize = 20;
const MOST_CHOICES: u64 = 128;

#[derive(Deserialize)]
struct ChatBody {
    model: String,
    messages: Vec<ChatBodyMessage>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    n: Option<u64>,
    stream: Option<bool>,
    stream_options: Option<RequestedStream>,
    response_format: Option<RequestedFormat>,
    logprobs: Option<bool>,
    top_logprobs: Option<usize>,
}

#[derive(Deserialize)]
struct ChatBodyMessage {
    #[serde(default)]
    content: Value,
}

#[derive(Deserialize)]
struct RequestedStream {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RequestedFormat {
    Text,
    JsonObject,
    JsonSchema { json_schema: JsonSchema },
}

#[derive(Deserialize)]
struct JsonSchema {
    schema: Value,
}

/// One choice of an answer.
struct CompletionChoice {
    tokens: Vec<String>,
    finish: &'static str,
}

pub(crate) fn reply(
    body: &[u8],
    fingerprint: u128,
    settings: &SimulatorSettings,
) -> Result<SimulatedReply, RequestError> {
    let request: ChatBody = serde_json::from_slice(body)?;
    if request.messages.is_empty() {
        return Err(RequestError::parameter("messages", "at least one message is needed"));
    }
    let n_choices = request.n.unwrap_or(1);
    if !(1..=MOST_CHOICES).contains(&n_choices) {
        return Err(RequestError::parameter("n", format!("it must be from 1 to {MOST_CHOICES}")));
    }
    let choices: Vec<CompletionChoice> =
        (0..n_choices).map(|index| choice(&request, fingerprint.wrapping_add(u128::from(index)), settings)).collect();
    let usage = ReplyUsage {
        prompt_tokens: request.messages.iter().map(|message| 4 + prompt_tokens(&message.content)).sum(),
        completion_tokens: choices.iter().map(|choice| choice.tokens.len() as u64).sum(),
    };
    let content = if request.stream == Some(true) {
        ReplyContent::Events(events(&request, fingerprint, &choices, usage))
    } else {
        ReplyContent::Json(whole(&request, fingerprint, &choices, usage))
    };
    Ok(SimulatedReply { content, usage })
}

fn prompt_tokens(content: &Value) -> u64 {
    match content {
        Value::String(text) => estimated_tokens(text),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).map(estimated_tokens).sum(),
        _ => 0,
    }
}

fn choice(request: &ChatBody, fingerprint: u128, settings: &SimulatorSettings) -> CompletionChoice {
    let allowed = request.max_completion_tokens.or(request.max_tokens).unwrap_or(u64::MAX);
    let text = match &request.response_format {
        None | Some(RequestedFormat::Text) => {
            let n_words = settings.answer_tokens.min(allowed);
            let token = |n| if n == 0 { word(fingerprint, n).to_owned() } else { format!(" {}", word(fingerprint, n)) };
            let finish = if n_words < settings.answer_tokens { "length" } else { "stop" };
            return CompletionChoice { tokens: (0..n_words).map(token).collect(), finish };
        }
        Some(RequestedFormat::JsonObject) => json!({ "answer": word(fingerprint, 0) }).to_string(),
        Some(RequestedFormat::JsonSchema { json_schema }) => {
            schema::instance(&json_schema.schema, fingerprint).to_string()
        }
    };
    let mut tokens: Vec<String> = Vec::new();
    for (i, character) in text.chars().enumerate() {
        if i.is_multiple_of(4) {
            tokens.push(String::new());
        }
        if let Some(token) = tokens.last_mut() {
            token.push(character);
        }
    }
    let finish = if tokens.len() as u64 > allowed { "length" } else { "stop" };
    tokens.truncate(usize::try_from(allowed).unwrap_or(usize::MAX));
    CompletionChoice { tokens, finish }
}

fn id(fingerprint: u128) -> String {
    format!("chatcmpl-{fingerprint:032x}")
}

fn usage_json(usage: ReplyUsage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": 0 },
    })
}

/// A token and its alternatives, each half as probable as the one before.
fn logprob(request: &ChatBody, fingerprint: u128, position: u64, token: &str) -> Value {
    let entry = |token: &str, rank: i32| json!({ "token": token, "logprob": f64::from(rank + 1) * 0.5f64.ln(), "bytes": token.as_bytes() });
    let judgement = if number(fingerprint, 0).is_multiple_of(2) { ["Yes", "No"] } else { ["No", "Yes"] };
    let words = (0..).map(|n| word(fingerprint.rotate_left(64), position.wrapping_add(n)));
    let mut alternatives: Vec<&str> = vec![token];
    // Up to 200 words, which is enough to find different ones.
    for other in judgement.into_iter().chain(words.take(200)) {
        if !alternatives.contains(&other) {
            alternatives.push(other);
        }
    }
    let wanted = request.top_logprobs.unwrap_or_default().min(MOST_ALTERNATIVES);
    let top: Vec<Value> = alternatives.iter().zip(0..).take(wanted).map(|(token, rank)| entry(token, rank)).collect();
    let mut chosen = entry(token, 0);
    chosen["top_logprobs"] = json!(top);
    chosen
}

fn logprobs(request: &ChatBody, fingerprint: u128, first: u64, tokens: &[String]) -> Value {
    if request.logprobs != Some(true) {
        return Value::Null;
    }
    let tokens = tokens.iter().zip(first..).map(|(token, position)| logprob(request, fingerprint, position, token));
    json!({ "content": tokens.collect::<Vec<_>>(), "refusal": null })
}

fn whole(request: &ChatBody, fingerprint: u128, choices: &[CompletionChoice], usage: ReplyUsage) -> Bytes {
    let choices: Vec<Value> = choices
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            json!({
                "index": index,
                "message": { "role": "assistant", "content": choice.tokens.concat(), "refusal": null },
                "logprobs": logprobs(request, fingerprint, 0, &choice.tokens),
                "finish_reason": choice.finish,
            })
        })
        .collect();
    let answer = json!({
        "id": id(fingerprint),
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": choices,
        "usage": usage_json(usage),
        "system_fingerprint": null,
    });
    answer.to_string().into()
}

fn events(request: &ChatBody, fingerprint: u128, choices: &[CompletionChoice], usage: ReplyUsage) -> Vec<Bytes> {
    let include_usage = request.stream_options.as_ref().is_some_and(|options| options.include_usage);
    let event = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": id(fingerprint),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": request.model,
            "choices": choices,
            "system_fingerprint": null,
        });
        if include_usage {
            chunk["usage"] = usage;
        }
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let mut events = Vec::new();
    for (index, choice) in choices.iter().enumerate() {
        let mut push = |delta: Value, logprobs: Value, finish: Value| {
            let part = json!([{ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish }]);
            events.push(event(part, Value::Null));
        };
        push(json!({ "role": "assistant", "content": "" }), Value::Null, Value::Null);
        for (token, position) in choice.tokens.iter().zip(0..) {
            let logprobs = logprobs(request, fingerprint, position, std::slice::from_ref(token));
            push(json!({ "content": token }), logprobs, Value::Null);
        }
        push(json!({}), Value::Null, json!(choice.finish));
    }
    if include_usage {
        events.push(event(json!([]), usage_json(usage)));
    }
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::fingerprint;

    fn answer(body: &Value) -> (Value, ReplyUsage) {
        let body = body.to_string();
        let reply =
            reply(body.as_bytes(), fingerprint(body.as_bytes()), &SimulatorSettings::default()).expect("an answer");
        let ReplyContent::Json(bytes) = reply.content else { panic!("not a stream") };
        (serde_json::from_slice(&bytes).expect("JSON"), reply.usage)
    }

    fn request(question: &str) -> Value {
        json!({ "model": "m", "messages": [{ "role": "user", "content": question }] })
    }

    #[test]
    fn equal_requests_have_equal_answers_and_others_have_others() {
        assert_eq!(answer(&request("why?")), answer(&request("why?")));
        let text = |question| answer(&request(question)).0["choices"][0]["message"]["content"].clone();
        assert_ne!(text("why?"), text("how?"));
    }

    #[test]
    fn tokens_are_counted_and_limited() {
        let (whole, usage) = answer(&request("12345678"));
        assert_eq!(usage, ReplyUsage { prompt_tokens: 6, completion_tokens: 32 });
        assert_eq!(whole["usage"]["total_tokens"], 38);
        assert_eq!(whole["choices"][0]["finish_reason"], "stop");
        let mut short = request("12345678");
        short["max_tokens"] = json!(3);
        let (short, usage) = answer(&short);
        assert_eq!((usage.completion_tokens, &short["choices"][0]["finish_reason"]), (3, &json!("length")));
        let text = short["choices"][0]["message"]["content"].as_str().map(|text| text.split(' ').count());
        assert_eq!(text, Some(3));
    }

    #[test]
    fn alternatives_of_a_token_are_probabilities() {
        let mut asked = request("is it?");
        asked["logprobs"] = json!(true);
        asked["top_logprobs"] = json!(20);
        let (answer, _) = answer(&asked);
        let tokens = answer["choices"][0]["logprobs"]["content"].as_array().expect("tokens");
        assert_eq!(tokens.len(), 32);
        for token in tokens {
            let top = token["top_logprobs"].as_array().expect("alternatives");
            let sum: f64 = top.iter().filter_map(|one| one["logprob"].as_f64()).map(f64::exp).sum();
            assert!(top.len() == 20 && sum <= 1.0 && sum > 0.99, "{} with a sum of {sum}", top.len());
            assert_eq!((&top[0]["token"], &top[0]["logprob"]), (&token["token"], &token["logprob"]));
            let named = |name: &str| top.iter().any(|one| one["token"] == name);
            assert!(named("Yes") && named("No"));
        }
    }

    #[test]
    fn several_choices_differ() {
        let mut asked = request("is it?");
        asked["n"] = json!(3);
        let (answer, usage) = answer(&asked);
        assert_eq!(usage.completion_tokens, 96);
        assert_ne!(answer["choices"][0]["message"], answer["choices"][2]["message"]);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for body in [&b"{"[..], b"{}", br#"{"model":"m","messages":[]}"#, br#"{"model":"m","messages":[{}],"n":0}"#] {
            assert!(reply(body, 0, &SimulatorSettings::default()).is_err());
        }
    }
}
