//! What `query` makes: what is searched for each question.

use super::{Batch, Columns, Table};
use crate::Error;

/// One query of one question.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRow {
    /// The question's id.
    pub question: String,
    /// Counted from 1.
    pub number: u32,
    /// The query.
    pub text: String,
}

impl Table for QueryRow {
    fn columns(rows: &[Self]) -> Columns {
        Columns::default()
            .text("question", rows.iter().map(|row| row.question.as_str()))
            .u32("number", rows.iter().map(|row| row.number))
            .text("text", rows.iter().map(|row| row.text.as_str()))
    }

    fn rows(batch: &Batch<'_>) -> Result<Vec<Self>, Error> {
        let (question, number, text) = (batch.text("question")?, batch.u32("number")?, batch.text("text")?);
        let row = |i: usize| Self {
            question: question.value(i).to_owned(),
            number: number.value(i),
            text: text.value(i).to_owned(),
        };
        Ok((0..batch.len()).map(row).collect())
    }
}
