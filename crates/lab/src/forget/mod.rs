//! Forgets documents: removes them from a store with everything that was made from them, on this machine and on an object
//! store. Runs stay, without the passages and answers of the documents.
//!
//! A removal may be killed at any moment, and the next one finishes it: a note says which documents are being forgotten, and
//! what shows how to find their text (their tables in the store) is removed last. Every step can be repeated.

mod beyond;
mod bundles;
mod calls;
mod certificate;
mod descent;
mod documents;
mod findings;
mod fingerprint;
mod kept_lines;
mod redaction;
mod removal;
mod run_files;

pub use bundles::BundleOfDocument;
pub use certificate::{
    BeyondReach, ForgetCertificate, ForgottenBefore, PendingRemoval, RemovedObjects, counts, pending_removals,
};
pub use documents::ForgottenDocument;
pub use kept_lines::RemovedLines;

use crate::{
    Error, Session, Workspace,
    bundle::remove_bundle_files,
    clock::now_ms,
    layout::{self, NamedObject, RunFileName},
    lineage::Lineage,
    spec::nearest,
};
use bundles::{FoundBundles, find_bundles};
use calls::{CallSigns, entries_to_erase};
use certificate::{forgotten_before, pending_notes};
use descent::{RemovalStage, StoredNames, descendants};
use documents::{DocumentVersions, KnownDocument, choose, fingerprint_of, is_in_one_of, known_documents};
use findings::{DocumentSigns, TableFinding, look_for_documents};
use kept_lines::{KeptLines, read_files};
use models::{Identity, ModelPlace};
use rag::load::SourceFile;
use run_files::{StoredRunFiles, changed_files};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};
use store::{
    ArtifactStore, Key,
    upkeep::{Removal, Retention, find_garbage, running_runs},
};

impl Workspace {
    /// The removals of documents from the store that have not ended.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn pending_removals(&self) -> Result<Vec<PendingRemoval>, Error> {
        pending_removals(self.store()).await
    }
}

/// Which documents to forget, and where to look besides the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForgetRequest {
    /// Paths below the corpus' root.
    pub paths: Vec<String>,
    /// Fields of documents and their values; a document must have all of them.
    pub conditions: Vec<(String, String)>,
    /// Files of kept answers and feedback.
    pub kept_lines: Vec<PathBuf>,
    /// Folders and URLs with bundles.
    pub bundles: Vec<String>,
}

/// A removal of documents: what it would remove. [`Forgetting::carry_out`] does it.
pub struct Forgetting {
    /// The documents.
    pub documents: Vec<ForgottenDocument>,
    /// Documents that were asked for and that an earlier removal has forgotten.
    pub before: Vec<ForgottenBefore>,
    /// Those of the documents that are still in the corpus: the next run would read them again.
    pub in_corpus: Vec<String>,
    /// What would be removed.
    pub removed: RemovedObjects,
    /// What may hold text of the documents and is out of reach.
    pub beyond_reach: Vec<BeyondReach>,
    /// The runs that have a report, which is removed, and can be written again from their results.
    pub reports: BTreeSet<String>,
    signs: Arc<DocumentSigns>,
    questions: BTreeSet<String>,
    /// The objects that go, of each store.
    stores: Vec<StoreRemoval>,
    lines: Vec<KeptLines>,
    /// The bundles that are there now.
    bundles: Vec<BundleOfDocument>,
    /// The notes of removals that this one finishes.
    notes: Vec<String>,
    /// Keeps runs from beginning.
    guard: Option<Removal>,
}

/// What goes from one store.
struct StoreRemoval {
    store: ArtifactStore,
    descendants: BTreeMap<String, RemovalStage>,
    /// Objects that are not looked into: damaged ones, and inputs of workers with text of the documents.
    others: Vec<String>,
    runs: StoredRunFiles,
}

/// What is known of one store.
struct SurveyedStore {
    store: ArtifactStore,
    names: Vec<String>,
    /// The names of its tables.
    tables: Vec<String>,
    /// Those of them that are tables of documents.
    of_documents: Vec<String>,
    known: Vec<KnownDocument>,
    lineages: Vec<Lineage>,
    /// The models of its runs.
    models: Vec<Identity>,
    /// The sizes of documents, by the digest of their bytes.
    sizes: BTreeMap<Key, u64>,
}

impl SurveyedStore {
    async fn of(store: &ArtifactStore, conditions: &Arc<Vec<(String, String)>>) -> Result<Self, Error> {
        let names = store.list("").await?;
        let is_table = |name: &&String| {
            name.ends_with(".parquet")
                && matches!(NamedObject::of(name), NamedObject::Artifact | NamedObject::Partial(_))
        };
        let tables: Vec<String> = names.iter().filter(is_table).cloned().collect();
        let (known, of_documents) = known_documents(store, &tables, conditions).await?;
        let (lineages, models, sizes) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut found = Self { store: store.clone(), names, tables, of_documents, known, lineages, models, sizes };
        for name in found.names.clone() {
            match NamedObject::of(&name) {
                NamedObject::RunFile { file: Some(RunFileName::Lineage), .. } => {
                    found.lineages.extend(store.get(&name).await?.and_then(|bytes| Lineage::parse(&bytes)));
                }
                NamedObject::RunFile { file: Some(RunFileName::Documents), .. } => {
                    let bytes = store.get(&name).await?.unwrap_or_default();
                    found.note_documents(
                        bytes.split(|byte| *byte == b'\n').filter_map(|it| serde_json::from_slice(it).ok()),
                    );
                }
                NamedObject::RunFile { file: Some(RunFileName::Frozen), .. } => {
                    let bytes = store.get(&name).await?.unwrap_or_default();
                    found.read_provenance(&serde_json::from_slice(&bytes).unwrap_or_default());
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Takes documents and models from the record of a run, of whatever version.
    fn read_provenance(&mut self, provenance: &Value) {
        self.note_documents(provenance["documents"].as_array().into_iter().flatten().cloned());
        let models = provenance["identities"].as_object().into_iter().flat_map(|models| models.values());
        self.models.extend(models.filter_map(|model| serde_json::from_value::<Identity>(model.clone()).ok()));
    }

    fn note_documents(&mut self, documents: impl Iterator<Item = Value>) {
        for document in documents {
            let key = document["key"].as_str().and_then(Key::from_hex);
            if let (Some(path), Some(key)) = (document["path"].as_str(), key) {
                let bytes = document["bytes"].as_u64().unwrap_or_default();
                self.sizes.insert(key, bytes);
                let (path, content) = (path.to_owned(), Some(key));
                self.known.push(KnownDocument { path, content, has_text: bytes > 0, has_fields: false });
            }
        }
    }
}

impl Forgetting {
    /// Finds out what has to be removed. If `hold` is true, no run begins until this is dropped or carried out; only then it
    /// can be carried out.
    ///
    /// # Errors
    /// A document that nothing is known of, a run that uses the store now, or a store, a file or a place of bundles that
    /// cannot be read.
    pub async fn find(session: &Session, request: &ForgetRequest, hold: bool) -> Result<Self, Error> {
        let workspace = session.workspace();
        let store = workspace.store();
        let guard = if hold { Some(begin(store).await?) } else { None };
        let conditions = Arc::new(request.conditions.clone());
        let mut surveyed = vec![SurveyedStore::of(store, &conditions).await?];
        if store.is_remote() {
            surveyed.push(SurveyedStore::of(workspace.local(), &conditions).await?);
        }
        let known: Vec<KnownDocument> = surveyed.iter().flat_map(|store| store.known.iter().cloned()).collect();
        let notes = pending_notes(store).await?;
        let (paths, before) = asked_paths(session, request, &known).await?;
        let mut versions = choose(&known, &paths);
        let mut questions = BTreeSet::new();
        for (_, note) in &notes {
            questions.extend(note.questions.iter().cloned());
            for document in &note.documents {
                versions.entry(document.path.clone()).or_default().extend(&document.digests);
            }
        }
        let in_corpus = still_in_corpus(session, &versions, &surveyed).await;

        let mut signs = DocumentSigns { versions: versions.clone(), ..DocumentSigns::default() };
        let shared_versions = Arc::new(versions);
        for one in &surveyed {
            signs.fingerprint.join(fingerprint_of(&one.store, &one.of_documents, &shared_versions).await?);
        }
        let signs = Arc::new(signs);
        let mut models: Vec<Identity> = surveyed.iter().flat_map(|store| store.models.iter().cloned()).collect();
        let remote = session.experiment.models.values().filter(|config| config.place() == ModelPlace::Remote);
        models.extend(remote.filter_map(|config| config.identity(session.context()).ok()));
        models.sort_by_key(|model| serde_json::to_string(model).unwrap_or_default());
        models.dedup();

        let lineages: Vec<Lineage> = surveyed.iter().flat_map(|store| store.lineages.iter().cloned()).collect();
        let (mut stores, mut pieces, mut beyond_reach) = (Vec::new(), Vec::new(), Vec::new());
        let bundles = find_bundles(&request.bundles, &signs, session.setup()).await?;
        for one in &surveyed {
            let findings = look_for_documents(&one.store, &one.tables, &signs).await?;
            let stored = StoredNames { names: &one.names, findings: &findings, lineages: &lineages };
            let descendants = if shared_versions.is_empty() { BTreeMap::new() } else { descendants(&stored) };
            let filled = stored.of_lineage_or_unknown();
            beyond_reach
                .extend(beyond::collections(&one.store, &one.names, |name| filled(name), &bundles.of_documents).await?);
            beyond_reach.extend(beyond::unknown_objects(&one.store, &one.names, &signs).await?);
            for finding in findings.into_values() {
                let TableFinding { questions: of_table, pieces: of_document, .. } = finding;
                questions.extend(of_table);
                pieces.extend(of_document);
            }
            let runs = changed_files(&one.store, &one.names, &signs).await?;
            questions.extend(runs.questions.iter().cloned());
            let others = removal::other_objects(&one.store, &one.names, &signs).await?;
            stores.push(StoreRemoval { store: one.store.clone(), descendants, others, runs });
        }
        pieces.sort_unstable();
        pieces.dedup();

        let all: BTreeSet<String> = stores.iter().flat_map(|store| store.descendants.keys().cloned()).collect();
        let call_signs =
            CallSigns { documents: &signs, descendants: &all, questions: &questions, pieces: &pieces, models: &models };
        let mut keys = BTreeSet::new();
        for one in &surveyed {
            keys.extend(call_signs.keys(&one.store, &one.names).await?);
        }
        let erased = match shared_versions.is_empty() {
            true => BTreeSet::new(),
            false => workspace.journal().find(entries_to_erase(keys, signs.clone())).await?,
        };

        let lines = read_files(&request.kept_lines, &signs)?;
        let mut removed = removal::removed_objects(&stores, &workspace.scratch_folder());
        removed.calls = erased;
        removed.lines = lines.iter().map(KeptLines::removed).collect();
        let FoundBundles { of_documents, unreadable } = bundles;
        removed.bundles = of_documents.iter().cloned().collect();
        for (_, note) in &notes {
            removed.merge(note.removed.clone());
            // What lies outside the store is removed only where this command was told to look.
            let is_below =
                |bundle: &&BundleOfDocument| request.bundles.iter().any(|place| bundle.place.starts_with(place));
            let is_named = |lines: &&RemovedLines| request.kept_lines.contains(&lines.file);
            let (looked_at, other_bundles): (Vec<_>, Vec<_>) = note.removed.bundles.iter().partition(is_below);
            let (read, other_files): (Vec<_>, Vec<_>) = note.removed.lines.iter().partition(is_named);
            removed.bundles.extend(looked_at.into_iter().cloned());
            removed.lines.extend(read.into_iter().cloned());
            let bundles = other_bundles.into_iter().map(|bundle| format!("the bundle {}", bundle.place));
            let files = other_files.into_iter().map(|lines| format!("lines of {}", lines.file.display()));
            beyond_reach.extend(bundles.chain(files).map(|what| BeyondReach {
                what: format!("{what}, which the interrupted removal may have left"),
                action: "name it again, as in the interrupted command".to_owned(),
            }));
        }
        beyond_reach.extend(unreadable.into_iter().map(|(place, reason)| BeyondReach {
            what: format!("the bundle {place}, which cannot be read: {reason}"),
            action: "look whether it holds the document, and remove it".to_owned(),
        }));
        beyond_reach.extend(in_corpus.iter().map(|path| BeyondReach {
            what: format!("{path} in the corpus"),
            action: "delete the file: the next run reads it again".to_owned(),
        }));
        beyond_reach.extend(beyond::files_of_user(session, &signs).await);
        beyond_reach.extend(beyond::services(session, &models));
        beyond_reach.extend(beyond::always(session));
        beyond_reach.dedup();
        let documents = signs
            .versions
            .iter()
            .map(|(path, digests)| ForgottenDocument { path: path.clone(), digests: digests.clone() });
        Ok(Self {
            documents: documents.collect(),
            before,
            in_corpus,
            removed,
            beyond_reach,
            reports: stores.iter().flat_map(|store| store.runs.reports.iter().cloned()).collect(),
            signs: signs.clone(),
            questions,
            stores,
            lines,
            bundles: of_documents,
            notes: notes.into_iter().map(|(name, _)| name).collect(),
            guard,
        })
    }

    /// Removes everything that was found, and keeps the certificate in the store. Returns it with its name there.
    ///
    /// # Errors
    /// If something cannot be removed. What was done stays, and the next removal finishes the rest.
    pub async fn carry_out(self, session: &Session) -> Result<(ForgetCertificate, String), Error> {
        let Self { documents, removed, beyond_reach, signs, questions, stores, notes, guard, .. } = self;
        let (lines, bundles) = (self.lines, self.bundles);
        let guard = guard.ok_or_else(|| Error::Unusable("this removal was only to be looked at".to_owned()))?;
        let store = session.workspace().store();
        let note = PendingRemoval::new(now_ms(), documents.clone(), questions, removed.clone());
        let note_name = layout::pending_removal(&store::unique_token());
        store.replace(&note_name, serde_json::to_vec(&note).map_err(Error::table)?).await?;

        let mut removed = removed;
        let erased = session.workspace().journal().erase(removed.calls.clone()).await?;
        for file in erased.files {
            removed.add("files of an earlier salvage of the journal", file.display().to_string());
        }
        for one in &stores {
            run_files::rewrite(&one.store, &one.runs, &signs).await?;
        }
        for bundle in &bundles {
            remove_bundle_files(&bundle.place, session.setup()).await?;
        }
        lines.iter().try_for_each(KeptLines::write)?;
        for one in &stores {
            removal::remove(one).await?;
            let files = remove_staged(&one.store).await?;
            files.into_iter().for_each(|file| removed.add("files that killed writers left", file));
        }
        removal::remove_folder(&session.workspace().scratch_folder())?;

        let head = certificate::CertificateHead {
            time_ms: now_ms(),
            experiment: session.experiment.name.clone(),
            store: store::without_secrets(&store.location().to_string()),
        };
        let certificate = ForgetCertificate::new(head, documents, removed, beyond_reach)?;
        let name = layout::certificate(certificate.time_ms, &certificate.digest[..12]);
        store.put(&name, certificate.to_json()?).await?;
        for note in notes.iter().chain([&note_name]) {
            store.remove(note).await?;
        }
        guard.end().await?;
        Ok((certificate, name))
    }
}

/// Keeps runs from beginning.
///
/// # Errors
/// If a run uses the store now.
async fn begin(store: &ArtifactStore) -> Result<Removal, Error> {
    let guard = Removal::begin(store).await?;
    let running: Vec<String> = running_runs(store).await?.into_iter().collect();
    if running.is_empty() {
        return Ok(guard);
    }
    guard.end().await?;
    Err(Error::Unusable(format!(
        "a run uses this store now ({}), or was killed within the last ten minutes: wait for its end, and try again; nothing \
         was removed",
        running.join(", ")
    )))
}

/// The paths that were asked for, as the store knows them, and those that were forgotten before.
async fn asked_paths(
    session: &Session,
    request: &ForgetRequest,
    known: &[KnownDocument],
) -> Result<(BTreeSet<String>, Vec<ForgottenBefore>), Error> {
    let store = session.workspace().store();
    let names: BTreeSet<&str> = known.iter().map(|one| one.path.as_str()).collect();
    let earlier = forgotten_before(store).await?;
    let pending: BTreeSet<String> =
        pending_removals(store).await?.into_iter().flat_map(|note| note.documents).map(|one| one.path).collect();
    let (mut found, mut before, mut mistakes) = (BTreeSet::new(), Vec::new(), Vec::new());
    for asked in &request.paths {
        let below = below_corpus(session, asked);
        let candidates: Vec<&str> = [Some(asked.as_str()), below.as_deref()].into_iter().flatten().collect();
        // A mailbox is known by the mails in it.
        let is_mailbox = |path: &str| path.to_ascii_lowercase().ends_with(".mbox");
        let holds_one = |path: &str| is_mailbox(path) && names.iter().any(|name| is_in_one_of(name, |of| of == path));
        let is_known = |path: &str| names.contains(path) || pending.contains(path) || holds_one(path);
        if let Some(path) = candidates.iter().find(|path| is_known(path)) {
            found.insert((*path).to_owned());
        } else if let Some(earlier) = candidates.iter().find_map(|path| earlier.get(*path)) {
            before.push(earlier.clone());
        } else {
            let meant = nearest(asked, names.iter().copied());
            let meant = meant.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            mistakes.push(format!("nothing in {} was made from a document `{asked}`{meant}", store.location()));
        }
    }
    if !request.conditions.is_empty() && !known.iter().any(|one| one.has_fields) {
        let conditions: Vec<String> =
            request.conditions.iter().map(|(field, value)| format!("{field} = {value}")).collect();
        mistakes.push(format!("no document in {} has {}", store.location(), conditions.join(" and ")));
    }
    match mistakes.is_empty() {
        true => Ok((found, before)),
        false => Err(Error::NotFound(mistakes.join("\n"))),
    }
}

/// The path of a file relative to the folder of the corpus, if it is below that.
fn below_corpus(session: &Session, asked: &str) -> Option<String> {
    let folder = std::path::absolute(session.corpus_address()).ok()?;
    let file = std::path::absolute(asked).ok()?;
    let below = file.strip_prefix(&folder).ok()?;
    Some(below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"))
}

/// The documents that are still in the corpus, by path or by their bytes. A corpus that cannot be listed has none.
async fn still_in_corpus(session: &Session, versions: &DocumentVersions, stores: &[SurveyedStore]) -> Vec<String> {
    let Some(source) = session.corpus_source(&mut Vec::new()) else { return Vec::new() };
    let Ok(listing) = source.survey().await else { return Vec::new() };
    let contents: BTreeSet<&Key> = versions.values().flatten().collect();
    let sizes: BTreeSet<u64> = stores
        .iter()
        .flat_map(|store| &store.sizes)
        .filter(|(key, bytes)| contents.contains(key) && **bytes > 0)
        .map(|(_, bytes)| *bytes)
        .collect();
    let mut found = Vec::new();
    for file in &listing.files {
        let SourceFile { path, bytes, .. } = file;
        if versions.contains_key(path) || holds_one_of(path, versions.range(format!("{path}/")..).next()) {
            found.push(path.clone());
        } else if sizes.contains(bytes)
            && let Ok(content) = source.read(file, &session.experiment.corpus.limits).await
            && contents.contains(&Key::of_bytes(&content))
        {
            found.push(path.clone());
        }
    }
    found
}

/// Whether the next path after that of a file and a `/` is in the file.
fn holds_one_of<T>(path: &str, next: Option<(&String, T)>) -> bool {
    next.is_some_and(|(next, _)| next.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
}

/// Removes the files that killed writers left in a folder. No run is at work.
async fn remove_staged(store: &ArtifactStore) -> Result<Vec<String>, Error> {
    let all = Retention { since_unix_ms: i64::MAX, ..Retention::default() };
    let staged = find_garbage(store, &all).await?.staged;
    for file in &staged {
        Error::allow_missing(file, std::fs::remove_file(file))?;
    }
    Ok(staged.into_iter().map(|file| file.display().to_string()).collect())
}
