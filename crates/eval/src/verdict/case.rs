//! Labelled cases, on which a judge is tried.

use super::VerdictKind;
use serde::{Deserialize, Serialize};

/// A labelled case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The kind of verdict.
    pub kind: VerdictKind,
    /// The question; for `relevant` and `correct`.
    #[serde(default)]
    pub question: String,
    /// The text that the item is compared with: the context, the answer, or the reference.
    pub against: String,
    /// The statement, the passage, or the answer.
    pub item: String,
    /// Whether the right verdict is yes.
    pub label: bool,
}
