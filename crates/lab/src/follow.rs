//! Follows a corpus: when its documents have changed, a new version of a pipeline's bundle is made, which costs what has
//! changed, and is served from then on.
//!
//! The pipeline is a trial of a finished run, with the settings and models of that run; the run's scores stay with it. A
//! state of the corpus that cannot be indexed as a whole (a provider is away, the budget is spent, no document can be read)
//! makes no version: what was served before is served still, and the next look tries again.

use crate::{
    Error, Session,
    action::Action,
    bundle::Bundle,
    corpus::{CorpusState, CorpusSurvey, load, survey},
    healing::execute,
    lineage,
    plan::{Plan, PlanInputs},
    prepare::{LostEvidence, lost_evidence},
    record::{IndexedDocument, RunRecord, SearchedCorpus, experiment_of},
    session::{used_databases, used_models::identities},
    task::{ModelHandles, RunContext},
    versions::VersionPlace,
    workspace::ClaimedArtifacts,
};
use rag::load::{Rejected, Source, Unread};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{Key, upkeep};

/// So long the corpus must stay as it is before it is indexed: a file that is being copied is not read by halves.
const QUIET: Duration = Duration::from_millis(300);
/// A corpus that changes all the time is indexed after this time.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Versions that are younger than this stay, since a service may be opening them.
const GRACE_MS: i64 = 60_000;

/// Follows a corpus for one pipeline.
pub struct CorpusFollower {
    session: Session,
    record: RunRecord,
    trial: String,
    place: VersionPlace,
    /// The models of the experiment, which stay open from one version to the next.
    models: Arc<ModelHandles>,
    /// How many versions stay.
    keep: usize,
    /// The state that the newest version searches.
    known: Option<KnownCorpus>,
    /// The artifacts that the newest version was made from.
    artifacts: BTreeSet<String>,
    /// Held while this lives: one process follows a corpus into a place.
    _lock: File,
}

/// The state of the corpus that a version searches.
struct KnownCorpus {
    version: String,
    /// The contents of the files by their paths; none if an earlier process made the version.
    files: Option<HashMap<String, Key>>,
}

/// What has changed in a corpus, by the paths of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CorpusChanges {
    /// New files.
    pub added: Vec<String>,
    /// Files with other contents.
    pub edited: Vec<String>,
    /// Files with another path and the same contents: from where, and where to.
    pub moved: Vec<(String, String)>,
    /// Files that are gone.
    pub removed: Vec<String>,
}

impl CorpusChanges {
    fn between(before: &HashMap<String, Key>, now: &HashMap<String, Key>) -> Self {
        let mut changes = Self::default();
        let mut gone: BTreeMap<&Key, BTreeSet<&String>> = BTreeMap::new();
        for (path, key) in before.iter().filter(|(path, _)| !now.contains_key(*path)) {
            gone.entry(key).or_default().insert(path);
        }
        let mut now: Vec<_> = now.iter().collect();
        now.sort_unstable();
        for (path, key) in now {
            match before.get(path) {
                Some(known) if known == key => {}
                Some(_) => changes.edited.push(path.clone()),
                None => match gone.get_mut(key).and_then(BTreeSet::pop_first) {
                    Some(from) => changes.moved.push((from.clone(), path.clone())),
                    None => changes.added.push(path.clone()),
                },
            }
        }
        changes.removed = gone.into_values().flatten().cloned().collect();
        changes.removed.sort_unstable();
        changes
    }

    /// How many files have changed.
    pub fn count(&self) -> usize {
        self.added.len() + self.edited.len() + self.moved.len() + self.removed.len()
    }
}

/// A new version of a pipeline.
#[derive(Debug, Serialize)]
pub struct CorpusUpdate {
    /// The name of the version.
    pub version: String,
    /// The address of its bundle.
    pub bundle: String,
    /// The state of the corpus that it searches.
    pub corpus: CorpusState,
    /// What has changed since the version before; none if another process made that one, or there was none.
    pub changes: Option<CorpusChanges>,
    /// Whether it is served from now on. A version that was chosen by name stays the one that is served.
    pub is_current: bool,
    /// Tasks that were done for it.
    pub executed: usize,
    /// Tasks whose outputs were there.
    pub reused: usize,
    /// Golden questions of the run whose evidence is in no document any more.
    pub lost: Vec<LostEvidence>,
    /// Files that gave no document.
    #[serde(skip)]
    pub rejected: Vec<Rejected>,
    /// Files that could not be read; their documents are not searched until they can be.
    #[serde(skip)]
    pub unread: Vec<Unread>,
    /// Older versions that were removed.
    pub removed_versions: Vec<String>,
    /// How long it took from the first look that saw a change, in seconds.
    pub seconds: f64,
}

/// What a version was made from.
struct MadeVersion {
    artifacts: BTreeSet<String>,
    update: CorpusUpdate,
}

impl CorpusFollower {
    /// Follows the corpus of a run for one of its trials. `keep` is the number of versions that stay.
    ///
    /// # Errors
    /// If the trial is a system, the run's experiment cannot be understood, the place cannot be used, or another process
    /// follows the corpus into the same place.
    pub async fn open(
        session: Session,
        record: RunRecord,
        trial: &str,
        place: &str,
        keep: usize,
    ) -> Result<Self, Error> {
        record.trial_inputs(trial)?;
        let experiment = experiment_of(&session.experiment, &record)?;
        let session = session.with_experiment(experiment);
        let place = VersionPlace::open(place, session.setup())?;
        let lock = lock(&session, &place)?;
        place.remove_drafts();
        let known = place.newest().await?.and_then(|manifest| {
            let is_same = manifest.run == record.id() && manifest.trial == trial;
            let corpus = manifest.corpus.filter(|_| is_same)?;
            Some(KnownCorpus { version: corpus.version, files: None })
        });
        let (trial, artifacts) = (trial.to_owned(), BTreeSet::new());
        let models = Arc::new(session.models());
        Ok(Self { session, record, trial, place, models, keep, known, artifacts, _lock: lock })
    }

    /// The place of the versions.
    pub fn place(&self) -> &VersionPlace {
        &self.place
    }

    /// The run and the trial whose pipeline follows the corpus.
    pub fn pipeline(&self) -> (&RunRecord, &str) {
        (&self.record, &self.trial)
    }

    /// Looks at the corpus, and makes a version if it has changed; none if it has not.
    ///
    /// # Errors
    /// If the corpus cannot be listed or holds no readable document, or if something that must be indexed could not be. What
    /// is finished is kept, and the version that was served is served still.
    pub async fn update(&mut self) -> Result<Option<CorpusUpdate>, Error> {
        let began = Instant::now();
        let Some((source, found)) = self.look(began).await? else { return Ok(None) };
        let mut claimed = ClaimedArtifacts::new(self.session.workspace());
        let made = self.make(&mut claimed, source, &found).await;
        claimed.end().await;
        let MadeVersion { artifacts, mut update } = made?;
        let files = files_of(&found);
        let before = self.known.as_ref().and_then(|known| known.files.as_ref());
        update.changes = before.map(|before| CorpusChanges::between(before, &files));
        self.known = Some(KnownCorpus { version: update.corpus.version.clone(), files: Some(files) });
        let old: BTreeSet<String> = std::mem::replace(&mut self.artifacts, artifacts);
        let old = old.difference(&self.artifacts).cloned().collect();
        // Whatever fails here leaves files that `store gc` finds.
        let _ = self.remove_unused(&old).await;
        update.removed_versions = self.place.remove_old(self.keep, GRACE_MS).await.unwrap_or_default();
        update.seconds = began.elapsed().as_secs_f64();
        Ok(Some(update))
    }

    /// The corpus, once it has stayed as it is for a while; none if it is what the newest version searches.
    async fn look(&mut self, began: Instant) -> Result<Option<(Source, CorpusSurvey)>, Error> {
        let mut seen = None;
        loop {
            let mut mistakes = Vec::new();
            let found = survey(&self.session, &mut mistakes).await?;
            let Some(source) = found.source.clone().filter(|_| mistakes.is_empty()) else {
                return Err(Error::Refused(mistakes));
            };
            let version = found.state().version.clone();
            if let Some(known) = self.known.as_mut().filter(|known| known.version == version) {
                known.files.get_or_insert_with(|| files_of(&found));
                return Ok(None);
            }
            if seen.as_ref() == Some(&version) || began.elapsed() >= LONGEST_WAIT {
                return Ok(Some((source, found)));
            }
            seen = Some(version);
            tokio::time::sleep(QUIET).await;
        }
    }

    async fn make(
        &self,
        claimed: &mut ClaimedArtifacts,
        source: Source,
        found: &CorpusSurvey,
    ) -> Result<MadeVersion, Error> {
        let Self { session, record, place, .. } = self;
        let (trial, ..) = record.trial_inputs(&self.trial)?;
        let loaded = load(session, claimed, source.clone(), found).await?;
        let evidence = lost_evidence(session, &loaded, record.questions()).await?;
        if evidence.documents == 0 {
            let corpus = &session.experiment.corpus.source;
            return Err(Error::Unusable(format!(
                "the corpus `{corpus}` holds no readable document now: what was served before is served still"
            )));
        }
        let mut mistakes = Vec::new();
        let mut known = identities(session, &mut mistakes).await;
        known.extend(used_databases::identities(session, &mut mistakes).await);
        Error::refuse(mistakes)?;
        let embedder = trial.pipeline().and_then(|pipeline| pipeline.embedder.as_deref());
        let of_run = &record.provenance()?.identities;
        if let Some(name) = embedder.filter(|name| known.get(*name) != of_run.get(*name)) {
            return Err(Error::Unusable(format!(
                "models.{name} is not what it was in {} (other files, or another version of reverie), so that the scores of \
                 that run are not those of this pipeline: {} measures it anew",
                record.title(),
                Action::Run
            )));
        }
        let trials = [trial.clone()];
        let inputs = PlanInputs { trials: &trials, identities: &known, ..found.plan_inputs(&session.experiment) };
        let (plan, corpora) = Plan::of_corpora(&inputs);
        let plan = Arc::new(plan);
        let run_context = Arc::new(RunContext::for_queries(
            session.experiment.clone(),
            session.workspace().store().clone(),
            source,
            session.workspace().scratch_folder(),
            record.id(),
            self.models.clone(),
        ));
        let outcome = execute(session, claimed, &plan, &run_context).await?;
        if let Some((id, reason)) = outcome.failed.iter().min_by_key(|(id, _)| **id) {
            return Err(Error::Task { label: plan.tasks[*id].label.clone(), reason: reason.clone() });
        }
        let missing = outcome.provider_errors + outcome.function_errors;
        if missing > 0 {
            return Err(Error::Unusable(format!(
                "{missing} parts of the index could not be made because a model or a function failed; the next look tries \
                 again, and nothing that was paid for is paid again"
            )));
        }
        let (Some(inputs), state) = (corpora.into_iter().next(), found.state().clone()) else {
            return Err(Error::Unusable(format!("trial `{}` searches nothing", self.trial)));
        };
        let name = |id| outcome.outputs.get(&id).cloned().unwrap_or_else(|| plan.tasks[id].artifact());
        let artifacts = inputs.all().into_iter().map(|id| (id, name(id))).collect();
        let documents = found.files.files.iter().map(IndexedDocument::of).collect();
        let searched = SearchedCorpus { state: state.clone(), documents, inputs, artifacts };
        let record = record.on_corpus(&self.trial, searched)?;
        let version = VersionPlace::name_of(&state);
        Bundle::make(session, &record, &self.trial, &place.bundle(&version)).await?;
        let is_pinned = place.current().await?.is_some_and(|current| current.is_pinned);
        if !is_pinned {
            place.serve(&version, false).await?;
        }
        let update = CorpusUpdate {
            bundle: store::without_secrets(&place.bundle(&version)),
            version,
            corpus: state,
            changes: None,
            is_current: !is_pinned,
            executed: outcome.executed,
            reused: outcome.reused,
            lost: evidence.lost,
            rejected: found.files.rejected.iter().chain(&evidence.rejected).cloned().collect(),
            unread: loaded.unread.into_iter().chain(outcome.unread).collect(),
            removed_versions: Vec::new(),
            seconds: 0.0,
        };
        let artifacts = plan.tasks.iter().map(crate::Task::artifact).collect();
        Ok(MadeVersion { artifacts, update })
    }

    /// Removes artifacts that the versions before were made from, if nobody else needs them: a corpus that changes all the
    /// time does not fill the disk. Bundles have copies.
    async fn remove_unused(&self, artifacts: &BTreeSet<String>) -> Result<(), Error> {
        if artifacts.is_empty() {
            return Ok(());
        }
        let workspace = self.session.workspace();
        let garbage = upkeep::find_unused(workspace.store(), artifacts).await?;
        upkeep::remove(workspace.store(), &garbage, |_| {}).await?;
        let gone = garbage.unused.into_iter().map(|artifact| artifact.name).collect();
        lineage::remove(workspace, self.record.id(), &gone).await
    }
}

fn files_of(found: &CorpusSurvey) -> HashMap<String, Key> {
    found.files.files.iter().map(|(file, key)| (file.path.clone(), *key)).collect()
}

/// Locks a place against other processes that follow the corpus of the same store into it.
fn lock(session: &Session, place: &VersionPlace) -> Result<File, Error> {
    let folder = session.workspace().scratch_folder();
    std::fs::create_dir_all(&folder).map_err(|source| Error::file("create", &folder, source))?;
    let path = folder.join(format!("watch-{}.lock", Key::of_bytes(place.address().as_bytes()).short()));
    let file = File::create(&path).map_err(|source| Error::file("create", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::Unusable(format!(
            "another process follows this corpus into {}: end it first, or choose another place",
            place.address()
        ))),
        Err(std::fs::TryLockError::Error(source)) => Err(Error::file("lock", &path, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_the_same_content_elsewhere_was_moved() {
        let files = |files: &[(&str, &str)]| -> HashMap<String, Key> {
            files.iter().map(|(path, text)| ((*path).to_owned(), Key::of_bytes(text.as_bytes()))).collect()
        };
        let before = files(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("twin", "3")]);
        let now = files(&[("a", "1"), ("b", "two"), ("e/c", "3"), ("f", "5"), ("twin", "3")]);
        let changes = CorpusChanges::between(&before, &now);
        assert_eq!(changes.edited, ["b"]);
        assert_eq!(changes.moved, [("c".to_owned(), "e/c".to_owned())]);
        assert_eq!((changes.added, changes.removed), (vec!["f".to_owned()], vec!["d".to_owned()]));
        assert_eq!(CorpusChanges::between(&before, &before).count(), 0);
        // Of two copies that are gone, one was moved and the other is gone.
        let changes = CorpusChanges::between(&before, &files(&[("new", "3")]));
        assert_eq!(changes.moved, [("c".to_owned(), "new".to_owned())]);
        assert_eq!(changes.removed, ["a", "b", "d", "twin"]);
    }
}
