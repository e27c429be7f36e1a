//! What nobody needs any more: partial outputs, what killed writers left
//! behind, and artifacts that no run to be kept refers to. Only what is old is
//! litter: a run that goes on now has no list of its artifacts yet.

use super::{AT_ONCE, Amount, Finished, Kind, finished};
use crate::{ArtifactStore, Error, Location, StoredObject};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// What somebody still wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Everything written since, in milliseconds since 1970.
    pub since_unix_ms: i64,
    /// Whether artifacts that no run to be kept refers to are litter too.
    pub only_used: bool,
    /// The runs to be kept; all, if none is named.
    pub runs: Vec<String>,
    /// Artifacts to be kept whatever refers to them.
    pub artifacts: BTreeSet<String>,
}

/// What nobody needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Litter {
    /// Outputs that lack something.
    #[serde(serialize_with = "names")]
    pub partial: Vec<StoredObject>,
    /// Files that killed writers left, in a store that is a folder.
    pub staged: Vec<PathBuf>,
    /// Artifacts that no run to be kept refers to.
    #[serde(serialize_with = "names")]
    pub unused: Vec<StoredObject>,
    /// All of it.
    pub all: Amount,
}

fn names<S: serde::Serializer>(objects: &[StoredObject], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(objects.iter().map(|object| &object.name))
}

/// Looks for what nobody needs.
///
/// # Errors
/// If the store fails; a run to be kept is not there; or it has no list of
/// its artifacts, so that nobody can tell what it needs.
pub async fn litter(store: &ArtifactStore, wanted: &Wanted) -> Result<Litter, Error> {
    let objects = store.objects("").await?;
    let old = |object: &&StoredObject| object.modified_unix_ms < wanted.since_unix_ms;
    let of = |kind: fn(&Kind) -> bool| objects.iter().filter(old).filter(move |object| kind(&Kind::of(&object.name)));
    let mut litter = Litter {
        partial: of(|kind| *kind == Kind::Partial).cloned().collect(),
        staged: staged(store, wanted.since_unix_ms)?,
        ..Litter::default()
    };
    if wanted.only_used {
        let used = used(finished(store, &objects).await?, wanted)?;
        let artifacts = of(|kind| matches!(kind, Kind::Artifact(_)));
        litter.unused = artifacts.filter(|object| !used.contains(&object.name)).cloned().collect();
    }
    litter.all = Amount::of(litter.partial.iter().chain(&litter.unused));
    for file in &litter.staged {
        litter.all.add(std::fs::metadata(file).map_or(0, |metadata| metadata.len()));
    }
    Ok(litter)
}

/// Removes it, and tells how far that is.
///
/// # Errors
/// If something cannot be removed; what comes after it is still there then.
pub async fn remove(store: &ArtifactStore, litter: &Litter, mut progress: impl FnMut(u64)) -> Result<(), Error> {
    let names = litter.partial.iter().chain(&litter.unused).map(|object| &object.name);
    let mut removed = stream::iter(names.map(|name| store.remove(name))).buffer_unordered(AT_ONCE);
    let mut n = 0;
    while removed.try_next().await?.is_some() {
        n += 1;
        progress(n);
    }
    for file in &litter.staged {
        match std::fs::remove_file(file) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::File { operation: "remove", path: file.display().to_string(), source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The artifacts that runs to be kept refer to.
fn used(finished: Vec<Finished>, wanted: &Wanted) -> Result<BTreeSet<String>, Error> {
    let refuse = |run: &str, reason: &str| Error::Damaged { path: format!("runs/{run}"), reason: reason.to_owned() };
    if let Some(run) = wanted.runs.iter().find(|run| !finished.iter().any(|finished| finished.run == **run)) {
        return Err(refuse(run, "there is no such finished run; `reverie store stats` lists them"));
    }
    let mut used = wanted.artifacts.clone();
    let kept = finished.into_iter().filter(|one| wanted.runs.is_empty() || wanted.runs.contains(&one.run));
    for Finished { run, artifacts, .. } in kept {
        let unlisted = "it has no list of its artifacts, so nobody can tell what it needs: run it again, or name \
                        the runs to keep";
        used.extend(artifacts.ok_or_else(|| refuse(&run, unlisted))?);
    }
    Ok(used)
}

/// What writers that were killed left in a folder: `name#number`.
fn staged(store: &ArtifactStore, before_unix_ms: i64) -> Result<Vec<PathBuf>, Error> {
    let Location::Folder(root) = store.location() else { return Ok(Vec::new()) };
    let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        let failed = |source| Error::File { operation: "list", path: folder.display().to_string(), source };
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

fn is_staged(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = name.rsplit_once('#').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '-'))
}
