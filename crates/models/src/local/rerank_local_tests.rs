//! Tests of the cross-encoder path with models that the tests write.

use super::{super::onnx::SessionPool, *};
use crate::{
    CpuBudget, ModelDirectory,
    local::{
        onnx::graph::{Attribute::Int, Dimension, ElementType, OnnxGraph},
        testing::write_small_bert,
    },
    testing::word_tokenizer,
};
use serde_json::{Map, json};
use std::path::Path;

const WORDS: [&str; 8] = ["[UNK]", "[SEP]", "how", "change", "engine", "oil", "bake", "cake"];

/// ONNX Runtime lies where `make test` says; without it there is no such test.
fn context(folder: &Path) -> Option<ModelContext> {
    let libraries = std::env::var_os("REVERIE_TEST_LIBRARIES").map(std::path::PathBuf::from);
    let directory = ModelDirectory::new(folder.join("models"), libraries.into_iter().collect());
    if let Err(error) = ready(&directory) {
        skips::skip(&error.to_string());
        return None;
    }
    Some(ModelContext { directory, cpu: CpuBudget::new(2), environment: Arc::new(|_| None) })
}

fn write_tokenizer(folder: &Path) {
    let vocabulary: Map<_, _> = WORDS.iter().enumerate().map(|(id, word)| ((*word).to_owned(), id.into())).collect();
    let part = |id: &str, kind: u32| json!({ "Sequence": { "id": id, "type_id": kind } });
    let end = |kind: u32| json!({ "SpecialToken": { "id": "[SEP]", "type_id": kind } });
    let template = json!({
        "type": "TemplateProcessing",
        "single": [part("A", 0), end(0)],
        "pair": [part("A", 0), end(0), part("B", 1), end(1)],
        "special_tokens": { "[SEP]": { "id": "[SEP]", "ids": [1], "tokens": ["[SEP]"] } },
    });
    std::fs::write(folder.join("tokenizer.json"), word_tokenizer(vocabulary, &template).to_string()).expect("written");
}

/// A model whose score is the number of word pairs (one of the query, one of
/// the passage) that are equal: one-hot vectors summed by part, then their
/// product. With more labels, all but the last are minus that.
fn write_overlap_model(folder: &Path, n_labels: usize) {
    std::fs::create_dir_all(folder).expect("a folder");
    write_tokenizer(folder);
    let n = WORDS.len();
    let mut graph = OnnxGraph::default();
    let text = [Dimension::Named("batch"), Dimension::Named("length")];
    let ids = graph.input("input_ids", ElementType::Int64, &text);
    let mask = graph.input("attention_mask", ElementType::Int64, &text);
    let types = graph.input("token_type_ids", ElementType::Int64, &text);
    // Unknown words and separators have no vector.
    let one_hot: Vec<f32> = (0..n * n).map(|i| if i / n == i % n && i / n > 1 { 1.0 } else { 0.0 }).collect();
    let table = graph.floats("table", &[n, n], &one_hot);
    let vectors = graph.node("Gather", &[&table, &ids], &[]);
    let to_float = [("to", Int(ElementType::Float as i64))];
    let mask = graph.node("Cast", &[&mask], &to_float);
    let second = graph.node("Cast", &[&types], &to_float);
    let second = graph.node("Mul", &[&second, &mask], &[]);
    let first = graph.node("Sub", &[&mask, &second], &[]);
    let last = graph.int64s("last", &[2]);
    let middle = graph.int64s("middle", &[1]);
    let mut sum = |part: &str| {
        let part = graph.node("Unsqueeze", &[part, &last], &[]);
        let part = graph.node("Mul", &[&part, &vectors], &[]);
        graph.node("ReduceSum", &[&part, &middle], &[("keepdims", Int(0))])
    };
    let (query, passage) = (sum(&first), sum(&second));
    let product = graph.node("Mul", &[&query, &passage], &[]);
    let mut score = graph.node("ReduceSum", &[&product, &middle], &[("keepdims", Int(1))]);
    let negative = graph.node("Neg", &[&score], &[]);
    for _ in 1..n_labels {
        score = graph.node("Concat", &[&negative, &score], &[("axis", Int(1))]);
    }
    graph.output("logits", &score, ElementType::Float, &[Dimension::Named("batch"), Dimension::Fixed(n_labels)]);
    std::fs::write(folder.join("model.onnx"), graph.finish()).expect("written");
}

#[tokio::test]
async fn passages_get_their_own_scores_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(folder.path()) else { return };
    let passages = ["bake a cake", "change the engine oil", "", "oil oil oil oil oil oil oil oil oil", "engine"]
        .map(str::to_owned);
    for (n_labels, factor) in [(1, 1.0), (2, 2.0)] {
        let model = folder.path().join(format!("overlap_{n_labels}"));
        write_overlap_model(&model, n_labels);
        for batch_tokens in [1, 1000] {
            let config =
                Config { model: model.display().to_string(), batch_tokens: Some(batch_tokens), ..Config::default() };
            let built = config.build(&cx).expect("a model");
            assert_eq!(built.identity(), &config.identity(&cx).expect("an identity"));
            config.ready(&cx).await.expect("ready");
            let (scores, usage) = built.rerank("How to change oil?", &passages).await.expect("scores");
            assert_eq!(scores, [0.0, 2.0, 0.0, 9.0, 0.0].map(|score| score * factor));
            // Six tokens of the query and its end, then each passage and its end.
            assert_eq!(usage.prompt_tokens, 5 * 6 + (3 + 4 + 9 + 1) + 5);
        }
    }
}

#[tokio::test]
async fn a_pair_that_is_longer_than_the_model_reads_is_counted_with_what_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(folder.path()) else { return };
    write_overlap_model(folder.path(), 1);
    let config = Config { model: folder.path().display().to_string(), max_tokens: Some(10), ..Config::default() };
    let model = config.build(&cx).expect("a model");
    assert_eq!(model.max_tokens(), Some(10));
    // The two words of the query and two special tokens leave room for six words.
    let passages = ["oil ".repeat(6), "oil ".repeat(7), "oil ".repeat(100), "cake".to_owned()];
    let (scores, usage) = model.rerank("change oil", &passages).await.expect("scores");
    assert_eq!(scores, [6.0, 6.0, 6.0, 0.0]);
    assert_eq!((usage.prompt_tokens, usage.cut_texts, usage.cut_tokens), (10 + 10 + 10 + 5, 2, 1 + 94));
}

#[tokio::test]
async fn a_sigmoid_keeps_the_order_and_maps_to_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(folder.path()) else { return };
    write_overlap_model(folder.path(), 1);
    let config = Config { model: folder.path().display().to_string(), sigmoid: true, ..Config::default() };
    let model = config.build(&cx).expect("a model");
    let passages = ["cake", "oil", "oil oil"].map(str::to_owned);
    let (scores, _) = model.rerank("oil", &passages).await.expect("scores");
    assert_eq!(scores[0], 0.5);
    assert!(scores[0] < scores[1] && scores[1] < scores[2] && scores[2] < 1.0);
    let (none, _) = model.rerank("oil", &[]).await.expect("scores");
    assert!(none.is_empty());
}

#[tokio::test]
async fn a_converted_head_scores_a_pair_the_same_in_any_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(folder.path()) else { return };
    let headless = folder.path().join("headless");
    write_small_bert(&headless, 0);
    let none = Config { model: headless.display().to_string(), ..Config::default() };
    assert!(matches!(none.identity(&cx), Err(Error::BadFile { .. })), "an embedder cannot rerank");
    let passages = ["bake cake", "change engine oil", "oil", "how to change oil"].map(str::to_owned);
    for n_labels in [1, 2] {
        let model = folder.path().join(format!("head_{n_labels}"));
        write_small_bert(&model, n_labels);
        let base = Config { model: model.display().to_string(), ..Config::default() };
        let exact = Config { quantization: Some(Quantization::None), batch_tokens: Some(1), ..base.clone() };
        let together = Config { batch_tokens: Some(1000), ..exact.clone() };
        let (expected, _) = exact.build(&cx).expect("a model").rerank("change oil", &passages).await.expect("scores");
        let (found, _) = together.build(&cx).expect("a model").rerank("change oil", &passages).await.expect("scores");
        let (near, _) = base.build(&cx).expect("a model").rerank("change oil", &passages).await.expect("scores");
        for i in 0..passages.len() {
            assert!((expected[i] - found[i]).abs() < 1e-4, "{expected:?} {found:?}");
            assert!((expected[i] - near[i]).abs() < 0.1, "{expected:?} {near:?}");
        }
        assert!(expected.iter().any(|score| (score - expected[0]).abs() > 1e-3), "{expected:?}");
    }
}

#[test]
fn a_model_with_other_labels_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(folder.path()) else { return };
    write_overlap_model(folder.path(), 3);
    let config = Config { model: folder.path().display().to_string(), ..Config::default() };
    let error = config.build(&cx).err().expect("three labels").to_string();
    assert!(error.contains("3 labels"), "{error}");
}

#[test]
fn settings_that_cannot_work_are_refused_before_anything_is_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = ModelDirectory::new(folder.path().join("models"), Vec::new());
    let cx = ModelContext { directory, cpu: CpuBudget::new(1), environment: Arc::new(|_| None) };
    std::fs::write(folder.path().join("model.onnx"), "").expect("written");
    let config = Config { model: folder.path().display().to_string(), ..Config::default() };
    assert!(matches!(config.identity(&cx), Err(Error::NotHere { .. })), "there is no tokenizer");
    write_tokenizer(folder.path());
    config.identity(&cx).expect("all files are there");
    let quantized = Config { quantization: Some(Quantization::Int8), ..config.clone() };
    assert!(matches!(quantized.identity(&cx), Err(Error::Config(_))), "an ONNX file runs as it is");
    let short = Config { max_tokens: Some(3), ..config };
    assert!(matches!(short.identity(&cx), Err(Error::Config(_))));
    let unnamed = Config { model: String::new(), ..Config::default() };
    assert!(matches!(unnamed.identity(&cx), Err(Error::Config(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_batch_begins_for_a_caller_that_waits_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(folder.path()) else { return };
    write_overlap_model(folder.path(), 1);
    let pool = SessionPool::open(&cx.directory, &cx.cpu, "m", &folder.path().join("model.onnx"), &[2]).expect("a pool");
    let batch = TokenBatch { width: 1, ids: vec![2], types: vec![0], lengths: vec![1], texts: vec![0] };
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let finish = move |_: &TokenBatch, _: &BatchOutput<'_>| {
        let _ = begun.send(());
        // Until the caller is gone.
        let _ = released.recv();
        Ok(())
    };
    let work = tokio::spawn({
        let (pool, batches) = (pool.clone(), vec![batch.clone(); 100]);
        async move { pool.run(batches, finish).await }
    });
    assert!(begins.recv().await.is_some());
    work.abort();
    assert!(work.await.is_err());
    drop(release);
    let mut others = 0;
    while begins.recv().await.is_some() {
        others += 1;
    }
    assert_eq!(others, 0);
    // Its threads are free again.
    let all = pool.run(vec![batch; 3], |_: &TokenBatch, _: &BatchOutput<'_>| Ok(())).await.expect("results");
    assert_eq!(all.len(), 3);
}
