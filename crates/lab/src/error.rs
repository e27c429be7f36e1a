//! The crate's error, and how to find errors of lower crates in it.

use std::{fmt::Display, io, path::Path};

/// Why an experiment cannot run or go on. Finished work is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Mistakes found before any work or money was spent, all of them.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A file outside the store failed.
    #[error("{operation} {path} failed")]
    File {
        /// The operation as a verb, such as `read`.
        operation: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A model failed.
    #[error(transparent)]
    Model(#[from] models::Error),
    /// A stage failed.
    #[error(transparent)]
    Stage(#[from] rag::Error),
    /// A metric cannot work.
    #[error(transparent)]
    Metric(#[from] eval::metric::Error),
    /// A table of the store cannot be read or written.
    #[error("a table of the store cannot be used: {0}")]
    Table(String),
    /// A task failed, so that what depends on it could not run.
    #[error("{label} failed: {reason}")]
    Task {
        /// The task.
        label: String,
        /// Why.
        reason: String,
    },
    /// A worker could not do a task, or another part of a trial sent no answer.
    #[error("{0}")]
    Remote(String),
    /// A user's function failed, in a worker or as a model.
    #[error("{reason}")]
    Function {
        /// What happened, in words.
        reason: String,
        /// The function and what it did.
        failure: Box<rag::python::Failure>,
    },
    /// Generation wrote no usable golden question.
    #[error("{}", no_question(.model, .generated))]
    NoQuestions {
        /// The model that was asked to write.
        model: String,
        /// What was rejected, and why.
        generated: Box<eval::GeneratedQuestions>,
    },
    /// A worker could not store its output, so the run ends on all workers.
    #[error("{0}")]
    OutputNotStored(String),
    /// Paid answers could not be stored.
    #[error("{answers} paid answers could not be kept, and the next run pays for them again")]
    AnswersNotStored {
        /// How many.
        answers: usize,
        /// Why.
        #[source]
        source: Box<Self>,
    },
    /// The run was interrupted; the next run resumes it.
    #[error("interrupted: everything finished so far is kept, and the next `run` goes on from there")]
    Interrupted,
    /// A person has changed the plan of the run, which goes on as another one ([`crate::Session::continued`]).
    #[error("its plan was changed: the run goes on as {0}")]
    Continued(String),
    /// Something that was asked for by name does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The experiment has no finished run.
    #[error("`{experiment}` has no {what} in {place}")]
    NoRun {
        /// The experiment's name.
        experiment: String,
        /// What is looked for: a run, or a finished one.
        what: &'static str,
        /// The store, or a folder of it.
        place: String,
    },
    /// A run, trial, bundle or file cannot be used as asked.
    #[error("{0}")]
    Unusable(String),
    /// There are too few scores for an estimate.
    #[error("only {scored} of {asked} questions have all their scores: at least two are needed")]
    TooFewScores {
        /// Questions with all their scores.
        scored: usize,
        /// Questions that were asked.
        asked: usize,
    },
    /// A tracker's server does not have all of a run.
    #[error("{place} does not have all of the run {run}: {reason}")]
    TrackerIncomplete {
        /// The tracker's server.
        place: String,
        /// The run.
        run: String,
        /// Why the rest is missing.
        reason: String,
    },
}

impl Error {
    pub(crate) fn table(reason: impl Display) -> Self {
        Self::Table(reason.to_string())
    }

    /// The failure of a file. If there is no space left, it says so.
    pub(crate) fn file(operation: &'static str, path: &Path, source: io::Error) -> Self {
        match store::Error::file(operation, path, source) {
            store::Error::File { operation, path, source } => Self::File { operation, path, source },
            other => other.into(),
        }
    }

    /// The content of a file that may be missing; none if it is.
    pub(crate) fn allow_missing<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>, Self> {
        match read {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Self::file("read", path, source)),
        }
    }

    /// Fails with these mistakes, if there are any.
    pub(crate) fn refuse(mistakes: Vec<String>) -> Result<(), Self> {
        if mistakes.is_empty() { Ok(()) } else { Err(Self::Refused(mistakes)) }
    }
}

/// The error of a model behind an error, if there is one.
pub fn model_error(error: &Error) -> Option<&models::Error> {
    match error {
        Error::Model(error) | Error::Stage(rag::Error::Model(error)) => Some(error),
        _ => None,
    }
}

/// The failure of a user's function behind an error, if there is one.
pub fn failed_function(error: &Error) -> Option<&rag::python::Failure> {
    match error {
        Error::Stage(rag::Error::Function { failure, .. }) | Error::Function { failure, .. } => Some(failure),
        _ => None,
    }
}

/// Why generation gave no question, with the number of rejections by reason.
fn no_question(model: &str, generated: &eval::GeneratedQuestions) -> String {
    let counts: Vec<String> = generated.counts().iter().map(|(name, n)| format!("{name} {n}")).collect();
    let counts = counts.join(", ");
    let (tries, written, passages) = (generated.attempts, generated.n_written(), generated.n_passages);
    if passages == 0 {
        let why = if counts.is_empty() { "there are none".to_owned() } else { counts };
        return format!(
            "no passage of the documents is worth a question ({why}), so nothing was asked: give documents with \
             longer texts in whole sentences, or write questions by hand"
        );
    }
    let what = match (generated.is_stopped_by_function(), written) {
        (true, _) => "fix the function that writes".to_owned(),
        (false, 0) => format!("try another model than `{model}`, or write questions by hand"),
        (false, _) => "look at the rejected ones: more `max_attempts`, other `kinds` or another model may help, or \
             questions that are written by hand"
            .to_owned(),
    };
    format!(
        "no golden question came of {tries} tries on {passages} passages: `{model}` wrote {written} drafts, and all \
         were rejected; the rejected ones, and passages without a draft, by reason: {counts}; {what}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_chain;

    #[test]
    fn a_full_disk_is_told_with_what_to_do() {
        let told = |kind: io::ErrorKind| error_chain(&Error::file("write", Path::new("runs/r/x.json"), kind.into()));
        let full = told(io::ErrorKind::StorageFull);
        assert!(full.contains("runs/r/x.json") && full.contains("free space there and run again"), "{full}");
        assert!(!told(io::ErrorKind::NotFound).contains("free space"));
    }
}
