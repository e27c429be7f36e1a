//! Stops work in another thread after the `await` for it was cancelled.

use pyo3::prelude::*;
use tokio_util::sync::CancellationToken;

/// Stops the work that was started with it.
#[pyclass(frozen, module = "reverie._core", name = "Stop")]
pub(crate) struct PyStop {
    token: CancellationToken,
}

#[pymethods]
impl PyStop {
    #[new]
    fn new() -> Self {
        Self { token: CancellationToken::new() }
    }

    /// Calls that have begun are finished, and kept; nothing more begins.
    fn stop(&self) {
        self.token.cancel();
    }

    /// Whether `stop` was called. The work may have finished all the same.
    fn is_stopped(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl PyStop {
    /// The token of a stop, or a new one.
    pub(crate) fn token(stop: Option<&Self>) -> CancellationToken {
        stop.map_or_else(CancellationToken::new, |stop| stop.token.clone())
    }
}
