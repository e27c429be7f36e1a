//! What `query` makes: what is searched for each question.

use super::{ArtifactTable, TableBatch, TableColumns, json, optional_text};
use crate::Error;
use rag::query::SearchQuery;

/// One search for one question.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRow {
    /// The question's id.
    pub question: String,
    /// Counted from 1.
    pub number: u32,
    /// What is searched.
    pub query: SearchQuery,
    /// Why the query component failed or wrote less than it should: the question is searched as it
    /// was asked, or with fewer queries.
    pub fallback: Option<String>,
}

impl ArtifactTable for QueryRow {
    fn columns(rows: &[Self]) -> TableColumns {
        TableColumns::default()
            .text("question", rows.iter().map(|row| row.question.as_str()))
            .u32("number", rows.iter().map(|row| row.number))
            .text("words", rows.iter().map(|row| row.query.words.as_str()))
            .text("text", rows.iter().map(|row| row.query.text.as_str()))
            .json("passages", rows.iter().map(|row| &row.query.hypothetical_passages))
            .json("filter", rows.iter().map(|row| &row.query.filter))
            .optional_text("fallback", rows.iter().map(|row| row.fallback.as_deref()))
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (question, number) = (batch.text("question")?, batch.u32("number")?);
        let (words, text, passages) = (batch.text("words")?, batch.text("text")?, batch.text("passages")?);
        let (fallback, filter) = (batch.text("fallback")?, batch.text("filter")?);
        let row = |i: usize| {
            Ok(Self {
                question: question.value(i).to_owned(),
                number: number.value(i),
                query: SearchQuery {
                    words: words.value(i).to_owned(),
                    text: text.value(i).to_owned(),
                    hypothetical_passages: json(passages, i)?,
                    filter: json(filter, i)?,
                },
                fallback: optional_text(fallback, i),
            })
        };
        (0..batch.len()).map(row).collect()
    }
}
