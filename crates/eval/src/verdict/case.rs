//! Cases by which a judge is tried.

use super::VerdictKind;
use serde::{Deserialize, Serialize};

/// A case whose truth is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What the verdict is about.
    pub kind: VerdictKind,
    /// The question; for `relevant` and `correct`.
    #[serde(default)]
    pub question: String,
    /// What the item is held against: the context, the answer, or the reference.
    pub against: String,
    /// The statement, the passage, or the answer.
    pub item: String,
    /// Whether yes is right.
    pub label: bool,
}
