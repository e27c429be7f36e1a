//! Erases entries so that their bytes are in no file of the journal any more.
//!
//! SQLite marks the space of a deleted row as free and leaves its bytes there. So deleted rows are overwritten
//! (`secure_delete`), and the file is built again without free space (`VACUUM`). The write-ahead log still holds the old
//! pages, so it is emptied. A salvage leaves files beside the journal, and these are removed too.

use super::{
    Journal, SELECT, SharedJournal, intact, lock, on_disk,
    shared::{AT_ONCE, decode},
};
use crate::{Error, JournalEntry, Key, names, staged::is_staged};
use futures::{StreamExt, TryStreamExt, stream};
use rusqlite::TransactionBehavior;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Whether an entry is to be erased. A damaged entry, whose content is not known, has none.
pub type EntryFilter = dyn Fn(&Key, Option<&JournalEntry>) -> bool + Send + Sync;

/// What was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ErasedCalls {
    /// The keys of the entries, of the file and of the shared store.
    pub keys: BTreeSet<Key>,
    /// Files beside the journal that an earlier salvage had left.
    pub files: Vec<PathBuf>,
}

impl Journal {
    /// The keys of the entries that a filter chooses.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn find(&self, filter: &EntryFilter) -> Result<BTreeSet<Key>, Error> {
        self.with(|connection| {
            let mut found = BTreeSet::new();
            let mut statement = connection.prepare(SELECT)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let key: Vec<u8> = row.get(0).unwrap_or_default();
                // An entry whose key is damaged is erased with all damaged entries.
                let Some(key) = Key::from_slice(&key) else { continue };
                if filter(&key, intact(row).ok().as_ref()) {
                    found.insert(key);
                }
            }
            Ok(found)
        })
    }

    /// Erases these entries, and every damaged one. Their bytes are then in no file of the journal. Returns the files
    /// of an earlier salvage that were removed.
    ///
    /// # Errors
    /// If the database cannot be written. [`Error::JournalInUse`] if another process reads it, so that the log cannot be
    /// emptied; calling this again finishes the work.
    pub fn erase(&self, keys: &BTreeSet<Key>) -> Result<Vec<PathBuf>, Error> {
        self.check_writable()?;
        let busy = self.with(|connection| {
            connection.pragma_update(None, "secure_delete", true)?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for row in rows_to_erase(&transaction, keys)? {
                transaction.prepare_cached("DELETE FROM calls WHERE rowid = ?1")?.execute([row])?;
            }
            for key in keys {
                transaction.prepare_cached("DELETE FROM outbox WHERE key = ?1")?.execute([key.bytes()])?;
            }
            transaction.commit()?;
            // Also if no entry was found: a process that was killed may have deleted them and done nothing else.
            connection.execute_batch("VACUUM")?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        })?;
        if busy != 0 {
            return Err(Error::JournalInUse { path: self.path().display().to_string() });
        }
        let _lock = lock(self.path())?;
        let left = left_by_salvage(self.path())?;
        for file in &left {
            match std::fs::remove_file(file) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::file("remove", file, source));
                }
                _ => {}
            }
        }
        Ok(left)
    }
}

/// The rows of these entries and of all damaged ones.
fn rows_to_erase(connection: &rusqlite::Connection, keys: &BTreeSet<Key>) -> rusqlite::Result<Vec<i64>> {
    let sql = SELECT.replace("FROM calls", ", rowid FROM calls");
    let (mut statement, mut found) = (connection.prepare(&sql)?, Vec::new());
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key: Vec<u8> = row.get(0).unwrap_or_default();
        let is_chosen = Key::from_slice(&key).is_some_and(|key| keys.contains(&key));
        if is_chosen || intact(row).is_err() {
            found.push(row.get(10)?);
        }
    }
    Ok(found)
}

/// The files that salvages have left beside a journal: damaged journals, and new ones that were not finished.
fn left_by_salvage(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let (Some(folder), Some(stem)) = (path.parent(), path.file_stem().and_then(|stem| stem.to_str())) else {
        return Ok(Vec::new());
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(folder).map_err(|source| Error::file("list", folder, source))?;
    let is_left = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(stem));
        let ending = name.and_then(|name| name.strip_prefix('.'));
        ending.is_some_and(|ending| ending.starts_with("damaged") || ending.starts_with("salvaging") || is_staged(file))
    };
    let mut left: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_left).collect();
    left.sort_unstable();
    Ok(left)
}

impl SharedJournal {
    /// The keys of the entries that a filter chooses, of the file on this machine and of the shared store.
    ///
    /// # Errors
    /// If the file or the store cannot be read.
    pub async fn find(&self, filter: Arc<EntryFilter>) -> Result<BTreeSet<Key>, Error> {
        let here = filter.clone();
        let mut found = on_disk(self.local(), move |journal| journal.find(&*here)).await?;
        let Some(store) = self.shared_store() else { return Ok(found) };
        let keys: Vec<Key> = store.list(names::CALLS).await?.iter().filter_map(|name| names::call_key(name)).collect();
        let reads = keys.into_iter().map(|key| {
            let filter = filter.clone();
            async move {
                // Read without a look at its checksum: that of a call is in the object.
                let Some(bytes) = store.get(&names::call(&key)).await? else { return Ok(None) };
                Ok::<_, Error>(filter(&key, decode(&key, &bytes).ok().as_ref()).then_some(key))
            }
        });
        let chosen: Vec<Option<Key>> = stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
        found.extend(chosen.into_iter().flatten());
        Ok(found)
    }

    /// Erases entries, here and in the shared store.
    ///
    /// # Errors
    /// As [`Journal::erase`], or if the store fails; calling this again finishes the work.
    pub async fn erase(&self, keys: BTreeSet<Key>) -> Result<ErasedCalls, Error> {
        if let Some(store) = self.shared_store() {
            let removals = keys.iter().map(|key| async move { store.remove(&names::call(key)).await });
            stream::iter(removals).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        }
        let erased = keys.clone();
        let files = on_disk(self.local(), move |journal| journal.erase(&erased)).await?;
        Ok(ErasedCalls { keys, files })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{entry, key},
        *,
    };

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    const SECRET: &str = "the river otter has the number four seven one one";

    /// Whether a text is in any file of a folder.
    fn is_in(folder: &Path, text: &str) -> Result<bool, std::io::Error> {
        let mut found = false;
        for file in std::fs::read_dir(folder)? {
            let bytes = std::fs::read(file?.path())?;
            found |= bytes.windows(text.len()).any(|window| window == text.as_bytes());
        }
        Ok(found)
    }

    #[test]
    fn what_is_erased_is_in_no_file_of_the_journal() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal.db");
        let journal = Journal::open(&path)?;
        for i in 0..200 {
            journal.put(&key(&format!("other {i}")), &entry(&"otters ".repeat(i)))?;
        }
        journal.put(&key("secret"), &entry(&SECRET.repeat(300)))?;
        std::fs::write(folder.path().join("journal.damaged-1"), SECRET)?;
        assert!(is_in(folder.path(), SECRET)?);
        let found = journal.find(&|_, entry| entry.is_some_and(|entry| entry.response.contains(SECRET)))?;
        assert_eq!(found, BTreeSet::from([key("secret")]));
        let left = journal.erase(&found)?;
        assert_eq!(left, [folder.path().join("journal.damaged-1")]);
        // While it is open, and after it was closed.
        assert!(!is_in(folder.path(), SECRET)?);
        assert_eq!(journal.statistics()?.entries, 200);
        assert_eq!(journal.get(&key("other 7"))?, Some(entry(&"otters ".repeat(7))));
        drop(journal);
        assert!(!is_in(folder.path(), SECRET)?);
        Ok(())
    }

    #[test]
    fn a_deletion_that_was_killed_before_the_file_was_cleaned_is_finished() -> TestResult {
        let folder = tempfile::tempdir()?;
        let journal = Journal::open(folder.path().join("journal.db"))?;
        journal.put(&key("secret"), &entry(&SECRET.repeat(300)))?;
        journal.with(|connection| connection.execute("DELETE FROM calls", []).map(drop))?;
        assert!(is_in(folder.path(), SECRET)?, "SQLite leaves what is deleted");
        journal.erase(&BTreeSet::new())?;
        assert!(!is_in(folder.path(), SECRET)?);
        Ok(())
    }

    #[test]
    fn a_reader_that_needs_the_old_log_makes_it_fail_and_the_next_try_finishes() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal.db");
        let journal = Journal::open(&path)?;
        journal.put(&key("secret"), &entry(SECRET))?;
        let reader = rusqlite::Connection::open(&path)?;
        reader.execute_batch("BEGIN; SELECT count(*) FROM calls;")?;
        journal.with(|connection| connection.busy_timeout(std::time::Duration::from_millis(10)))?;
        let failed = journal.erase(&BTreeSet::from([key("secret")]));
        assert!(failed.is_err(), "{failed:?}");
        reader.execute_batch("COMMIT")?;
        journal.erase(&BTreeSet::from([key("secret")]))?;
        assert!(!is_in(folder.path(), SECRET)?);
        Ok(())
    }
}
