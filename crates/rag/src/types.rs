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
