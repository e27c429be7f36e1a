//! Garbage, which is no longer needed: partial outputs, files that killed
//! writers left, damaged objects that were set aside, and artifacts that no
//! kept run refers to. Objects that running runs use are never garbage, however
//! old they are; see [`super::Claim`].

use super::{
    AT_ONCE, FinishedRun, ObjectAmount,
    claim::{ClaimedObjects, Removal, read_claims},
    finished_runs,
};
use crate::{
    ArtifactStore, Error, Layout, Location, ObjectKind, StoredObject, artifact::checksum::Checksum, names::Object,
    staged::is_staged,
};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use std::{collections::BTreeSet, path::PathBuf, time::UNIX_EPOCH};

/// Which objects to keep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    /// Every object written since this time, in milliseconds since 1970.
    pub since_unix_ms: i64,
    /// Whether artifacts that no kept run refers to are garbage too.
    pub only_used: bool,
    /// The runs to keep; all if none is named.
    pub runs: Vec<String>,
    /// Artifacts to keep in any case.
    pub artifacts: BTreeSet<String>,
}

/// The objects that are no longer needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Garbage {
    /// Partial outputs.
    #[serde(serialize_with = "names")]
    pub partial: Vec<StoredObject>,
    /// Files that killed writers left, if the store is a folder.
    pub staged: Vec<PathBuf>,
    /// Artifacts that no kept run refers to.
    #[serde(serialize_with = "names")]
    pub unused: Vec<StoredObject>,
    /// Damaged objects that were set aside.
    #[serde(serialize_with = "names")]
    pub damaged: Vec<StoredObject>,
    /// Checksums of objects that no longer exist, and claims of runs that were
    /// killed.
    #[serde(serialize_with = "names")]
    pub leftovers: Vec<StoredObject>,
    /// The amount of all garbage.
    pub all: ObjectAmount,
    /// The finished runs that were looked at, and when they finished.
    #[serde(skip)]
    finished: BTreeSet<(String, i64)>,
}

impl Garbage {
    /// Takes an object out, so that it stays.
    pub fn keep(&mut self, name: &str) {
        for list in [&mut self.partial, &mut self.unused, &mut self.damaged, &mut self.leftovers] {
            if let Some(place) = list.iter().position(|object| object.name == name) {
                let kept = list.remove(place);
                self.all.objects -= 1;
                self.all.bytes -= kept.bytes;
            }
        }
    }

    fn objects(&self) -> impl Iterator<Item = &StoredObject> {
        self.partial.iter().chain(&self.unused).chain(&self.damaged).chain(&self.leftovers)
    }
}

fn names<S: serde::Serializer>(objects: &[StoredObject], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(objects.iter().map(|object| &object.name))
}

/// Lists the garbage; removes nothing.
///
/// # Errors
/// If the store fails, a run to keep does not exist, or a run to keep has no
/// list of its artifacts, so that it is unknown what it needs.
pub async fn find_garbage(store: &ArtifactStore, wanted: &Retention) -> Result<Garbage, Error> {
    // Claims are read first: a run that ends from here on is among the claims or the finished runs.
    let claimed = read_claims(store).await?;
    let objects = store.objects("").await?;
    let old = |object: &&StoredObject| object.modified_unix_ms < wanted.since_unix_ms;
    let of = |is: fn(&Object) -> bool| objects.iter().filter(old).filter(move |object| is(&store.object(&object.name)));
    let holds = |name: &str| claimed.holds(name, store.layout());
    let there: BTreeSet<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    let orphaned = |object: &&StoredObject| match Checksum::parse(&object.name) {
        Some((of, _)) => !there.contains(of) && !holds(of),
        None => claimed.dead.contains(&object.name),
    };
    let mut garbage = Garbage {
        partial: of(|object| matches!(object, Object::OfLayout(ObjectKind::Partial { .. })))
            .filter(|object| !holds(&object.name))
            .cloned()
            .collect(),
        // A running run may be writing them.
        staged: if claimed.runs.is_empty() { staged(store, wanted.since_unix_ms)? } else { Vec::new() },
        damaged: of(|object| *object == Object::SetAside).cloned().collect(),
        leftovers: of(|object| matches!(object, Object::Checksum | Object::Claim)).filter(orphaned).cloned().collect(),
        ..Garbage::default()
    };
    if wanted.only_used {
        let finished = finished_runs(store, &objects).await?;
        garbage.finished = finished.iter().map(|run| (run.run.clone(), run.finished_unix_ms)).collect();
        let used = used_artifacts(finished, wanted)?;
        let artifacts = of(|object| matches!(object, Object::OfLayout(ObjectKind::Artifact { .. })));
        let unused = artifacts.filter(|object| !used.contains(&object.name) && !holds(&object.name));
        garbage.unused = unused.cloned().collect();
    }
    let gone: BTreeSet<&str> =
        garbage.partial.iter().chain(&garbage.unused).map(|object| object.name.as_str()).collect();
    let without_output = |object: &&StoredObject| match store.object(&object.name) {
        Object::OfLayout(ObjectKind::Measurement { of }) => {
            (!there.contains(&*of) || gone.contains(&*of)) && !holds(&object.name)
        }
        _ => false,
    };
    let measurements: Vec<StoredObject> = objects.iter().filter(old).filter(without_output).cloned().collect();
    garbage.leftovers.extend(measurements);
    garbage.all = ObjectAmount::of(garbage.objects());
    for file in &garbage.staged {
        garbage.all.add(std::fs::metadata(file).map_or(0, |metadata| metadata.len()));
    }
    Ok(garbage)
}

/// Those of some artifacts that no finished run refers to and no running run uses, as garbage. If a finished run has no list
/// of its artifacts, there are none.
///
/// # Errors
/// If the store fails.
pub async fn find_unused(store: &ArtifactStore, artifacts: &BTreeSet<String>) -> Result<Garbage, Error> {
    // Claims are read first, as in `find_garbage`.
    let claimed = read_claims(store).await?;
    let finished = finished_runs(store, &store.objects(store.layout().runs()).await?).await?;
    let finished_now = finished.iter().map(|run| (run.run.clone(), run.finished_unix_ms)).collect();
    let used = match used_artifacts(finished, &Retention::default()) {
        Err(Error::NoListOfArtifacts { .. }) => return Ok(Garbage::default()),
        used => used?,
    };
    let mut unused = Vec::new();
    for name in artifacts.iter().filter(|name| !used.contains(*name) && !claimed.holds(name, store.layout())) {
        if let Some(bytes) = store.size(name).await? {
            unused.push(StoredObject { name: name.clone(), bytes, modified_unix_ms: 0 });
        }
    }
    Ok(Garbage { all: ObjectAmount::of(&unused), unused, finished: finished_now, ..Garbage::default() })
}

impl ClaimedObjects {
    /// Whether a running run uses an object.
    fn holds(&self, name: &str, layout: &dyn Layout) -> bool {
        if let Some((of, _)) = Checksum::parse(name) {
            return self.holds(of, layout);
        }
        let is_of_run = match Object::of(name, layout) {
            Object::OfLayout(ObjectKind::Partial { run: Some(run) } | ObjectKind::Run { run, .. }) => {
                self.runs.contains(&run)
            }
            Object::OfLayout(ObjectKind::Measurement { of }) => return self.holds(&of, layout),
            // Any run may use the parts of an unfinished task.
            Object::OfLayout(ObjectKind::Partial { run: None }) => !self.runs.is_empty(),
            _ => false,
        };
        is_of_run || self.artifacts.contains(name)
    }
}

/// Removes the garbage, except objects that runs have claimed since, and reports
/// the progress. Runs that begin meanwhile wait for the end.
///
/// # Errors
/// If something cannot be removed; the objects after it are then still there.
pub async fn remove(store: &ArtifactStore, garbage: &Garbage, mut progress: impl FnMut(u64)) -> Result<(), Error> {
    let removal = Removal::begin(store).await?;
    let mut claimed = read_claims(store).await?;
    if !garbage.unused.is_empty() {
        // Runs that began and ended since the garbage was listed claim nothing any more.
        let ended = finished_runs(store, &store.objects(store.layout().runs()).await?).await?;
        let is_new = |run: &FinishedRun| !garbage.finished.contains(&(run.run.clone(), run.finished_unix_ms));
        claimed.artifacts.extend(ended.into_iter().filter(is_new).filter_map(|run| run.artifacts).flatten());
    }
    let names = garbage.objects().map(|object| &object.name).filter(|name| !claimed.holds(name, store.layout()));
    let mut removed = stream::iter(names.map(|name| store.remove(name))).buffer_unordered(AT_ONCE);
    let mut n = 0;
    while removed.try_next().await?.is_some() {
        n += 1;
        progress(n);
    }
    let staged = garbage.staged.iter().filter(|_| claimed.runs.is_empty());
    for file in staged {
        match std::fs::remove_file(file) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::file("remove", file, source));
            }
            _ => {}
        }
    }
    drop(removed);
    removal.end().await
}

/// The artifacts that kept runs refer to.
fn used_artifacts(finished: Vec<FinishedRun>, wanted: &Retention) -> Result<BTreeSet<String>, Error> {
    if let Some(run) = wanted.runs.iter().find(|run| !finished.iter().any(|finished| finished.run == **run)) {
        return Err(Error::NoSuchRun { run: run.clone() });
    }
    let mut used = wanted.artifacts.clone();
    let kept = finished.into_iter().filter(|one| wanted.runs.is_empty() || wanted.runs.contains(&one.run));
    for FinishedRun { run, artifacts, .. } in kept {
        used.extend(artifacts.ok_or(Error::NoListOfArtifacts { run })?);
    }
    Ok(used)
}

/// Files that killed writers left in a folder: `name#token`.
fn staged(store: &ArtifactStore, before_unix_ms: i64) -> Result<Vec<PathBuf>, Error> {
    let Location::Folder(root) = store.location() else { return Ok(Vec::new()) };
    let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        let failed = |source| Error::file("list", &folder, source);
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            let written = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let written = written.and_then(|time| i64::try_from(time.as_millis()).ok()).unwrap_or_default();
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if written < before_unix_ms && is_staged(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}
