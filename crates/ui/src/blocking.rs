//! Work that waits for the disk or computes, away from the threads that answer requests.

use crate::error::PageError;
use lab::Error;

/// Does some work on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PageError> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|error| Error::Table(error.to_string()))?)
}
