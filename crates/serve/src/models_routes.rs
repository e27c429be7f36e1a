//! `GET /v1/models`: what clients may ask for.

use crate::{Service, error::ApiError, request::Id};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// What clients may ask for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Models {
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    data: Vec<ModelEntry>,
}

/// What may be named as `model`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ModelEntry {
    id: String,
    #[schemars(extend("const" = "model"))]
    object: &'static str,
    /// When its run finished, in seconds since 1970.
    created: i64,
    owned_by: &'static str,
}

fn all(service: &Service) -> Result<Vec<ModelEntry>, ApiError> {
    let served = service.served();
    let model =
        |id: &str| ModelEntry { id: id.to_owned(), object: "model", created: served.created, owned_by: "reverie" };
    let embedder = served.pipeline.embedder()?.map(|(name, _)| name).filter(|name| *name != served.name);
    Ok(std::iter::once(served.name.as_str()).chain(embedder).map(model).collect())
}

pub(crate) async fn list(State(service): State<Arc<Service>>) -> Result<Json<Models>, ApiError> {
    Ok(Json(Models { object: "list", data: all(&service)? }))
}

pub(crate) async fn one(State(service): State<Arc<Service>>, Id(id): Id) -> Result<Json<ModelEntry>, ApiError> {
    let found = all(&service)?.into_iter().find(|model| model.id == id);
    found.map(Json).ok_or_else(|| {
        ApiError::not_found("model_not_found", format!("there is no model `{id}`")).of_parameter("model")
    })
}
