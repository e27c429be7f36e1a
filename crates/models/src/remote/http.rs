//! One endpoint of a provider, or of another service: sends requests, and returns answers and errors
//! without secrets.

mod redact;
mod settings;
mod sse;
mod stream;

pub(super) use redact::Redactor;
use settings::is_loopback;
pub use settings::lacks_tls;
pub(super) use settings::{Conventions, DefaultEndpoint, EndpointSettings, MAX_RESPONSE, NO_QUERY, Probe};
pub(super) use stream::{StreamEnd, without_refusal};

use super::{
    functions,
    rate_headers::{self, retry_after},
    refusal::RefusalBody,
};
use crate::{
    Error, FunctionError, locked,
    model::{innermost, visible::on_one_line},
    trace,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use redact::REDACTED;
use reqwest::{
    StatusCode,
    header::{HeaderMap, LOCATION},
};
use serde_json::Value;
use std::{fmt, sync::Mutex, time::Duration};
use tokio::time::{Instant, timeout_at};

/// The longest message of the endpoint that an error repeats, in characters.
const MAX_MESSAGE: usize = 400;
/// Shorter secrets are not looked for in answers: they may be ordinary words.
const MIN_SECRET: usize = 8;
/// The most bytes that are read of a refusal; its message is at the beginning.
const MAX_REFUSAL: usize = 64 << 10;
/// A JSON value takes much more memory than text, so an answer may have at most
/// one value for this many bytes of its limit.
const BYTES_PER_VALUE: usize = 8;
/// No model reads or writes more tokens in one call; a larger count is ignored.
const MAX_TOKENS: u64 = 10_000_000;

/// An endpoint that is ready to be called.
pub(super) struct Endpoint {
    /// Sends the key and the other headers. It has no time limit for a whole answer: each request has its own.
    pub(super) client: reqwest::Client,
    base: String,
    /// The name of the endpoint in errors: its address, and for a system the setting that holds it.
    label: String,
    query: String,
    /// The name by which the endpoint knows the model; the section of a system.
    pub(super) model: String,
    /// How long one answer may take.
    pub(super) timeout: Duration,
    /// The largest answer, in bytes.
    max_response: usize,
    /// Secrets that are removed from all text of the endpoint.
    secrets: Vec<String>,
    /// The last announcement of limits. Calls run side by side and the latest
    /// announcement counts, so it belongs to the endpoint and not to a call.
    hints: Mutex<Option<executor::RateHints>>,
    /// Keeps the program's function served while this may call it.
    _function: Option<functions::FunctionLease>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("base", &self.base).field("model", &self.model).finish_non_exhaustive()
    }
}

/// An answer of an endpoint, which has not been read yet.
pub(super) struct RawAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// With secrets.
    pub(super) body: String,
}

/// A name of a model as one part of the path of an address, whatever characters it has.
pub(super) fn path_segment(model: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(model, KEPT).to_string()
}

impl Endpoint {
    /// The address of this path, which may have parameters.
    pub(super) fn url(&self, path: &str) -> String {
        let mark = match (self.query.is_empty(), path.contains('?')) {
            (true, _) => "",
            (false, false) => "?",
            (false, true) => "&",
        };
        format!("{}/{path}{mark}{}", self.base, self.query)
    }

    /// The address in its normal form, without parameters.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    fn request(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        traced(self.client.post(self.url(path)).json(body))
    }

    /// Sends a request and reads the answer as JSON.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let answer = self.send(self.client.post(self.url(path)).json(body)).await?;
        self.read(answer.body)
    }

    /// Sends a request and waits for the whole answer.
    pub(super) async fn send(&self, request: reqwest::RequestBuilder) -> Result<RawAnswer, Error> {
        let started = Instant::now();
        let sent = traced(request).timeout(self.timeout).send().await;
        let mut response = sent.map_err(|error| self.broken(error, started))?;
        if !response.status().is_success() {
            return Err(self.read_refusal(response, started).await);
        }
        self.record_hints(response.headers(), started);
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        Ok(RawAnswer { status, headers, body: self.body(response, started).await? })
    }

    /// The whole body of an answer, unless it is larger than it may be.
    async fn body(&self, mut response: reqwest::Response, started: Instant) -> Result<String, Error> {
        let mut body = Vec::new();
        // The announced length avoids reading the answer in vain.
        self.within_limit(response.content_length().unwrap_or_default(), 0)?;
        while let Some(part) = response.chunk().await.map_err(|error| self.broken(error, started))? {
            self.within_limit(part.len() as u64, body.len())?;
            body.extend_from_slice(&part);
        }
        Ok(String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Whether the answer may have this many more bytes after those before.
    pub(super) fn within_limit(&self, more: u64, before: usize) -> Result<(), Error> {
        match more.saturating_add(before as u64) > self.max_response as u64 {
            true => Err(Error::TooLarge { model: self.model.clone(), limit: self.max_response }),
            false => Ok(()),
        }
    }

    /// An answer, or an event of one, as JSON without secrets.
    fn read(&self, text: String) -> Result<Value, Error> {
        let answer = self.parse(text)?;
        match self.error_in(&answer) {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    /// Text as JSON without secrets.
    pub(super) fn parse(&self, text: String) -> Result<Value, Error> {
        let text = self.without_secrets(text);
        let values = text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
        if values > self.max_response / BYTES_PER_VALUE {
            return Err(self.malformed("its JSON has too many values for `max_response_bytes`"));
        }
        // serde_json refuses more than 128 levels of nesting.
        serde_json::from_str(&text).map_err(|error| self.malformed(format!("not JSON: {error}")))
    }

    /// The error in an answer with status 200, as some gateways report it.
    pub(super) fn error_in(&self, answer: &Value) -> Option<Error> {
        answer.get("error").filter(|error| !error.is_null())?;
        Some(self.error_in_200(&answer.to_string()))
    }

    /// The last announcement of the limits.
    pub(super) fn hints(&self) -> Option<executor::RateHints> {
        *locked(&self.hints)
    }

    /// Stores the announcement of an answer, unless that of a later call came first.
    fn record_hints(&self, headers: &HeaderMap, sent: Instant) {
        let mut last = locked(&self.hints);
        if last.is_none_or(|last| last.sent <= sent) {
            *last = rate_headers::read(headers, sent).or(*last);
        }
    }

    /// Removes secrets from an answer, because a gateway may send our headers back. Applied to the JSON and to the
    /// text in it, because JSON may spell a secret in another way.
    pub(super) fn without_secrets(&self, mut text: String) -> String {
        for secret in self.long_secrets() {
            if text.contains(secret) {
                text = text.replace(secret, REDACTED);
            }
        }
        text
    }

    /// Whether an answer could hold a secret.
    pub(super) fn has_long_secrets(&self) -> bool {
        self.long_secrets().next().is_some()
    }

    fn long_secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str).filter(|secret| secret.len() >= MIN_SECRET)
    }

    /// The error for an answer that does not follow the protocol.
    pub(super) fn malformed(&self, reason: impl fmt::Display) -> Error {
        Error::malformed(&self.model, self.shown(&reason.to_string()))
    }

    /// An answer that calls a tool instead of saying anything. No request offers tools.
    pub(super) fn called_tool(&self) -> Error {
        let reason = "it called a tool, and no tool was offered; check `extra`, or name another model".to_owned();
        Error::NoText { model: self.model.clone(), reason }
    }

    /// An answer that was withheld.
    pub(super) fn filtered(&self, reason: &str) -> Error {
        Error::ContentFiltered { model: self.model.clone(), reason: self.shown(reason) }
    }

    pub(super) fn broken(&self, error: reqwest::Error, started: Instant) -> Error {
        if error.is_timeout() && !error.is_connect() {
            let after = Duration::from_millis(started.elapsed().as_millis() as u64);
            return Error::Timeout { model: self.model.clone(), after };
        }
        Error::connection(&self.label, BrokenConnection { shown: self.shown(&innermost(&error).to_string()), error })
    }

    async fn read_refusal(&self, mut response: reqwest::Response, sent: Instant) -> Error {
        let (status, headers) = (response.status(), response.headers().clone());
        // If the body breaks off or is slow, the status says enough.
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(part)) = response.chunk().await
                && body.len() < MAX_REFUSAL
            {
                body.extend_from_slice(&part[..part.len().min(MAX_REFUSAL - body.len())]);
            }
        };
        let _ = timeout_at(sent + self.timeout, read).await;
        self.error_of_status(status, &headers, &String::from_utf8_lossy(&body), sent)
    }

    /// The error that an answer with this status means.
    pub(super) fn error_of_status(&self, status: StatusCode, headers: &HeaderMap, text: &str, sent: Instant) -> Error {
        self.record_hints(headers, sent);
        if status.is_redirection() {
            let location = headers
                .get(LOCATION)
                .map_or_else(String::new, |to| self.shown(&String::from_utf8_lossy(to.as_bytes())));
            return Error::Redirected { endpoint: self.label.clone(), status: status.as_u16(), location };
        }
        let said = RefusalBody::read(text).with_kind_of(headers);
        let retry_after = retry_after(headers).or_else(|| said.retry_after());
        self.classify(status.as_u16(), retry_after, said)
    }

    /// The error that came with status 200.
    pub(super) fn error_in_200(&self, text: &str) -> Error {
        let said = RefusalBody::read(text);
        self.classify(said.status(), said.retry_after(), said)
    }

    fn classify(&self, status: u16, retry_after: Option<Duration>, said: RefusalBody) -> Error {
        let endpoint = self.label.clone();
        let message = match self.shown(&said.message) {
            message if message.is_empty() => "no reason given".to_owned(),
            message => message,
        };
        // Functions are served on this machine only, so no other endpoint may claim to be one. A rate limit that a
        // function meets stays a rate limit: the limiter then slows down, and waiting does not count as a failure.
        if status != 429
            && is_loopback(&self.base)
            && let Some(failed) = said.function()
        {
            return Error::Function(Box::new(FunctionError { retry_after, ..failed }));
        }
        if said.is_content_filter() {
            return Error::ContentFiltered { model: self.model.clone(), reason: message };
        }
        match status {
            402 => Error::QuotaExhausted { endpoint, message },
            400 | 403 | 429 if said.is_quota() => Error::QuotaExhausted { endpoint, message },
            400 if said.is_bad_key() => Error::Authentication { endpoint, message },
            401 | 403 => Error::Authentication { endpoint, message },
            429 => Error::RateLimited { endpoint, message, retry_after },
            400 | 413 | 422 if let Some((tokens, limit)) = said.context_overflow() => {
                Error::ContextTooLong { model: self.model.clone(), tokens, limit }
            }
            // AWS sends 424 if the model failed.
            408 | 409 | 424 | 425 | 500.. => Error::Server { endpoint, status, message, retry_after },
            _ => Error::Refused { endpoint, status, message },
        }
    }

    /// Text of the endpoint for an error: without our secrets, on one line,
    /// with control characters visible, not too long.
    fn shown(&self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for secret in &self.secrets {
            text = text.replace(secret, REDACTED);
        }
        on_one_line(&text, MAX_MESSAGE)
    }
}

/// The request with the headers that name the span that it belongs to.
fn traced(request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    trace::headers().into_iter().fold(request, |request, (name, value)| request.header(name, value))
}

/// Why there is no connection: the system's message, which is the innermost
/// cause. The causes above it repeat the address, and are not shown.
#[derive(Debug)]
struct BrokenConnection {
    /// The text of the innermost cause, in the form in which errors show text from outside.
    shown: String,
    error: reqwest::Error,
}

impl fmt::Display for BrokenConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::error::Error for BrokenConnection {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // A cause in which something had to be hidden is not shown either.
        Some(innermost(&self.error)).filter(|cause| cause.to_string() == self.shown)
    }
}

/// A count of tokens in an answer; none if it is negative, not an integer, or
/// larger than any call can be.
pub(super) fn token_count(answer: &Value, pointer: &str) -> Option<u64> {
    plausible_tokens(answer.pointer(pointer)?.as_u64()?)
}

/// A count of tokens, if it is possible for a call.
pub(super) fn plausible_tokens(count: u64) -> Option<u64> {
    (count <= MAX_TOKENS).then_some(count)
}

#[cfg(test)]
#[path = "http_tests.rs"]
pub(super) mod tests;
