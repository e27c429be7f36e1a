//! Batches of calls that a provider works on. A batch is recorded here before it is sent, and until its answers are
//! in the journal, so a process that is killed in between pays for none of its calls twice: the next one finds the
//! record and takes the answers. A record is a row of the journal's file; in a store that machines share, it is the
//! object `batches/<token>.json`.

use super::{Journal, SharedJournal, on_disk};
use crate::{Error, names};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Older versions lack this table.
pub(super) const CREATE_BATCHES: &str =
    "CREATE TABLE IF NOT EXISTS batches (token TEXT NOT NULL PRIMARY KEY, record TEXT NOT NULL) STRICT, WITHOUT ROWID";

/// Records that are read at once.
const AT_ONCE: usize = 16;

impl Journal {
    /// Writes the record of a batch, and returns all records by their tokens.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn put_batch(&self, token: &str, record: &str) -> Result<BTreeMap<String, String>, Error> {
        self.check_writable()?;
        self.with(|connection| {
            let sql = "INSERT OR REPLACE INTO batches VALUES (?1, ?2)";
            connection.prepare_cached(sql)?.execute([token, record])?;
            records(connection)
        })
    }

    /// Removes the record of a batch.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn remove_batch(&self, token: &str) -> Result<(), Error> {
        self.check_writable()?;
        self.with(|connection| connection.execute("DELETE FROM batches WHERE token = ?1", [token]).map(|_| ()))
    }

    /// The records of all batches, by their tokens.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn batches(&self) -> Result<BTreeMap<String, String>, Error> {
        self.with(|connection| records(connection))
    }
}

fn records(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare_cached("SELECT token, record FROM batches")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Copies the records of a damaged journal, as many as can be read.
pub(super) fn copy_readable(from: &Connection, to: &Connection) -> rusqlite::Result<()> {
    let Ok(found) = records(from) else { return Ok(()) };
    for (token, record) in found {
        to.execute("INSERT OR IGNORE INTO batches VALUES (?1, ?2)", [token, record])?;
    }
    Ok(())
}

impl SharedJournal {
    /// Whether it can be written; see [`SharedJournal::to_read`].
    pub fn is_writable(&self) -> bool {
        !self.reading
    }

    /// Writes the record of a batch, and returns all records by their tokens, read after the write.
    ///
    /// # Errors
    /// If the file or the store cannot be written or read.
    pub async fn put_batch(&self, token: &str, record: String) -> Result<BTreeMap<String, String>, Error> {
        if let Some(store) = self.remote_store() {
            // In boxes, because the compiler does not look into futures of any depth.
            store.replace(&names::batch(token), record).boxed().await?;
            return self.batches().boxed().await;
        }
        let token = token.to_owned();
        on_disk(&self.local, move |journal| journal.put_batch(&token, &record)).await
    }

    /// Removes the record of a batch.
    ///
    /// # Errors
    /// If the file or the store cannot be written.
    pub async fn remove_batch(&self, token: &str) -> Result<(), Error> {
        if let Some(store) = self.remote_store() {
            return store.remove(&names::batch(token)).boxed().await;
        }
        let token = token.to_owned();
        on_disk(&self.local, move |journal| journal.remove_batch(&token)).await
    }

    /// The records of all batches, by their tokens.
    ///
    /// # Errors
    /// If the file or the store cannot be read.
    pub async fn batches(&self) -> Result<BTreeMap<String, String>, Error> {
        let Some(store) = self.remote_store() else { return on_disk(&self.local, Journal::batches).await };
        let objects = store.list(names::BATCHES).await?;
        let reads = objects.into_iter().filter_map(|object| {
            let token = names::parse_batch(&object)?.to_owned();
            Some(async move {
                let Some(bytes) = store.get(&object).await? else { return Ok(None) };
                let record = String::from_utf8(bytes.to_vec()).map_err(|error| Error::damaged(&object, error))?;
                Ok(Some((token, record)))
            })
        });
        let reads: Vec<_> = reads.collect();
        let read = stream::iter(reads).buffer_unordered(AT_ONCE).try_filter_map(async |read| Ok(read));
        read.try_collect().boxed().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArtifactStore, NoLayout};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_record_is_there_for_other_processes_and_machines_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = ArtifactStore::open("memory:///", &[], &NoLayout).unwrap();
        let journal = |name: &str| Arc::new(Journal::open(folder.path().join(name).join("journal.db")).unwrap());
        let shared = |name: &str| SharedJournal::new(journal(name), store.clone());
        let pairs = [
            (SharedJournal::from(journal("one")), SharedJournal::from(journal("one"))),
            (shared("here"), shared("there")),
        ];
        for (one, other) in pairs {
            one.put_batch("t1", "a".to_owned()).await.unwrap();
            let all = other.put_batch("t2", "b".to_owned()).await.unwrap();
            assert_eq!(all.values().collect::<Vec<_>>(), ["a", "b"]);
            other.remove_batch("t1").await.unwrap();
            assert_eq!(one.batches().await.unwrap().into_keys().collect::<Vec<_>>(), ["t2"]);
        }
    }
}
