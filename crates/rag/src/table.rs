//! All chunks of a corpus, in a fixed order; retrieval looks up its rows here.

mod bytes;
mod chunk;
mod columns;
mod writer;

pub use chunk::TableChunk;
pub use writer::ChunkTableWriter;

use crate::{
    Error, Filter,
    index::EntryTexts,
    types::{Chunk, Hit, Passage, Span},
};
use bytes::{LayerBytes, TableBytes, TableParts, failed};
use columns::{FilterCache, FilteredEntries};
use std::{fmt, fs::File, ops::Range, sync::Arc};
use writer::path_hash;

/// Chunks of all documents. A chunk's row is its position here; chunks of one
/// document are consecutive and in the order of their numbers.
///
/// Texts stay in one stretch of bytes, mostly a mapped file, and are read by row. In memory, a searchable chunk takes four
/// bytes, and a bit for each of the most recent filters.
pub struct ChunkTable {
    bytes: TableBytes,
    parts: TableParts,
    /// Rows of the searchable chunks, in order: entry `i` of an index is row `searchable[i]`.
    searchable: Vec<u32>,
    filters: FilterCache,
}

impl Default for ChunkTable {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl fmt::Debug for ChunkTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkTable").field("rows", &self.parts.rows).finish_non_exhaustive()
    }
}

impl ChunkTable {
    /// Takes chunks grouped by document, each group in the order of its numbers.
    ///
    /// # Panics
    /// If a text is larger than 4 GiB, or there are 2³² chunks.
    #[expect(
        clippy::expect_used,
        reason = "memory can be written, and chunks that are in memory are not so many or so large"
    )]
    pub fn new(chunks: Vec<Chunk>) -> Self {
        Self::write(ChunkTableWriter::new(Vec::new()), chunks).expect("a table of chunks in memory")
    }

    /// [`ChunkTable::new`] for chunks from a file that others may have written.
    ///
    /// # Errors
    /// As [`ChunkTableWriter::push`] of a [checked](ChunkTableWriter::checked) writer.
    pub fn checked(chunks: Vec<Chunk>) -> Result<Self, Error> {
        Self::write(ChunkTableWriter::checked(Vec::new()), chunks)
    }

    fn write(mut writer: ChunkTableWriter<Vec<u8>>, chunks: Vec<Chunk>) -> Result<Self, Error> {
        chunks.iter().try_for_each(|chunk| writer.push(chunk))?;
        Self::from_bytes(writer.finish()?)
    }

    /// The table that a [`ChunkTableWriter`] has written into memory.
    ///
    /// # Errors
    /// [`Error::Failed`] if the bytes are not a whole table.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::open(TableBytes::new(LayerBytes::Memory(bytes), None))
    }

    /// Maps a file that a [`ChunkTableWriter`] of this process has written, and that nobody else can change.
    ///
    /// # Errors
    /// [`Error::Failed`] if it cannot be mapped or is not a whole table.
    pub fn map(file: &File) -> Result<Self, Error> {
        Self::map_all(file, None)
    }

    /// [`ChunkTable::map`] of a table that was written [over another](ChunkTableWriter::checked_over), whose file is `lower`.
    ///
    /// # Errors
    /// As [`ChunkTable::map`].
    pub fn map_over(file: &File, lower: &File) -> Result<Self, Error> {
        Self::map_all(file, Some(Arc::new(LayerBytes::map(lower)?)))
    }

    /// [`ChunkTable::map_over`] over the lowest table below `table`, or over `table` itself.
    ///
    /// # Errors
    /// As [`ChunkTable::map`].
    pub fn map_over_table(file: &File, table: &Self) -> Result<Self, Error> {
        Self::map_all(file, Some(table.bytes.lowest().clone()))
    }

    fn map_all(file: &File, below: Option<Arc<LayerBytes>>) -> Result<Self, Error> {
        Self::open(TableBytes::new(LayerBytes::map(file)?, below))
    }

    fn open(bytes: TableBytes) -> Result<Self, Error> {
        let parts = TableParts::read(bytes.all()).ok_or_else(|| failed("the bytes are not a whole table"))?;
        let searchable = parts.read_searchable(bytes.all());
        Ok(Self { bytes, parts, searchable, filters: FilterCache::default() })
    }

    /// How many chunks there are, parents included.
    pub fn len(&self) -> usize {
        self.parts.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.rows == 0
    }

    /// All chunks by row.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = TableChunk<'_>> + Clone {
        (0..self.len()).map(|row| self.parts.chunk(self.bytes.all(), row))
    }

    /// One chunk.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn chunk(&self, row: u32) -> TableChunk<'_> {
        self.parts.chunk(self.bytes.all(), row as usize)
    }

    /// The chunks of a document, in the order of their numbers; none if there is
    /// no such document.
    pub fn of_document(&self, path: &str) -> impl ExactSizeIterator<Item = TableChunk<'_>> + Clone {
        let Range { start, end } = self.rows_of_document(path);
        (start as usize..end as usize).map(|row| self.parts.chunk(self.bytes.all(), row))
    }

    /// The rows of a document's chunks, in the order of their numbers; empty if there is no such document.
    pub fn rows_of_document(&self, path: &str) -> Range<u32> {
        let bytes = self.bytes.all();
        let document = |row: u32| self.parts.group(bytes, self.parts.group_of_row(bytes, row as usize)).document;
        let found = self.parts.documents_with(bytes, path_hash(path)).find(|&(start, _)| document(start) == path);
        found.map_or(0..0, |(start, end)| start..end)
    }

    /// The paths of the documents, in the order of the table.
    pub fn documents(&self) -> impl Iterator<Item = &str> {
        let mut before = None;
        let next = move |group| {
            let path = self.parts.group(self.bytes.all(), group).document;
            (before.replace(path) != Some(path)).then_some(path)
        };
        (0..self.parts.groups).filter_map(next)
    }

    /// The rows that indexes hold, in the order of their entries.
    pub fn searchable(&self) -> &[u32] {
        &self.searchable
    }

    /// The searchable chunks, in the order of the entries of indexes.
    pub fn searchable_chunks(&self) -> impl ExactSizeIterator<Item = TableChunk<'_>> + Clone {
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
        self.filters.entries(self, filter)
    }

    /// The fields that some searchable chunk has.
    pub(crate) fn fields(&self) -> Vec<String> {
        columns::fields(self)
    }

    /// The row of another chunk of the same document, by its number.
    pub(crate) fn sibling(&self, row: u32, number: u32) -> u32 {
        self.parts.first_of_row(self.bytes.all(), row as usize) + number
    }

    /// A hit as a passage holding just the chunk's own text.
    pub fn passage(&self, hit: Hit) -> Passage {
        let chunk = self.chunk(hit.row);
        Passage {
            document: chunk.document.to_owned(),
            span: chunk.span,
            text: chunk.text.to_owned(),
            score: hit.score,
            page: chunk.page,
            book: chunk.book.map(str::to_owned),
            heading: chunk.heading.map(str::to_owned),
            rows: vec![hit.row],
            parts: Vec::new(),
        }
    }

    /// The text of a stretch of a document, with the white space between chunks,
    /// cut at whole characters. None if there is no such document.
    pub fn excerpt(&self, document: &str, span: Span) -> Option<String> {
        let mut chunks: Vec<TableChunk<'_>> = self.of_document(document).collect();
        // Chunks are mostly in this order already.
        let mut by_end = chunks.clone();
        by_end.sort_by_key(|chunk| chunk.span.end);
        // A stretch that ends behind the document is cut there.
        let end = by_end.last()?.span.end;
        let span = Span { end: span.end.min(end), ..span };
        chunks.retain(|chunk| chunk.span.end > span.start && chunk.span.start < span.end);
        chunks.sort_by_key(|chunk| (chunk.span.start, std::cmp::Reverse(chunk.span.end)));
        let (mut text, mut at) = (String::new(), span.start);
        for TableChunk { span: of, text: whole, .. } in chunks {
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
        let text = (from..=to).map(|row| self.chunk(row).text).collect();
        (text, Span { start: self.chunk(from).span.start, end: self.chunk(to).span.end })
    }
}

/// The texts of the searchable chunks.
impl EntryTexts for ChunkTable {
    fn entries(&self) -> usize {
        self.searchable.len()
    }

    fn text(&self, entry: usize) -> &str {
        self.chunk(self.searchable[entry]).text
    }

    fn document(&self, entry: usize) -> &str {
        let bytes = self.bytes.all();
        self.parts.group(bytes, self.parts.group_of_row(bytes, self.searchable[entry] as usize)).document
    }
}

/// The white space of a document from `start` to `end`, where no chunk is. Tables
/// of older versions do not hold it: a line end is used then. The chunks are
/// ordered by their ends.
fn space_between<'a>(by_end: &[TableChunk<'a>], start: usize, end: usize) -> &'a str {
    let behind = by_end.partition_point(|chunk| chunk.span.end <= start);
    let Some(before) = behind.checked_sub(1).map(|at| by_end[at]) else { return "" };
    let behind = before.span.end;
    let space = before.space.get(start - behind..).filter(|space| !space.is_empty()).unwrap_or("\n");
    space.get(..end - start).unwrap_or(space)
}

#[cfg(test)]
mod tests;
