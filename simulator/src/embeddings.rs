//! `/v1/embeddings`: the vector of a text is a function of the text.

use crate::{
    SimulatorSettings,
    reply::{ReplyContent, ReplyUsage, RequestError, SimulatedReply, estimated_tokens, fingerprint, number},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

const MOST_DIMENSIONS: usize = 16_384;

#[derive(Deserialize)]
struct EmbeddingBody {
    model: String,
    input: EmbeddingInput,
    dimensions: Option<usize>,
    encoding_format: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum EmbeddingInput {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u64>),
    TokenLists(Vec<Vec<u64>>),
}

/// An input's bytes, and how many tokens it is.
fn texts(input: &EmbeddingInput) -> Vec<(Vec<u8>, u64)> {
    let text = |text: &String| (text.clone().into_bytes(), estimated_tokens(text));
    let tokens =
        |tokens: &Vec<u64>| (tokens.iter().flat_map(|token| token.to_le_bytes()).collect(), tokens.len() as u64);
    match input {
        EmbeddingInput::Text(one) => vec![text(one)],
        EmbeddingInput::Texts(all) => all.iter().map(text).collect(),
        EmbeddingInput::Tokens(one) => vec![tokens(one)],
        EmbeddingInput::TokenLists(all) => all.iter().map(tokens).collect(),
    }
}

pub(crate) fn reply(
    body: &[u8],
    _fingerprint: u128,
    settings: &SimulatorSettings,
) -> Result<SimulatedReply, RequestError> {
    let request: EmbeddingBody = serde_json::from_slice(body)?;
    let dimensions = request.dimensions.unwrap_or(settings.dimensions);
    if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
        return Err(RequestError::parameter("dimensions", format!("it must be from 1 to {MOST_DIMENSIONS}")));
    }
    let as_base64 = match request.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(RequestError::parameter("encoding_format", "it must be 'float' or 'base64'")),
    };
    let texts = texts(&request.input);
    if texts.is_empty() {
        return Err(RequestError::parameter("input", "at least one text is needed"));
    }
    let vectors: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, (text, _))| {
            let vector = vector(text, dimensions);
            let embedding = if as_base64 {
                let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                json!(STANDARD.encode(bytes))
            } else {
                json!(vector)
            };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        })
        .collect();
    let prompt_tokens = texts.iter().map(|(_, tokens)| tokens).sum();
    let answer = json!({
        "object": "list",
        "data": vectors,
        "model": request.model,
        "usage": { "prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens },
    });
    let usage = ReplyUsage { prompt_tokens, completion_tokens: 0 };
    Ok(SimulatedReply { content: ReplyContent::Json(answer.to_string().into()), usage })
}

/// A direction of its own for each text, of length 1.
fn vector(text: &[u8], dimensions: usize) -> Vec<f32> {
    let fingerprint = fingerprint(text);
    let numbers = (0..dimensions as u64).map(|n| number(fingerprint, n) as i64 as f64);
    let numbers: Vec<f64> = numbers.collect();
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    numbers.into_iter().map(|number| (number / length) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: Value) -> Value {
        let reply = reply(body.to_string().as_bytes(), 0, &SimulatorSettings::default()).expect("an answer");
        let ReplyContent::Json(bytes) = reply.content else { panic!("not a stream") };
        serde_json::from_slice(&bytes).expect("JSON")
    }

    #[test]
    fn a_vector_has_length_one_and_belongs_to_its_text() {
        let answer = answer(json!({ "model": "m", "input": ["a", "b", "a"], "dimensions": 7 }));
        let vector = |i: usize| answer["data"][i]["embedding"].as_array().expect("numbers").clone();
        let length: f64 = vector(0).iter().filter_map(Value::as_f64).map(|number| number * number).sum();
        assert!(vector(0).len() == 7 && (length - 1.0).abs() < 1e-5);
        assert_eq!(vector(0), vector(2));
        assert_ne!(vector(0), vector(1));
        assert_eq!(answer["usage"], json!({ "prompt_tokens": 3, "total_tokens": 3 }));
    }

    #[test]
    fn base64_holds_the_same_numbers() {
        let as_numbers = answer(json!({ "model": "m", "input": "text" }));
        let as_text = answer(json!({ "model": "m", "input": "text", "encoding_format": "base64" }));
        let bytes = STANDARD.decode(as_text["data"][0]["embedding"].as_str().expect("a text")).expect("base64");
        let numbers: Vec<f32> =
            bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect();
        assert_eq!(json!(numbers), as_numbers["data"][0]["embedding"]);
        assert_eq!(numbers.len(), 64);
    }
}
