//! What `chunk` makes.

use super::{ArtifactTable, TableBatch, TableColumns, optional_text, optional_u32};
use crate::Error;
use arrow_array::{BooleanArray, UInt8Array};
use rag::{Chunk, Span};

impl ArtifactTable for Chunk {
    fn columns(rows: &[Self]) -> TableColumns {
        let metadata =
            |chunk: &Self| (!chunk.metadata.is_empty()).then(|| serde_json::to_string(&chunk.metadata).ok())?;
        let metadata: Vec<Option<String>> = rows.iter().map(metadata).collect();
        TableColumns::default()
            .text("document", rows.iter().map(|chunk| chunk.document.as_str()))
            .u32("number", rows.iter().map(|chunk| chunk.number))
            .u64("start", rows.iter().map(|chunk| chunk.span.start as u64))
            .u64("end", rows.iter().map(|chunk| chunk.span.end as u64))
            .text("text", rows.iter().map(|chunk| chunk.text.as_str()))
            .boolean("searchable", rows.iter().map(|chunk| chunk.searchable))
            .u8("level", rows.iter().map(|chunk| chunk.level))
            .optional_u32("parent", rows.iter().map(|chunk| chunk.parent))
            .optional_u32("previous", rows.iter().map(|chunk| chunk.previous))
            .optional_u32("next", rows.iter().map(|chunk| chunk.next))
            .optional_u32("page", rows.iter().map(|chunk| chunk.page))
            .optional_text("book", rows.iter().map(|chunk| chunk.book.as_deref()))
            .optional_text("heading", rows.iter().map(|chunk| chunk.heading.as_deref()))
            .optional_text("metadata", metadata.iter().map(Option::as_deref))
            // The white space after the chunk in its document.
            .text("space", rows.iter().map(|chunk| &*chunk.space))
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (document, number, text) = (batch.text("document")?, batch.u32("number")?, batch.text("text")?);
        let (start, end) = (batch.u64("start")?, batch.u64("end")?);
        let searchable: &BooleanArray = batch.column("searchable")?;
        let level: &UInt8Array = batch.column("level")?;
        let (parent, previous, next) = (batch.u32("parent")?, batch.u32("previous")?, batch.u32("next")?);
        let (page, book, heading) = (batch.u32("page")?, batch.text("book")?, batch.text("heading")?);
        // Tables of older versions have none.
        let metadata = batch.text("metadata").ok();
        let space = batch.text("space").ok();
        let row = |i: usize| Self {
            document: document.value(i).to_owned(),
            number: number.value(i),
            span: Span { start: start.value(i) as usize, end: end.value(i) as usize },
            text: text.value(i).to_owned(),
            searchable: searchable.value(i),
            level: level.value(i),
            parent: optional_u32(parent, i),
            previous: optional_u32(previous, i),
            next: optional_u32(next, i),
            page: optional_u32(page, i),
            book: optional_text(book, i),
            heading: optional_text(heading, i),
            metadata: metadata
                .and_then(|column| optional_text(column, i))
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            space: space.map_or_else(Default::default, |space| Self::shared_space(space.value(i))),
        };
        Ok((0..batch.len()).map(row).collect())
    }
}
