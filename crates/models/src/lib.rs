//! Chat, embedding and rerank models behind three traits: in this process or
//! at an endpoint. It knows nothing of documents or experiments.
//!
//! Stages never hold a model, only a handle ([`Chat`], [`Embedder`],
//! [`Reranker`]) made by a [`Client`], so that every call passes the journal,
//! the limits and the accounting.

mod catalogue;
mod client;
mod cpu;
mod error;
mod matrix;
pub mod provider;
mod pull;
mod schema;
#[doc(hidden)]
pub mod testing;
mod visible;

pub use catalogue::{Catalogue, CatalogueEntry, CatalogueFile, HubFile, Kind, Licence, Source, Wheel};
pub use client::{
    Allowance, AllowanceRequest, Allowances, Answering, Budget, BudgetReport, Cap, Caps, Chat, Client, Embedder,
    Exhausted, LeaseRequest, Lessor, Meter, ModelLimit, Piece, Reranker, Share, Spending, Spent, Unfolding,
};
pub use cpu::CpuBudget;
pub use error::{Absence, Error};
pub use matrix::Matrix;
pub use provider::{ChatConfig, EmbeddingConfig, EndpointLimits, Limits, ModelConfig, RateHints, RerankConfig};
pub use pull::{Library, ModelDirectory, ModelFiles, PullEvent, PullListener, PullOptions};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc};

/// Everything that decides what a model answers: part of every task key and
/// call key. Secrets are never part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// How the model is run: `onnx`, `llama.cpp`, `static`, `openai`, `anthropic`, …
    pub provider: String,
    /// The model's name: of the catalogue, a path, or as the endpoint knows it.
    pub model: String,
    /// The SHA-256 of the model's files, or the endpoint's base URL.
    pub revision: String,
    /// Settings that change the output (pooling, quantisation, token limit, …).
    pub parameters: serde_json::Value,
}

/// The parameter of a chat model's identity that says how long prompt and
/// answer may be together, in tokens.
pub(crate) const CONTEXT_LENGTH: &str = "context_length";
/// The parameter that says the version of the provider's code.
const VERSION: &str = "version";

impl Identity {
    /// With the version of the provider's code. The first version of what runs
    /// in this process is not written: keys were made before it was.
    pub(crate) fn of_version(mut self, version: u32) -> Self {
        if (version > 1 || self.is_remote())
            && let Some(parameters) = self.parameters.as_object_mut()
        {
            parameters.insert(VERSION.to_owned(), version.into());
        }
        self
    }

    /// What decides the answer to one request. An endpoint is not told for how
    /// long a context a prompt was packed, so it answers equal prompts alike:
    /// what was paid is found again after that setting was changed.
    pub(crate) fn of_calls(&self) -> Cow<'_, Self> {
        let is_told = !self.is_remote() || self.parameters.get(CONTEXT_LENGTH).is_none();
        if is_told {
            return Cow::Borrowed(self);
        }
        let mut identity = self.clone();
        if let Some(parameters) = identity.parameters.as_object_mut() {
            parameters.remove(CONTEXT_LENGTH);
        }
        Cow::Owned(identity)
    }

    /// Whether calls leave this process: what identifies the model is then an
    /// address, and not the contents of files.
    pub fn is_remote(&self) -> bool {
        self.revision.starts_with("http://") || self.revision.starts_with("https://")
    }
}

/// Who says a message.
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
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message with instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self { role: Role::System, content: content.into() }
    }

    /// A message of the one who asks.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had said all, or met a stop text.
    Stop,
    /// It met the token limit.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
}

/// Tokens spent by a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Of these, taken from a shared prefix that was already computed.
    pub cached_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
}

impl Usage {
    /// Tokens read and written. Counts are what a provider said, so sums of
    /// them end at the largest number instead of overflowing.
    pub fn total(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
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
    /// For each of [`ChatRequest::choices`] its probability as the beginning
    /// of the reply, normalised over the choices. Empty where none were asked
    /// for or the model does not offer probabilities.
    pub choices: Vec<f64>,
    /// From request to answer, in seconds. What was taken from the journal
    /// keeps the time of the call that was paid.
    pub seconds: f64,
}

/// What a text to embed is: some models embed a query and a document differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A question.
    Query,
    /// A passage to be found.
    Document,
}

/// A model that answers. Calls may overlap: an in-process model decodes
/// overlapping calls as one batch.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// What decides its answers.
    fn identity(&self) -> &Identity;
    /// Prompt and answer together, in tokens.
    fn context_length(&self) -> usize;
    /// How many calls it serves best at once.
    fn concurrency(&self) -> usize;
    /// How many tokens a text is; an estimate for remote models.
    fn count_tokens(&self, text: &str) -> usize;
    /// Price per million tokens, in dollars: (input, output).
    fn price(&self) -> (f64, f64) {
        (0.0, 0.0)
    }
    /// What the provider last said of its limits, in any answer or refusal;
    /// nothing for a model of this process. Not part of an answer, as it must
    /// not be kept.
    fn rate_hints(&self) -> Option<executor::RateHints> {
        None
    }
    /// Whose limit its calls count against: the name of the variable that
    /// holds the key, never the key; empty where there is none.
    fn account(&self) -> &str {
        ""
    }
    /// How many calls it takes: those that it serves best, unless that has
    /// to be learned.
    fn limits(&self) -> Limits {
        Limits::Fixed(self.concurrency())
    }
    /// Answers one request.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error>;
    /// Whether replies may tell the probabilities of a request's choices:
    /// where they never do, nobody need pay for asking.
    fn tells_probabilities(&self) -> bool {
        true
    }
    /// Answers one request, and hands the text out while it is written. The
    /// response is the one that [`ChatModel::chat`] gives, and the pieces
    /// together are its text; those of a call that failed are the beginning
    /// of nothing. A model that cannot do so gives all of it at the end.
    async fn chat_streaming(&self, request: &ChatRequest, on_piece: &OnPiece) -> Result<ChatResponse, Error> {
        let response = self.chat(request).await?;
        on_piece(&response.text);
        Ok(response)
    }
}

/// Takes the pieces of an answer while it is written, in order. Called by
/// whichever thread writes, so it must be quick.
pub type OnPiece = Arc<dyn Fn(&str) + Send + Sync>;

/// A model that maps texts to vectors of length 1.
#[async_trait]
pub trait EmbeddingModel: Send + Sync {
    /// What decides its vectors.
    fn identity(&self) -> &Identity;
    /// The length of a vector; 0 while a remote model has not said.
    fn dimensions(&self) -> usize;
    /// Tokens beyond this are cut.
    fn max_tokens(&self) -> usize;
    /// How many calls it serves best at once.
    fn concurrency(&self) -> usize {
        1
    }
    /// The most texts of one call; a handle splits longer lists, so that a
    /// batch that was paid is kept when the next one fails.
    fn batch_size(&self) -> usize {
        usize::MAX
    }
    /// Price per million tokens, in dollars.
    fn price(&self) -> f64 {
        0.0
    }
    /// What the provider last said of its limits, in any answer or refusal;
    /// nothing for a model of this process. Not part of an answer, as it must
    /// not be kept.
    fn rate_hints(&self) -> Option<executor::RateHints> {
        None
    }
    /// Whose limit its calls count against: the name of the variable that
    /// holds the key, never the key; empty where there is none.
    fn account(&self) -> &str {
        ""
    }
    /// How many calls it takes: those that it serves best, unless that has
    /// to be learned.
    fn limits(&self) -> Limits {
        Limits::Fixed(self.concurrency())
    }
    /// One row per text, in order, each of length 1.
    async fn embed(&self, texts: &[String], kind: InputKind) -> Result<(Matrix, Usage), Error>;
    /// One matrix per text with a row per token, each row of length 1.
    async fn embed_tokens(&self, _texts: &[String], _kind: InputKind) -> Result<Vec<Matrix>, Error> {
        Err(Error::Unsupported {
            model: self.identity().model.clone(),
            what: "token vectors (late interaction needs an embedder that runs in this process)",
        })
    }
}

/// A model that says how well passages answer a query.
#[async_trait]
pub trait RerankModel: Send + Sync {
    /// What decides its scores.
    fn identity(&self) -> &Identity;
    /// How many calls it serves best at once.
    fn concurrency(&self) -> usize {
        1
    }
    /// Price per million tokens, in dollars.
    fn price(&self) -> f64 {
        0.0
    }
    /// What the provider last said of its limits, in any answer or refusal;
    /// nothing for a model of this process. Not part of an answer, as it must
    /// not be kept.
    fn rate_hints(&self) -> Option<executor::RateHints> {
        None
    }
    /// Whose limit its calls count against: the name of the variable that
    /// holds the key, never the key; empty where there is none.
    fn account(&self) -> &str {
        ""
    }
    /// How many calls it takes: those that it serves best, unless that has
    /// to be learned.
    fn limits(&self) -> Limits {
        Limits::Fixed(self.concurrency())
    }
    /// One score per passage, in order; higher is better.
    async fn rerank(&self, query: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), Error>;
}
