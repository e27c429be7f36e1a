//! `chunk`: a document becomes pieces, and hits become context.

mod classes;
mod outline;
mod punkt;
mod sentences;
mod split;
mod tokens;
mod vocabulary;

#[cfg(test)]
mod conformance_tests;

pub(crate) use outline::merge_headings;
pub use tokens::TokenCounter;

use crate::{AxisValue, Chunk, ChunkTable, Document, Error, Hit, Passage, component::components};
use async_trait::async_trait;
use futures::FutureExt;

/// The error of a component that needs a model but is called without waiting.
pub(crate) const WAITS: &str = "it waits for a model, which is not possible here";

components! {
    /// Which chunker, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum ChunkerConfig builds Box<dyn Chunker>, each crate::Component {
        Sentence => sentence,
        SentenceWindow => sentence_window,
        Hierarchical => hierarchical,
        Token => token,
        Recursive => recursive,
        Markdown => markdown,
        Table => table,
        Semantic => semantic,
        Python => python,
        None => none,
    }
}

impl AxisValue for ChunkerConfig {
    fn unused() -> Option<Self> {
        Self::defaults().into_iter().next()
    }
}

/// Cuts documents into chunks and turns found chunks into context, so that
/// every retriever works with every chunker.
///
/// A chunker whose settings name no model never waits: its future is ready when
/// it is polled first.
#[async_trait]
pub trait Chunker: Send + Sync {
    /// The chunks of one document, numbered from 0 in the order given.
    /// Searchable chunks are in document order.
    ///
    /// # Errors
    /// Only where a model or a function of the user's own fails.
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error>;

    /// [`Chunker::chunk`] of a chunker that never waits.
    ///
    /// # Errors
    /// As of [`Chunker::chunk`], and if it waits for a model after all.
    fn chunk_now(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let waits = || Err(Error::Failed { component: "chunker", reason: WAITS.to_owned() });
        self.chunk(document).now_or_never().unwrap_or_else(waits)
    }

    /// Turns hits, best first, into passages, best first.
    fn context(&self, hits: Vec<Hit>, table: &ChunkTable) -> Vec<Passage> {
        hits.into_iter().map(|hit| table.passage(hit)).collect()
    }
}
