//! What an experiment keeps: content keys, artifacts, the journal of model
//! calls and the event log of a run. It knows nothing of models or RAG.

mod access;
mod artifact;
mod event;
mod journal;
mod key;
pub mod registry;
mod staged;
pub mod testing;
pub mod upkeep;

pub use access::{VARIABLES, complete_options, environment_options, profile_options};
pub use artifact::{ArtifactStore, Checked, Location, StoredObject};
pub use event::{DamagedLine, Event, EventLog, EventLogContent};
pub use journal::{
    CopiedCalls, DamagedEntry, Journal, JournalEntry, JournalStatistics, ModelStatistics, Salvage, Selection,
    SharedJournal, Sweep,
};
pub use key::{Key, KeyBuilder};
pub use staged::{staged_path, unique_token};

/// What can go wrong while keeping or finding something.
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
    /// The store cannot be used until somebody changes something.
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
    #[error(
        "the journal {path} is damaged: `reverie journal gc --yes` saves every answer that can still be read, and the \
         next run asks for the others"
    )]
    JournalDamaged {
        /// The database file.
        path: String,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// A damaged journal cannot be built anew while somebody writes to it.
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
        source: std::io::Error,
    },
    /// A file was written by a newer version of this program.
    #[error("{path} has format {found}, but this version knows only up to {supported}: use a newer version of reverie")]
    Newer {
        /// The file.
        path: String,
        /// The format's version in the file.
        found: i64,
        /// The newest version known here.
        supported: i64,
    },
    /// Something was to be written where things are only read.
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
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The object or file.
        path: String,
        /// What does not match.
        reason: String,
    },
}

/// An error with everything that caused it, in one line.
fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
