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

mod parts;
mod place;
mod promoted;
mod reach;
mod removal;

pub use promoted::{PromotedIndex, SearchAgreement};
pub use reach::Reach;

pub(crate) use promoted::{ExpectedHits, ExpectedQueries, Promoted};
pub(crate) use removal::{BundleContent, bundle_content, remove_bundle_files};

use crate::{
    Error, Session, Setup,
    action::Action,
    clock::now_ms,
    corpus::CorpusState,
    layout::{self, LAYOUT, RunFileName},
    record::{IndexedDocument, RunRecord},
    spec::{Experiment, SEALED},
    write_whole,
};
use eval::statistics::Summary;
use models::Identity;
use place::{BundleDraft, BundleLocation, check_address};
use rag::{Axis, Choice};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::{Component, Path, PathBuf},
};
use store::{ArtifactStore, Key};
use walkdir::WalkDir;

/// Raise when earlier versions of Reverie cannot read the bundles of this one, so that they
/// refuse them.
const FORMAT: u32 = 3;
const MANIFEST: &str = "manifest.json";
const EXPERIMENT: &str = "experiment.toml";
const DOCUMENTS: &str = "documents.jsonl";
const STORE: &str = "store";
const HITS: &str = "hits.json";

/// What a bundle is: `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BundleManifest {
    format: u32,
    /// The version of Reverie that made it.
    pub reverie: String,
    /// The experiment's name, by which clients ask for it.
    pub name: String,
    /// The run's id.
    pub run: String,
    /// When that run finished, in milliseconds since 1970.
    pub run_time_ms: i64,
    /// The trial's id in that run.
    pub trial: String,
    /// Its value on each axis, with all settings.
    pub settings: BTreeMap<String, Value>,
    /// Its place among the run's trials, in a sentence.
    pub place: String,
    /// Its mean scores by metric, with intervals.
    pub scores: BTreeMap<String, Summary>,
    /// Which state of the corpus it searches. Older versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<CorpusState>,
    /// The digest of the golden questions.
    pub golden: String,
    /// The identities of the models by their names in the experiment.
    pub models: BTreeMap<String, Identity>,
    /// Where the vectors are, if they were promoted into a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<PromotedIndex>,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: i64,
    /// Every other file of the bundle.
    files: Vec<BundleFile>,
    /// The digest of all of the above.
    digest: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BundleFile {
    name: String,
    bytes: u64,
    blake3: String,
}

impl BundleManifest {
    /// The digest of the whole bundle.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How many bytes its files have.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn digest_of(&self) -> Result<String, Error> {
        let bare = Self { digest: String::new(), ..self.clone() };
        Ok(Key::of_bytes(&serde_json::to_vec(&bare).map_err(Error::table)?).hex())
    }

    fn write(&self, folder: &Path) -> Result<(), Error> {
        write_whole(&folder.join(MANIFEST), &serde_json::to_vec_pretty(self).map_err(Error::table)?)
    }

    fn read(bytes: &[u8], origin: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let refuse = |reason: String| Error::Unusable(format!("{origin} is no bundle that can be served: {reason}"));
        let again = format!("make it again with {}", Action::Promote(None));
        let damaged = |error: &dyn std::fmt::Display| refuse(format!("{MANIFEST} is damaged ({error}); {again}"));
        let Format { format } = serde_json::from_slice(bytes).map_err(|error| damaged(&error))?;
        if format > FORMAT {
            return Err(refuse(format!(
                "it has format {format}, and this version of reverie knows formats up to {FORMAT}; use a newer version \
                 of reverie, or {again} by this one"
            )));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| damaged(&error))?;
        if manifest.digest_of()? != manifest.digest {
            return Err(damaged(&"it is not what was written"));
        }
        // The run's name is used as a path, so it must not lead elsewhere.
        let mut parts = Path::new(&manifest.run).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(run)), None) if *run == *manifest.run) {
            return Err(damaged(&format!("`{}` is no name of a run", manifest.run)));
        }
        Ok(manifest)
    }

    /// A file of the bundle.
    fn file(&self, name: &str, origin: &str) -> Result<&BundleFile, Error> {
        self.files.iter().find(|file| file.name == name).ok_or_else(|| {
            Error::Unusable(format!("{origin} has no {name}: make it again with {}", Action::Promote(None)))
        })
    }

    /// The name of a file of the run.
    fn run_file(&self, file: RunFileName) -> String {
        format!("{STORE}/{}", layout::run_file(&self.run, file))
    }
}

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

    /// What a bundle says of its trial: the run's record and scores, without the
    /// chunks and indexes, which may be large and need not be there.
    ///
    /// # Errors
    /// A place without a bundle, a file that is missing or is not what was
    /// written, or a bundle of another format.
    pub async fn record(address: &str, setup: &Setup) -> Result<(BundleManifest, RunRecord), Error> {
        let place = BundleLocation::of(address, setup)?;
        let manifest = place.manifest().await?;
        let record = place.record(&manifest).await?;
        Ok((manifest, record))
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
    write_documents(&folder.join(DOCUMENTS), &provenance.documents)?;
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

/// Writes which documents a bundle was made from, a line for each.
fn write_documents(path: &Path, documents: &[IndexedDocument]) -> Result<(), Error> {
    let failed = |source| Error::file("write", path, source);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    for document in documents {
        serde_json::to_writer(&mut file, document).map_err(Error::table)?;
        file.write_all(b"\n").map_err(failed)?;
    }
    file.flush().map_err(failed)
}

/// All files below a folder with their digests, in the order of their names.
fn files_below(folder: &Path) -> Result<Vec<BundleFile>, Error> {
    let mut files = Vec::new();
    for entry in WalkDir::new(folder) {
        let entry = entry.map_err(|error| Error::file("read", folder, error.into()))?;
        if entry.file_type().is_dir() {
            continue;
        }
        let opened = File::open(entry.path()).and_then(|file| Ok((file.metadata()?.len(), Key::of_reader(file)?)));
        let (bytes, key) = opened.map_err(|source| Error::file("read", entry.path(), source))?;
        let parts = entry.path().strip_prefix(folder).unwrap_or(entry.path()).components();
        let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        files.push(BundleFile { name: parts.join("/"), bytes, blake3: key.hex() });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::file("read", path, source))
}

impl BundleFile {
    fn refusal(&self, what: &str, origin: &str) -> Error {
        Error::Unusable(format!(
            "{origin}: {} {what}: fetch the bundle again, or make it again with {}",
            self.name,
            Action::Promote(None)
        ))
    }

    /// Refuses names with `..` and absolute paths.
    fn check_name(&self, origin: &str) -> Result<(), Error> {
        if Path::new(&self.name).components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(self.refusal("is no name of a file in a bundle", origin));
        }
        Ok(())
    }

    /// The file's bytes, if they are what the manifest says.
    fn check_bytes(&self, bytes: Option<Vec<u8>>, origin: &str) -> Result<Vec<u8>, Error> {
        self.check_name(origin)?;
        let bytes = bytes.ok_or_else(|| self.refusal("is missing", origin))?;
        if bytes.len() as u64 != self.bytes || Key::of_bytes(&bytes).hex() != self.blake3 {
            return Err(self.refusal("is not what was written", origin));
        }
        Ok(bytes)
    }
}

/// Whether a file of a bundle is what was written.
fn check(folder: &Path, file: &BundleFile, origin: &str) -> Result<(), Error> {
    file.check_name(origin)?;
    let path = folder.join(&file.name);
    if let Some(link) = link_in(folder, &path) {
        return Err(file.refusal(&format!("leads through the link {}", link.display()), origin));
    }
    let opened = store::open_regular(&path).and_then(|found| Ok((found.metadata()?.len(), found)));
    // The size is compared first, because the file may be very large.
    let key = opened.and_then(|(bytes, found)| match bytes == file.bytes {
        true => Key::of_reader(found.take(bytes)).map(Some),
        false => Ok(None),
    });
    match key {
        Ok(Some(key)) if key.hex() == file.blake3 => Ok(()),
        Ok(_) => Err(file.refusal("is not what was written", origin)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(file.refusal("is missing", origin)),
        Err(source) => Err(Error::file("read", &path, source)),
    }
}

/// The first link on the way from a folder to a file in it.
fn link_in(folder: &Path, path: &Path) -> Option<PathBuf> {
    let inside = path.ancestors().take_while(|ancestor| *ancestor != folder);
    let is_link = |path: &&Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    inside.filter(is_link).last().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> BundleManifest {
        let mut manifest = BundleManifest {
            format: FORMAT,
            reverie: "0".into(),
            name: "books".into(),
            run: "r".into(),
            run_time_ms: 0,
            trial: "t01".into(),
            settings: BTreeMap::new(),
            place: String::new(),
            scores: BTreeMap::new(),
            corpus: None,
            golden: String::new(),
            models: BTreeMap::new(),
            database: None,
            made_ms: 0,
            files: Vec::new(),
            digest: String::new(),
        };
        manifest.digest = manifest.digest_of().unwrap();
        manifest
    }

    fn reason(manifest: &Value) -> String {
        BundleManifest::read(manifest.to_string().as_bytes(), "here").unwrap_err().to_string()
    }

    #[test]
    fn a_manifest_that_was_changed_or_is_of_a_newer_format_is_refused() {
        let good = serde_json::to_value(manifest()).unwrap();
        assert_eq!(BundleManifest::read(good.to_string().as_bytes(), "here").unwrap(), manifest());
        let mut other = good.clone();
        other["trial"] = "t02".into();
        assert!(reason(&other).contains("is not what was written"), "{}", reason(&other));
        let mut newer = good;
        newer["format"] = (FORMAT + 1).into();
        newer["unknown"] = 1.into();
        assert!(reason(&newer).contains("newer version"), "{}", reason(&newer));
        assert!(reason(&serde_json::json!([1])).contains("damaged"));
    }

    #[test]
    fn a_file_that_was_changed_is_missing_or_lies_elsewhere_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("store")).unwrap();
        std::fs::write(folder.path().join("store/a"), "abc").unwrap();
        let [file] = &files_below(folder.path()).unwrap()[..] else { panic!("one file") };
        assert_eq!(file.name, "store/a");
        check(folder.path(), file, "here").unwrap();
        std::fs::write(folder.path().join("store/a"), "abd").unwrap();
        assert!(
            check(folder.path(), file, "here").unwrap_err().to_string().contains("store/a is not what was written")
        );
        std::fs::remove_file(folder.path().join("store/a")).unwrap();
        assert!(check(folder.path(), file, "here").unwrap_err().to_string().contains("store/a is missing"));
        let outside = BundleFile { name: "../a".into(), ..file.clone() };
        assert!(check(folder.path(), &outside, "here").unwrap_err().to_string().contains("no name of a file"));
    }

    #[test]
    fn a_run_of_a_manifest_is_a_name_and_leads_nowhere_else() {
        for (run, is_name) in [
            ("r", true),
            ("x-0123", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("/r", false),
            ("r/", false),
            ("./r", false),
        ] {
            let mut manifest = BundleManifest { run: run.to_owned(), ..manifest() };
            manifest.digest = manifest.digest_of().unwrap();
            let read = BundleManifest::read(&serde_json::to_vec(&manifest).unwrap(), "here");
            assert_eq!(read.is_ok(), is_name, "{run}: {read:?}");
            if let Err(error) = read {
                assert!(error.to_string().contains(&format!("`{run}` is no name of a run")), "{error}");
            }
        }
    }

    #[test]
    fn the_bytes_of_a_file_are_those_that_the_manifest_names() {
        let file = BundleFile { name: "store/a".into(), bytes: 3, blake3: Key::of_bytes(b"abc").hex() };
        let refused =
            |bytes: Option<&[u8]>| file.check_bytes(bytes.map(<[u8]>::to_vec), "here").unwrap_err().to_string();
        assert_eq!(file.check_bytes(Some(b"abc".to_vec()), "here").unwrap(), b"abc");
        let again = "fetch the bundle again, or make it again with a promotion";
        assert_eq!(refused(None), format!("here: store/a is missing: {again}"));
        for bytes in [b"abd".as_slice(), b"ab", b"abcd", b""] {
            assert_eq!(refused(Some(bytes)), format!("here: store/a is not what was written: {again}"));
        }
        for name in ["../a", "/a", "a/../b", "./a"] {
            let outside = BundleFile { name: name.into(), ..file.clone() };
            let told = outside.check_bytes(Some(b"abc".to_vec()), "here").unwrap_err().to_string();
            assert_eq!(told, format!("here: {name} is no name of a file in a bundle: {again}"));
        }
    }

    #[test]
    fn a_manifest_knows_its_files_and_their_size() {
        let file = |name: &str, bytes| BundleFile { name: name.into(), bytes, blake3: String::new() };
        let manifest = BundleManifest { files: vec![file("a", 3), file("store/runs/r/frozen.json", 40)], ..manifest() };
        assert_eq!((manifest.bytes(), super::tests::manifest().bytes()), (43, 0));
        let provenance = manifest.run_file(RunFileName::Frozen);
        assert_eq!(manifest.file(&provenance, "here").unwrap().bytes, 40);
        let missing = manifest.file("b", "here").unwrap_err().to_string();
        assert_eq!(missing, "here has no b: make it again with a promotion");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_behind_a_link_is_none_of_the_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, inside) = (folder.path().join("outside"), folder.path().join("bundle"));
        for folder in [&outside, &inside] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(outside.join("a"), "abc").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("store")).unwrap();
        let file = BundleFile { name: "store/a".into(), bytes: 3, blake3: Key::of_bytes(b"abc").hex() };
        let told = check(&inside, &file, "here").unwrap_err().to_string();
        assert!(
            told.starts_with(&format!("here: store/a leads through the link {}", inside.join("store").display())),
            "{told}"
        );
    }
}
