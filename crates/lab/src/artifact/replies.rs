//! What `ask` makes: what a system replied to each question. The columns of answers are those of [`AnswerRow`], so that
//! a reader of answers reads this table too.

use super::{AnswerRow, ArtifactTable, TableBatch, TableColumns, json, optional_text};
use crate::Error;
use arrow_array::Array;
use rag::system::ReplyPassage;

/// A system's reply to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyRow {
    /// The answer, or why there is no reply. The answer of a system that returns passages alone is empty.
    pub answer: AnswerRow,
    /// The passages, best first; none if the reply has no passages, which is another thing than finding nothing.
    pub passages: Option<Vec<ReplyPassage>>,
    /// Whether the reply says how many tokens it took. If not, the tokens of the answer are unknown.
    pub states_tokens: bool,
    /// The dollars that the reply says it cost.
    pub cost_usd: Option<f64>,
    /// The id under which the system's own tracing knows the reply.
    pub trace: Option<String>,
    /// The version that the reply names.
    pub version: Option<String>,
}

impl ArtifactTable for ReplyRow {
    fn columns(rows: &[Self]) -> TableColumns {
        let answers: Vec<AnswerRow> = rows.iter().map(|row| row.answer.clone()).collect();
        AnswerRow::columns(&answers)
            .optional_json("passages", rows.iter().map(|row| row.passages.as_ref()))
            .u64("states_tokens", rows.iter().map(|row| row.states_tokens.into()))
            .optional_f64("cost_usd", rows.iter().map(|row| row.cost_usd))
            .optional_text("trace", rows.iter().map(|row| row.trace.as_deref()))
            .optional_text("version", rows.iter().map(|row| row.version.as_deref()))
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (passages, states_tokens) = (batch.text("passages")?, batch.u64("states_tokens")?);
        let (cost_usd, trace, version) = (batch.f64("cost_usd")?, batch.text("trace")?, batch.text("version")?);
        let row = |(i, answer)| {
            Ok(Self {
                answer,
                passages: (!passages.is_null(i)).then(|| json(passages, i)).transpose()?,
                states_tokens: states_tokens.value(i) > 0,
                cost_usd: (!cost_usd.is_null(i)).then(|| cost_usd.value(i)),
                trace: optional_text(trace, i),
                version: optional_text(version, i),
            })
        };
        AnswerRow::rows(batch)?.into_iter().enumerate().map(row).collect()
    }
}
