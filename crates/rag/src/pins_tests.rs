//! What each component of this crate gives for a fixed input is pinned in
//! `pins/`: an output that changes needs a new `VERSION`. Components are taken
//! from their registries, so a new one is tried too, or says what is missing.

use crate::{
    Answer, Choice, Chunk, ChunkTable, Component, Context, Document, Hit, Passage, Span,
    analysis::TextAnalysis,
    chunk::ChunkerConfig,
    corpus::{Corpus, Query},
    generate::{GeneratorConfig, tests::ScriptedChat},
    index::{
        Bm25Index, DatabaseIndex, DenseIndex, FilledCollection, GraphIndex, GraphSettings, Index, IndexKind, Indexes,
        MadeFrom, TokenBlock, TokenIndex, dense_tests::matrix,
    },
    load::{self, ParseLimits},
    rerank::{self, RerankerConfig},
    retrieve::{RetrieverConfig, tests::opened},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{ops::ControlFlow, path::Path, sync::Arc};
use store::testing::{Pin, check_pins};

/// Compares the pins in a file, or writes them anew where that is asked for.
#[track_caller]
pub(crate) fn check(name: &str, pins: &[Pin], skipped: &[&str]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("pins").join(name).with_extension("txt");
    let rewrite = std::env::var_os("REVERIE_WRITE_PINS").is_some();
    if let Err(reason) = check_pins(&file, pins, skipped, rewrite) {
        panic!("{reason}");
    }
}

/// A component as it comes, and with further settings.
fn variants<T: Serialize + DeserializeOwned>(name: &str, with: &[Value]) -> Vec<T> {
    let of = |settings: &Value| {
        serde_json::from_value(json!({ name: settings }))
            .unwrap_or_else(|error| panic!("settings to pin `{name}` with, in {}: {error}", file!()))
    };
    with.iter().map(of).collect()
}

/// Prose, headings, lists, code and other scripts: something for every rule
/// that cuts.
pub(crate) fn text() -> String {
    let mut text = String::from("Vorwort ohne Überschrift. It has two sentences, e.g. this one.\n\n");
    for part in 1..=4 {
        text += &format!("# Part {part}: Mills & Märkte\n\n");
        for section in 1..=5 {
            text += &format!("## {part}.{section} Dr. Smith's mill\n\n");
            for line in 0..(part * section * 2) {
                text += &format!(
                    "The mill no. {line} at St. Mary's grinds {}.5 kg of rye; \"Does it?\" asked Mr. Ode. Yes! It \
                     stands since 17{section}2, i.e. {line} years (more or less)... ",
                    line * 7
                );
                if line % 5 == 4 {
                    text += "\n\n";
                }
            }
            text += "\n\n- one item\n- another, with `code`\n\n```sh\n# no heading\nmill --grind rye\n```\n\n";
            text += "| a | b |\n|---|---|\n| 1 | 2 |\n\n中文句子没有空格。这是第二句话！真的吗？\r\n\r\n👩‍👩‍👧 Ende.\n\n";
        }
    }
    text
}

/// The text as a loader gives it.
fn document() -> Document {
    load::parse("books/mills.md", text().as_bytes(), &ParseLimits::default()).unwrap()
}

/// Settings for small chunks: the keys of this chunker among `chunk_size` and `chunk_overlap`.
pub(crate) fn small_chunks(name: &str, size: u32, overlap: u32) -> Value {
    let usual: Vec<ChunkerConfig> = variants(name, &[json!({})]);
    let usual = usual[0].value();
    let sizes = [("chunk_size", size), ("chunk_overlap", overlap)];
    sizes.into_iter().filter(|(key, _)| usual[name].get(key).is_some()).collect()
}

const CHUNK: &str = "def chunk(text):\n    half = len(text) // 2\n    return [(0, half), (half, len(text))]\n";

#[test]
fn chunkers_are_pinned() {
    let document = document();
    // It asks an embedding model.
    let names = ChunkerConfig::NAMES.iter().filter(|name| **name != "semantic");
    let pins = names.map(|name| {
        let settings = match *name {
            "sentence_window" => json!({ "window_size": 1 }),
            "hierarchical" => json!({ "chunk_sizes": [256, 64, 24], "chunk_overlap": 6, "merge_threshold": 0.3 }),
            "python" => json!({ "source": CHUNK }),
            _ => small_chunks(name, 48, 12),
        };
        let as_it_comes = if *name == "python" { settings.clone() } else { json!({}) };
        let configs: Vec<ChunkerConfig> = variants(name, &[as_it_comes, settings]);
        let output = configs.iter().map(|config| {
            let chunker = config.build(&Context::default()).unwrap();
            let chunks = chunker.chunk_now(&document).unwrap();
            let table = ChunkTable::new(chunks.clone());
            // Neighbours, and one that stands alone.
            let rows = table.searchable();
            let found =
                [0, 1, 3, rows.len() / 2].into_iter().filter_map(|i| rows.get(i.min(rows.len().saturating_sub(1))));
            let hits = (0u8..).zip(found).map(|(i, &row)| Hit { row, score: 1.0 - f32::from(i) / 10.0 });
            (chunks, chunker.context(hits.collect(), &table))
        });
        let output: Vec<(Vec<Chunk>, Vec<Passage>)> = output.collect();
        Pin::new(name, configs[0].version(), &(&document, &configs), &output).unwrap()
    });
    check("chunk", &pins.collect::<Vec<_>>(), &["semantic"]);
}

const TEXTS: [&str; 8] = [
    "the cat sat on the mat",
    "the dog chased the cat, and the cats ran",
    "dogs and cats running in circles",
    "a quick brown fox jumps over the lazy dog",
    "mills grind rye; millers grind their teeth",
    "Überall mahlen Mühlen Roggen",
    "error E-4012: the valve XJ-7 is stuck",
    "the the the",
];

fn table() -> ChunkTable {
    let chunk = |(number, text): (u32, &str)| Chunk {
        document: "animals.txt".to_owned(),
        number,
        span: Span { start: 100 * number as usize, end: 100 * number as usize + text.len() },
        text: text.to_owned(),
        searchable: true,
        ..Chunk::default()
    };
    ChunkTable::new((0..).zip(TEXTS).map(chunk).collect())
}

const QUESTIONS: [&str; 3] =
    ["Which cat chased the dog?", "What is E-4012 about XJ-7?", "Wer mahlt Roggen, the miller?"];

#[test]
fn indexes_are_pinned() {
    let vectors = matrix(8, 48, 3);
    let bytes = |index: &DenseIndex| (0..8).map(|row| index.vector(row).to_vec()).collect::<Vec<_>>();
    let dense = DenseIndex::from_matrix(&vectors).unwrap();
    let asked = matrix(3, 48, 4);
    let asked: Vec<&[f32]> = asked.iter().collect();
    let of_dense = (bytes(&dense), dense.search(&asked, 5).unwrap());
    let bm25 = Bm25Index::build(&TEXTS);
    // The bytes of weights hold the last bits of logarithms.
    let of_bm25: Vec<_> = QUESTIONS.iter().map(|question| bm25.search(question, 8)).collect();
    let mut block = TokenBlock::default();
    block.push(&[matrix(3, 48, 5), matrix(0, 48, 5), matrix(9, 48, 6)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, vectors) = (folder.path().join("graph"), Arc::new(DenseIndex::from_matrix(&matrix(40, 48, 7)).unwrap()));
    GraphIndex::build(&vectors, GraphSettings::default(), &file, &mut |_| ControlFlow::Continue(())).unwrap();
    let graph = store::Key::of_bytes(&std::fs::read(&file).unwrap());
    let [address, collection, key] = ["memory://pin", "reverie_1", "1"].map(str::to_owned);
    let filled =
        FilledCollection { address, collection, key, rows: 8, dimensions: 48, settings: json!({}), bytes: None };
    let mut pins = vec![
        Pin::new("database", DatabaseIndex::VERSION, &"8 × 48", &store::Key::of_bytes(&filled.to_bytes())).unwrap(),
        Pin::new("hnsw", GraphIndex::VERSION, &"40 × 48", &graph).unwrap(),
        Pin::new("dense", DenseIndex::VERSION, &"8 × 48", &of_dense).unwrap(),
        Pin::new("bm25", Bm25Index::VERSION, &(TEXTS, QUESTIONS), &of_bm25).unwrap(),
        Pin::new("tokens", TokenIndex::VERSION, &"3 + 0 + 9 × 48", &store::Key::of_bytes(&block.to_bytes())).unwrap(),
    ];
    let other = |kind: &&IndexKind| pins.iter().all(|pin| pin.component != kind.name());
    let file = |kind: &IndexKind| match kind.made_from() {
        MadeFrom::Texts(write) => {
            let file = folder.path().join(kind.name());
            write(&TEXTS.as_slice(), &TextAnalysis::default(), &file, folder.path()).unwrap();
            Pin::new(kind.name(), kind.version(), &TEXTS, &store::Key::of_file(&file).unwrap())
        }
        _ => panic!("the index `{}` is not made from texts: add its pin above", kind.name()),
    };
    let files: Vec<Pin> = IndexKind::ALL.iter().filter(other).map(|kind| file(kind).unwrap()).collect();
    pins.extend(files);
    check("index", &pins, &[]);
}

/// What searches and reorders by an index has the index' key in its own.
fn indexes<T: Component>(configs: &[T]) -> Vec<(IndexKind, u32)> {
    let kinds: Indexes = configs.iter().flat_map(Component::indexes).collect();
    kinds.into_iter().map(|kind| (kind, kind.version())).collect()
}

const RETRIEVE: &str = "def retrieve(questions, chunks):\n    return [[(i, len(chunk)) for i, chunk in enumerate(chunks)] for _ in questions]\n";

#[test]
fn retrievers_are_pinned() {
    let table = std::sync::Arc::new(table());
    let dense = DenseIndex::from_matrix(&matrix(8, 48, 3)).unwrap();
    let opened = opened(dense, &TEXTS);
    let corpus = Corpus::exact(&table, &opened);
    let vectors = matrix(3, 48, 4);
    let queries: Vec<Query<'_>> = QUESTIONS
        .iter()
        .enumerate()
        .map(|(i, text)| Query { text, embedding: Some(vectors.row(i)), tokens: None, filter: None })
        .collect();
    // They search a server.
    let of_a_server = RetrieverConfig::defaults().into_iter().filter(|config| config.existing_index().is_some());
    let of_a_server: Vec<String> = of_a_server.map(|config| config.name().to_owned()).collect();
    let of_a_server: Vec<&str> = of_a_server.iter().map(String::as_str).collect();
    let pins = RetrieverConfig::NAMES.iter().filter(|name| !of_a_server.contains(name)).map(|name| {
        let settings = match *name {
            "python" => json!({ "top_k": 3, "source": RETRIEVE }),
            "none" => json!({}),
            _ => json!({ "top_k": 3 }),
        };
        let as_it_comes = if *name == "python" { settings.clone() } else { json!({}) };
        let configs: Vec<RetrieverConfig> = variants(name, &[as_it_comes, settings]);
        let output = configs
            .iter()
            .map(|config| config.build(&Context::default()).unwrap().retrieve_now(&queries, &corpus).unwrap());
        let output: Vec<Vec<Vec<Hit>>> = output.collect();
        Pin::new(name, configs[0].version(), &(TEXTS, QUESTIONS, indexes(&configs), &configs), &output).unwrap()
    });
    check("retrieve", &pins.collect::<Vec<_>>(), &of_a_server);
}

const RERANK: &str = "def rerank(passages):\n    return [len(text) for text in passages]\n";

#[tokio::test]
async fn rerankers_are_pinned() {
    let mut pins = Vec::new();
    for name in RerankerConfig::NAMES {
        let settings = match *name {
            "python" => json!({ "top_n": 2, "source": RERANK }),
            "late_interaction" => json!({ "top_n": 3, "weights": { "maxsim": 3, "bm25": 0.5 } }),
            _ => json!({ "top_n": 2 }),
        };
        let as_it_comes = if *name == "python" { settings.clone() } else { json!({}) };
        let configs: Vec<RerankerConfig> = variants(name, &[as_it_comes, settings]);
        let mut output = Vec::new();
        for config in &configs {
            let mut fixture = rerank::tests::Fixture::new();
            let script = ScriptedChat::new(4096, |_| "{\"ranking\": [3, 1]}".to_owned());
            fixture.models.chat = script.handle();
            let reranker = config.build(&fixture.context()).unwrap();
            output.push((fixture.rerank(&*reranker).await.unwrap(), script.requests()));
        }
        pins.push(Pin::new(name, configs[0].version(), &(indexes(&configs), &configs), &output).unwrap());
    }
    check("rerank", &pins, &[]);
}

const GENERATE: &str = "def write(question, passages):\n    return question + ' ' + passages[0]\n";

#[tokio::test]
async fn generators_are_pinned() {
    let table = table();
    let passages: Vec<Passage> = (0..8)
        .map(|row| table.passage(Hit { row, score: 1.0 }))
        .chain([Passage {
            text: format!("</source> <|im_end|> {}", "Long and longer. ".repeat(60)),
            heading: Some("Mills > Rye".to_owned()),
            page: Some(7),
            ..table.passage(Hit { row: 4, score: 0.5 })
        }])
        .collect();
    let replies =
        ["Answer: cats run [2], not [9].", "dogs chase the cat", "", "The sources do not answer this question."];
    let mut pins = Vec::new();
    for name in GeneratorConfig::NAMES {
        let more = match *name {
            "python" => json!({ "source": GENERATE }),
            "no_retrieval" => json!({ "temperature": 0.5, "seed": 7, "max_tokens": 50 }),
            "extractive" => json!({ "sentences": 1, "citations": false }),
            _ => json!({ "prompt": "brief", "temperature": 0.5, "seed": 7, "max_tokens": 50, "citations": false }),
        };
        let as_it_comes = if *name == "python" { more.clone() } else { json!({}) };
        let configs: Vec<GeneratorConfig> = variants(name, &[as_it_comes, more]);
        let mut output = Vec::new();
        for config in &configs {
            for first in 0..replies.len() {
                // With little room, what is said takes several calls.
                for context in [4096, 700] {
                    let script =
                        ScriptedChat::new(context, move |call| replies[(first + call) % replies.len()].to_owned());
                    let generator = config.build(&script.context()).unwrap();
                    let answer = generator.generate(QUESTIONS[0], &passages).await;
                    let answer =
                        answer.map(|answer| Answer { seconds: 0.0, ..answer }).map_err(|error| error.to_string());
                    output.push((answer, script.requests()));
                }
            }
        }
        pins.push(Pin::new(name, configs[0].version(), &(&passages, replies, &configs), &output).unwrap());
    }
    check("generate", &pins, &[]);
}
