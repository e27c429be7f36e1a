//! `load::document`: what every loader makes of a file.

use super::Format;
use crate::types::{Heading, Metadata, Page};
use serde::{Deserialize, Serialize};
use store::Key;

/// A file's text and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The path below the corpus' root, with `/`: the document's name everywhere.
    pub path: String,
    /// The key of the file's bytes.
    pub content: Key,
    /// What it was parsed as.
    pub format: Format,
    /// The book or page title, else none.
    pub title: Option<String>,
    /// The author, if the file names one.
    pub author: Option<String>,
    /// The extracted text. Markdown, HTML, EPUB and DOCX keep their headings
    /// as Markdown (`# …`).
    pub text: String,
    /// In order, without overlap. Formats without pages have none, and neither
    /// has text before the first page mark.
    pub pages: Vec<Page>,
    /// The parts of the document, in order of their beginnings.
    pub headings: Vec<Heading>,
    /// What else its file and the corpus' table of metadata say.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Document {
    /// The page that holds a byte of the text; white space behind a page
    /// belongs to it.
    pub(crate) fn page_at(&self, byte: usize) -> Option<&Page> {
        let next = self.pages.partition_point(|page| page.span.start <= byte);
        let page = &self.pages[next.checked_sub(1)?];
        let behind = self.text.get(page.span.end..byte).unwrap_or_default();
        (byte < page.span.end || behind.trim().is_empty()).then_some(page)
    }
}
