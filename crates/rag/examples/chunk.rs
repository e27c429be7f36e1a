//! Chunks text files: what a chunker makes of your text, and how fast.
//!
//! `cargo run --release -p rag --example chunk -- '{"sentence":{"chunk_size":256,"chunk_overlap":32}}' a.txt b.txt`
//! prints one chunk per line as JSON. `--time 10` before the config prints the
//! best of ten passes over all files instead. `--markdown` takes the files for
//! Markdown, so that their headings count. Used by `benches/chunks`.

use rag::{Chunk, Document, Format, chunk::ChunkerConfig};
use rayon::prelude::*;
use std::{error::Error, io::Write, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let format = match arguments.iter().position(|argument| argument == "--markdown") {
        Some(at) => {
            arguments.remove(at);
            Format::Markdown
        }
        None => Format::Text,
    };
    let passes: Option<u32> = match arguments.iter().position(|argument| argument == "--time") {
        Some(at) if at + 1 < arguments.len() => {
            let value = arguments.remove(at + 1).parse()?;
            arguments.remove(at);
            Some(value)
        }
        _ => None,
    };
    let (config, paths) = arguments.split_first().ok_or("usage: chunk [--time PASSES] [--markdown] CONFIG FILE...")?;
    let config: ChunkerConfig = serde_json::from_str(config)?;
    let documents = paths.iter().map(|path| read(path, format)).collect::<Result<Vec<_>, _>>()?;

    let start = Instant::now();
    let chunker = config.build(&rag::Context::default())?;
    // Loading for the first chunk counts as start-up.
    chunker.chunk_now(&document("start", "A word.".to_owned(), format))?;
    let build_seconds = start.elapsed().as_secs_f64();
    let all = || -> Result<Vec<Vec<Chunk>>, rag::Error> {
        documents.par_iter().map(|document| chunker.chunk_now(document)).collect()
    };

    let mut out = std::io::stdout().lock();
    let Some(passes) = passes else {
        for chunk in all()?.iter().flatten() {
            writeln!(out, "{}", serde_json::to_string(chunk)?)?;
        }
        return Ok(());
    };
    let mut seconds = f64::INFINITY;
    let mut chunks = 0;
    for _ in 0..passes.max(1) {
        let start = Instant::now();
        chunks = all()?.iter().map(Vec::len).sum();
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    let report = serde_json::json!({
        "documents": documents.len(),
        "bytes": documents.iter().map(|document| document.text.len()).sum::<usize>(),
        "chunks": chunks,
        "build_seconds": build_seconds,
        "seconds": seconds,
        "threads": rayon::current_num_threads(),
    });
    writeln!(out, "{report}")?;
    Ok(())
}

fn read(path: &str, format: Format) -> Result<Document, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(document(path, text, format))
}

fn document(path: &str, text: String, format: Format) -> Document {
    Document {
        path: path.to_owned(),
        content: store::Key::of_bytes(text.as_bytes()),
        format,
        title: None,
        author: None,
        text,
        pages: Vec::new(),
        metadata: Default::default(),
        headings: Vec::new(),
        tables: Vec::new(),
        problems: Vec::new(),
    }
}
