//! `/health/…` and `/metrics`, which machines poll.

use crate::{
    http::header_text,
    service::{HttpService, not_ready},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

pub(crate) async fn ready(State(service): State<Arc<HttpService>>) -> Response {
    if service.is_ready() {
        return Json(json!({ "status": "ready", "version": service.served().version })).into_response();
    }
    not_ready().into_response()
}

pub(crate) async fn metrics(State(service): State<Arc<HttpService>>, headers: HeaderMap) -> Response {
    let admission = &service.dispatcher.admission;
    service.metrics.in_flight.set(admission.busy() as i64);
    service.metrics.waiting.set(admission.waiting() as i64);
    service.metrics.breaker_open.set(i64::from(service.lanes().serving.breaker.is_open()));
    if let Some(spans) = &service.settings.spans {
        service.metrics.set_spans(spans);
    }
    let (kind, text) = service.metrics.render(header_text(&headers, header::ACCEPT));
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
