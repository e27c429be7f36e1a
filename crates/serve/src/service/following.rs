//! Follows the place of a pipeline's versions: whichever is the current one is served, without a dropped request.

use super::{HttpService, OpenBundle};
use crate::telemetry::unix_seconds;
use lab::VersionPlace;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How often a place on this machine is looked at.
const EVERY: Duration = Duration::from_millis(500);
/// How often a place on an object store is looked at, where each look is a request.
const EVERY_REMOTE: Duration = Duration::from_secs(3);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The place that a service follows.
pub(crate) struct FollowedVersions {
    place: VersionPlace,
    open: OpenBundle,
    /// The version that is served.
    serving: Mutex<String>,
}

impl FollowedVersions {
    pub(super) fn new(place: VersionPlace, serving: String, open: OpenBundle) -> Self {
        Self { place, open, serving: Mutex::new(serving) }
    }

    /// What it follows, and which version it serves.
    pub(crate) fn status(&self) -> Value {
        json!({ "place": self.place.address(), "version": self.serving() })
    }

    fn serving(&self) -> String {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves the current version, whenever it is another one than before. Never ends.
    pub(crate) async fn follow(&self, service: &Arc<HttpService>) {
        let every = if self.place.is_remote() { EVERY_REMOTE } else { EVERY };
        let (mut pause, mut told) = (every, String::new());
        loop {
            tokio::time::sleep(pause).await;
            let reason = match self.look(service).await {
                Ok(()) => {
                    (pause, told) = (every, String::new());
                    continue;
                }
                Err(reason) => reason,
            };
            pause = (pause * 2).min(LONGEST_PAUSE);
            // The same failure is told once.
            if reason != told {
                service.log.write(&json!({
                    "time": unix_seconds(), "action": "follow", "detail": self.status(), "outcome": reason,
                }));
                told = reason;
            }
        }
    }

    async fn look(&self, service: &Arc<HttpService>) -> Result<(), String> {
        let current = self.place.current().await.map_err(|error| lab::error_chain(&error))?;
        let Some(current) = current.filter(|current| current.version != self.serving()) else { return Ok(()) };
        let bundle = self.place.bundle(&current.version);
        let opened = service.open_by(&self.open, "follow", &bundle).await;
        let next = Arc::new(opened.map_err(|error| error.message)?);
        service.swap(next.clone());
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&current.version);
        service.log.write(&json!({
            "time": unix_seconds(), "action": "follow",
            "detail": { "version": current.version, "corpus": next.corpus }, "outcome": "done",
        }));
        Ok(())
    }
}
