//! A system behind HTTP: any method, JSON or parameters of the address as the request, JSON as the reply.
//!
//! `body` and `query` are templates. `{question}` stands for the question, `{messages}` for the conversation before it
//! and the question, as a list of `role` and `content`, `{id}` for the id of the question in the dataset, `{seed}` for
//! the seed, and `{top_k}` for a parameter of that name. A string that is one placeholder becomes the value with its
//! type. `{{` and `}}` are braces.
//!
//! `answer`, `passages` and others are paths into the reply, such as `choices[0].message.content`, or
//! `['a.b']` for a name with a dot; `$` is the whole reply.

use super::{
    System, SystemContext, SystemPrice, SystemSettings,
    endpoint::{HttpKind, HttpSystem, RequestTemplates},
    reply::{PassagePaths, ReplyReader, ReplySettings, UsagePaths, UsageReader},
    template::{Placeholder, check_placeholders},
};
use models::{EndpointAccess, EndpointLimits, Error, Identity, JsonEndpoint, JsonEndpointSettings, system_section};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) const VERSION: u32 = 1;

/// The most bytes of a header's digest that an identity holds.
const DIGEST: usize = 16;
/// Settings that change neither the request nor how its reply is read.
pub(super) const OUTSIDE_KEY: [&str; 7] = [
    "timeout_seconds",
    "connect_timeout_seconds",
    "max_response_bytes",
    "concurrency",
    "limits",
    "plain_http",
    "retry_timeouts",
];

/// Settings of a system behind HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The whole address, without parameters, such as `http://127.0.0.1:8000/ask`. It is used as it is: nothing is
    /// added, and a slash at its end is kept.
    pub url: String,
    /// The HTTP method. Default `POST`.
    pub method: String,
    /// Headers of every request. A value `env:NAME` is read from that variable; a secret must be written so.
    pub headers: BTreeMap<String, String>,
    /// The variable that holds the key, which is sent as a bearer token. Default: no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Parameters of the address; each value is a template.
    pub query: BTreeMap<String, String>,
    /// The body, a template of JSON. Default: `{ question = "{question}" }`, unless `query` holds the question or
    /// the method is one without a body, such as `GET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The path to the answer. Default `answer`; empty if the system only retrieves.
    pub answer: String,
    /// The path to the list of passages. Default: empty, the system returns none.
    pub passages: String,
    /// The paths to the parts of a passage, within the passage.
    pub passage: PassagePaths,
    /// The paths to what the reply states of its cost. Default: it states nothing.
    pub usage: UsagePaths,
    /// The path to the id under which the system's own tracing knows the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The path at which the reply repeats the question. If it repeats another one, the reply is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// How long one call may take, in seconds. Default 120; no part of any key.
    pub timeout_seconds: f64,
    /// How long the connection may take, in seconds. Default 10; no part of any key.
    pub connect_timeout_seconds: f64,
    /// Whether a call that timed out is made again. Default true; set it to false if a call has side effects.
    pub retry_timeouts: bool,
    /// The largest reply, in bytes. Default 16 MiB; no part of any key.
    pub max_response_bytes: usize,
    /// How many calls may be in flight at once; if left out, as many as the system turns out to take, up to 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// What is known of its limits; the rest is learned.
    pub limits: EndpointLimits,
    /// Whether a key may be sent to another machine over `http://`, where everybody on the way can read it. Default
    /// false: it is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
}

impl Default for Config {
    fn default() -> Self {
        let endpoint = JsonEndpointSettings::default();
        Self {
            url: endpoint.url,
            method: endpoint.method,
            headers: endpoint.headers,
            api_key_env: None,
            query: endpoint.query,
            body: None,
            answer: "answer".to_owned(),
            passages: String::new(),
            passage: PassagePaths::default(),
            usage: UsagePaths::default(),
            trace: None,
            question: None,
            timeout_seconds: endpoint.timeout_seconds,
            connect_timeout_seconds: endpoint.connect_timeout_seconds,
            retry_timeouts: endpoint.retry_timeouts,
            max_response_bytes: endpoint.max_response_bytes,
            concurrency: None,
            limits: endpoint.limits,
            plain_http: endpoint.plain_http,
        }
    }
}

const HTTP: HttpKind =
    HttpKind { provider: "http", section: system_section, address_setting: "url", templates: "`body` or `query`" };

impl Config {
    pub(super) fn build(&self, cx: &SystemContext<'_>) -> Result<Arc<dyn System>, Error> {
        Ok(Arc::new(self.system(HTTP, cx)?))
    }

    /// The system with these settings, as a kind that is called over HTTP.
    pub(crate) fn system(&self, kind: HttpKind, cx: &SystemContext<'_>) -> Result<HttpSystem, Error> {
        let section = (kind.section)(cx.name);
        let refused = |reason: String| Error::Config(format!("{section}: {reason}"));
        let usage = UsageReader::new(&self.usage, cx.price.unwrap_or_default()).map_err(refused)?;
        let settings = self.endpoint(kind, section.clone(), cx.version_header);
        let endpoint = JsonEndpoint::new(self.identity_as(kind, cx)?, settings, cx.models)?;
        let templates = self.templates().map_err(refused)?;
        Ok(HttpSystem::new((kind, cx), endpoint, templates, (self.reader().map_err(refused)?, usage)))
    }

    /// The settings of the endpoint.
    pub(super) fn endpoint(
        &self,
        kind: HttpKind,
        section: String,
        version_header: Option<&str>,
    ) -> JsonEndpointSettings {
        JsonEndpointSettings {
            section,
            url: self.url.clone(),
            address_setting: kind.address_setting,
            method: self.method.clone(),
            headers: self.headers.clone(),
            query: self.query.clone(),
            api_key_env: self.api_key_env.clone(),
            plain_http: self.plain_http,
            timeout_seconds: self.timeout_seconds,
            connect_timeout_seconds: self.connect_timeout_seconds,
            retry_timeouts: self.retry_timeouts,
            max_response_bytes: self.max_response_bytes,
            concurrency: self.concurrency,
            limits: self.limits,
            kept_headers: version_header.map(str::to_lowercase).into_iter().collect(),
        }
    }

    fn templates(&self) -> Result<RequestTemplates, String> {
        RequestTemplates::new(&self.query, self.body.as_ref(), &self.method)
    }

    pub(super) fn reader(&self) -> Result<ReplyReader, String> {
        ReplyReader::new(&ReplySettings {
            answer: &self.answer,
            passages: &self.passages,
            passage: &self.passage,
            trace: self.trace.as_deref().unwrap_or_default(),
            question: self.question.as_deref().unwrap_or_default(),
        })
    }

    /// See [`SystemSettings::check`], for any kind.
    pub(super) fn check_as(&self, kind: HttpKind, parameters: &BTreeMap<String, Vec<Value>>) -> Result<(), String> {
        let templates = self.check_templates(kind)?;
        check_placeholders(&templates.placeholders(), parameters, kind.templates)
    }

    /// Checks settings whose requests may hold the question and these values. They must hold the question, or the first of
    /// the values.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub(crate) fn check_with_values(&self, kind: HttpKind, values: &[&str]) -> Result<(), String> {
        let (templates, places) = (self.check_templates(kind)?, kind.templates);
        let used = templates.placeholders();
        let is_known = |used: &&Placeholder| match used {
            Placeholder::Question => true,
            Placeholder::Parameter(name) => values.contains(&name.as_str()),
            _ => false,
        };
        let known = || values.iter().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
        if let Some(unknown) = used.iter().find(|used| !is_known(used)) {
            let known = known();
            return Err(format!("`{unknown}` in {places} is no placeholder: there are {{question}}, {known}"));
        }
        let is_first =
            |used: &Placeholder| matches!(used, Placeholder::Parameter(name) if values.first() == Some(&name.as_str()));
        match used.iter().any(|used| **used == Placeholder::Question || is_first(used)) {
            true => Ok(()),
            false => Err(format!("{{question}} is not sent: write it into {places}")),
        }
    }

    /// Checks everything but the names of the placeholders.
    fn check_templates(&self, kind: HttpKind) -> Result<RequestTemplates, String> {
        let address = kind.address_setting;
        if self.url.contains(['{', '}']) {
            return Err(format!("`{address}` takes no placeholders: write them into {}", kind.templates));
        }
        let templates = self.templates()?;
        self.reader()?;
        UsageReader::new(&self.usage, SystemPrice::default())?;
        if !self.retry_timeouts && self.limits.hedge.is_some_and(|share| share > 0.0) {
            return Err(
                "`limits.hedge` makes calls twice, and `retry_timeouts = false` forbids it: remove one".to_owned()
            );
        }
        Ok(templates)
    }

    /// See [`SystemSettings::identity`], for any kind.
    pub(crate) fn identity_as(&self, kind: HttpKind, cx: &SystemContext<'_>) -> Result<Identity, Error> {
        let address = self.endpoint(kind, (kind.section)(cx.name), None).address(cx.models)?;
        let mut parameters = Map::new();
        if !cx.version.is_empty() {
            parameters.insert("version".to_owned(), cx.version.into());
        }
        parameters.insert("method".to_owned(), self.method.to_uppercase().into());
        // Another tenant or key may get other replies. Headers are not part of a request's journal key, and results
        // show identities, so only their digest is here.
        let headers = (&self.headers, &self.api_key_env);
        if !self.headers.is_empty() || self.api_key_env.is_some() {
            let digest = blake3::hash(json!(headers).to_string().as_bytes()).to_hex();
            parameters.insert("headers".to_owned(), digest[..DIGEST].into());
        }
        Ok(Identity {
            provider: kind.provider.to_owned(),
            model: address.clone(),
            revision: address,
            parameters: parameters.into(),
        })
    }

    /// See [`SystemSettings::endpoint_access`], for any kind.
    pub(crate) fn access_as(&self, kind: HttpKind) -> EndpointAccess {
        let fields = match &self.body {
            Some(Value::Object(fields)) => {
                fields.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
            }
            _ => Vec::new(),
        };
        EndpointAccess { fields, ..self.endpoint(kind, String::new(), None).access() }
    }

    /// Whether the messages before a question are sent.
    pub(super) fn sends_messages(&self) -> bool {
        let templates = self.templates();
        templates.is_ok_and(|templates| templates.placeholders().contains(&&Placeholder::Messages))
    }

    /// The names of the parameters that templates use.
    pub(crate) fn used_parameters(&self) -> BTreeSet<String> {
        let templates = self.templates().unwrap_or_default();
        let name = |placeholder: &Placeholder| match placeholder {
            Placeholder::Parameter(name) => Some(name.clone()),
            _ => None,
        };
        templates.placeholders().into_iter().filter_map(name).collect()
    }
}

/// Settings without those that belong to no key.
pub(super) fn key_settings(settings: &impl Serialize) -> Value {
    let mut settings = serde_json::to_value(settings).unwrap_or_default();
    if let Some(fields) = settings.as_object_mut() {
        fields.retain(|name, _| !OUTSIDE_KEY.contains(&name.as_str()));
    }
    settings
}

impl SystemSettings for Config {
    fn check(&self, parameters: &BTreeMap<String, Vec<Value>>) -> Result<(), String> {
        self.check_as(HTTP, parameters)
    }

    fn identity(&self, cx: &SystemContext<'_>) -> Result<Identity, Error> {
        self.identity_as(HTTP, cx)
    }

    fn key_settings(&self) -> Value {
        key_settings(self)
    }

    fn writes_answers(&self) -> bool {
        !self.answer.is_empty()
    }

    fn returns_passages(&self) -> bool {
        !self.passages.is_empty()
    }

    fn sends_history(&self) -> bool {
        self.sends_messages()
    }

    fn parameters(&self) -> Option<BTreeSet<String>> {
        Some(self.used_parameters())
    }

    fn endpoint_access(&self) -> Option<EndpointAccess> {
        Some(self.access_as(HTTP))
    }

    fn concurrency(&self) -> Option<usize> {
        self.concurrency
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
pub(super) mod tests;
