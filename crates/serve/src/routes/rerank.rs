//! `POST /v1/rerank`: texts in the order of the pipeline's reranker, in the API of
//! Jina, Cohere and vLLM.

use super::{
    conversation::{check_model, check_question},
    embeddings::estimate_tokens,
    request::{JsonBody, whole_number},
};
use crate::{error::ApiError, http::RequestId, service::HttpService};
use axum::{Extension, Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The most texts of a request.
const MAX_TEXTS: usize = 1000;

/// A request to rank texts.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RerankTextsRequest {
    /// The pipeline, as `/v1/models` lists it.
    model: String,
    /// The question.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    query: String,
    /// Up to 1,000 texts.
    #[schemars(with = "Vec<RerankDocument>", length(min = 1, max = MAX_TEXTS))]
    documents: Vec<Value>,
    /// How many of the best texts to return; all by default.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1))]
    top_n: Option<usize>,
    /// Whether to return the texts with their scores. Default false.
    #[serde(default)]
    return_documents: Option<bool>,
}

#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum RerankDocument {
    Text(String),
    Object { text: String },
}

/// Reads the text of a document; `at` is its index in the list.
fn read_text((at, document): (usize, Value)) -> Result<String, ApiError> {
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
    text.ok_or_else(|| refused().with_parameter(place.clone()))
}

/// Ranked texts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TextRanking {
    id: String,
    /// The pipeline, as `/v1/models` lists it.
    model: String,
    /// The ranked texts, best first.
    results: Vec<RankedText>,
    usage: TotalTokens,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RankedText {
    /// The index of the text in `documents`.
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
    /// An estimate of the texts' tokens.
    total_tokens: usize,
}

pub(crate) async fn post(
    State(service): State<Arc<HttpService>>,
    Extension(id): Extension<RequestId>,
    JsonBody(request): JsonBody<RerankTextsRequest>,
) -> Result<Json<TextRanking>, ApiError> {
    check_model(&service, &request.model)?;
    let question = check_question(&service, &request.query, "query")?;
    if request.documents.is_empty() || request.documents.len() > MAX_TEXTS {
        let reason = format!("documents has {} texts; 1 to {MAX_TEXTS} are taken", request.documents.len());
        return Err(ApiError::invalid(reason).with_parameter("documents"));
    }
    if request.top_n == Some(0) {
        return Err(ApiError::invalid("top_n must be at least 1").with_parameter("top_n"));
    }
    let texts: Vec<String> = request.documents.into_iter().enumerate().map(read_text).collect::<Result<_, _>>()?;
    let deadline = service.deadline();
    let _permit = service.searches.enter(deadline.left()).await?;
    let served = service.served();
    let ranked = deadline.limit(served.pipeline.rerank(&question, &texts)).await?;
    let ranked = ranked.ok_or_else(|| {
        ApiError::invalid("the pipeline that is served has neither a reranker nor an embedder").with_parameter("model")
    })?;
    let returns_documents = request.return_documents == Some(true);
    let result = |(index, relevance_score): (usize, f32)| RankedText {
        index,
        relevance_score: relevance_score.into(),
        document: returns_documents.then(|| RankedDocument { text: texts[index].clone() }),
    };
    let results = ranked.into_iter().take(request.top_n.unwrap_or(usize::MAX)).map(result).collect();
    let usage = TotalTokens { total_tokens: estimate_tokens(&texts) };
    Ok(Json(TextRanking { id: format!("rerank-{}", id.0), model: request.model, results, usage }))
}
