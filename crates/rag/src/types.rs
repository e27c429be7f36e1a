//! The data types of the pipeline. Spans are byte offsets into a document's
//! extracted text, always at character boundaries.

use models::{Finish, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

/// A half-open range of bytes in a document's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// How many bytes two spans share.
    pub fn overlap(self, other: Self) -> usize {
        self.end.min(other.end).saturating_sub(self.start.max(other.start))
    }

    /// The length in bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds nothing.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A page of the file itself: a page of a PDF, the text between page breaks of
/// a word processor, or between page marks of an e-book.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Of a PDF or an office file: counted from 1. Of an e-book: the number
    /// that its page mark says.
    pub number: u32,
    /// Where its text lies in the document.
    pub span: Span,
}

/// The beginning of a part of a document, as the file states it: a heading, a
/// line of a table of contents, a bookmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// The first byte of the part, its title included.
    pub start: usize,
    /// Its level, from 1. It ends earlier parts of the same or a deeper level.
    pub level: u32,
    /// Its title; empty if a part ends but the beginning of the next part is not known.
    pub title: String,
}

/// A table in a document's text: a line of Markdown for each row, and a line of dashes below the first one. A cell that
/// covers several places stands in each of them, so that every row can be read by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Where its lines lie in the document's text.
    pub span: Span,
    /// The page on which it begins, if the document has pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The number of its rows, headers included.
    pub rows: u32,
    /// The number of its columns.
    pub columns: u32,
    /// How many of its first rows are headers.
    pub header_rows: u32,
    /// The cells that cover several places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedCells>,
    /// What is wrong with it, as far as a check can tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<TableFault>,
}

/// The places of a table that one cell covers. Rows and columns are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedCells {
    /// Its first row.
    pub row: u32,
    /// Its first column.
    pub column: u32,
    /// How many rows it covers.
    pub rows: u32,
    /// How many columns it covers.
    pub columns: u32,
}

/// What can be wrong with a table that was read from a picture of it, such as a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableFault {
    /// Two cells overlap on the page.
    Overlap,
    /// A row has only one cell, which is not its first one, and the row above has several.
    UnevenRows,
    /// Text inside the table's borders is in none of its cells.
    LostText,
}

impl TableFault {
    /// What is wrong, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Overlap => "cells overlap",
            Self::UnevenRows => "a row has a single cell, which is not its first",
            Self::LostText => "a text inside it is in no cell",
        }
    }
}

impl Table {
    /// The same table so many bytes further on.
    pub(crate) fn moved(self, bytes: usize) -> Self {
        let span = Span { start: self.span.start + bytes, end: self.span.end + bytes };
        Self { span, ..self }
    }

    /// The lines of its rows in the document's text, the line of dashes left out.
    pub fn row_spans(&self, text: &str) -> Vec<Span> {
        let lines = text.get(self.span.start..self.span.end).unwrap_or_default();
        let mut start = self.span.start;
        let mut spans = Vec::with_capacity(self.rows as usize);
        for (number, line) in lines.split_inclusive('\n').enumerate() {
            // The second line is the line of dashes.
            if number != 1 {
                spans.push(Span { start, end: start + line.trim_end().len() });
            }
            start += line.len();
        }
        spans
    }

    /// The lines of its header rows, with the line of dashes; none if it has no header.
    pub fn header_span(&self, text: &str) -> Option<Span> {
        let lines = text.get(self.span.start..self.span.end)?;
        // The line of dashes is the second one.
        let last = (self.header_rows as usize).checked_sub(1)?.max(1);
        let lines = lines.split_inclusive('\n').take(if self.header_rows > 1 { last + 2 } else { last + 1 });
        let length: usize = lines.map(str::len).sum();
        Some(Span { start: self.span.start, end: self.span.start + length })
    }

    /// The texts of its cells, row by row, the headers first.
    pub fn cells(&self, text: &str) -> Vec<Vec<String>> {
        self.row_spans(text).into_iter().map(|row| cells_of_line(&text[row.start..row.end])).collect()
    }
}

/// The cells of a row. The marks of a quote and spaces before it are no cell.
fn cells_of_line(line: &str) -> Vec<String> {
    let line = line.trim_start_matches(['>', ' ']);
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut characters = line.strip_prefix('|').unwrap_or(line).chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.next_if_eq(&'|').is_some() => cell.push('|'),
            '|' => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            other => cell.push(other),
        }
    }
    if !cell.trim().is_empty() {
        // A row need not end with a bar.
        cells.push(cell.trim().to_owned());
    }
    cells
}

/// Something that was read badly or not at all, so that the text may lack it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingProblem {
    /// What it is.
    pub kind: ReadingProblemKind,
    /// The page, if it is on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// What exactly, in a few words.
    pub detail: String,
}

/// What can go wrong when a document is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadingProblemKind {
    /// A page has no text, and may be a picture of a text.
    NoText,
    /// A text was read from a picture, and much of it is unsure.
    LowConfidence,
    /// A table does not fit together.
    BrokenTable,
    /// Bytes that mean no character stand as `\u{fffd}`.
    ReplacedCharacters,
    /// Nothing tells the encoding of the text, so it was guessed.
    GuessedEncoding,
    /// A font does not say which letters its pictures are.
    UnmappedFont,
    /// A part of the file, such as an attachment, was not read.
    UnreadPart,
    /// The parts that the program which made the file does not show, such as hidden sheets. They were read.
    HiddenPart,
}

/// What is known of a document beside its text, by field: texts, numbers,
/// true or false, or lists of these.
pub type Metadata = BTreeMap<String, Value>;

/// A piece of a document.
///
/// Chunks of one document are numbered in the order that the chunker gives
/// them; `parent`, `previous` and `next` are such numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The document's path.
    pub document: String,
    /// The number within its document.
    pub number: u32,
    /// Where it lies in the document's text.
    pub span: Span,
    /// The document's text at the span.
    pub text: String,
    /// Whether it is embedded and searched. Parents of a hierarchy are not.
    pub searchable: bool,
    /// The level in a hierarchy: 0 is the largest. 0 for flat chunkers.
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
    pub book: Option<String>,
    /// The headings above its text, outermost first, joined by ` > `. If it
    /// holds text of several sections, the last part names all of them: `A > B;
    /// C`.
    pub heading: Option<String>,
    /// The metadata of its document, with its `author`.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// The white space that follows it in its document, which no chunk holds.
    /// Chunkers leave it empty; [`Chunk::take_space`] fills it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub space: Cow<'static, str>,
}

impl Chunk {
    /// Takes the white space that follows it from the text of its document.
    pub fn take_space(&mut self, document: &str) {
        let rest = document.get(self.span.end..).unwrap_or_default();
        let space = &rest[..rest.len() - rest.trim_start().len()];
        self.space = Self::shared_space(space);
    }

    /// White space as [`Chunk::space`] holds it: common kinds take no memory.
    pub fn shared_space(space: &str) -> Cow<'static, str> {
        const USUAL: [&str; 5] = ["", " ", "\n", "\n\n", "\r\n"];
        let usual = USUAL.into_iter().find(|usual| *usual == space);
        usual.map_or_else(|| Cow::Owned(space.to_owned()), Cow::Borrowed)
    }
}

/// A chunk that a retriever found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The chunk's row in the [`ChunkTable`](crate::ChunkTable).
    pub row: u32,
    /// Higher is better; the scale is the retriever's own.
    pub score: f32,
}

/// Retrieved text as it is shown to a model and to a person.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The document's path.
    pub document: String,
    /// Where the text lies in the document's text.
    pub span: Span,
    /// The text.
    pub text: String,
    /// Higher is better; the scale is that of the last stage that ranked.
    pub score: f32,
    /// The page on which it starts.
    pub page: Option<u32>,
    /// The document's title.
    pub book: Option<String>,
    /// The headings above its text, as those of a [`Chunk`].
    pub heading: Option<String>,
    /// The rows of the retrieved chunks that it stands for, best first.
    pub rows: Vec<u32>,
    /// The spans of the document that the text holds, in order and with gaps
    /// between them; empty if it holds all of `span`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Span>,
}

impl Passage {
    /// A text that was not retrieved, as a passage.
    pub fn of_text(name: String, text: String) -> Self {
        let span = Span { start: 0, end: text.len() };
        let (page, book, heading, rows, parts) = (None, None, None, Vec::new(), Vec::new());
        Self { document: name, span, text, score: 0.0, page, book, heading, rows, parts }
    }

    /// Where the text lies in the document's text, stretch by stretch.
    pub fn spans(&self) -> &[Span] {
        if self.parts.is_empty() { std::slice::from_ref(&self.span) } else { &self.parts }
    }

    /// Whether both hold the same stretches of the same document.
    pub(crate) fn is_same_text(&self, other: &Self) -> bool {
        self.document == other.document && self.spans() == other.spans()
    }
}

/// The answer of a generator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The text, with citations such as `[1]`.
    pub text: String,
    /// The numbers cited, each at most once, in order of appearance; 1 is the first passage.
    pub citations: Vec<u32>,
    /// Passages that were left out because the context budget was spent.
    pub dropped_passages: u32,
    /// Calls to the model.
    pub calls: u32,
    /// Tokens over all calls.
    pub usage: Usage,
    /// Time over all calls, in seconds.
    pub seconds: f64,
    /// Why the call that wrote the text ended; not written where the text is complete.
    #[serde(default, skip_serializing_if = "Finish::is_stop")]
    pub finish: Finish,
}
