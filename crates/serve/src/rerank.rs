//! `POST /v1/rerank`: texts in the order of the pipeline's reranker, in the form
//! that Jina, Cohere and vLLM share.

use crate::{Service, embeddings::tokens, error::ApiError, request, request::Body};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most texts of a request.
const MOST: usize = 1000;

/// A request to put texts into order.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RerankRequest {
    /// What is served, as `/v1/models` lists it.
    model: String,
    /// The question.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    query: String,
    /// Up to 1,000 texts.
    #[schemars(length(min = 1, max = MOST))]
    documents: Vec<Document>,
    /// How many of the best are wanted; all of them by default.
    #[serde(default)]
    #[schemars(range(min = 1))]
    top_n: Option<usize>,
    /// Whether the texts come back with their scores. Default false.
    #[serde(default)]
    return_documents: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Document {
    Text(String),
    Object { text: String },
}

pub(crate) async fn post(
    State(service): State<Arc<Service>>,
    axum::Extension(id): axum::Extension<crate::RequestId>,
    Body(request): Body<RerankRequest>,
) -> Result<Json<Value>, ApiError> {
    request::check_model(&service, &request.model)?;
    let question = request::question(&service, &request.query, "query")?;
    if request.documents.is_empty() || request.documents.len() > MOST {
        let reason = format!("documents has {} texts; 1 to {MOST} are taken", request.documents.len());
        return Err(ApiError::invalid(reason).of_parameter("documents"));
    }
    if request.top_n == Some(0) {
        return Err(ApiError::invalid("top_n must be at least 1").of_parameter("top_n"));
    }
    let texts: Vec<String> = request
        .documents
        .into_iter()
        .map(|document| match document {
            Document::Text(text) | Document::Object { text } => text,
        })
        .collect();
    let clock = service.clock();
    let _place = service.searches.enter(clock.left()).await?;
    let served = service.served();
    let ranked = clock.in_time(served.pipeline.rerank(&question, &texts)).await?;
    let ranked = ranked.ok_or_else(|| {
        ApiError::invalid("the pipeline that is served has neither a reranker nor an embedder").of_parameter("model")
    })?;
    let result = |(index, score): (usize, f32)| {
        let mut result = json!({ "index": index, "relevance_score": score });
        if request.return_documents == Some(true) {
            result["document"] = json!({ "text": texts[index] });
        }
        result
    };
    let results: Vec<Value> = ranked.into_iter().take(request.top_n.unwrap_or(usize::MAX)).map(result).collect();
    Ok(Json(json!({
        "id": format!("rerank-{}", id.0), "model": request.model, "results": results,
        "usage": { "total_tokens": tokens(&texts) },
    })))
}
