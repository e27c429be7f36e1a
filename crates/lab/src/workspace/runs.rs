//! A run's folder. It is written on this machine, and where the store is an object store it is
//! copied there when the run ends, so every machine shows the same leaderboard.
//!
//! Files of `runs/<run>/` and `runs/<name>.latest` may be replaced: runs are identified by their
//! plan, so a plan that runs again has the same folder.

use super::Workspace;
use crate::{
    Error,
    layout::{self, RunFileName},
    results::named_row_files,
    run_summary::RunHead,
    steering::{Act, post_act},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use store::{ArtifactStore, EventLog};

/// Whether the id of a run of an experiment is or begins with `asked`, with or without the experiment's name.
pub fn run_begins_with(run: &str, experiment: &str, asked: &str) -> bool {
    let short = run.strip_prefix(experiment).and_then(|rest| rest.strip_prefix('-'));
    !asked.is_empty() && (run.starts_with(asked) || short.is_some_and(|short| short.starts_with(asked)))
}

/// Parts of a report that are copied to an object store at once.
const COPIES_AT_ONCE: usize = 8;

/// A run that finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRun {
    /// The experiment's name.
    pub experiment: String,
    /// The run's id.
    pub run: String,
    /// When it finished, in milliseconds since 1970.
    pub time_ms: i64,
    /// What the command line replaced in the experiment file; empty for a run
    /// of what the file says.
    #[serde(default)]
    pub overrides: Vec<String>,
}

/// How a run was started: the parts of its provenance that are read without the rest, in which earlier versions list all
/// documents.
#[derive(Deserialize)]
pub(crate) struct RunStart {
    /// What the command line replaced in the experiment file.
    #[serde(default)]
    pub(crate) overrides: Vec<String>,
    /// The experiment file.
    #[serde(default)]
    pub(crate) file: Option<String>,
    /// Which state of the corpus was read.
    #[serde(default)]
    pub(crate) corpus: Option<StartedCorpus>,
}

/// The state of the corpus that a run has read.
#[derive(Deserialize)]
pub(crate) struct StartedCorpus {
    pub(crate) version: String,
}

impl RunStart {
    /// Reads it in a run's folder; none if it is not there, or cannot be read.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(RunFileName::Frozen.within(folder)).ok()?).ok()
    }
}

impl Workspace {
    /// The finished runs on this machine, of all experiments; the last comes first.
    ///
    /// # Errors
    /// If the folder cannot be read. A run whose results cannot be read is left out.
    pub fn past_runs(&self) -> Result<Vec<PastRun>, Error> {
        let folder = layout::runs_folder(&self.root);
        let entries = Error::allow_missing(&folder, std::fs::read_dir(&folder))?;
        let read = |folder: PathBuf| {
            let run = read_finished_run(&folder)?;
            let overrides = RunStart::read(&folder).map(|start| start.overrides).unwrap_or_default();
            Some(PastRun { overrides, ..run })
        };
        let mut runs: Vec<PastRun> =
            entries.into_iter().flatten().flatten().filter_map(|entry| read(entry.path())).collect();
        runs.sort_by(|a, b| b.time_ms.cmp(&a.time_ms).then_with(|| a.run.cmp(&b.run)));
        Ok(runs)
    }

    /// Posts an act for a run that goes on. Returns its number.
    ///
    /// # Errors
    /// If the act's numbers are wrong, if no process is at work on the run, or if the store cannot be written to.
    pub async fn post_act(&self, run: &str, by: &str, act: Act) -> Result<u64, Error> {
        post_act(&self.store, run, by, act).await
    }

    /// The folder of a run on this machine.
    pub fn run_folder(&self, run: &str) -> PathBuf {
        layout::run_folder(&self.root, run)
    }

    /// Writes a file into a run's folder on this machine, with its checksum.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn write_run_file(&self, run: &str, file: RunFileName, bytes: impl Into<Vec<u8>>) -> Result<(), Error> {
        let bytes: Vec<u8> = bytes.into();
        Ok(self.local.replace(&layout::run_file(run, file), bytes).await?)
    }

    /// Moves a file that lies beside it into the place of a run's file on this machine, with its checksum.
    pub(crate) async fn replace_run_file(&self, run: &str, file: RunFileName, written: &Path) -> Result<(), Error> {
        Ok(self.local.replace_with_file(&layout::run_file(run, file), written).await?)
    }

    /// Writes the report of a run on this machine: the page, and the files of
    /// the folder of its parts. Files that an earlier report left in that folder
    /// are removed. The page comes last, so that it is never newer than its parts.
    ///
    /// # Errors
    /// If something cannot be written or removed.
    pub async fn write_report(&self, run: &str, page: String, parts: Vec<(String, String)>) -> Result<(), Error> {
        let names = parts.iter().map(|(name, _)| layout::report_part(run, name)).collect();
        for (name, text) in parts {
            self.local.replace(&layout::report_part(run, &name), text).await?;
        }
        remove_other_parts(&self.local, run, &names).await?;
        self.write_run_file(run, RunFileName::Report, page).await
    }

    /// Copies the report of a run to the store, if that is elsewhere and the run
    /// has a report on this machine.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn publish_report(&self, run: &str) -> Result<(), Error> {
        if !self.store.is_remote() {
            return Ok(());
        }
        let names = self.local.list(&layout::report_parts_of(run)).await?;
        let copies = names.iter().map(|name| async move {
            match self.local.get(name).await? {
                Some(bytes) => self.store.replace(name, bytes).await,
                None => Ok(()),
            }
        });
        futures::stream::iter(copies).buffer_unordered(COPIES_AT_ONCE).try_collect::<()>().await?;
        remove_other_parts(&self.store, run, &names.into_iter().collect()).await?;
        self.publish_file(run, RunFileName::Report).await
    }

    /// Opens a run's event log, in a folder that may be written to.
    pub(crate) fn event_log(&self, run: &str) -> Result<EventLog, Error> {
        let folder = layout::run_folder(self.writable_folder(), run);
        std::fs::create_dir_all(&folder).map_err(|source| Error::file("create", &folder, source))?;
        Ok(EventLog::open(RunFileName::Events.within(&folder))?)
    }

    /// Records on this machine that a run is its experiment's last one.
    pub(crate) async fn point_to(&self, experiment: &str, run: &str) -> Result<(), Error> {
        Ok(self.local.replace(&layout::latest(experiment), run.to_owned()).await?)
    }

    /// The id of the last finished run of an experiment, as this machine knows it.
    pub(crate) fn last_here(&self, experiment: &str) -> Option<String> {
        let pointer = self.root.join(layout::latest(experiment));
        Some(std::fs::read_to_string(pointer).ok()?.trim().to_owned())
    }

    /// The id of the one finished run of an experiment whose id is or begins with `asked`, with or
    /// without the experiment's name. A run of another machine, in an object store, is found by its
    /// whole id only.
    ///
    /// # Errors
    /// If there is none, or several begin so.
    pub(crate) async fn find_run(&self, experiment: &str, asked: &str) -> Result<String, Error> {
        let of_experiment = |run: &PastRun| run.experiment == experiment;
        let known: Vec<String> = self.past_runs()?.into_iter().filter(of_experiment).map(|run| run.run).collect();
        let found: Vec<&String> = known.iter().filter(|run| run_begins_with(run, experiment, asked)).collect();
        let run = match (known.iter().find(|run| *run == asked), &found[..]) {
            (Some(run), _) => run.clone(),
            (None, [run]) => (*run).clone(),
            (None, []) if self.store.is_remote() && self.fetch_run(experiment, asked).await? => asked.to_owned(),
            (None, []) => {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Error::NotFound(format!(
                    "`{experiment}` has no finished run `{asked}`; there are {known}"
                )));
            }
            (None, several) => {
                let several: Vec<&str> = several.iter().map(|run| run.as_str()).collect();
                let several = several.join(", ");
                return Err(Error::NotFound(format!(
                    "several runs begin with `{asked}`: {several}; write more of one"
                )));
            }
        };
        for file in [RunFileName::Summary, RunFileName::Frozen] {
            self.check_run_file(&run, file).await?;
        }
        Ok(run)
    }

    /// Brings a run's files to this machine, if the store has them.
    async fn fetch_run(&self, experiment: &str, run: &str) -> Result<bool, Error> {
        let is_name = run.starts_with(experiment) && run.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if !is_name {
            return Ok(false);
        }
        let Some(results) = self.store.get(&layout::run_file(run, RunFileName::Results)).await? else {
            return Ok(false);
        };
        self.fetch_rows(run, &results).await?;
        for file in [RunFileName::Experiment, RunFileName::Documents, RunFileName::Frozen, RunFileName::Summary] {
            if let Some(bytes) = self.store.get(&layout::run_file(run, file)).await? {
                self.write_run_file(run, file, bytes).await?;
            }
        }
        self.write_results(run, results).await?;
        Ok(true)
    }

    /// Writes results that were fetched, after everything else.
    async fn write_results(&self, run: &str, results: Bytes) -> Result<(), Error> {
        let files = named_row_files(&results);
        self.write_run_file(run, RunFileName::Results, results).await?;
        self.remove_other_rows(run, &files).await
    }

    /// Brings an experiment's last finished run to this machine; returns its id.
    pub(crate) async fn latest_run(&self, experiment: &str) -> Result<String, Error> {
        self.fetch_latest(experiment).await?;
        let run = self.last_here(experiment).ok_or_else(|| {
            let (experiment, place) = (experiment.to_owned(), self.store.location().to_string());
            Error::NoRun { experiment, what: "finished run", place }
        })?;
        // The results are compared with their checksum where they are read.
        for file in [RunFileName::Summary, RunFileName::Frozen] {
            self.check_run_file(&run, file).await?;
        }
        Ok(run)
    }

    /// Compares a file of a run's folder with its checksum.
    ///
    /// # Errors
    /// If it is not what was written.
    pub(crate) async fn check_run_file(&self, run: &str, file: RunFileName) -> Result<(), Error> {
        self.local.check(&layout::run_file(run, file)).await?;
        Ok(())
    }

    /// Sends the journal's new calls to the store, if that is elsewhere. Returns how many calls
    /// could not be sent, and why.
    pub(crate) async fn send_calls(&self) -> Result<(u64, Option<String>), Error> {
        if !self.store.is_remote() {
            return Ok((0, None));
        }
        let unsent = match self.journal.flush().await {
            Ok(unsent) => unsent,
            Err(_) => self.journal.n_unsent()?,
        };
        Ok((unsent, self.journal.problem()))
    }

    /// Copies a run's folder to the store, if that is elsewhere, and says there
    /// that it is the experiment's last run.
    pub(crate) async fn publish(&self, experiment: &str, run: &str) -> Result<(), Error> {
        if !self.store.is_remote() {
            return Ok(());
        }
        for file in RunFileName::ALL {
            match file {
                RunFileName::Report => self.publish_report(run).await?,
                RunFileName::Results => self.publish_results(run).await?,
                _ => self.publish_file(run, file).await?,
            }
        }
        // It is written last, so that all files of the run are there once the run is named.
        Ok(self.store.replace(&layout::latest(experiment), run.to_owned()).await?)
    }

    /// Copies a file of a run's folder to the store, if that is elsewhere and
    /// there is such a file.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn publish_file(&self, run: &str, file: RunFileName) -> Result<(), Error> {
        if !self.store.is_remote() {
            return Ok(());
        }
        let path = file.within(&self.run_folder(run));
        if let Some(bytes) = Error::allow_missing(&path, std::fs::read(&path))? {
            self.store.replace(&layout::run_file(run, file), bytes).await?;
        }
        Ok(())
    }

    /// A file of a run, from the store.
    async fn stored_file(&self, run: &str, file: RunFileName) -> Result<Option<Bytes>, Error> {
        Ok(self.store.get(&layout::run_file(run, file)).await?)
    }

    /// Brings the last run's results and experiment to this machine, if the
    /// store is elsewhere and knows of one.
    async fn fetch_latest(&self, experiment: &str) -> Result<(), Error> {
        if !self.store.is_remote() {
            return Ok(());
        }
        self.store.probe().await?;
        let pointer = layout::latest(experiment);
        let Some(run) = self.store.get(&pointer).await? else { return Ok(()) };
        let run = String::from_utf8_lossy(&run).trim().to_owned();
        let summary = self.stored_file(&run, RunFileName::Summary).await?;
        let head = summary.as_deref().and_then(RunHead::read);
        let results = match &head {
            Some(_) => None,
            // Earlier versions of this program wrote no summary.
            None => self.stored_file(&run, RunFileName::Results).await?,
        };
        let theirs_ms = head.as_ref().map_or_else(|| finished_ms(results.as_deref()), |head| Some(head.time_ms));
        if let Some(ours) = self.last_here(experiment) {
            // A run of this machine that could not be copied there is the newer one.
            let ours = self.run_folder(&ours);
            let in_results = || finished_ms(std::fs::read(RunFileName::Results.within(&ours)).ok().as_deref());
            if RunHead::of_folder(&ours).map(|head| head.time_ms).or_else(in_results) > theirs_ms {
                return Ok(());
            }
        }
        // The results, whose rows are large, are fetched once.
        if head.is_none() || RunHead::of_folder(&self.run_folder(&run)) != head {
            for file in [RunFileName::Experiment, RunFileName::Documents, RunFileName::Frozen] {
                if let Some(bytes) = self.stored_file(&run, file).await? {
                    self.write_run_file(&run, file, bytes).await?;
                }
            }
            let results = match results {
                None => self.stored_file(&run, RunFileName::Results).await?,
                here => here,
            };
            if let Some(results) = &results {
                self.fetch_rows(&run, results).await?;
            }
            if let Some(summary) = summary {
                self.write_run_file(&run, RunFileName::Summary, summary).await?;
            }
            if let Some(results) = results {
                self.write_results(&run, results).await?;
            }
        }
        self.point_to(experiment, &run).await
    }
}

/// The finished run in a folder, without what the command line replaced; none
/// if it cannot be read.
fn read_finished_run(folder: &Path) -> Option<PastRun> {
    match RunHead::of_folder(folder) {
        Some(head) => Some(PastRun {
            experiment: head.experiment().to_owned(),
            run: head.run().to_owned(),
            time_ms: head.time_ms,
            overrides: Vec::new(),
        }),
        // Earlier versions of this program wrote no summary.
        None => serde_json::from_slice(&std::fs::read(RunFileName::Results.within(folder)).ok()?).ok(),
    }
}

/// Removes the parts of an earlier report of a run.
async fn remove_other_parts(store: &ArtifactStore, run: &str, names: &BTreeSet<String>) -> Result<(), Error> {
    for name in store.list(&layout::report_parts_of(run)).await? {
        if !names.contains(&name) {
            store.remove(&name).await?;
        }
    }
    Ok(())
}

/// When a run finished, by its results; none if they are unreadable.
fn finished_ms(results: Option<&[u8]>) -> Option<i64> {
    #[derive(Deserialize)]
    struct Finished {
        time_ms: i64,
    }
    serde_json::from_slice::<Finished>(results?).ok().map(|finished| finished.time_ms)
}
