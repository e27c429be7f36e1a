//! Trackers show a run elsewhere, where people compare runs: one file each, and one line in [`open`]. The settings of
//! each are a file and a line in `spec/track`.
//!
//! A tracker only reads. Everything that it shows is in the run's folder, so the run waits for it
//! only at its end, and no longer than [`Pace::wait`]. Each update brings its server to the state of
//! the folder, whatever was sent before. So nothing is missing after the server was away, and
//! nothing is there twice after a run was resumed.

mod follow;
mod leaderboard;
mod mlflow;
mod observe;
mod python;
mod trackio;
mod view;
mod wandb;

pub(crate) use follow::recorded_experiment;
pub use follow::{Tracking, catch_up, follow};
pub(crate) use observe::{Observer, StepLog, score_point};
pub use view::{DataVersion, RunState, RunView, ScorePoint, UsagePoint};
pub(crate) use view::{RunReader, TaskFailure};

pub use crate::spec::Pace;
use crate::spec::{TrackerConfig, TrackerSettingsError};
use async_trait::async_trait;
use models::provider::Environment;

/// Why a tracker cannot be opened.
#[derive(Debug, thiserror::Error)]
enum TrackerOpenError {
    /// Its settings are invalid.
    #[error(transparent)]
    Settings(#[from] TrackerSettingsError),
    /// It has no HTTP client.
    #[error("no HTTP client")]
    Client(#[from] reqwest::Error),
}

/// Opens the tracker of these settings.
fn open(config: &TrackerConfig, environment: &Environment) -> Result<Box<dyn Tracker>, TrackerOpenError> {
    let pace = config.build(())?;
    match config {
        TrackerConfig::Mlflow(config) => mlflow::open(config, pace, environment),
        TrackerConfig::Wandb(config) => Ok(wandb::open(config, pace, environment)),
        TrackerConfig::Trackio(config) => Ok(trackio::open(config, pace)),
    }
}

/// Shows runs on a server.
#[async_trait]
pub trait Tracker: Send {
    /// Its kind and its address, for people.
    fn place(&self) -> &str;

    /// How often it is given a new view, and how long the end of a run waits for it.
    fn pace(&self) -> Pace;

    /// Brings the server to the state of the view, whatever was there before.
    /// Returns sentences about what cannot be shown there, and other remarks on
    /// the server.
    ///
    /// # Errors
    /// If something is not on the server yet. Another call sends only the rest.
    async fn sync(&mut self, view: &RunView) -> Result<Vec<String>, TrackerError>;
}

/// Why a server does not have everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrackerError {
    /// It does not answer, or cannot take data now.
    #[error("{0}")]
    Away(String),
    /// It refuses what it is sent.
    #[error("{0}")]
    Refused(String),
}

impl TrackerError {
    /// Whether trying again soon may help.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Self::Away(_))
    }
}
