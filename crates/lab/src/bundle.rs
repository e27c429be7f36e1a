//! A bundle: one trial of a finished run with all that is needed to query it without the run's
//! store. It is a folder, or a prefix of an object store, that is never changed:
//!
//! ```text
//! manifest.json      what it is, and the digest of every other file
//! experiment.toml    the resolved experiment, without what may be secret
//! documents.jsonl    the files that it was made from: path, bytes and digest
//! store/             the chunks and indexes that the trial searches, and its run's
//!                    record and scores, laid out as in any store
//! ```
//!
//! It holds the models' identities, not the models. [`crate::RunPipeline::open`] refuses another
//! embedder, and reports other models that have changed since.
//!
//! If the trial's vectors were promoted into a database, `store/` says where they are, and holds them only if a stage reads
//! them besides searching. `hits.json` holds what an exact search found, for [`crate::DatabaseCheck`].

mod manifest;
mod parts;
mod place;
mod promoted;
mod reach;
mod removal;

pub use manifest::BundleManifest;
pub use promoted::{PromotedIndex, SearchAgreement};
pub use reach::Reach;

pub(crate) use manifest::MANIFEST;
pub(crate) use promoted::{ExpectedHits, ExpectedQueries, Promoted};
pub(crate) use removal::{BundleContent, bundle_content, remove_bundle_files};

use crate::{
    Error, Session, Setup,
    action::Action,
    clock::now_ms,
    layout::{self, LAYOUT, RunFileName},
    record::{IndexedDocument, RunRecord, write_documents},
    spec::{Experiment, SEALED},
    write_whole,
};
use manifest::{FORMAT, check, files_below};
use place::{BundleDraft, BundleLocation, check_address};
use rag::{Axis, Choice};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
};
use store::{ArtifactStore, Key};

const EXPERIMENT: &str = "experiment.toml";
const DOCUMENTS: &str = "documents.jsonl";
const STORE: &str = "store";
const HITS: &str = "hits.json";

/// An opened bundle whose files were checked.
#[derive(Debug)]
pub struct Bundle {
    folder: PathBuf,
    /// Its address for messages, without secrets.
    origin: String,
    /// What it is.
    pub manifest: BundleManifest,
}

impl Bundle {
    /// Makes the bundle of a trial at `output`: a folder that is not there yet or
    /// is empty, or a URL such as `s3://bucket/manuals-1`.
    ///
    /// # Errors
    /// If the trial cannot be asked, or the place is taken or cannot be written.
    pub async fn make(
        session: &Session,
        record: &RunRecord,
        trial: &str,
        output: &str,
    ) -> Result<BundleManifest, Error> {
        Self::make_with(session, record, (trial, None), output).await
    }

    /// Checks that a bundle can be made at a place.
    ///
    /// # Errors
    /// If the place is taken, or no bundle can be there.
    pub(crate) async fn check_place(output: &str, setup: &Setup) -> Result<(), Error> {
        check_address(output)?;
        let folder = Path::new(output);
        let is_taken = match store::is_url(output) {
            true => ArtifactStore::open(output, &setup.store_options, LAYOUT)?.exists(MANIFEST).await?,
            false => std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file(),
        };
        match is_taken {
            true => Err(Error::Unusable(format!(
                "{output} is there already; a bundle is never changed, so choose another place"
            ))),
            false => Ok(()),
        }
    }

    /// [`Bundle::make`] of a trial whose vectors may be in a database.
    pub(crate) async fn make_with(
        session: &Session,
        record: &RunRecord,
        (trial, promoted): (&str, Option<&Promoted>),
        output: &str,
    ) -> Result<BundleManifest, Error> {
        Self::check_place(output, session.setup()).await?;
        if !store::is_url(output) {
            let folder = Path::new(output);
            // The folder appears under its name only when it is whole.
            let draft = BundleDraft(store::staged_path(folder));
            let manifest = fill(session, record, (trial, promoted), &draft.0).await?;
            let _ = std::fs::remove_dir(folder);
            std::fs::rename(&draft.0, folder).map_err(|source| Error::file("write", folder, source))?;
            return Ok(manifest);
        }
        let remote = ArtifactStore::open(output, &session.setup().store_options, LAYOUT)?;
        let draft = BundleDraft(session.workspace().scratch_folder().join(store::unique_token()));
        let manifest = fill(session, record, (trial, promoted), &draft.0).await?;
        for file in &manifest.files {
            let path = draft.0.join(&file.name);
            // An upload that was broken off may have left another file of this name.
            if !remote.put_file(&file.name, &path).await? {
                remote.replace(&file.name, read(&path)?).await?;
            }
        }
        // The manifest is written last, so that all files are there once it is.
        remote.replace(MANIFEST, read(&draft.0.join(MANIFEST))?).await?;
        Ok(manifest)
    }

    /// Opens a bundle and checks all its files. One on an object store is fetched
    /// into a folder of `cache`, once for this machine.
    ///
    /// # Errors
    /// A place without a bundle, a file that is missing or is not what was
    /// written, or a bundle of a newer format.
    pub async fn open(address: &str, setup: &Setup, cache: &Path) -> Result<Self, Error> {
        let place = BundleLocation::of(address, setup)?;
        let manifest = place.manifest().await?;
        let folder = match &place.remote {
            Some(_) => place.fetch(&manifest, cache).await?,
            None => PathBuf::from(address),
        };
        let bundle = Self { folder, origin: place.origin, manifest };
        let (folder, files, origin) = (bundle.folder.clone(), bundle.manifest.files.clone(), bundle.origin.clone());
        let checked =
            tokio::task::spawn_blocking(move || files.iter().try_for_each(|file| check(&folder, file, &origin)));
        checked.await.map_err(Error::table)??;
        Ok(bundle)
    }

    /// The manifest of a bundle, and nothing else of it.
    ///
    /// # Errors
    /// A place without a bundle, or with one of a newer format.
    pub(crate) async fn manifest_at(address: &str, setup: &Setup) -> Result<BundleManifest, Error> {
        BundleLocation::of(address, setup)?.manifest().await
    }

    /// What a bundle says of its trial: the run's record with its documents and scores, without the
    /// chunks and indexes, which may be large and need not be there.
    ///
    /// # Errors
    /// A place without a bundle, a file that is missing or is not what was
    /// written, or a bundle of another format.
    pub async fn record(address: &str, setup: &Setup) -> Result<(BundleManifest, RunRecord), Error> {
        let place = BundleLocation::of(address, setup)?;
        let manifest = place.manifest().await?;
        let (record, documents) = (place.record(&manifest).await?, place.documents(&manifest).await?);
        Ok((manifest, record.with_documents(documents)))
    }

    /// What the pipeline of a bundle uses beyond the bundle's files. Only the files that list this
    /// are read; nothing runs.
    ///
    /// # Errors
    /// As of [`Bundle::record`], and if this version of Reverie does not
    /// understand the experiment.
    pub async fn reach(address: &str, setup: &Setup) -> Result<Reach, Error> {
        let place = BundleLocation::of(address, setup)?;
        let manifest = place.manifest().await?;
        let text = place.read_checked(&manifest, EXPERIMENT).await?;
        let experiment = parse_experiment(&text, &place.origin)?;
        Reach::of(&experiment, &place.record(&manifest).await?)
    }

    /// Where its files are, for reading them checked.
    fn location<'a>(&self, folder: &'a str) -> BundleLocation<'a> {
        BundleLocation { address: folder, origin: self.origin.clone(), remote: None }
    }

    /// What an exact search found when the vectors were promoted into a database.
    pub(crate) async fn expected_hits(&self) -> Result<ExpectedHits, Error> {
        let folder = self.folder.to_string_lossy();
        let place = self.location(&folder);
        let bytes = place.read_checked(&self.manifest, HITS).await?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Unusable(format!("{}: {HITS}: {error}", self.origin)))
    }

    /// Whether a folder holds a bundle.
    pub fn is_at(folder: &Path) -> bool {
        folder.join(MANIFEST).is_file()
    }

    /// Opens the bundle's experiment read-only; answers of models are kept in `overlay`. Everything
    /// that is returned was checked against the manifest.
    ///
    /// # Errors
    /// If a file is not what was written, or this version of Reverie does not
    /// understand the experiment.
    pub async fn session(&self, setup: Setup, overlay: &Path) -> Result<(Session, RunRecord), Error> {
        let folder = self.folder.to_string_lossy();
        let place = self.location(&folder);
        let text = place.read_checked(&self.manifest, EXPERIMENT).await?;
        let mut experiment = parse_experiment(&text, &self.origin)?;
        let folder = std::path::absolute(&self.folder).map_err(|error| Error::file("find", &self.folder, error))?;
        experiment.store = folder.join(STORE).to_string_lossy().into_owned();
        let session = Session::open_bundle(experiment, setup, overlay)?;
        let record = place.record(&self.manifest).await?;
        for name in record.provenance()?.artifacts() {
            self.manifest.file(&format!("{STORE}/{name}"), &self.origin)?;
        }
        Ok((session, record))
    }
}

/// The experiment of a bundle. It holds the contents of all files that it names, so no file of this
/// machine is read.
fn parse_experiment(text: &[u8], origin: &str) -> Result<Experiment, Error> {
    let refused = |reason: String| {
        Error::Unusable(format!(
            "this version of reverie does not understand {EXPERIMENT} of {origin}: {reason}; make the bundle again with {}",
            Action::Promote(None)
        ))
    };
    let text = str::from_utf8(text).map_err(|error| refused(error.to_string()))?;
    Experiment::parse(text, SEALED).map_err(|errors| {
        let reasons: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        refused(reasons.join("; "))
    })
}

/// Writes the files of a bundle into a new folder.
async fn fill(
    session: &Session,
    record: &RunRecord,
    (trial, promoted): (&str, Option<&Promoted>),
    folder: &Path,
) -> Result<BundleManifest, Error> {
    let (kept, artifacts) = record.of_one_trial(trial, promoted.map(Promoted::search))?;
    let provenance = record.provenance()?;
    let place = folder.join(STORE);
    std::fs::create_dir_all(&place).map_err(|source| Error::file("create", &place, source))?;
    let store = ArtifactStore::open(&place.to_string_lossy(), &[], LAYOUT)?;
    let source = session.workspace().store();
    let fetched = BundleDraft(session.workspace().scratch_folder().join(store::unique_token()));
    for name in artifacts {
        if let Some(promoted) = promoted.filter(|promoted| promoted.artifact == name) {
            store.put(&name, promoted.index.collection.to_bytes()).await?;
        } else if source.exists(&name).await? {
            // No file is in memory as a whole: an index may have gigabytes.
            let file = source.local_copy(&name, &fetched.0).await?;
            store.put_file(&name, &file).await?;
            if source.is_remote() {
                let _ = std::fs::remove_file(file);
            }
        } else {
            return Err(Error::Unusable(format!(
                "{name}, which trial `{trial}` searches, is not in the store: {} makes it",
                Action::Run
            )));
        }
    }
    for (file, bytes) in [(RunFileName::Frozen, kept.provenance), (RunFileName::Summary, kept.summary)] {
        store.replace(&layout::run_file(record.id(), file), bytes).await?;
    }
    write_whole(&folder.join(EXPERIMENT), provenance.experiment.as_bytes())?;
    let (path, documents) = (folder.join(DOCUMENTS), record.documents()?);
    let file = File::create(&path).map(BufWriter::new);
    let written = file.and_then(|file| write_documents(file, documents.iter().map(IndexedDocument::row)));
    written.map_err(|source| Error::file("write", &path, source))?;
    if let Some(promoted) = promoted {
        write_whole(&folder.join(HITS), &serde_json::to_vec(&promoted.expected).map_err(Error::table)?)?;
    }

    let row = record.board().row(trial);
    let mut settings: BTreeMap<String, Value> =
        row.map(|row| row.settings.clone().into_iter().collect()).unwrap_or_default();
    if let Some(promoted) = promoted {
        settings.insert(Axis::Index.name().to_owned(), promoted.config.value());
    }
    let mut manifest = BundleManifest {
        format: FORMAT,
        reverie: env!("CARGO_PKG_VERSION").to_owned(),
        name: record.board().experiment.clone(),
        run: record.id().to_owned(),
        run_time_ms: record.time_ms(),
        trial: trial.to_owned(),
        settings,
        place: row.map(|row| row.place.clone()).unwrap_or_default(),
        scores: record.mean_scores(trial),
        corpus: provenance.corpus.clone(),
        golden: Key::of_bytes(&serde_json::to_vec(record.questions()).map_err(Error::table)?).hex(),
        models: kept
            .models
            .into_iter()
            .filter_map(|name| Some((name.clone(), provenance.identities.get(&name)?.clone())))
            .collect(),
        database: promoted.map(|promoted| promoted.index.clone()),
        made_ms: now_ms(),
        files: files_below(folder)?,
        digest: String::new(),
    };
    manifest.digest = manifest.digest_of()?;
    manifest.write(folder)?;
    Ok(manifest)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::file("read", path, source))
}
