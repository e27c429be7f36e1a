//! Two web pages: one to ask questions, one that shows the OpenAPI document. Their
//! scripts never insert text as markup.

use crate::service::HttpService;
use axum::{extract::State, http::header, response::IntoResponse};
use std::sync::Arc;

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const SCRIPT: &str = "text/javascript; charset=utf-8";
pub(crate) const STYLE: &str = "text/css; charset=utf-8";

/// A file of a page, of this media type.
pub(crate) fn file(kind: &'static str, content: impl IntoResponse) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], content)
}

pub(crate) async fn index(State(service): State<Arc<HttpService>>) -> impl IntoResponse {
    let mut page = include_str!("page/index.html").to_owned();
    if service.feedback.is_none() {
        // A verdict would be refused, so the page hides its buttons.
        page = page.replacen("<body>", "<body class=\"no-feedback\">", 1);
    }
    file(HTML, page)
}
