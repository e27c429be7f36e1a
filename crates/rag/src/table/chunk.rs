//! One chunk of a table, as it stands in the table's bytes.

use crate::types::{Chunk, Metadata, Span};
use serde_json::Value;

/// A chunk of a [`ChunkTable`](super::ChunkTable). The fields are those of [`Chunk`]; texts are borrowed from the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableChunk<'a> {
    /// The document's path.
    pub document: &'a str,
    /// The number within its document.
    pub number: u32,
    /// Where it lies in the document's text.
    pub span: Span,
    /// The document's text at the span.
    pub text: &'a str,
    /// Whether it is embedded and searched.
    pub searchable: bool,
    /// The level in a hierarchy: 0 is the largest.
    pub level: u8,
    /// The chunk that this is a part of.
    pub parent: Option<u32>,
    /// The chunk before it under the same parent (or in the document).
    pub previous: Option<u32>,
    /// The chunk after it under the same parent (or in the document).
    pub next: Option<u32>,
    /// The page on which it starts.
    pub page: Option<u32>,
    /// The document's title.
    pub book: Option<&'a str>,
    /// The headings above its text, as those of a [`Chunk`].
    pub heading: Option<&'a str>,
    /// The white space that follows it in its document.
    pub space: &'a str,
    /// The metadata as JSON; empty if there is none.
    pub(super) metadata: &'a str,
}

impl<'a> TableChunk<'a> {
    /// A chunk as a row of a table. `metadata` are its metadata as JSON.
    pub(super) fn of(chunk: &'a Chunk, metadata: &'a str) -> Self {
        Self {
            document: &chunk.document,
            number: chunk.number,
            span: chunk.span,
            text: &chunk.text,
            searchable: chunk.searchable,
            level: chunk.level,
            parent: chunk.parent,
            previous: chunk.previous,
            next: chunk.next,
            page: chunk.page,
            book: chunk.book.as_deref(),
            heading: chunk.heading.as_deref(),
            space: &chunk.space,
            metadata,
        }
    }

    /// The metadata of its document. Each call reads it anew.
    pub fn metadata(&self) -> Metadata {
        read_metadata(self.metadata)
    }

    /// The value of a field that filters name: `path`, `title`, `page`, `heading`, or one of the metadata.
    pub fn field(&self, name: &str) -> Option<Value> {
        match name {
            "path" => Some(self.document.into()),
            "title" => self.book.map(Value::from),
            "page" => self.page.map(Value::from),
            "heading" => self.heading.map(Value::from),
            _ => self.metadata().remove(name),
        }
    }

    /// A copy that does not borrow from the table.
    pub fn to_chunk(&self) -> Chunk {
        Chunk {
            document: self.document.to_owned(),
            number: self.number,
            span: self.span,
            text: self.text.to_owned(),
            searchable: self.searchable,
            level: self.level,
            parent: self.parent,
            previous: self.previous,
            next: self.next,
            page: self.page,
            book: self.book.map(str::to_owned),
            heading: self.heading.map(str::to_owned),
            metadata: self.metadata(),
            space: Chunk::shared_space(self.space),
        }
    }
}

pub(super) fn read_metadata(json: &str) -> Metadata {
    if json.is_empty() { Metadata::new() } else { serde_json::from_str(json).unwrap_or_default() }
}
