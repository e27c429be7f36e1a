//! MLflow: one run for the whole, and below it one for each trial, so that
//! MLflow's own pages compare trials.
//!
//! When to use it: when a team looks at experiments in MLflow already.
//!
//! Source: MLflow's REST API 2.0 for tracking, as of 3.17. The tracker first
//! asks the server what it has, by tags that name the run and the trial, and
//! then sends what is missing. So creating a run is never repeated blindly, and
//! data that was sent twice is there once.

use super::{Pace, TrackerSettingsError};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 1;

/// The longest key that MLflow takes, in characters.
const LONGEST_KEY: usize = 200;

/// Settings of the tracker. Credentials come from the environment, under
/// MLflow's own names: `MLFLOW_TRACKING_USERNAME` and
/// `MLFLOW_TRACKING_PASSWORD`, else `MLFLOW_TRACKING_TOKEN`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The server's address.
    pub uri: String,
    /// The MLflow experiment; it is created if it does not exist. Default: the
    /// experiment's name.
    pub experiment: Option<String>,
    /// Tags of the run and of each trial, in addition to the tags that they always have.
    pub tags: BTreeMap<String, String>,
    /// Seconds from one update to the next.
    pub every_seconds: f64,
    /// The longest wait, in seconds, at the end of a run until everything is on the server.
    pub wait_seconds: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            uri: "http://127.0.0.1:5000".to_owned(),
            experiment: None,
            tags: BTreeMap::new(),
            every_seconds: 5.0,
            wait_seconds: 10.0,
        }
    }
}

impl Config {
    pub(super) fn build(&self, (): ()) -> Result<Pace, TrackerSettingsError> {
        let refused = TrackerSettingsError;
        let pace = Pace::new(self.every_seconds, self.wait_seconds)?;
        if let Some(key) = self.tags.keys().find(|key| legal_key(key) != **key || is_ours(key)) {
            return Err(refused(format!(
                "`tags`: `{key}` cannot be the name of one of your own tags: use letters, digits, `_ - . / :` and spaces, and begin with neither `mlflow.` nor `reverie.`"
            )));
        }
        if self.experiment.as_ref().is_some_and(|name| name.is_empty() || name.chars().count() > 500) {
            return Err(refused("`experiment` must have from 1 to 500 characters".to_owned()));
        }
        self.address()?;
        Ok(pace)
    }

    /// The server's address without a slash at its end.
    pub(crate) fn address(&self) -> Result<String, TrackerSettingsError> {
        let refused = TrackerSettingsError;
        let url = Url::parse(&self.uri).map_err(|error| refused(format!("`uri` is no address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(
                "`uri` must begin with http:// or https://: it is the address of an MLflow server".to_owned(),
            ));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(refused("`uri` must hold no user, password or query: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, in the environment".to_owned()));
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }
}

fn is_ours(tag: &str) -> bool {
    tag.starts_with("reverie.") || tag.starts_with("mlflow.")
}

/// A key that MLflow accepts: `recall@10` becomes `recall_at_10`.
pub(crate) fn legal_key(key: &str) -> String {
    let fits = |c: char| if c.is_alphanumeric() || "_-. :/".contains(c) { c } else { '_' };
    key.replace('@', "_at_").chars().map(fits).take(LONGEST_KEY).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(config: Config) -> Result<String, TrackerSettingsError> {
        config.build(())?;
        config.address()
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            build(config)
        };
        assert_eq!(build(Config::default()).as_deref(), Ok("http://127.0.0.1:5000"));
        for (change, part) in [
            ((|config| config.uri = "sqlite:///x".to_owned()) as fn(&mut Config), "http:// or https://"),
            (|config| config.uri = "http://me:secret@host".to_owned(), "MLFLOW_TRACKING_PASSWORD"),
            (|config| config.wait_seconds = f64::NAN, "`wait_seconds`"),
            (|config| config.every_seconds = 0.0, "`every_seconds`"),
            (|config| config.tags = BTreeMap::from([("a@b".to_owned(), String::new())]), "`a@b`"),
            (|config| config.tags = BTreeMap::from([("reverie.run".to_owned(), String::new())]), "`reverie.run`"),
            (|config| config.experiment = Some(String::new()), "`experiment`"),
        ] {
            let reason = with(change).expect_err(part).to_string();
            assert!(reason.contains(part) && !reason.contains("secret@"), "{reason}");
        }
    }
}
