//! `POST /v1/rerank`: texts in the order of the pipeline's reranker, in the form
//! that Jina, Cohere and vLLM share.

use crate::{
    Service,
    embeddings::tokens,
    error::ApiError,
    request::{self, Body, whole},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    #[schemars(with = "Vec<Document>", length(min = 1, max = MOST))]
    documents: Vec<Value>,
    /// How many of the best are wanted; all of them by default.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1))]
    top_n: Option<usize>,
    /// Whether the texts come back with their scores. Default false.
    #[serde(default)]
    return_documents: Option<bool>,
}

#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it is only described")]
enum Document {
    Text(String),
    Object { text: String },
}

/// The text of a document, which is at this place in the list.
fn text((at, document): (usize, Value)) -> Result<String, ApiError> {
    let text = match document {
        Value::String(text) => Some(text),
        Value::Object(mut fields) => match fields.remove("text") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    };
    let place = format!("documents[{at}]");
    let refused = || ApiError::invalid(format!("`{place}` must be a text, or an object with a `text`"));
    text.ok_or_else(|| refused().of_parameter(place.clone()))
}

/// Texts in order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Ranking {
    id: String,
    /// What ranked them.
    model: String,
    /// The best first.
    results: Vec<RankedText>,
    usage: TotalTokens,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RankedText {
    /// The place of the text in `documents`.
    index: usize,
    /// Higher is better; the scale is the reranker's own.
    relevance_score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<RankedDocument>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RankedDocument {
    text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TotalTokens {
    /// About how many tokens the texts have.
    total_tokens: usize,
}

pub(crate) async fn post(
    State(service): State<Arc<Service>>,
    axum::Extension(id): axum::Extension<crate::RequestId>,
    Body(request): Body<RerankRequest>,
) -> Result<Json<Ranking>, ApiError> {
    request::check_model(&service, &request.model)?;
    let question = request::question(&service, &request.query, "query")?;
    if request.documents.is_empty() || request.documents.len() > MOST {
        let reason = format!("documents has {} texts; 1 to {MOST} are taken", request.documents.len());
        return Err(ApiError::invalid(reason).of_parameter("documents"));
    }
    if request.top_n == Some(0) {
        return Err(ApiError::invalid("top_n must be at least 1").of_parameter("top_n"));
    }
    let texts: Vec<String> = request.documents.into_iter().enumerate().map(text).collect::<Result<_, _>>()?;
    let clock = service.clock();
    let _place = service.searches.enter(clock.left()).await?;
    let served = service.served();
    let ranked = clock.in_time(served.pipeline.rerank(&question, &texts)).await?;
    let ranked = ranked.ok_or_else(|| {
        ApiError::invalid("the pipeline that is served has neither a reranker nor an embedder").of_parameter("model")
    })?;
    let returns_documents = request.return_documents == Some(true);
    let result = |(index, relevance_score): (usize, f32)| RankedText {
        index,
        relevance_score: relevance_score.into(),
        document: returns_documents.then(|| RankedDocument { text: texts[index].clone() }),
    };
    let results = ranked.into_iter().take(request.top_n.unwrap_or(usize::MAX)).map(result).collect();
    let usage = TotalTokens { total_tokens: tokens(&texts) };
    Ok(Json(Ranking { id: format!("rerank-{}", id.0), model: request.model, results, usage }))
}
