//! `load::unread`: which links are followed, and why a file is not read.

use super::LoadError;
use serde::{Deserialize, Serialize};

/// Which symbolic links of a folder are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// Those that lead to somewhere in the same folder.
    #[default]
    Inside,
    /// All, wherever they lead.
    Anywhere,
}

/// Why a file's bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is not part of the corpus, whenever it is read.
    #[error(transparent)]
    Rejected(LoadError),
    /// The file could not be read now; this says nothing about the file.
    #[error("{reason}")]
    Failed {
        /// What happened.
        reason: String,
        /// Whether another try soon may succeed.
        may_pass: bool,
    },
}

/// A file, or a folder, that could not be read now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The path below the corpus' root.
    pub path: String,
    /// What happened.
    pub reason: String,
}
