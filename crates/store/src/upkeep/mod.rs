//! Maintenance of a whole store: inventory, verification, garbage collection and
//! copying. This code uses checksums and the store's
//! [`Layout`](crate::Layout); it does not know what the bytes mean.

mod claim;
mod copy;
mod garbage;
mod verify;

pub use claim::{Claim, Removal, running_runs};
pub use copy::{CopyPlan, CopyProgress, CopyReport, copy, plan_copy};
pub use garbage::{Garbage, Retention, find_garbage, find_unused, remove};
pub use verify::{DamagedObject, VerifyReport, verify};

use crate::{ArtifactStore, Error, ObjectKind, RunFile, StoredObject, names::Object};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Requests at once.
const AT_ONCE: usize = 16;

/// The artifacts that a run's results come from: the content of a run's file
/// [`RunFile::Artifacts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunArtifacts {
    /// The format of this structure.
    pub version: u32,
    /// The names of the artifacts, sorted.
    pub artifacts: BTreeSet<String>,
}

impl RunArtifacts {
    /// The list of a run.
    pub fn new(artifacts: impl IntoIterator<Item = String>) -> Self {
        Self { version: 1, artifacts: artifacts.into_iter().collect() }
    }
}

/// A number of objects, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ObjectAmount {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ObjectAmount {
    /// The amount of some objects.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a StoredObject>) -> Self {
        let mut amount = Self::default();
        objects.into_iter().for_each(|object| amount.add(object.bytes));
        amount
    }

    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// The content of a store.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Inventory {
    /// Everything.
    pub all: ObjectAmount,
    /// By kind.
    pub kinds: BTreeMap<String, ObjectAmount>,
    /// The finished runs.
    pub runs: Vec<RunInventory>,
}

/// The objects of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunInventory {
    /// The run's id.
    pub run: String,
    /// When its results were written, in milliseconds since 1970.
    pub finished_unix_ms: i64,
    /// Its own files.
    pub files: ObjectAmount,
    /// The artifacts that its results come from, including those shared with
    /// other runs; none if it has no list of them.
    pub artifacts: Option<ObjectAmount>,
    /// How many of these are not in the store.
    pub missing: u64,
}

/// Counts what is in a store.
///
/// # Errors
/// If the store cannot be listed or a run's list cannot be read.
pub async fn inventory(store: &ArtifactStore) -> Result<Inventory, Error> {
    let objects = store.objects("").await?;
    let mut inventory = Inventory { all: ObjectAmount::of(&objects), ..Inventory::default() };
    let mut files: BTreeMap<String, ObjectAmount> = BTreeMap::new();
    for object in &objects {
        let what = store.object(&object.name);
        inventory.kinds.entry(what.label()).or_default().add(object.bytes);
        if let Object::OfLayout(ObjectKind::Run { run, .. }) = what {
            files.entry(run).or_default().add(object.bytes);
        }
    }
    let sizes: BTreeMap<&str, u64> = objects.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
    for FinishedRun { run, finished_unix_ms, artifacts } in finished_runs(store, &objects).await? {
        let mut missing = 0;
        let artifacts = artifacts.map(|artifacts| {
            let mut amount = ObjectAmount::default();
            for name in &artifacts {
                match sizes.get(name.as_str()) {
                    Some(bytes) => amount.add(*bytes),
                    None => missing += 1,
                }
            }
            amount
        });
        let files = files.get(&run).copied().unwrap_or_default();
        inventory.runs.push(RunInventory { run, finished_unix_ms, files, artifacts, missing });
    }
    Ok(inventory)
}

/// A run that has results.
struct FinishedRun {
    run: String,
    finished_unix_ms: i64,
    artifacts: Option<BTreeSet<String>>,
}

/// The finished runs among a store's objects, the oldest first.
async fn finished_runs(store: &ArtifactStore, objects: &[StoredObject]) -> Result<Vec<FinishedRun>, Error> {
    let (mut runs, mut lists) = (Vec::new(), BTreeMap::new());
    for object in objects {
        match store.object(&object.name) {
            Object::OfLayout(ObjectKind::Run { run, file: RunFile::Results }) => {
                runs.push((run, object.modified_unix_ms));
            }
            Object::OfLayout(ObjectKind::Run { run, file: RunFile::Artifacts }) => _ = lists.insert(run, &object.name),
            _ => {}
        }
    }
    let read = runs.into_iter().map(|(run, finished_unix_ms)| {
        let name = lists.get(&run).copied();
        async move {
            let artifacts = match name {
                Some(name) => read_list(store, name).await?,
                // It may have been written while the objects were listed.
                None => find_list(store, &run).await?,
            };
            Ok::<_, Error>(FinishedRun { run, finished_unix_ms, artifacts })
        }
    });
    let mut found: Vec<FinishedRun> = stream::iter(read).buffered(AT_ONCE).try_collect().await?;
    found.sort_by(|one, other| (one.finished_unix_ms, &one.run).cmp(&(other.finished_unix_ms, &other.run)));
    Ok(found)
}

/// The artifacts of a run's list, if it has one now.
async fn find_list(store: &ArtifactStore, run: &str) -> Result<Option<BTreeSet<String>>, Error> {
    let objects = store.objects(&format!("{}/{run}", store.layout().runs())).await?;
    let is_list = |object: &&StoredObject| {
        matches!(store.object(&object.name), Object::OfLayout(ObjectKind::Run { file: RunFile::Artifacts, .. }))
    };
    match objects.iter().find(is_list) {
        Some(object) => read_list(store, &object.name).await,
        None => Ok(None),
    }
}

/// The artifacts of a list; none if it is gone.
async fn read_list(store: &ArtifactStore, name: &str) -> Result<Option<BTreeSet<String>>, Error> {
    let Some(bytes) = store.get(name).await? else { return Ok(None) };
    let list: RunArtifacts = serde_json::from_slice(&bytes).map_err(|error| Error::damaged(name, error))?;
    Ok(Some(list.artifacts))
}

#[cfg(test)]
mod tests;
