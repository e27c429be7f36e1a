//! A chat model behind any endpoint that speaks OpenAI's
//! `/v1/chat/completions`: OpenAI, vLLM, llama.cpp's server, Ollama, Ray
//! Serve LLM and most gateways.
//!
//! Use it for judges and generators that do not fit into this process. Models
//! differ in which parameters they accept; `omit` leaves some out and `extra`
//! adds others. Where an endpoint refuses a newer part of the protocol by its
//! name, it is asked without.

mod chunks;
mod dialect;
mod probabilities;

use super::{
    Context, EndpointLimits, Limits,
    http::{Ended, Endpoint, Settings, estimated_tokens},
};
use crate::{ChatModel, ChatRequest, ChatResponse, Error, Finish, Identity, OnPiece, Usage};
use async_trait::async_trait;
use chunks::Chunks;
use dialect::{Dialect, NEW_LIMIT, OLD_LIMIT};
use probabilities::probabilities;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

pub(super) const VERSION: u32 = 1;

/// The most alternatives for a token that the protocol lets us ask for.
const TOP_LOGPROBS: u32 = 20;
const PATH: &str = "chat/completions";

/// Settings of a remote chat model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The name by which the endpoint knows the model.
    pub model: String,
    /// The address up to and without `/chat/completions`.
    pub base_url: String,
    /// The name of the environment variable that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// More headers. A value `env:NAME` is read from that variable.
    pub headers: BTreeMap<String, String>,
    /// How long one answer may take, in seconds. One that is streamed may
    /// pause for so long, and take ten times as long in all.
    pub timeout_seconds: f64,
    /// How long the connection may take, in seconds.
    pub connect_timeout_seconds: f64,
    /// How many calls may be in flight at once; up to 256 if left out, as many
    /// as the endpoint shows to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// What is known of its limits; the rest is learned.
    pub limits: EndpointLimits,
    /// What tokens cost; needed where the budget caps money.
    pub price: Price,
    /// Prompt and answer together, in tokens.
    pub context_length: usize,
    /// Parameters that this model refuses, such as `temperature` or `seed`.
    pub omit: Vec<String>,
    /// More parameters of the request body, such as `reasoning_effort`.
    pub extra: Map<String, Value>,
}

/// What tokens cost, in US dollars per million.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Price {
    /// Tokens read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: String::new(),
            base_url: String::new(),
            api_key_env: None,
            headers: BTreeMap::new(),
            timeout_seconds: 120.0,
            connect_timeout_seconds: 5.0,
            concurrency: None,
            limits: EndpointLimits::default(),
            price: Price::default(),
            context_length: 32_768,
            omit: Vec::new(),
            extra: Map::new(),
        }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context) -> Result<Arc<dyn ChatModel>, Error> {
        self.limits.check(&self.model, self.concurrency)?;
        if self.context_length == 0 {
            return Err(Error::Config(format!("{}: `context_length` must be above 0", self.model)));
        }
        let is_price = |price: Option<f64>| price.is_none_or(|price| price.is_finite() && price >= 0.0);
        if !is_price(self.price.input) || !is_price(self.price.output) {
            return Err(Error::Config(format!("{}: `price` must not be below 0", self.model)));
        }
        Ok(Arc::new(Remote {
            identity: self.identity(cx)?,
            endpoint: self.settings().connect(cx)?,
            config: self.clone(),
            dialect: Mutex::default(),
        }))
    }

    pub(super) fn identity(&self, _cx: &Context) -> Result<Identity, Error> {
        Ok(Identity {
            provider: "openai".to_owned(),
            model: self.model.clone(),
            revision: self.settings().base()?,
            parameters: json!({ "kind": "chat", "version": VERSION, "omit": self.omit, "extra": self.extra }),
        })
    }

    pub(super) fn prices(&self) -> Option<(f64, f64)> {
        self.price.input.zip(self.price.output)
    }

    pub(super) async fn ready(&self, cx: &Context) -> Result<(), Error> {
        self.settings().ready(cx).await
    }

    fn settings(&self) -> Settings<'_> {
        Settings {
            model: &self.model,
            base_url: &self.base_url,
            api_key_env: self.api_key_env.as_deref(),
            headers: &self.headers,
            timeout_seconds: self.timeout_seconds,
            connect_timeout_seconds: self.connect_timeout_seconds,
        }
    }
}

struct Remote {
    identity: Identity,
    endpoint: Endpoint,
    config: Config,
    /// What it was found to take.
    dialect: Mutex<Dialect>,
}

/// What of an answer was handed out while it came.
enum Told {
    Nothing,
    All,
}

#[async_trait]
impl ChatModel for Remote {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn context_length(&self) -> usize {
        self.config.context_length
    }

    fn concurrency(&self) -> usize {
        self.limits().maximum()
    }

    fn account(&self) -> &str {
        self.config.api_key_env.as_deref().unwrap_or_default()
    }

    fn limits(&self) -> Limits {
        self.config.limits.within(self.config.concurrency)
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimated_tokens(text)
    }

    fn price(&self) -> (f64, f64) {
        let Price { input, output } = self.config.price;
        (input.unwrap_or_default(), output.unwrap_or_default())
    }

    fn rate_hints(&self) -> Option<executor::RateHints> {
        self.endpoint.hints()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        self.answer(request, None).await
    }

    async fn chat_streaming(&self, request: &ChatRequest, on_piece: &OnPiece) -> Result<ChatResponse, Error> {
        self.answer(request, Some(on_piece)).await
    }
}

impl Remote {
    async fn answer(&self, request: &ChatRequest, on_piece: Option<&OnPiece>) -> Result<ChatResponse, Error> {
        let started = Instant::now();
        let mut dialect = *self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let streams = on_piece.filter(|_| !dialect.no_streams);
            let answer = match streams {
                Some(on_piece) => self.streamed(request, dialect, on_piece).await,
                None => self.whole(request, dialect).await,
            };
            let error = match answer {
                Ok((answer, told)) => {
                    let response = self.response(request, &answer, started.elapsed().as_secs_f64())?;
                    if let (Some(on_piece), Told::Nothing) = (on_piece, told) {
                        on_piece(&response.text);
                    }
                    return Ok(response);
                }
                Err(error) => error,
            };
            let lesson = match &error {
                Error::Refused { message, .. } => dialect.after(message, request, streams.is_some()),
                _ => None,
            };
            let Some(lesson) = lesson else { return Err(self.with_counts(error, request)) };
            dialect = lesson.dialect;
            if lesson.lasts {
                let mut known = self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
                *known = known.and(dialect);
            }
        }
    }

    async fn whole(&self, request: &ChatRequest, dialect: Dialect) -> Result<(Value, Told), Error> {
        Ok((self.endpoint.post(PATH, &self.body(request, dialect, false)).await?, Told::Nothing))
    }

    /// Asks for a stream, and puts it together to the answer without one.
    async fn streamed(
        &self,
        request: &ChatRequest,
        dialect: Dialect,
        on_piece: &OnPiece,
    ) -> Result<(Value, Told), Error> {
        let mut chunks = Chunks::new(on_piece, self.endpoint.redactor());
        let body = self.body(request, dialect, true);
        let take = |_: &str, chunk: &Value| {
            chunks.take(chunk);
            Ok(())
        };
        let ended = self.endpoint.stream(PATH, &body, take).await;
        match ended {
            Ok(Ended::Whole(answer)) => return Ok((answer, Told::Nothing)),
            Ok(Ended::Done) => {}
            Ok(_) if chunks.is_finished() => {}
            Ok(Ended::Broken(error)) => return Err(error),
            Ok(Ended::Closed) => return Err(self.endpoint.broken_off()),
            // What has begun was not refused: it must not be asked in other words.
            Err(Error::Refused { endpoint, status, message }) if chunks.has_begun() => {
                return Err(Error::Server { endpoint, status, message, retry_after: None });
            }
            Err(error) => return Err(error),
        }
        Ok((chunks.whole(), Told::All))
    }

    fn body(&self, request: &ChatRequest, dialect: Dialect, streams: bool) -> Value {
        let limit = if dialect.new_limit { NEW_LIMIT } else { OLD_LIMIT };
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("model", json!(self.config.model));
        set("messages", json!(dialect.messages(request)));
        set(limit, json!(request.max_tokens));
        set("temperature", decimal(request.temperature));
        set("seed", json!(request.seed));
        if request.top_p < 1.0 {
            set("top_p", decimal(request.top_p));
        }
        if !request.stop.is_empty() {
            set("stop", json!(request.stop));
        }
        if let Some(schema) = request.schema.as_ref().filter(|_| !dialect.no_schema) {
            let format = json!({ "name": "answer", "strict": true, "schema": schema });
            set("response_format", json!({ "type": "json_schema", "json_schema": format }));
        }
        if !request.choices.is_empty() {
            set("logprobs", json!(true));
            set("top_logprobs", json!(TOP_LOGPROBS));
        }
        if streams {
            dialect.ask_for_stream(&mut body);
        }
        for name in &self.config.omit {
            body.remove(name);
        }
        body.extend(self.config.extra.clone());
        Value::Object(body)
    }

    fn response(&self, request: &ChatRequest, answer: &Value, seconds: f64) -> Result<ChatResponse, Error> {
        let malformed = |reason: &str| self.endpoint.malformed(reason);
        let choice = answer.pointer("/choices/0").ok_or_else(|| malformed("there is no `choices[0]`"))?;
        let message = choice.get("message").ok_or_else(|| malformed("there is no `choices[0].message`"))?;
        let finish = match choice.get("finish_reason").and_then(Value::as_str) {
            Some("length") => Finish::Length,
            Some("content_filter") => Finish::ContentFilter,
            _ => Finish::Stop,
        };
        if let Some(refusal) = message.get("refusal").and_then(Value::as_str).filter(|refusal| !refusal.is_empty()) {
            return Err(self.endpoint.filtered(refusal));
        }
        let text = match (content(message), finish) {
            (None | Some(_), Finish::ContentFilter) => {
                return Err(self.endpoint.filtered("the provider's filter stopped the answer"));
            }
            (Some(text), _) => self.without_secrets(&text),
            // All tokens went into thinking before the first word.
            (None, Finish::Length) => String::new(),
            (None, Finish::Stop) => return Err(malformed("`choices[0].message.content` is no text")),
        };
        let usage = self.usage(request, answer, &text);
        let choices = choice.pointer("/logprobs/content").map(|tokens| probabilities(tokens, &request.choices));
        Ok(ChatResponse { text, finish, usage, choices: choices.unwrap_or_default(), seconds })
    }

    /// In JSON a secret may be spelt in another way than in a text.
    fn without_secrets(&self, text: &str) -> String {
        let mut redactor = self.endpoint.redactor();
        redactor.push(text) + &redactor.end()
    }

    /// A server that counts nothing is counted for, so that a budget of
    /// tokens or money still holds.
    fn usage(&self, request: &ChatRequest, answer: &Value, text: &str) -> Usage {
        let count = |pointer: &str| answer.pointer(pointer).and_then(Value::as_u64);
        Usage {
            prompt_tokens: count("/usage/prompt_tokens").unwrap_or_else(|| prompt_tokens(request) as u64),
            cached_tokens: count("/usage/prompt_tokens_details/cached_tokens").unwrap_or_default(),
            completion_tokens: count("/usage/completion_tokens").unwrap_or_else(|| estimated_tokens(text) as u64),
        }
    }

    /// Fills in the counts that a refusal did not state.
    fn with_counts(&self, error: Error, request: &ChatRequest) -> Error {
        match error {
            Error::ContextTooLong { model, tokens, limit } => Error::ContextTooLong {
                model,
                tokens: if tokens > 0 { tokens } else { prompt_tokens(request) + request.max_tokens as usize },
                limit: if limit > 0 { limit } else { self.config.context_length },
            },
            other => other,
        }
    }
}

fn prompt_tokens(request: &ChatRequest) -> usize {
    // Each message is wrapped into a few tokens of the chat template.
    request.messages.iter().map(|message| estimated_tokens(&message.content) + 4).sum()
}

/// The number as a person would write it: 0.1, not 0.10000000149011612.
fn decimal(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, |number| json!(number))
}

/// The text of a message: a string, or parts that hold some.
fn content(message: &Value) -> Option<String> {
    match message.get("content")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()),
        _ => None,
    }
}

#[cfg(test)]
#[path = "chat_openai_tests.rs"]
mod tests;

#[cfg(test)]
mod stream_tests;
