//! Helpers for the tests of all crates: embedding models that are written in a
//! moment and know the words of the test. Not for users.

use serde_json::{Map, Value, json};
use std::{
    io::{Error, Result},
    path::Path,
};

/// The length of the tiny model's vectors.
pub(crate) const TINY_DIMENSIONS: usize = 64;

/// Writes a static embedding model that knows `words` (compared in lower
/// case) into `folder`: use it as `embedding.static = { model = "<folder>" }`.
/// A word's vector is made from its hash, so that different words are nearly
/// orthogonal and texts are similar as far as they share words.
///
/// # Errors
/// If the files cannot be written.
pub fn write_tiny_model(folder: &Path, words: &[&str]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut vocabulary = Map::new();
    vocabulary.insert("[UNK]".to_owned(), 0.into());
    let mut bytes = vec![0; TINY_DIMENSIONS * size_of::<f32>()];
    for word in words.iter().map(|word| word.to_lowercase()) {
        let id = vocabulary.len();
        if vocabulary.contains_key(&word) {
            continue;
        }
        bytes.extend(vector(&word).flat_map(f32::to_le_bytes));
        vocabulary.insert(word, id.into());
    }
    let shape = vec![vocabulary.len(), TINY_DIMENSIONS];
    let table = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape, &bytes).map_err(Error::other)?;
    let model = safetensors::serialize([("embeddings", table)], None).map_err(Error::other)?;
    std::fs::write(folder.join("model.safetensors"), model)?;
    std::fs::write(folder.join("tokenizer.json"), word_tokenizer(vocabulary, &Value::Null).to_string())
}

/// Writes a small BERT into `folder` that knows `words` (compared in lower case)
/// and reads 40 tokens at a time: use it as `embedding.local = { model = "<folder>" }`.
///
/// # Errors
/// If the files cannot be written.
pub fn write_small_bert(folder: &Path, words: &[&str]) -> Result<()> {
    let mut words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    words.sort_unstable();
    words.dedup();
    crate::local::write_small_bert(folder, &words.iter().map(String::as_str).collect::<Vec<_>>(), 0)
}

/// The process's one ONNX Runtime environment, for benchmarks that run bare
/// sessions beside our models.
///
/// # Errors
/// If the library is not here or cannot be loaded.
pub fn onnx_environment(
    directory: &crate::ModelDirectory,
) -> std::result::Result<ort::environment::Environment, crate::Error> {
    crate::local::onnx_library(directory)
}

/// Values in -1..1, the same on every machine.
fn vector(word: &str) -> impl Iterator<Item = f32> {
    let mut hash = [0_u8; TINY_DIMENSIONS];
    blake3::Hasher::new().update(word.as_bytes()).finalize_xof().fill(&mut hash);
    hash.into_iter().map(|byte| (f32::from(byte) - 127.5) / 127.5)
}

/// A `tokenizer.json` whose tokens are whole words.
pub(crate) fn word_tokenizer(vocabulary: Map<String, Value>, post_processor: &Value) -> Value {
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": post_processor,
        "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]" },
    })
}
