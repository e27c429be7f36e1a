//! The paths of the provider, and how a request to each is answered.

use crate::{
    InjectedFault, SimulatorSettings,
    batches::BatchRefusal,
    chat, embeddings, headers,
    limits::LimitRefusal,
    reply::{CREATED, ReplyContent, ReplyUsage, RequestError, SimulatedReply, fingerprint},
    state::{AdmissionDecision, AdmissionVerdict, SimulatorState, Ticket},
    stream::Cutter,
};
use axum::{
    Extension, Router,
    body::Body,
    extract::{self, DefaultBodyLimit},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures::stream;
use serde_json::{Map, Value, json};
use std::{io, sync::Arc, time::Duration};

type SharedState = extract::State<Arc<SimulatorState>>;

pub(crate) fn router(state: Arc<SimulatorState>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/embeddings", post(embedding))
        .route("/v1/models", get(models))
        .route("/v1/files", post(upload))
        .route("/v1/files/{file}/content", get(content))
        .route("/v1/batches", post(create_batch).get(list_batches))
        .route("/v1/batches/{batch}", get(batch))
        .route("/stats", get(stats))
        .route("/control", post(control))
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
}

async fn chat_completions(
    extract::State(state): SharedState,
    Extension(cutter): Extension<Cutter>,
    body: Bytes,
) -> Response {
    answer(&state, cutter, &body, chat::reply).await
}

async fn embedding(extract::State(state): SharedState, Extension(cutter): Extension<Cutter>, body: Bytes) -> Response {
    answer(&state, cutter, &body, embeddings::reply).await
}

async fn models(extract::State(state): SharedState) -> Response {
    let model = json!({ "id": "simulated", "object": "model", "created": CREATED, "owned_by": "simulator" });
    let mut response = json_response(StatusCode::OK, json!({ "object": "list", "data": [model] }).to_string());
    if state.settings().rate_headers {
        headers::write_rates(response.headers_mut(), state.rates());
    }
    response
}

async fn upload(extract::State(state): SharedState, body: Bytes) -> Response {
    pause(Duration::from_secs_f64(state.settings().batches.upload_seconds)).await;
    batch_response(state.batches.upload(&body))
}

async fn create_batch(extract::State(state): SharedState, body: Bytes) -> Response {
    // It goes on without the client, as a real one does.
    let created = tokio::spawn({
        let state = state.clone();
        async move {
            let answered = |fingerprint, read, written| state.answered_in_batch(fingerprint, read, written);
            state.batches.create(&state.settings(), &answered, &body)
        }
    });
    pause(Duration::from_secs_f64(state.settings().batches.create_seconds)).await;
    match created.await {
        Ok(Ok((_, true))) | Err(_) => fault_response(InjectedFault::ServerError),
        Ok(created) => batch_response(created.map(|(batch, _)| batch)),
    }
}

async fn list_batches(extract::State(state): SharedState, uri: axum::http::Uri) -> Response {
    let parameter = |name: &str| {
        let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let limit = parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(20);
    batch_response(Ok(state.batches.list(parameter("after"), limit)))
}

async fn batch(extract::State(state): SharedState, extract::Path(id): extract::Path<String>) -> Response {
    batch_response(state.batches.get(&id, &state.settings()))
}

async fn content(extract::State(state): SharedState, extract::Path(id): extract::Path<String>) -> Response {
    match state.batches.content(&id) {
        Ok(bytes) => (StatusCode::OK, [(header::CONTENT_TYPE, "application/jsonl")], bytes).into_response(),
        Err(refusal) => batch_response(Err(refusal)),
    }
}

fn batch_response(answer: Result<Value, BatchRefusal>) -> Response {
    match answer {
        Ok(value) => json_of(&value),
        Err((status, message)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
            error_response(status, "invalid_request_error", None, &message)
        }
    }
}

async fn stats(extract::State(state): SharedState) -> Response {
    json_of(&state.stats())
}

/// Takes settings by name, and answers with all of them.
async fn control(extract::State(state): SharedState, body: Bytes) -> Response {
    let changed = serde_json::from_slice::<Map<String, Value>>(&body)
        .map_err(|error| crate::Error::Settings(format!("settings are given as a JSON object: {error}")))
        .and_then(|changes| state.set(|settings| settings.merged(&changes)));
    match changed {
        Ok(settings) => json_of(&*settings),
        Err(error) => error_response(StatusCode::BAD_REQUEST, "invalid_request_error", None, &error.to_string()),
    }
}

fn json_of(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => json_response(StatusCode::OK, text),
        Err(error) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "server_error", None, &error.to_string()),
    }
}

fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}

fn error_response(status: StatusCode, kind: &str, code: Option<&str>, message: &str) -> Response {
    let error = json!({ "error": { "message": message, "type": kind, "param": null, "code": code } });
    json_response(status, error.to_string())
}

async fn answer(
    state: &Arc<SimulatorState>,
    cutter: Cutter,
    body: &[u8],
    reply: fn(&[u8], u128, &SimulatorSettings) -> Result<SimulatedReply, RequestError>,
) -> Response {
    let fingerprint = fingerprint(body);
    let reply = match reply(body, fingerprint, &state.settings()) {
        Ok(reply) => reply,
        Err(error) => {
            state.not_understood();
            return error_response(StatusCode::BAD_REQUEST, "invalid_request_error", None, &error.to_string());
        }
    };
    let AdmissionDecision { verdict, rates, settings } = state.admit(reply.usage.total());
    let mut shows_rates = settings.rate_headers;
    let mut response = match verdict {
        AdmissionVerdict::Admitted(ticket) => respond(ticket, cutter, reply, fingerprint).await,
        AdmissionVerdict::Failed(fault) => fault_response(fault),
        AdmissionVerdict::Refused(refusal) => {
            shows_rates &= refusal != LimitRefusal::Concurrency;
            refusal_response(refusal, reply.usage.total(), &settings)
        }
    };
    if shows_rates {
        headers::write_rates(response.headers_mut(), rates);
    }
    response
}

fn refusal_response(refusal: LimitRefusal, tokens: u64, settings: &SimulatorSettings) -> Response {
    let requests_per_minute = settings.requests_per_minute.unwrap_or_default();
    let tokens_per_minute = settings.tokens_per_minute.unwrap_or_default();
    let (kind, message) = match refusal {
        LimitRefusal::Concurrency => {
            ("requests", format!("Too many requests in flight: Limit {}.", settings.concurrency.unwrap_or_default()))
        }
        LimitRefusal::Requests(wait) => {
            let limit = format!("requests per min (RPM): Limit {requests_per_minute}");
            ("requests", format!("Rate limit reached on {limit}. Please try again in {}.", headers::duration(wait)))
        }
        LimitRefusal::Tokens(wait) => {
            let limit = format!("tokens per min (TPM): Limit {tokens_per_minute}, Requested {tokens}");
            ("tokens", format!("Rate limit reached on {limit}. Please try again in {}.", headers::duration(wait)))
        }
        LimitRefusal::TooLarge => {
            let most = settings.token_burst.unwrap_or(tokens_per_minute);
            ("tokens", format!("Request too large on tokens per min (TPM): at once {most}, Requested {tokens}."))
        }
    };
    let mut response = error_response(StatusCode::TOO_MANY_REQUESTS, kind, Some("rate_limit_exceeded"), &message);
    headers::write_retry_after(response.headers_mut(), refusal, settings);
    response
}

fn fault_response(fault: InjectedFault) -> Response {
    let (status, kind, code, message) = match fault {
        InjectedFault::RateLimited => {
            (StatusCode::TOO_MANY_REQUESTS, "requests", Some("rate_limit_exceeded"), "Too many requests.")
        }
        InjectedFault::Overloaded => (
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            None,
            "The engine is currently overloaded, please try again later.",
        ),
        _ => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            None,
            "The server had an error while processing your request.",
        ),
    };
    error_response(status, kind, code, message)
}

/// Answers a request that was let through, or fails it with its fault.
async fn respond(ticket: Ticket, cutter: Cutter, reply: SimulatedReply, fingerprint: u128) -> Response {
    if ticket.fault == Some(InjectedFault::Hang) {
        // Until the client gives up, and this is dropped.
        return std::future::pending().await;
    }
    let bytes = match (reply.content, ticket.fault) {
        (ReplyContent::Events(events), None | Some(InjectedFault::Truncated | InjectedFault::Malformed)) => {
            return streamed(ticket, events, fingerprint, reply.usage).await;
        }
        (ReplyContent::Json(bytes), _) => bytes,
        (ReplyContent::Events(_), _) => Bytes::new(),
    };
    pause(ticket.latency).await;
    match ticket.fault {
        None => {
            ticket.answered(fingerprint, reply.usage.prompt_tokens, reply.usage.completion_tokens);
            json_response(StatusCode::OK, bytes)
        }
        Some(fault) => {
            ticket.failed();
            match fault {
                InjectedFault::Reset => {
                    cutter.cut();
                    json_response(StatusCode::OK, Body::empty())
                }
                InjectedFault::Truncated => broken_off(&bytes),
                InjectedFault::Malformed => json_response(StatusCode::OK, bytes.slice(..bytes.len() / 2)),
                other => fault_response(other),
            }
        }
    }
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// Announces the whole length, sends half of it, and disconnects.
fn broken_off(bytes: &Bytes) -> Response {
    let half = bytes.slice(..bytes.len() / 2);
    let parts = stream::unfold(Some(half), |half| async {
        match half {
            Some(half) if !half.is_empty() => Some((Ok(half), Some(Bytes::new()))),
            Some(_) => {
                // So that what was written before is really sent.
                tokio::task::yield_now().await;
                Some((Err(io::Error::from(io::ErrorKind::BrokenPipe)), None))
            }
            None => None,
        }
    });
    let mut response = json_response(StatusCode::OK, Body::from_stream(parts));
    response.headers_mut().insert(header::CONTENT_LENGTH, bytes.len().into());
    response
}

/// A stream of events: half of the latency before the first, the rest evenly
/// between the others.
async fn streamed(ticket: Ticket, mut events: Vec<Bytes>, fingerprint: u128, usage: ReplyUsage) -> Response {
    let gap = ticket.latency / 2 / u32::try_from(events.len()).unwrap_or(u32::MAX).max(1);
    let half = events.len() / 2;
    let breaks = ticket.fault == Some(InjectedFault::Truncated);
    match ticket.fault {
        Some(InjectedFault::Truncated) => events.truncate(half),
        Some(InjectedFault::Malformed) => {
            let event = &events[half];
            events[half] = [event.slice(..event.len() / 2), Bytes::from_static(b"\n\n")].concat().into();
        }
        _ => {}
    }
    pause(ticket.latency / 2).await;
    let parts = stream::unfold((events.into_iter(), Some(ticket)), move |(mut events, mut ticket)| async move {
        pause(gap).await;
        let event = events.next();
        if events.len() == 0
            && let Some(ticket) = ticket.take()
        {
            match ticket.fault {
                None => ticket.answered(fingerprint, usage.prompt_tokens, usage.completion_tokens),
                Some(_) => ticket.failed(),
            }
        }
        match event {
            Some(event) => Some((Ok(event), (events, ticket))),
            None if breaks => {
                tokio::task::yield_now().await;
                Some((Err(io::Error::from(io::ErrorKind::BrokenPipe)), (events, ticket)))
            }
            None => None,
        }
    });
    let mut response = Body::from_stream(parts).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
