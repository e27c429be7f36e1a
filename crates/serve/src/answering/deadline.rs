//! The one deadline of a request, from its arrival to the end of its answer.

use crate::error::ApiError;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// When a question, or a search, must be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(super) ends: Instant,
    allowed: Duration,
}

impl Deadline {
    /// A deadline in this time from now.
    pub(crate) fn after(allowed: Duration) -> Self {
        Self { ends: Instant::now() + allowed, allowed }
    }

    /// The time until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// The end of an equal share of the time that is left, for this many pipelines.
    pub(super) fn end_of_share(&self, pipelines: usize) -> Instant {
        Instant::now() + self.left().div_f64(pipelines.max(1) as f64)
    }

    /// Limits work other than an answer.
    ///
    /// # Errors
    /// The work's own, or 504 if the deadline comes first.
    pub(crate) async fn limit<T>(&self, work: impl Future<Output = Result<T, lab::Error>>) -> Result<T, ApiError> {
        let done = timeout_at(self.ends, work).await;
        Ok(done.map_err(|_| ApiError::search_timeout(format!("the request was not done within {:?}", self.allowed)))??)
    }
}
