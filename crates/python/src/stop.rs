//! How Python ends work that goes on in another thread: after the `await` for
//! it was cancelled, nobody wants its result.

use pyo3::prelude::*;
use tokio_util::sync::CancellationToken;

/// Ends the work that it was given to.
#[pyclass(frozen, module = "reverie._core")]
pub(crate) struct Stop {
    token: CancellationToken,
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self { token: CancellationToken::new() }
    }

    /// Calls that have begun are finished, and kept; nothing more begins.
    fn stop(&self) {
        self.token.cancel();
    }

    /// Whether it was told to stop. The work may have ended all the same.
    fn is_stopped(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl Stop {
    /// The token of a stop, or one that nobody else has.
    pub(crate) fn token(stop: Option<&Self>) -> CancellationToken {
        stop.map_or_else(CancellationToken::new, |stop| stop.token.clone())
    }
}
