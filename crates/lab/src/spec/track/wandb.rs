//! Weights & Biases: one run for each run of Reverie, on wandb.ai or on a server of your own, or in files that
//! `wandb sync` sends later.
//!
//! When to use it: when a team looks at experiments in Weights & Biases already.
//!
//! Source: the Python package `wandb` (tried with 0.31.0), which must be installed in the Python that runs your
//! functions. Without an account, `mode = "offline"` writes the run into the folder `wandb` of the run's folder.

use super::{Pace, TrackerSettingsError, check_project};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;

/// Settings of the tracker. It needs the package `wandb` in the Python that runs your functions. The package reads its
/// own variables too, such as `WANDB_API_KEY` and `WANDB_BASE_URL`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The project. Default: the experiment's name.
    pub project: Option<String>,
    /// The user or the team that the project belongs to. Default: that of the account.
    pub entity: Option<String>,
    /// Whether the run is sent (`"online"`), or written for `wandb sync` (`"offline"`). Default: online if
    /// `WANDB_API_KEY` is set.
    pub mode: Option<WandbMode>,
    /// Tags of the run.
    pub tags: Vec<String>,
    /// Seconds from one update to the next.
    pub every_seconds: f64,
    /// The longest wait, in seconds, at the end of a run until everything is sent or written.
    pub wait_seconds: f64,
}

/// Where Weights & Biases keeps a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WandbMode {
    /// On the server.
    Online,
    /// In files of this machine.
    Offline,
}

impl Default for Config {
    fn default() -> Self {
        Self { project: None, entity: None, mode: None, tags: Vec::new(), every_seconds: 5.0, wait_seconds: 20.0 }
    }
}

impl Config {
    pub(super) fn build(&self, (): ()) -> Result<Pace, TrackerSettingsError> {
        check_project(self.project.as_deref())?;
        if self.tags.iter().any(|tag| !(1..=64).contains(&tag.chars().count())) {
            return Err(TrackerSettingsError("each of `tags` must have from 1 to 64 characters".to_owned()));
        }
        Pace::new(self.every_seconds, self.wait_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused() {
        assert!(Config::default().build(()).is_ok());
        for (change, part) in [
            ((|config| config.project = Some("a/b".to_owned())) as fn(&mut Config), "`project`"),
            (|config| config.tags = vec!["x".repeat(65)], "`tags`"),
            (|config| config.every_seconds = 0.0, "`every_seconds`"),
            (|config| config.wait_seconds = f64::NAN, "`wait_seconds`"),
        ] {
            let mut config = Config::default();
            change(&mut config);
            let reason = config.build(()).expect_err(part).to_string();
            assert!(reason.contains(part), "{reason}");
        }
    }
}
