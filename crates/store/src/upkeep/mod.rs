//! Looking after a store as a whole: what is in it, whether it is intact, what
//! nobody needs, and copying it elsewhere. It goes by names and checksums;
//! what the bytes mean is not known here.

mod claim;
mod copy;
mod litter;
mod verify;

pub use claim::{CLAIM_LIFETIME, Claim};
pub use copy::{Copied, CopyProgress, copy};
pub use litter::{Litter, Wanted, litter, remove};
pub use verify::{DamagedObject, FormatCheck, Verified, verify};

use crate::{ArtifactStore, Error, Key, StoredObject};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Requests at once.
const AT_ONCE: usize = 16;

/// What an object is, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The output of a task, with the ending of its format.
    Artifact(String),
    /// An output that lacks something, used by one run only.
    Partial,
    /// A model call.
    Call(Key),
    /// A file of a run.
    Run { run: String, file: String },
    /// Which run of an experiment was the last.
    Pointer,
    /// The checksum of another object.
    Checksum,
    /// What was damaged and set aside.
    SetAside,
    /// What runs claim that go on now, and removals.
    Claim,
    /// What belongs to one machine: its journal and its scratch files.
    Machine,
    /// Anything else.
    Other,
}

impl Kind {
    fn of(name: &str) -> Self {
        let parts: Vec<&str> = name.split('/').collect();
        match parts[..] {
            ["artifacts", _, file] => match file.split_once('.') {
                Some((_, format)) => Self::Artifact(format.to_owned()),
                None => Self::Other,
            },
            ["partial", ..] => Self::Partial,
            ["journal", _, file] => match file.strip_suffix(".json").and_then(Key::from_hex) {
                Some(key) => Self::Call(key),
                None => Self::Other,
            },
            ["runs", run, file] => Self::Run { run: run.to_owned(), file: file.to_owned() },
            ["runs", pointer] if pointer.ends_with(".latest") => Self::Pointer,
            ["checksums", ..] => Self::Checksum,
            ["damaged", ..] => Self::SetAside,
            ["leases" | "removals", ..] => Self::Claim,
            ["scratch", ..] => Self::Machine,
            [file] if file.starts_with("journal.") => Self::Machine,
            _ => Self::Other,
        }
    }

    /// Whether there is something to compare it with, or to look at.
    fn is_verified(&self) -> bool {
        !matches!(self, Self::Checksum | Self::SetAside | Self::Claim | Self::Machine)
    }

    /// Whether a copy of the store has it too. Checksums are noted again.
    fn is_copied(&self) -> bool {
        self.is_verified()
    }

    /// What people call it.
    fn label(&self) -> String {
        match self {
            Self::Artifact(format) => format!("artifacts .{format}"),
            Self::Partial => "partial outputs".to_owned(),
            Self::Call(_) => "model calls".to_owned(),
            Self::Run { .. } | Self::Pointer => "runs".to_owned(),
            Self::Checksum => "checksums".to_owned(),
            Self::SetAside => "damaged, set aside".to_owned(),
            Self::Claim => "of runs that go on".to_owned(),
            Self::Machine => "of one machine".to_owned(),
            Self::Other => "other".to_owned(),
        }
    }
}

/// The artifacts that a run's results come from: `runs/<run>/artifacts.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunArtifacts {
    /// The format of this structure.
    pub version: u32,
    /// The names of the artifacts, sorted.
    pub artifacts: BTreeSet<String>,
}

impl RunArtifacts {
    /// The name of the file in the run's folder.
    pub const FILE: &str = "artifacts.json";

    /// The list of a run.
    pub fn new(artifacts: impl IntoIterator<Item = String>) -> Self {
        Self { version: 1, artifacts: artifacts.into_iter().collect() }
    }
}

/// So many objects of so many bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
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

/// What is in a store.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Inventory {
    /// Everything.
    pub all: Amount,
    /// By kind.
    pub kinds: BTreeMap<String, Amount>,
    /// The finished runs.
    pub runs: Vec<RunInventory>,
}

/// What a run holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunInventory {
    /// The run's id.
    pub run: String,
    /// When its results were written, in milliseconds since 1970.
    pub finished_unix_ms: i64,
    /// Its own files.
    pub files: Amount,
    /// The artifacts that its results come from, shared with other runs or
    /// not; none if it has no list of them.
    pub artifacts: Option<Amount>,
    /// How many of these are not in the store.
    pub missing: u64,
}

/// Counts what is in a store.
///
/// # Errors
/// If the store cannot be listed or a run's list cannot be read.
pub async fn inventory(store: &ArtifactStore) -> Result<Inventory, Error> {
    let objects = store.objects("").await?;
    let mut inventory = Inventory { all: Amount::of(&objects), ..Inventory::default() };
    let mut files: BTreeMap<String, Amount> = BTreeMap::new();
    for object in &objects {
        let kind = Kind::of(&object.name);
        inventory.kinds.entry(kind.label()).or_default().add(object.bytes);
        if let Kind::Run { run, .. } = kind {
            files.entry(run).or_default().add(object.bytes);
        }
    }
    let sizes: BTreeMap<&str, u64> = objects.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
    for Finished { run, finished_unix_ms, artifacts } in finished(store, &objects).await? {
        let mut missing = 0;
        let artifacts = artifacts.map(|artifacts| {
            let mut amount = Amount::default();
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
struct Finished {
    run: String,
    finished_unix_ms: i64,
    artifacts: Option<BTreeSet<String>>,
}

/// The finished runs among a store's objects, the oldest first.
async fn finished(store: &ArtifactStore, objects: &[StoredObject]) -> Result<Vec<Finished>, Error> {
    let runs = objects.iter().filter_map(|object| match Kind::of(&object.name) {
        Kind::Run { run, file } if file == "results.json" => Some((run, object.modified_unix_ms)),
        _ => None,
    });
    let read = runs.map(|(run, finished_unix_ms)| async move {
        let name = format!("runs/{run}/{}", RunArtifacts::FILE);
        let damaged = |error: serde_json::Error| Error::Damaged { path: name.clone(), reason: error.to_string() };
        let list = store.get(&name).await?;
        let list = list.map(|bytes| serde_json::from_slice::<RunArtifacts>(&bytes).map_err(damaged)).transpose()?;
        Ok::<_, Error>(Finished { run, finished_unix_ms, artifacts: list.map(|list| list.artifacts) })
    });
    let mut found: Vec<Finished> = stream::iter(read).buffered(AT_ONCE).try_collect().await?;
    found.sort_by(|one, other| (one.finished_unix_ms, &one.run).cmp(&(other.finished_unix_ms, &other.run)));
    Ok(found)
}

#[cfg(test)]
mod tests;
