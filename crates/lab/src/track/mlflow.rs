//! MLflow: one run for the whole, and below it one for each trial, so that
//! MLflow's own pages compare trials.
//!
//! When to use it: when a team looks at experiments in MLflow already.
//!
//! Source: MLflow's REST API 2.0 for tracking, as of 3.17. The tracker first
//! asks the server what it has, by tags that name the run and the trial, and
//! then sends what is missing. So creating a run is never repeated blindly, and
//! data that was sent twice is there once.

mod content;
mod files;
mod rest;
mod state;

use super::{Failure, Pace, Tracker, View};
use crate::Environment;
use async_trait::async_trait;
use content::Wanted;
use futures::{StreamExt, stream};
use rest::{Address, Server};
use serde::{Deserialize, Serialize};
use serde_json::json;
use state::{Current, Known};
use std::{collections::BTreeMap, time::Duration};

pub(super) const VERSION: u32 = 1;

/// Trials that are updated side by side.
const AT_ONCE: usize = 8;

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
    pub(super) fn build(&self, environment: &Environment) -> Result<Box<dyn Tracker>, String> {
        let seconds = |name: &str, value: f64, least: f64| {
            let fits = (least..=3600.0).contains(&value);
            fits.then(|| Duration::from_secs_f64(value)).ok_or_else(|| format!("`{name}` must be from {least} to 3600"))
        };
        let every = seconds("every_seconds", self.every_seconds, 0.1)?;
        let wait = seconds("wait_seconds", self.wait_seconds, 0.0)?;
        if let Some(key) = self.tags.keys().find(|key| content::legal(key) != **key || is_ours(key)) {
            return Err(format!(
                "`tags`: `{key}` cannot be the name of a tag of yours: use letters, digits, `_ - . / :` and spaces, and begin with neither `mlflow.` nor `reverie.`"
            ));
        }
        if self.experiment.as_ref().is_some_and(|name| name.is_empty() || name.chars().count() > 500) {
            return Err("`experiment` must have from 1 to 500 characters".to_owned());
        }
        let server = Server::new(&self.uri, environment)?;
        let place = format!("MLflow at {}", server.address());
        let user = environment("USER").or_else(|| environment("LOGNAME"));
        Ok(Box::new(Mlflow { config: self.clone(), server, place, pace: Pace { every, wait }, user, known: None }))
    }
}

fn is_ours(tag: &str) -> bool {
    tag.starts_with("reverie.") || tag.starts_with("mlflow.")
}

struct Mlflow {
    config: Config,
    server: Server,
    place: String,
    pace: Pace,
    user: Option<String>,
    /// What the server has; none if the tracker must ask.
    known: Option<Known>,
}

#[async_trait]
impl Tracker for Mlflow {
    fn place(&self) -> &str {
        &self.place
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn sync(&mut self, view: &View) -> Result<Vec<String>, Failure> {
        if view.started_ms == 0 {
            return Ok(Vec::new());
        }
        let mut known = match self.known.take() {
            Some(known) => known,
            None => self.look(view).await?,
        };
        // What the server has is only certain after the server accepted everything.
        let mut notes = self.bring(view, &mut known).await?;
        self.known = Some(known);
        notes.extend(self.server.exposed_secret());
        Ok(notes)
    }
}

impl Mlflow {
    /// Asks the server what it has of a run.
    async fn look(&self, view: &View) -> Result<Known, Failure> {
        let name = self.config.experiment.as_ref().unwrap_or(&view.experiment.name);
        let experiment = self.server.experiment(name).await?;
        let mut known = Known { experiment, parent: None, trials: BTreeMap::new() };
        let filter = format!("tags.`{}` = '{}'", content::RUN, view.run);
        let mut runs = self.server.runs(&known.experiment, &filter).await?;
        // A run may be there twice, if the server took longer to create it than
        // we waited. The first one is kept.
        runs.sort_by_key(|run| (run.is_empty(), run.start_ms));
        for run in runs {
            let place = match run.tags.get(content::TRIAL).cloned() {
                None => &mut known.parent,
                Some(trial) => known.trials.entry(trial).or_default(),
            };
            match place {
                None => *place = Some(run),
                Some(_) if run.is_empty() => {
                    self.server.post("runs/delete", &json!({ "run_id": run.id })).await.map(drop)?
                }
                Some(_) => {}
            }
        }
        Ok(known)
    }

    async fn bring(&self, view: &View, known: &mut Known) -> Result<Vec<String>, Failure> {
        let (tags, user) = (&self.config.tags, self.user.as_deref());
        let wanted = content::parent(view, tags, user);
        let mut parent = self.ensure(&known.experiment, known.parent.take(), &wanted).await?;
        let mut trials = Vec::new();
        for trial in content::shown_trials(view) {
            let wanted = content::trial(view, trial, &parent.id, tags, user);
            trials.push((trial.id.clone(), known.trials.remove(&trial.id).flatten(), wanted));
        }
        let experiment = known.experiment.as_str();
        let brought = stream::iter(trials).map(|(id, before, wanted)| async move {
            let mut run = self.ensure(experiment, before, &wanted).await?;
            self.settle(&mut run, &wanted).await?;
            Ok((id, run))
        });
        let brought: Vec<Result<(String, Current), Failure>> = brought.buffer_unordered(AT_ONCE).collect().await;
        let mut failed = None;
        for result in brought {
            match result {
                Ok((id, run)) => _ = known.trials.insert(id, Some(run)),
                Err(failure) => failed = Some(failure),
            }
        }
        // The end of the run is sent last, so that whoever sees a finished run sees all of it.
        if failed.as_ref().is_none_or(|failure: &Failure| !failure.is_away()) {
            self.settle(&mut parent, &wanted).await?;
        }
        let lacks = parent.lacks.clone();
        known.parent = Some(parent);
        failed.map_or(Ok(lacks.into_iter().collect()), Err)
    }

    /// Brings one MLflow run to its wanted state, and returns its state
    /// afterwards.
    async fn ensure(&self, experiment: &str, before: Option<Current>, wanted: &Wanted) -> Result<Current, Failure> {
        let mut run = match before {
            Some(run) => run,
            None => self.server.create(experiment, wanted).await?,
        };
        // Files are sent before the tag that says they are there.
        self.upload(&mut run, wanted).await?;
        for batch in run.missing(wanted) {
            self.server.post("runs/log-batch", &batch).await?;
        }
        for key in run.outdated(wanted) {
            // Somebody else may have removed the tag in the meantime.
            match self.server.post("runs/delete-tag", &json!({ "run_id": run.id, "key": key })).await {
                Ok(_) | Err(Failure::Refused(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        let inputs = run.missing_inputs(wanted);
        if !inputs.is_empty() {
            self.server.post("runs/log-inputs", &json!({ "run_id": run.id, "datasets": inputs })).await?;
        }
        run.took(wanted);
        Ok(run)
    }

    /// Tells the server whether a run goes on or how it ended.
    async fn settle(&self, run: &mut Current, wanted: &Wanted) -> Result<(), Failure> {
        if run.status == wanted.status {
            return Ok(());
        }
        let mut body = json!({ "run_id": run.id, "status": wanted.status });
        if let Some(end_ms) = wanted.end_ms {
            body["end_time"] = json!(end_ms);
        }
        self.server.post("runs/update", &body).await?;
        run.status = wanted.status.to_owned();
        Ok(())
    }

    /// Sends the files whose content the server does not have yet.
    async fn upload(&self, run: &mut Current, wanted: &Wanted) -> Result<(), Failure> {
        let missing = run.missing_files(wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let address = match Address::of(&run.artifacts, self.server.address()) {
            Ok(address) => address,
            Err(reason) => {
                run.lacks = Some(reason);
                return Ok(());
            }
        };
        for file in missing {
            self.server.put(&address.file(&file.name), file).await?;
        }
        Ok(())
    }
}

/// A text, or a number as text; null becomes the empty text.
fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn build(config: Config) -> Result<String, String> {
        let nothing: Environment = Arc::new(|_| None);
        config.build(&nothing).map(|tracker| tracker.place().to_owned())
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            build(config)
        };
        assert_eq!(build(Config::default()).as_deref(), Ok("MLflow at http://127.0.0.1:5000"));
        for (change, part) in [
            ((|config| config.uri = "sqlite:///x".to_owned()) as fn(&mut Config), "http:// or https://"),
            (|config| config.uri = "http://me:secret@host".to_owned(), "MLFLOW_TRACKING_PASSWORD"),
            (|config| config.wait_seconds = f64::NAN, "`wait_seconds`"),
            (|config| config.every_seconds = 0.0, "`every_seconds`"),
            (|config| config.tags = BTreeMap::from([("a@b".to_owned(), String::new())]), "`a@b`"),
            (|config| config.tags = BTreeMap::from([("reverie.run".to_owned(), String::new())]), "`reverie.run`"),
            (|config| config.experiment = Some(String::new()), "`experiment`"),
        ] {
            let reason = with(change).expect_err(part);
            assert!(reason.contains(part) && !reason.contains("secret@"), "{reason}");
        }
    }
}
