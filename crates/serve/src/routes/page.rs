//! Two web pages: one to ask questions, one that shows the OpenAPI document. Their
//! scripts never insert text as markup.

use crate::service::HttpService;
use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use std::sync::Arc;

fn file(kind: &'static str, content: impl IntoResponse) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

pub(crate) async fn index(State(service): State<Arc<HttpService>>) -> Response {
    let mut page = include_str!("page/index.html").to_owned();
    if service.feedback.is_none() {
        // A verdict would be refused, so the page hides its buttons.
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
