//! `GET /v1/models`: what clients may ask for.

use crate::{Service, error::ApiError, request::Id};
use axum::{Json, extract::State};
use serde_json::{Value, json};
use std::sync::Arc;

fn all(service: &Service) -> Result<Vec<Value>, ApiError> {
    let served = service.served();
    let model = |id: &str| json!({ "id": id, "object": "model", "created": served.created, "owned_by": "reverie" });
    let embedder = served.pipeline.embedder()?.map(|(name, _)| name).filter(|name| *name != served.name);
    Ok(std::iter::once(served.name.as_str()).chain(embedder).map(model).collect())
}

pub(crate) async fn list(State(service): State<Arc<Service>>) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({ "object": "list", "data": all(&service)? })))
}

pub(crate) async fn one(State(service): State<Arc<Service>>, Id(id): Id) -> Result<Json<Value>, ApiError> {
    let found = all(&service)?.into_iter().find(|model| model["id"] == id.as_str());
    found.map(Json).ok_or_else(|| {
        ApiError::not_found("model_not_found", format!("there is no model `{id}`")).of_parameter("model")
    })
}
