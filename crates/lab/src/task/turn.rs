//! Which calls go first when tasks wait for the same model.

use serde::{Deserialize, Serialize};

/// The place of a task's calls in the queue for a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct CallTurn {
    /// Calls of a higher priority go first.
    pub(crate) priority: i32,
    /// Within a priority, groups take turns.
    pub(crate) group: u64,
}
