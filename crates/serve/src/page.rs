//! The page to ask, and the browsable description. They load nothing from
//! elsewhere, and their text is never markup.

use crate::Service;
use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use std::sync::Arc;

const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

fn file(kind: &'static str, content: impl IntoResponse) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

pub(crate) async fn index(State(service): State<Arc<Service>>) -> Response {
    let mut page = include_str!("page/index.html").to_owned();
    if service.feedback.is_none() {
        // A verdict would be refused, so none is asked for.
        page = page.replacen("<body>", "<body class=\"no-feedback\">", 1);
    }
    file("text/html; charset=utf-8", page)
}

pub(crate) async fn script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("page/page.js"))
}

pub(crate) async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("page/page.css"))
}

pub(crate) async fn docs() -> Response {
    file("text/html; charset=utf-8", include_str!("page/docs.html"))
}

pub(crate) async fn docs_script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("page/docs.js"))
}

/// Headers of every response.
pub(crate) fn protect(response: &mut Response) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}
