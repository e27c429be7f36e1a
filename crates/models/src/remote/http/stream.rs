//! Answers that an endpoint sends piece by piece, as server-sent events.
//!
//! A complete answer may take `timeout_seconds`. In a streamed answer, which
//! shows its progress, that is the longest silence before the first event and
//! between two events; the whole answer may take [`PATIENCE`] times as long. All
//! its events together may be no larger than a complete answer.

use super::{
    Endpoint,
    redact::Redactor,
    sse::{SseEvent, SseParser},
};
use crate::Error;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A streamed answer may take this many times the longest silence.
const PATIENCE: u32 = 10;
/// The last event in OpenAI's protocol.
const DONE: &str = "[DONE]";

/// How a stream ended. The protocol decides whether that was also the end of
/// the answer.
#[derive(Debug)]
pub(crate) enum StreamEnd {
    /// The server sent a complete answer instead of a stream.
    Whole(Value),
    /// The server said that this was the end.
    Done,
    /// The server closed the stream without saying so.
    Closed,
    /// The connection broke, or nothing arrived any more.
    Broken(Error),
}

impl Endpoint {
    /// Sends a request and hands each event to `take`, by name and as JSON,
    /// until the end.
    ///
    /// # Errors
    /// A refusal, before the stream or as an event in it; an event that is no
    /// JSON; an error of `take`.
    pub(crate) async fn stream(
        &self,
        path: &str,
        body: &Value,
        mut take: impl FnMut(&str, &Value) -> Result<(), Error>,
    ) -> Result<StreamEnd, Error> {
        let started = Instant::now();
        let sent = self.request(path, body).timeout(self.patience()).send();
        let sent = timeout_at(started + self.timeout, sent).await.map_err(|_| self.timed_out())?;
        let mut response = sent.map_err(|error| self.broken(error, started))?;
        if !response.status().is_success() {
            return Err(self.read_refusal(response, started).await);
        }
        self.record_hints(response.headers(), started);
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream") {
            let text = timeout_at(started + self.timeout, self.body(response, started));
            return Ok(StreamEnd::Whole(self.read(text.await.map_err(|_| self.timed_out())??)?));
        }
        let mut parser = SseParser::default();
        let mut received = 0;
        // Comments keep a connection open, but do not count as progress.
        let mut last = Instant::now();
        loop {
            let events = match timeout_at(last + self.timeout, response.chunk()).await {
                Err(_) => return Ok(StreamEnd::Broken(self.timed_out())),
                Ok(Err(error)) => return Ok(StreamEnd::Broken(self.broken(error, started))),
                Ok(Ok(Some(bytes))) => {
                    self.within_limit(bytes.len() as u64, received)?;
                    received += bytes.len();
                    parser.push(&bytes).map_err(|_| self.malformed("an event of its stream has no end"))?
                }
                Ok(Ok(None)) => break,
            };
            for event in events {
                if event.data.trim() == DONE {
                    return Ok(StreamEnd::Done);
                }
                take(&event.name, &self.event(&event)?)?;
                last = Instant::now();
            }
        }
        match parser.end() {
            Some(event) if event.data.trim() == DONE => Ok(StreamEnd::Done),
            Some(event) => {
                take(&event.name, &self.event(&event)?)?;
                Ok(StreamEnd::Closed)
            }
            None => Ok(StreamEnd::Closed),
        }
    }

    fn event(&self, event: &SseEvent) -> Result<Value, Error> {
        let value = self.read(event.data.clone())?;
        // An error without the usual envelope is recognised by the event's name.
        if event.name == "error" {
            return Err(self.error_in_200(&event.data));
        }
        Ok(value)
    }

    /// How long a streamed answer may take in all.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout.saturating_mul(PATIENCE)
    }

    /// The error if nothing arrived for as long as an answer may take.
    pub(crate) fn timed_out(&self) -> Error {
        Error::Timeout { model: self.model.clone(), after: self.timeout }
    }

    /// The error if an answer stopped too early: the next attempt may succeed.
    pub(crate) fn broken_off(&self) -> Error {
        Error::connection(&self.label, "the answer broke off in the middle")
    }

    /// Takes secrets out of an answer's text.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(self.long_secrets().map(str::to_owned).collect())
    }
}

/// The error of an answer that has begun: such an answer was not refused, so it must not be asked for in another form.
pub(crate) fn without_refusal(error: Error) -> Error {
    match error {
        Error::Refused { endpoint, status, message } => Error::Server { endpoint, status, message, retry_after: None },
        error => error,
    }
}
