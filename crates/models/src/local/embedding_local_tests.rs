//! Tests of local embedding: on a small BERT with made-up weights, and on the
//! real all-MiniLM-L6-v2 where `make test` has brought it.

use super::*;
use crate::{CpuBudget, ModelDirectory, local::testing::write_small_bert};
use std::path::{Path, PathBuf};

fn context(models: &Path) -> Option<Context> {
    let libraries = std::env::var_os("REVERIE_TEST_LIBRARIES").map(PathBuf::from);
    let directory = ModelDirectory::new(models.to_owned(), libraries.into_iter().collect());
    if let Err(error) = ready(&directory) {
        skips::skip(&error.to_string());
        return None;
    }
    Some(Context { directory, cpu: CpuBudget::new(2), environment: Arc::new(|_| None) })
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
    write_small_bert(folder.path(), 0);
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
    write_small_bert(folder.path(), 0);
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
    write_small_bert(folder.path(), 0);
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
    write_small_bert(folder.path(), 0);
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
        skips::skip("REVERIE_TEST_MODELS is not set");
        return;
    };
    let Some(cx) = context(&models) else { return };
    let config = Config { quantization: Some(Quantization::None), ..Config::default() };
    if let Err(error) = config.identity(&cx) {
        skips::skip(&error.to_string());
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
