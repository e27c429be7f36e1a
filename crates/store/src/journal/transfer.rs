//! Copies model calls from one store to another. A folder has them in its
//! journal file, an object store has an object for each; they can be copied
//! from either kind to either, so that no call is paid again after a store has
//! moved.

use super::{
    DamagedEntry, Journal, JournalEntry, on_disk, select_keys,
    shared::{self, AT_ONCE},
    signed, stored,
};
use crate::{ArtifactStore, Error, Key, Location, names};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Serialize, Serializer};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

/// Calls that are copied at once.
const BATCH: usize = 256;

/// The result of copying calls.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CopiedCalls {
    /// Written.
    pub written: u64,
    /// There already.
    pub there: u64,
    /// Damaged, and therefore not copied.
    pub damaged: u64,
    /// Why the calls of a journal file were not, or not all, copied: the file
    /// cannot be read or written.
    #[serde(serialize_with = "in_words")]
    pub problem: Option<Arc<Error>>,
}

fn in_words<S: Serializer>(problem: &Option<Arc<Error>>, serializer: S) -> Result<S::Ok, S::Error> {
    problem.as_ref().map(|error| crate::error_chain(&**error)).serialize(serializer)
}

/// Copies the calls that the target lacks: those of the journal file if `from`
/// is a folder that has one, and those of the objects with these keys. Between
/// object stores, the caller copies the objects, so keys are needed only if
/// `to` is a folder.
///
/// Fails if an object store does; what was copied stays. A journal file's error
/// becomes the [`CopiedCalls::problem`], because artifacts are worth copying
/// without it.
pub(crate) async fn copy_calls(
    from: &ArtifactStore,
    objects: &[Key],
    to: &ArtifactStore,
    keys_in_target: &BTreeSet<Key>,
) -> Result<CopiedCalls, Error> {
    let mut copied = CopiedCalls::default();
    match copied.copy(from, objects, to, keys_in_target).await {
        Err(
            error @ (Error::File { .. }
            | Error::Full { .. }
            | Error::Journal { .. }
            | Error::JournalDamaged { .. }
            | Error::Newer { .. }),
        ) => {
            copied.problem = Some(Arc::new(error));
        }
        other => other?,
    }
    Ok(copied)
}

impl CopiedCalls {
    async fn copy(
        &mut self,
        from: &ArtifactStore,
        objects: &[Key],
        to: &ArtifactStore,
        keys_in_target: &BTreeSet<Key>,
    ) -> Result<(), Error> {
        // The source may be a folder that cannot be written to.
        let open = |path: PathBuf| Journal::open_to_read(&path).or_else(|_| Journal::open(&path));
        let source = file(from).filter(|path| path.is_file()).map(open).transpose()?;
        if source.is_none() && objects.is_empty() {
            return Ok(());
        }
        let target = file(to).map(Journal::open).transpose()?;
        if let Some(journal) = source {
            let mut after = None;
            loop {
                let (last, calls) = on_disk(&journal, move |journal| journal.page(after, BATCH)).await?;
                self.write(calls, target.as_ref(), to, keys_in_target).await?;
                let Some(last) = last else { break };
                after = Some(last);
            }
        }
        // Calls that the target's file has need not be fetched.
        let kept = match &target {
            Some(journal) if !objects.is_empty() => on_disk(journal, Journal::keys).await?,
            _ => BTreeSet::new(),
        };
        let missing: Vec<Key> = objects.iter().filter(|key| !kept.contains(*key)).copied().collect();
        self.there += (objects.len() - missing.len()) as u64;
        for keys in missing.chunks(BATCH) {
            let fetched = stream::iter(keys).map(|key| async move {
                let bytes = from.get(&names::call(key)).await?.unwrap_or_default();
                Ok::<_, Error>((*key, shared::decode(key, &bytes)))
            });
            let calls: Vec<_> = fetched.buffer_unordered(AT_ONCE).try_collect().await?;
            self.write(calls, target.as_ref(), to, keys_in_target).await?;
        }
        Ok(())
    }

    async fn write(
        &mut self,
        calls: Vec<(Key, Result<JournalEntry, DamagedEntry>)>,
        journal: Option<&Journal>,
        to: &ArtifactStore,
        keys_in_target: &BTreeSet<Key>,
    ) -> Result<(), Error> {
        let all = calls.len() as u64;
        let intact: Vec<(Key, JournalEntry)> =
            calls.into_iter().filter_map(|(key, call)| Some((key, call.ok()?))).collect();
        let n_intact = intact.len() as u64;
        let written = match journal {
            Some(journal) => on_disk(journal, move |journal| journal.put_all(&intact)).await?,
            None => {
                let missing = intact.iter().filter(|(key, _)| !keys_in_target.contains(key));
                let puts = missing
                    .map(|(key, entry)| async move { to.put(&names::call(key), shared::encode(key, entry)?).await });
                let mut puts = stream::iter(puts).buffer_unordered(AT_ONCE);
                let mut written = 0;
                while let Some(put) = puts.next().await {
                    written += u64::from(put?);
                }
                written
            }
        };
        self.written += written;
        self.there += n_intact - written;
        self.damaged += all - n_intact;
        Ok(())
    }
}

impl Journal {
    /// The name of the file in a store's folder.
    pub const FILE: &str = "journal.db";

    /// At most this many calls after a key, in the order of keys, and the key
    /// to continue from; none at the end.
    fn page(&self, after: Option<Key>, at_most: usize) -> Result<CallPage, Error> {
        self.with(|connection| {
            let sql = "SELECT key FROM calls WHERE key > ?1 ORDER BY key LIMIT ?2";
            let after = after.map_or(Vec::new(), |key| key.bytes().to_vec());
            let keys = select_keys(connection, sql, (after, signed(at_most as u64)))?;
            let keys: Vec<Key> = keys.iter().filter_map(|bytes| Key::from_slice(bytes)).collect();
            let mut calls = Vec::with_capacity(keys.len());
            for key in &keys {
                if let Some(call) = stored(connection, key)? {
                    calls.push((*key, call));
                }
            }
            Ok((keys.last().copied(), calls))
        })
    }

    /// The keys of all calls, intact or not.
    fn keys(&self) -> Result<BTreeSet<Key>, Error> {
        self.with(|connection| {
            let keys = select_keys(connection, "SELECT key FROM calls", [])?;
            Ok(keys.iter().filter_map(|bytes| Key::from_slice(bytes)).collect())
        })
    }

    /// Stores the calls that are not there yet, all of them or none. Returns
    /// how many were new.
    ///
    /// # Errors
    /// If the database cannot be written, or a number is not finite.
    pub fn put_all(&self, calls: &[(Key, JournalEntry)]) -> Result<u64, Error> {
        self.insert(calls.iter().map(|(key, entry)| (key, entry)), |_, _| Ok(()))
    }
}

/// Calls, damaged ones with the reason, and the last key.
type CallPage = (Option<Key>, Vec<(Key, Result<JournalEntry, DamagedEntry>)>);

/// The journal file of a store that is a folder.
pub(super) fn file(store: &ArtifactStore) -> Option<PathBuf> {
    match store.location() {
        Location::Folder(folder) => Some(folder.join(Journal::FILE)),
        _ => None,
    }
}
