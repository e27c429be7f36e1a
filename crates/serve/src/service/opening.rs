//! Lets administrators open one bundle at a time, and keeps the state of the last one.

use super::{HttpService, OpenBundle};
use crate::{answering::ServedPipeline, error::ApiError, telemetry::unix_seconds};
use axum::http::StatusCode;
use serde::Serialize;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The longest time to fetch and open a bundle.
const OPENING_TIMEOUT: Duration = Duration::from_secs(600);

/// The bundle that is being opened, or that was opened last.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BundleOpening {
    /// `swap`, `try` or `follow`.
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

impl HttpService {
    /// Opens and warms up a bundle that an administrator named, and records it in the service's status.
    pub(crate) async fn open(&self, action: &'static str, bundle: &str) -> Result<ServedPipeline, ApiError> {
        let open = self.open_bundle.as_ref();
        let open = open.ok_or_else(|| ApiError::invalid("this service cannot open other bundles"))?;
        self.open_by(open, action, bundle).await
    }

    /// The same by another function.
    pub(super) async fn open_by(
        &self,
        open: &OpenBundle,
        action: &'static str,
        bundle: &str,
    ) -> Result<ServedPipeline, ApiError> {
        let mut guard = self.opening.begin(action, bundle)?;
        let opened = open_within_time(open, bundle).await;
        guard.outcome = Some(outcome_of(&opened).to_owned());
        opened
    }
}

async fn open_within_time(open: &OpenBundle, bundle: &str) -> Result<ServedPipeline, ApiError> {
    let opening = async {
        let next = open(bundle.to_owned()).await?;
        next.warm().await?;
        Ok::<_, lab::Error>(next)
    };
    let timed_out = || {
        let reason = format!("{} was not open after {OPENING_TIMEOUT:?}", store::without_secrets(bundle));
        Err(lab::Error::Unusable(reason))
    };
    let outcome = tokio::time::timeout(OPENING_TIMEOUT, opening).await.unwrap_or_else(|_| timed_out());
    outcome.map_err(|error| {
        let reason = format!("{}; what was served before is served still", lab::error_chain(&error));
        let refused = match error {
            // The store failed, not the administrator.
            lab::Error::Store(store::Error::Object { .. } | store::Error::Access { .. }) => ApiError::upstream(reason),
            _ => ApiError::invalid(reason),
        };
        refused.with_parameter("bundle")
    })
}

/// The outcome as text: `done`, or why it failed.
pub(crate) fn outcome_of<T>(result: &Result<T, ApiError>) -> &str {
    result.as_ref().map_or_else(|error| error.message.as_str(), |_| "done")
}
