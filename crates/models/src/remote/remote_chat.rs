//! Chat models behind an endpoint, of any provider: one set of settings. The
//! file of each provider states its defaults and differences as a [`ChatProvider`].
//!
//! To add a provider, write `chat_<name>.rs` with a `preset!` as in the files
//! beside it, a line in the list in `provider.rs`, and `examples/<name>.json`: the
//! requests, answers, streams and refusals of its documentation, which the
//! conformance tests replay.

use super::{
    batch::OpenAiBatches,
    endpoint::{RemoteModel, check_prices, endpoint_settings},
    functions,
    http::{Conventions, Endpoint, EndpointSettings, MAX_RESPONSE},
    protocol::{ChatReply, ChatTarget, Protocol, Speaker},
};
use crate::{
    BatchEndpoint, BatchSettings, CONTEXT_LENGTH, ChatModel, ChatRequest, ChatResponse, EndpointAccess, Error,
    FunctionError, Identity, OnPiece, Usage,
    provider::{ModelContext, ModelSettings, Registration},
    tokens::{ModelTokenizer, RemoteTokenizer},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt, marker::PhantomData, sync::Arc, time::Instant};

/// The longest text of an answer, in bytes: twice as much as any model writes.
const MAX_TEXT: usize = 1 << 20;

/// The properties of a provider, whatever the settings of a model are.
#[derive(Debug, Clone, Copy)]
pub struct ChatProvider {
    /// Its name in experiment files and in identities.
    pub(super) name: &'static str,
    /// The address if it is the same for all users; empty if each user has another one.
    pub(super) base_url: &'static str,
    /// The variable that holds the key in the provider's own documentation.
    pub(super) api_key_env: Option<&'static str>,
    /// The context length of most of its models, in tokens.
    pub(super) context_length: usize,
    pub(super) conventions: Conventions,
    pub(super) protocol: Protocol,
}

/// Names a provider in a type, so that each has its own defaults. `preset!` implements it.
pub trait Preset: fmt::Debug + Clone + PartialEq + Send + Sync + 'static {
    /// Which one.
    const PROVIDER: ChatProvider;
}

/// Declares a provider, and `Config`, the settings of its models.
macro_rules! preset {
    ($Name:ident: $provider:expr) => {
        /// Names the provider in the type of its settings.
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Name;

        pub(crate) type Config = $crate::remote::remote_chat::Config<$Name>;

        impl $crate::remote::remote_chat::Preset for $Name {
            const PROVIDER: ChatProvider = $provider;
        }
    };
}

pub(super) use preset;

endpoint_settings! {
    /// Settings of a remote chat model.
    #[serde(bound(serialize = "P: Preset", deserialize = "P: Preset"))]
    #[schemars(bound = "P: Preset", rename = "RemoteChat")]
    pub struct Config<P: Preset>, conventions: P::PROVIDER.conventions, by default {
        base_url: P::PROVIDER.base_url,
        api_key_env: P::PROVIDER.api_key_env,
        timeout_seconds: 120.0,
        max_response_bytes: MAX_RESPONSE
    };
    after base_url {}
    after headers {
        /// Parameters after the address, such as `api-version`. No secrets.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub query: BTreeMap<String, String> = BTreeMap::new(),
    }
    after limits {
        /// What tokens cost; needed where the budget caps money.
        pub price: TokenPrice = TokenPrice::default(),
        /// Sends the calls of runs in batches at a lower price, which may take hours. Only for `chat.openai`, where
        /// the endpoint has OpenAI's Batch API. Off unless set; `batch = {}` takes its defaults.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub batch: Option<BatchSettings> = None,
        /// Prompt and answer together, in tokens.
        pub context_length: usize = P::PROVIDER.context_length,
        /// Parameters that this model refuses, such as `temperature` or `seed`.
        /// With `response_format` among them, a schema is written into the prompt.
        pub omit: Vec<String> = Vec::new(),
        /// More parameters of the request body, such as `reasoning_effort`.
        pub extra: Map<String, Value> = Map::new(),
        #[serde(skip)]
        pub(super) preset: PhantomData<P> = PhantomData,
    }
}

/// What tokens cost, in US dollars per million.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenPrice {
    /// Tokens read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
}

impl<P: Preset> Config<P> {
    pub(super) fn settings(&self) -> EndpointSettings<'_> {
        EndpointSettings { query: &self.query, ..self.endpoint() }
    }
}

impl<P: Preset> ModelSettings for Config<P>
where
    Self: Registration,
{
    type Model = dyn ChatModel;

    fn base_identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        P::PROVIDER.protocol.check_compiled(&self.model)?;
        // `context_length` decides how much context a prompt is given.
        let mut parameters = json!({
            "kind": "chat", "omit": self.omit, "extra": self.extra, CONTEXT_LENGTH: self.context_length,
        });
        if !self.query.is_empty() {
            parameters["query"] = json!(self.query);
        }
        Ok(Identity {
            provider: P::PROVIDER.name.to_owned(),
            model: self.model.clone(),
            revision: self.settings().base(cx)?,
            parameters,
        })
    }

    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error> {
        if self.context_length == 0 {
            return Err(Error::bad_settings(&self.model, "`context_length` must be above 0"));
        }
        check_prices(&self.model, &[self.price.input, self.price.output])?;
        if self.batch.is_some() && P::PROVIDER.name != "openai" {
            let reason =
                "`batch` is only there for `chat.openai`: leave it out, or use an address with OpenAI's Batch API";
            return Err(Error::bad_settings(&self.model, reason));
        }
        let batches = OpenAiBatches::build(self.batch, self.settings(), "chat/completions", cx)?;
        let chat = |endpoint: &Endpoint| {
            let (omit, extra) = (self.omit.clone(), self.extra.clone());
            let speaker = P::PROVIDER.protocol.speaker(&ChatTarget { endpoint, omit: &omit, extra: &extra })?;
            let price = (self.price.input.unwrap_or_default(), self.price.output.unwrap_or_default());
            let function = functions::error_of(&self.model, &self.base_url);
            let tokenizer = RemoteTokenizer::of(&self.model);
            let context_length = self.context_length;
            let batches = batches.clone();
            Ok(ChatPart { speaker, omit, extra, context_length, price, tokenizer, function, batches })
        };
        Ok(Arc::new(RemoteModel::new(self.identity(cx)?, &self.settings(), cx, chat)?))
    }

    fn endpoint_access(&self) -> Option<EndpointAccess> {
        let fields = self.extra.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        Some(EndpointAccess { fields, ..self.settings().access() })
    }

    async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        self.identity(cx)?;
        self.settings().ready(cx).await
    }

    fn tokenizer(&self, _: &ModelContext) -> Result<ModelTokenizer, Error> {
        Ok(ModelTokenizer::of_endpoint(&self.model))
    }

    fn prices(&self) -> Option<(f64, f64)> {
        let share = self.batch.map_or(1.0, |batch| batch.price_share);
        Some((self.price.input? * share, self.price.output? * share))
    }
}

/// The part of a remote model that only chat models have.
struct ChatPart {
    speaker: Box<dyn Speaker>,
    omit: Vec<String>,
    extra: Map<String, Value>,
    /// Prompt and answer together, in tokens.
    context_length: usize,
    /// Dollars per million tokens read and written.
    price: (f64, f64),
    tokenizer: RemoteTokenizer,
    /// See [`ChatModel::function_error`].
    function: Option<FunctionError>,
    /// Where calls can be sent in batches.
    batches: Option<Arc<dyn BatchEndpoint>>,
}

#[async_trait]
impl ChatModel for RemoteModel<ChatPart> {
    fn context_length(&self) -> usize {
        self.kind.context_length
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.kind.tokenizer.count(text)
    }

    fn price(&self) -> (f64, f64) {
        self.kind.price
    }

    fn tells_probabilities(&self) -> bool {
        self.kind.speaker.tells_probabilities(&self.target())
    }

    fn function_error(&self) -> Option<FunctionError> {
        self.kind.function.clone()
    }

    fn batches(&self) -> Option<Arc<dyn BatchEndpoint>> {
        self.kind.batches.clone()
    }

    fn batch_body(&self, request: &ChatRequest) -> Value {
        self.kind.speaker.batch_body(&self.target(), request).unwrap_or_default()
    }

    fn read_batched(&self, request: &ChatRequest, answer: &Value) -> Result<ChatResponse, Error> {
        let reply = self.kind.speaker.read_batched(&self.target(), request, answer);
        // How long a batch took says nothing about the model.
        self.response(request, reply, 0.0)
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        self.answer(request, None).await
    }

    async fn chat_streaming(&self, request: &ChatRequest, on_piece: &OnPiece) -> Result<ChatResponse, Error> {
        self.answer(request, Some(on_piece)).await
    }
}

impl RemoteModel<ChatPart> {
    fn target(&self) -> ChatTarget<'_> {
        ChatTarget { endpoint: &self.endpoint, omit: &self.kind.omit, extra: &self.kind.extra }
    }

    /// Fills in the counts that a refusal did not state.
    fn with_counts(&self, error: Error, request: &ChatRequest) -> Error {
        match error {
            Error::ContextTooLong { model, tokens, limit } => Error::ContextTooLong {
                model,
                tokens: if tokens > 0 { tokens } else { self.prompt_tokens(request) + request.max_tokens as usize },
                limit: if limit > 0 { limit } else { self.kind.context_length },
            },
            other => other,
        }
    }

    async fn answer(&self, request: &ChatRequest, on_piece: Option<&OnPiece>) -> Result<ChatResponse, Error> {
        let started = Instant::now();
        let reply = self.kind.speaker.ask(&self.target(), request, on_piece).await;
        self.response(request, reply, started.elapsed().as_secs_f64())
    }

    fn response(
        &self,
        request: &ChatRequest,
        reply: Result<ChatReply, Error>,
        seconds: f64,
    ) -> Result<ChatResponse, Error> {
        let ChatReply { text, finish, usage, choices } = reply.map_err(|error| self.with_counts(error, request))?;
        if text.len() > MAX_TEXT {
            let reason = format!("its text has {} bytes, more than any model writes", text.len());
            return Err(self.endpoint.malformed(reason));
        }
        // If a server does not report tokens, they are counted here, so that budgets
        // of tokens and money still hold.
        let usage = Usage {
            prompt_tokens: usage.prompt.unwrap_or_else(|| self.prompt_tokens(request) as u64),
            cached_tokens: usage.cached,
            completion_tokens: usage.completion.unwrap_or_else(|| self.count_tokens(&text) as u64),
            ..Usage::default()
        };
        Ok(ChatResponse { text, finish, usage, choices, seconds })
    }

    fn prompt_tokens(&self, request: &ChatRequest) -> usize {
        // Each message is wrapped into a few tokens of the chat template.
        request.messages.iter().map(|message| self.count_tokens(&message.content) + 4).sum()
    }
}

#[cfg(test)]
mod examples;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
#[path = "remote_chat_tests.rs"]
mod tests;
#[cfg(test)]
mod wire;
