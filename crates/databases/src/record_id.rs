//! Ids of records.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The id of a record. Collections that Reverie fills have numbers; other ids are texts whose form is the database's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RecordId {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
