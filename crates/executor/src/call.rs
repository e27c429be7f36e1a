//! What a limiter needs to know about a call.

use tokio::time::Instant;

/// What a limiter needs to know about a call. The default has priority 0, no
/// group, no cost and no deadline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Call {
    pub(crate) priority: i32,
    pub(crate) group: u64,
    pub(crate) cost: u64,
    pub(crate) deadline: Option<Instant>,
}

impl Call {
    /// A call that precedes calls of a lower priority.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// A call of a group, such as a trial: within a priority, groups take
    /// turns, however many calls of each group wait.
    #[must_use]
    pub fn with_group(self, group: u64) -> Self {
        Self { group, ..self }
    }

    /// A call with this cost, in the unit of the limit on cost: for a model, its
    /// estimated tokens.
    #[must_use]
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// A call that must have its result by then, including retries.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}

impl From<i32> for Call {
    fn from(priority: i32) -> Self {
        Self::default().with_priority(priority)
    }
}
