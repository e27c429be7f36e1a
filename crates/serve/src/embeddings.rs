//! `POST /v1/embeddings`: vectors of the pipeline's embedder, in OpenAI's form.

use crate::{Service, error::ApiError, request::Body};
use axum::{Json, extract::State};
use base64::{Engine, engine::general_purpose::STANDARD};
use models::InputKind;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most texts of a request, as of OpenAI.
const MOST: usize = 2048;

/// A request for vectors.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EmbeddingsRequest {
    /// The embedder's name as `/v1/models` lists it, or that of what is served.
    model: String,
    /// A text, or up to 2,048 texts.
    input: Input,
    /// `float` (the default) or `base64`: little-endian 32-bit numbers.
    #[serde(default)]
    encoding_format: Option<Encoding>,
    /// Only the embedder's own number.
    #[serde(default)]
    #[schemars(range(min = 1))]
    dimensions: Option<usize>,
    /// `document` (the default) or `query`, for models that tell them apart. Not
    /// part of OpenAI's API.
    #[serde(default)]
    input_type: Option<Kind>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Input {
    Text(#[schemars(length(min = 1))] String),
    Texts(#[schemars(length(min = 1, max = MOST), inner(length(min = 1)))] Vec<String>),
    // Read so that they can be refused in words.
    #[schemars(skip)]
    Tokens(Vec<u32>),
    #[schemars(skip)]
    TokenLists(Vec<Vec<u32>>),
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
) -> Result<Json<Value>, ApiError> {
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
    let texts = match request.input {
        Input::Text(text) => vec![text],
        Input::Texts(texts) => texts,
        Input::Tokens(tokens) if tokens.is_empty() => Vec::new(),
        Input::TokenLists(lists) if lists.is_empty() => Vec::new(),
        Input::Tokens(_) | Input::TokenLists(_) => {
            return Err(invalid("tokens cannot be embedded: send texts, since tokens differ between models".into()));
        }
    };
    if texts.is_empty() || texts.len() > MOST {
        return Err(invalid(format!("input has {} texts; 1 to {MOST} are taken", texts.len())));
    }
    if let Some(at) = texts.iter().position(|text| text.is_empty()) {
        return Err(invalid(format!("text {at} is empty")));
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
    let work = async { embedder.embed(&texts, kind).await.map_err(lab::Error::from) };
    let matrix = clock.in_time(work).await?;
    check(matrix.columns)?;
    let vector = |row: &[f32]| match request.encoding_format {
        Some(Encoding::Base64) => {
            Value::from(STANDARD.encode(row.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()))
        }
        Some(Encoding::Float) | None => json!(row),
    };
    let data: Vec<Value> = matrix
        .iter()
        .enumerate()
        .map(|(index, row)| json!({ "object": "embedding", "index": index, "embedding": vector(row) }))
        .collect();
    let tokens = tokens(&texts);
    Ok(Json(json!({
        "object": "list", "data": data, "model": name,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })))
}

/// About how many tokens texts have: models in this process do not count what
/// costs nothing.
pub(crate) fn tokens(texts: &[String]) -> usize {
    texts.iter().map(|text| text.len().div_ceil(4)).sum()
}
