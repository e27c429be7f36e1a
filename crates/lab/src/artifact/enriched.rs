//! What `enrich` makes: what is searched in place of each searchable chunk's text.

use super::{Batch, Columns, Table, optional_text};
use crate::Error;
use rag::enrich::Enriched;

/// What is searched in place of one chunk's text.
#[derive(Debug, Clone, PartialEq)]
pub struct EnrichedRow {
    /// The document's path.
    pub document: String,
    /// The chunk's number within it.
    pub number: u32,
    /// What is searched.
    pub enriched: Enriched,
}

impl Table for EnrichedRow {
    fn columns(rows: &[Self]) -> Columns {
        Columns::default()
            .text("document", rows.iter().map(|row| row.document.as_str()))
            .u32("number", rows.iter().map(|row| row.number))
            .text("text", rows.iter().map(|row| row.enriched.text.as_str()))
            .optional_text("failed", rows.iter().map(|row| row.enriched.failed.as_deref()))
    }

    fn rows(batch: &Batch<'_>) -> Result<Vec<Self>, Error> {
        let (document, number) = (batch.text("document")?, batch.u32("number")?);
        let (text, failed) = (batch.text("text")?, batch.text("failed")?);
        let row = |i: usize| Self {
            document: document.value(i).to_owned(),
            number: number.value(i),
            enriched: Enriched { text: text.value(i).to_owned(), failed: optional_text(failed, i) },
        };
        Ok((0..batch.len()).map(row).collect())
    }
}
