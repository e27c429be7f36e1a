//! What a session keeps things in: opened to be written, or only to be read;
//! and what becomes of a plan whose inputs are damaged.

use super::{Prepared, Session, Setup, is_url, root};
use crate::{
    Error,
    engine::Outcome,
    layout::{self, LAYOUT, RunFile},
    plan::{Plan, TaskId},
    results::Results,
    spec::Experiment,
    task::Execution,
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{ArtifactStore, Journal, SharedJournal, upkeep::Claim};

/// A damaged artifact may be made of damaged ones: from an answer to its
/// documents there are as many steps.
const HEALINGS: usize = 8;

/// Where a session finds and keeps things.
pub(super) struct Kept {
    /// The folder for what must be on a local disk.
    pub(super) root: PathBuf,
    /// Where things are written that the root is not to have.
    pub(super) scratch: Option<PathBuf>,
    /// Artifacts.
    pub(super) store: ArtifactStore,
    /// The root as a store: the files of runs.
    pub(super) local: ArtifactStore,
    /// Model calls.
    pub(super) journal: SharedJournal,
}

impl Kept {
    /// Opens everything, and makes what is missing.
    pub(super) fn open(experiment: &Experiment, setup: &Setup) -> Result<Self, Error> {
        let root = setup.local_folder.clone().filter(|_| is_url(experiment)).unwrap_or_else(|| root(experiment));
        let store = ArtifactStore::open(&Session::store_address(experiment), &setup.store_options, LAYOUT)?;
        std::fs::create_dir_all(&root).map_err(|source| Error::file("create", &root, source))?;
        let journal = Arc::new(Journal::open(root.join(Journal::FILE))?);
        let (local, journal) = if store.is_remote() {
            let local = ArtifactStore::open(&root.to_string_lossy(), &[], LAYOUT)?;
            (local, SharedJournal::new(journal, store.clone()))
        } else {
            (store.clone(), SharedJournal::from(journal))
        };
        Ok(Self { root, scratch: None, store, local, journal })
    }

    /// Opens everything to be read; what is written goes into `scratch`.
    pub(super) fn open_to_read(experiment: &Experiment, setup: &Setup, scratch: &Path) -> Result<Self, Error> {
        let home = root(experiment);
        if !is_url(experiment) && !home.is_dir() {
            let (experiment, place) = (experiment.name.clone(), home.display().to_string());
            return Err(Error::NoRun { experiment, what: "finished run", place });
        }
        let base = ArtifactStore::open_to_read(&Session::store_address(experiment), &setup.store_options, LAYOUT)?;
        let kept = home.join(Journal::FILE);
        let kept = kept.is_file().then(|| Journal::open_to_read(&kept)).transpose()?;
        let written = Arc::new(Journal::open(scratch.join(Journal::FILE))?);
        let journal = SharedJournal::to_read(written, kept, base.is_remote().then(|| base.clone()));
        let store = base.with_scratch(&scratch.join("store"))?;
        let (root, local) = if base.is_remote() {
            let root = scratch.join("local");
            let local = ArtifactStore::open(&root.to_string_lossy(), &[], LAYOUT)?;
            (root, local)
        } else {
            (home, store.clone())
        };
        Ok(Self { root, scratch: Some(scratch.to_owned()), store, local, journal })
    }
}

impl Session {
    /// Opens an experiment's store to look at it: nothing in it is made or
    /// changed, so it may be a folder that cannot be written to. What is made
    /// on the way goes into `scratch`, a folder that the caller removes
    /// afterwards; paid answers are lost with it.
    ///
    /// # Errors
    /// [`Error::NoRun`] if there is no store; or it cannot be read.
    pub fn open_to_read(experiment: Experiment, setup: Setup, scratch: &Path) -> Result<Self, Error> {
        let kept = Kept::open_to_read(&experiment, &setup, scratch)?;
        Ok(Self::of(experiment, setup, kept))
    }

    /// Whether it was opened to be read.
    pub fn is_reading(&self) -> bool {
        self.scratch.is_some()
    }

    /// Where files may be written that are of no use later.
    pub(crate) fn workspace(&self) -> &Path {
        self.scratch.as_deref().unwrap_or(&self.root)
    }

    /// Writes a file into a run's folder on this machine, with its checksum.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn write_run_file(&self, run: &str, file: RunFile, bytes: impl Into<Vec<u8>>) -> Result<(), Error> {
        let bytes: Vec<u8> = bytes.into();
        Ok(self.local.replace(&layout::run_file(run, file), bytes).await?)
    }

    /// Compares a file of a run's folder on this machine with its checksum.
    ///
    /// # Errors
    /// If it is not what was written.
    pub(super) async fn check_run_file(&self, run: &str, file: RunFile) -> Result<(), Error> {
        self.local.check(&layout::run_file(run, file)).await?;
        Ok(())
    }

    /// Executes a plan. What turns out to be damaged or gone while something
    /// needs it is made again.
    pub(super) async fn execute(&self, plan: &Arc<Plan>, execution: &Arc<Execution>) -> Result<Outcome, Error> {
        self.claim(plan, execution).await?;
        let mut outcome = self.execute_once(plan, execution).await?;
        for _ in 0..HEALINGS {
            let lost = self.lost_inputs(plan, &outcome).await?;
            if lost.is_empty() {
                break;
            }
            execution.log("artifacts_lost", serde_json::json!({ "artifacts": lost }));
            // What lies beside it may be damaged too: all at once, not one each time.
            for id in outcome.failed.keys().flat_map(|&id| plan.tasks[id].inputs()) {
                self.look_at(&outcome, id).await;
            }
            let again = self.execute_once(plan, execution).await?;
            let (executed, repeated) = (outcome.executed + again.executed, outcome.repeated + again.repeated);
            outcome = Outcome { executed, repeated, ..again };
        }
        Ok(outcome)
    }

    /// Executes a plan and puts the results together. What turns out to be
    /// damaged when it is read is made again.
    pub(super) async fn execute_and_gather(&self, prepared: &Prepared) -> Result<(Outcome, Results), Error> {
        let mut executed = 0;
        for left in (0..HEALINGS).rev() {
            let mut outcome = self.execute(&prepared.plan, &prepared.execution).await?;
            outcome.executed += executed;
            match Results::gather(self, prepared, &outcome).await {
                Err(Error::Store(store::Error::Damaged { path, reason, fate })) if left > 0 && !self.is_reading() => {
                    let fields = serde_json::json!({ "artifacts": [path], "reason": format!("{reason}{fate}") });
                    prepared.execution.log("artifacts_lost", fields);
                    for id in prepared.plan.sinks() {
                        self.look_at(&outcome, id).await;
                    }
                    executed = outcome.executed;
                }
                gathered => return Ok((outcome, gathered?)),
            }
        }
        Err(Error::table("artifacts are damaged again and again: check the disk with `reverie store verify`"))
    }

    /// Compares a task's output with its checksum; one that is damaged is set
    /// aside by that.
    async fn look_at(&self, outcome: &Outcome, id: TaskId) {
        if let Some(name) = outcome.outputs.get(&id) {
            let _ = self.store.check(name).await;
        }
    }

    /// The artifacts that failed tasks needed and that are not there any more:
    /// what is damaged was set aside.
    async fn lost_inputs(&self, plan: &Plan, outcome: &Outcome) -> Result<Vec<String>, Error> {
        let inputs: HashSet<TaskId> = outcome.failed.keys().flat_map(|&id| plan.tasks[id].inputs()).collect();
        let mut lost = Vec::new();
        for name in inputs.iter().filter_map(|id| outcome.outputs.get(id)) {
            if !self.store.exists(name).await? {
                lost.push(name.clone());
            }
        }
        lost.sort_unstable();
        Ok(lost)
    }

    /// Claims what this run uses, before it looks whether that is there: so
    /// nobody removes what is about to be reused.
    async fn claim(&self, plan: &Plan, execution: &Execution) -> Result<(), Error> {
        if self.is_reading() {
            return Ok(());
        }
        let mut claim = self.claim.lock().await;
        let claimed = async {
            if claim.is_none() {
                *claim = Some(Claim::begin(&self.store).await?);
            }
            match &*claim {
                Some(claim) => claim.add(&execution.run, plan.tasks.iter().map(crate::Task::artifact)).await,
                None => Ok(()),
            }
        };
        match claimed.await {
            Err(error @ store::Error::Gone { .. }) => Err(error.into()),
            // A store that nothing can be written to may have all that is needed.
            Err(error) => {
                execution.log("lease_failed", serde_json::json!({ "error": crate::error_chain(&error) }));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// How many other runs use the store now, where it is one whose runs do not
    /// wait for each other: machines that share an object store only find what
    /// others have finished.
    pub(super) async fn alongside(&self) -> usize {
        match &*self.claim.lock().await {
            // Nothing depends on it: a store that cannot be listed fails elsewhere.
            Some(claim) if self.store.is_remote() => claim.others().await.unwrap_or_default(),
            _ => 0,
        }
    }

    /// Ends the claim: this run uses nothing any more.
    pub(super) async fn let_go(&self) {
        if let Some(claim) = self.claim.lock().await.take() {
            // It ends by itself where that fails.
            let _ = claim.end().await;
        }
    }
}
