//! What happens to a request around its handler.

pub(crate) mod admit;

use crate::{
    error::ApiError,
    http::{RequestId, RequestSpan},
    service::HttpService,
    telemetry::{ObservedBody, PendingRequest, RequestTimer, request_span},
};
use axum::{
    body::HttpBody,
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Version, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};
use tracing::Instrument;

/// Pages load nothing from other origins, and no other page may frame them.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The outermost layer of every route: gives a request its id and span, checks its
/// host, counts and times it, records its error, and adds headers to the response.
pub(crate) async fn record_request(
    State(service): State<Arc<HttpService>>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id: Arc<str> = format!("req-{}", store::unique_token()).into();
    request.extensions_mut().insert(RequestId(id.clone()));
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let (mut request, is_unread) = track_reading(request);
    let span = request_span(&request, &route, &id, service.is_tls, service.settings.parent.as_ref());
    request.extensions_mut().insert(RequestSpan(span.clone()));
    let timer = RequestTimer { metrics: service.metrics.clone(), route: route.clone(), started };
    let pending = PendingRequest::new(service.metrics.clone(), route, span.clone());
    let handled = async {
        let response = match admit::check_host(&service.settings, &request) {
            Ok(()) => next.run(request).await,
            Err(refused) => refused.into_response(),
        };
        if let Some(error) = response.extensions().get::<ApiError>() {
            service.log.record_error(error, &id);
        }
        response
    };
    let mut response = handled.instrument(span).await;
    // Clients of a stopping service connect to another replica. After an unread body, no other request can be read.
    if service.is_ending.load(Relaxed) || is_unread.is_some_and(|is_unread| is_unread.load(Relaxed)) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    add_security_headers(&mut response);
    let response = pending.respond(response);
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    // A stream ends with its last piece, or when the client leaves; the timer is dropped with it.
    response.map(|body| ObservedBody::wrap(body, move |_| drop(timer)))
}

/// Returns the request, and a flag that is true until its body is read to the end. The
/// flag is `None` if there is no body, or if the connection carries several requests at
/// once (HTTP/2).
fn track_reading(request: Request) -> (Request, Option<Arc<AtomicBool>>) {
    if request.body().is_end_stream() || request.version() > Version::HTTP_11 {
        return (request, None);
    }
    let is_unread = Arc::new(AtomicBool::new(true));
    let flag = is_unread.clone();
    let observe = move |has_ended: bool| flag.store(!has_ended, Relaxed);
    (request.map(|body| ObservedBody::wrap(body, observe)), Some(is_unread))
}

pub(crate) fn add_security_headers(response: &mut Response) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}
