//! Claims: the artifacts that running runs use. A claim is a folder
//! `leases/<id>/` (the folder was named before the word changed): an object
//! that is written again each minute, and lists of artifacts. A run claims
//! artifacts before it looks whether they are there, and claimed artifacts are never
//! removed.
//!
//! A run and a removal cannot miss each other. A run writes its list, then
//! looks for a removal that has begun, and waits for its end. A removal writes
//! a mark, then reads the lists. Whichever comes second sees the other.

use crate::{
    ArtifactStore, Error,
    names::{LEASES as FOLDER, REMOVALS},
    staged::unique_token,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::task::AbortHandle;

/// How often a run renews its claim.
const REFRESH: Duration = Duration::from_secs(60);
/// A run that has not renewed its claim for this time counts as dead. The clock
/// of the machine that removes must be right to a few minutes.
pub(crate) const CLAIM_LIFETIME: Duration = Duration::from_secs(600);
/// How often a removal renews its mark.
const REMOVAL_REFRESH: Duration = Duration::from_secs(5);
/// A removal that has not renewed its mark for this time counts as dead, by the
/// clock of the run that waits for it.
const REMOVAL_LIFETIME: Duration = Duration::from_secs(20);
/// How often a waiting run checks whether a removal has ended: an object store
/// sends no notice when an object is gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

const ALIVE: &str = "alive.json";

/// A list of a claim: artifacts that a run uses.
#[derive(Serialize, Deserialize)]
struct ClaimList {
    run: String,
    artifacts: BTreeSet<String>,
}

/// A run's claim to artifacts, for as long as it lives.
#[derive(Debug)]
pub struct Claim {
    store: ArtifactStore,
    id: String,
    lists: AtomicU64,
    refresher: AbortHandle,
}

impl Claim {
    /// Begins a claim that holds nothing yet. It must be called within a
    /// runtime, which also renews it.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn begin(store: &ArtifactStore) -> Result<Self, Error> {
        let id = unique_token();
        let name = format!("{FOLDER}/{id}/{ALIVE}");
        store.replace(&name, "").await?;
        let refresher = renew(store, &name, REFRESH, |_| String::new());
        Ok(Self { store: store.clone(), id, lists: AtomicU64::new(0), refresher })
    }

    /// Adds artifacts of a run, whether they exist or not, and its partial
    /// outputs. Once this returns, no removal touches them, so artifacts that
    /// are found afterwards may be used.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn add(&self, run: &str, artifacts: impl IntoIterator<Item = String>) -> Result<(), Error> {
        let list = ClaimList { run: run.to_owned(), artifacts: artifacts.into_iter().collect() };
        let name = format!("{FOLDER}/{}/{}.json", self.id, self.lists.fetch_add(1, Ordering::Relaxed));
        let bytes = serde_json::to_vec(&list);
        let bytes = bytes.map_err(|error| Error::damaged(&name, error))?;
        self.store.replace(&name, bytes).await?;
        wait_for_removals(&self.store).await
    }

    /// How many other runs claim artifacts of this store now, or did within
    /// [`CLAIM_LIFETIME`] and were killed.
    ///
    /// # Errors
    /// If the store cannot be listed.
    pub async fn others(&self) -> Result<usize, Error> {
        let since = alive_since();
        let objects = self.store.objects(FOLDER).await?;
        let alive = objects.iter().filter(|object| object.modified_unix_ms >= since);
        let ids: BTreeSet<&str> = alive.filter_map(|object| object.name.split('/').nth(1)).collect();
        Ok(ids.into_iter().filter(|id| *id != self.id).count())
    }

    /// Ends the claim.
    ///
    /// # Errors
    /// If it cannot be removed; it expires later then.
    pub async fn end(self) -> Result<(), Error> {
        self.refresher.abort();
        for name in self.store.list(&format!("{FOLDER}/{}", self.id)).await? {
            self.store.remove(&name).await?;
        }
        if let Some(folder) = self.store.local_path(&format!("{FOLDER}/{}", self.id)) {
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.refresher.abort();
        // Only if that takes no waiting; otherwise the claim expires by itself.
        if let Some(folder) = self.store.local_path(&format!("{FOLDER}/{}", self.id))
            && !self.store.is_read_only()
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// What running runs claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClaimedObjects {
    /// The runs.
    pub(super) runs: BTreeSet<String>,
    /// The artifacts.
    pub(super) artifacts: BTreeSet<String>,
    /// Objects of claims whose runs died.
    pub(super) dead: Vec<String>,
}

/// Reads all claims.
pub(super) async fn read_claims(store: &ArtifactStore) -> Result<ClaimedObjects, Error> {
    let mut claims: BTreeMap<String, (i64, Vec<String>)> = BTreeMap::new();
    for object in store.objects(FOLDER).await? {
        let mut parts = object.name.split('/').skip(1);
        let (Some(id), Some(_)) = (parts.next(), parts.next()) else { continue };
        let (newest, objects) = claims.entry(id.to_owned()).or_default();
        *newest = object.modified_unix_ms.max(*newest);
        objects.push(object.name);
    }
    let mut claimed = ClaimedObjects::default();
    let since = alive_since();
    for (newest, objects) in claims.into_values() {
        if newest < since {
            claimed.dead.extend(objects);
            continue;
        }
        for name in objects {
            // The claim may have ended meanwhile.
            let Some(bytes) = store.get(&name).await?.filter(|_| !name.ends_with(ALIVE)) else { continue };
            let damaged = |error: serde_json::Error| {
                Error::damaged(&name, format_args!("{error}; it is unknown which artifacts its run needs"))
            };
            let ClaimList { run, artifacts } = serde_json::from_slice(&bytes).map_err(damaged)?;
            claimed.runs.insert(run);
            claimed.artifacts.extend(artifacts);
        }
    }
    Ok(claimed)
}

/// The earliest time, in milliseconds since 1970, at which a living claim can
/// have been renewed.
fn alive_since() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(CLAIM_LIFETIME).as_millis()).unwrap_or(i64::MAX)
}

/// Writes an object again after each interval, until the task is aborted. `content` gets
/// the number of the write, from 1.
fn renew(store: &ArtifactStore, name: &str, interval: Duration, content: fn(u64) -> String) -> AbortHandle {
    let (store, name) = (store.clone(), name.to_owned());
    let renewal = tokio::spawn(async move {
        for n in 1u64.. {
            tokio::time::sleep(interval).await;
            // If the store does not answer now, it may the next time.
            let _ = store.replace(&name, content(n)).await;
        }
    });
    renewal.abort_handle()
}

/// The runs that use a store now, or did within [`CLAIM_LIFETIME`] and were killed.
///
/// # Errors
/// If the store cannot be read.
pub async fn running_runs(store: &ArtifactStore) -> Result<BTreeSet<String>, Error> {
    Ok(read_claims(store).await?.runs)
}

/// A removal that has begun: runs that want to use artifacts wait for its end. If it is dropped in an object store, they
/// wait for another 20 s.
#[derive(Debug)]
pub struct Removal {
    store: ArtifactStore,
    name: String,
    refresher: AbortHandle,
}

impl Removal {
    /// Begins a removal. It must be called within a runtime.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn begin(store: &ArtifactStore) -> Result<Self, Error> {
        let name = format!("{REMOVALS}/{}", unique_token());
        store.replace(&name, "0").await?;
        let refresher = renew(store, &name, REMOVAL_REFRESH, |n| n.to_string());
        Ok(Self { store: store.clone(), name, refresher })
    }

    /// Ends it: runs go on.
    ///
    /// # Errors
    /// If its mark cannot be removed; it counts as dead after 20 s.
    pub async fn end(self) -> Result<(), Error> {
        self.refresher.abort();
        self.store.remove(&self.name).await
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.refresher.abort();
        if let Some(file) = self.store.local_path(&self.name) {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Waits until no removal is running. A removal whose object no longer changes
/// is dead, so the clocks of two machines are never compared.
async fn wait_for_removals(store: &ArtifactStore) -> Result<(), Error> {
    let mut seen: BTreeMap<String, (Vec<u8>, Instant)> = BTreeMap::new();
    loop {
        let mut goes_on = false;
        for name in store.list(REMOVALS).await? {
            let Some(mark) = store.get(&name).await? else { continue };
            let (last, since) = seen.entry(name.clone()).or_insert_with(|| (mark.to_vec(), Instant::now()));
            if *last != *mark {
                (*last, *since) = (mark.to_vec(), Instant::now());
            }
            if since.elapsed() < REMOVAL_LIFETIME {
                goes_on = true;
            } else {
                store.remove(&name).await?;
            }
        }
        if !goes_on {
            return Ok(());
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
