//! The common parts of all models behind endpoints: the endpoint's settings in
//! an experiment file, and the model's connection to it.

use super::http::{Endpoint, EndpointSettings};
use crate::{EndpointLimits, Error, Identity, Limits, Model, provider::ModelContext};

/// Declares the settings of a kind of models behind endpoints: the settings of
/// the endpoint, which are written only here, and the kind's own settings, each
/// with its default, in the order in which they are written to a file.
///
/// In a file they all are in one table. serde's `flatten` could read that too,
/// but not together with `deny_unknown_fields`: an error about a misspelt key
/// would lack its place and the list of valid names. So the shared fields are
/// written into each struct, and serde's derive does the rest.
macro_rules! endpoint_settings {
    (
        $(#[$meta:meta])*
        pub struct $Config:ident $(<$P:ident: $Bound:ident>)?, conventions: $conventions:expr, by default {
            base_url: $base_url:expr,
            api_key_env: $api_key_env:expr,
            timeout_seconds: $timeout_seconds:expr,
            max_response_bytes: $max_response_bytes:expr
        };
        after base_url { $( $(#[$meta_1:meta])* $visible_1:vis $own_1:ident: $Own1:ty = $default_1:expr, )* }
        after headers { $( $(#[$meta_2:meta])* $visible_2:vis $own_2:ident: $Own2:ty = $default_2:expr, )* }
        after limits { $( $(#[$meta_3:meta])* $visible_3:vis $own_3:ident: $Own3:ty = $default_3:expr, )* }
    ) => {
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        $(#[$meta])*
        pub struct $Config $(<$P>)? {
            /// The name by which the endpoint knows the model.
            pub model: String,
            /// The address up to and without the path of a call, such as
            /// `/chat/completions`, `/embeddings` or `/rerank`. Default of `chat.openai`
            /// and `embedding.openai`: OpenAI's, or what `OPENAI_BASE_URL` holds.
            pub base_url: String,
            $( $(#[$meta_1])* $visible_1 $own_1: $Own1, )*
            /// The name of the environment variable that holds the key; empty
            /// if the endpoint wants none. Default of `chat.openai` and
            /// `embedding.openai` without `base_url`: `OPENAI_API_KEY`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub api_key_env: Option<String>,
            /// More headers. A value `env:NAME` is read from that variable.
            pub headers: ::std::collections::BTreeMap<String, String>,
            /// Whether a key may be sent to another machine over `http://`, where
            /// everybody on the way can read it. Default false: it is refused.
            #[serde(skip_serializing_if = "::std::ops::Not::not")]
            pub plain_http: bool,
            $( $(#[$meta_2])* $visible_2 $own_2: $Own2, )*
            /// How long one answer may take, in seconds. One that is streamed
            /// may pause for so long, and take ten times as long in all.
            pub timeout_seconds: f64,
            /// How long the connection may take, in seconds.
            pub connect_timeout_seconds: f64,
            /// The largest answer, in bytes, with all that comes beside its
            /// text: 16 MiB if not set, and 64 MiB for embeddings, since a
            /// batch of long vectors is large. A text is never longer than 1
            /// MiB.
            pub max_response_bytes: usize,
            /// How many calls may be in flight at once; if left out, as many
            /// as the endpoint turns out to take, up to 256.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub concurrency: Option<usize>,
            /// What is known of its limits; the rest is learned.
            pub limits: $crate::EndpointLimits,
            $( $(#[$meta_3])* $visible_3 $own_3: $Own3, )*
        }

        impl $(<$P: $Bound>)? Default for $Config $(<$P>)? {
            fn default() -> Self {
                let api_key_env: Option<&str> = $api_key_env;
                Self {
                    model: String::new(),
                    base_url: $base_url.to_owned(),
                    $( $own_1: $default_1, )*
                    api_key_env: api_key_env.map(str::to_owned),
                    headers: ::std::collections::BTreeMap::new(),
                    plain_http: false,
                    $( $own_2: $default_2, )*
                    timeout_seconds: $timeout_seconds,
                    connect_timeout_seconds: 5.0,
                    max_response_bytes: $max_response_bytes,
                    concurrency: None,
                    limits: $crate::EndpointLimits::default(),
                    $( $own_3: $default_3, )*
                }
            }
        }

        impl $(<$P: $Bound>)? $Config $(<$P>)? {
            /// The settings of the endpoint, without parameters after its address.
            fn endpoint(&self) -> $crate::remote::http::EndpointSettings<'_> {
                $crate::remote::http::EndpointSettings {
                    model: &self.model,
                    base_url: &self.base_url,
                    api_key_env: self.api_key_env.as_deref(),
                    headers: &self.headers,
                    plain_http: self.plain_http,
                    timeout_seconds: self.timeout_seconds,
                    connect_timeout_seconds: self.connect_timeout_seconds,
                    max_response_bytes: self.max_response_bytes,
                    concurrency: self.concurrency,
                    limits: self.limits,
                    query: $crate::remote::http::NO_QUERY,
                    conventions: $conventions,
                }
            }
        }
    };
}

pub(super) use endpoint_settings;

/// Refuses what cannot be a price.
pub(super) fn check_prices(model: &str, prices: &[Option<f64>]) -> Result<(), Error> {
    match prices.iter().flatten().all(|price| price.is_finite() && *price >= 0.0) {
        true => Ok(()),
        false => Err(Error::bad_settings(model, "`price` must not be below 0")),
    }
}

/// A model behind an endpoint: the common part, and the part of its kind.
pub(super) struct RemoteModel<Kind> {
    identity: Identity,
    pub(super) endpoint: Endpoint,
    /// The name of the variable that holds its key.
    account: String,
    limits: Limits,
    pub(super) kind: Kind,
}

impl<Kind> RemoteModel<Kind> {
    /// A model whose endpoint can be called.
    ///
    /// # Errors
    /// If settings of the endpoint cannot work, a key is not set, or `kind`
    /// fails.
    pub(super) fn new(
        identity: Identity,
        settings: &EndpointSettings<'_>,
        cx: &ModelContext,
        kind: impl FnOnce(&Endpoint) -> Result<Kind, Error>,
    ) -> Result<Self, Error> {
        check_limits(&settings.limits, settings.model, settings.concurrency)?;
        let endpoint = settings.build_endpoint(cx)?;
        Ok(Self {
            kind: kind(&endpoint)?,
            identity,
            endpoint,
            account: settings.key_variable().unwrap_or_default().to_owned(),
            limits: settings.limits.within(settings.concurrency, settings.timeout_seconds),
        })
    }
}

impl<Kind: Send + Sync> Model for RemoteModel<Kind> {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        self.limits.maximum()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn account(&self) -> &str {
        &self.account
    }

    fn rate_hints(&self) -> Option<executor::RateHints> {
        self.endpoint.hints()
    }
}

/// Refuses numbers that no limit can have.
fn check_limits(limits: &EndpointLimits, model: &str, concurrency: Option<usize>) -> Result<(), Error> {
    let refuse = |what: &str| Err(Error::bad_settings(model, what));
    if concurrency == Some(0) {
        return refuse("`concurrency` must be at least 1; leave it out to have it learned");
    }
    let rates = [("requests_per_minute", limits.requests_per_minute), ("tokens_per_minute", limits.tokens_per_minute)];
    for (name, rate) in rates {
        if rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return refuse(&format!("`limits.{name}` must be above 0; leave it out to have it learned"));
        }
    }
    if limits.refusal_timeout_seconds.is_some_and(|seconds| !(seconds.is_finite() && seconds > 0.0)) {
        return refuse("`limits.refusal_timeout_seconds` must be above 0 seconds, such as 300");
    }
    if limits.hedge.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return refuse("`limits.hedge` is a share of the calls: from 0 to 1, such as 0.02");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_cannot_be_are_refused_by_name() {
        let refusal =
            |limits: EndpointLimits, concurrency| check_limits(&limits, "gpt", concurrency).unwrap_err().to_string();
        let none = EndpointLimits::default();
        assert!(refusal(none, Some(0)).contains("concurrency"));
        let requests = EndpointLimits { requests_per_minute: Some(0.0), ..none };
        assert!(refusal(requests, None).contains("limits.requests_per_minute"));
        let tokens = EndpointLimits { tokens_per_minute: Some(f64::NAN), ..none };
        assert!(refusal(tokens, None).contains("limits.tokens_per_minute"));
        assert!(refusal(EndpointLimits { hedge: Some(2.0), ..none }, None).contains("from 0 to 1"));
        let patience = EndpointLimits { refusal_timeout_seconds: Some(0.0), ..none };
        assert!(refusal(patience, None).contains("limits.refusal_timeout_seconds"));
        assert!(check_limits(&none, "gpt", Some(1)).is_ok());
    }
}
