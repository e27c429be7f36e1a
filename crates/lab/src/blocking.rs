//! Work that computes, away from the threads that wait for calls.

use crate::Error;
use models::ledger;

/// Runs something that computes on a blocking thread. Calls that it makes are
/// counted as if it ran here.
pub(crate) async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(ledger::carry(work))
        .await
        .map_err(|error| Error::Task { label: "a computation".to_owned(), reason: error.to_string() })
}
