//! Shows runs in MLflow. Its settings stand in `spec/track/mlflow.rs`.

mod content;
mod files;
mod rest;
mod state;

use super::{RunView, Tracker, TrackerError, TrackerOpenError};
use crate::spec::{MlflowConfig, Pace};
use async_trait::async_trait;
use content::WantedRun;
use futures::{StreamExt, stream};
use models::provider::Environment;
use rest::{Address, Server};
use serde_json::json;
use state::{ServerRun, ServerState};
use std::collections::BTreeMap;

/// Trials that are updated side by side.
const AT_ONCE: usize = 8;

/// Opens the tracker of these settings.
pub(super) fn open(
    config: &MlflowConfig,
    pace: Pace,
    environment: &Environment,
) -> Result<Box<dyn Tracker>, TrackerOpenError> {
    let server = Server::new(config.address()?, environment)?;
    let place = format!("MLflow at {}", server.address());
    let user = environment("USER").or_else(|| environment("LOGNAME"));
    Ok(Box::new(Mlflow { config: config.clone(), server, place, pace, user, known: None }))
}

struct Mlflow {
    config: MlflowConfig,
    server: Server,
    place: String,
    pace: Pace,
    user: Option<String>,
    /// What the server has; none if the tracker must ask.
    known: Option<ServerState>,
}

#[async_trait]
impl Tracker for Mlflow {
    fn place(&self) -> &str {
        &self.place
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn sync(&mut self, view: &RunView) -> Result<Vec<String>, TrackerError> {
        if view.started_ms == 0 {
            return Ok(Vec::new());
        }
        let mut known = match self.known.take() {
            Some(known) => known,
            None => self.look(view).await?,
        };
        // What the server has is only certain after the server accepted everything.
        let mut notes = self.update(view, &mut known).await?;
        self.known = Some(known);
        notes.extend(self.server.exposed_secret());
        Ok(notes)
    }
}

impl Mlflow {
    /// Asks the server what it has of a run.
    async fn look(&self, view: &RunView) -> Result<ServerState, TrackerError> {
        let name = self.config.experiment.as_ref().unwrap_or(&view.experiment.name);
        let experiment = self.server.experiment(name).await?;
        let mut known = ServerState { experiment, parent: None, trials: BTreeMap::new() };
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

    async fn update(&self, view: &RunView, known: &mut ServerState) -> Result<Vec<String>, TrackerError> {
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
            self.send_status(&mut run, &wanted).await?;
            Ok((id, run))
        });
        let brought: Vec<Result<(String, ServerRun), TrackerError>> = brought.buffer_unordered(AT_ONCE).collect().await;
        let mut failed = None;
        for result in brought {
            match result {
                Ok((id, run)) => _ = known.trials.insert(id, Some(run)),
                Err(failure) => failed = Some(failure),
            }
        }
        // The end of the run is sent last, so that a finished run is complete on the server.
        if failed.as_ref().is_none_or(|failure: &TrackerError| !failure.is_away()) {
            self.send_status(&mut parent, &wanted).await?;
        }
        let reason = parent.no_upload_reason.clone();
        known.parent = Some(parent);
        failed.map_or(Ok(reason.into_iter().collect()), Err)
    }

    /// Brings one MLflow run to its wanted state, and returns its state
    /// afterwards.
    async fn ensure(
        &self,
        experiment: &str,
        before: Option<ServerRun>,
        wanted: &WantedRun,
    ) -> Result<ServerRun, TrackerError> {
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
                Ok(_) | Err(TrackerError::Refused(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        let inputs = run.missing_inputs(wanted);
        if !inputs.is_empty() {
            self.server.post("runs/log-inputs", &json!({ "run_id": run.id, "datasets": inputs })).await?;
        }
        run.accept(wanted);
        Ok(run)
    }

    /// Tells the server whether a run goes on or how it ended.
    async fn send_status(&self, run: &mut ServerRun, wanted: &WantedRun) -> Result<(), TrackerError> {
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
    async fn upload(&self, run: &mut ServerRun, wanted: &WantedRun) -> Result<(), TrackerError> {
        let missing = run.missing_files(wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let address = match Address::of(&run.artifacts, self.server.address()) {
            Ok(address) => address,
            Err(reason) => {
                run.no_upload_reason = Some(reason.to_string());
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
