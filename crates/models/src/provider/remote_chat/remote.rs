//! A chat model behind an endpoint, once its settings are read: what it is
//! asked, whoever speaks its protocol, and how its tokens are counted.

use super::super::{
    Limits,
    http::{Endpoint, estimated_tokens},
};
use crate::{ChatModel, ChatRequest, ChatResponse, Error, Finish, Identity, OnPiece, Usage};
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::time::Instant;

/// A way to put a request to a model and to understand what comes back.
#[async_trait]
pub(in crate::provider) trait Speaker: Send + Sync {
    /// Asks once. Where somebody listens, the text of the reply was handed
    /// out, piece by piece if the endpoint sends it so.
    async fn ask(&self, model: &Model, request: &ChatRequest, on_piece: Option<&OnPiece>) -> Result<Reply, Error>;

    /// See [`ChatModel::tells_probabilities`].
    fn tells_probabilities(&self, model: &Model) -> bool;
}

/// The longest text of an answer, in bytes: twice what any model writes.
const MAX_TEXT: usize = 1 << 20;

/// What a speaker speaks to.
pub(in crate::provider) struct Model {
    pub(in crate::provider) identity: Identity,
    pub(in crate::provider) endpoint: Endpoint,
    pub(in crate::provider) omit: Vec<String>,
    pub(in crate::provider) extra: Map<String, Value>,
    pub(super) context_length: usize,
}

/// What a model said.
pub(in crate::provider) struct Reply {
    /// Without our secrets.
    pub(in crate::provider) text: String,
    pub(in crate::provider) finish: Finish,
    pub(in crate::provider) usage: Counted,
    /// See [`ChatResponse::choices`].
    pub(in crate::provider) choices: Vec<f64>,
}

/// The tokens of a call, as far as the provider counted them.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::provider) struct Counted {
    pub(in crate::provider) prompt: Option<u64>,
    /// Of these, taken from a cache.
    pub(in crate::provider) cached: u64,
    pub(in crate::provider) completion: Option<u64>,
}

impl Model {
    /// The name by which the endpoint knows it.
    pub(in crate::provider) fn name(&self) -> &str {
        &self.identity.model
    }

    /// Whether the settings leave out this parameter of requests.
    pub(in crate::provider) fn omits(&self, parameter: &str) -> bool {
        self.omit.iter().any(|omitted| omitted == parameter)
    }

    /// Whether all that the settings leave out can be left out: a misspelt
    /// name would be sent all the same, and without a word.
    ///
    /// # Errors
    /// The first that cannot, and those that can.
    pub(in crate::provider) fn omits_only(&self, known: &[&str]) -> Result<(), Error> {
        match self.omit.iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                let known = known.join("`, `");
                Err(Error::Config(format!("{}: `omit` knows `{known}` here, not `{name}`", self.name())))
            }
            None => Ok(()),
        }
    }

    /// Fills in the counts that a refusal did not state.
    fn with_counts(&self, error: Error, request: &ChatRequest) -> Error {
        match error {
            Error::ContextTooLong { model, tokens, limit } => Error::ContextTooLong {
                model,
                tokens: if tokens > 0 { tokens } else { prompt_tokens(request) + request.max_tokens as usize },
                limit: if limit > 0 { limit } else { self.context_length },
            },
            other => other,
        }
    }
}

/// A model that is ready to be asked.
pub(super) struct Remote {
    pub(super) model: Model,
    pub(super) speaker: Box<dyn Speaker>,
    /// The name of the variable that holds its key.
    pub(super) account: String,
    pub(super) limits: Limits,
    /// Dollars per million tokens read and written.
    pub(super) price: (f64, f64),
}

#[async_trait]
impl ChatModel for Remote {
    fn identity(&self) -> &Identity {
        &self.model.identity
    }

    fn context_length(&self) -> usize {
        self.model.context_length
    }

    fn concurrency(&self) -> usize {
        self.limits.maximum()
    }

    fn account(&self) -> &str {
        &self.account
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimated_tokens(text)
    }

    fn price(&self) -> (f64, f64) {
        self.price
    }

    fn rate_hints(&self) -> Option<executor::RateHints> {
        self.model.endpoint.hints()
    }

    fn tells_probabilities(&self) -> bool {
        self.speaker.tells_probabilities(&self.model)
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
        let reply = self.speaker.ask(&self.model, request, on_piece).await;
        let Reply { text, finish, usage, choices } = reply.map_err(|error| self.model.with_counts(error, request))?;
        if text.len() > MAX_TEXT {
            let reason = format!("its text has {} bytes, more than any model writes", text.len());
            return Err(self.model.endpoint.malformed(reason));
        }
        // A server that counts nothing is counted for, so that a budget of
        // tokens or money still holds.
        let usage = Usage {
            prompt_tokens: usage.prompt.unwrap_or_else(|| prompt_tokens(request) as u64),
            cached_tokens: usage.cached,
            completion_tokens: usage.completion.unwrap_or_else(|| estimated_tokens(&text) as u64),
        };
        Ok(ChatResponse { text, finish, usage, choices, seconds: started.elapsed().as_secs_f64() })
    }
}

fn prompt_tokens(request: &ChatRequest) -> usize {
    // Each message is wrapped into a few tokens of the chat template.
    request.messages.iter().map(|message| estimated_tokens(&message.content) + 4).sum()
}

/// The number as a person would write it: 0.1, not 0.10000000149011612.
pub(in crate::provider) fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}
