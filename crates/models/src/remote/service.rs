//! Programs behind HTTP that are no models, such as another RAG system: any method, JSON or parameters of the address
//! as the request, JSON as the reply. Their endpoint is checked, called and limited like that of a model.

use super::{
    endpoint::RemoteModel,
    http::{Conventions, Endpoint, EndpointSettings, MAX_RESPONSE, RawAnswer},
};
use crate::{
    EndpointAccess, EndpointLimits, Error, Identity, Limits, Model, ServiceReply, model::visible::on_one_line,
    provider::ModelContext,
};
use reqwest::{
    Method, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, time::Instant};

/// The characters of a reply that cannot be read which its error repeats.
const SHOWN: usize = 80;

/// The settings of a program behind HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonEndpointSettings {
    /// How messages name it: the section with its settings, such as `[systems.app]`.
    pub section: String,
    /// The whole address of its calls, without parameters. It is used as it is.
    pub url: String,
    /// The setting that holds the address, for messages. Default `url`.
    pub address_setting: &'static str,
    /// The HTTP method. Default `POST`.
    pub method: String,
    /// Headers of every call. A value `env:NAME` is read from that variable.
    pub headers: BTreeMap<String, String>,
    /// Parameters of the address as the settings write them. They are only checked for secrets, which are not allowed
    /// there; each call brings its own.
    pub query: BTreeMap<String, String>,
    /// The environment variable that holds the key, which is sent as a bearer token; none if it wants no key.
    pub api_key_env: Option<String>,
    /// Whether a key may be sent to another machine over `http://`. Default false.
    pub plain_http: bool,
    /// How long one call may take, in seconds. Default 120.
    pub timeout_seconds: f64,
    /// How long the connection may take, in seconds. Default 10.
    pub connect_timeout_seconds: f64,
    /// Whether a call that timed out is made again. Default true.
    pub retry_timeouts: bool,
    /// The largest reply, in bytes. Default 16 MiB.
    pub max_response_bytes: usize,
    /// Calls in flight at most; learned if left out.
    pub concurrency: Option<usize>,
    /// The known limits.
    pub limits: EndpointLimits,
    /// Headers of a reply that are kept with it, in lower case.
    pub kept_headers: Vec<String>,
}

impl Default for JsonEndpointSettings {
    fn default() -> Self {
        Self {
            section: String::new(),
            url: String::new(),
            address_setting: "url",
            method: Method::POST.to_string(),
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            api_key_env: None,
            plain_http: false,
            timeout_seconds: 120.0,
            connect_timeout_seconds: 10.0,
            retry_timeouts: true,
            max_response_bytes: MAX_RESPONSE,
            concurrency: None,
            limits: EndpointLimits::default(),
            kept_headers: Vec::new(),
        }
    }
}

impl JsonEndpointSettings {
    /// The address in its normal form, for an identity.
    ///
    /// # Errors
    /// The address is missing, or cannot be one.
    pub fn address(&self, cx: &ModelContext) -> Result<String, Error> {
        self.endpoint().base(cx)
    }

    /// What is sent to the endpoint besides requests.
    pub fn access(&self) -> EndpointAccess {
        self.endpoint().access()
    }

    fn endpoint(&self) -> EndpointSettings<'_> {
        EndpointSettings {
            model: &self.section,
            base_url: &self.url,
            api_key_env: self.api_key_env.as_deref(),
            headers: &self.headers,
            plain_http: self.plain_http,
            timeout_seconds: self.timeout_seconds,
            connect_timeout_seconds: self.connect_timeout_seconds,
            max_response_bytes: self.max_response_bytes,
            concurrency: self.concurrency,
            limits: self.limits,
            query: &self.query,
            conventions: Conventions {
                example: "http://127.0.0.1:8000/ask",
                headers: &[("accept", "application/json")],
                system_address: Some(self.address_setting),
                ..Conventions::DEFAULT
            },
        }
    }

    /// These settings for a request to another address: with the secrets only if the server is the same.
    fn at(&self, url: &str, setting: &'static str) -> Self {
        let mut settings = Self { url: url.to_owned(), address_setting: setting, ..self.clone() };
        let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
        if origin(url).is_none() || origin(url) != origin(&self.url) {
            settings.api_key_env = None;
            settings.headers.retain(|_, value| !value.starts_with("env:"));
        }
        settings
    }
}

/// A program behind HTTP that can be called.
pub struct JsonEndpoint {
    remote: RemoteModel<Method>,
    address: Url,
    settings: JsonEndpointSettings,
    /// Builds the endpoint of the version, which may be another server.
    context: ModelContext,
}

impl fmt::Debug for JsonEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonEndpoint").field("endpoint", &self.remote.endpoint).finish_non_exhaustive()
    }
}

impl JsonEndpoint {
    /// An endpoint that is ready to be called. Reads the secrets.
    ///
    /// # Errors
    /// A setting that cannot work, or a variable that is not set.
    pub fn new(identity: Identity, settings: JsonEndpointSettings, cx: &ModelContext) -> Result<Self, Error> {
        let method = Method::from_bytes(settings.method.to_uppercase().as_bytes()).map_err(|_| {
            let method = &settings.method;
            Error::bad_settings(
                &settings.section,
                format_args!("`method` is no HTTP method: `{method}`; write such as \"POST\""),
            )
        })?;
        let remote = RemoteModel::new(identity, &settings.endpoint(), cx, |_| Ok(method))?;
        let address = parsed(&settings.section, remote.endpoint.base())?;
        Ok(Self { remote, address, settings, context: cx.clone() })
    }

    /// Sends one request, with these parameters of the address and this body, and waits for the reply.
    ///
    /// # Errors
    /// No reply in time, a refusal, or a reply that is larger than allowed or no JSON.
    pub async fn call(&self, query: &BTreeMap<String, String>, body: Option<&Value>) -> Result<ServiceReply, Error> {
        let endpoint = &self.remote.endpoint;
        let mut url = self.address.clone();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = endpoint.client.request(self.remote.kind.clone(), url);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let started = Instant::now();
        let answer = endpoint.send(request).await.map_err(|error| self.explained(error))?;
        let seconds = started.elapsed().as_secs_f64();
        let headers = self.kept_headers(&answer.headers);
        Ok(ServiceReply { body: self.read(answer)?, headers, seconds })
    }

    /// The text at another address, which is asked for by GET; its secrets are removed. Secret headers of the
    /// settings are sent only to the server of [`JsonEndpointSettings::url`]. Messages call the address `setting`.
    ///
    /// # Errors
    /// No reply in time, a refusal, a reply that is larger than allowed, or a page for people.
    pub async fn get_text(&self, url: &str, setting: &'static str) -> Result<String, Error> {
        let settings = self.settings.at(url, setting);
        let endpoint = settings.endpoint().build_endpoint(&self.context)?;
        let answer = endpoint.send(endpoint.client.get(parsed(&settings.section, endpoint.base())?)).await?;
        if is_page(&answer) {
            return Err(endpoint.malformed(format_args!("HTML, and not a version: check `{setting}`")));
        }
        Ok(endpoint.without_secrets(answer.body))
    }

    /// The error, with what only this endpoint knows: whether to try again, and the whole address.
    fn explained(&self, error: Error) -> Error {
        match error {
            Error::Timeout { model, after } if !self.settings.retry_timeouts => Error::FinalTimeout { model, after },
            // `/ask/` alone is easily overlooked.
            Error::Redirected { endpoint, status, location } => {
                let location = self.address.join(&location).map_or(location, String::from);
                Error::Redirected { endpoint, status, location }
            }
            error => error,
        }
    }

    /// The reply as JSON, in which nothing is secret.
    fn read(&self, answer: RawAnswer) -> Result<Value, Error> {
        let (endpoint, setting) = (&self.remote.endpoint, self.settings.address_setting);
        if answer.status == StatusCode::NO_CONTENT || answer.body.trim().is_empty() {
            let status = answer.status.as_u16();
            return Err(endpoint.malformed(format_args!(
                "it is empty (status {status}): check `{setting}`, and that this call returns its reply as JSON"
            )));
        }
        if is_page(&answer) {
            return Err(self.not_json(format!("it sent HTML, not JSON: check `{setting}`")));
        }
        if media_type(&answer) == "text/event-stream" {
            let reason =
                "it sent a stream of events, which is not read: have it return its reply in one piece, as JSON";
            return Err(self.not_json(reason.to_owned()));
        }
        let start = on_one_line(&endpoint.without_secrets(beginning(&answer.body)), SHOWN);
        let mut reply = endpoint.parse(answer.body).map_err(|error| match error {
            Error::Malformed { reason, .. } if reason.starts_with("not JSON") => {
                endpoint.malformed(format_args!("{reason}; it begins with: {start}"))
            }
            error => error,
        })?;
        if let Some(error) = reply.get("error").filter(|error| !is_blank(error)).and_then(|_| endpoint.error_in(&reply))
        {
            return Err(error);
        }
        if endpoint.has_long_secrets() {
            remove_secrets(endpoint, &mut reply);
        }
        Ok(reply)
    }

    /// A reply of another kind than JSON.
    fn not_json(&self, reason: String) -> Error {
        Error::NotJson { model: self.settings.section.clone(), reason }
    }

    fn kept_headers(&self, headers: &HeaderMap) -> BTreeMap<String, String> {
        let kept = self.settings.kept_headers.iter().filter_map(|name| {
            let value = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
            Some((name.to_lowercase(), self.remote.endpoint.without_secrets(value)))
        });
        kept.collect()
    }
}

impl Model for JsonEndpoint {
    fn identity(&self) -> &Identity {
        self.remote.identity()
    }

    fn concurrency(&self) -> usize {
        self.remote.concurrency()
    }

    fn rate_hints(&self) -> Option<executor::RateHints> {
        self.remote.rate_hints()
    }

    fn account(&self) -> &str {
        self.remote.account()
    }

    fn limits(&self) -> Limits {
        self.remote.limits()
    }
}

fn parsed(section: &str, address: &str) -> Result<Url, Error> {
    Url::parse(address).map_err(|error| Error::bad_settings(section, format_args!("{address} is no address: {error}")))
}

/// The type of an answer, without its parameters, in lower case; empty if it has none.
fn media_type(answer: &RawAnswer) -> String {
    let value = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_lowercase()
}

/// Whether an answer is a page for people, such as that of a proxy or of a login.
fn is_page(answer: &RawAnswer) -> bool {
    let start: String = answer.body.trim_start().chars().take(16).collect::<String>().to_lowercase();
    let is_json = start.starts_with(['{', '[', '"']);
    start.starts_with("<!doctype html") || start.starts_with("<html") || (media_type(answer) == "text/html" && !is_json)
}

/// The first characters of a text.
fn beginning(text: &str) -> String {
    // More than is shown, because a secret may be cut in half at its end.
    text.chars().take(SHOWN * 8).collect()
}

/// Values that programs write into `error` if there is none.
fn is_blank(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// JSON may spell a secret in another way than the text that was searched before.
fn remove_secrets(endpoint: &Endpoint, value: &mut Value) {
    match value {
        Value::String(text) => *text = endpoint.without_secrets(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| remove_secrets(endpoint, item)),
        Value::Object(fields) => {
            let clean = |(name, mut value)| {
                remove_secrets(endpoint, &mut value);
                (endpoint.without_secrets(name), value)
            };
            *fields = std::mem::take(fields).into_iter().map(clean).collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
