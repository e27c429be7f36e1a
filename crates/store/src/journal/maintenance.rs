//! Maintenance of a journal: statistics, a search for damaged entries, and
//! removing entries.

use super::{Connection, Error, Journal, JournalEntry, JournalInner, SELECT, intact, lock_ignoring_panics, unsigned};
use rusqlite::{ErrorCode, TransactionBehavior, params};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{PoisonError, atomic::Ordering},
};

/// How many answers are given from the journal between two writes of their
/// count. Counting must not make reading as slow as writing, and a lost count
/// costs nothing.
const REUSE_PER_WRITE: u64 = 256;

/// What a journal holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct JournalStatistics {
    /// Calls.
    pub entries: u64,
    /// Tokens sent, of all calls.
    pub prompt_tokens: u64,
    /// Tokens received, of all calls.
    pub completion_tokens: u64,
    /// What all calls cost, in US dollars.
    pub cost_usd: f64,
    /// Answers that were given from the journal instead of being paid again.
    pub reused: u64,
    /// What these answers would have cost, in US dollars.
    pub saved_usd: f64,
    /// The size of the database.
    pub bytes: u64,
    /// How many damaged entries [`Journal::get`] has met since it was opened;
    /// [`Journal::verify`] looks for all of them.
    pub damaged: u64,
    /// Entries that a shared store does not have yet.
    pub unsent: u64,
}

/// What a journal holds of one kind of call to one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelStatistics {
    /// The model's name.
    pub model: String,
    /// `chat`, `embedding` or `rerank`.
    pub kind: String,
    /// Calls.
    pub entries: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// What the calls cost, in US dollars.
    pub cost_usd: f64,
    /// When the first one ended, in milliseconds since 1970.
    pub oldest_unix_ms: i64,
    /// When the last one ended.
    pub newest_unix_ms: i64,
}

/// An entry that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedEntry {
    /// Its key, as far as it can be read, in hexadecimal digits.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Which intact entries to remove: those that meet all given conditions; none
/// if no condition is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Ended before this, in milliseconds since 1970.
    pub before_unix_ms: Option<i64>,
    /// Of one of these models.
    pub models: Vec<String>,
}

impl Selection {
    fn holds(&self, entry: &JournalEntry) -> bool {
        let old = self.before_unix_ms.is_none_or(|before| entry.created_unix_ms < before);
        let of_model = self.models.is_empty() || self.models.contains(&entry.model);
        *self != Self::default() && old && of_model
    }
}

/// The entries that were, or would be, removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sweep {
    /// Intact entries that were selected.
    pub selected: u64,
    /// Damaged entries.
    pub damaged: u64,
    /// What it would cost to ask for the selected entries again, in US dollars.
    pub cost_usd: f64,
    /// The size of the database before.
    pub bytes_before: u64,
    /// The size of the database after; the same if nothing was taken out.
    pub bytes_after: u64,
}

/// The count of answers given from the journal that is not in the database yet.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    by_model: BTreeMap<String, (u64, f64)>,
    unwritten: u64,
}

impl Journal {
    /// How much the journal holds, and what it would cost to lose it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn statistics(&self) -> Result<JournalStatistics, Error> {
        // `total` sums in floating point: it cannot overflow, even if an entry
        // is damaged, and is exact up to 2^53 tokens.
        let sql = "SELECT count(*), total(prompt_tokens), total(completion_tokens), total(cost_usd),
                   (SELECT total(answers) FROM reuse), (SELECT total(saved_usd) FROM reuse),
                   (SELECT count(*) FROM outbox) FROM calls";
        self.write_reuse();
        self.with(|connection| {
            let bytes = bytes(connection)?;
            connection.query_row(sql, [], |row| {
                Ok(JournalStatistics {
                    entries: unsigned(row.get(0)?),
                    prompt_tokens: row.get::<_, f64>(1)? as u64,
                    completion_tokens: row.get::<_, f64>(2)? as u64,
                    cost_usd: row.get(3)?,
                    reused: row.get::<_, f64>(4)? as u64,
                    saved_usd: row.get(5)?,
                    unsent: unsigned(row.get(6)?),
                    bytes,
                    damaged: self.inner.damaged.load(Ordering::Relaxed),
                })
            })
        })
    }

    /// What the journal holds of each model, in alphabetical order.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn models(&self) -> Result<Vec<ModelStatistics>, Error> {
        let sql = "SELECT model, kind, count(*), total(prompt_tokens), total(completion_tokens), total(cost_usd),
                   min(created_unix_ms), max(created_unix_ms) FROM calls GROUP BY model, kind ORDER BY model, kind";
        self.with(|connection| {
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                Ok(ModelStatistics {
                    // The name of a damaged entry may not be valid text.
                    model: String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned(),
                    kind: String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned(),
                    entries: unsigned(row.get(2)?),
                    prompt_tokens: row.get::<_, f64>(3)? as u64,
                    completion_tokens: row.get::<_, f64>(4)? as u64,
                    cost_usd: row.get(5)?,
                    oldest_unix_ms: row.get(6)?,
                    newest_unix_ms: row.get(7)?,
                })
            })?;
            rows.collect()
        })
    }

    /// Reads every entry and names those that are not what was written. If the
    /// file ends too early or cannot be read any further, the last one named
    /// says so.
    ///
    /// # Errors
    /// If the database cannot be read for another reason.
    pub fn verify(&self) -> Result<Vec<DamagedEntry>, Error> {
        self.with(|connection| {
            let mut damaged = Vec::new();
            let mut statement = connection.prepare(SELECT)?;
            let mut rows = statement.query([])?;
            loop {
                match rows.next() {
                    Ok(Some(row)) => damaged.extend(intact(row).err()),
                    Ok(None) => return Ok(damaged),
                    Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                        let reason = format!("the rest of the file cannot be read: {error}");
                        damaged.push(DamagedEntry { key: String::new(), reason });
                        return Ok(damaged);
                    }
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// What [`Journal::remove`] would take out.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn select(&self, selection: &Selection) -> Result<Sweep, Error> {
        self.with(|connection| Ok(sweep(connection, selection)?.0))
    }

    /// Removes the selected entries and every damaged one, and gives the space
    /// back.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn remove(&self, selection: &Selection) -> Result<Sweep, Error> {
        self.check_writable()?;
        self.with(|connection| {
            // Found and removed in one transaction, so that no process can
            // replace a damaged entry in between.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let (mut swept, rows) = sweep(&transaction, selection)?;
            for row in &rows {
                transaction.prepare_cached("DELETE FROM calls WHERE rowid = ?1")?.execute([row])?;
            }
            transaction.commit()?;
            if !rows.is_empty() {
                connection.execute_batch("VACUUM")?;
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            swept.bytes_after = bytes(connection)?;
            Ok(swept)
        })
    }

    /// Counts that an answer was given instead of being paid again.
    pub(super) fn count_reuse(&self, entry: &JournalEntry) {
        let mut reuse = lock_ignoring_panics(&self.inner.reuse);
        let (answers, saved) = reuse.by_model.entry(entry.model.clone()).or_default();
        *answers += 1;
        *saved += entry.cost_usd;
        reuse.unwritten += 1;
        let due = reuse.unwritten >= REUSE_PER_WRITE;
        drop(reuse);
        if due {
            self.write_reuse();
        }
    }

    fn write_reuse(&self) {
        let reuse = std::mem::take(&mut *lock_ignoring_panics(&self.inner.reuse));
        // If the count cannot be written, the answer must not fail.
        let _ = self.with(|connection| write(connection, &reuse));
    }
}

impl Drop for JournalInner {
    fn drop(&mut self) {
        let reuse = std::mem::take(self.reuse.get_mut().unwrap_or_else(PoisonError::into_inner));
        let connection = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = write(connection, &reuse);
    }
}

fn write(connection: &mut Connection, reuse: &Reuse) -> rusqlite::Result<()> {
    if reuse.by_model.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO reuse VALUES (?1, ?2, ?3) ON CONFLICT (model) DO UPDATE
               SET answers = answers + excluded.answers, saved_usd = saved_usd + excluded.saved_usd";
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (model, (answers, saved)) in &reuse.by_model {
        transaction.execute(sql, params![model, super::signed(*answers), saved])?;
    }
    transaction.commit()
}

/// Counts the entries of a selection, and returns their rows.
fn sweep(connection: &Connection, selection: &Selection) -> rusqlite::Result<(Sweep, Vec<i64>)> {
    let bytes = bytes(connection)?;
    let mut swept = Sweep { bytes_before: bytes, bytes_after: bytes, ..Sweep::default() };
    let mut found = Vec::new();
    let sql = SELECT.replace("FROM calls", ", rowid FROM calls");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match intact(row) {
            Err(_) => swept.damaged += 1,
            Ok(entry) if selection.holds(&entry) => {
                swept.selected += 1;
                swept.cost_usd += entry.cost_usd;
            }
            Ok(_) => continue,
        }
        found.push(row.get(10)?);
    }
    Ok((swept, found))
}

fn bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page_bytes: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(unsigned(pages.saturating_mul(page_bytes)))
}

#[cfg(test)]
#[path = "maintenance_tests.rs"]
mod tests;
