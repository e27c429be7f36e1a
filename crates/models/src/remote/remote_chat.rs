//! Chat models behind an endpoint, of any provider: one set of settings. The
//! file of each provider states its defaults and differences as a [`ChatProvider`].
//!
//! To add a provider, write `chat_<name>.rs` with a `Preset` like its
//! neighbours', the line in the registry, and `examples/<name>.json`: the
//! requests, answers, streams and refusals of its documentation, which the
//! conformance tests replay.

mod asking;

use super::{
    endpoint::{Defaults, RemoteModel, check_limits, check_prices, endpoint_settings},
    functions,
    http::{Conventions, Endpoint, EndpointSettings},
    protocol::{ChatTarget, Protocol},
};
use crate::{
    CONTEXT_LENGTH, ChatModel, EndpointAccess, Error, Identity,
    provider::{ModelContext, ModelSettings, Registration},
};
use asking::ChatPart;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt, marker::PhantomData, sync::Arc};

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

/// Names a provider in a type, so that each has its own defaults.
pub trait Preset: fmt::Debug + Clone + PartialEq + Send + Sync + 'static {
    /// Which one.
    const PROVIDER: ChatProvider;
}

endpoint_settings! {
    /// Settings of a remote chat model.
    #[serde(bound(serialize = "P: Preset", deserialize = "P: Preset"))]
    #[schemars(bound = "P: Preset", rename = "RemoteChat")]
    pub struct Config<P: Preset>, by default Defaults {
        base_url: P::PROVIDER.base_url,
        api_key_env: P::PROVIDER.api_key_env,
        timeout_seconds: 120.0,
        ..Defaults::PLAIN
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
        /// Prompt and answer together, in tokens.
        pub context_length: usize = P::PROVIDER.context_length,
        /// Parameters that this model refuses, such as `temperature` or `seed`.
        /// Without `response_format` a schema is asked for in words.
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
    /// The settings of its endpoint, with the provider's requirements.
    pub(super) fn settings(&self) -> EndpointSettings<'_> {
        EndpointSettings { query: &self.query, conventions: P::PROVIDER.conventions, ..self.endpoint() }
    }
}

impl<P: Preset> ModelSettings for Config<P>
where
    Self: Registration,
{
    type Model = dyn ChatModel;

    fn describe(&self, cx: &ModelContext) -> Result<Identity, Error> {
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
        check_limits(&self.limits, &self.model, self.concurrency)?;
        if self.context_length == 0 {
            return Err(Error::Config(format!("{}: `context_length` must be above 0", self.model)));
        }
        check_prices(&self.model, &[self.price.input, self.price.output])?;
        let chat = |endpoint: &Endpoint| {
            let (omit, extra) = (self.omit.clone(), self.extra.clone());
            let speaker = P::PROVIDER.protocol.speaker(&ChatTarget { endpoint, omit: &omit, extra: &extra })?;
            let price = (self.price.input.unwrap_or_default(), self.price.output.unwrap_or_default());
            let function = functions::failure(&self.model, &self.base_url);
            Ok(ChatPart { speaker, omit, extra, context_length: self.context_length, price, function })
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

    fn prices(&self) -> Option<(f64, f64)> {
        self.price.input.zip(self.price.output)
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
