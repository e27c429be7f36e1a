//! OpenAI's `/v1/chat/completions`, with the differences of the providers that speak it too. If a refusal names a newer
//! part of the protocol, the request is repeated without it.

mod chunks;
mod dialect;
mod probabilities;

use super::speaker::{ChatReply, ChatTarget, Speaker, TokenCounts, decimal};
use crate::{
    ChatRequest, Error, Finish, OnPiece, locked,
    remote::http::{StreamEnd, token_count, without_refusal},
    schema, trace,
};
use async_trait::async_trait;
use chunks::ChunkAssembler;
use dialect::{Dialect, NEW_LIMIT, OLD_LIMIT};
use probabilities::probabilities;
use serde_json::{Map, Value, json};
use std::sync::Mutex;

/// The most alternatives for a token that the protocol lets us ask for.
const TOP_LOGPROBS: u32 = 20;
const PATH: &str = "chat/completions";
const SEED: &str = "seed";
/// The parameters that a request can do without.
const OPTIONAL: [&str; 11] = [
    OLD_LIMIT,
    NEW_LIMIT,
    "temperature",
    SEED,
    "top_p",
    "stop",
    "response_format",
    "logprobs",
    "top_logprobs",
    "stream",
    "stream_options",
];

/// The differences between a provider and OpenAI.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Differences {
    /// Its name for the seed.
    pub(crate) seed: &'static str,
    pub(crate) schema: SchemaForm,
    /// Whether its answers hold the probabilities of tokens.
    pub(crate) tells_probabilities: bool,
}

/// The form in which a request asks for a schema.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SchemaForm {
    /// `{"type": "json_schema", "json_schema": {"name", "strict", "schema"}}`
    JsonSchema,
    /// `{"type": "json_object", "schema"}`
    JsonObject,
}

impl Differences {
    pub(crate) const NONE: Self = Self { seed: SEED, schema: SchemaForm::JsonSchema, tells_probabilities: true };
}

/// Speaks OpenAI's protocol.
pub(super) struct OpenAi {
    differences: Differences,
    /// The dialect that the endpoint was found to accept.
    dialect: Mutex<Dialect>,
}

#[async_trait]
impl Speaker for OpenAi {
    fn tells_probabilities(&self, model: &ChatTarget<'_>) -> bool {
        self.differences.tells_probabilities && !model.omits("logprobs")
    }

    fn batch_body(&self, model: &ChatTarget<'_>, request: &ChatRequest) -> Option<Value> {
        Some(self.body(model, request, *locked(&self.dialect), false))
    }

    fn read_batched(&self, model: &ChatTarget<'_>, request: &ChatRequest, answer: &Value) -> Result<ChatReply, Error> {
        reply(model, request, answer)
    }

    async fn ask(
        &self,
        model: &ChatTarget<'_>,
        request: &ChatRequest,
        on_piece: Option<&OnPiece>,
    ) -> Result<ChatReply, Error> {
        let mut dialect = *locked(&self.dialect);
        loop {
            let streams = on_piece.filter(|_| !dialect.no_streams);
            let answer = match streams {
                Some(on_piece) => self.streamed(model, request, dialect, on_piece).await,
                None => {
                    let body = self.body(model, request, dialect, false);
                    model.endpoint.post(PATH, &body).await.map(|answer| (answer, false))
                }
            };
            let error = match answer {
                Ok((answer, is_streamed)) => {
                    let reply = reply(model, request, &answer)?;
                    if let Some(on_piece) = on_piece.filter(|_| !is_streamed) {
                        on_piece(&reply.text);
                    }
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let lesson = match &error {
                Error::Refused { message, .. } => dialect.after(message, request, streams.is_some()),
                _ => None,
            };
            let Some(lesson) = lesson else { return Err(error) };
            dialect = lesson.dialect;
            if lesson.lasts {
                let mut known = locked(&self.dialect);
                *known = known.and(dialect);
            }
        }
    }
}

impl OpenAi {
    pub(super) fn new(differences: Differences, model: &ChatTarget<'_>) -> Result<Self, Error> {
        model.omits_only(&OPTIONAL)?;
        let dialect = Dialect {
            new_limit: false,
            no_stream_options: model.omits("stream_options"),
            no_streams: model.omits("stream"),
            no_schema: model.omits("response_format"),
        };
        Ok(Self { differences, dialect: Mutex::new(dialect) })
    }

    /// Asks for a stream, and puts the chunks together to the answer that would
    /// have come without one. Also returns whether its text was handed out while it arrived.
    async fn streamed(
        &self,
        model: &ChatTarget<'_>,
        request: &ChatRequest,
        dialect: Dialect,
        on_piece: &OnPiece,
    ) -> Result<(Value, bool), Error> {
        let mut chunks = ChunkAssembler::new(on_piece, model.endpoint.redactor());
        let body = self.body(model, request, dialect, true);
        let take = |_: &str, chunk: &Value| {
            chunks.take(chunk);
            Ok(())
        };
        let ended = model.endpoint.stream(PATH, &body, take).await;
        match ended {
            Ok(StreamEnd::Whole(answer)) => return Ok((answer, false)),
            Ok(StreamEnd::Done) => {}
            Ok(_) if chunks.is_finished() => {}
            Ok(StreamEnd::Broken(error)) => return Err(error),
            Ok(StreamEnd::Closed) => return Err(model.endpoint.broken_off()),
            Err(error) if chunks.has_begun() => return Err(without_refusal(error)),
            Err(error) => return Err(error),
        }
        Ok((chunks.whole(), true))
    }

    fn body(&self, model: &ChatTarget<'_>, request: &ChatRequest, dialect: Dialect, streams: bool) -> Value {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("model", json!(model.name()));
        set("messages", json!(schema::messages(request, dialect.no_schema)));
        if !model.omits(OLD_LIMIT) {
            set(if dialect.new_limit { NEW_LIMIT } else { OLD_LIMIT }, json!(request.max_tokens));
        }
        set("temperature", json!(decimal(request.temperature)));
        if !model.omits(SEED) {
            set(self.differences.seed, json!(request.seed));
        }
        if request.top_p < 1.0 {
            set("top_p", json!(decimal(request.top_p)));
        }
        if !request.stop.is_empty() {
            set("stop", json!(request.stop));
        }
        if let Some(schema) = request.schema.as_ref().filter(|_| !dialect.no_schema) {
            let format = match self.differences.schema {
                SchemaForm::JsonSchema => {
                    let named = json!({ "name": "answer", "strict": true, "schema": schema });
                    json!({ "type": "json_schema", "json_schema": named })
                }
                SchemaForm::JsonObject => json!({ "type": "json_object", "schema": schema }),
            };
            set("response_format", format);
        }
        if !request.choices.is_empty() && self.tells_probabilities(model) {
            set("logprobs", json!(true));
            set("top_logprobs", json!(TOP_LOGPROBS));
        }
        if streams {
            set("stream", json!(true));
            if !dialect.no_stream_options {
                set("stream_options", json!({ "include_usage": true }));
            }
        }
        body.retain(|name, _| !model.omits(name));
        body.extend(model.extra.clone());
        Value::Object(body)
    }
}

fn reply(model: &ChatTarget<'_>, request: &ChatRequest, answer: &Value) -> Result<ChatReply, Error> {
    trace::record_model(answer.get("model").and_then(Value::as_str));
    let malformed = |reason: &str| model.endpoint.malformed(reason);
    let choice = answer.pointer("/choices/0").ok_or_else(|| malformed("there is no `choices[0]`"))?;
    let message = choice.get("message").ok_or_else(|| malformed("there is no `choices[0].message`"))?;
    let finish = match choice.get("finish_reason").and_then(Value::as_str) {
        // Mistral says `model_length` for a full context.
        Some("length" | "model_length") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        _ => Finish::Stop,
    };
    if let Some(refusal) = message.get("refusal").and_then(Value::as_str).filter(|refusal| !refusal.is_empty()) {
        return Err(model.endpoint.filtered(refusal));
    }
    let content = content(message);
    let calls_tool = chunks::calls_tool(message)
        || matches!(choice.get("finish_reason").and_then(Value::as_str), Some("tool_calls" | "function_call"));
    if calls_tool && content.as_deref().is_none_or(|text| text.trim().is_empty()) {
        return Err(model.endpoint.called_tool());
    }
    let text = match (content, finish) {
        (None | Some(_), Finish::ContentFilter) => {
            return Err(model.endpoint.filtered("the provider's filter stopped the answer"));
        }
        (Some(text), _) => model.endpoint.without_secrets(text),
        // All tokens were used for thinking before the first word.
        (None, Finish::Length) => String::new(),
        (None, Finish::Stop) => return Err(malformed("`choices[0].message.content` is no text")),
    };
    let choices = choice.pointer("/logprobs/content").map(|tokens| probabilities(tokens, &request.choices));
    let count = |pointer: &str| token_count(answer, pointer);
    let usage = TokenCounts {
        prompt: count("/usage/prompt_tokens"),
        cached: count("/usage/prompt_tokens_details/cached_tokens").unwrap_or_default(),
        completion: count("/usage/completion_tokens"),
    };
    Ok(ChatReply { text, finish, usage, choices: choices.unwrap_or_default() })
}

/// The text of a message: a string, or parts that hold some.
fn content(message: &Value) -> Option<String> {
    match message.get("content")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()),
        _ => None,
    }
}
