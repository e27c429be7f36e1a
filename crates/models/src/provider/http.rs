//! One endpoint of a provider: requests out, typed errors back, and no secret
//! in either.

use super::{
    Context,
    rate_headers::{RateHints, retry_after},
    refusal::Said,
};
use crate::{Error, error::innermost};
use reqwest::{
    StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// A header's value that begins so is the name of a variable.
const FROM_ENVIRONMENT: &str = "env:";
/// Headers whose value is a secret, so that it may not stand in a file.
const SECRET_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"];
/// The same for parameters of the address: they are shown where the address is.
const SECRET_PARAMETERS: [&str; 5] = ["key", "api_key", "api-key", "access_token", "sig"];
const NO_QUERY: &BTreeMap<String, String> = &BTreeMap::new();
/// The longest message of the other side that an error repeats, in characters.
const MAX_MESSAGE: usize = 400;
/// Shorter secrets are not looked for in answers: they may be ordinary words.
const MIN_SECRET: usize = 8;
/// How long `ready` waits for a sign of life.
const PROBE: Duration = Duration::from_secs(10);

/// The part of a remote model's settings that is about its endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) model: &'a str,
    pub(super) base_url: &'a str,
    pub(super) api_key_env: Option<&'a str>,
    pub(super) headers: &'a BTreeMap<String, String>,
    pub(super) timeout_seconds: f64,
    pub(super) connect_timeout_seconds: f64,
    /// Parameters after the address, such as `api-version`.
    pub(super) query: &'a BTreeMap<String, String>,
    pub(super) manner: Manner,
}

/// What a provider's endpoints want, whatever the settings are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// What a base URL looks like, for whoever left it out.
    pub(super) example: &'static str,
    /// The header that takes the key as it is; a bearer token if there is none.
    pub(super) key_header: Option<&'static str>,
    /// Headers of every request.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// How to find out at no cost whether it answers and takes the key.
    pub(super) probe: Probe,
}

/// A request that costs nothing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Probe {
    /// Asks for the list of models.
    Models,
    /// Sends what is no conversation to this path of a model, for endpoints
    /// that list nothing: they look at the key first, and then refuse it.
    Nonsense(fn(&str) -> String),
}

impl Manner {
    pub(super) const OPENAI: Self =
        Self { example: "http://127.0.0.1:8000/v1", key_header: None, headers: &[], probe: Probe::Models };
}

impl Settings<'_> {
    /// The settings of nobody's endpoint, to be completed.
    pub(super) const PLAIN: Settings<'static> = Settings {
        model: "",
        base_url: "",
        api_key_env: None,
        headers: NO_QUERY,
        timeout_seconds: 60.0,
        connect_timeout_seconds: 5.0,
        query: NO_QUERY,
        manner: Manner::OPENAI,
    };

    /// The base URL in its one spelling: what an identity shows.
    pub(super) fn base(&self) -> Result<String, Error> {
        if self.model.trim().is_empty() {
            return Err(Error::Config(
                "`model` is empty: give the name by which the endpoint knows the model".to_owned(),
            ));
        }
        if self.base_url.is_empty() {
            let example = self.manner.example;
            return Err(Error::Config(format!("{}: `base_url` is missing, such as {example}", self.model)));
        }
        let problem = |reason: &str| Error::Config(format!("{}: `base_url` {reason}", self.model));
        let url = Url::parse(self.base_url).map_err(|error| problem(&format!("is no address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(problem("must begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(problem(
                "must hold no user, password or query: name the variable that holds the key in `api_key_env`",
            ));
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }

    /// Reads the secrets and checks everything that can be checked here.
    pub(super) fn connect(&self, cx: &Context) -> Result<Endpoint, Error> {
        let base = self.base()?;
        let timeout = self.duration("timeout_seconds", self.timeout_seconds)?;
        let connect_timeout = self.duration("connect_timeout_seconds", self.connect_timeout_seconds)?;
        let mut secrets = Vec::new();
        let mut headers = HeaderMap::new();
        for (name, value) in self.manner.headers {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        // An empty name is how a default is unset: the endpoint wants no key.
        if let Some(variable) = self.api_key_env.filter(|variable| !variable.is_empty()) {
            let key = self.secret(cx, variable, &mut secrets)?;
            let (header, value) = match self.manner.key_header {
                Some(name) => (HeaderName::from_static(name), key),
                None => (reqwest::header::AUTHORIZATION, format!("Bearer {key}")),
            };
            headers.insert(header, self.header_value(variable, &value)?);
        }
        for (name, value) in self.headers {
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| Error::Config(format!("{}: `{name}` cannot be the name of a header", self.model)))?;
            let value = match value.strip_prefix(FROM_ENVIRONMENT) {
                Some(variable) => self.secret(cx, variable, &mut secrets)?,
                None if SECRET_HEADERS.contains(&header.as_str()) => {
                    return Err(Error::Config(format!(
                        "{}: the value of the header `{name}` is a secret: put it into a variable and write \
                         \"env:VARIABLE\"",
                        self.model
                    )));
                }
                None => value.clone(),
            };
            headers.insert(header, self.header_value(name, &value)?);
        }
        // One secret may hold another: the longer one is removed first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let client = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(connect_timeout)
            .timeout(timeout)
            .user_agent(concat!("reverie/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry prompts to a host that nobody named.
            .redirect(reqwest::redirect::Policy::none())
            // Answers as they are, whatever else is compiled in.
            .no_gzip()
            .build()
            .map_err(|error| Error::Config(format!("{}: no HTTP client: {}", self.model, innermost(&error))))?;
        let query = self.query()?;
        let hints = Mutex::default();
        Ok(Endpoint { client, base, query, model: self.model.to_owned(), timeout, secrets, hints })
    }

    /// Whether the endpoint answers and takes the key.
    pub(super) async fn ready(&self, cx: &Context) -> Result<(), Error> {
        let endpoint = self.connect(cx)?;
        let started = Instant::now();
        let probe = match self.manner.probe {
            Probe::Models => endpoint.client.get(endpoint.url("models")),
            Probe::Nonsense(path) => {
                endpoint.client.post(endpoint.url(&path(self.model))).json(&json!({ "messages": 0 }))
            }
        };
        let probe = probe.timeout(PROBE.min(endpoint.timeout)).send();
        let response = probe.await.map_err(|error| endpoint.broken(&error, started))?;
        if response.status().is_success() {
            return Ok(());
        }
        // Not every server lists its models, so any answer is a sign of life
        // but one about the key, the account or the server's own health.
        match endpoint.refusal(response, started).await {
            error @ (Error::Authentication { .. } | Error::QuotaExhausted { .. }) => Err(error),
            error @ Error::Server { status: 500.., .. } => Err(error),
            _ => Ok(()),
        }
    }

    /// What follows the `?` of every address, with it; nothing without parameters.
    fn query(&self) -> Result<String, Error> {
        if let Some(name) = self.query.keys().find(|name| SECRET_PARAMETERS.contains(&name.to_lowercase().as_str())) {
            return Err(Error::Config(format!(
                "{}: `query.{name}` is a secret: name the variable that holds the key in `api_key_env`",
                self.model
            )));
        }
        if self.query.is_empty() {
            return Ok(String::new());
        }
        let url = Url::parse_with_params("http://any", self.query)
            .map_err(|error| Error::Config(format!("{}: `query` cannot be sent: {error}", self.model)))?;
        Ok(format!("?{}", url.query().unwrap_or_default()))
    }

    fn duration(&self, name: &str, seconds: f64) -> Result<Duration, Error> {
        let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
        duration
            .ok_or_else(|| Error::Config(format!("{}: `{name}` must be above 0 seconds, not {seconds}", self.model)))
    }

    fn secret(&self, cx: &Context, variable: &str, secrets: &mut Vec<String>) -> Result<String, Error> {
        let value = (cx.environment)(variable).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let missing = || Error::MissingKey { variable: variable.to_owned(), model: self.model.to_owned() };
        let value = value.ok_or_else(missing)?;
        secrets.push(value.clone());
        Ok(value)
    }

    /// The error names the setting only: the value may be a secret.
    fn header_value(&self, name: &str, value: &str) -> Result<HeaderValue, Error> {
        let mut header = HeaderValue::from_str(value)
            .map_err(|_| Error::Config(format!("{}: the value of `{name}` cannot be sent in a header", self.model)))?;
        header.set_sensitive(true);
        Ok(header)
    }
}

/// An endpoint that is ready to be called.
pub(super) struct Endpoint {
    client: reqwest::Client,
    base: String,
    query: String,
    model: String,
    timeout: Duration,
    /// To be removed from whatever the other side says.
    secrets: Vec<String>,
    /// What the last answer said of the limits. With calls side by side the
    /// last word is what counts, so it belongs to the endpoint.
    hints: Mutex<Option<executor::RateHints>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("base", &self.base).field("model", &self.model).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// What sends requests: with the key, the other headers and the timeouts.
    #[cfg(feature = "providers")]
    pub(super) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// The address of what lies under this path.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}/{path}{}", self.base, self.query)
    }

    /// Sends a request and reads the answer as JSON.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let started = Instant::now();
        let sent = self.client.post(self.url(path)).json(body).send().await;
        let response = sent.map_err(|error| self.broken(&error, started))?;
        if !response.status().is_success() {
            return Err(self.refusal(response, started).await);
        }
        let hints = self.heard(response.headers(), started);
        let text = response.text().await.map_err(|error| self.broken(&error, started))?;
        let text = self.without_secrets(text);
        let answer: Value =
            serde_json::from_str(&text).map_err(|error| self.malformed(format!("not JSON: {error}")))?;
        match self.error_in(&answer, hints) {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    /// The error in an answer with status 200, as some gateways report it.
    pub(super) fn error_in(&self, answer: &Value, hints: RateHints) -> Option<Error> {
        answer.get("error").filter(|error| !error.is_null())?;
        let said = Said::read(&answer.to_string());
        let status = said.code.parse().ok().filter(|code| (400..600).contains(code)).unwrap_or(500);
        Some(self.classified(status, None, hints, said))
    }

    /// What the last answer that said anything told of the limits.
    pub(super) fn hints(&self) -> Option<executor::RateHints> {
        *self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what an answer says, unless that to a later call was faster.
    fn heard(&self, headers: &HeaderMap, sent: Instant) -> RateHints {
        let hints = RateHints::read(headers);
        let mut last = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        if !hints.is_empty() && last.is_none_or(|last| last.sent <= sent) {
            *last = Some(hints.of_call(sent));
        }
        hints
    }

    /// An answer as it may be kept: a gateway may send our headers back.
    pub(super) fn without_secrets(&self, mut text: String) -> String {
        for secret in self.secrets.iter().filter(|secret| secret.len() >= MIN_SECRET) {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "[redacted]");
            }
        }
        text
    }

    /// An answer that is not what the protocol says.
    pub(super) fn malformed(&self, reason: impl fmt::Display) -> Error {
        Error::Malformed { model: self.model.clone(), reason: self.shown(&reason.to_string()) }
    }

    /// An answer that was withheld.
    pub(super) fn filtered(&self, reason: &str) -> Error {
        Error::ContentFiltered { model: self.model.clone(), reason: self.shown(reason) }
    }

    pub(super) fn broken(&self, error: &reqwest::Error, started: Instant) -> Error {
        if error.is_timeout() && !error.is_connect() {
            let after = Duration::from_millis(started.elapsed().as_millis() as u64);
            return Error::Timeout { model: self.model.clone(), after };
        }
        Error::Connection { endpoint: self.base.clone(), reason: self.shown(&innermost(error)) }
    }

    async fn refusal(&self, response: reqwest::Response, sent: Instant) -> Error {
        let (status, headers) = (response.status(), response.headers().clone());
        // A body that breaks off says less, but the status says enough.
        let text = response.text().await.unwrap_or_default();
        self.refused(status, &headers, &text, sent)
    }

    /// What an answer with such a status means.
    pub(super) fn refused(&self, status: StatusCode, headers: &HeaderMap, text: &str, sent: Instant) -> Error {
        let hints = self.heard(headers, sent);
        let said = Said::read(text).named_by(headers);
        let retry_after = retry_after(headers).or_else(|| said.retry_after());
        self.classified(status.as_u16(), retry_after, hints, said)
    }

    fn classified(&self, status: u16, retry_after: Option<Duration>, hints: RateHints, said: Said) -> Error {
        let endpoint = self.base.clone();
        let message = match self.shown(&said.message) {
            message if message.is_empty() => "no reason given".to_owned(),
            message => message,
        };
        if said.is_content_filter() {
            return Error::ContentFiltered { model: self.model.clone(), reason: message };
        }
        match status {
            402 => Error::QuotaExhausted { endpoint, message },
            400 | 403 | 429 if said.is_quota() => Error::QuotaExhausted { endpoint, message },
            400 if said.is_bad_key() => Error::Authentication { endpoint, message },
            401 | 403 => Error::Authentication { endpoint, message },
            429 => Error::RateLimited { endpoint, message, retry_after, hints: Box::new(hints) },
            400 | 413 | 422 if let Some((tokens, limit)) = said.context_overflow() => {
                Error::ContextTooLong { model: self.model.clone(), tokens, limit }
            }
            // 424 is how AWS says that the model failed.
            408 | 409 | 424 | 425 | 500.. => Error::Server { endpoint, status, message, retry_after },
            _ => Error::Refused { endpoint, status, message },
        }
    }

    /// Text of the other side, without our secrets, on one line, not too long.
    fn shown(&self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for secret in &self.secrets {
            text = text.replace(secret, "[redacted]");
        }
        match text.char_indices().nth(MAX_MESSAGE) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

/// A rough count for models whose tokenizer is not here: 4 Latin characters
/// or one and a half others make a token.
pub(crate) fn estimated_tokens(text: &str) -> usize {
    let n_ascii = text.bytes().filter(u8::is_ascii).count();
    let n_other = text.chars().filter(|c| !c.is_ascii()).count();
    n_ascii.div_ceil(4) + (n_other * 2).div_ceil(3)
}

#[cfg(test)]
#[path = "http_tests.rs"]
pub(super) mod tests;
