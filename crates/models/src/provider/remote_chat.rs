//! Chat models behind an endpoint, whoever provides it: one set of settings,
//! whose defaults and ways each provider's file states as a [`Provider`].
//!
//! To add a provider, write `chat_<name>.rs` with a `Preset` like its
//! neighbours', the line in the registry, and `examples/<name>.json`: the
//! requests, answers, streams and refusals of its documentation, which the
//! conformance tests replay.

mod remote;

pub(super) use remote::{Counted, Model, Reply, Speaker, decimal};

use super::{
    Context, Described, EndpointLimits, Versioned,
    chat_openai::{self, Differences},
    http::{MAX_RESPONSE, Manner, Settings},
};
use crate::{CONTEXT_LENGTH, ChatModel, Error, Identity};
use remote::Remote;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt, marker::PhantomData, sync::Arc};

/// What a provider is, whatever the settings of a model are.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// Its name in experiment files and in identities.
    pub(super) name: &'static str,
    /// Where everyone finds it; empty where everyone has an address of their own.
    pub(super) base_url: &'static str,
    /// The variable that its own documentation keeps the key in.
    pub(super) api_key_env: Option<&'static str>,
    /// What most of its models read, in tokens.
    pub(super) context_length: usize,
    pub(super) manner: Manner,
    pub(super) protocol: Protocol,
}

/// How a provider is spoken to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Protocol {
    /// As OpenAI is, but for some differences.
    OpenAi(Differences),
    /// In a protocol of its own, with the help of `genai`.
    Translated(Translation),
}

/// A protocol that `genai` knows.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "providers"), expect(dead_code, reason = "whoever reads it is not compiled"))]
pub(super) struct Translation {
    pub(super) language: Language,
    /// Where the calls to a model go, below the base URL.
    pub(super) path: fn(&str) -> String,
    /// The same for answers that are sent while they are written.
    pub(super) stream_path: fn(&str) -> String,
    /// Whether answers can be held to a schema; else it is asked for in words.
    pub(super) takes_schema: bool,
    /// What of `extra` can be sent.
    pub(super) extra: Extra,
}

/// Whose protocol.
#[derive(Debug, Clone, Copy)]
pub(super) enum Language {
    Anthropic,
    Gemini,
    BedrockConverse,
}

/// What of `extra` can be sent, besides `reasoning_effort`.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "providers"), expect(dead_code, reason = "whoever reads it is not compiled"))]
pub(super) enum Extra {
    Nothing,
    /// All but these, which hold what a request says.
    AllBut(&'static [&'static str]),
}

/// Names a provider in a type, so that each has its own defaults.
pub trait Preset: fmt::Debug + Clone + PartialEq + Send + Sync + 'static {
    /// Which one.
    const PROVIDER: Provider;
}

/// Settings of a remote chat model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, bound(serialize = "P: Preset", deserialize = "P: Preset"))]
pub struct Config<P> {
    /// The name by which the endpoint knows the model.
    pub model: String,
    /// The address up to and without the path of a call, such as `/chat/completions`.
    pub base_url: String,
    /// The name of the environment variable that holds the key; empty where
    /// the endpoint wants none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// More headers. A value `env:NAME` is read from that variable.
    pub headers: BTreeMap<String, String>,
    /// Parameters after the address, such as `api-version`. No secrets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// How long one answer may take, in seconds. One that is streamed may
    /// pause for so long, and take ten times as long in all.
    pub timeout_seconds: f64,
    /// How long the connection may take, in seconds.
    pub connect_timeout_seconds: f64,
    /// The largest answer, in bytes, with all that comes beside its text; 16
    /// MiB if not set. Its text is never longer than 1 MiB.
    pub max_response_bytes: usize,
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
    /// Without `response_format` a schema is asked for in words.
    pub omit: Vec<String>,
    /// More parameters of the request body, such as `reasoning_effort`.
    pub extra: Map<String, Value>,
    #[serde(skip)]
    pub(super) preset: PhantomData<P>,
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

impl<P: Preset> Default for Config<P> {
    fn default() -> Self {
        Self {
            model: String::new(),
            base_url: P::PROVIDER.base_url.to_owned(),
            api_key_env: P::PROVIDER.api_key_env.map(str::to_owned),
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            timeout_seconds: 120.0,
            connect_timeout_seconds: 5.0,
            max_response_bytes: MAX_RESPONSE,
            concurrency: None,
            limits: EndpointLimits::default(),
            price: Price::default(),
            context_length: P::PROVIDER.context_length,
            omit: Vec::new(),
            extra: Map::new(),
            preset: PhantomData,
        }
    }
}

#[expect(private_bounds, reason = "whose settings these are is said by the registry only")]
impl<P: Preset> Config<P>
where
    Self: Versioned,
{
    pub(super) fn build(&self, cx: &Context) -> Result<Arc<dyn ChatModel>, Error> {
        self.limits.check(&self.model, self.concurrency)?;
        if self.context_length == 0 {
            return Err(Error::Config(format!("{}: `context_length` must be above 0", self.model)));
        }
        let is_price = |price: Option<f64>| price.is_none_or(|price| price.is_finite() && price >= 0.0);
        if !is_price(self.price.input) || !is_price(self.price.output) {
            return Err(Error::Config(format!("{}: `price` must not be below 0", self.model)));
        }
        let model = Model {
            identity: self.identity(cx)?,
            endpoint: self.settings().connect(cx)?,
            context_length: self.context_length,
            omit: self.omit.clone(),
            extra: self.extra.clone(),
        };
        Ok(Arc::new(Remote {
            speaker: speaker(P::PROVIDER.protocol, &model)?,
            model,
            account: self.api_key_env.clone().unwrap_or_default(),
            limits: self.limits.within(self.concurrency, self.timeout_seconds),
            price: (self.price.input.unwrap_or_default(), self.price.output.unwrap_or_default()),
        }))
    }

    pub(super) fn prices(&self) -> Option<(f64, f64)> {
        self.price.input.zip(self.price.output)
    }

    pub(super) async fn ready(&self, cx: &Context) -> Result<(), Error> {
        self.identity(cx)?;
        self.settings().ready(cx).await
    }

    pub(super) fn settings(&self) -> Settings<'_> {
        Settings {
            model: &self.model,
            base_url: &self.base_url,
            api_key_env: self.api_key_env.as_deref(),
            headers: &self.headers,
            timeout_seconds: self.timeout_seconds,
            connect_timeout_seconds: self.connect_timeout_seconds,
            max_response_bytes: self.max_response_bytes,
            query: &self.query,
            manner: P::PROVIDER.manner,
        }
    }
}

impl<P: Preset> Described for Config<P>
where
    Self: Versioned,
{
    fn describe(&self, _cx: &Context) -> Result<Identity, Error> {
        if matches!(P::PROVIDER.protocol, Protocol::Translated(_)) && cfg!(not(feature = "providers")) {
            return Err(not_compiled(&self.model));
        }
        // The last decides how much context a prompt is given.
        let mut parameters = json!({
            "kind": "chat", "omit": self.omit, "extra": self.extra, CONTEXT_LENGTH: self.context_length,
        });
        if !self.query.is_empty() {
            parameters["query"] = json!(self.query);
        }
        Ok(Identity {
            provider: P::PROVIDER.name.to_owned(),
            model: self.model.clone(),
            revision: self.settings().base()?,
            parameters,
        })
    }
}

fn not_compiled(model: &str) -> Error {
    Error::Config(format!(
        "{model}: this program was built without Anthropic, Gemini and Bedrock: build it with \
         `cargo build --release --features providers`, or use an OpenAI-compatible address with `chat.openai`"
    ))
}

/// Who speaks this protocol.
fn speaker(protocol: Protocol, model: &Model) -> Result<Box<dyn Speaker>, Error> {
    match protocol {
        Protocol::OpenAi(differences) => Ok(Box::new(chat_openai::OpenAi::new(differences, model)?)),
        #[cfg(feature = "providers")]
        Protocol::Translated(translation) => Ok(Box::new(super::translated::Translator::new(translation, model)?)),
        #[cfg(not(feature = "providers"))]
        Protocol::Translated(_) => Err(not_compiled(model.name())),
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
