//! Chat models: requests, answers, and the trait.

use super::{BatchEndpoint, Error, FunctionError, Model, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// The person, or the program, that asks.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its author.
    pub role: Role,
    /// Its text.
    pub content: String,
}

impl Message {
    /// A message with instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self { role: Role::System, content: content.into() }
    }

    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// A message of the model: an example of how to answer.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// One request to a chat model. Equal requests have equal call keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The conversation so far. Put what many requests share first: a local
    /// model computes a shared prefix once.
    pub messages: Vec<Message>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f32,
    /// The share of probability to sample from, in (0, 1].
    pub top_p: f32,
    /// Makes sampling repeatable where the model offers it.
    pub seed: u64,
    /// The answer ends before the first of these.
    pub stop: Vec<String>,
    /// The JSON Schema that the answer must match.
    pub schema: Option<serde_json::Value>,
    /// Ask only for the probabilities of these answers (such as `Yes` and
    /// `No`) as the beginning of the reply; see [`ChatResponse::choices`].
    pub choices: Vec<String>,
}

impl ChatRequest {
    /// A greedy request with no schema and no stop.
    pub fn new(messages: Vec<Message>, max_tokens: u32) -> Self {
        Self {
            messages,
            max_tokens,
            temperature: 0.0,
            top_p: 1.0,
            seed: 0,
            stop: Vec::new(),
            schema: None,
            choices: Vec::new(),
        }
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The answer was complete, or it met a stop text.
    #[default]
    Stop,
    /// The answer met the token limit.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
}

impl Finish {
    /// Whether the answer was complete.
    pub fn is_stop(&self) -> bool {
        *self == Self::Stop
    }

    /// Its name in OpenAI's API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// A chat model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// What it said.
    pub text: String,
    /// Why it stopped.
    pub finish: Finish,
    /// What it cost in tokens.
    pub usage: Usage,
    /// For each of [`ChatRequest::choices`] its probability as the beginning of
    /// the reply, normalised over the choices. Empty if no choices were asked
    /// for, or if the model does not offer probabilities.
    pub choices: Vec<f64>,
    /// From request to answer, in seconds; of a model in this process, without
    /// the time in its queue. An answer from the journal keeps the
    /// time of the call that was paid.
    pub seconds: f64,
}

/// A model that answers. Calls may overlap: an in-process model computes
/// overlapping calls side by side.
#[async_trait]
pub trait ChatModel: Model {
    /// Prompt and answer together, in tokens.
    fn context_length(&self) -> usize;
    /// How many tokens a text is, by the model's own tokenizer. An estimate
    /// ([`estimate_tokens`](crate::estimate_tokens)) if the tokenizer is not known.
    fn count_tokens(&self, text: &str) -> usize;
    /// Price per million tokens, in dollars: (input, output).
    fn price(&self) -> (f64, f64) {
        (0.0, 0.0)
    }
    /// Where the model's calls can be sent in batches; none if its settings do not ask for that.
    fn batches(&self) -> Option<Arc<dyn BatchEndpoint>> {
        None
    }
    /// A request as it is sent in a batch.
    fn batch_body(&self, _request: &ChatRequest) -> Value {
        Value::Null
    }
    /// Reads the answer to a request that was sent in a batch.
    fn read_batched(&self, _request: &ChatRequest, _answer: &Value) -> Result<ChatResponse, Error> {
        Err(Error::Unsupported { model: self.identity().model.clone(), what: "batches" })
    }
    /// Answers one request.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error>;
    /// Whether replies may hold the probabilities of a request's choices. If they
    /// never do, a request for them would waste money.
    fn tells_probabilities(&self) -> bool {
        true
    }
    /// If the model is a function of this program (see `remote/functions.rs`): an error that names the function,
    /// still without a message. A caller that rejects a reply adds what was wrong with it. None for every other
    /// model.
    fn function_error(&self) -> Option<FunctionError> {
        None
    }
    /// A lock for callers whose calls share a long beginning, such as the contextual enrichment of one
    /// document's chunks. They take it with [`Chat::turn`](crate::Chat::turn), one caller at a time: a model in
    /// this process keeps few computed prompts, and two callers would push out each other's. None for a
    /// model at an endpoint.
    fn turns(&self) -> Option<&Arc<Semaphore>> {
        None
    }
    /// Answers one request, and hands the text out while it is written. The
    /// response is the same as that of [`ChatModel::chat`], and the pieces
    /// together are its text; the pieces of a failed call are void. A model
    /// that cannot stream hands all of the text out at the end.
    async fn chat_streaming(&self, request: &ChatRequest, on_piece: &OnPiece) -> Result<ChatResponse, Error> {
        let response = self.chat(request).await?;
        on_piece(&response.text);
        Ok(response)
    }
    /// [`ChatModel::chat_streaming`] of a model that may restart its answer: the pieces before a call of
    /// `on_restart` are void. Only one model restarts: the one in `lab` that passes requests on to another
    /// process, which holds this part of a trial.
    async fn chat_with_restarts(
        &self,
        request: &ChatRequest,
        on_piece: &OnPiece,
        _on_restart: &OnRestart,
    ) -> Result<ChatResponse, Error> {
        self.chat_streaming(request, on_piece).await
    }
}

/// Takes the pieces of an answer while it is written, in order. Called by
/// whichever thread writes, so it must be quick.
pub type OnPiece = Arc<dyn Fn(&str) + Send + Sync>;
/// Called when all pieces so far are void.
pub type OnRestart = Arc<dyn Fn() + Send + Sync>;
