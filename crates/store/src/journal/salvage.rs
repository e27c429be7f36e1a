//! Salvages a journal whose file is damaged: builds a new journal of everything
//! that can still be read, and puts it in place of the old one.
//!
//! A kill at any moment loses nothing, because there is always one file that
//! holds everything:
//!
//! 1. `journal.salvaging#…` is built. Until it is complete, the damaged file is
//!    untouched.
//! 2. It is renamed to `journal.replacement`. From then on that file is the
//!    journal: the next process that opens the journal finishes the salvage first.
//! 3. The damaged file gets a second name, `journal.damaged-1`, and its
//!    write-ahead log moves with it.
//! 4. `journal.replacement` is renamed to `journal.db`, in one step.
//!
//! No file that holds entries is ever deleted.

use super::{Connection, Error, Journal, SELECT, batches, intact, journal_error, lock, spending, write_if_new};
use crate::{Key, staged::unique_token};
use rusqlite::{ErrorCode, OpenFlags, TransactionBehavior, config::DbConfig, params};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long to wait for another process that closes the journal.
const CLOSING: Duration = Duration::from_secs(2);
/// The name that earlier versions gave to a journal that they had built, or were building.
const OF_EARLIER_VERSIONS: &str = "salvaged";

/// The result of a salvage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Salvage {
    /// Entries that are intact, and in the new journal.
    pub kept: u64,
    /// How many of them still have to be sent to a shared store; all of them,
    /// if the list of unsent entries could not be read.
    pub unsent: u64,
    /// The present path of the damaged file.
    pub damaged_file: PathBuf,
}

/// The steps between which a salvage may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SalvageStep {
    Building,
    Built,
    Committed,
    Linked,
    LogMoved,
    Cleared,
    Replaced,
}

/// Called at each step; an error ends the work there, as a kill would.
pub(super) type StepWatch<'a> = &'a mut dyn FnMut(SalvageStep) -> Result<(), Error>;

impl Journal {
    /// Builds a journal of all intact entries of a damaged one, including those
    /// that still have to be sent, and puts it in place. The damaged file stays
    /// beside it.
    ///
    /// # Errors
    /// [`Error::JournalInUse`] if another process has the journal open. An
    /// error of a file if the damaged journal cannot be opened, or the new one
    /// cannot be written; then everything is still there, and the next call
    /// continues.
    pub fn salvage(path: impl AsRef<Path>) -> Result<Salvage, Error> {
        salvage(path.as_ref(), &mut |_| Ok(()))
    }
}

pub(super) fn salvage(path: &Path, watch: StepWatch<'_>) -> Result<Salvage, Error> {
    let _lock = lock(path)?;
    // A salvage was begun before: the journal that it built is complete.
    if let Some(damaged_file) = finish(path, watch)? {
        let journal = Journal::open_file(path)?;
        let statistics = journal.statistics()?;
        return Ok(Salvage { kept: statistics.entries, unsent: statistics.unsent, damaged_file });
    }
    let building = path.with_extension(format!("salvaging#{}", unique_token()));
    let (kept, unsent) = build(path, &building, watch)?;
    watch(SalvageStep::Built)?;
    let replacement = replacement(path);
    std::fs::rename(&building, &replacement).map_err(|source| Error::file("write", &replacement, source))?;
    flush_folder(path)?;
    watch(SalvageStep::Committed)?;
    let aside = finish(path, watch)?;
    Ok(Salvage { kept, unsent, damaged_file: aside.unwrap_or_else(|| path.to_owned()) })
}

/// The path of the journal that replaces a damaged one.
pub(super) fn replacement(path: &Path) -> PathBuf {
    path.with_extension("replacement")
}

/// Finishes a salvage whose new journal is complete. Returns the path of the
/// damaged file; none if there was nothing to do. The caller holds the lock.
pub(super) fn finish(path: &Path, watch: StepWatch<'_>) -> Result<Option<PathBuf>, Error> {
    let replacement = replacement(path);
    if !replacement.exists() {
        return Ok(None);
    }
    let failed = |source| Error::file("replace", path, source);
    let aside = place_aside(path);
    if path.exists() && !is_same(path, &aside) {
        second_name(path, &aside).map_err(failed)?;
    }
    watch(SalvageStep::Linked)?;
    // SQLite would apply this log to whatever file has the name.
    ignore_missing(std::fs::rename(with_suffix(path, "-wal"), with_suffix(&aside, "-wal"))).map_err(failed)?;
    watch(SalvageStep::LogMoved)?;
    ignore_missing(std::fs::remove_file(with_suffix(path, "-shm"))).map_err(failed)?;
    watch(SalvageStep::Cleared)?;
    std::fs::rename(&replacement, path).map_err(failed)?;
    flush_folder(path)?;
    watch(SalvageStep::Replaced)?;
    Ok(Some(aside))
}

/// Takes over what earlier versions left when they were killed: a journal that
/// they had built but not put in place. The caller holds the lock.
pub(super) fn take_over(journal: &Journal) -> Result<(), Error> {
    let path = journal.path();
    let left = path.with_extension(OF_EARLIER_VERSIONS);
    if !left.exists() {
        return Ok(());
    }
    let source = open_damaged(&left)?;
    journal.with(|connection| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        copy(&source, &transaction)?;
        transaction.commit()
    })?;
    drop(source);
    let failed = |source| Error::file("set aside", &left, source);
    let aside = place_aside(path);
    ignore_missing(std::fs::rename(with_suffix(&left, "-wal"), with_suffix(&aside, "-wal"))).map_err(failed)?;
    std::fs::rename(&left, &aside).map_err(failed)?;
    ignore_missing(std::fs::remove_file(with_suffix(&left, "-shm"))).map_err(failed)
}

/// Builds a complete journal in a file of its own. Returns how many entries it
/// has, and how many of them have to be sent.
fn build(path: &Path, building: &Path, watch: StepWatch<'_>) -> Result<(u64, u64), Error> {
    let damaged = open_damaged(path)?;
    let fresh = Journal::open_file(building)?;
    watch(SalvageStep::Building)?;
    fresh.with(|connection| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        copy(&damaged, &transaction)?;
        transaction.commit()?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    })?;
    let statistics = fresh.statistics()?;
    drop(fresh);
    let log = with_suffix(building, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let source = io::Error::other("SQLite left a part of it in its log; try again");
        return Err(Error::file("write", building, source));
    }
    let flushed = File::open(building).and_then(|file| file.sync_all());
    flushed.map_err(|source| Error::file("write", building, source))?;
    Ok((statistics.entries, statistics.unsent))
}

/// Opens as much of a file as is readable, for this process alone, and so that
/// closing it changes nothing.
fn open_damaged(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(CLOSING)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // Otherwise SQLite refuses the whole file if it is shorter than its header says.
        connection.pragma_update(None, "writable_schema", true)?;
        match connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(())) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Err(error),
            // Any other damage shows when the file is read.
            _ => Ok(connection),
        }
    };
    open().map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => Error::JournalInUse { path: path.display().to_string() },
        _ => journal_error(path, error),
    })
}

/// Copies the intact entries that are not there yet, the outbox, the counts of reused answers, and what was spent.
fn copy(from: &Connection, to: &Connection) -> rusqlite::Result<()> {
    let mut kept = Vec::new();
    // From both ends, each as far as it goes, because damage is mostly in one place.
    for order in ["ASC", "DESC"] {
        let sql = format!("{SELECT} ORDER BY rowid {order}");
        let Ok(mut statement) = from.prepare(&sql) else { continue };
        let Ok(mut rows) = statement.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            let key = Key::from_slice(&row.get::<_, Vec<u8>>(0).unwrap_or_default());
            if let (Some(key), Ok(entry)) = (key, intact(row))
                && write_if_new(to, &key, &entry)?
            {
                kept.push(key);
            }
        }
    }
    let listed = outbox(from);
    let mut note = to.prepare("INSERT OR IGNORE INTO outbox VALUES (?1)")?;
    for key in kept {
        // If the list cannot be read, everything is sent: an entry that a store
        // has already is only looked up.
        if listed.as_ref().is_none_or(|listed| listed.contains(&key.bytes()[..])) {
            note.execute([key.bytes()])?;
        }
    }
    drop(note);
    // These numbers are only for people: as many as can be read.
    if let Ok(mut statement) = from.prepare("SELECT model, answers, saved_usd FROM reuse")
        && let Ok(mut rows) = statement.query([])
    {
        while let Ok(Some(row)) = rows.next() {
            let read = <(String, i64, f64)>::try_from(row);
            let Ok((model, answers, saved)) = read else { continue };
            to.execute("INSERT OR IGNORE INTO reuse VALUES (?1, ?2, ?3)", params![model, answers, saved])?;
        }
    }
    batches::copy_readable(from, to)?;
    spending::copy_readable(from, to)
}

/// The keys of entries that have to be sent; none if they cannot be read.
fn outbox(connection: &Connection) -> Option<BTreeSet<Vec<u8>>> {
    let table = "SELECT count(*) FROM sqlite_master WHERE name = 'outbox'";
    if connection.query_row(table, [], |row| row.get::<_, i64>(0)).ok()? == 0 {
        // A journal of a version without an outbox.
        return Some(BTreeSet::new());
    }
    let (mut keys, mut is_whole) = (BTreeSet::new(), false);
    // The table and its index, each from both ends.
    for order in ["rowid ASC", "rowid DESC", "key ASC", "key DESC"] {
        let Ok(mut statement) = connection.prepare(&format!("SELECT key FROM outbox ORDER BY {order}")) else {
            continue;
        };
        let Ok(mut rows) = statement.query([]) else { continue };
        loop {
            match rows.next() {
                Ok(Some(row)) => keys.extend(row.get::<_, Vec<u8>>(0)),
                Ok(None) => break is_whole = true,
                Err(_) => break,
            }
        }
    }
    is_whole.then_some(keys)
}

/// The new path of a damaged file: beside it, with the first number that is
/// free or that the file has already.
fn place_aside(path: &Path) -> PathBuf {
    let places = (1..).map(|i: u32| path.with_extension(format!("damaged-{i}")));
    let free = |aside: &PathBuf| is_same(path, aside) || (!aside.exists() && !with_suffix(aside, "-wal").exists());
    places.into_iter().find(free).unwrap_or_else(|| path.with_extension("damaged"))
}

/// Whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// A second name for a file, or a copy if the disk has no hard links.
fn second_name(path: &Path, name: &Path) -> io::Result<()> {
    if std::fs::hard_link(path, name).is_ok() {
        return Ok(());
    }
    let staged = crate::staged::staged_path(name);
    std::fs::copy(path, &staged)?;
    File::open(&staged)?.sync_all()?;
    std::fs::rename(&staged, name)
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Flushes the folder, so that a power cut undoes no step that a later step relies on.
fn flush_folder(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flushed = File::open(folder).and_then(|folder| folder.sync_all());
    flushed.map_err(|source| Error::file("flush", folder, source))
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
mod tests;
