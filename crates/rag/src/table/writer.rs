//! Writes a table of chunks, chunk by chunk.

use super::{
    ChunkTable,
    bytes::{
        HAS_NEXT, HAS_PAGE, HAS_PARENT, HAS_PREVIOUS, LayerBytes, NO_TEXT, RECORD_BYTES, SEARCHABLE, SEGMENT_ROWS,
        StoredText, TableParts, failed,
    },
    chunk::TableChunk,
};
use crate::{Error, types::Chunk};
use std::{
    io::{self, Write},
    sync::Arc,
};
use store::Key;

/// Numbers of the tail that are put together before they are written.
const NUMBERS_AT_ONCE: usize = 8192;

/// Writes the bytes of a [`ChunkTable`](super::ChunkTable). It holds one segment of records, and at most 32 bytes a
/// chunk; texts go straight to the target.
#[derive(Debug)]
pub struct ChunkTableWriter<W> {
    target: W,
    written: u64,
    /// The lower table that this one is written over. Texts that it holds are not written again.
    below: Option<Arc<LayerBytes>>,
    /// Whether the links of chunks are checked.
    is_checked: bool,
    rows: usize,
    /// The names of the segment, and its records.
    names: Vec<u8>,
    records: Vec<PendingRecord>,
    /// The last heading and where it stands in `names`.
    heading: Option<(String, u64)>,
    /// Where the records of each segment begin.
    segments: Vec<u64>,
    /// Where the groups of the segment stand in `names`, and all earlier groups in the file.
    pending_groups: Vec<u64>,
    group_places: Vec<u64>,
    group_rows: Vec<u32>,
    /// The path's hash, the first row, and the row after the last of each document.
    documents: Vec<(u64, u32, u32)>,
    searchable: Vec<u32>,
    group: Option<GroupFields>,
    /// The row of chunk 0 of the present document.
    first: u32,
    /// The links of the chunks of the present document.
    links: Vec<ChunkLinks>,
}

/// What the chunks of the present group have in common.
#[derive(Debug)]
struct GroupFields {
    document: String,
    book: Option<String>,
    metadata: String,
}

/// A chunk's own number, and those that it names.
#[derive(Debug, Clone, Copy)]
struct ChunkLinks {
    number: u32,
    parent: Option<u32>,
    previous: Option<u32>,
    next: Option<u32>,
}

/// A record whose heading's place in the file is not known yet.
#[derive(Debug)]
struct PendingRecord {
    bytes: [u8; RECORD_BYTES],
    /// Where its heading stands in the names of the segment.
    heading: u64,
}

impl<W: Write> ChunkTableWriter<W> {
    /// A writer of chunks that a chunker of this program made.
    pub fn new(target: W) -> Self {
        Self {
            target,
            written: 0,
            below: None,
            is_checked: false,
            rows: 0,
            names: Vec::new(),
            records: Vec::new(),
            heading: None,
            segments: Vec::new(),
            pending_groups: Vec::new(),
            group_places: Vec::new(),
            group_rows: Vec::new(),
            documents: Vec::new(),
            searchable: Vec::new(),
            group: None,
            first: 0,
            links: Vec::new(),
        }
    }

    /// A writer of chunks from a file that others may have written. Steps go from chunk to chunk by `parent`, `previous`
    /// and `next`, so a cycle would never end.
    pub fn checked(target: W) -> Self {
        Self { is_checked: true, ..Self::new(target) }
    }

    /// A [checked](Self::checked) writer over the lowest table below `table`, or over `table` itself: rows of `table` whose
    /// texts are there refer to them. The file that is written is opened by [`ChunkTable::map_over`].
    pub fn checked_over(target: W, table: &ChunkTable) -> Self {
        let below = table.bytes.lowest().clone();
        Self { written: below.len() as u64, below: Some(below), ..Self::checked(target) }
    }

    /// Adds the next chunk. Chunks of one document follow each other, in the order of their numbers.
    ///
    /// # Errors
    /// [`Error::Failed`] if the target cannot be written, a text is larger than 4 GiB, there are 2³² chunks, or the links
    /// of a checked document are wrong: its numbers are not 0, 1, 2, …, a chunk names one that is not there, its parent or
    /// predecessor does not come before it, or its successor does not come after it.
    pub fn push(&mut self, chunk: &Chunk) -> Result<(), Error> {
        let metadata = match chunk.metadata.is_empty() {
            true => String::new(),
            false => serde_json::to_string(&chunk.metadata).map_err(failed)?,
        };
        self.push_with(&TableChunk::of(chunk, &metadata), None)
    }

    /// Adds a chunk of another table, as [`push`](Self::push).
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_row(&mut self, table: &ChunkTable, row: u32) -> Result<(), Error> {
        let (bytes, row) = (table.bytes.all(), row as usize);
        let place = table.parts.text_of_row(bytes, row);
        let below = self.below.as_ref().filter(|below| Arc::ptr_eq(below, table.bytes.lowest()));
        match below.is_some_and(|below| place.start < below.len() as u64) {
            true => self.push_with(&table.parts.chunk_without_text(bytes, row), Some(place)),
            false => self.push_with(&table.parts.chunk(bytes, row), None),
        }
    }

    /// Adds a chunk. Its text is written, unless the lower table holds it: then `text_below` says where.
    fn push_with(&mut self, chunk: &TableChunk<'_>, text_below: Option<StoredText>) -> Result<(), Error> {
        let row = u32::try_from(self.rows).map_err(|_| failed("there are more than 4,294,967,295 chunks"))?;
        let is_new_document = self.group.as_ref().is_none_or(|group| group.document != chunk.document);
        if is_new_document || chunk.number == 0 {
            self.check_links()?;
        }
        if chunk.number == 0 {
            self.first = row;
        }
        if is_new_document {
            self.documents.push((path_hash(chunk.document), row, row));
        }
        if let Some((_, _, end)) = self.documents.last_mut() {
            *end = row + 1;
        }
        if self.is_checked {
            let TableChunk { number, parent, previous, next, .. } = *chunk;
            self.links.push(ChunkLinks { number, parent, previous, next });
        }
        self.begin_group(row, chunk, is_new_document)?;
        if chunk.searchable {
            self.searchable.push(row);
        }
        let text = match text_below {
            Some(place) => place,
            None => self.write_text(chunk)?,
        };
        let record = self.record(chunk, text)?;
        self.records.push(record);
        self.rows += 1;
        if self.records.len() == SEGMENT_ROWS { self.end_segment() } else { Ok(()) }
    }

    /// Begins a group if the chunk has another document, title or metadata than the one before it.
    fn begin_group(&mut self, row: u32, chunk: &TableChunk<'_>, is_new_document: bool) -> Result<(), Error> {
        let is_same = !is_new_document
            && (self.group.as_ref())
                .is_some_and(|group| group.book.as_deref() == chunk.book && group.metadata == chunk.metadata);
        if is_same {
            return Ok(());
        }
        self.pending_groups.push(self.names.len() as u64);
        self.group_rows.push(row);
        let TableChunk { document, book, metadata, .. } = *chunk;
        let lengths = [
            length(document, "a path")?,
            book.map_or(Ok(NO_TEXT), |book| length(book, "a title"))?,
            length(metadata, "the metadata of a document")?,
        ];
        lengths.into_iter().for_each(|length| self.names.extend(length.to_le_bytes()));
        for text in [document, book.unwrap_or_default(), metadata] {
            self.names.extend(text.as_bytes());
        }
        let (document, metadata) = (document.to_owned(), metadata.to_owned());
        self.group = Some(GroupFields { document, book: book.map(str::to_owned), metadata });
        Ok(())
    }

    /// Writes the text of a chunk, and the white space behind it.
    fn write_text(&mut self, chunk: &TableChunk<'_>) -> Result<StoredText, Error> {
        let start = self.written;
        let (length, space) = (length(chunk.text, "a chunk")?, length(chunk.space, "the white space after a chunk")?);
        self.write(chunk.text.as_bytes())?;
        self.write(chunk.space.as_bytes())?;
        Ok(StoredText { start, length, space })
    }

    /// The record of a chunk.
    fn record(&mut self, chunk: &TableChunk<'_>, text: StoredText) -> Result<PendingRecord, Error> {
        let (heading, heading_length) = match chunk.heading {
            None => (0, NO_TEXT),
            Some(heading) => (self.heading_place(heading), length(heading, "a heading")?),
        };
        let mut bytes = [0; RECORD_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &text.start.to_le_bytes());
        put(8, &(chunk.span.start as u64).to_le_bytes());
        put(16, &(chunk.span.end as u64).to_le_bytes());
        put(24, &text.length.to_le_bytes());
        put(28, &(self.group_rows.len() as u32 - 1).to_le_bytes());
        put(32, &chunk.number.to_le_bytes());
        put(36, &self.first.to_le_bytes());
        let mut flags = if chunk.searchable { SEARCHABLE } else { 0 };
        let links = [
            (chunk.parent, HAS_PARENT, 40),
            (chunk.previous, HAS_PREVIOUS, 44),
            (chunk.next, HAS_NEXT, 48),
            (chunk.page, HAS_PAGE, 52),
        ];
        for (value, flag, at) in links {
            if let Some(value) = value {
                flags |= flag;
                put(at, &value.to_le_bytes());
            }
        }
        put(64, &heading_length.to_le_bytes());
        put(68, &text.space.to_le_bytes());
        put(72, &[flags, chunk.level]);
        Ok(PendingRecord { bytes, heading })
    }

    /// Writes a heading into the names of the segment, and returns its place. The heading of the chunk before is not written
    /// twice.
    fn heading_place(&mut self, heading: &str) -> u64 {
        if let Some((last, place)) = &self.heading
            && last == heading
        {
            return *place;
        }
        let place = self.names.len() as u64;
        self.names.extend(heading.as_bytes());
        self.heading = Some((heading.to_owned(), place));
        place
    }

    fn end_segment(&mut self) -> Result<(), Error> {
        let start = self.written;
        let names = std::mem::take(&mut self.names);
        self.write(&names)?;
        self.group_places.extend(self.pending_groups.drain(..).map(|place| start + place));
        self.segments.push(self.written);
        for PendingRecord { mut bytes, heading } in std::mem::take(&mut self.records) {
            bytes[56..64].copy_from_slice(&(start + heading).to_le_bytes());
            self.write(&bytes)?;
        }
        self.heading = None;
        Ok(())
    }

    /// Checks the links of the document that ends.
    fn check_links(&mut self) -> Result<(), Error> {
        let all = self.links.len();
        for (number, links) in (0u32..).zip(self.links.drain(..)) {
            let is_before = |other: Option<u32>| other.is_none_or(|other| other < number);
            let is_after = |other: u32| number < other && (other as usize) < all;
            let is_right = links.number == number
                && is_before(links.parent)
                && is_before(links.previous)
                && links.next.is_none_or(is_after);
            if !is_right {
                let (document, number) = (self.group.as_ref().map_or("", |group| &group.document), links.number);
                let reason = format!("{document}: chunk {number} has a wrong number, `parent`, `previous` or `next`");
                return Err(failed(reason));
            }
        }
        Ok(())
    }

    /// Writes what is left, and returns the target.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn finish(mut self) -> Result<W, Error> {
        self.check_links()?;
        if !self.records.is_empty() {
            self.end_segment()?;
        }
        let mut documents = std::mem::take(&mut self.documents);
        documents.sort_unstable();
        let parts = TableParts {
            rows: self.rows,
            groups: self.group_rows.len(),
            documents: documents.len(),
            searchable: self.searchable.len(),
            tail: self.written as usize,
        };
        let places: Vec<u64> = self.segments.drain(..).chain(self.group_places.drain(..)).collect();
        self.write_all(places.into_iter().map(u64::to_le_bytes))?;
        let group_rows = std::mem::take(&mut self.group_rows);
        self.write_all(group_rows.into_iter().map(u32::to_le_bytes))?;
        self.write_all(documents.iter().map(|(hash, _, _)| hash.to_le_bytes()))?;
        self.write_all(documents.iter().flat_map(|(_, first, end)| [first, end]).map(|row| row.to_le_bytes()))?;
        let searchable = std::mem::take(&mut self.searchable);
        self.write_all(searchable.into_iter().map(u32::to_le_bytes))?;
        self.write(&parts.to_bytes())?;
        self.target.flush().map_err(failed_write)?;
        Ok(self.target)
    }

    fn write_all<const N: usize>(&mut self, numbers: impl Iterator<Item = [u8; N]>) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(NUMBERS_AT_ONCE * N);
        for number in numbers {
            bytes.extend(number);
            if bytes.len() == NUMBERS_AT_ONCE * N {
                self.write(&bytes)?;
                bytes.clear();
            }
        }
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.target.write_all(bytes).map_err(failed_write)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// The hash by which the chunks of a document are found.
pub(super) fn path_hash(path: &str) -> u64 {
    let key = Key::of_bytes(path.as_bytes());
    key.bytes().first_chunk().copied().map_or(0, u64::from_le_bytes)
}

fn length(text: &str, what: &str) -> Result<u32, Error> {
    let length = u32::try_from(text.len()).ok().filter(|length| *length != NO_TEXT);
    length.ok_or_else(|| failed(format!("{what} has {} bytes; at most 4 GiB can be stored", text.len())))
}

fn failed_write(error: io::Error) -> Error {
    failed(format!("cannot write the chunks: {error}; make room on the disk of the temporary files"))
}
