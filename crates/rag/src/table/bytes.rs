//! The bytes of a table of chunks, in memory or in a mapped file.
//!
//! ```text
//! segment …   for each 4,096 rows: the texts, each followed by its white space; names (headings, and what the chunks of
//!             a document have in common); records of a fixed size
//! tail        where the records of each segment begin; groups; documents by the hash of their paths; searchable rows
//! footer      the number of each of these
//! ```
//!
//! A table that is written over another one does not repeat its texts. Places then count from the start of the lower table;
//! the first byte of this one follows the last byte of that one.
//!
//! A group is a run of chunks with the same document, title and metadata. A row is found without an index: by its
//! segment and its place in it. A search reads the records and texts of its hits and touches no other part of the file.

use super::chunk::TableChunk;
use crate::{Error, index::map_file, types::Span};
use memmap2::Mmap;
use std::{fs::File, sync::Arc};

const MAGIC: u64 = u64::from_le_bytes(*b"RVCHUNK\n");
/// The rows of a segment, except the last.
pub(super) const SEGMENT_ROWS: usize = 4096;
pub(super) const RECORD_BYTES: usize = 76;
const FOOTER_BYTES: usize = 6 * 8;
/// Stands for a text that is not there, in place of its length.
pub(super) const NO_TEXT: u32 = u32::MAX;

pub(super) const SEARCHABLE: u8 = 1;
pub(super) const HAS_PARENT: u8 = 1 << 1;
pub(super) const HAS_PREVIOUS: u8 = 1 << 2;
pub(super) const HAS_NEXT: u8 = 1 << 3;
pub(super) const HAS_PAGE: u8 = 1 << 4;

/// The bytes of a file that is mapped, or that was written into memory.
#[derive(Debug)]
pub(super) enum LayerBytes {
    Memory(Vec<u8>),
    Mapped(Mmap),
}

impl LayerBytes {
    /// Maps a file of which single places will be read.
    pub(super) fn map(file: &File) -> Result<Self, Error> {
        Ok(Self::Mapped(map_file(file).map_err(failed)?))
    }

    fn all(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all().len()
    }
}

/// The bytes of a table. If it was written over another table, those of that one come first.
#[derive(Debug)]
pub(super) struct TableBytes {
    below: Option<Arc<LayerBytes>>,
    own: Arc<LayerBytes>,
}

impl TableBytes {
    pub(super) fn new(own: LayerBytes, below: Option<Arc<LayerBytes>>) -> Self {
        Self { below, own: Arc::new(own) }
    }

    pub(super) fn all(&self) -> AllBytes<'_> {
        AllBytes { below: self.below.as_ref().map_or(&[], |below| below.all()), own: self.own.all() }
    }

    /// What a table that is written over this one has below its own bytes: this table, or the one below it.
    pub(super) fn lowest(&self) -> &Arc<LayerBytes> {
        self.below.as_ref().unwrap_or(&self.own)
    }
}

/// The bytes of a table by their places.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllBytes<'a> {
    below: &'a [u8],
    own: &'a [u8],
}

impl<'a> AllBytes<'a> {
    /// The bytes from a place on. No text and no number crosses from the lower table into this one.
    fn starting_at(&self, at: usize) -> &'a [u8] {
        match at.checked_sub(self.below.len()) {
            Some(own) => &self.own[own..],
            None => &self.below[at..],
        }
    }

    fn u32_at(&self, at: usize) -> u32 {
        self.starting_at(at).first_chunk().copied().map_or(0, u32::from_le_bytes)
    }

    fn u64_at(&self, at: usize) -> u64 {
        self.starting_at(at).first_chunk().copied().map_or(0, u64::from_le_bytes)
    }

    fn text_at(&self, at: usize, length: u32) -> &'a str {
        str::from_utf8(&self.starting_at(at)[..length as usize]).unwrap_or_default()
    }
}

/// A chunk's text in the bytes of a table, followed by its white space.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredText {
    /// Where the text begins.
    pub(super) start: u64,
    /// The bytes of the text, and of the white space.
    pub(super) length: u32,
    pub(super) space: u32,
}

/// Where the parts of a table lie in its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TableParts {
    pub(super) rows: usize,
    pub(super) groups: usize,
    pub(super) documents: usize,
    pub(super) searchable: usize,
    /// Where the tail begins.
    pub(super) tail: usize,
}

impl TableParts {
    /// The footer.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Self { rows, groups, documents, searchable, tail } = self;
        let numbers = [rows, groups, documents, searchable, tail].map(|number| number as u64);
        numbers.into_iter().chain([MAGIC]).flat_map(u64::to_le_bytes).collect()
    }

    /// Reads the footer; none if the bytes are not a whole table.
    pub(super) fn read(bytes: AllBytes<'_>) -> Option<Self> {
        let start = bytes.below.len() + bytes.own.len().checked_sub(FOOTER_BYTES)?;
        let number = |i: usize| bytes.u64_at(start + 8 * i) as usize;
        let parts =
            Self { rows: number(0), groups: number(1), documents: number(2), searchable: number(3), tail: number(4) };
        (bytes.u64_at(start + 40) == MAGIC && parts.end() == Some(start)).then_some(parts)
    }

    fn group_places(&self) -> usize {
        self.tail + 8 * self.rows.div_ceil(SEGMENT_ROWS)
    }

    fn group_rows(&self) -> usize {
        self.group_places() + 8 * self.groups
    }

    fn hashes(&self) -> usize {
        self.group_rows() + 4 * self.groups
    }

    fn document_rows(&self) -> usize {
        self.hashes() + 8 * self.documents
    }

    fn searchable_rows(&self) -> usize {
        self.document_rows() + 8 * self.documents
    }

    /// Where the tail ends, if the numbers are those of a table at all.
    fn end(&self) -> Option<usize> {
        let is_small = |number: usize| number <= u32::MAX as usize;
        let are_small = [self.rows, self.groups, self.documents, self.searchable].into_iter().all(is_small);
        (are_small && self.tail < 1 << 60).then(|| self.searchable_rows() + 4 * self.searchable)
    }

    /// The rows that indexes hold.
    pub(super) fn read_searchable(&self, bytes: AllBytes<'_>) -> Vec<u32> {
        let start = self.searchable_rows();
        (0..self.searchable).map(|i| bytes.u32_at(start + 4 * i)).collect()
    }

    /// Path, title and metadata of the chunks of a group.
    pub(super) fn group<'a>(&self, bytes: AllBytes<'a>, group: usize) -> ChunkGroup<'a> {
        let at = bytes.u64_at(self.group_places() + 8 * group) as usize;
        let [document, book, metadata] = [0, 4, 8].map(|offset| bytes.u32_at(at + offset));
        let start = at + 12;
        let book_start = start + document as usize;
        let metadata_start = book_start + if book == NO_TEXT { 0 } else { book as usize };
        ChunkGroup {
            document: bytes.text_at(start, document),
            book: (book != NO_TEXT).then(|| bytes.text_at(book_start, book)),
            metadata: bytes.text_at(metadata_start, metadata),
        }
    }

    /// The rows of documents whose paths have this hash, the last first.
    pub(super) fn documents_with(&self, bytes: AllBytes<'_>, hash: u64) -> impl Iterator<Item = (u32, u32)> {
        let (hashes, rows) = (self.hashes(), self.document_rows());
        let hash_at = move |i: usize| bytes.u64_at(hashes + 8 * i);
        let (mut from, mut to) = (0, self.documents);
        while from < to {
            let middle = from + (to - from) / 2;
            if hash_at(middle) <= hash { from = middle + 1 } else { to = middle }
        }
        let same = (0..from).rev().take_while(move |&i| hash_at(i) == hash);
        same.map(move |i| (bytes.u32_at(rows + 8 * i), bytes.u32_at(rows + 8 * i + 4)))
    }

    /// Where the record of a row begins.
    fn record(&self, bytes: AllBytes<'_>, row: usize) -> usize {
        assert!(row < self.rows, "there is no row {row} in a table of {}", self.rows);
        let segment = bytes.u64_at(self.tail + 8 * (row / SEGMENT_ROWS)) as usize;
        segment + row % SEGMENT_ROWS * RECORD_BYTES
    }

    pub(super) fn group_of_row(&self, bytes: AllBytes<'_>, row: usize) -> usize {
        bytes.u32_at(self.record(bytes, row) + 28) as usize
    }

    /// The row of chunk 0 of the same document.
    pub(super) fn first_of_row(&self, bytes: AllBytes<'_>, row: usize) -> u32 {
        bytes.u32_at(self.record(bytes, row) + 36)
    }

    /// The page on which a row's chunk starts.
    pub(super) fn page_of_row(&self, bytes: AllBytes<'_>, row: usize) -> Option<u32> {
        let at = self.record(bytes, row);
        (bytes.starting_at(at + 72)[0] & HAS_PAGE != 0).then(|| bytes.u32_at(at + 52))
    }

    /// The headings above a row's chunk.
    pub(super) fn heading_of_row<'a>(&self, bytes: AllBytes<'a>, row: usize) -> Option<&'a str> {
        let at = self.record(bytes, row);
        let length = bytes.u32_at(at + 64);
        (length != NO_TEXT).then(|| bytes.text_at(bytes.u64_at(at + 56) as usize, length))
    }

    /// Where the text of a row is in the table's bytes.
    pub(super) fn text_of_row(&self, bytes: AllBytes<'_>, row: usize) -> StoredText {
        let at = self.record(bytes, row);
        StoredText { start: bytes.u64_at(at), length: bytes.u32_at(at + 24), space: bytes.u32_at(at + 68) }
    }

    pub(super) fn chunk<'a>(&self, bytes: AllBytes<'a>, row: usize) -> TableChunk<'a> {
        let StoredText { start, length, space } = self.text_of_row(bytes, row);
        let text = bytes.text_at(start as usize, length);
        let space = bytes.text_at(start as usize + length as usize, space);
        TableChunk { text, space, ..self.chunk_without_text(bytes, row) }
    }

    /// A row's chunk, as if its text and the white space behind it were empty.
    pub(super) fn chunk_without_text<'a>(&self, bytes: AllBytes<'a>, row: usize) -> TableChunk<'a> {
        let at = self.record(bytes, row);
        let small = |offset: usize| bytes.u32_at(at + offset);
        let large = |offset: usize| bytes.u64_at(at + offset) as usize;
        let (flags, level) = (bytes.starting_at(at + 72)[0], bytes.starting_at(at + 73)[0]);
        let linked = |flag: u8, offset: usize| (flags & flag != 0).then(|| small(offset));
        let group = self.group(bytes, small(28) as usize);
        TableChunk {
            document: group.document,
            number: small(32),
            span: Span { start: large(8), end: large(16) },
            text: "",
            searchable: flags & SEARCHABLE != 0,
            level,
            parent: linked(HAS_PARENT, 40),
            previous: linked(HAS_PREVIOUS, 44),
            next: linked(HAS_NEXT, 48),
            page: linked(HAS_PAGE, 52),
            book: group.book,
            heading: self.heading_of_row(bytes, row),
            space: "",
            metadata: group.metadata,
        }
    }
}

/// What the chunks of a group have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkGroup<'a> {
    pub(super) document: &'a str,
    pub(super) book: Option<&'a str>,
    /// As JSON; empty if there is none.
    pub(super) metadata: &'a str,
}

pub(super) fn failed(reason: impl ToString) -> Error {
    Error::Failed { component: "table of chunks", reason: reason.to_string() }
}
