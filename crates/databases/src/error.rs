//! The errors of databases: which server, which collection, and what is wrong.

use std::{fmt, time::Duration};

/// An error of a database. It holds no secret.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct Error {
    /// The address of the server, without user and password.
    pub server: String,
    /// The collection, table or alias, if it is about one.
    pub collection: Option<String>,
    /// What is wrong.
    pub problem: DatabaseProblem,
}

/// What is wrong with a database, a collection or a record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseProblem {
    /// The address or another setting cannot be used.
    #[error("{reason}")]
    InvalidSettings {
        /// Why not, and what to do.
        reason: String,
    },
    /// There is no connection.
    #[error("cannot be reached: {reason}")]
    Unreachable {
        /// What the system or the server said.
        reason: String,
    },
    /// The connection was lost during a call.
    #[error("the connection was lost: {reason}")]
    ConnectionLost {
        /// What the system or the server said.
        reason: String,
    },
    /// There was no reply in time.
    #[error("no reply within {} s; raise `timeout_seconds`, or find out what keeps the server busy", .after.as_secs_f64())]
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// The server has too much to do: too many connections or requests, locks, a restart.
    #[error("busy: {message}")]
    Busy {
        /// What the server said.
        message: String,
        /// When to try again, if the server said so.
        retry_after: Option<Duration>,
    },
    /// User, password or API key were refused.
    #[error("the login was refused: {message}; check the user and the password or the API key")]
    Credentials {
        /// What the server said.
        message: String,
    },
    /// The user may not do this.
    #[error("not permitted: {message}")]
    Permission {
        /// What the server said, or which right is missing.
        message: String,
    },
    /// The server lacks what stores and compares vectors.
    #[error("{message}")]
    ExtensionMissing {
        /// What is missing, and how to install it.
        message: String,
    },
    /// The server or its extension is too old.
    #[error("{name} {found} is too old; {needed} or newer is needed")]
    TooOld {
        /// What is too old.
        name: &'static str,
        /// The version that was found.
        found: String,
        /// The oldest version that works.
        needed: &'static str,
    },
    /// There is no collection of this name.
    #[error("does not exist")]
    MissingCollection,
    /// There is a collection of this name that Reverie did not make.
    #[error("exists, and Reverie did not make it, so it is neither changed nor removed; choose another name")]
    ForeignCollection,
    /// The collection has no such field.
    #[error("has no field `{field}`; there are {}", .known.join(", "))]
    MissingField {
        /// The field.
        field: String,
        /// The fields that there are.
        known: Vec<String>,
    },
    /// A table has no primary key, so that its rows cannot be told apart.
    #[error("has no primary key of one column; name a unique column as `id`")]
    NoKey,
    /// The collection has no records.
    #[error("is empty")]
    Empty,
    /// The collection has vectors of another length.
    #[error("holds vectors of {found} dimensions, and these have {expected}; was another embedder used to fill it?")]
    Dimensions {
        /// The length of the vectors at hand.
        expected: usize,
        /// The length of the vectors in the collection.
        found: usize,
    },
    /// The search index compares vectors in another way, so it would not be used, or would rank by something else.
    #[error("is indexed for the {found} metric, and is to be searched by the {expected} metric")]
    OtherMetric {
        /// The metric to search by.
        expected: crate::VectorMetric,
        /// The metric of the index.
        found: crate::VectorMetric,
    },
    /// The collection cannot be searched yet.
    #[error("cannot be searched yet: {reason}")]
    NotReady {
        /// What is missing.
        reason: String,
    },
    /// A record that cannot be stored as it is.
    #[error("the record {id} cannot be stored: {reason}")]
    InvalidRecord {
        /// The record.
        id: crate::RecordId,
        /// Why not.
        reason: String,
    },
    /// A reply or a request is too large.
    #[error("too large: {reason}")]
    TooLarge {
        /// What is too large, and the limit.
        reason: String,
    },
    /// A reply that does not follow the protocol.
    #[error("the reply cannot be understood: {reason}")]
    Malformed {
        /// What does not fit.
        reason: String,
    },
    /// The database has nothing that could do this.
    #[error("unsupported: {what}")]
    Unsupported {
        /// What it cannot do.
        what: &'static str,
    },
    /// The server refused for another reason.
    #[error("refused: {message}")]
    Refused {
        /// What the server said.
        message: String,
    },
}

impl Error {
    /// Whether the same call may succeed later without anything being changed.
    pub fn is_transient(&self) -> bool {
        use DatabaseProblem::{Busy, ConnectionLost, TimedOut, Unreachable};
        matches!(self.problem, Unreachable { .. } | ConnectionLost { .. } | TimedOut { .. } | Busy { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server)?;
        if let Some(collection) = &self.collection {
            write!(f, ", `{collection}`")?;
        }
        write!(f, ": {}", self.problem)
    }
}
