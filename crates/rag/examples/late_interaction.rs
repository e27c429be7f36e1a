//! What late interaction costs: encoding chunks, storing their token vectors,
//! and ordering the candidates of many trials by them.
//!
//! `late_interaction HOME FOLDER [CHUNKS] [TRIALS] [QUESTIONS] [CANDIDATES] [MODEL]`
//! cuts the text and Markdown files of FOLDER into 1000 `sentence` chunks of
//! 128 tokens (again from the start if there are fewer), encodes them once
//! without keeping anything and once into an index, opens it, and orders the
//! 20 best chunks by BM25 of 472 questions 30 times. HOME holds the pulled
//! models; the default is `all-minilm-l6-v2`. Prints one line of JSON: times
//! in seconds, bytes of an index for a chunk, and how far the order by stored
//! vectors is from that by the model's own float32.

use models::{Client, CpuBudget, Embedder, InputKind, Matrix, ModelConfig, ModelDirectory, provider};
use rag::{
    Chunk, ChunkTable, Corpus, NamedModels, Passage, Query,
    chunk::ChunkerConfig,
    index::{Bm25Index, DenseIndex, Index, OpenIndex, TokenBlock, TokenIndex, TokenWriter},
    load::{self, ParseLimits, Source},
    rerank::RerankerConfig,
    retrieve::RetrieverConfig,
};
use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

const USAGE: &str = "usage: late_interaction HOME FOLDER [CHUNKS] [TRIALS] [QUESTIONS] [CANDIDATES] [MODEL]";
/// Texts encoded together, as in a run.
const STEP: usize = 256;
/// Words of a test question.
const WORDS: usize = 12;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [home, folder, rest @ ..] = arguments.as_slice() else { return Err(USAGE.into()) };
    let number = |at: usize, default: usize| rest.get(at).map_or(Ok(default), |number| number.parse());
    let (n_chunks, n_trials) = (number(0, 1000)?, number(1, 30)?);
    let (n_questions, n_candidates) = (number(2, 472)?, number(3, 20)?);
    let table = Arc::new(ChunkTable::new(chunks(folder, n_chunks).await?));
    let texts: Vec<String> = table.chunks().map(|chunk| chunk.text.to_owned()).collect();
    let questions: Vec<String> = (0..n_questions).map(|i| question(&texts[i * 7919 % texts.len()], i)).collect();
    let embedder = embedder(Path::new(home), rest.get(4).map_or("all-minilm-l6-v2", String::as_str)).await?;
    // Nothing is measured before the model is warm.
    embedder.embed_tokens(&texts[..texts.len().min(32)], InputKind::Document).await?;

    let started = Instant::now();
    let mut fresh: Vec<Matrix> = Vec::new();
    for step in texts.chunks(STEP) {
        fresh.extend(embedder.embed_tokens(step, InputKind::Document).await?);
    }
    let encode_seconds = started.elapsed().as_secs_f64();

    let file = tempfile::NamedTempFile::new()?;
    let started = Instant::now();
    let mut writer = TokenWriter::create(file.path())?;
    for step in texts.chunks(STEP) {
        let mut block = TokenBlock::default();
        block.push(&embedder.embed_tokens(step, InputKind::Document).await?)?;
        writer.push(&block)?;
    }
    writer.finish()?;
    let index_seconds = started.elapsed().as_secs_f64();

    // What other parts of a run make, and what is not measured here.
    let bm25 = Bm25Index::build(&texts);
    let dense = DenseIndex::from_matrix(&embedder.embed(&texts, InputKind::Document).await?)?;
    let vectors = embedder.embed(&questions, InputKind::Query).await?;
    let mut indexes = vec![Arc::new(OpenIndex::new(dense)), Arc::new(OpenIndex::new(bm25))];
    let corpus = Corpus::exact(&table, &indexes);
    let retriever = serde_json::json!({ "bm25": { "top_k": n_candidates } });
    let retriever = serde_json::from_value::<RetrieverConfig>(retriever)?.build(&rag::Context::default())?;
    let asked: Vec<Query<'_>> =
        questions.iter().map(|text| Query { text, embedding: None, tokens: None, filter: None }).collect();
    let passages = |hits: Vec<rag::Hit>| hits.into_iter().map(|hit| table.passage(hit)).collect();
    let found: Vec<Vec<Passage>> = retriever.retrieve_now(&asked, &corpus)?.into_iter().map(passages).collect();
    let n_pairs = found.iter().map(Vec::len).sum::<usize>() * n_trials;

    let started = Instant::now();
    let index = TokenIndex::open_files(&[PathBuf::from(file.path())])?;
    let mut tokens: Vec<Matrix> = Vec::new();
    for step in questions.chunks(STEP) {
        tokens.extend(embedder.embed_tokens(step, InputKind::Query).await?);
    }
    let questions_seconds = started.elapsed().as_secs_f64();
    indexes.push(OpenIndex::new(index.clone()).into());
    let corpus = Corpus::exact(&table, &indexes);
    let mut kept = 0;
    for trial in 0..n_trials {
        let weights = serde_json::json!({ "maxsim": 1.0 + trial as f64 / 10.0 });
        let config = serde_json::json!({ "late_interaction": { "top_n": 3 + trial % 3, "weights": weights } });
        let only = NamedModels { embedders: [("only".to_owned(), embedder.clone())].into(), ..NamedModels::default() };
        let context = rag::Context { models: Some(&only), embedder: Some("only"), ..rag::Context::default() };
        let reranker = serde_json::from_value::<RerankerConfig>(config)?.build(&context)?;
        for (i, text) in questions.iter().enumerate() {
            let query = Query { text, embedding: Some(vectors.row(i)), tokens: tokens.get(i), filter: None };
            kept += reranker.rerank(query, corpus, found[i].clone()).await?.len();
        }
    }
    let rerank_seconds = started.elapsed().as_secs_f64();

    let mut difference = Difference::default();
    for (question, passages) in tokens.iter().zip(&found) {
        let rows: Vec<u32> = passages.iter().filter_map(|passage| passage.rows.first().copied()).collect();
        let stored = index.best_scores(question, &rows.iter().map(|&row| vec![row]).collect::<Vec<_>>())?;
        let exact = rows.iter().map(|&row| maxsim(question, &fresh[row as usize]));
        difference.add(&stored.into_iter().flatten().collect::<Vec<_>>(), &exact.collect::<Vec<_>>());
    }
    let report = serde_json::json!({
        "chunks": n_chunks, "tokens": fresh.iter().map(Matrix::rows).sum::<usize>(),
        "encode_seconds": encode_seconds, "index_seconds": index_seconds,
        "bytes_per_chunk": std::fs::metadata(file.path())?.len() as f64 / n_chunks as f64,
        "trials": n_trials, "questions": n_questions, "candidates": n_candidates, "pairs": n_pairs, "kept": kept,
        "encode_questions_seconds": questions_seconds, "rerank_seconds": rerank_seconds,
        "all_to_encoding": (index_seconds + rerank_seconds) / encode_seconds,
        "difference": difference.report(),
    });
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

/// The first chunks of a folder's files, and these again until there are enough.
async fn chunks(folder: &str, n_chunks: usize) -> Result<Vec<Chunk>, Box<dyn Error>> {
    let chunker = serde_json::json!({ "sentence": { "chunk_size": 128, "chunk_overlap": 0 } });
    let chunker = serde_json::from_value::<ChunkerConfig>(chunker)?.build(&rag::Context::default())?;
    let mut found: Vec<Chunk> = Vec::new();
    for file in Source::parse(folder, &[], &[], &[])?.list().await? {
        if found.len() < n_chunks && (file.path.ends_with(".txt") || file.path.ends_with(".md")) {
            let bytes = std::fs::read(Path::new(folder).join(&file.path))?;
            found.extend(chunker.chunk_now(&load::parse(&file.path, &bytes, &ParseLimits::default())?)?);
        }
    }
    if found.is_empty() {
        return Err(format!("{folder} has no .txt or .md files with text").into());
    }
    // Each chunk is its own document, so that rows are entries.
    let number = |(i, chunk): (usize, &Chunk)| Chunk { document: format!("{i}"), number: 0, ..chunk.clone() };
    Ok((0..n_chunks).map(|i| number((i, &found[i % found.len()]))).collect())
}

/// Some of a chunk's words: what a question about it could hold.
fn question(text: &str, seed: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let step = 1 + seed % 3;
    let first = seed % words.len().max(1) / 2;
    words.into_iter().skip(first).step_by(step).take(WORDS).collect::<Vec<_>>().join(" ")
}

async fn embedder(home: &Path, model: &str) -> Result<Embedder, Box<dyn Error>> {
    let config = serde_json::json!({ "embedding": { "local": { "model": model } } });
    let ModelConfig::Embedding(config) = serde_json::from_value(config)? else { return Err(USAGE.into()) };
    let directory = ModelDirectory::new(home.join("models"), vec![home.join("libraries")]);
    let context = provider::ModelContext { directory, cpu: CpuBudget::machine(), environment: Arc::new(|_| None) };
    config.ready(&context).await?;
    Ok(Client::new(None).embedder(config.build(&context)?))
}

fn maxsim(question: &Matrix, chunk: &Matrix) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    question.iter().map(|word| chunk.iter().map(|other| dot(word, other)).fold(f32::MIN, f32::max)).sum()
}

/// How far stored scores are from exact ones.
#[derive(Default)]
struct Difference {
    questions: usize,
    same_first: usize,
    same_three: usize,
    same_order: usize,
    pairs: usize,
    swapped: usize,
    widest_swap: f32,
    scores: usize,
    sum: f64,
    largest: f32,
    mean_score: f64,
}

impl Difference {
    fn add(&mut self, stored: &[f32], exact: &[f32]) {
        let order = |scores: &[f32]| {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            order
        };
        let (one, other) = (order(stored), order(exact));
        let top = |order: &[usize], n: usize| {
            let mut top: Vec<usize> = order.iter().copied().take(n).collect();
            top.sort_unstable();
            top
        };
        self.questions += 1;
        self.same_first += usize::from(top(&one, 1) == top(&other, 1));
        self.same_three += usize::from(top(&one, 3) == top(&other, 3));
        self.same_order += usize::from(one == other);
        for a in 0..exact.len() {
            let difference = (stored[a] - exact[a]).abs();
            self.scores += 1;
            self.sum += f64::from(difference);
            self.mean_score += f64::from(exact[a]);
            self.largest = self.largest.max(difference);
            for b in 0..a {
                self.pairs += 1;
                if (stored[a] - stored[b]) * (exact[a] - exact[b]) < 0.0 {
                    self.swapped += 1;
                    self.widest_swap = self.widest_swap.max((exact[a] - exact[b]).abs());
                }
            }
        }
    }

    fn report(&self) -> serde_json::Value {
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        serde_json::json!({
            "mean_score": self.mean_score / self.scores.max(1) as f64,
            "mean_difference": self.sum / self.scores.max(1) as f64, "largest_difference": self.largest,
            "pairs_swapped": share(self.swapped, self.pairs), "widest_swap": self.widest_swap,
            "same_first": share(self.same_first, self.questions),
            "same_best_three": share(self.same_three, self.questions),
            "same_order": share(self.same_order, self.questions),
        })
    }
}
