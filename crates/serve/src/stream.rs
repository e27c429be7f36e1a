//! Server-sent events. Source: WHATWG HTML, "Server-sent events", and OpenAI's
//! use of it.

use crate::error::ApiError;
use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, future};
use serde_json::Value;
use std::{
    convert::Infallible,
    time::{Duration, SystemTime},
};

/// A comment after so long a silence keeps proxies from ending the connection.
const SILENCE: Duration = Duration::from_secs(15);

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A stream of chunks that ends with `[DONE]`, or with an error.
pub(crate) fn events(chunks: impl Stream<Item = Result<Value, ApiError>> + Send + 'static) -> Response {
    let data = chunks.map(Some).chain(futures::stream::iter([None]));
    let events = data.scan(false, |failed, chunk| {
        if *failed {
            return future::ready(None);
        }
        let event = match chunk {
            Some(Ok(chunk)) => Event::default().data(chunk.to_string()),
            Some(Err(error)) => {
                *failed = true;
                Event::default().data(serde_json::to_string(&error.body()).unwrap_or_default())
            }
            None => Event::default().data("[DONE]"),
        };
        future::ready(Some(Ok::<_, Infallible>(event)))
    });
    response(events)
}

/// A stream of events with names, which ends after an error.
pub(crate) fn named_events(chunks: impl Stream<Item = Value> + Send + 'static) -> Response {
    let events = chunks.map(|chunk| {
        let name = chunk["type"].as_str().unwrap_or_default().to_owned();
        Ok::<_, Infallible>(Event::default().event(name).data(chunk.to_string()))
    });
    response(events)
}

fn response(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(SILENCE).text("ping")).into_response();
    // nginx holds back what it is not told to pass on.
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    response
}
