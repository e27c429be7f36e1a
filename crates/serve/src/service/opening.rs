//! Lets administrators open one bundle at a time, and keeps the state of the last one.

use crate::{error::ApiError, telemetry::unix_seconds};
use axum::http::StatusCode;
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// The bundle that is being opened, or that was opened last.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BundleOpening {
    /// `swap` or `try`.
    action: &'static str,
    bundle: String,
    /// When it began and ended, in seconds since 1970.
    since: u64,
    until: Option<u64>,
    /// `done`, or why it failed; null until it ends.
    outcome: Option<String>,
}

/// Lets one bundle be opened at a time.
#[derive(Default)]
pub(crate) struct OpeningLock(Mutex<Option<BundleOpening>>);

/// Marks a bundle as being opened, until it is dropped.
pub(crate) struct OpeningGuard<'a> {
    lock: &'a OpeningLock,
    /// `None` until there is a result. A task that is cancelled or panics has none.
    pub(crate) outcome: Option<String>,
}

impl OpeningLock {
    /// The opening in progress, or the last one.
    pub(crate) fn last(&self) -> Option<BundleOpening> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins an opening.
    ///
    /// # Errors
    /// 409 if another bundle is being opened: each holds an index in memory.
    pub(crate) fn begin(&self, action: &'static str, bundle: &str) -> Result<OpeningGuard<'_>, ApiError> {
        let mut opening = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = opening.as_ref().filter(|opening| opening.until.is_none()) {
            let reason = format!("{} is being opened; GET /admin/status shows when it is done", other.bundle);
            return Err(ApiError::invalid(reason).with_status(StatusCode::CONFLICT, "already_opening"));
        }
        let bundle = store::without_secrets(bundle);
        *opening = Some(BundleOpening { action, bundle, since: unix_seconds(), until: None, outcome: None });
        Ok(OpeningGuard { lock: self, outcome: None })
    }
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        if let Some(opening) = self.lock.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            opening.until = Some(unix_seconds());
            opening.outcome =
                Some(self.outcome.take().unwrap_or_else(|| "the opening ended without a result".to_owned()));
        }
    }
}
