//! A chat model behind any endpoint that speaks OpenAI's
//! `/v1/chat/completions`: OpenAI, vLLM, llama.cpp's server, Ollama, Ray
//! Serve LLM and most gateways.
//!
//! Use it for judges and generators that do not fit into this process. Models
//! differ in which parameters they accept; `omit` leaves some out and `extra`
//! adds others.

use super::{
    http::Manner,
    remote_chat::{self, Counted, Model, Preset, Protocol, Provider, Reply, Speaker, decimal},
};
use crate::{ChatRequest, Error, Finish, Role};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const VERSION: u32 = 1;

/// Any OpenAI-compatible endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Compatible;

/// Settings of a model behind any such endpoint.
pub(super) type Config = remote_chat::Config<Compatible>;

impl Preset for Compatible {
    const PROVIDER: Provider = Provider {
        name: "openai",
        version: VERSION,
        base_url: "",
        api_key_env: None,
        context_length: 32_768,
        manner: Manner::OPENAI,
        protocol: Protocol::OpenAi(Dialect::OPENAI),
    };
}

/// The most alternatives for a token that the protocol lets us ask for.
const TOP_LOGPROBS: u32 = 20;
const OLD_LIMIT: &str = "max_tokens";
const NEW_LIMIT: &str = "max_completion_tokens";

/// In what a provider differs from OpenAI.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    /// Its name for the seed.
    pub(super) seed: &'static str,
    pub(super) schema: SchemaForm,
    /// Whether it tells the probabilities of tokens.
    pub(super) tells_probabilities: bool,
}

/// How an answer is held to a schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum SchemaForm {
    /// `{"type": "json_schema", "json_schema": {"name", "strict", "schema"}}`
    JsonSchema,
    /// `{"type": "json_object", "schema"}`
    JsonObject,
}

impl Dialect {
    pub(super) const OPENAI: Self = Self { seed: "seed", schema: SchemaForm::JsonSchema, tells_probabilities: true };
}

/// Speaks OpenAI's protocol.
pub(super) struct OpenAi {
    dialect: Dialect,
    /// Whether the endpoint said that it wants the newer name of the limit.
    takes_new_limit: AtomicBool,
}

#[async_trait]
impl Speaker for OpenAi {
    async fn ask(&self, model: &Model, request: &ChatRequest) -> Result<Reply, Error> {
        let answer = match self.post(model, request).await {
            // Newer models refuse the old name of the limit, older servers do
            // not know the new one; so the endpoint is asked once.
            Err(Error::Refused { message, .. }) if message.contains(OLD_LIMIT) && message.contains(NEW_LIMIT) => {
                self.takes_new_limit.store(true, Ordering::Relaxed);
                self.post(model, request).await
            }
            answer => answer,
        };
        reply(model, request, &answer?)
    }
}

impl OpenAi {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, takes_new_limit: AtomicBool::new(false) }
    }

    async fn post(&self, model: &Model, request: &ChatRequest) -> Result<Value, Error> {
        model.endpoint.post("chat/completions", &self.body(model, request)).await
    }

    fn body(&self, model: &Model, request: &ChatRequest) -> Value {
        let messages: Vec<Value> = request
            .messages
            .iter()
            .map(|message| {
                let role = match message.role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                json!({ "role": role, "content": message.content })
            })
            .collect();
        let limit = if self.takes_new_limit.load(Ordering::Relaxed) { NEW_LIMIT } else { OLD_LIMIT };
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("model", json!(model.name()));
        set("messages", json!(messages));
        set(limit, json!(request.max_tokens));
        set("temperature", json!(decimal(request.temperature)));
        set(self.dialect.seed, json!(request.seed));
        if request.top_p < 1.0 {
            set("top_p", json!(decimal(request.top_p)));
        }
        if !request.stop.is_empty() {
            set("stop", json!(request.stop));
        }
        if let Some(schema) = &request.schema {
            let format = match self.dialect.schema {
                SchemaForm::JsonSchema => {
                    let named = json!({ "name": "answer", "strict": true, "schema": schema });
                    json!({ "type": "json_schema", "json_schema": named })
                }
                SchemaForm::JsonObject => json!({ "type": "json_object", "schema": schema }),
            };
            set("response_format", format);
        }
        if !request.choices.is_empty() && self.dialect.tells_probabilities {
            set("logprobs", json!(true));
            set("top_logprobs", json!(TOP_LOGPROBS));
        }
        body.retain(|name, _| !model.omits(name));
        body.extend(model.extra.clone());
        Value::Object(body)
    }
}

fn reply(model: &Model, request: &ChatRequest, answer: &Value) -> Result<Reply, Error> {
    let malformed = |reason: &str| model.endpoint.malformed(reason);
    let choice = answer.pointer("/choices/0").ok_or_else(|| malformed("there is no `choices[0]`"))?;
    let message = choice.get("message").ok_or_else(|| malformed("there is no `choices[0].message`"))?;
    let finish = match choice.get("finish_reason").and_then(Value::as_str) {
        // The second is Mistral's word for a full context.
        Some("length" | "model_length") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        _ => Finish::Stop,
    };
    if let Some(refusal) = message.get("refusal").and_then(Value::as_str).filter(|refusal| !refusal.is_empty()) {
        return Err(model.endpoint.filtered(refusal));
    }
    let text = match (content(message), finish) {
        (None | Some(_), Finish::ContentFilter) => {
            return Err(model.endpoint.filtered("the provider's filter stopped the answer"));
        }
        (Some(text), _) => text,
        // All tokens went into thinking before the first word.
        (None, Finish::Length) => String::new(),
        (None, Finish::Stop) => return Err(malformed("`choices[0].message.content` is no text")),
    };
    let choices = choice.pointer("/logprobs/content").map(|tokens| probabilities(tokens, &request.choices));
    let count = |pointer: &str| answer.pointer(pointer).and_then(Value::as_u64);
    let usage = Counted {
        prompt: count("/usage/prompt_tokens"),
        cached: count("/usage/prompt_tokens_details/cached_tokens").unwrap_or_default(),
        completion: count("/usage/completion_tokens"),
    };
    Ok(Reply { text, finish, usage, choices: choices.unwrap_or_default() })
}

/// The text of a message: a string, or parts that hold some.
fn content(message: &Value) -> Option<String> {
    match message.get("content")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()),
        _ => None,
    }
}

/// How probable each choice is as the beginning of the reply, from the
/// alternatives for its first token that is not blank. A token may be the
/// beginning of a choice or go beyond it; one that fits several says nothing.
fn probabilities(tokens: &Value, choices: &[String]) -> Vec<f64> {
    let plain = |text: &str| text.trim().to_lowercase();
    let text_of = |token: &Value| token.get("token").and_then(Value::as_str).map(plain).unwrap_or_default();
    let first = tokens.as_array().and_then(|tokens| tokens.iter().find(|token| !text_of(token).is_empty()));
    let Some(alternatives) = first.and_then(|first| first.get("top_logprobs")).and_then(Value::as_array) else {
        return Vec::new();
    };
    let wanted: Vec<String> = choices.iter().map(|choice| plain(choice)).collect();
    let mut found = vec![0.0; choices.len()];
    for alternative in alternatives {
        let token = text_of(alternative);
        let Some(logprob) = alternative.get("logprob").and_then(Value::as_f64) else { continue };
        let fits =
            |choice: &String| !choice.is_empty() && (choice.starts_with(&token) || token.starts_with(choice.as_str()));
        let mut fitting = wanted.iter().enumerate().filter(|(_, choice)| fits(choice)).map(|(i, _)| i);
        if token.is_empty() {
            continue;
        }
        if let (Some(i), None) = (fitting.next(), fitting.next()) {
            found[i] += logprob.exp();
        }
    }
    let sum: f64 = found.iter().sum();
    if sum > 0.0 { found.into_iter().map(|probability| probability / sum).collect() } else { Vec::new() }
}

#[cfg(test)]
#[path = "chat_openai_tests.rs"]
mod tests;
