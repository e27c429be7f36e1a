//! Tests of local embedding: on a small BERT with made-up weights, and on the
//! real all-MiniLM-L6-v2 where `make test` has brought it.

use super::*;
use crate::{CpuBudget, ModelDirectory, testing::word_tokenizer};
use serde_json::{Map, json};
use std::path::{Path, PathBuf};

const WORDS: [&str; 10] = ["[UNK]", "[CLS]", "[SEP]", "how", "to", "change", "engine", "oil", "bake", "cake"];

fn context(models: &Path) -> Option<Context> {
    let libraries = std::env::var_os("REVERIE_TEST_LIBRARIES").map(PathBuf::from);
    let directory = ModelDirectory::new(models.to_owned(), libraries.into_iter().collect());
    if let Err(error) = ready(&directory) {
        println!("skipped: {error}");
        return None;
    }
    Some(Context { directory, cpu: CpuBudget::new(2), environment: Arc::new(|_| None) })
}

/// A BERT of two layers, in safetensors, with weights from a simple generator.
fn write_small_bert(folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    let (hidden, wide) = (16, 64);
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![WORDS.len(), hidden]),
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
    let views = data.iter().map(|(name, shape, bytes)| {
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes);
        (name.as_str(), view.expect("a tensor"))
    });
    let model = safetensors::serialize(views, None).expect("a file");
    std::fs::write(folder.join("model.safetensors"), model).expect("written");
    let config =
        json!({ "model_type": "bert", "num_attention_heads": 4, "hidden_size": hidden, "max_position_embeddings": 40 });
    std::fs::write(folder.join("config.json"), config.to_string()).expect("written");
    let vocabulary: Map<_, _> = WORDS.iter().enumerate().map(|(id, word)| ((*word).to_owned(), id.into())).collect();
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
    std::fs::write(folder.join("tokenizer.json"), word_tokenizer(vocabulary, &template).to_string()).expect("written");
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn texts() -> Vec<String> {
    let texts = [
        "change oil",
        "how to bake cake",
        "",
        "engine",
        "how to change engine oil how to change engine oil",
        "cake cake",
    ];
    texts.map(str::to_owned).to_vec()
}

#[tokio::test]
async fn batches_change_nothing_and_order_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(&folder.path().join("models")) else { return };
    write_small_bert(folder.path());
    let base = Config { model: folder.path().display().to_string(), ..Config::default() };
    let exact = Config { quantization: Some(Quantization::None), batch_tokens: Some(1), ..base.clone() };
    let alone = exact.build(&cx).expect("a model");
    let together = Config { batch_tokens: Some(1000), ..exact.clone() }.build(&cx).expect("a model");
    let small = base.build(&cx).expect("a model");
    assert_eq!(alone.identity(), together.identity());
    assert_ne!(alone.identity(), small.identity());
    assert_eq!((small.dimensions(), small.max_tokens()), (16, 40));
    let texts = texts();
    let (expected, usage) = alone.embed(&texts, InputKind::Document).await.expect("vectors");
    assert_eq!(usage.prompt_tokens, 6 * 2 + (2 + 4 + 1 + 10 + 2));
    let (found, _) = together.embed(&texts, InputKind::Document).await.expect("vectors");
    let (near, _) = small.embed(&texts, InputKind::Document).await.expect("vectors");
    for i in 0..texts.len() {
        assert!((cosine(expected.row(i), expected.row(i)) - 1.0).abs() < 1e-5);
        let difference = expected.row(i).iter().zip(found.row(i)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference < 1e-5, "text {i} differs by {difference}");
        assert!(cosine(expected.row(i), near.row(i)) > 0.99, "text {i}: {}", cosine(expected.row(i), near.row(i)));
        let (single, _) = small.embed(&texts[i..=i], InputKind::Document).await.expect("vectors");
        assert_eq!(single.row(0), near.row(i), "an int8 vector depends on nothing but its text");
    }
}

#[tokio::test]
async fn token_vectors_are_one_row_per_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(&folder.path().join("models")) else { return };
    write_small_bert(folder.path());
    let quantization = Some(Quantization::None);
    let config = Config { model: folder.path().display().to_string(), quantization, ..Config::default() };
    let model = config.build(&cx).expect("a model");
    let texts = texts();
    let matrices = model.embed_tokens(&texts, InputKind::Document).await.expect("vectors");
    let rows: Vec<usize> = matrices.iter().map(Matrix::rows).collect();
    assert_eq!(rows, [4, 6, 2, 3, 12, 4]);
    let cls = Config { pooling: Some(Pooling::Cls), ..config }.build(&cx).expect("a model");
    let (pooled, _) = cls.embed(&texts, InputKind::Document).await.expect("vectors");
    for (i, matrix) in matrices.iter().enumerate() {
        assert!(matrix.iter().all(|row| (cosine(row, row) - 1.0).abs() < 1e-5));
        assert!(cosine(matrix.row(0), pooled.row(i)) > 0.99999);
    }
}

#[tokio::test]
async fn long_texts_are_cut_and_prefixes_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(&folder.path().join("models")) else { return };
    write_small_bert(folder.path());
    let config = Config {
        model: folder.path().display().to_string(),
        max_tokens: Some(8),
        query_prefix: "how ".to_owned(),
        ..Config::default()
    };
    let model = config.build(&cx).expect("a model");
    let long = vec!["oil ".repeat(100), "oil ".repeat(6)];
    let (matrix, usage) = model.embed(&long, InputKind::Document).await.expect("vectors");
    assert_eq!(usage.prompt_tokens, 16);
    assert_eq!(matrix.row(0), matrix.row(1));
    let (query, _) = model.embed(&["to change".to_owned()], InputKind::Query).await.expect("vectors");
    let (document, _) = model.embed(&["how to change".to_owned()], InputKind::Document).await.expect("vectors");
    assert_eq!(query, document);
    let beyond = Config { max_tokens: Some(41), ..config };
    assert!(matches!(beyond.identity(&cx), Err(Error::Config(_))), "the model has 40 positions");
}

#[test]
fn identity_needs_no_library_and_names_what_changes_vectors() {
    let folder = tempfile::tempdir().expect("a folder");
    write_small_bert(folder.path());
    let directory = ModelDirectory::new(folder.path().join("models"), Vec::new());
    let cx = Context { directory, cpu: CpuBudget::new(1), environment: Arc::new(|_| None) };
    let config = Config { model: folder.path().display().to_string(), ..Config::default() };
    let identity = config.identity(&cx).expect("an identity");
    assert_eq!(identity.parameters["pooling"], "mean");
    assert!(identity.parameters["quantization"].as_str().is_some_and(|name| name.starts_with("int8")));
    for changed in [
        Config { pooling: Some(Pooling::Cls), ..config.clone() },
        Config { max_tokens: Some(20), ..config.clone() },
        Config { document_prefix: "passage: ".to_owned(), ..config.clone() },
        Config { quantization: Some(Quantization::None), ..config.clone() },
    ] {
        assert_ne!(changed.identity(&cx).expect("an identity"), identity);
    }
    let larger = Config { batch_tokens: Some(9), ..config };
    assert_eq!(larger.identity(&cx).expect("an identity"), identity);
}

#[tokio::test]
async fn the_real_model_gives_its_published_vectors() {
    let Some(models) = std::env::var_os("REVERIE_TEST_MODELS").map(PathBuf::from) else {
        println!("skipped: REVERIE_TEST_MODELS is not set");
        return;
    };
    let Some(cx) = context(&models) else { return };
    let config = Config { quantization: Some(Quantization::None), ..Config::default() };
    if let Err(error) = config.identity(&cx) {
        println!("skipped: {error}");
        return;
    }
    let texts: Vec<String> = GOLDEN.iter().map(|(text, _)| (*text).to_owned()).collect();
    let (exact, _) = config.build(&cx).expect("a model").embed(&texts, InputKind::Document).await.expect("vectors");
    let (small, _) =
        Config::default().build(&cx).expect("a model").embed(&texts, InputKind::Document).await.expect("vectors");
    for (i, (text, golden)) in GOLDEN.iter().enumerate() {
        for (value, expected) in exact.row(i).iter().zip(golden) {
            assert!((value - expected).abs() < 1e-3, "{text}: {value} for {expected}");
        }
        assert!(cosine(exact.row(i), small.row(i)) > 0.99, "{text}");
    }
}

/// Text and first values of its vector, computed in NumPy from the published
/// weights, layer by layer as the paper has it.
const GOLDEN: [(&str, [f32; 8]); 3] = [
    ("How do I change the engine oil?", [-0.06417, 0.02984, 0.03009, -0.02556, -0.00514, 0.01067, -0.06274, 0.01379]),
    (
        "The quick brown fox jumps over the lazy dog.",
        [0.04393, 0.05893, 0.04818, 0.07755, 0.02674, -0.03763, -0.00261, -0.05994],
    ),
    (
        "Reverie finds the RAG pipeline that answers best on your documents, proves it, and serves it.",
        [-0.09662, 0.09924, 0.04251, -0.01096, -0.05675, -0.00040, -0.04538, 0.03101],
    ),
];
