//! `POST /v1/embeddings`: vectors of the pipeline's embedder, in OpenAI's form.

use crate::{
    Service,
    error::ApiError,
    request::{Body, whole},
};
use axum::{Json, extract::State};
use base64::{Engine, engine::general_purpose::STANDARD};
use models::InputKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The most texts of a request, as of OpenAI.
const MOST: usize = 2048;

/// A request for vectors.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EmbeddingsRequest {
    /// The embedder's name as `/v1/models` lists it, or that of what is served.
    model: String,
    /// A text, or up to 2,048 texts. One that is longer than the model reads is refused.
    #[schemars(with = "Input")]
    input: Value,
    /// `float` (the default) or `base64`: little-endian 32-bit numbers.
    #[serde(default)]
    encoding_format: Option<Encoding>,
    /// Only the embedder's own number.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1))]
    dimensions: Option<usize>,
    /// `document` (the default) or `query`, for models that tell them apart. Not
    /// part of OpenAI's API.
    #[serde(default)]
    input_type: Option<Kind>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it is only described")]
enum Input {
    Text(#[schemars(length(min = 1))] String),
    Texts(#[schemars(length(min = 1, max = MOST), inner(length(min = 1)))] Vec<String>),
}

/// The texts of an input.
fn texts(input: Value) -> Result<Vec<String>, ApiError> {
    let invalid = |reason: String, place: String| Err(ApiError::invalid(reason).of_parameter(place));
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
    data: Vec<Embedding>,
    /// The embedder's name, as `/v1/models` lists it.
    model: String,
    usage: TextUsage,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Embedding {
    #[schemars(extend("const" = "embedding"))]
    object: &'static str,
    /// The place of its text in `input`.
    index: usize,
    embedding: Numbers,
}

/// Numbers, or the same in base64.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Numbers {
    /// With all digits, so that they are the same numbers as in base64.
    Float(Vec<f64>),
    Base64(String),
}

/// The tokens of texts: as the model counts them if it runs in this process,
/// else about as many.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct TextUsage {
    prompt_tokens: usize,
    total_tokens: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    Float,
    Base64,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Document,
    Query,
}

pub(crate) async fn post(
    State(service): State<Arc<Service>>,
    Body(request): Body<EmbeddingsRequest>,
) -> Result<Json<Embeddings>, ApiError> {
    let served = service.served();
    let embedder = served.pipeline.embedder()?;
    let Some((name, embedder)) = embedder else {
        let reason = "the pipeline that is served compares no vectors, so it has no embedder";
        return Err(ApiError::not_found("model_not_found", reason).of_parameter("model"));
    };
    if request.model != name && request.model != served.name {
        let reason = format!("there is no embedding model `{}`; this service has `{name}`", request.model);
        return Err(ApiError::not_found("model_not_found", reason).of_parameter("model"));
    }
    let invalid = |reason: String| ApiError::invalid(reason).of_parameter("input");
    let texts = texts(request.input)?;
    if texts.is_empty() || texts.len() > MOST {
        return Err(invalid(format!("input has {} texts; 1 to {MOST} are taken", texts.len())));
    }
    if let Some(at) = texts.iter().position(|text| text.is_empty()) {
        return Err(ApiError::invalid(format!("`input[{at}]` is empty")).of_parameter(format!("input[{at}]")));
    }
    let clock = service.clock();
    let _place = service.searches.enter(clock.left()).await?;
    let kind = match request.input_type {
        Some(Kind::Query) => InputKind::Query,
        Some(Kind::Document) | None => InputKind::Document,
    };
    let check = |columns: usize| match request.dimensions {
        Some(wanted) if wanted != columns => {
            let reason = format!("dimensions must be {columns}: `{name}` has vectors of no other length");
            Err(ApiError::invalid(reason).of_parameter("dimensions"))
        }
        _ => Ok(()),
    };
    // A remote embedder tells its length with the first vector.
    if embedder.dimensions() > 0 {
        check(embedder.dimensions())?;
    }
    let counted = async { embedder.count_tokens(&texts, kind).await.map_err(lab::Error::from) };
    let counted = clock.in_time(counted).await?;
    let most = embedder.max_tokens();
    let long = counted.iter().flatten().enumerate().find(|(_, tokens)| **tokens > most);
    if let Some((at, tokens)) = long {
        let reason = format!("`input[{at}]` has {tokens} tokens, and `{name}` reads {most} at most: send it in parts");
        let refused = ApiError::invalid(reason).of_parameter(format!("input[{at}]"));
        return Err(refused.with_status(axum::http::StatusCode::BAD_REQUEST, "context_length_exceeded"));
    }
    let work = async { embedder.embed(&texts, kind).await.map_err(lab::Error::from) };
    let matrix = clock.in_time(work).await?;
    check(matrix.columns)?;
    let vector = |row: &[f32]| match request.encoding_format {
        Some(Encoding::Base64) => {
            let bytes: Vec<u8> = row.iter().flat_map(|number| number.to_le_bytes()).collect();
            Numbers::Base64(STANDARD.encode(bytes))
        }
        Some(Encoding::Float) | None => Numbers::Float(row.iter().copied().map(f64::from).collect()),
    };
    let data = matrix.iter().enumerate();
    let data = data.map(|(index, row)| Embedding { object: "embedding", index, embedding: vector(row) }).collect();
    let tokens = counted.map_or_else(|| tokens(&texts), |counted| counted.iter().sum());
    Ok(Json(Embeddings {
        object: "list",
        data,
        model: name.to_owned(),
        usage: TextUsage { prompt_tokens: tokens, total_tokens: tokens },
    }))
}

/// About how many tokens texts have, where no tokenizer is here.
pub(crate) fn tokens(texts: &[String]) -> usize {
    texts.iter().map(|text| text.len().div_ceil(4)).sum()
}
