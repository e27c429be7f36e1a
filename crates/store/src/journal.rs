//! The journal of model calls: a call that was paid once is never paid again.
//! It is a SQLite file that several processes of one machine may share.
//!
//! Each entry has a checksum over its key and content. An entry that does not
//! match counts as absent, so the call is made again and replaces it. If the
//! file itself is damaged (cut off, or its structure overwritten), reading
//! fails with [`Error::JournalDamaged`], and [`Journal::salvage`] saves the
//! entries that can still be read.
//!
//! An entry is in the operating system's hands when `put` returns (write-ahead
//! log, `synchronous=NORMAL`): `kill -9` of any process loses none of them and
//! corrupts nothing. It is on the disk within a second (`flush.rs`): a power
//! cut loses the entries of the last second at most, and never damages the
//! file. If the disk is full, answers in flight get reserved space
//! (`reserve.rs`). The write-ahead log needs shared memory, so the file must
//! lie on a local disk, not on a network file system.

mod batches;
mod erase;
mod flush;
mod maintenance;
mod outbox;
mod reading;
mod reserve;
mod salvage;
mod shared;
mod spending;
mod transfer;

pub use erase::{EntryFilter, ErasedCalls};
pub use maintenance::{DamagedEntry, JournalStatistics, ModelStatistics, Selection, Sweep};
pub use salvage::Salvage;
pub use shared::SharedJournal;
pub(crate) use spending::copy_shares;
pub use spending::{CallCosts, SpendingShare, SpendingShares};
pub use transfer::CopiedCalls;
pub(crate) use transfer::copy_calls;

use crate::{Error, Key, space};
use batches::CREATE_BATCHES;
use flush::Flusher;
use maintenance::Reuse;
use reserve::ReserveState;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};
use spending::CREATE_SPENDING;
use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Raise this when the table changes, and migrate in `prepare`.
const SCHEMA: i64 = 1;

/// How long to wait for another process that is writing. Each process holds the
/// file for microseconds, so only a process that was stopped makes others wait
/// this long.
const BUSY: Duration = Duration::from_secs(30);

const CREATE: &str = "
    CREATE TABLE calls (
        key BLOB NOT NULL PRIMARY KEY,
        model TEXT NOT NULL,
        kind TEXT NOT NULL,
        response TEXT NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        cost_usd REAL NOT NULL,
        seconds REAL NOT NULL,
        created_unix_ms INTEGER NOT NULL,
        checksum BLOB NOT NULL
    ) STRICT";

/// How many answers came from the journal instead of being paid again, for people. Older versions lack this table.
const CREATE_REUSE: &str = "
    CREATE TABLE IF NOT EXISTS reuse (
        model TEXT NOT NULL PRIMARY KEY,
        answers INTEGER NOT NULL,
        saved_usd REAL NOT NULL
    ) STRICT";

/// Entries that a shared store does not have yet. Older versions lack this table.
const CREATE_OUTBOX: &str = "CREATE TABLE IF NOT EXISTS outbox (key BLOB NOT NULL PRIMARY KEY) STRICT";

const SELECT: &str = "
    SELECT key, model, kind, response, prompt_tokens, completion_tokens, cost_usd, seconds, created_unix_ms, checksum
    FROM calls";

/// One finished model call.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// The model's name.
    pub model: String,
    /// `chat`, `embedding` or `rerank`.
    pub kind: String,
    /// The response as JSON.
    pub response: String,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// What the call cost, in US dollars.
    pub cost_usd: f64,
    /// How long the call took.
    pub seconds: f64,
    /// When it ended, in milliseconds since 1970 (UTC), by the caller's clock.
    pub created_unix_ms: i64,
}

/// An open journal. Clones share one connection.
#[derive(Debug, Clone)]
pub struct Journal {
    inner: Arc<JournalInner>,
}

#[derive(Debug)]
struct JournalInner {
    path: PathBuf,
    /// Device and inode of the file; none if it is only read.
    file: Option<(u64, u64)>,
    connection: Mutex<Connection>,
    damaged: AtomicU64,
    reuse: Mutex<Reuse>,
    reserved: Mutex<ReserveState>,
    /// After the connection, so that it is dropped when the connection is closed; none if the journal is only read.
    flusher: Option<Flusher>,
}

impl Journal {
    /// Opens a journal, and creates it and its folders where they are missing.
    ///
    /// # Errors
    /// If the file cannot be used, is no journal, or was written by a newer
    /// version of this program.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
        }
        let lock = lock(path)?;
        salvage::finish(path, &mut |_| Ok(()))?;
        let journal = Self::open_file(path)?;
        salvage::take_over(&journal)?;
        drop(lock);
        Ok(journal)
    }

    /// Opens a file, or creates it. The caller holds the lock.
    fn open_file(path: &Path) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(|source| journal_error(path, source))?;
        let found = prepare(&mut connection).map_err(|source| journal_error(path, source))?;
        if found > SCHEMA {
            return Err(Error::Newer { path: path.display().to_string(), found, supported: SCHEMA });
        }
        let file = std::fs::metadata(path).map_err(|source| Error::file("open", path, source))?;
        if found == 0
            && let Some(folder) = path.parent()
        {
            // The name of a new file must reach the disk too.
            let flushed = File::open(folder).and_then(|folder| folder.sync_all());
            flushed.map_err(|source| Error::file("flush", folder, source))?;
        }
        Ok(JournalInner::journal(path, connection, Some((file.dev(), file.ino()))))
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The entry of a call, if it was made before. A damaged entry counts as
    /// absent, so that the call is made again; see [`JournalStatistics::damaged`].
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn get(&self, key: &Key) -> Result<Option<JournalEntry>, Error> {
        let stored = self.with(|connection| stored(connection, key))?;
        match &stored {
            Some(Ok(entry)) => self.count_reuse(entry),
            Some(Err(_)) => _ = self.inner.damaged.fetch_add(1, Ordering::Relaxed),
            None => {}
        }
        Ok(stored.and_then(Result::ok))
    }

    /// How many damaged entries [`Journal::get`] has met since it was opened.
    pub fn n_damaged(&self) -> u64 {
        self.inner.damaged.load(Ordering::Relaxed)
    }

    /// Stores a call. The entry survives `kill -9` from the moment this
    /// returns, so the response may be used from then on.
    ///
    /// An intact entry of the same key stays as it is: its response may be in
    /// use already. A damaged one is replaced.
    ///
    /// # Errors
    /// If the database cannot be written, or a number is not finite.
    pub fn put(&self, key: &Key, entry: &JournalEntry) -> Result<(), Error> {
        self.insert([(key, entry)], |_, _| Ok(())).map(|_| ())
    }

    /// The entries of several calls, in order; see [`Journal::get`].
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<JournalEntry>>, Error> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Stores the calls that are not there yet, all of them or none, and does
    /// something more for each in the same transaction. Returns how many were
    /// new.
    fn insert<'a>(
        &self,
        calls: impl IntoIterator<Item = (&'a Key, &'a JournalEntry)> + Clone,
        more: impl Fn(&Connection, &Key) -> rusqlite::Result<()>,
    ) -> Result<u64, Error> {
        self.check_writable()?;
        if let Some(flusher) = &self.inner.flusher {
            flusher.check()?;
        }
        let write = || {
            self.with(|connection| {
                // Immediate: the lock is taken before the read, so no other
                // process can write between the look and the insertion.
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let mut written = 0;
                for (key, entry) in calls.clone() {
                    written += u64::from(write_if_new(&transaction, key, entry)?);
                    more(&transaction, key)?;
                }
                transaction.commit()?;
                Ok(written)
            })
        };
        let written = match write() {
            Err(error @ Error::Full { .. }) if self.release_space(&error) => write(),
            written => written,
        };
        if let Some(flusher) = &self.inner.flusher {
            flusher.wrote();
        }
        written
    }

    /// Checks that what is written now will be found again: SQLite continues
    /// with a file even if it was removed.
    fn check_writable(&self) -> Result<(), Error> {
        // Absolute, because the reader of the message may not know the working directory.
        let path = || std::path::absolute(&self.inner.path).as_ref().unwrap_or(&self.inner.path).display().to_string();
        let Some(opened) = self.inner.file else { return Err(Error::ReadOnly { path: path() }) };
        match std::fs::metadata(&self.inner.path) {
            Ok(now) if (now.dev(), now.ino()) == opened => Ok(()),
            _ => Err(Error::Gone { path: path() }),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        // A panic in another thread rolls its transaction back: the
        // connection it leaves is sound.
        let mut connection = lock_ignoring_panics(&self.inner.connection);
        work(&mut connection).map_err(|source| journal_error(&self.inner.path, source))
    }
}

impl JournalInner {
    fn journal(path: &Path, connection: Connection, file: Option<(u64, u64)>) -> Journal {
        let inner = Self {
            path: path.to_owned(),
            file,
            connection: Mutex::new(connection),
            damaged: AtomicU64::new(0),
            reuse: Mutex::default(),
            reserved: Mutex::default(),
            flusher: file.map(|_| Flusher::new(path)),
        };
        Journal { inner: Arc::new(inner) }
    }
}

/// Writes an entry unless there is an intact one; returns whether it wrote.
fn write_if_new(connection: &Connection, key: &Key, entry: &JournalEntry) -> rusqlite::Result<bool> {
    let is_new = !matches!(stored(connection, key)?, Some(Ok(_)));
    if is_new {
        write(connection, key, entry)?;
    }
    Ok(is_new)
}

fn write(connection: &Connection, key: &Key, entry: &JournalEntry) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    connection.prepare_cached(sql)?.execute(params![
        key.bytes(),
        entry.model,
        entry.kind,
        entry.response,
        signed(entry.prompt_tokens),
        signed(entry.completion_tokens),
        entry.cost_usd,
        entry.seconds,
        entry.created_unix_ms,
        checksum(key.bytes(), entry),
    ])?;
    Ok(())
}

/// The problem of an entry that is an object of a shared store.
pub(crate) fn check_object(key: &Key, bytes: &[u8]) -> Option<String> {
    shared::decode(key, bytes).err().map(|damaged| damaged.reason)
}

/// SQLite does not queue while it switches to the write-ahead log, so processes
/// that open a new journal at once take turns with this lock.
fn lock(path: &Path) -> Result<File, Error> {
    let path = path.with_extension("lock");
    let lock = File::create(&path).map_err(|source| Error::file("create", &path, source))?;
    lock.lock().map_err(|source| Error::file("lock", &path, source))?;
    Ok(lock)
}

/// Sets the connection up, creates the table in a new file, and returns the
/// version of the schema. A newer one is left untouched.
fn prepare(connection: &mut Connection) -> rusqlite::Result<i64> {
    connection.busy_timeout(BUSY)?;
    let version = |connection: &Connection| connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let found: i64 = version(connection)?;
    if found > SCHEMA {
        return Ok(found);
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    if found == 0 {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(CREATE)?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
        transaction.commit()?;
    }
    connection.execute_batch(CREATE_REUSE)?;
    connection.execute_batch(CREATE_OUTBOX)?;
    connection.execute_batch(CREATE_SPENDING)?;
    connection.execute_batch(CREATE_BATCHES)?;
    version(connection)
}

fn stored(connection: &Connection, key: &Key) -> rusqlite::Result<Option<Result<JournalEntry, DamagedEntry>>> {
    let sql = format!("{SELECT} WHERE key = ?1");
    connection.prepare_cached(&sql)?.query_row([key.bytes()], |row| Ok(intact(row))).optional()
}

fn intact(row: &Row<'_>) -> Result<JournalEntry, DamagedEntry> {
    let key: Vec<u8> = row.get(0).unwrap_or_default();
    let damaged = |reason: String| DamagedEntry { key: hex(&key), reason };
    let read = || {
        Ok(JournalEntry {
            model: row.get(1)?,
            kind: row.get(2)?,
            response: row.get(3)?,
            prompt_tokens: unsigned(row.get(4)?),
            completion_tokens: unsigned(row.get(5)?),
            cost_usd: row.get(6)?,
            seconds: row.get(7)?,
            created_unix_ms: row.get(8)?,
        })
    };
    let entry: JournalEntry = read().map_err(|error: rusqlite::Error| damaged(error.to_string()))?;
    if row.get::<_, Vec<u8>>(9).unwrap_or_default() != checksum(&key, &entry) {
        return Err(damaged("its content does not match its checksum".to_owned()));
    }
    Ok(entry)
}

/// The checksum of an entry as the database returns it: with signed integers, and without
/// -0.0. The key is part of it: an entry under the wrong key is damaged.
fn checksum(key: &[u8], entry: &JournalEntry) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for bytes in [key, entry.model.as_bytes(), entry.kind.as_bytes(), entry.response.as_bytes()] {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    for number in [signed(entry.prompt_tokens), signed(entry.completion_tokens), entry.created_unix_ms] {
        hasher.update(&number.to_le_bytes());
    }
    for number in [entry.cost_usd, entry.seconds] {
        hasher.update(&(number + 0.0).to_bits().to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The keys that a query selects, in its order.
fn select_keys(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Vec<u8>>> {
    connection.prepare_cached(sql)?.query_map(parameters, |row| row.get(0))?.collect()
}

/// Runs work on the file outside the threads that wait for the network. Work that has
/// begun is finished even if its caller is gone.
async fn on_disk<T: Send + 'static>(
    journal: &Journal,
    work: impl FnOnce(&Journal) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let shared = journal.clone();
    let done = tokio::task::spawn_blocking(move || work(&shared)).await;
    done.map_err(|error| Error::file("use", journal.path(), std::io::Error::other(error)))?
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn lock_ignoring_panics<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn journal_error(path: &Path, source: rusqlite::Error) -> Error {
    let path = path.display().to_string();
    if space::is_unwritten(&source) {
        return space::full(path, source);
    }
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => Error::JournalDamaged { path, source },
        _ => Error::Journal { path, source },
    }
}

#[cfg(test)]
mod tests;
