//! What `load` makes: documents, and the files that gave none.

use super::{ArtifactTable, TableBatch, TableColumns, json, optional_text};
use crate::Error;
use rag::{Document, load::Rejected};

/// A file of the corpus: its document, or why it gave none.
#[derive(Debug, Clone, PartialEq)]
pub enum DocumentRow {
    /// The file was read.
    Document(Document),
    /// The file gave no document.
    Rejected(Rejected),
}

impl DocumentRow {
    fn document(&self) -> Option<&Document> {
        match self {
            Self::Document(document) => Some(document),
            Self::Rejected(_) => None,
        }
    }

    pub(crate) fn into_document(self) -> Option<Document> {
        match self {
            Self::Document(document) => Some(document),
            Self::Rejected(_) => None,
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Document(document) => &document.path,
            Self::Rejected(rejected) => &rejected.path,
        }
    }
}

impl ArtifactTable for DocumentRow {
    fn columns(rows: &[Self]) -> TableColumns {
        let documents = || rows.iter().map(Self::document);
        let content: Vec<_> = documents().map(|document| document.map(|document| document.content.hex())).collect();
        TableColumns::default()
            .text("path", rows.iter().map(Self::path))
            .optional_text("content", content.iter().map(Option::as_deref))
            .json("format", documents().map(|document| document.map(|document| document.format)))
            .optional_text("title", documents().map(|document| document?.title.as_deref()))
            .optional_text("author", documents().map(|document| document?.author.as_deref()))
            .optional_text("text", documents().map(|document| Some(document?.text.as_str())))
            .json("pages", documents().map(|document| document.map(|document| &document.pages)))
            .json("headings", documents().map(|document| document.map(|document| &document.headings)))
            .json("metadata", documents().map(|document| document.map(|document| &document.metadata)))
            .json("tables", documents().map(|document| document.map(|document| &document.tables)))
            .json("problems", documents().map(|document| document.map(|document| &document.problems)))
            .json(
                "rejected",
                rows.iter().map(|row| match row {
                    Self::Document(_) => None,
                    Self::Rejected(rejected) => Some(&rejected.reason),
                }),
            )
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (path, content, format) = (batch.text("path")?, batch.text("content")?, batch.text("format")?);
        let (title, author, text) = (batch.text("title")?, batch.text("author")?, batch.text("text")?);
        let (pages, headings, rejected) = (batch.text("pages")?, batch.text("headings")?, batch.text("rejected")?);
        // Tables of older versions have none.
        let metadata = batch.text("metadata").ok();
        let (tables, problems) = (batch.text("tables").ok(), batch.text("problems").ok());
        (0..batch.len())
            .map(|i| {
                let path = path.value(i).to_owned();
                if let Some(reason) = json::<Option<_>>(rejected, i)? {
                    return Ok(Self::Rejected(Rejected { path, reason }));
                }
                let content = optional_text(content, i).and_then(|hex| store::Key::from_hex(&hex));
                Ok(Self::Document(Document {
                    content: content.ok_or_else(|| Error::table(format!("{path}: no content key")))?,
                    path,
                    format: json(format, i)?,
                    title: optional_text(title, i),
                    author: optional_text(author, i),
                    text: text.value(i).to_owned(),
                    pages: json(pages, i)?,
                    headings: json(headings, i)?,
                    metadata: metadata.map_or(Ok(None), |column| json(column, i))?.unwrap_or_default(),
                    tables: tables.map_or(Ok(None), |column| json(column, i))?.unwrap_or_default(),
                    problems: problems.map_or(Ok(None), |column| json(column, i))?.unwrap_or_default(),
                }))
            })
            .collect()
    }
}
