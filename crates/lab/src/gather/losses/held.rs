//! Which chunks hold a piece of evidence, as a trial searches them: counted is the passage that its chunker makes of a
//! hit on a chunk.

use crate::Error;
use eval::{Evidence, metric::find_evidence};
use rag::{
    Chunk, ChunkTable, Component, Context, Hit, Passage,
    chunk::{Chunker, ChunkerConfig},
};
use std::sync::Arc;

/// Chunks, with what a hit on one of them gives.
pub(in crate::gather) struct SearchedChunks {
    pub(in crate::gather) table: Arc<ChunkTable>,
    /// Turns a chunk into the passage that a hit on it gives; none if making the chunker takes a model or a function:
    /// then the chunk itself counts.
    chunker: Option<Box<dyn Chunker>>,
    /// The share of an evidence item's bytes that counts as held.
    min_overlap: f64,
}

/// A searchable chunk that holds a part of a piece of evidence.
pub(in crate::gather) struct EvidencePart<'a> {
    pub(in crate::gather) chunk: &'a Chunk,
    pub(in crate::gather) share: f64,
    /// Whether it holds enough.
    pub(in crate::gather) is_enough: bool,
}

impl SearchedChunks {
    /// Fails if the chunker's settings cannot work.
    pub(in crate::gather) fn new(
        table: Arc<ChunkTable>,
        chunker: &ChunkerConfig,
        min_overlap: f64,
    ) -> Result<Self, Error> {
        let is_plain = chunker.models().is_empty() && !chunker.needs_embedder() && !chunker.runs_function();
        let chunker = if is_plain { Some(chunker.build(&Context::default())?) } else { None };
        Ok(Self { table, chunker, min_overlap })
    }

    /// Whether a document has chunks.
    pub(in crate::gather) fn has_document(&self, path: &str) -> bool {
        !self.table.of_document(path).is_empty()
    }

    /// Whether one chunk holds enough of a piece of evidence.
    pub(in crate::gather) fn holds(&self, item: &Evidence) -> bool {
        self.parts(item).any(|part| part.is_enough)
    }

    /// The searchable chunks that hold a part of a piece of evidence, in the order of the document.
    pub(in crate::gather) fn parts<'a>(&'a self, item: &'a Evidence) -> impl Iterator<Item = EvidencePart<'a>> {
        let span = item.span.unwrap_or_default();
        let part = move |row: u32| {
            let chunk = self.table.chunk(row);
            if !chunk.searchable || chunk.span.overlap(span) == 0 {
                return None;
            }
            let passages = self.passages(Hit { row, score: 1.0 });
            let held = find_evidence(std::slice::from_ref(item), &passages, self.min_overlap).pop()?;
            Some(EvidencePart { chunk, share: held.share, is_enough: held.rank.is_some() })
        };
        self.table.rows_of_document(&item.document).filter_map(part)
    }

    /// What a hit on a chunk gives.
    fn passages(&self, hit: Hit) -> Vec<Passage> {
        match &self.chunker {
            Some(chunker) => chunker.context(vec![hit], &self.table),
            None => vec![self.table.passage(hit)],
        }
    }
}
