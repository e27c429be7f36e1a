//! How long it takes to refine 20 hits of one question, for every step and
//! every fusion that asks no model. Prints µs per question.
//!
//! ```sh
//! cargo run --release -p rag --example refine
//! ```

use models::Matrix;
use rag::{
    Choice, ChunkTable, Component, Context, Corpus, Hit, Passage, PassageStage, Query,
    chunk::ChunkerConfig,
    index::{Bm25Index, DenseIndex, OpenIndex},
    load,
    refine::RefineConfig,
    retrieve::RetrieverConfig,
};
use serde_json::{Value, json};
use std::{error::Error, io::Write, sync::Arc, time::Instant};

const DOCUMENTS: usize = 40;
const SECTIONS: usize = 12;
const HITS: u32 = 20;
const TIMES: u32 = 50;
const COLUMNS: usize = 32;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let chunkers = [
        json!({ "sentence": { "chunk_size": 256, "chunk_overlap": 32 } }),
        json!({ "hierarchical": { "chunk_sizes": [1024, 256], "chunk_overlap": 0 } }),
    ];
    for chunker in chunkers {
        let table = Arc::new(table(&chunker)?);
        writeln!(out, "{chunker}: {} chunks, {HITS} hits", table.searchable().len())?;
        steps(&table, &mut out).await?;
        fusions(&table, &mut out).await?;
    }
    Ok(())
}

/// Sections of sentences that differ.
fn table(chunker: &Value) -> Result<ChunkTable, Box<dyn Error>> {
    let config: ChunkerConfig = serde_json::from_value(chunker.clone())?;
    let chunker = config.build(&Context::default())?;
    let mut chunks = Vec::new();
    for document in 0..DOCUMENTS {
        let mut text = String::new();
        for section in 0..SECTIONS {
            text.push_str(&format!("# Part {section}\n\n"));
            for sentence in 0..40 {
                let number = document * 7919 + section * 613 + sentence * 31;
                text.push_str(&format!(
                    "Mill {number} on the river grinds rye and oats for {} villages. ",
                    number % 97
                ));
            }
            text.push_str("\n\n");
        }
        let document = load::parse(&format!("{document}.md"), text.as_bytes(), &load::ParseLimits::default())?;
        chunks.extend(chunker.chunk_now(&document)?);
    }
    Ok(ChunkTable::new(chunks))
}

async fn steps(table: &Arc<ChunkTable>, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // Some of the hits are neighbours, as in practice.
    let rows = (0..HITS).map(|i| table.searchable()[((i / 3 * 7 + i % 3) as usize) % table.searchable().len()]);
    let passages: Vec<Passage> =
        (1u8..).zip(rows).map(|(i, row)| table.passage(Hit { row, score: 1.0 / f32::from(i) })).collect();
    let steps = [
        json!("threshold"),
        json!("score_gap"),
        json!("dedupe"),
        json!({ "dedupe": { "similarity": 0.8 } }),
        json!("neighbours"),
        json!("parents"),
        json!("budget"),
        json!("long_context_reorder"),
        json!("long_context"),
        json!({ "long_context": { "scope": "corpus" } }),
    ];
    for step in steps {
        let config: RefineConfig = serde_json::from_value(step)?;
        let step = config.step(&Context::default())?;
        let run = async || {
            let query = Query { text: "Which mill grinds oats?", embedding: None, tokens: None, filter: None };
            step.run(query, Corpus::exact(table, &[]), passages.clone()).await
        };
        let kept = run().await?.len();
        let start = Instant::now();
        for _ in 0..TIMES {
            run().await?;
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES);
        writeln!(out, "{each:>10.1} µs  {} -> {kept} passages", config.value())?;
    }
    Ok(())
}

/// The whole search of `hybrid`, and of its two sides alone: the difference is
/// the fusion.
async fn fusions(table: &Arc<ChunkTable>, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let texts: Vec<&str> = table.searchable_chunks().map(|chunk| chunk.text).collect();
    let vector = |i: usize| (0..COLUMNS).map(move |k| ((i * 31 + k * 17) as f32).sin());
    let mut matrix = Matrix { columns: COLUMNS, data: (0..texts.len()).flat_map(vector).collect() };
    matrix.normalize();
    let dense = DenseIndex::from_matrix(&matrix)?;
    let indexes = [Arc::new(OpenIndex::new(dense)), Arc::new(OpenIndex::new(Bm25Index::build(&texts)))];
    let corpus = Corpus::exact(table, &indexes);
    let question = matrix.row(3).to_vec();
    let query = Query { text: "Which mill grinds oats?", embedding: Some(&question), tokens: None, filter: None };
    for config in RetrieverConfig::defaults() {
        if config.is_nothing() || config.runs_function() {
            continue;
        }
        let value = json!({ config.name(): { "top_k": HITS } });
        let retriever = serde_json::from_value::<RetrieverConfig>(value)?.build(&Context::default())?;
        let start = Instant::now();
        for _ in 0..TIMES {
            retriever.retrieve(std::slice::from_ref(&query), &corpus).await?;
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES);
        writeln!(out, "{each:>10.1} µs  {} (the whole search)", config.name())?;
    }
    Ok(())
}
