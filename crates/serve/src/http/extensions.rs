//! What handlers read of a request: extensions, which the connection and middleware
//! add, and headers.

use axum::http::{HeaderMap, HeaderName, header};
use std::{net::IpAddr, sync::Arc};
use tracing::Span;

/// The address of the client's end of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// The id of a request, which its response has as `x-request-id`.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

/// The span of a request, for work that a library does in a task of its own.
#[derive(Debug, Clone)]
pub(crate) struct RequestSpan(pub(crate) Span);

/// The name of the key of a request; empty if the request needed no key.
#[derive(Debug, Clone)]
pub(crate) struct CallerName(pub(crate) Arc<str>);

/// The text of a header; empty if the header is missing or is not text.
pub(crate) fn header_text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The media type of a body, in lower case and without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let kind = header_text(headers, header::CONTENT_TYPE);
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
