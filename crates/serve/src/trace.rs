//! Spans of requests and of answers, for whoever listens: see [`models::trace`].
//! Names follow OpenTelemetry's conventions for HTTP servers. A query string is
//! never recorded, because it holds the question.

use crate::{Service, error::ApiError, served::Served};
use axum::{
    body::{Body, Bytes},
    extract::Request,
    response::Response,
};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use models::trace::{SpanError, TARGET, fail};
use std::{
    borrow::Cow,
    pin::Pin,
    task::{Context, Poll},
};
use tracing::{Span, field::Empty, info_span};

/// Routes that machines ask every few seconds.
const UNTRACED: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

impl SpanError for ApiError {
    fn error_type(&self) -> Cow<'static, str> {
        self.code().into()
    }
}

/// The span of a request, a child of the one that its headers name.
pub(crate) fn request(service: &Service, request: &Request, route: &str, id: &str) -> Span {
    if UNTRACED.contains(&route) {
        return Span::none();
    }
    // A client may send any word as its method; the convention for those that HTTP does not know is `_OTHER`.
    let (method, name) = match request.method().as_str() {
        method @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH") => {
            (method, method)
        }
        _ => ("_OTHER", "HTTP"),
    };
    // What is no route of ours could be any text.
    let known = route != "other";
    let span = info_span!(
        target: TARGET,
        parent: None,
        "request",
        "otel.name" = %format_args!("{name}{}{}", if known { " " } else { "" }, if known { route } else { "" }),
        "otel.kind" = "server",
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "http.request.method" = method,
        "http.route" = known.then_some(route),
        "http.response.status_code" = Empty,
        // Only of routes without a part that may name a document.
        "url.path" = (known && !route.contains('{')).then(|| request.uri().path()),
        "url.scheme" = if service.is_tls { "https" } else { "http" },
        "openinference.span.kind" = "CHAIN",
        "input.value" = Empty,
        "output.value" = Empty,
        "reverie.request.id" = id,
        "reverie.queue.duration" = Empty,
    );
    if !span.is_disabled()
        && let Some(parent) = &service.settings.parent
    {
        (parent.0)(request.headers(), &span);
    }
    span
}

/// The span of getting ready.
pub(crate) fn warming() -> Span {
    info_span!(target: TARGET, parent: None, "warm up", "openinference.span.kind" = "CHAIN")
}

/// The span of one pipeline's try at an answer.
pub(crate) fn pipeline(served: &Served) -> Span {
    info_span!(
        target: TARGET,
        "pipeline",
        "otel.name" = %format_args!("invoke_workflow {}", served.name),
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "gen_ai.operation.name" = "invoke_workflow",
        "gen_ai.agent.name" = served.name.as_str(),
        "gen_ai.agent.version" = served.version.as_str(),
        "openinference.span.kind" = "CHAIN",
        "input.value" = Empty,
        "output.value" = Empty,
    )
}

/// The span of a request that has no response yet.
pub(crate) struct Waiting(Option<Span>);

impl Waiting {
    pub(crate) fn new(span: &Span) -> Self {
        Self(Some(span.clone()).filter(|span| !span.is_disabled()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(span) = &self.0 {
            left(span);
        }
    }
}

/// The client left: its choice, and no failure of the service.
fn left(span: &Span) {
    span.record("error.type", "client_left");
}

/// Records what became of a request. Its span ends with the body of the response.
pub(crate) fn answered(mut waiting: Waiting, response: Response) -> Response {
    let Some(span) = waiting.0.take() else { return response };
    let status = response.status();
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        fail(&span, status.as_str());
    }
    response.map(|inner| Body::new(Watched { inner, span, is_done: false }))
}

/// A body whose end is the end of its request's span.
struct Watched {
    inner: Body,
    span: Span,
    is_done: bool,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(None) = frame {
            self.is_done = true;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Who reads a body of known length does not ask what comes after it.
        if !self.is_done && !self.inner.is_end_stream() {
            left(&self.span);
        }
    }
}
