//! What `generate` makes: an answer per question, or why there is none.

use super::{ArtifactTable, TableBatch, TableColumns, json, optional_text};
use crate::Error;
use models::{Finish, Usage};
use rag::{Answer, python::Failure};
use serde::{Deserialize, Serialize};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoAnswer {
    /// What happened, for people.
    pub reason: String,
    /// The user's function that failed, if that is why.
    pub function: Option<Box<Failure>>,
    /// Whether the model was not asked because the budget was reached.
    pub budget: bool,
}

/// The reason for a question to which answers that exist already have none.
const ABSENT: &str = "the file has no answer to this question";

impl NoAnswer {
    /// The reason that an error gives.
    pub(crate) fn of(error: &Error) -> Self {
        let function = match crate::model_error(error) {
            Some(models::Error::Function(failed)) => Some(Failure::of_model("system", (**failed).clone())),
            _ => crate::failed_function(error).cloned(),
        };
        let budget = matches!(crate::model_error(error), Some(models::Error::BudgetExhausted { .. }));
        Self { reason: crate::error_chain(error), function: function.map(Box::new), budget }
    }

    /// The reason for a question to which answers that exist already have none.
    pub(crate) fn absent() -> Self {
        Self { reason: ABSENT.to_owned(), function: None, budget: false }
    }

    /// Why the scores that need the answer are missing.
    pub fn missing(&self) -> eval::Missing {
        match &self.function {
            Some(failure) => eval::Missing::FunctionError(failure.clone()),
            None if self.reason == ABSENT => eval::Missing::NotAnswered(self.reason.clone()),
            None if self.budget => eval::Missing::Budget(self.reason.clone()),
            None => eval::Missing::ProviderError(self.reason.clone()),
        }
    }
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRow {
    /// The question's id.
    pub question: String,
    /// The answer, or why there is none.
    pub answer: Result<Answer, NoAnswer>,
}

impl ArtifactTable for AnswerRow {
    fn columns(rows: &[Self]) -> TableColumns {
        let answers = || rows.iter().map(|row| row.answer.as_ref().ok());
        let errors = || rows.iter().map(|row| row.answer.as_ref().err());
        let count = |of: fn(&Answer) -> u64| answers().map(move |answer| answer.map_or(0, of));
        TableColumns::default()
            .text("question", rows.iter().map(|row| row.question.as_str()))
            .optional_text("text", answers().map(|answer| Some(answer?.text.as_str())))
            .json("citations", answers().map(|answer| answer.map_or(&[][..], |answer| &answer.citations)))
            .u64("dropped_passages", count(|answer| answer.dropped_passages.into()))
            .u64("calls", count(|answer| answer.calls.into()))
            .u64("prompt_tokens", count(|answer| answer.usage.prompt_tokens))
            .u64("cached_tokens", count(|answer| answer.usage.cached_tokens))
            .u64("completion_tokens", count(|answer| answer.usage.completion_tokens))
            .f64("seconds", answers().map(|answer| answer.map_or(0.0, |answer| answer.seconds)))
            .optional_text("error", errors().map(|error| error.map(|error| error.reason.as_str())))
            .optional_text("finish", answers().map(|answer| Some(answer?.finish.name())))
            .u64("budget", errors().map(|error| error.is_some_and(|error| error.budget).into()))
            .json("function_error", errors().map(|error| error.and_then(|error| error.function.as_ref())))
    }

    fn rows(batch: &TableBatch<'_>) -> Result<Vec<Self>, Error> {
        let (question, text, citations) = (batch.text("question")?, batch.text("text")?, batch.text("citations")?);
        let (dropped, calls, seconds) = (batch.u64("dropped_passages")?, batch.u64("calls")?, batch.f64("seconds")?);
        let (prompt, cached) = (batch.u64("prompt_tokens")?, batch.u64("cached_tokens")?);
        let (completion, error) = (batch.u64("completion_tokens")?, batch.text("error")?);
        // Tables of earlier versions have none.
        let function = batch.text("function_error").ok();
        let budget = batch.u64("budget").ok();
        let finish = batch.text("finish").ok();
        (0..batch.len())
            .map(|i| {
                let answer = match optional_text(error, i) {
                    Some(reason) => Err(NoAnswer {
                        reason,
                        function: function.map_or(Ok(None), |function| json(function, i))?,
                        budget: budget.is_some_and(|budget| budget.value(i) > 0),
                    }),
                    None => Ok(Answer {
                        text: text.value(i).to_owned(),
                        citations: json(citations, i)?,
                        dropped_passages: u32::try_from(dropped.value(i)).unwrap_or(u32::MAX),
                        calls: u32::try_from(calls.value(i)).unwrap_or(u32::MAX),
                        usage: Usage {
                            prompt_tokens: prompt.value(i),
                            cached_tokens: cached.value(i),
                            completion_tokens: completion.value(i),
                            ..Usage::default()
                        },
                        seconds: seconds.value(i),
                        finish: finish.and_then(|finish| finish_of(&optional_text(finish, i)?)).unwrap_or_default(),
                    }),
                };
                Ok(Self { question: question.value(i).to_owned(), answer })
            })
            .collect()
    }
}

fn finish_of(name: &str) -> Option<Finish> {
    [Finish::Stop, Finish::Length, Finish::ContentFilter].into_iter().find(|finish| finish.name() == name)
}
