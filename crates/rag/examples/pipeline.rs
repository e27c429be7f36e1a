//! Chunks, indexes, retrieves and makes context on request of another program:
//! the steps of the product, without its files.
//!
//! Reads one JSON object per line and answers with one line each; `fidelity`
//! in `benches` compares the answers with LlamaIndex's. The requests:
//!
//! - `{"chunk": {"chunker": {"sentence": {}}, "documents": [{"path": "a.txt", "text": "…"}]}}`
//! - `{"index": {"vectors": [[…], …]}}`, a vector for each searchable chunk
//! - `{"retrieve": {"retriever": {"hybrid": {}}, "queries": [{"text": "…", "vector": […]}]}}`
//! - `{"context": {"hits": [[{"row": 3, "score": 0.5}, …], …]}}`
//!
//! Each request builds on the earlier ones. After an answer `{"error": "…"}` the program continues.

use models::Matrix;
use rag::{
    Chunk, ChunkTable, Document, Format, Hit, Passage,
    chunk::{Chunker, ChunkerConfig},
    index::{Bm25Index, DenseIndex, OpenIndex},
    retrieve::{Corpus, Query, RetrieverConfig},
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    error::Error,
    io::{BufRead, Write},
    sync::Arc,
};

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Chunk { chunker: ChunkerConfig, documents: Vec<Text> },
    Index { vectors: Vec<Vec<f32>> },
    Retrieve { retriever: RetrieverConfig, queries: Vec<Question> },
    Context { hits: Vec<Vec<Hit>> },
}

#[derive(Deserialize)]
struct Text {
    path: String,
    text: String,
}

#[derive(Deserialize)]
struct Question {
    text: String,
    vector: Option<Vec<f32>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer<'a> {
    Chunks(&'a [Chunk]),
    Indexed(usize),
    Hits(Vec<Vec<Hit>>),
    Passages(Vec<Vec<Passage>>),
    Error(String),
}

/// The state that earlier requests left.
#[derive(Default)]
struct Pipeline {
    chunker: Option<Box<dyn Chunker>>,
    table: ChunkTable,
    indexes: Vec<Arc<OpenIndex>>,
}

impl Pipeline {
    fn answer(&mut self, line: &str) -> Result<Answer<'_>, Box<dyn Error>> {
        match serde_json::from_str(line)? {
            Request::Chunk { chunker, documents } => {
                let chunker = chunker.build(&rag::Context::default())?;
                let documents: Vec<Document> = documents.into_iter().map(document).collect();
                let chunks = documents.par_iter().map(|document| chunker.chunk_now(document));
                let chunks = chunks.collect::<Result<Vec<Vec<Chunk>>, _>>()?;
                let table = ChunkTable::new(chunks.into_iter().flatten().collect());
                *self = Self { chunker: Some(chunker), table, indexes: Vec::new() };
                Ok(Answer::Chunks(self.table.chunks()))
            }
            Request::Index { vectors } => {
                let rows = self.table.searchable();
                let texts: Vec<&str> = rows.iter().map(|&row| self.table.chunk(row).text.as_str()).collect();
                let columns = vectors.first().map_or(0, Vec::len);
                if vectors.len() != texts.len() || vectors.iter().any(|vector| vector.len() != columns) {
                    return Err(format!("{} vectors for {} searchable chunks", vectors.len(), texts.len()).into());
                }
                let dense = DenseIndex::from_matrix(&Matrix { columns, data: vectors.concat() })?;
                let indexes = [OpenIndex::new(dense), OpenIndex::new(Bm25Index::build(&texts))];
                let n = texts.len();
                self.indexes = indexes.map(Arc::new).into();
                Ok(Answer::Indexed(n))
            }
            Request::Retrieve { retriever, queries } => {
                let queries: Vec<Query<'_>> = queries
                    .iter()
                    .map(|query| Query {
                        text: &query.text,
                        embedding: query.vector.as_deref(),
                        tokens: None,
                        filter: None,
                    })
                    .collect();
                let corpus = Corpus { table: &self.table, indexes: &self.indexes };
                Ok(Answer::Hits(retriever.build(&rag::Context::default())?.retrieve_now(&queries, &corpus)?))
            }
            Request::Context { hits } => {
                let chunker = self.chunker.as_ref().ok_or("nothing was chunked yet")?;
                if let Some(hit) = hits.iter().flatten().find(|hit| hit.row as usize >= self.table.len()) {
                    return Err(format!("row {} of {} chunks", hit.row, self.table.len()).into());
                }
                Ok(Answer::Passages(hits.into_iter().map(|hits| chunker.context(hits, &self.table)).collect()))
            }
        }
    }
}

fn document(Text { path, text }: Text) -> Document {
    let content = store::Key::of_bytes(text.as_bytes());
    Document {
        path,
        content,
        format: Format::Text,
        title: None,
        author: None,
        text,
        pages: Vec::new(),
        metadata: Default::default(),
        headings: Vec::new(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let mut pipeline = Pipeline::default();
    for line in std::io::stdin().lock().lines() {
        let answer = pipeline.answer(&line?).unwrap_or_else(|error| Answer::Error(error.to_string()));
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}
