//! `GET /v1/models`: the names that clients may send as `model`.

use super::request::PathId;
use crate::{error::ApiError, service::HttpService};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// The names that clients may send as `model`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ModelList {
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    data: Vec<ModelEntry>,
}

/// A name that clients may send as `model`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ModelEntry {
    id: String,
    #[schemars(extend("const" = "model"))]
    object: &'static str,
    /// When its run finished, in seconds since 1970.
    created: i64,
    owned_by: &'static str,
}

fn entries(service: &HttpService) -> Result<Vec<ModelEntry>, ApiError> {
    let served = service.served();
    let model =
        |id: &str| ModelEntry { id: id.to_owned(), object: "model", created: served.created, owned_by: "reverie" };
    let embedder = served.pipeline.embedder()?.map(|(name, _)| name).filter(|name| *name != served.name);
    Ok(std::iter::once(served.name.as_str()).chain(embedder).map(model).collect())
}

pub(crate) async fn list(State(service): State<Arc<HttpService>>) -> Result<Json<ModelList>, ApiError> {
    Ok(Json(ModelList { object: "list", data: entries(&service)? }))
}

pub(crate) async fn one(
    State(service): State<Arc<HttpService>>,
    PathId(id): PathId,
) -> Result<Json<ModelEntry>, ApiError> {
    let found = entries(&service)?.into_iter().find(|model| model.id == id);
    found.map(Json).ok_or_else(|| {
        ApiError::not_found("model_not_found", format!("there is no model `{id}`")).with_parameter("model")
    })
}
