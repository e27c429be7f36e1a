//! Server-sent events. Source: WHATWG HTML, "Server-sent events", and OpenAI's
//! use of it.

use crate::error::ApiError;
use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, future};
use serde_json::Value;
use std::{convert::Infallible, time::Duration};

/// A comment is sent after this long without an event, because proxies close
/// silent connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sends chunks as events without names. The last event is `[DONE]`, or the
/// first error.
pub(crate) fn send_chunks(chunks: impl Stream<Item = Result<Value, ApiError>> + Send + 'static) -> Response {
    let data = chunks.map(Some).chain(futures::stream::iter([None]));
    let events = data.scan(false, |has_failed, chunk| {
        if *has_failed {
            return future::ready(None);
        }
        let event = match chunk {
            Some(Ok(chunk)) => Event::default().data(chunk.to_string()),
            Some(Err(error)) => {
                *has_failed = true;
                Event::default().data(serde_json::to_string(&error.body()).unwrap_or_default())
            }
            None => Event::default().data("[DONE]"),
        };
        future::ready(Some(Ok::<_, Infallible>(event)))
    });
    event_stream(events)
}

/// Sends objects as events that are named by their `type`.
pub(crate) fn send_named(objects: impl Stream<Item = Value> + Send + 'static) -> Response {
    let events = objects.map(|object| {
        let name = object["type"].as_str().unwrap_or_default().to_owned();
        Ok::<_, Infallible>(Event::default().event(name).data(object.to_string()))
    });
    event_stream(events)
}

/// A response of server-sent events, which proxies neither buffer nor close while it is silent.
pub fn event_stream(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("ping");
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    // nginx buffers responses unless a header forbids it.
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    response
}
