//! Spans of requests and answers for subscribers of `tracing`; see
//! [`models::trace`]. Names follow OpenTelemetry's conventions for HTTP servers. A
//! query string is never recorded, because it holds the question.

use super::{metrics::Metrics, observed_body::ObservedBody};
use crate::error::ApiError;
use axum::{extract::Request, http::HeaderMap, response::Response};
use models::trace::{SpanError, TARGET, mark_failed};
use std::{borrow::Cow, fmt, sync::Arc};
use tracing::{Span, field::Empty, info_span};

/// Routes that machines poll every few seconds.
const UNTRACED: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

impl SpanError for ApiError {
    fn error_type(&self) -> Cow<'static, str> {
        self.code.into()
    }
}

/// Gives the span of a request the parent that its headers name.
#[derive(Clone)]
pub struct ParentSpan(pub Arc<SetParent>);

/// Makes a span the child of the span that a request names in its headers.
type SetParent = dyn Fn(&HeaderMap, &Span) + Send + Sync;

impl fmt::Debug for ParentSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ParentSpan")
    }
}

/// The span of a request. `parent` sets its parent from the headers.
pub(crate) fn request_span(
    request: &Request,
    route: &str,
    id: &str,
    is_tls: bool,
    parent: Option<&ParentSpan>,
) -> Span {
    if UNTRACED.contains(&route) {
        return Span::none();
    }
    // A client may send any word as its method; by convention, an unknown one is recorded as `_OTHER`.
    let (method, name) = match request.method().as_str() {
        method @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH") => {
            (method, method)
        }
        _ => ("_OTHER", "HTTP"),
    };
    // The path of an unknown route could be any text.
    let is_known = route != "other";
    let span = info_span!(
        target: TARGET,
        parent: None,
        "request",
        "otel.name" = %format_args!("{name}{}{}", if is_known { " " } else { "" }, if is_known { route } else { "" }),
        "otel.kind" = "server",
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "http.request.method" = method,
        "http.route" = is_known.then_some(route),
        "http.response.status_code" = Empty,
        // A path with a parameter may name a document.
        "url.path" = (is_known && !route.contains('{')).then(|| request.uri().path()),
        "url.scheme" = if is_tls { "https" } else { "http" },
        "openinference.span.kind" = "CHAIN",
        "input.value" = Empty,
        "output.value" = Empty,
        "reverie.request.id" = id,
        "reverie.queue.duration" = Empty,
    );
    if !span.is_disabled()
        && let Some(parent) = parent
    {
        (parent.0)(request.headers(), &span);
    }
    span
}

/// The span of warming up.
pub(crate) fn warm_up_span() -> Span {
    info_span!(target: TARGET, parent: None, "warm up", "openinference.span.kind" = "CHAIN")
}

/// The span of one pipeline's attempt at an answer.
pub(crate) fn pipeline_span(name: &str, version: &str) -> Span {
    info_span!(
        target: TARGET,
        "pipeline",
        "otel.name" = %format_args!("invoke_workflow {name}"),
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "gen_ai.operation.name" = "invoke_workflow",
        "gen_ai.agent.name" = name,
        "gen_ai.agent.version" = version,
        "openinference.span.kind" = "CHAIN",
        "input.value" = Empty,
        "output.value" = Empty,
    )
}

/// A request that has no response yet. If the client leaves before there is one, this is
/// dropped: the request is counted with 499 (nginx's status for a client that left), and
/// its span says so.
pub(crate) struct PendingRequest {
    metrics: Arc<Metrics>,
    route: String,
    span: Span,
    status: u16,
}

impl PendingRequest {
    pub(crate) fn new(metrics: Arc<Metrics>, route: String, span: Span) -> Self {
        Self { metrics, route, span, status: CLIENT_LEFT }
    }

    /// Counts the request with the status of its response, and records the response in
    /// its span, which ends with the response's body.
    pub(crate) fn respond(mut self, response: Response) -> Response {
        let status = response.status();
        self.status = status.as_u16();
        let span = self.span.clone();
        if span.is_disabled() {
            return response;
        }
        span.record("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            mark_failed(&span, status.as_str());
        }
        response.map(|body| {
            ObservedBody::wrap(body, move |has_ended| {
                if !has_ended {
                    record_client_left(&span);
                }
            })
        })
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if self.status == CLIENT_LEFT {
            record_client_left(&self.span);
        }
        self.metrics.count_request(&self.route, self.status);
    }
}

const CLIENT_LEFT: u16 = 499;

/// Records that the client left, which is not a failure of the service.
fn record_client_left(span: &Span) {
    span.record("error.type", "client_left");
}
