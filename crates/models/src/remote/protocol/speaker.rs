//! A speaker sends requests in one protocol and reads the answers.

use crate::{ChatRequest, Error, Finish, OnPiece, remote::http::Endpoint};
use async_trait::async_trait;
use serde_json::{Map, Value};

/// Sends requests to a model in one protocol, and reads the answers.
#[async_trait]
pub(crate) trait Speaker: Send + Sync {
    /// Asks once. If `on_piece` is given, the text of the reply is handed out:
    /// in pieces if the endpoint streams it.
    async fn ask(
        &self,
        model: &ChatTarget<'_>,
        request: &ChatRequest,
        on_piece: Option<&OnPiece>,
    ) -> Result<ChatReply, Error>;

    /// A request as it is sent in a batch; none if the protocol has no batches.
    fn batch_body(&self, _model: &ChatTarget<'_>, _request: &ChatRequest) -> Option<Value> {
        None
    }

    /// Reads the answer to a request that was sent in a batch.
    fn read_batched(
        &self,
        model: &ChatTarget<'_>,
        _request: &ChatRequest,
        _answer: &Value,
    ) -> Result<ChatReply, Error> {
        Err(Error::Unsupported { model: model.name().to_owned(), what: "batches" })
    }

    /// See [`ChatModel::tells_probabilities`].
    fn tells_probabilities(&self, model: &ChatTarget<'_>) -> bool;
}

/// The model that a speaker asks.
#[derive(Clone, Copy)]
pub(crate) struct ChatTarget<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) omit: &'a [String],
    pub(crate) extra: &'a Map<String, Value>,
}

/// A model's reply.
pub(crate) struct ChatReply {
    /// Without API keys and headers, which a gateway may send back.
    pub(crate) text: String,
    pub(crate) finish: Finish,
    pub(crate) usage: TokenCounts,
    /// See [`ChatResponse::choices`].
    pub(crate) choices: Vec<f64>,
}

/// The tokens of a call, as far as the provider counted them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TokenCounts {
    pub(crate) prompt: Option<u64>,
    /// Tokens of the prompt that the provider took from its cache.
    pub(crate) cached: u64,
    pub(crate) completion: Option<u64>,
}

impl ChatTarget<'_> {
    /// The name by which the endpoint knows it.
    pub(crate) fn name(&self) -> &str {
        &self.endpoint.model
    }

    /// Whether the settings leave out this parameter of requests.
    pub(crate) fn omits(&self, parameter: &str) -> bool {
        self.omit.iter().any(|omitted| omitted == parameter)
    }

    /// Checks that all parameters that the settings omit can be omitted: a
    /// misspelt name would have no effect.
    ///
    /// # Errors
    /// Names the first parameter that cannot be omitted, and those that can.
    pub(crate) fn omits_only(&self, known: &[&str]) -> Result<(), Error> {
        match self.omit.iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                let known = known.join("`, `");
                Err(Error::bad_settings(self.name(), format_args!("`omit` knows `{known}` here, not `{name}`")))
            }
            None => Ok(()),
        }
    }
}

/// The number as a person would write it: 0.1, not 0.10000000149011612.
pub(crate) fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}
