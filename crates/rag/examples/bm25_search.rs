//! Measures how fast the BM25 index is built and searched.
//!
//! `bm25_search TEXTS QUERIES [K]` reads two files with a JSON string in each line. For every
//! line on standard input it indexes all texts, searches the K best (default 10) for each
//! query, one after the other, and writes one line of JSON: the seconds, the growth of the
//! resident memory in bytes, and the scores of the hits of each query. `benches/run bm25` runs it
//! with one thread (`RAYON_NUM_THREADS=1`).

use rag::{
    analysis::{Language, LanguageChoice, TextAnalysis},
    index::{Bm25Index, IndexedTexts},
};
use serde_json::json;
use std::{
    error::Error,
    hint::black_box,
    io::{BufRead, Write},
    time::Instant,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [texts, queries, k @ ..] = arguments.as_slice() else {
        return Err("usage: bm25_search TEXTS QUERIES [K]".into());
    };
    let (texts, queries) = (read(texts)?, read(queries)?);
    let k = k.first().map_or(Ok(10), |k| k.parse())?;
    // As bm25s with its English tokenizer: lower case, Snowball's stemmer, 33 stop words.
    let analysis = TextAnalysis { language: LanguageChoice::Named(Language::ENGLISH), ..TextAnalysis::default() };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // The language is named, so it does not matter which documents the texts belong to.
    let indexed = IndexedTexts { texts: &texts, documents: &[0], analysis: &analysis };
    for line in std::io::stdin().lock().lines() {
        line?;
        let before = resident_bytes()?;
        let start = Instant::now();
        let index = Bm25Index::of(&indexed);
        let index_seconds = start.elapsed().as_secs_f64();
        let memory_bytes = resident_bytes()? as i64 - before as i64;
        let start = Instant::now();
        let found: Vec<_> = queries.iter().map(|query| black_box(index.search(query, k))).collect();
        let search_seconds = start.elapsed().as_secs_f64();
        let scores: Vec<Vec<f32>> = found.iter().map(|hits| hits.iter().map(|hit| hit.1).collect()).collect();
        let answer = json!({
            "index_seconds": index_seconds,
            "search_seconds": search_seconds,
            "memory_bytes": memory_bytes,
            "scores": scores,
        });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

/// The lines of a file, each a JSON string.
fn read(path: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// The resident memory of this process, in bytes.
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}
