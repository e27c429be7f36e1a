//! Trackio: one run for each run of Reverie, in Trackio's database on this machine; `trackio show` opens it in a
//! browser.
//!
//! When to use it: when you want a dashboard of your runs without an account and without a server.
//!
//! Source: the Python package `trackio` (tried with 0.43.0), which must be installed in the Python that runs your
//! functions. Its database is in the folder that `TRACKIO_DIR` names, else in the cache of Hugging Face. Spaces and
//! servers of Trackio are not used.

use super::{Pace, TrackerSettingsError, check_project};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;

/// Settings of the tracker. It needs the package `trackio` in the Python that runs your functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The project. Default: the experiment's name.
    pub project: Option<String>,
    /// Seconds from one update to the next.
    pub every_seconds: f64,
    /// The longest wait, in seconds, at the end of a run until everything is written.
    pub wait_seconds: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { project: None, every_seconds: 5.0, wait_seconds: 10.0 }
    }
}

impl Config {
    pub(super) fn build(&self, (): ()) -> Result<Pace, TrackerSettingsError> {
        check_project(self.project.as_deref())?;
        Pace::new(self.every_seconds, self.wait_seconds)
    }
}
