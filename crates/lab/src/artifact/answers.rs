//! What `generate` makes: an answer per question, or why there is none.

use super::{Batch, Columns, Table, json, optional_text};
use crate::Error;
use models::Usage;
use rag::Answer;

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRow {
    /// The question's id.
    pub question: String,
    /// The answer, or the provider's error.
    pub answer: Result<Answer, String>,
}

impl Table for AnswerRow {
    fn columns(rows: &[Self]) -> Columns {
        let answers = || rows.iter().map(|row| row.answer.as_ref().ok());
        let count = |of: fn(&Answer) -> u64| answers().map(move |answer| answer.map_or(0, of));
        Columns::default()
            .text("question", rows.iter().map(|row| row.question.as_str()))
            .optional_text("text", answers().map(|answer| Some(answer?.text.as_str())))
            .json("citations", answers().map(|answer| answer.map_or(&[][..], |answer| &answer.citations)))
            .u64("dropped_passages", count(|answer| answer.dropped_passages.into()))
            .u64("calls", count(|answer| answer.calls.into()))
            .u64("prompt_tokens", count(|answer| answer.usage.prompt_tokens))
            .u64("cached_tokens", count(|answer| answer.usage.cached_tokens))
            .u64("completion_tokens", count(|answer| answer.usage.completion_tokens))
            .f64("seconds", answers().map(|answer| answer.map_or(0.0, |answer| answer.seconds)))
            .optional_text("error", rows.iter().map(|row| row.answer.as_ref().err().map(String::as_str)))
    }

    fn rows(batch: &Batch<'_>) -> Result<Vec<Self>, Error> {
        let (question, text, citations) = (batch.text("question")?, batch.text("text")?, batch.text("citations")?);
        let (dropped, calls, seconds) = (batch.u64("dropped_passages")?, batch.u64("calls")?, batch.f64("seconds")?);
        let (prompt, cached) = (batch.u64("prompt_tokens")?, batch.u64("cached_tokens")?);
        let (completion, error) = (batch.u64("completion_tokens")?, batch.text("error")?);
        (0..batch.len())
            .map(|i| {
                let answer = match optional_text(error, i) {
                    Some(error) => Err(error),
                    None => Ok(Answer {
                        text: text.value(i).to_owned(),
                        citations: json(citations, i)?,
                        dropped_passages: u32::try_from(dropped.value(i)).unwrap_or(u32::MAX),
                        calls: u32::try_from(calls.value(i)).unwrap_or(u32::MAX),
                        usage: Usage {
                            prompt_tokens: prompt.value(i),
                            cached_tokens: cached.value(i),
                            completion_tokens: completion.value(i),
                        },
                        seconds: seconds.value(i),
                    }),
                };
                Ok(Self { question: question.value(i).to_owned(), answer })
            })
            .collect()
    }
}
