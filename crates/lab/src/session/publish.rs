//! A run's folder in the store. It is written on this machine, and where the
//! store is an object store it is copied there when the run ends: every
//! machine shows the same leaderboard, whoever ran.
//!
//! `runs/<run>/` and `runs/<name>.latest` are the only names that are written
//! more than once: the same plan is the same run.

use super::{Prepared, Session};
use crate::{
    Error,
    engine::Outcome,
    layout::{self, RunFile},
};
use store::upkeep::RunArtifacts;

impl Session {
    /// Finds out whether the store can be used, and sends it what an earlier
    /// run could not.
    pub(super) async fn reach_store(&self) -> Result<(), Error> {
        match self.store.probe().await {
            Err(error @ store::Error::Access { .. }) => return Err(Error::Refused(vec![error.to_string()])),
            probed => probed?,
        }
        // What cannot be sent stays where it is, and the run's end tells.
        let _ = self.journal.flush().await;
        Ok(())
    }

    /// Notes which artifacts a run's results come from, and copies its folder
    /// to the store, if that is elsewhere.
    pub(super) async fn publish(&self, prepared: &Prepared, outcome: &Outcome) -> Result<(), Error> {
        let planned = prepared.plan.tasks.iter().map(crate::Task::artifact);
        let made = outcome.outputs.values().filter(|name| layout::is_artifact(name)).cloned();
        let list = RunArtifacts::new(planned.chain(made));
        let bytes = serde_json::to_vec(&list).map_err(Error::table)?;
        self.write_run_file(&prepared.run, RunFile::Artifacts, bytes).await?;
        if !self.store.is_remote() {
            return Ok(());
        }
        let unsent = match self.journal.flush().await {
            Ok(unsent) => unsent,
            Err(_) => self.journal.n_unsent()?,
        };
        if unsent > 0 {
            let fields = serde_json::json!({ "entries": unsent, "reason": self.journal.problem() });
            prepared.execution.log("journal_unsent", fields);
        }
        for file in RunFile::ALL {
            self.publish_file(&prepared.run, file).await?;
        }
        // Last: whoever finds the run finds all of it.
        let pointer = layout::latest(&self.experiment.name);
        Ok(self.store.replace(&pointer, prepared.run.clone()).await?)
    }

    /// Copies a file of a run's folder to the store, if that is elsewhere and
    /// there is such a file.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn publish_file(&self, run: &str, file: RunFile) -> Result<(), Error> {
        if !self.store.is_remote() {
            return Ok(());
        }
        let path = file.within(&self.run_folder(run));
        match std::fs::read(&path) {
            Ok(bytes) => Ok(self.store.replace(&layout::run_file(run, file), bytes).await?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(Error::file("read", &path, source)),
        }
    }

    /// Brings the last run's results and experiment to this machine, if the
    /// store is elsewhere and knows of one.
    pub(super) async fn fetch_latest(&self) -> Result<(), Error> {
        if !self.store.is_remote() {
            return Ok(());
        }
        self.store.probe().await?;
        let pointer = layout::latest(&self.experiment.name);
        let Some(run) = self.store.get(&pointer).await? else { return Ok(()) };
        let run = String::from_utf8_lossy(&run).trim().to_owned();
        // A run of this machine that could not be copied there is the newer one.
        let theirs = self.store.get(&layout::run_file(&run, RunFile::Results)).await?;
        if let Some(ours) = self.local.get(&pointer).await? {
            let ours = layout::run_file(String::from_utf8_lossy(&ours).trim(), RunFile::Results);
            let ours = self.local.get(&ours).await?;
            if finished_ms(ours.as_deref()) > finished_ms(theirs.as_deref()) {
                return Ok(());
            }
        }
        for file in [RunFile::Experiment, RunFile::Frozen] {
            if let Some(bytes) = self.store.get(&layout::run_file(&run, file)).await? {
                self.write_run_file(&run, file, bytes).await?;
            }
        }
        if let Some(bytes) = theirs {
            self.write_run_file(&run, RunFile::Results, bytes).await?;
        }
        Ok(self.local.replace(&pointer, run).await?)
    }
}

/// When a run finished, by its results; none of what cannot be read.
fn finished_ms(results: Option<&[u8]>) -> Option<i64> {
    #[derive(serde::Deserialize)]
    struct Finished {
        time_ms: i64,
    }
    serde_json::from_slice::<Finished>(results?).ok().map(|finished| finished.time_ms)
}
