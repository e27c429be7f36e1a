//! Trackers show a run elsewhere, where people compare runs: one file each,
//! and one line below.
//!
//! A tracker is a reader. All that it tells stands in the run's folder, so it
//! waits for nothing of the run and the run waits for nothing of it; and
//! whatever it did before, it brings its server to the state of the folder.
//! So nothing is missing after the server was away, and nothing is there
//! twice after a run was resumed.

mod follow;
mod observe;
mod view;

pub use follow::{Tracking, catch_up, follow};
pub(crate) use observe::StepLog;
pub use view::{DataVersion, ScorePoint, State, UsagePoint, View};

use crate::Environment;
use async_trait::async_trait;
use std::time::Duration;

store::registry! {
    /// Where runs are shown, beside their own folder.
    pub enum TrackerConfig builds Box<dyn Tracker>, from &Environment, or String {
        Mlflow => mlflow,
    }
}

/// Shows runs on a server.
#[async_trait]
pub trait Tracker: Send {
    /// What it is and where, for people.
    fn place(&self) -> &str;

    /// When it is given a new view, and how long the end of a run waits for it.
    fn pace(&self) -> Pace;

    /// Brings the server to the state of the view, whatever was there before.
    /// Returns what cannot be shown there, in sentences.
    ///
    /// # Errors
    /// If something is not there yet. Calling it again does only what is left.
    async fn sync(&mut self, view: &View) -> Result<Vec<String>, Failure>;
}

/// How often a tracker works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// From one view to the next while the run goes on.
    pub every: Duration,
    /// The end of a run waits so long at most until everything is there.
    pub wait: Duration,
}

/// Why a server does not have everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It does not answer, or is not able to now.
    #[error("{0}")]
    Away(String),
    /// It does not want what it is sent.
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    /// Whether trying again soon may help.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away(_))
    }
}
