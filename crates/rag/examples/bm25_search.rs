//! Measures how fast the BM25 index is built and searched.
//!
//! `bm25_search TEXTS QUERIES [K]` reads two files with a JSON string in each line. For every
//! line on standard input it indexes all texts, searches the K best (default 10) for each
//! query, one after the other, and writes one line of JSON: the seconds, the growth of the
//! resident memory in bytes, and the scores of the hits of each query. `benches/run bm25` runs it
//! with one thread (`RAYON_NUM_THREADS=1`).
//!
//! `bm25_search --write INDEX TEXTS` indexes 100,000 texts at a time, merges the files into one, and writes one line of
//! JSON: the seconds, the most memory that was resident, and the bytes of the index.
//!
//! `bm25_search --open INDEX QUERIES [K]` opens that file for every line on standard input, searches, and writes one
//! line of JSON: the seconds of opening and of each query, the resident memory of this process and the part of it that
//! is not a mapped file, and the scores.

use rag::{
    analysis::{Language, LanguageChoice, TextAnalysis},
    index::{Bm25Index, Index, IndexKind, IndexedTexts},
};
use serde_json::{Value, json};
use std::{
    error::Error,
    fs::File,
    hint::black_box,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    time::Instant,
};

/// The texts of a file that is merged with others.
const TEXTS_AT_ONCE: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--write", index, texts] => answer(&write(Path::new(index), texts)?),
        ["--open", index, queries, k @ ..] => {
            let (queries, k) = (read(queries)?, parse(k)?);
            for line in std::io::stdin().lock().lines() {
                line?;
                answer(&open(Path::new(index), &queries, k)?)?;
            }
            Ok(())
        }
        [texts, queries, k @ ..] => index_and_search(&read(texts)?, &read(queries)?, parse(k)?),
        _ => Err("usage: bm25_search TEXTS QUERIES [K]".into()),
    }
}

/// The K among the last arguments.
fn parse(k: &[&str]) -> Result<usize, Box<dyn Error>> {
    Ok(k.first().map_or(Ok(10), |k| k.parse())?)
}

fn answer(answer: &Value) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{answer}")?;
    Ok(out.flush()?)
}

/// Indexes texts that follow each other.
fn index(texts: &[String]) -> Bm25Index {
    // As bm25s with its English tokenizer: lower case, Snowball's stemmer, 33 stop words.
    let analysis = TextAnalysis { language: LanguageChoice::Named(Language::ENGLISH), ..TextAnalysis::default() };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // The language is named, so it does not matter which documents the texts belong to.
    Bm25Index::of(&IndexedTexts { texts: &texts, documents: &[0], analysis: &analysis, languages: None })
}

fn index_and_search(texts: &[String], queries: &[String], k: usize) -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lock().lines() {
        line?;
        let before = resident_bytes("VmRSS:")?;
        let start = Instant::now();
        let index = index(texts);
        let index_seconds = start.elapsed().as_secs_f64();
        let memory_bytes = resident_bytes("VmRSS:")? as i64 - before as i64;
        let start = Instant::now();
        let found: Vec<_> = queries.iter().map(|query| black_box(index.search(query, k))).collect();
        let search_seconds = start.elapsed().as_secs_f64();
        answer(&json!({
            "index_seconds": index_seconds,
            "search_seconds": search_seconds,
            "memory_bytes": memory_bytes,
            "scores": scores(&found),
        }))?;
    }
    Ok(())
}

/// Writes an index of the texts of a file.
fn write(path: &Path, texts: &str) -> Result<Value, Box<dyn Error>> {
    let start = Instant::now();
    let mut lines = BufReader::with_capacity(1 << 20, File::open(texts)?).lines();
    let mut parts: Vec<PathBuf> = Vec::new();
    loop {
        let batch: Vec<String> = lines
            .by_ref()
            .take(TEXTS_AT_ONCE)
            .map(|line| Ok(serde_json::from_str(&line?)?))
            .collect::<Result<_, Box<dyn Error>>>()?;
        if batch.is_empty() {
            break;
        }
        let part = path.with_extension(format!("part{}", parts.len()));
        std::fs::write(&part, index(&batch).to_bytes())?;
        parts.push(part);
    }
    let merging = Instant::now();
    Bm25Index::merge(&parts.iter().map(PathBuf::as_path).collect::<Vec<_>>(), path)?;
    let merge_seconds = merging.elapsed().as_secs_f64();
    parts.iter().try_for_each(std::fs::remove_file)?;
    Ok(json!({
        "index_seconds": start.elapsed().as_secs_f64(),
        "merge_seconds": merge_seconds,
        "peak_bytes": resident_bytes("VmHWM:")?,
        "file_bytes": std::fs::metadata(path)?.len(),
    }))
}

/// Opens an index and searches.
fn open(path: &Path, queries: &[String], k: usize) -> Result<Value, Box<dyn Error>> {
    let start = Instant::now();
    let opened = IndexKind::Bm25.open(&[path.to_owned()])?;
    let index: &Bm25Index = opened.get().ok_or("not a BM25 index")?;
    let open_seconds = start.elapsed().as_secs_f64();
    let search = |query: &String| {
        let start = Instant::now();
        let hits = black_box(index.search(query, k));
        (start.elapsed().as_secs_f64(), hits)
    };
    let (seconds, found): (Vec<f64>, Vec<_>) = queries.iter().map(search).unzip();
    Ok(json!({
        "entries": index.entries(),
        "open_seconds": open_seconds,
        "query_seconds": seconds,
        "resident_bytes": resident_bytes("VmRSS:")?,
        "own_bytes": resident_bytes("RssAnon:")?,
        "scores": scores(&found),
    }))
}

fn scores(found: &[Vec<(u32, f32)>]) -> Vec<Vec<f32>> {
    found.iter().map(|hits| hits.iter().map(|hit| hit.1).collect()).collect()
}

/// The lines of a file, each a JSON string.
fn read(path: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// A memory of this process, in bytes.
fn resident_bytes(name: &str) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("nothing in /proc/self/status")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}
