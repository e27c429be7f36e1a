//! The rows of a run's trials, each trial's in a file of its own. They are written trial by trial, before the
//! `results.json` that names them, and are copied before it in both directions: where it is, they are too. A run that
//! is repeated writes its rows into new files. The old files stay for an hour, because another process may be reading them,
//! or may be about to write results that name them.

use super::Workspace;
use crate::{
    Error,
    blocking::compute,
    clock::now_ms,
    layout::{self, RunFileName},
    results::{Results, TrialResult, named_row_files},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use std::{collections::BTreeSet, path::Path};
use store::ArtifactStore;

/// Files that are copied between this machine and an object store at once.
const COPIES_AT_ONCE: usize = 8;
/// How long a file of rows is kept that no results name.
const UNNAMED_MS: i64 = 3_600_000;

impl Workspace {
    /// Writes a trial's rows into a file of the run's folder. Returns the trial without their passages and long texts.
    pub(crate) async fn keep_rows(&self, run: &str, trial: TrialResult) -> Result<TrialResult, Error> {
        let (trial, bytes) = compute(move || trial.into_file()).await??;
        if let Some(rows) = &trial.rows {
            self.local.replace(&layout::trial_rows(run, &rows.file), bytes).await?;
        }
        Ok(trial)
    }

    /// Removes the rows of earlier results of a run on this machine, except those of the last hour.
    pub(crate) async fn remove_other_rows(&self, run: &str, files: &BTreeSet<String>) -> Result<(), Error> {
        remove_unnamed(&self.local, run, files, now_ms()).await
    }

    /// The results of a run whose folder is on this machine, with every passage of every trial.
    ///
    /// # Errors
    /// If they are not what was written, or cannot be read.
    pub async fn results(&self, run: &str) -> Result<Results, Error> {
        self.read_results(run, Results::read).await
    }

    /// The results of a run with the rows of one trial, if there is such a trial.
    pub(crate) async fn results_with_rows_of(&self, run: &str, trial: &str) -> Result<Results, Error> {
        self.read_results(run, |folder| Results::read_with_rows_of(folder, trial)).await
    }

    /// The results of a run without passages and long texts.
    pub(crate) async fn results_outline(&self, run: &str) -> Result<Results, Error> {
        self.read_results(run, Results::read_outline).await
    }

    /// The results of a run without rows.
    pub(crate) async fn results_head(&self, run: &str) -> Result<Results, Error> {
        self.read_results(run, Results::read_head).await
    }

    async fn read_results(
        &self,
        run: &str,
        read: impl FnOnce(&Path) -> Result<Results, Error>,
    ) -> Result<Results, Error> {
        self.check_run_file(run, RunFileName::Results).await?;
        if self.store.is_remote() {
            self.fetch_rows(run, &self.results_json(run)?.unwrap_or_default()).await?;
        }
        read(&self.run_folder(run))
    }

    /// Copies the results of a run to the store, which is elsewhere, and the files that they name before them.
    pub(super) async fn publish_results(&self, run: &str) -> Result<(), Error> {
        let Some(results) = self.results_json(run)? else { return Ok(()) };
        copy_rows(&self.local, &self.store, run, &named_row_files(&results)).await?;
        let name = layout::run_file(run, RunFileName::Results);
        self.store.replace(&name, results).await?;
        // Another machine may have replaced these results meanwhile, and names other files.
        let now = self.store.get(&name).await?.unwrap_or_default();
        remove_unnamed(&self.store, run, &named_row_files(&now), now_ms()).await
    }

    /// Brings the files to this machine that these results name, unless they are here. The store is elsewhere.
    pub(super) async fn fetch_rows(&self, run: &str, results: &[u8]) -> Result<(), Error> {
        let folder = self.run_folder(run);
        let mut files = named_row_files(results);
        files.retain(|file| !layout::trial_rows_within(&folder, file).is_file());
        copy_rows(&self.store, &self.local, run, &files).await
    }

    fn results_json(&self, run: &str) -> Result<Option<Bytes>, Error> {
        let path = RunFileName::Results.within(&self.run_folder(run));
        Ok(Error::allow_missing(&path, std::fs::read(&path))?.map(Bytes::from))
    }
}

async fn copy_file(from: &ArtifactStore, to: &ArtifactStore, name: String) -> Result<(), store::Error> {
    match from.get(&name).await? {
        Some(bytes) => to.replace(&name, bytes).await,
        None => Ok(()),
    }
}

/// Copies files of rows. One that is not there is left out: whoever reads it says so.
async fn copy_rows(from: &ArtifactStore, to: &ArtifactStore, run: &str, files: &BTreeSet<String>) -> Result<(), Error> {
    // Collected, because a stream over a closure with references cannot be sent between threads.
    let copies: Vec<_> = files.iter().map(|file| copy_file(from, to, layout::trial_rows(run, file))).collect();
    Ok(stream::iter(copies).buffer_unordered(COPIES_AT_ONCE).try_collect::<()>().await?)
}

/// Removes the files of rows of a run that are not among `files` and were written more than an hour before `now_ms`.
pub(super) async fn remove_unnamed(
    store: &ArtifactStore,
    run: &str,
    files: &BTreeSet<String>,
    now_ms: i64,
) -> Result<(), Error> {
    let named: BTreeSet<String> = files.iter().map(|file| layout::trial_rows(run, file)).collect();
    for object in store.objects(&layout::trial_rows_of(run)).await? {
        if !named.contains(&object.name) && object.modified_unix_ms < now_ms - UNNAMED_MS {
            store.remove(&object.name).await?;
        }
    }
    Ok(())
}
