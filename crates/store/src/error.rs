//! The errors of storing and finding something.

use std::{fmt, io};

/// The errors of storing and finding something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store's address cannot be understood.
    #[error("{address}: not a folder or an object-store URL ({reason})")]
    Address {
        /// The address as given.
        address: String,
        /// Why it was refused.
        reason: String,
    },
    /// The store cannot be used until a person changes something.
    #[error("{address}: {problem}")]
    Access {
        /// The store's address.
        address: String,
        /// What is wrong, and what to do. It holds no secret.
        problem: String,
    },
    /// An object could not be read or written.
    #[error("{operation} {path} failed")]
    Object {
        /// `read`, `write` or `list`.
        operation: &'static str,
        /// The object's path in the store.
        path: String,
        /// What the store said.
        #[source]
        source: object_store::Error,
    },
    /// The journal's database could not be used.
    #[error("the journal {path} cannot be used")]
    Journal {
        /// The database file.
        path: String,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// The journal's file is not what SQLite wrote.
    #[error("the journal {path} is damaged")]
    JournalDamaged {
        /// The database file.
        path: String,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// A damaged journal cannot be rebuilt while another process uses it.
    #[error("the journal {path} is in use by another process: end the run that uses it, and try again")]
    JournalInUse {
        /// The database file.
        path: String,
    },
    /// A file of the store could not be used.
    #[error("{operation} {path} failed")]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no space left for what is to be kept.
    #[error(
        "{path} cannot be written, because there is no space left or a limit on the size of files is reached: free \
         space there and run again; what was kept is not paid again"
    )]
    Full {
        /// The file, or the address of the object store.
        path: String,
        /// What the system, SQLite or the object store said.
        #[source]
        source: std::sync::Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A file was written by a newer version of this program.
    #[error("{path} has format {found}, but this version knows only up to {supported}")]
    Newer {
        /// The file.
        path: String,
        /// The format's version in the file.
        found: i64,
        /// The newest version known here.
        supported: i64,
    },
    /// Something was to be written in a store or journal that was opened only to read.
    #[error("{path} was opened to be read, and nothing is written there")]
    ReadOnly {
        /// The store or the file.
        path: String,
    },
    /// The store's folder, or its journal, was removed while it was in use.
    #[error(
        "{path} was removed or replaced while it was in use: nothing more can be kept there, so the work ends here; \
         put it back or run again"
    )]
    Gone {
        /// The folder or file.
        path: String,
    },
    /// Something stored is not what was written.
    #[error("{path} is damaged: {reason}{outcome}")]
    Damaged {
        /// The object or file.
        path: String,
        /// What does not match.
        reason: String,
        /// What was done with it.
        outcome: DamageOutcome,
    },
    /// A run that is to be kept is not a finished run.
    #[error("there is no such finished run: {run}")]
    NoSuchRun {
        /// The run.
        run: String,
    },
    /// A run that is to be kept has no list of its artifacts.
    #[error("the run {run} has no list of its artifacts, so it is unknown what it needs")]
    NoListOfArtifacts {
        /// The run.
        run: String,
    },
}

impl Error {
    /// A copy of the error, if it is [`Error::Full`].
    pub fn clone_if_full(&self) -> Option<Self> {
        match self {
            Self::Full { path, source } => Some(Self::Full { path: path.clone(), source: source.clone() }),
            _ => None,
        }
    }

    /// The error for something that cannot be understood; nothing was done with it.
    pub(crate) fn damaged(path: &str, reason: impl fmt::Display) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.to_string(), outcome: DamageOutcome::Untouched }
    }
}

/// What was done with something damaged. Its text is the end of a sentence that
/// says what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamageOutcome {
    /// Nothing was done with it.
    Untouched,
    /// An output of a task was moved, so that its task is done again.
    SetAside {
        /// The name that it has now.
        place: String,
    },
    /// Another process has moved it.
    SetAsideByAnother,
    /// An output of a task was left in a store that was opened to be read.
    ReadOnly,
    /// A file of a run was left: the run writes it again.
    LeftForRun,
    /// It was left, and no task makes it again.
    Left,
    /// It could not be moved.
    MoveFailed {
        /// Why not.
        why: String,
    },
    /// It was not copied.
    NotCopied,
}

impl fmt::Display for DamageOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untouched => Ok(()),
            Self::SetAside { place } => write!(f, "; it is now {place}, and the next run makes it again"),
            Self::SetAsideByAnother => f.write_str("; it was set aside, and the next run makes it again"),
            Self::ReadOnly => f.write_str("; the next run that can write to the store makes it again"),
            Self::LeftForRun => f.write_str("; the next run writes it anew"),
            Self::Left => f.write_str("; remove it, and run again"),
            Self::MoveFailed { why } => write!(f, "; it could not be set aside ({why}): remove it, and run again"),
            Self::NotCopied => f.write_str("; it was not copied"),
        }
    }
}
