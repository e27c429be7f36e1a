//! What `enrich` makes: what is searched in place of each searchable chunk's text.

use super::{ArtifactTable, TableBatch, TableColumns, optional_text};
use crate::Error;
use rag::Chunk;

/// What is searched in place of one chunk's text.
#[derive(Debug, Clone, PartialEq)]
pub struct EnrichedRow {
    /// The document's path.
    pub document: String,
    /// The chunk's number within it.
    pub number: u32,
    /// What is searched.
    pub text: String,
    /// Why it holds only the chunk's text, if more should have been written.
    pub fallback: Option<String>,
}

impl ArtifactTable for EnrichedRow {
    fn columns(rows: &[Self]) -> TableColumns {
        TableColumns::default()
            .text("document", rows.iter().map(|row| row.document.as_str()))
            .u32("number", rows.iter().map(|row| row.number))
            .text("text", rows.iter().map(|row| row.text.as_str()))
            .optional_text("fallback", rows.iter().map(|row| row.fallback.as_deref()))
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (document, number) = (batch.text("document")?, batch.u32("number")?);
        let (text, fallback) = (batch.text("text")?, batch.text("fallback")?);
        let row = |i: usize| Self {
            document: document.value(i).to_owned(),
            number: number.value(i),
            text: text.value(i).to_owned(),
            fallback: optional_text(fallback, i),
        };
        Ok((0..batch.len()).map(row).collect())
    }
}

/// A searchable chunk with this text.
impl From<EnrichedRow> for Chunk {
    fn from(row: EnrichedRow) -> Self {
        let EnrichedRow { document, number, text, fallback: _ } = row;
        Self { document, number, text, searchable: true, ..Self::default() }
    }
}
