//! The failure of a user's function: a kind of its own, apart from failures of
//! models and providers.

use serde::{Deserialize, Serialize};

/// How it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It raised, or its file cannot be run.
    Raised,
    /// It did not return within its time limit.
    TimedOut,
    /// Its interpreter ended, or could not be started.
    Ended,
    /// It returned something that cannot be used.
    #[serde(rename = "returned")]
    BadReturnValue,
}

/// A failure of a user's function, with everything that its author needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the function `{function}`{}: {message}", if file.is_empty() { String::new() } else { format!(" of {file}") })]
pub struct Failure {
    /// What it is in the experiment: `chunker`, `retriever`, `reranker`,
    /// `generator` or `metric`; of a function that stands for a model: `judge`
    /// or `writer`; of a whole pipeline: `system`.
    pub stage: String,
    /// Its name.
    pub function: String,
    /// The file that it is from; empty where the experiment holds its source.
    pub file: String,
    /// How it failed.
    pub kind: FailureKind,
    /// What happened, in a line.
    pub message: String,
    /// Python's traceback, if it raised.
    #[serde(default)]
    pub traceback: Option<String>,
}

impl Failure {
    /// The failure of a function that stands for the model in the role `judge` or
    /// `writer`.
    pub fn of_model(part: &str, failed: models::FunctionError) -> Self {
        let models::FunctionError { function, file, message, traceback, .. } = failed;
        let kind = if traceback.is_some() { FailureKind::Raised } else { FailureKind::BadReturnValue };
        Self { stage: part.to_owned(), function, file, kind, message, traceback }
    }
}
