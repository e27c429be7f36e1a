//! A journal that is only read: no lock, no log and no other file is created,
//! so the journal may be in a folder that cannot be written to.

use super::{
    CREATE, CREATE_BATCHES, CREATE_OUTBOX, CREATE_REUSE, CREATE_SPENDING, Journal, JournalInner, SCHEMA, journal_error,
    salvage,
};
use crate::Error;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

impl Journal {
    /// Opens a journal only to read: every attempt to write is
    /// [`Error::ReadOnly`].
    ///
    /// If no process has the journal open, it is read without a lock. If a
    /// process begins to write meanwhile, a read may fail; each entry is
    /// compared with its checksum, so a result is never wrong.
    ///
    /// # Errors
    /// If the file is not there, is no journal, was written by a newer version
    /// of this program, or has a log that cannot be read without writing.
    pub fn open_to_read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        // If a salvage was killed, its replacement is the journal.
        let replacement = salvage::replacement(path);
        let file = if replacement.exists() { &replacement } else { path };
        let in_use = ["-wal", "-shm"].iter().any(|suffix| salvage::with_suffix(file, suffix).exists());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(address(file, in_use), flags)?;
            let found = prepare(&connection)?;
            Ok::<_, rusqlite::Error>((connection, found))
        };
        let (connection, found) = open().map_err(|source| journal_error(path, source))?;
        if found > SCHEMA {
            return Err(Error::Newer { path: path.display().to_string(), found, supported: SCHEMA });
        }
        Ok(JournalInner::journal(path, connection, None))
    }
}

/// The file as a URI, with options for SQLite.
fn address(path: &Path, in_use: bool) -> String {
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => address.push(char::from(*byte)),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address + if in_use { "?mode=ro" } else { "?mode=ro&immutable=1" }
}

/// Returns the version of the schema. Tables that an older or empty journal
/// lacks are created in memory.
fn prepare(connection: &Connection) -> rusqlite::Result<i64> {
    connection.busy_timeout(super::BUSY)?;
    let found = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables = [
        ("calls", CREATE),
        ("reuse", CREATE_REUSE),
        ("outbox", CREATE_OUTBOX),
        ("spending", CREATE_SPENDING),
        ("batches", CREATE_BATCHES),
    ];
    for (table, create) in tables {
        let known: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_master WHERE name = ?1", [table], |row| row.get(0))?;
        if known == 0 {
            connection.execute_batch("PRAGMA temp_store = MEMORY")?;
            connection.execute_batch(&create.replacen("CREATE TABLE", "CREATE TEMP TABLE", 1))?;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{entry, key};
    use super::*;
    use std::{collections::BTreeMap, path::PathBuf, time::SystemTime};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    /// What is in a folder, and when it was changed.
    fn state(folder: &Path) -> Result<BTreeMap<PathBuf, (SystemTime, u64)>, std::io::Error> {
        let mut state = BTreeMap::from([(folder.to_owned(), (std::fs::metadata(folder)?.modified()?, 0))]);
        for file in std::fs::read_dir(folder)? {
            let (path, metadata) = {
                let file = file?;
                (file.path(), file.metadata()?)
            };
            state.insert(path, (metadata.modified()?, metadata.len()));
        }
        Ok(state)
    }

    #[test]
    fn reading_a_journal_makes_and_changes_no_file() -> TestResult {
        let folder = tempfile::tempdir()?;
        // A name that means something in an address.
        let path = folder.path().join("a%20b?x#y.db");
        let journal = Journal::open(&path)?;
        journal.put(&key("a"), &entry("1"))?;
        drop(journal);
        // Whoever would lock it fails.
        std::fs::remove_file(path.with_extension("lock"))?;
        std::fs::create_dir(path.with_extension("lock"))?;
        assert!(Journal::open(&path).is_err());
        let before = state(folder.path())?;
        let journal = Journal::open_to_read(&path)?;
        assert_eq!(journal.get(&key("a"))?, Some(entry("1")));
        assert_eq!((journal.statistics()?.entries, journal.models()?.len()), (1, 1));
        assert!(journal.verify()?.is_empty());
        assert!(matches!(journal.put(&key("b"), &entry("2")), Err(Error::ReadOnly { .. })));
        drop(journal);
        assert_eq!(state(folder.path())?, before);
        assert!(Journal::open_to_read(folder.path().join("absent.db")).is_err());
        Ok(())
    }

    #[test]
    fn what_a_killed_or_running_process_wrote_is_read_too() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal.db");
        let writer = Journal::open(&path)?;
        writer.put(&key("a"), &entry("1"))?;
        let reader = Journal::open_to_read(&path)?;
        assert_eq!(reader.get(&key("a"))?, Some(entry("1")));
        writer.put(&key("b"), &entry("2"))?;
        assert_eq!(reader.get(&key("b"))?, Some(entry("2")), "as it is now, not as it was");
        Ok(())
    }
}
