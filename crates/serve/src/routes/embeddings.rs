//! `POST /v1/embeddings`: vectors of the pipeline's embedder, in OpenAI's form.

use super::request::{JsonBody, whole_number};
use crate::{error::ApiError, service::HttpService};
use axum::{Json, extract::State};
use base64::{Engine, engine::general_purpose::STANDARD};
use models::InputKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The most texts of a request, as in OpenAI's API.
const MAX_TEXTS: usize = 2048;

/// A request for vectors.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EmbeddingsRequest {
    /// The embedder's name as `/v1/models` lists it, or the pipeline's.
    model: String,
    /// A text, or up to 2,048 texts. A text that is longer than the model reads is refused.
    #[schemars(with = "EmbeddingsInput")]
    input: Value,
    /// `float` (the default) or `base64`: little-endian 32-bit numbers.
    #[serde(default)]
    encoding_format: Option<EmbeddingFormat>,
    /// The length of the vectors; only the embedder's own.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1))]
    dimensions: Option<usize>,
    /// `document` (the default) or `query`, for models that embed them differently. Not
    /// part of OpenAI's API.
    #[serde(default)]
    input_type: Option<TextInputType>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum EmbeddingsInput {
    Text(#[schemars(length(min = 1))] String),
    Texts(#[schemars(length(min = 1, max = MAX_TEXTS), inner(length(min = 1)))] Vec<String>),
}

/// Reads the texts of an input.
fn read_texts(input: Value) -> Result<Vec<String>, ApiError> {
    let invalid = |reason: String, place: String| Err(ApiError::invalid(reason).with_parameter(place));
    let list = match input {
        Value::String(text) => return Ok(vec![text]),
        Value::Array(list) => list,
        _ => return invalid("`input` must be a text or a list of texts".to_owned(), "input".to_owned()),
    };
    let mut texts = Vec::with_capacity(list.len());
    for (at, text) in list.into_iter().enumerate() {
        match text {
            Value::String(text) => texts.push(text),
            Value::Number(_) | Value::Array(_) => {
                let reason = "tokens cannot be embedded, since they differ between models: send texts \
                              (LangChain's OpenAIEmbeddings does with check_embedding_ctx_length=False)";
                return invalid(reason.to_owned(), "input".to_owned());
            }
            _ => return invalid(format!("`input[{at}]` must be a text"), format!("input[{at}]")),
        }
    }
    Ok(texts)
}

/// Vectors, in the order of the texts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Embeddings {
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    data: Vec<TextEmbedding>,
    /// The embedder's name, as `/v1/models` lists it.
    model: String,
    usage: TextUsage,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TextEmbedding {
    #[schemars(extend("const" = "embedding"))]
    object: &'static str,
    /// The index of its text in `input`.
    index: usize,
    embedding: EmbeddingValues,
}

/// The numbers of a vector, or their bytes in base64.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum EmbeddingValues {
    /// As 64-bit numbers, so that JSON has every digit.
    Float(Vec<f64>),
    Base64(String),
}

/// The tokens of the texts, which are estimated if the model's tokenizer is not known.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct TextUsage {
    prompt_tokens: usize,
    total_tokens: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EmbeddingFormat {
    Float,
    Base64,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TextInputType {
    Document,
    Query,
}

pub(crate) async fn post(
    State(service): State<Arc<HttpService>>,
    JsonBody(request): JsonBody<EmbeddingsRequest>,
) -> Result<Json<Embeddings>, ApiError> {
    let served = service.served();
    let embedder = served.pipeline.embedder()?;
    let Some((name, embedder)) = embedder else {
        let reason = "the pipeline that is served compares no vectors, so it has no embedder";
        return Err(ApiError::not_found("model_not_found", reason).with_parameter("model"));
    };
    if request.model != name && request.model != served.name {
        let reason = format!("there is no embedding model `{}`; this service has `{name}`", request.model);
        return Err(ApiError::not_found("model_not_found", reason).with_parameter("model"));
    }
    let invalid = |reason: String| ApiError::invalid(reason).with_parameter("input");
    let texts = read_texts(request.input)?;
    if texts.is_empty() || texts.len() > MAX_TEXTS {
        return Err(invalid(format!("input has {} texts; 1 to {MAX_TEXTS} are taken", texts.len())));
    }
    if let Some(at) = texts.iter().position(|text| text.is_empty()) {
        return Err(ApiError::invalid(format!("`input[{at}]` is empty")).with_parameter(format!("input[{at}]")));
    }
    let deadline = service.deadline();
    let _permit = service.searches.enter(deadline.left()).await?;
    let kind = match request.input_type {
        Some(TextInputType::Query) => InputKind::Query,
        Some(TextInputType::Document) | None => InputKind::Document,
    };
    let check = |columns: usize| match request.dimensions {
        Some(wanted) if wanted != columns => {
            let reason = format!("dimensions must be {columns}: `{name}` has vectors of no other length");
            Err(ApiError::invalid(reason).with_parameter("dimensions"))
        }
        _ => Ok(()),
    };
    // The length of a remote embedder's vectors is not known before the first one.
    if embedder.dimensions() > 0 {
        check(embedder.dimensions())?;
    }
    let counted = async { embedder.count_tokens(&texts, kind).await.map_err(lab::Error::from) };
    let counted = deadline.limit(counted).await?;
    let most = embedder.max_tokens();
    let long = counted.iter().flatten().enumerate().find(|(_, tokens)| **tokens > most);
    if let Some((at, tokens)) = long {
        let reason = format!("`input[{at}]` has {tokens} tokens, and `{name}` reads {most} at most: send it in parts");
        let refused = ApiError::invalid(reason).with_parameter(format!("input[{at}]"));
        return Err(refused.with_status(axum::http::StatusCode::BAD_REQUEST, "context_length_exceeded"));
    }
    let work = async { embedder.embed(&texts, kind).await.map_err(lab::Error::from) };
    let matrix = deadline.limit(work).await?;
    check(matrix.columns)?;
    let vector = |row: &[f32]| match request.encoding_format {
        Some(EmbeddingFormat::Base64) => {
            let bytes: Vec<u8> = row.iter().flat_map(|number| number.to_le_bytes()).collect();
            EmbeddingValues::Base64(STANDARD.encode(bytes))
        }
        Some(EmbeddingFormat::Float) | None => EmbeddingValues::Float(row.iter().copied().map(f64::from).collect()),
    };
    let data = matrix.iter().enumerate();
    let data = data.map(|(index, row)| TextEmbedding { object: "embedding", index, embedding: vector(row) }).collect();
    let tokens = counted.map_or_else(|| estimate_tokens(&texts), |counted| counted.iter().sum());
    Ok(Json(Embeddings {
        object: "list",
        data,
        model: name.to_owned(),
        usage: TextUsage { prompt_tokens: tokens, total_tokens: tokens },
    }))
}

/// Estimates the tokens of texts, for a model whose tokenizer is not known.
pub(crate) fn estimate_tokens(texts: &[String]) -> usize {
    texts.iter().map(|text| models::estimate_tokens(text)).sum()
}
