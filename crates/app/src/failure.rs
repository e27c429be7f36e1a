//! How a command fails: a message, an exit code, and for `--json` the mistakes one by
//! one.

use lab::SpecError;
use serde::Serialize;
use serde_json::json;
use std::{fmt::Display, path::Path};

/// The exit code of incomplete results, which another run may complete.
pub const INCOMPLETE: u8 = 3;
/// The exit code of a run that ended at its budget.
pub const BUDGET_REACHED: u8 = 4;
/// The exit code if a user's function failed.
pub const FUNCTION_FAILED: u8 = 5;
/// The exit code of a check that found the run worse than the bundle.
pub const WORSE: u8 = 6;

/// How a command failed.
#[derive(Debug)]
pub struct CommandFailure {
    pub message: String,
    pub code: u8,
    mistakes: Vec<Mistake>,
}

/// A mistake in the input. Nothing was done because of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The file that has it, if it is in a file.
    pub file: Option<String>,
    /// Its line, from 1.
    pub line: Option<usize>,
    /// Its column, from 1.
    pub column: Option<usize>,
    /// The key of the experiment that has it, such as `space.chunker[1].sentence`.
    pub key: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

/// The most mistakes that are shown: a file in a wrong format may have thousands.
const MAX_SHOWN: usize = 40;

impl CommandFailure {
    /// Something failed at run time.
    pub fn runtime(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 1, mistakes: Vec::new() }
    }

    /// Nothing was done, because the arguments or files have mistakes.
    pub fn usage(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 2, mistakes: Vec::new() }
    }

    /// The failure of an operation on a file or folder, for `map_err`.
    pub fn at(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::runtime(format!("{}: {error}", path.display()))
    }

    /// Nothing was done, because of these mistakes; `shown` has the text of each.
    pub fn with_mistakes(mistakes: Vec<Mistake>, shown: impl Iterator<Item = String>, end: Option<String>) -> Self {
        let mut lines: Vec<String> = shown.take(MAX_SHOWN).collect();
        let more = mistakes.len().saturating_sub(MAX_SHOWN);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines.extend(end);
        Self { message: lines.join("\n"), code: 2, mistakes }
    }

    /// The failure as one JSON object.
    pub fn json(&self) -> serde_json::Value {
        json!({ "error": { "message": self.message, "exit_code": self.code, "mistakes": self.mistakes } })
    }
}

impl Mistake {
    /// A mistake of an experiment file or of an override.
    pub fn of(path: &Path, error: &SpecError) -> Self {
        // `place` is the override that has the mistake; without one, the mistake is in the file.
        let file = error.place.is_none().then(|| path.display().to_string());
        let at = |n: usize| file.is_some().then_some(n);
        let message = match &error.place {
            Some(place) => format!("{place}: {}", error.message),
            None => error.message.clone(),
        };
        Self { line: at(error.line), column: at(error.column), key: error.key.clone(), message, file }
    }

    /// A mistake of a line of a file.
    pub fn of_line(file: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { file: Some(file.into()), line: Some(line), message: message.into(), ..Self::default() }
    }
}

impl From<lab::Error> for CommandFailure {
    fn from(error: lab::Error) -> Self {
        let message = lab::error_chain(&error);
        if matches!(lab::model_error(&error), Some(::models::Error::BudgetExhausted { .. })) {
            return Self { code: BUDGET_REACHED, ..Self::runtime(message) };
        }
        match error {
            lab::Error::Refused(mistakes) => {
                let shown: Vec<String> = std::iter::once("nothing was run, because:".to_owned())
                    .chain(mistakes.iter().map(|mistake| format!("  - {mistake}")))
                    .collect();
                let mistakes = mistakes.into_iter().map(|message| Mistake { message, ..Mistake::default() });
                Self::with_mistakes(mistakes.collect(), shown.into_iter(), None)
            }
            lab::Error::Interrupted => Self { code: 130, ..Self::runtime(message) },
            _ => Self::runtime(message),
        }
    }
}

impl From<::store::Error> for CommandFailure {
    fn from(error: ::store::Error) -> Self {
        Self::runtime(lab::error_chain(&error))
    }
}

impl From<::models::Error> for CommandFailure {
    fn from(error: ::models::Error) -> Self {
        Self::runtime(lab::error_chain(&error))
    }
}
