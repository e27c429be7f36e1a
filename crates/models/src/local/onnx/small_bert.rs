//! For tests: a BERT small enough to be written in a moment.

use crate::testing::word_tokenizer;
use serde_json::{Map, json};
use std::{
    io::{Error, Result},
    path::Path,
};

/// The tokens that it has beside words.
const MARKS: [&str; 3] = ["[UNK]", "[CLS]", "[SEP]"];

/// One that knows a few words of its own.
#[cfg(test)]
pub(crate) fn write_small_bert(folder: &Path, n_labels: usize) {
    let words = ["how", "to", "change", "engine", "oil", "bake", "cake"];
    write(folder, &words, n_labels).expect("a model");
}

/// A BERT of two layers and 40 positions that knows these words, in
/// safetensors, with weights from a simple generator, and a classification head
/// unless there are no labels.
///
/// # Errors
/// If its files cannot be written.
pub(crate) fn write(folder: &Path, words: &[&str], n_labels: usize) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let (hidden, wide) = (16, 64);
    let words: Vec<&str> = MARKS.into_iter().chain(words.iter().copied()).collect();
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![words.len(), hidden]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![40, hidden]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, hidden]),
    ];
    let mut pair = |name: String, weight: Vec<usize>| {
        shapes.push((format!("{name}.bias"), vec![weight[0]]));
        shapes.push((format!("{name}.weight"), weight));
    };
    pair("embeddings.LayerNorm".to_owned(), vec![hidden]);
    for layer in 0..2 {
        let name = format!("encoder.layer.{layer}");
        for part in ["self.query", "self.key", "self.value", "output.dense"] {
            pair(format!("{name}.attention.{part}"), vec![hidden, hidden]);
        }
        pair(format!("{name}.attention.output.LayerNorm"), vec![hidden]);
        pair(format!("{name}.intermediate.dense"), vec![wide, hidden]);
        pair(format!("{name}.output.dense"), vec![hidden, wide]);
        pair(format!("{name}.output.LayerNorm"), vec![hidden]);
    }
    if n_labels > 0 {
        pair("bert.pooler.dense".to_owned(), vec![hidden, hidden]);
        pair("classifier".to_owned(), vec![n_labels, hidden]);
        // With a head, all other names begin with `bert.`.
        for (name, _) in &mut shapes {
            if name.starts_with("embeddings") || name.starts_with("encoder") {
                name.insert_str(0, "bert.");
            }
        }
    }
    let mut state = 1_u32;
    let mut data: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    for (name, shape) in shapes {
        let center = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
        let bytes = (0..shape.iter().product::<usize>()).flat_map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (center + ((state >> 8) as f32 / (1 << 24) as f32 - 0.5)).to_le_bytes()
        });
        let bytes = bytes.collect();
        data.push((name, shape, bytes));
    }
    let mut views = Vec::with_capacity(data.len());
    for (name, shape, bytes) in &data {
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes);
        views.push((name.as_str(), view.map_err(Error::other)?));
    }
    let model = safetensors::serialize(views, None).map_err(Error::other)?;
    std::fs::write(folder.join("model.safetensors"), model)?;
    let config =
        json!({ "model_type": "bert", "num_attention_heads": 4, "hidden_size": hidden, "max_position_embeddings": 40 });
    std::fs::write(folder.join("config.json"), config.to_string())?;
    let vocabulary: Map<_, _> = words.iter().enumerate().map(|(id, word)| ((*word).to_owned(), id.into())).collect();
    let special = |name: &str| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
    let template = json!({
        "type": "TemplateProcessing",
        "single": [special("[CLS]"), { "Sequence": { "id": "A", "type_id": 0 } }, special("[SEP]")],
        "pair": [special("[CLS]"), { "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
        "special_tokens": {
            "[CLS]": { "id": "[CLS]", "ids": [1], "tokens": ["[CLS]"] },
            "[SEP]": { "id": "[SEP]", "ids": [2], "tokens": ["[SEP]"] },
        },
    });
    std::fs::write(folder.join("tokenizer.json"), word_tokenizer(vocabulary, &template).to_string())
}
