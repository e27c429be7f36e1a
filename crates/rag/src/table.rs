//! All chunks of a corpus, in a fixed order; retrieval looks up its rows here.

use crate::{
    Error, Filter,
    types::{Chunk, Hit, Passage, Span},
};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Chunks of all documents. A chunk's row is its position here; chunks of one
/// document are consecutive and in the order of their numbers.
#[derive(Debug, Default)]
pub struct ChunkTable {
    chunks: Vec<Chunk>,
    /// Rows of the searchable chunks, in order: entry `i` of an index is row `searchable[i]`.
    searchable: Vec<u32>,
    /// For each row, the row of chunk 0 of the same document.
    first: Vec<u32>,
    /// The rows of each document by its path, made at the first lookup.
    documents: OnceLock<HashMap<Box<str>, Range<usize>>>,
    /// The entries that pass the most recent filters.
    passing: Mutex<Vec<(Filter, Arc<FilteredEntries>)>>,
}

const MAX_FILTERS: usize = 32;

/// The entries of a table's indexes that pass a filter.
#[derive(Debug)]
pub(crate) struct FilteredEntries {
    /// In order.
    pub(crate) entries: Vec<u32>,
    /// For each entry, whether it passes.
    pub(crate) mask: Vec<bool>,
}

impl ChunkTable {
    /// Takes chunks grouped by document, each group in the order of its numbers.
    pub fn new(chunks: Vec<Chunk>) -> Self {
        let searchable = (0u32..).zip(&chunks).filter(|(_, chunk)| chunk.searchable).map(|(row, _)| row).collect();
        let mut first = Vec::with_capacity(chunks.len());
        let mut start = 0u32;
        for (row, chunk) in (0u32..).zip(&chunks) {
            if chunk.number == 0 {
                start = row;
            }
            first.push(start);
        }
        Self { chunks, searchable, first, documents: OnceLock::new(), passing: Mutex::default() }
    }

    /// [`ChunkTable::new`] for chunks from a file that others may have written. Steps go from
    /// chunk to chunk by `parent`, `previous` and `next`, so a cycle would never end.
    ///
    /// # Errors
    /// [`Error::Failed`] if the numbers of a document's chunks are not 0, 1, 2, …, if a chunk names one that is not there,
    /// if its parent or predecessor does not come before it, or its successor does not come after it.
    pub fn checked(chunks: Vec<Chunk>) -> Result<Self, Error> {
        for of_document in chunks.chunk_by(|a, b| a.document == b.document && b.number != 0) {
            for (number, chunk) in (0u32..).zip(of_document) {
                let is_before = |other: Option<u32>| other.is_none_or(|other| other < number);
                let is_after = |other: u32| number < other && (other as usize) < of_document.len();
                let is_right = chunk.number == number
                    && is_before(chunk.parent)
                    && is_before(chunk.previous)
                    && chunk.next.is_none_or(is_after);
                if !is_right {
                    let reason = format!(
                        "{}: chunk {} has a wrong number, `parent`, `previous` or `next`",
                        chunk.document, chunk.number
                    );
                    return Err(Error::Failed { component: "table of chunks", reason });
                }
            }
        }
        Ok(Self::new(chunks))
    }

    /// How many chunks there are, parents included.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// All chunks by row.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// One chunk.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn chunk(&self, row: u32) -> &Chunk {
        &self.chunks[row as usize]
    }

    /// The chunks of a document, in the order of their numbers; none if there is
    /// no such document.
    pub fn of_document(&self, path: &str) -> &[Chunk] {
        &self.chunks[self.document_rows(path)]
    }

    /// The rows of a document's chunks, in the order of their numbers; empty if there is no such document.
    pub fn rows_of_document(&self, path: &str) -> Range<u32> {
        let row = |row: usize| u32::try_from(row).unwrap_or(u32::MAX);
        let Range { start, end } = self.document_rows(path);
        row(start)..row(end)
    }

    fn document_rows(&self, path: &str) -> Range<usize> {
        let documents = self.documents.get_or_init(|| {
            let mut rows = 0;
            let groups = self.chunks.chunk_by(|a, b| a.document == b.document).map(|chunks| {
                let from = rows;
                rows += chunks.len();
                (chunks[0].document.as_str().into(), from..rows)
            });
            groups.collect()
        });
        documents.get(path).cloned().unwrap_or_default()
    }

    /// The rows that indexes hold, in the order of their entries.
    pub fn searchable(&self) -> &[u32] {
        &self.searchable
    }

    /// The searchable chunks, in the order of the entries of indexes.
    pub(crate) fn searchable_chunks(&self) -> impl Iterator<Item = &Chunk> + Clone {
        self.searchable.iter().map(|&row| self.chunk(row))
    }

    /// Checks that some chunk has each field that a filter names.
    ///
    /// # Errors
    /// If no chunk has one of them: the fields that there are.
    pub fn check_filter(&self, filter: &Filter) -> Result<(), Error> {
        self.entries_passing(filter).map(drop)
    }

    /// The entries that pass a filter. Fails if no chunk has a field that it names.
    pub(crate) fn entries_passing(&self, filter: &Filter) -> Result<Arc<FilteredEntries>, Error> {
        let known = || self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, passing)) = known().iter().find(|(known, _)| known == filter) {
            return Ok(passing.clone());
        }
        let entries = filter.entries(self.searchable_chunks())?;
        let mut mask = vec![false; self.searchable.len()];
        entries.iter().for_each(|&entry| mask[entry as usize] = true);
        let passing = Arc::new(FilteredEntries { entries, mask });
        let mut known = known();
        if known.len() >= MAX_FILTERS {
            known.remove(0);
        }
        known.push((filter.clone(), passing.clone()));
        Ok(passing)
    }

    /// The row of another chunk of the same document, by its number.
    pub(crate) fn sibling(&self, row: u32, number: u32) -> u32 {
        self.first[row as usize] + number
    }

    /// A hit as a passage holding just the chunk's own text.
    pub fn passage(&self, hit: Hit) -> Passage {
        let chunk = self.chunk(hit.row);
        Passage {
            document: chunk.document.clone(),
            span: chunk.span,
            text: chunk.text.clone(),
            score: hit.score,
            page: chunk.page,
            book: chunk.book.clone(),
            heading: chunk.heading.clone(),
            rows: vec![hit.row],
            parts: Vec::new(),
        }
    }

    /// The text of a stretch of a document, with the white space between chunks,
    /// cut at whole characters. None if there is no such document.
    pub fn excerpt(&self, document: &str, span: Span) -> Option<String> {
        let mut chunks: Vec<&Chunk> = self.of_document(document).iter().collect();
        // Chunks are mostly in this order already.
        let mut by_end = chunks.clone();
        by_end.sort_by_key(|chunk| chunk.span.end);
        // A stretch that ends behind the document is cut there.
        let end = by_end.last()?.span.end;
        let span = Span { end: span.end.min(end), ..span };
        chunks.retain(|chunk| chunk.span.end > span.start && chunk.span.start < span.end);
        chunks.sort_by_key(|chunk| (chunk.span.start, std::cmp::Reverse(chunk.span.end)));
        let (mut text, mut at) = (String::new(), span.start);
        for Chunk { span: of, text: whole, .. } in chunks {
            if of.end <= at {
                continue;
            }
            let from = of.start.max(at);
            if from > at {
                text += space_between(&by_end, at, from);
            }
            let cut = |at: usize| whole.floor_char_boundary(at - of.start);
            let to = of.end.min(span.end);
            text += &whole[cut(from)..cut(to)];
            at = to;
        }
        if span.end > at {
            text += space_between(&by_end, at, span.end);
        }
        Some(text)
    }

    /// The text of consecutive chunks `from..=to` (rows of one document) that
    /// tile their document, and its span.
    pub fn join(&self, from: u32, to: u32) -> (String, Span) {
        let text = (from..=to).map(|row| self.chunk(row).text.as_str()).collect();
        (text, Span { start: self.chunk(from).span.start, end: self.chunk(to).span.end })
    }
}

/// The white space of a document from `start` to `end`, where no chunk is. Tables
/// of older versions do not hold it: a line end is used then. The chunks are
/// ordered by their ends.
fn space_between<'a>(by_end: &[&'a Chunk], start: usize, end: usize) -> &'a str {
    let behind = by_end.partition_point(|chunk| chunk.span.end <= start);
    let Some(before) = behind.checked_sub(1).map(|at| by_end[at]) else { return "" };
    let behind = before.span.end;
    let space = before.space.get(start - behind..).filter(|space| !space.is_empty()).unwrap_or("\n");
    space.get(..end - start).unwrap_or(space)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, chunk::ChunkerConfig, load::Format};

    fn document(path: &str, text: &str) -> Document {
        Document {
            path: path.to_owned(),
            content: store::Key::of_bytes(text.as_bytes()),
            format: Format::Markdown,
            title: None,
            author: None,
            text: text.to_owned(),
            pages: Vec::new(),
            headings: crate::load::markdown_headings(text),
            metadata: Default::default(),
        }
    }

    /// The chunks of documents, with the white space between them.
    fn table(documents: &[Document]) -> ChunkTable {
        let chunker: ChunkerConfig =
            serde_json::from_str(r#"{ "sentence": { "chunk_size": 8, "chunk_overlap": 0 } }"#).unwrap();
        let chunker = chunker.build(&crate::Context::default()).unwrap();
        let chunks_of = |document: &Document| {
            let mut chunks = chunker.chunk_now(document).unwrap();
            chunks.iter_mut().for_each(|chunk| chunk.take_space(&document.text));
            chunks
        };
        ChunkTable::new(documents.iter().flat_map(chunks_of).collect())
    }

    #[test]
    fn chunks_that_name_one_another_in_a_circle_are_no_table() {
        let two = "Raise the mast before noon today. Then tie it to the post.";
        let chunks = table(&[document("b", two), document("a", "Wait."), document("c", two)]).chunks;
        assert_eq!(ChunkTable::checked(chunks.clone()).unwrap().len(), 5);
        assert!(ChunkTable::checked(Vec::new()).unwrap().is_empty());
        let changes: [fn(&mut Vec<Chunk>); 8] = [
            |chunks| chunks[1].parent = Some(1),
            |chunks| chunks[0].parent = Some(1),
            |chunks| chunks[0].parent = Some(u32::MAX),
            |chunks| chunks[1].previous = Some(1),
            |chunks| chunks[0].next = Some(0),
            |chunks| chunks[1].next = Some(2),
            |chunks| chunks[2].number = 1,
            |chunks| drop(chunks.remove(0)),
        ];
        for change in changes {
            let mut changed = chunks.clone();
            change(&mut changed);
            let error = ChunkTable::checked(changed).unwrap_err().to_string();
            assert!(error.contains("table of chunks: ") && error.contains(": chunk "), "{error}");
        }
        let mut right = chunks;
        right[1].parent = Some(0);
        ChunkTable::checked(right).unwrap();
    }

    #[test]
    fn the_chunks_of_a_document_are_found_by_its_path() {
        let two = "Raise the mast before noon today. Then tie it to the post.";
        let table = table(&[document("b", two), document("a", "Wait."), document("c", two)]);
        let numbers = |path: &str| table.of_document(path).iter().map(|chunk| chunk.number).collect::<Vec<_>>();
        assert_eq!((numbers("b"), numbers("a"), numbers("c"), numbers("d")), (vec![0, 1], vec![0], vec![0, 1], vec![]));
        assert_eq!(["b", "a", "c", "d"].map(|path| table.rows_of_document(path)), [0..2, 2..3, 3..5, 0..0]);
    }

    #[test]
    fn an_excerpt_is_the_documents_own_bytes_wherever_it_is_cut() {
        let text = "Raise the mast before noon.  If the panel is cold, wait.\n\n## Raising\n\nPull the rope slowly.\r\nThen \
                    tie it to the post.\tDone is done, they say here.";
        let table = table(&[document("a.md", text)]);
        assert!(table.len() > 3, "{}", table.len());
        for start in 0..text.len() {
            for end in start..=text.len() {
                let found = table.excerpt("a.md", Span { start, end }).unwrap();
                assert_eq!(found, text[start..end], "{start}..{end}");
            }
        }
        assert_eq!(table.excerpt("b.md", Span { start: 0, end: 9 }), None);
    }
}
