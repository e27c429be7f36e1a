//! What `retrieve` and `rerank` make: passages per question, best first.

use super::{ArtifactTable, TableBatch, TableColumns, json, optional_text, optional_u32};
use crate::Error;
use arrow_array::{Array, StringArray};
use rag::{Passage, Span};

/// One passage of one question, or the remarks on a question without passages.
#[derive(Debug, Clone, PartialEq)]
pub struct PassageRow {
    /// The question's id.
    pub question: String,
    /// Counted from 1; 0 if the question has no passages.
    pub rank: u32,
    /// The passage, if there is one.
    pub passage: Option<Passage>,
    /// What the stage did for this question that its passages do not show;
    /// stands in the question's first row.
    pub remarks: Vec<String>,
}

impl ArtifactTable for PassageRow {
    fn columns(rows: &[Self]) -> TableColumns {
        let nothing = Passage::of_text(String::new(), String::new());
        let passages = || rows.iter().map(|row| row.passage.as_ref().unwrap_or(&nothing));
        TableColumns::default()
            .text("question", rows.iter().map(|row| row.question.as_str()))
            .u32("rank", rows.iter().map(|row| row.rank))
            .text("document", passages().map(|passage| passage.document.as_str()))
            .u64("start", passages().map(|passage| passage.span.start as u64))
            .u64("end", passages().map(|passage| passage.span.end as u64))
            .text("text", passages().map(|passage| passage.text.as_str()))
            .f64("score", passages().map(|passage| f64::from(passage.score)))
            .optional_u32("page", passages().map(|passage| passage.page))
            .optional_text("book", passages().map(|passage| passage.book.as_deref()))
            .optional_text("heading", passages().map(|passage| passage.heading.as_deref()))
            .json("rows", passages().map(|passage| &passage.rows))
            .optional_json("parts", passages().map(|passage| Some(&passage.parts).filter(|parts| !parts.is_empty())))
            .optional_json("remarks", rows.iter().map(|row| Some(&row.remarks).filter(|remarks| !remarks.is_empty())))
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (question, rank, document) = (batch.text("question")?, batch.u32("rank")?, batch.text("document")?);
        let (start, end, text) = (batch.u64("start")?, batch.u64("end")?, batch.text("text")?);
        let (score, page, book) = (batch.f64("score")?, batch.u32("page")?, batch.text("book")?);
        let (heading, rows) = (batch.text("heading")?, batch.text("rows")?);
        // Tables of older versions do not have it.
        let (parts, remarks) = (batch.text("parts").ok(), batch.text("remarks").ok());
        (0..batch.len())
            .map(|i| {
                let passage = Passage {
                    document: document.value(i).to_owned(),
                    span: Span { start: start.value(i) as usize, end: end.value(i) as usize },
                    text: text.value(i).to_owned(),
                    score: score.value(i) as f32,
                    page: optional_u32(page, i),
                    book: optional_text(book, i),
                    heading: optional_text(heading, i),
                    rows: json(rows, i)?,
                    parts: list(parts, i)?,
                };
                let (question, rank) = (question.value(i).to_owned(), rank.value(i));
                let passage = Some(passage).filter(|_| rank > 0);
                Ok(Self { question, rank, passage, remarks: list(remarks, i)? })
            })
            .collect()
    }
}

/// A list, where there is one.
fn list<T: serde::de::DeserializeOwned>(column: Option<&StringArray>, i: usize) -> Result<Vec<T>, Error> {
    column.filter(|column| !column.is_null(i)).map_or(Ok(Vec::new()), |column| json(column, i))
}
