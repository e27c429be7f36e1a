//! One endpoint that speaks OpenAI's protocol, or something near it: requests
//! out, typed errors back, and no secret in either.

mod redact;
mod sse;
mod stream;

pub(super) use redact::Redactor;
pub(super) use stream::Ended;

use super::{
    Context,
    rate_headers::{RateHints, retry_after},
};
use crate::{Error, error::innermost};
use redact::REDACTED;
use reqwest::{
    StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
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
const SECRET_HEADERS: [&str; 5] = ["authorization", "proxy-authorization", "api-key", "x-api-key", "cookie"];
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
}

impl Settings<'_> {
    /// The base URL in its one spelling: what an identity shows.
    pub(super) fn base(&self) -> Result<String, Error> {
        if self.model.trim().is_empty() {
            return Err(Error::Config(
                "`model` is empty: give the name by which the endpoint knows the model".to_owned(),
            ));
        }
        if self.base_url.is_empty() {
            return Err(Error::Config(format!(
                "{}: `base_url` is missing, such as http://127.0.0.1:8000/v1",
                self.model
            )));
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
        if let Some(variable) = self.api_key_env {
            let key = self.secret(cx, variable, &mut secrets)?;
            headers.insert(reqwest::header::AUTHORIZATION, self.header_value(variable, &format!("Bearer {key}"))?);
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
            .build()
            .map_err(|error| Error::Config(format!("{}: no HTTP client: {}", self.model, innermost(&error))))?;
        let hints = Mutex::default();
        Ok(Endpoint { client, base, model: self.model.to_owned(), timeout, secrets, hints })
    }

    /// Whether the endpoint answers and takes the key.
    pub(super) async fn ready(&self, cx: &Context) -> Result<(), Error> {
        let endpoint = self.connect(cx)?;
        let started = Instant::now();
        let probe =
            endpoint.client.get(format!("{}/models", endpoint.base)).timeout(PROBE.min(endpoint.timeout)).send();
        let response = probe.await.map_err(|error| endpoint.broken(&error, started))?;
        // Not every server lists its models, so any answer is a sign of life
        // but one about the key or about its own health.
        match response.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(endpoint.refusal(response, started).await),
            status if status.is_server_error() => Err(endpoint.refusal(response, started).await),
            _ => Ok(()),
        }
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
    /// Sends a request and reads the answer as JSON.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let started = Instant::now();
        let sent = self.client.post(format!("{}/{path}", self.base)).json(body).send().await;
        let response = sent.map_err(|error| self.broken(&error, started))?;
        if !response.status().is_success() {
            return Err(self.refusal(response, started).await);
        }
        let hints = self.heard(response.headers(), started);
        let text = response.text().await.map_err(|error| self.broken(&error, started))?;
        self.read(text, hints)
    }

    /// An answer, or an event of one, as JSON without secrets.
    fn read(&self, text: String, hints: RateHints) -> Result<Value, Error> {
        let text = self.without_secrets(text);
        let answer: Value =
            serde_json::from_str(&text).map_err(|error| self.malformed(format!("not JSON: {error}")))?;
        // Some gateways report errors under status 200.
        match answer.get("error").filter(|error| !error.is_null()) {
            Some(_) => Err(self.reported(Said::read(&text), hints)),
            None => Ok(answer),
        }
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
    fn without_secrets(&self, mut text: String) -> String {
        for secret in self.long_secrets() {
            if text.contains(secret) {
                text = text.replace(secret, REDACTED);
            }
        }
        text
    }

    fn long_secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str).filter(|secret| secret.len() >= MIN_SECRET)
    }

    /// An answer that is not what the protocol says.
    pub(super) fn malformed(&self, reason: impl fmt::Display) -> Error {
        Error::Malformed { model: self.model.clone(), reason: self.shown(&reason.to_string()) }
    }

    /// An answer that was withheld.
    pub(super) fn filtered(&self, reason: &str) -> Error {
        Error::ContentFiltered { model: self.model.clone(), reason: self.shown(reason) }
    }

    fn broken(&self, error: &reqwest::Error, started: Instant) -> Error {
        if error.is_timeout() && !error.is_connect() {
            let after = Duration::from_millis(started.elapsed().as_millis() as u64);
            return Error::Timeout { model: self.model.clone(), after };
        }
        Error::Connection { endpoint: self.base.clone(), reason: self.shown(&innermost(error)) }
    }

    async fn refusal(&self, response: reqwest::Response, sent: Instant) -> Error {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let hints = self.heard(response.headers(), sent);
        // A body that breaks off says less, but the status says enough.
        let said = Said::read(&response.text().await.unwrap_or_default());
        self.classified(status, retry_after, hints, said)
    }

    /// An error that came under status 200.
    fn reported(&self, said: Said, hints: RateHints) -> Error {
        let status = said.code.parse().ok().filter(|code| (400..600).contains(code)).unwrap_or(500);
        self.classified(status, None, hints, said)
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
            401 | 403 => Error::Authentication { endpoint, message },
            429 => Error::RateLimited { endpoint, message, retry_after, hints: Box::new(hints) },
            400 | 413 | 422 if let Some((tokens, limit)) = said.context_overflow() => {
                Error::ContextTooLong { model: self.model.clone(), tokens, limit }
            }
            408 | 409 | 425 | 500.. => Error::Server { endpoint, status, message, retry_after },
            _ => Error::Refused { endpoint, status, message },
        }
    }

    /// Text of the other side, without our secrets, on one line, not too long.
    fn shown(&self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for secret in &self.secrets {
            text = text.replace(secret, REDACTED);
        }
        match text.char_indices().nth(MAX_MESSAGE) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

/// What a refusal says, in whichever of the usual envelopes.
#[derive(Debug, Default)]
struct Said {
    message: String,
    /// The type and code of the error, for recognising it.
    kind: String,
    code: String,
    body: Value,
}

impl Said {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, the flat form of older vLLM,
    /// `{"detail": …}`, `{"message": …}`, or plain text.
    fn read(text: &str) -> Self {
        let Ok(body) = serde_json::from_str::<Value>(text) else {
            return Self { message: text.to_owned(), ..Self::default() };
        };
        let error = match body.get("error") {
            Some(Value::Object(_)) => body["error"].clone(),
            _ => body.clone(),
        };
        let field = |name: &str| match error.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let plain = body.get("error").and_then(Value::as_str).map(str::to_owned);
        let detail =
            || error.get("detail").map(|detail| detail.as_str().map_or_else(|| detail.to_string(), str::to_owned));
        let message = plain.or_else(|| field("message")).or_else(detail).unwrap_or_else(|| text.to_owned());
        let kind = field("type").or_else(|| field("error_type")).unwrap_or_default();
        Self { message, kind, code: field("code").unwrap_or_default(), body: error }
    }

    fn is_content_filter(&self) -> bool {
        const KNOWN: [&str; 4] =
            ["content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "moderation_blocked"];
        let inner = self.body.pointer("/innererror/code").and_then(Value::as_str).unwrap_or_default();
        [self.code.as_str(), &self.kind, inner].iter().any(|text| KNOWN.iter().any(|known| text.contains(known)))
    }

    /// A used-up account looks like a rate limit or a bad request, but waiting
    /// does not help.
    fn is_quota(&self) -> bool {
        const KNOWN: [&str; 5] = [
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_balance",
            "quota_exceeded",
        ];
        let message = self.message.to_lowercase();
        KNOWN.iter().any(|known| self.code == *known || self.kind == *known)
            || ["exceeded your current quota", "credit balance is too low", "out of call volume quota"]
                .iter()
                .any(|known| message.contains(known))
    }

    /// Tokens asked for and tokens that fit, if that is what was refused;
    /// 0 where the message does not say.
    fn context_overflow(&self) -> Option<(usize, usize)> {
        const MARKS: [&str; 6] = [
            "maximum context length",
            "context_length_exceeded",
            "exceeds the context",
            "context size",
            "prompt is too long",
            "exceeds the maximum number of tokens",
        ];
        let message = self.message.to_lowercase();
        // llama.cpp's server says it in fields, the others in words.
        let field = |name: &str| self.body.get(name).and_then(Value::as_u64).map(|number| number as usize);
        if self.kind == "exceed_context_size_error" {
            return Some((field("n_prompt_tokens").unwrap_or_default(), field("n_ctx").unwrap_or_default()));
        }
        if self.code != "context_length_exceeded" && !MARKS.iter().any(|mark| message.contains(mark)) {
            return None;
        }
        // OpenAI names the limit first, Anthropic, Gemini and Mistral last:
        // what was asked for is more than what fits.
        let numbers = numbers(&message);
        let first = numbers.first().copied().unwrap_or_default();
        let more = numbers.iter().copied().find(|number| *number > first);
        let less = numbers.iter().copied().find(|number| *number < first);
        Some(match (more, less) {
            (Some(more), _) => (more, first),
            (None, Some(less)) => (first, less),
            (None, None) => (0, first),
        })
    }
}

/// The whole numbers of a text that can be counts of tokens.
fn numbers(text: &str) -> Vec<usize> {
    let digits = text.replace(',', "");
    digits
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .filter(|number| *number >= 16)
        .collect()
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
