//! Where an experiment's data is kept: artifacts and model calls in the store, and what must be on
//! a local disk in a folder. It is opened to be written, or only to be read.

mod claimed;
mod runs;
mod trial_rows;

pub use runs::{PastRun, run_begins_with};

pub(crate) use claimed::ClaimedArtifacts;
pub(crate) use runs::RunStart;

use crate::{Error, Setup, layout, layout::LAYOUT, spec::Experiment};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{ArtifactStore, Journal, SharedJournal};

/// Where an experiment's things are kept. Clones are the same workspace.
#[derive(Clone)]
pub struct Workspace {
    /// The folder for what must be on a local disk.
    root: PathBuf,
    /// The folder that takes everything that is written, if the workspace was opened only to be
    /// read. Like `root`, it has a subfolder for scratch files: [`Workspace::scratch_folder`].
    overlay: Option<PathBuf>,
    /// Artifacts.
    store: ArtifactStore,
    /// The root as a store: the files of runs on this machine.
    local: ArtifactStore,
    /// Model calls.
    journal: SharedJournal,
}

impl Workspace {
    /// Opens everything, and makes what is missing.
    pub(crate) fn open(experiment: &Experiment, setup: &Setup) -> Result<Self, Error> {
        let root = setup
            .cluster
            .local_folder
            .clone()
            .filter(|_| store::is_url(&experiment.store))
            .unwrap_or_else(|| root(experiment));
        let store = ArtifactStore::open(&Self::address(experiment), &setup.store_options, LAYOUT)?;
        std::fs::create_dir_all(&root).map_err(|source| Error::file("create", &root, source))?;
        let journal = Arc::new(Journal::open(root.join(Journal::FILE))?);
        let (local, journal) = if store.is_remote() {
            let local = ArtifactStore::open(&root.to_string_lossy(), &[], LAYOUT)?;
            (local, SharedJournal::new(journal, store.clone()))
        } else {
            (store.clone(), SharedJournal::from(journal))
        };
        Ok(Self { root, overlay: None, store, local, journal })
    }

    /// Opens everything to be read; what is written goes into `overlay`.
    pub(crate) fn open_to_read(experiment: &Experiment, setup: &Setup, overlay: &Path) -> Result<Self, Error> {
        let kept = Self::journal_path(experiment);
        let kept = kept.is_file().then(|| Journal::open_to_read(&kept)).transpose()?;
        Self::open_with(experiment, setup, overlay, kept)
    }

    /// Opens the store of a bundle to be read. A bundle has no journal, so a file of that name in its folder is not the
    /// bundle's, and is not opened: it could be a pipe, or a link to another file.
    pub(crate) fn open_bundle(experiment: &Experiment, setup: &Setup, overlay: &Path) -> Result<Self, Error> {
        Self::open_with(experiment, setup, overlay, None)
    }

    fn open_with(experiment: &Experiment, setup: &Setup, overlay: &Path, kept: Option<Journal>) -> Result<Self, Error> {
        let home = root(experiment);
        if !store::is_url(&experiment.store) && !home.is_dir() {
            let (experiment, place) = (experiment.name.clone(), home.display().to_string());
            return Err(Error::NoRun { experiment, what: "finished run", place });
        }
        let base = ArtifactStore::open_to_read(&Self::address(experiment), &setup.store_options, LAYOUT)?;
        let written = Arc::new(Journal::open(overlay.join(Journal::FILE))?);
        let journal = SharedJournal::to_read(written, kept, base.is_remote().then(|| base.clone()));
        let store = base.with_scratch(&overlay.join("store"))?;
        let (root, local) = if base.is_remote() {
            let root = overlay.join("local");
            let local = ArtifactStore::open(&root.to_string_lossy(), &[], LAYOUT)?;
            (root, local)
        } else {
            (home, store.clone())
        };
        Ok(Self { root, overlay: Some(overlay.to_owned()), store, local, journal })
    }

    /// Where an experiment's store is: a folder or a URL.
    pub fn address(experiment: &Experiment) -> String {
        if store::is_url(&experiment.store) { experiment.store.clone() } else { root(experiment).display().to_string() }
    }

    /// Where an experiment's journal of model calls is.
    pub fn journal_path(experiment: &Experiment) -> PathBuf {
        root(experiment).join(Journal::FILE)
    }

    /// Whether it was opened to be read.
    pub fn is_reading(&self) -> bool {
        self.overlay.is_some()
    }

    /// The journal of model calls; machines share it if the store is an object
    /// store.
    pub fn journal(&self) -> &SharedJournal {
        &self.journal
    }

    /// Where artifacts are.
    pub(crate) fn store(&self) -> &ArtifactStore {
        &self.store
    }

    /// The files of this machine: the store itself unless that is an object store.
    pub(crate) fn local(&self) -> &ArtifactStore {
        &self.local
    }

    /// The folder for what must be on a local disk.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of files that are of no use later, inside the folder that may be written to.
    pub(crate) fn scratch_folder(&self) -> PathBuf {
        layout::scratch_folder(self.writable_folder())
    }

    /// The folder that may be written to.
    fn writable_folder(&self) -> &Path {
        self.overlay.as_deref().unwrap_or(&self.root)
    }

    /// Keeps the qualification of a judge, which every machine may need: in the store, and here if the store is
    /// elsewhere.
    pub(crate) async fn keep_qualification(&self, name: &str, bytes: Vec<u8>) -> Result<(), Error> {
        self.local.replace(name, bytes.clone()).await?;
        if self.store.is_remote() {
            self.store.replace(name, bytes).await?;
        }
        Ok(())
    }

    /// The versions of a judge's qualification: that of this machine, and that of the store if
    /// it is elsewhere.
    pub(crate) async fn qualifications(&self, name: &str) -> Result<Vec<bytes::Bytes>, Error> {
        let mut found = Vec::from_iter(self.local.get(name).await?);
        if self.store.is_remote() {
            found.extend(self.store.get(name).await?);
        }
        Ok(found)
    }

    /// Finds out whether the store can be used, and sends it what an earlier
    /// run could not.
    pub(crate) async fn probe_and_flush(&self) -> Result<(), Error> {
        match self.store.probe().await {
            Err(error @ store::Error::Access { .. }) => return Err(Error::Refused(vec![error.to_string()])),
            probed => probed?,
        }
        // What cannot be sent stays here, and is reported at the end of the run.
        let _ = self.journal.flush().await;
        Ok(())
    }
}

/// The folder for what must be on a local disk: the store itself unless it is
/// an object store.
fn root(experiment: &Experiment) -> PathBuf {
    if store::is_url(&experiment.store) { experiment.path(".reverie") } else { experiment.path(&experiment.store) }
}

#[cfg(test)]
mod tests;
