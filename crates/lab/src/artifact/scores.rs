//! What `score` makes: a value or a typed reason per question.

use super::{ArtifactTable, TableBatch, TableColumns, json};
use crate::Error;
use arrow_array::Array;
use eval::{Missing, Score, Scored};

/// One metric's score of one question.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRow {
    /// The question's id.
    pub question: String,
    /// The score and how it came about.
    pub scored: Scored,
}

impl ArtifactTable for ScoreRow {
    fn columns(rows: &[Self]) -> TableColumns {
        let missing = |row: &Self| match &row.scored.score {
            Score::Value(_) => None,
            Score::Missing(missing) => Some(missing.clone()),
        };
        TableColumns::default()
            .text("question", rows.iter().map(|row| row.question.as_str()))
            .optional_f64("value", rows.iter().map(|row| row.scored.score.value()))
            .json("missing", rows.iter().map(missing))
            .json("detail", rows.iter().map(|row| &row.scored.detail))
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (question, value) = (batch.text("question")?, batch.f64("value")?);
        let (missing, detail) = (batch.text("missing")?, batch.text("detail")?);
        (0..batch.len())
            .map(|i| {
                let score = match json::<Option<Missing>>(missing, i)? {
                    Some(missing) => Score::Missing(missing),
                    None if value.is_null(i) => return Err(Error::table("a score with neither value nor reason")),
                    None => Score::finite(value.value(i)),
                };
                Ok(Self { question: question.value(i).to_owned(), scored: Scored { score, detail: json(detail, i)? } })
            })
            .collect()
    }
}
