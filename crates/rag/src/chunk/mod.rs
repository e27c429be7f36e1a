//! `chunk`: a document becomes pieces, and hits become context.

mod classes;
mod outline;
mod punkt;
mod split;
mod tokens;
mod vocabulary;

#[cfg(test)]
mod conformance;

pub use tokens::TokenCounter;

use crate::{Chunk, ChunkTable, Document, Error, Hit, Passage};

store::registry! {
    /// Which chunker, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum ChunkerConfig builds Box<dyn Chunker>, from (), or Error {
        Sentence => sentence,
        SentenceWindow => sentence_window,
        Hierarchical => hierarchical,
        Token => token,
        Recursive => recursive,
        Markdown => markdown,
        Python => python,
    }
}

/// Cuts documents into chunks and turns found chunks into context, so that
/// every retriever works with every chunker.
pub trait Chunker: Send + Sync {
    /// The chunks of one document, numbered from 0 in the order given.
    /// Searchable chunks are in document order.
    ///
    /// # Errors
    /// Only where a function of the user's own fails.
    fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error>;

    /// Turns hits, best first, into passages, best first.
    fn context(&self, hits: Vec<Hit>, table: &ChunkTable) -> Vec<Passage> {
        hits.into_iter().map(|hit| table.passage(hit)).collect()
    }
}
