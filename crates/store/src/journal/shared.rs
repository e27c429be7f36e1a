//! A journal that several machines share: the local file, and one object for
//! each call in an object store. Use it if the experiment's store is an object
//! store; otherwise the local file is enough.
//!
//! A call that is not in the file is looked up at `journal/<ab>/<hex>.json` and
//! copied into the file. A new call is written into the file and then into the
//! store before anyone sees its answer. If two machines made the same call at
//! once, both use the answer that reached the store first.
//!
//! If the store cannot be reached after its retries, a paid call does not fail:
//! its entry waits in the outbox of the file, until a later entry gets through
//! or [`SharedJournal::flush`] sends it (to the store; `flush.rs` is about the
//! disk). A lookup does fail then: to continue
//! could mean paying for an answer that is there.

use super::{DamagedEntry, Journal, JournalEntry, checksum, hex, lock_ignoring_panics, on_disk, signed, unsigned};
use crate::{ArtifactStore, Error, Key, names};
use futures::{FutureExt, StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Raise this when the object's fields change.
const VERSION: u32 = 1;
/// After a failure, entries go to the outbox without a try for this time,
/// because each try waits for all retries of the store.
const PAUSE: Duration = Duration::from_secs(30);
/// How many entries of the outbox are sent with a later entry.
const SENT_ALONG: u64 = 32;
/// Entries that are transferred at once.
pub(super) const AT_ONCE: usize = 16;
/// Entries of one `get_all` or `put_all` at once: it waits for all of them.
const MANY_AT_ONCE: usize = 64;

/// A journal, shared by machines if it has a store. Clones share everything.
#[derive(Debug, Clone)]
pub struct SharedJournal {
    pub(super) local: Arc<Journal>,
    remote: Option<Arc<RemoteCalls>>,
    /// A journal to read if the local one lacks an entry. It is never written.
    pub(super) base: Option<Arc<Journal>>,
    pub(super) reading: bool,
}

#[derive(Debug)]
struct RemoteCalls {
    store: ArtifactStore,
    /// The number of damaged objects that were met.
    damaged: AtomicU64,
    /// The last failure, and until when nothing is sent.
    failed: Mutex<Option<(String, Instant)>>,
    /// Held by the task that empties the outbox.
    sending: tokio::sync::Mutex<()>,
}

impl From<Arc<Journal>> for SharedJournal {
    fn from(local: Arc<Journal>) -> Self {
        Self { local, remote: None, base: None, reading: false }
    }
}

impl SharedJournal {
    /// A journal that is shared through a store.
    pub fn new(local: Arc<Journal>, store: ArtifactStore) -> Self {
        let (damaged, failed, sending) = (AtomicU64::new(0), Mutex::default(), tokio::sync::Mutex::default());
        let remote = Some(Arc::new(RemoteCalls { store, damaged, failed, sending }));
        Self { local, remote, base: None, reading: false }
    }

    /// A journal that is only read: new entries go into `scratch`, a file of
    /// the caller's; old entries are found in `kept` and, if given, in the
    /// store. Nothing is written to either of the two.
    pub fn to_read(scratch: Arc<Journal>, kept: Option<Journal>, store: Option<ArtifactStore>) -> Self {
        let shared = store.map_or_else(|| Self::from(scratch.clone()), |store| Self::new(scratch.clone(), store));
        Self { base: kept.map(Arc::new), reading: true, ..shared }
    }

    /// The store that machines share, if there is one.
    pub(super) fn remote_store(&self) -> Option<&ArtifactStore> {
        self.remote.as_ref().map(|remote| &remote.store)
    }

    /// The file on this machine.
    pub fn local(&self) -> &Arc<Journal> {
        &self.local
    }

    /// The store through which it is shared, if there is one that may be written.
    pub(super) fn shared_store(&self) -> Option<&ArtifactStore> {
        self.remote.as_ref().filter(|_| !self.reading).map(|remote| &remote.store)
    }

    /// The entry of a call, if it was made before, on this machine or another.
    /// A damaged entry counts as absent.
    ///
    /// # Errors
    /// If the file or the store cannot be read.
    pub async fn get(&self, key: &Key) -> Result<Option<JournalEntry>, Error> {
        let key = *key;
        if let Some(entry) = on_disk(&self.local, move |journal| journal.get(&key)).await? {
            return Ok(Some(entry));
        }
        if let Some(base) = &self.base
            && let Some(entry) = on_disk(base, move |base| base.get(&key)).await?
        {
            return Ok(Some(entry));
        }
        match &self.remote {
            Some(remote) => self.clone().fetch(remote.clone(), key).boxed().await,
            None => Ok(None),
        }
    }

    /// The entries of several calls, in order; see [`SharedJournal::get`].
    ///
    /// # Errors
    /// If the file or the store cannot be read.
    pub async fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<JournalEntry>>, Error> {
        let asked = keys.to_vec();
        let mut found = on_disk(&self.local, move |journal| journal.get_all(&asked)).await?;
        if self.base.is_none() && self.remote.is_none() {
            return Ok(found);
        }
        let absent: Vec<usize> = (0..keys.len()).filter(|&i| found[i].is_none()).collect();
        let gets: Vec<_> = absent.iter().map(|&i| self.clone().get_owned(keys[i]).boxed()).collect();
        let mut gets = stream::iter(gets).buffered(MANY_AT_ONCE);
        for i in absent {
            found[i] = gets.next().await.transpose()?.flatten();
        }
        Ok(found)
    }

    async fn get_owned(self, key: Key) -> Result<Option<JournalEntry>, Error> {
        self.get(&key).await
    }

    async fn fetch(self, remote: Arc<RemoteCalls>, key: Key) -> Result<Option<JournalEntry>, Error> {
        let Some(entry) = remote.get(&key).await? else { return Ok(None) };
        let kept = entry.clone();
        on_disk(&self.local, move |journal| journal.put(&key, &kept)).await?;
        self.local.count_reuse(&entry);
        Ok(Some(entry))
    }

    /// Stores a call. If another machine's answer to the same call came first,
    /// that answer is stored, and returned to be used instead.
    ///
    /// # Errors
    /// If the file cannot be written. A store that cannot be reached or has no
    /// space is no error: see [`SharedJournal::n_unsent`].
    pub async fn put(&self, key: &Key, entry: &JournalEntry) -> Result<Option<JournalEntry>, Error> {
        Ok(self.put_all(vec![(*key, entry.clone())]).await?.pop().flatten())
    }

    /// Stores several calls, in the file all or none. Returns for each another
    /// machine's answer if it came first; see [`SharedJournal::put`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn put_all(&self, calls: Vec<(Key, JournalEntry)>) -> Result<Vec<Option<JournalEntry>>, Error> {
        let (no_answers, calls) = (vec![None; calls.len()], Arc::new(calls));
        let ours = calls.clone();
        let Some(remote) = self.remote.as_ref().filter(|_| !self.reading) else {
            return on_disk(&self.local, move |journal| journal.put_all(&ours)).await.map(|_| no_answers);
        };
        on_disk(&self.local, move |journal| journal.put_to_send(&ours)).await?;
        let sends: Vec<_> = calls
            .iter()
            .map(|(key, entry)| self.clone().deliver(remote.clone(), *key, entry.clone()).boxed())
            .collect();
        Ok(stream::iter(sends).buffered(MANY_AT_ONCE).collect().await)
    }

    /// Reserves space for the file; see [`Journal::reserve_space`].
    ///
    /// # Errors
    /// If there is none.
    pub async fn reserve_space(&self) -> Result<(), Error> {
        on_disk(&self.local, Journal::reserve_space).await
    }

    async fn deliver(self, remote: Arc<RemoteCalls>, key: Key, entry: JournalEntry) -> Option<JournalEntry> {
        if remote.is_paused() {
            return None;
        }
        match self.send(&remote, key, &entry).await {
            Ok(first) => {
                if let Ok(_sending) = remote.sending.try_lock() {
                    // The entry is in the store; sending the rest of the outbox may fail.
                    let _ = self.send_outbox(&remote, SENT_ALONG).await;
                }
                first
            }
            Err(error) => {
                remote.record_failure(&error);
                None
            }
        }
    }

    /// Sends the entries of the outbox to the store. Returns how many are still unsent.
    ///
    /// # Errors
    /// If the file or the store fails; what was not sent stays.
    pub async fn flush(&self) -> Result<u64, Error> {
        let Some(remote) = self.remote.as_ref().filter(|_| !self.reading) else { return Ok(0) };
        let _sending = remote.sending.lock().await;
        self.send_outbox(remote, u64::MAX).await.inspect_err(|error| remote.record_failure(error))?;
        self.local.n_to_send()
    }

    /// How many entries the store does not have yet. They are safe in the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn n_unsent(&self) -> Result<u64, Error> {
        self.remote.as_ref().map_or(Ok(0), |_| self.local.n_to_send())
    }

    /// Why the last unsent entry could not be sent.
    pub fn problem(&self) -> Option<String> {
        let failed = lock_ignoring_panics(&self.remote.as_ref()?.failed);
        failed.as_ref().map(|(problem, _)| problem.clone())
    }

    /// How many damaged entries were met, here and in the store.
    pub fn n_damaged(&self) -> u64 {
        self.local.n_damaged() + self.remote.as_ref().map_or(0, |remote| remote.damaged.load(Ordering::Relaxed))
    }

    /// Sends an entry. If the store has another entry for the call, that is adopted.
    async fn send(&self, remote: &RemoteCalls, key: Key, entry: &JournalEntry) -> Result<Option<JournalEntry>, Error> {
        let name = names::call(&key);
        let bytes = encode(&key, entry)?;
        if !remote.store.put(&name, bytes.clone()).await? {
            match remote.get(&key).await? {
                Some(first) if first.response != entry.response => {
                    let adopted = first.clone();
                    on_disk(&self.local, move |journal| journal.adopt(&key, &adopted)).await?;
                    return Ok(Some(first));
                }
                // Our own entry, whose arrival was not confirmed, or an equal one.
                Some(_) => {}
                // The store's object is damaged, so it is not in use.
                None => remote.store.replace(&name, bytes).await?,
            }
        }
        on_disk(&self.local, move |journal| journal.sent(&key)).await?;
        Ok(None)
    }

    async fn send_outbox(&self, remote: &RemoteCalls, at_most: u64) -> Result<(), Error> {
        let (mut left, mut after) = (at_most, None);
        while left > 0 {
            let batch = left.min(1000);
            let entries = on_disk(&self.local, move |journal| journal.to_send(after, batch)).await?;
            let Some((last, _)) = entries.last() else { break };
            (after, left) = (Some(*last), left - batch);
            let mut sends = stream::iter(entries)
                .map(|(key, entry)| async move { self.send(remote, key, &entry).await })
                .buffer_unordered(AT_ONCE);
            while let Some(sent) = sends.next().await {
                // This machine's answer is in use already, so an adopted one is not returned.
                sent?;
            }
        }
        Ok(())
    }
}

impl RemoteCalls {
    async fn get(&self, key: &Key) -> Result<Option<JournalEntry>, Error> {
        let Some(bytes) = self.store.get(&names::call(key)).await? else { return Ok(None) };
        Ok(decode(key, &bytes).inspect_err(|_| _ = self.damaged.fetch_add(1, Ordering::Relaxed)).ok())
    }

    fn is_paused(&self) -> bool {
        let failed = lock_ignoring_panics(&self.failed);
        failed.as_ref().is_some_and(|(_, until)| Instant::now() < *until)
    }

    fn record_failure(&self, error: &Error) {
        let mut failed = lock_ignoring_panics(&self.failed);
        *failed = Some((crate::error_chain(error), Instant::now() + PAUSE));
    }
}

/// An entry as an object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallObject {
    version: u32,
    key: String,
    model: String,
    kind: String,
    response: String,
    prompt_tokens: i64,
    completion_tokens: i64,
    cost_usd: f64,
    seconds: f64,
    created_unix_ms: i64,
    checksum: String,
}

pub(super) fn encode(key: &Key, entry: &JournalEntry) -> Result<Vec<u8>, Error> {
    let object = CallObject {
        version: VERSION,
        key: key.hex(),
        model: entry.model.clone(),
        kind: entry.kind.clone(),
        response: entry.response.clone(),
        prompt_tokens: signed(entry.prompt_tokens),
        completion_tokens: signed(entry.completion_tokens),
        // Without -0.0, as a journal file has it.
        cost_usd: entry.cost_usd + 0.0,
        seconds: entry.seconds + 0.0,
        created_unix_ms: entry.created_unix_ms,
        checksum: hex(&checksum(key.bytes(), entry)),
    };
    serde_json::to_vec(&object).map_err(|error| Error::damaged(&names::call(key), error))
}

/// An object as an entry, or what is wrong with it.
pub(super) fn decode(key: &Key, bytes: &[u8]) -> Result<JournalEntry, DamagedEntry> {
    let damaged = |reason: String| DamagedEntry { key: key.hex(), reason };
    let object: CallObject = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if object.version != VERSION {
        return Err(damaged(format!("format {}; this version reads {VERSION}", object.version)));
    }
    let entry = JournalEntry {
        model: object.model,
        kind: object.kind,
        response: object.response,
        prompt_tokens: unsigned(object.prompt_tokens),
        completion_tokens: unsigned(object.completion_tokens),
        cost_usd: object.cost_usd,
        seconds: object.seconds,
        created_unix_ms: object.created_unix_ms,
    };
    if object.key != key.hex() || object.checksum != hex(&checksum(key.bytes(), &entry)) {
        return Err(damaged("its content does not match its checksum".to_owned()));
    }
    Ok(entry)
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
