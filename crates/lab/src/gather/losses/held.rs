//! Finds the chunks that hold a piece of evidence. What counts is the passage that the trial's chunker makes of a hit
//! on the chunk, which may be larger than the chunk.

use crate::Error;
use eval::{Evidence, metric::find_evidence};
use rag::{
    ChunkTable, Component, Context, Hit, Passage, TableChunk,
    chunk::{Chunker, ChunkerConfig},
};
use std::sync::Arc;

/// A table of chunks, with the chunker that makes passages of hits on them.
pub(in crate::gather) struct SearchedChunks {
    pub(in crate::gather) table: Arc<ChunkTable>,
    /// Makes passages of hits. None if building the chunker needs a model or a function: then the chunk itself counts.
    chunker: Option<Box<dyn Chunker>>,
    /// The share of an evidence item's bytes that a chunk must hold for the item to count as held.
    min_overlap: f64,
}

/// A searchable chunk that holds a part of a piece of evidence.
pub(in crate::gather) struct EvidencePart<'a> {
    pub(in crate::gather) chunk: TableChunk<'a>,
    pub(in crate::gather) share: f64,
    /// Whether the share is enough for the evidence to count as held.
    pub(in crate::gather) is_enough: bool,
}

impl SearchedChunks {
    /// Builds the chunker, if that needs no model and no function. Fails if its settings cannot work.
    pub(in crate::gather) fn new(
        table: Arc<ChunkTable>,
        chunker: &ChunkerConfig,
        min_overlap: f64,
    ) -> Result<Self, Error> {
        let is_plain = chunker.models().is_empty() && !chunker.needs_embedder() && !chunker.runs_function();
        let chunker = if is_plain { Some(chunker.build(&Context::default())?) } else { None };
        Ok(Self { table, chunker, min_overlap })
    }

    /// Whether the table has chunks of a document.
    pub(in crate::gather) fn has_document(&self, path: &str) -> bool {
        !self.table.rows_of_document(path).is_empty()
    }

    /// Whether one chunk holds enough of a piece of evidence.
    pub(in crate::gather) fn holds(&self, item: &Evidence) -> bool {
        self.parts(item).any(|part| part.is_enough)
    }

    /// The searchable chunks that hold a part of a piece of evidence, in their order in the document.
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

    /// The passages that the trial gets from a hit on a chunk.
    fn passages(&self, hit: Hit) -> Vec<Passage> {
        match &self.chunker {
            Some(chunker) => chunker.context(vec![hit], &self.table),
            None => vec![self.table.passage(hit)],
        }
    }
}
