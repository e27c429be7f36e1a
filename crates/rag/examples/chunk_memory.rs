//! How much memory a chunk takes beside its text: cuts a generated book with
//! each chunker and looks at what the process holds then.
//!
//! `cargo run --release -p rag --example chunk_memory -- [MEGABYTES]` (Linux)

#![allow(clippy::print_stdout)]

use rag::{ChunkTable, chunk::ChunkerConfig, load};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: usize = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let section = |i: usize| format!("## Section {i} of the book\n\n{}\n\n", "It is a short one. ".repeat(40));
    let text: String = (0..megabytes * 1_000_000 / section(0).len()).map(section).collect();
    let document = load::parse("folder/a book with a name.md", text.as_bytes(), &load::ParseLimits::default())?;
    for name in ["sentence_window", "sentence"] {
        let config: ChunkerConfig = serde_json::from_str(&format!("{{\"{name}\":{{}}}}"))?;
        let before = held()?;
        let chunks = config.build(&rag::Context::default())?.chunk_now(&document)?;
        let texts: usize = chunks.iter().map(|chunk| chunk.text.len()).sum();
        let table = ChunkTable::new(chunks);
        let held = held()?.saturating_sub(before);
        let n = table.len();
        println!("{name}: {n} chunks, {} bytes each and {} bytes of text", held.saturating_sub(texts) / n, texts / n);
    }
    Ok(())
}

/// The bytes of memory that the process holds.
fn held() -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<usize>()? * 1024)
}
