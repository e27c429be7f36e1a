//! What is wrong with the records of a file or with rows in memory.

use super::{cells::CellError, places::PassagesError, turns::TurnsError};

/// What is wrong with one record, in words that follow its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    /// A cell does not hold what its column is for.
    #[error("`{column}` {cause}")]
    Cell { column: String, cause: CellError },
    /// The earlier messages of a conversation cannot be read.
    #[error("`{column}` {cause}")]
    Turns { column: &'static str, cause: TurnsError },
    /// The passages cannot be read.
    #[error("`{column}` {cause}")]
    Passages { column: &'static str, cause: PassagesError },
    /// The record breaks a rule, or a parser refuses it; the text says what to do.
    #[error("{0}")]
    Rule(String),
}

impl<T: Into<String>> From<T> for RecordError {
    fn from(text: T) -> Self {
        Self::Rule(text.into())
    }
}

impl RecordError {
    /// For `map_err` on what a reader of cells returns.
    pub(super) fn in_column(column: &str) -> impl Fn(CellError) -> Self {
        move |cause| Self::Cell { column: column.to_owned(), cause }
    }
}

/// What is wrong with a record, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct RowError {
    /// The line of a file, from 1, or the row in memory, from 0.
    pub number: usize,
    pub(super) cause: Box<RecordError>,
}

impl RowError {
    pub(super) fn new(number: usize, cause: impl Into<RecordError>) -> Self {
        Self { number, cause: Box::new(cause.into()) }
    }

    /// The same in a file of this name.
    pub(super) fn in_file(self, file: &str) -> ImportError {
        ImportError { file: file.to_owned(), line: self.number, cause: self.cause }
    }
}

/// What is wrong with a line of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {cause}")]
pub struct ImportError {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    pub(super) cause: Box<RecordError>,
}

impl ImportError {
    /// What is wrong and what to do, without the place.
    pub fn reason(&self) -> String {
        self.cause.to_string()
    }
}
