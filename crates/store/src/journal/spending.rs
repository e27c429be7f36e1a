//! What processes spend under one name, such as that of an experiment, over all starts.
//!
//! Each process has one share. It says what the process has spent, and how much it may spend before it writes the share
//! again. The share is written *before* the money is spent, so a process that is killed has spent no more than its share
//! says. A share is a row of the journal's file; in a store that machines share, it is the object
//! `spending/<name>/<process>.json`.
//!
//! A process writes its own share first, and then reads those of others. If two processes raise their shares at once, at
//! least one of them sees both, so together they never spend more than the cap.

use super::{Journal, SharedJournal, on_disk, signed, unsigned};
use crate::{ArtifactStore, Error, names};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use rusqlite::{Connection, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

/// Older versions lack this table.
pub(super) const CREATE_SPENDING: &str = "
    CREATE TABLE IF NOT EXISTS spending (
        name TEXT NOT NULL,
        process TEXT NOT NULL,
        spent_picodollars INTEGER NOT NULL,
        spent_tokens INTEGER NOT NULL,
        spent_calls INTEGER NOT NULL,
        held_picodollars INTEGER NOT NULL,
        held_tokens INTEGER NOT NULL,
        held_calls INTEGER NOT NULL,
        written_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (name, process)
    ) STRICT, WITHOUT ROWID";

/// Raise this when the object's fields change.
const VERSION: u32 = 1;
/// Objects that are read at once.
const AT_ONCE: usize = 64;

/// An amount that calls cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCosts {
    /// Money, in millionths of a millionth of a dollar.
    pub picodollars: u64,
    /// Tokens sent and received.
    pub tokens: u64,
    /// Calls.
    pub calls: u64,
}

impl CallCosts {
    fn max(self, other: Self) -> Self {
        Self {
            picodollars: self.picodollars.max(other.picodollars),
            tokens: self.tokens.max(other.tokens),
            calls: self.calls.max(other.calls),
        }
    }
}

/// What one process spends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendingShare {
    /// What its finished calls cost.
    pub spent: CallCosts,
    /// What all its calls may cost until it writes again; never less than `spent`.
    pub held: CallCosts,
    /// When it was written, in milliseconds since 1970 (UTC), by the clock of the process.
    pub written_unix_ms: i64,
}

impl SpendingShare {
    /// A share that is written now.
    pub fn now(spent: CallCosts, held: CallCosts) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let written_unix_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Self { spent, held: held.max(spent), written_unix_ms }
    }

    fn merged(self, other: Self) -> Self {
        Self {
            spent: self.spent.max(other.spent),
            held: self.held.max(other.held),
            written_unix_ms: self.written_unix_ms.max(other.written_unix_ms),
        }
    }
}

/// The shares of processes, by the name of each process.
pub type SpendingShares = BTreeMap<String, SpendingShare>;

/// A share as an object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareObject {
    version: u32,
    spent: CallCosts,
    held: CallCosts,
    written_unix_ms: i64,
}

impl Journal {
    /// Writes the share of a process, and returns all shares of the name.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn put_share(&self, name: &str, process: &str, share: &SpendingShare) -> Result<SpendingShares, Error> {
        self.check_writable()?;
        if let Some(flusher) = &self.inner.flusher {
            flusher.check()?;
        }
        let write = || {
            self.with(|connection| {
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                put(&transaction, name, process, share)?;
                let shares = shares(&transaction, name)?;
                transaction.commit()?;
                Ok(shares)
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

    /// All shares of a name.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn shares(&self, name: &str) -> Result<SpendingShares, Error> {
        self.with(|connection| shares(connection, name))
    }

    /// All shares, by their names and processes.
    fn all_shares(&self) -> Result<BTreeMap<String, SpendingShares>, Error> {
        self.with(|connection| {
            let mut statement = connection.prepare("SELECT DISTINCT name FROM spending")?;
            let names = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
            names.into_iter().map(|name| Ok((name.clone(), shares(connection, &name)?))).collect()
        })
    }

    /// Adds shares of another store; of a process that is known here, the larger amounts stay.
    fn merge_shares(&self, all: &BTreeMap<String, SpendingShares>) -> Result<(), Error> {
        self.with(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (name, theirs) in all {
                let ours = shares(&transaction, name)?;
                for (process, share) in theirs {
                    let merged = ours.get(process).map_or(*share, |ours| ours.merged(*share));
                    put(&transaction, name, process, &merged)?;
                }
            }
            transaction.commit()
        })
    }
}

/// Writes a share into a database.
pub(super) fn put(
    connection: &Connection,
    name: &str,
    process: &str,
    SpendingShare { spent, held, written_unix_ms }: &SpendingShare,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO spending VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        name,
        process,
        signed(spent.picodollars),
        signed(spent.tokens),
        signed(spent.calls),
        signed(held.picodollars),
        signed(held.tokens),
        signed(held.calls),
        written_unix_ms,
    ])?;
    Ok(())
}

fn shares(connection: &Connection, name: &str) -> rusqlite::Result<SpendingShares> {
    let sql = "SELECT process, spent_picodollars, spent_tokens, spent_calls, held_picodollars, held_tokens, held_calls,
               written_unix_ms FROM spending WHERE name = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([name], |row| {
        let costs = |first: usize| {
            Ok::<_, rusqlite::Error>(CallCosts {
                picodollars: unsigned(row.get(first)?),
                tokens: unsigned(row.get(first + 1)?),
                calls: unsigned(row.get(first + 2)?),
            })
        };
        let share = SpendingShare { spent: costs(1)?, held: costs(4)?, written_unix_ms: row.get(7)? };
        Ok((row.get(0)?, share))
    })?;
    rows.collect()
}

/// Copies the shares of a damaged journal, as many as can be read.
pub(super) fn copy_readable(from: &Connection, to: &Connection) -> rusqlite::Result<()> {
    let Ok(mut statement) = from.prepare("SELECT DISTINCT name FROM spending") else { return Ok(()) };
    let Ok(mut names) = statement.query([]) else { return Ok(()) };
    while let Ok(Some(row)) = names.next() {
        let Ok(name) = row.get::<_, String>(0) else { continue };
        let Ok(theirs) = shares(from, &name) else { continue };
        let ours = shares(to, &name)?;
        for (process, share) in theirs {
            let merged = ours.get(&process).map_or(share, |ours| ours.merged(share));
            put(to, &name, &process, &merged)?;
        }
    }
    Ok(())
}

impl SharedJournal {
    /// Writes the share of a process where all machines of the store see it, and returns all shares of the name, read
    /// after the write.
    ///
    /// # Errors
    /// If the file or the store cannot be written or read; [`Error::ReadOnly`] if this journal is only read.
    pub async fn put_share(&self, name: &str, process: &str, share: SpendingShare) -> Result<SpendingShares, Error> {
        if self.reading {
            return Err(Error::ReadOnly { path: self.local.path().display().to_string() });
        }
        if let Some(store) = self.remote_store() {
            // In boxes, because the compiler does not look into futures of any depth.
            write_object(store, name, process, share).boxed().await?;
            return read_objects(store, name).boxed().await;
        }
        let (name, process) = (name.to_owned(), process.to_owned());
        on_disk(&self.local, move |journal| journal.put_share(&name, &process, &share)).await
    }

    /// All shares of a name.
    ///
    /// # Errors
    /// If the file or the store cannot be read.
    pub async fn shares(&self, name: &str) -> Result<SpendingShares, Error> {
        if let Some(store) = self.remote_store() {
            return read_objects(store, name).boxed().await;
        }
        let journal = self.base.as_ref().unwrap_or(&self.local);
        let name = name.to_owned();
        on_disk(journal, move |journal| journal.shares(&name)).await
    }

    /// Whether shares are objects of a store that machines share, so that writing one takes a while.
    pub fn is_shared(&self) -> bool {
        self.remote_store().is_some()
    }
}

async fn write_object(store: &ArtifactStore, name: &str, process: &str, share: SpendingShare) -> Result<(), Error> {
    let object = names::spending(name, process);
    let SpendingShare { spent, held, written_unix_ms } = share;
    let bytes = serde_json::to_vec(&ShareObject { version: VERSION, spent, held, written_unix_ms });
    store.replace(&object, bytes.map_err(|error| Error::damaged(&object, error))?).await
}

async fn read_objects(store: &ArtifactStore, name: &str) -> Result<SpendingShares, Error> {
    let objects = store.list(&names::spending_folder(name)).await?;
    let reads = objects.into_iter().filter_map(|object| {
        let process = names::parse_spending(&object)?.1.to_owned();
        Some(async move {
            let Some(bytes) = store.get(&object).await? else { return Ok(None) };
            let read: ShareObject = serde_json::from_slice(&bytes).map_err(|error| Error::damaged(&object, error))?;
            if read.version != VERSION {
                let words = format!("format {}; this version reads {VERSION}", read.version);
                return Err(Error::damaged(&object, words));
            }
            let ShareObject { spent, held, written_unix_ms, .. } = read;
            Ok(Some((process, SpendingShare { spent, held, written_unix_ms })))
        })
    });
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffer_unordered(AT_ONCE).try_filter_map(async |read| Ok(read)).try_collect().await
}

/// Copies the shares of a store into another one. They are in the journal file of a folder, and objects elsewhere.
pub(crate) async fn copy_shares(from: &ArtifactStore, to: &ArtifactStore) -> Result<(), Error> {
    let mut all = BTreeMap::new();
    match super::transfer::file(from) {
        Some(path) if path.is_file() => {
            let journal = Journal::open_to_read(&path).or_else(|_| Journal::open(&path))?;
            all = on_disk(&journal, Journal::all_shares).await?;
        }
        Some(_) => {}
        None => {
            let objects = from.list(names::SPENDING).await?;
            let found = objects.iter().filter_map(|object| names::parse_spending(object));
            let names: std::collections::BTreeSet<&str> = found.map(|(name, _)| name).collect();
            for name in names {
                all.insert(name.to_owned(), read_objects(from, name).await?);
            }
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    if let Some(path) = super::transfer::file(to) {
        return on_disk(&Journal::open(path)?, move |journal| journal.merge_shares(&all)).await;
    }
    for (name, theirs) in all {
        let ours = read_objects(to, &name).await?;
        for (process, share) in theirs {
            let merged = ours.get(&process).map_or(share, |ours| ours.merged(share));
            if ours.get(&process) != Some(&merged) {
                write_object(to, &name, &process, merged).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoLayout;
    use std::sync::Arc;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    fn costs(picodollars: u64) -> CallCosts {
        CallCosts { picodollars, tokens: 10 * picodollars, calls: 1 }
    }

    fn share(spent: u64, held: u64) -> SpendingShare {
        SpendingShare { spent: costs(spent), held: costs(held), written_unix_ms: 7 }
    }

    fn amounts(shares: &SpendingShares) -> Vec<(&str, u64, u64)> {
        shares.iter().map(|(process, it)| (process.as_str(), it.spent.picodollars, it.held.picodollars)).collect()
    }

    #[test]
    fn a_share_is_there_for_other_processes_when_its_write_has_returned() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal.db");
        let (one, other) = (Journal::open(&path)?, Journal::open(&path)?);
        one.put_share("zoo", "a", &share(1, 5))?;
        let seen = other.put_share("zoo", "b", &share(0, 2))?;
        assert_eq!(amounts(&seen), [("a", 1, 5), ("b", 0, 2)]);
        other.put_share("other", "b", &share(9, 9))?;
        assert_eq!(amounts(&one.put_share("zoo", "a", &share(3, 3))?), [("a", 3, 3), ("b", 0, 2)]);
        assert_eq!(amounts(&Journal::open_to_read(&path)?.shares("zoo")?), [("a", 3, 3), ("b", 0, 2)]);
        Ok(())
    }

    #[test]
    fn a_journal_of_an_older_version_gets_the_table_and_one_that_is_only_read_has_no_shares() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal.db");
        let journal = Journal::open(&path)?;
        journal.with(|connection| connection.execute_batch("DROP TABLE spending"))?;
        drop(journal);
        assert!(Journal::open_to_read(&path)?.shares("zoo")?.is_empty());
        assert_eq!(Journal::open(&path)?.put_share("zoo", "a", &share(1, 1))?.len(), 1);
        Ok(())
    }

    #[test]
    fn shares_survive_the_salvage_of_a_journal() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal.db");
        Journal::open(&path)?.put_share("zoo", "a", &share(1, 5))?;
        Journal::salvage(&path)?;
        assert_eq!(amounts(&Journal::open(&path)?.shares("zoo")?), [("a", 1, 5)]);
        Ok(())
    }

    #[tokio::test]
    async fn machines_that_share_a_store_see_each_others_shares() -> TestResult {
        let folder = tempfile::tempdir()?;
        let store = ArtifactStore::open("memory:///", &[], &NoLayout)?;
        let machine = |name: &str| {
            let journal = Journal::open(folder.path().join(name).join("journal.db"))?;
            Ok::<_, Error>(SharedJournal::new(Arc::new(journal), store.clone()))
        };
        let (here, there) = (machine("here")?, machine("there")?);
        assert!(here.is_shared());
        here.put_share("zoo", "a", share(1, 5)).await?;
        assert_eq!(amounts(&there.put_share("zoo", "b", share(2, 2)).await?), [("a", 1, 5), ("b", 2, 2)]);
        assert_eq!(amounts(&here.shares("zoo").await?), [("a", 1, 5), ("b", 2, 2)]);
        assert!(here.shares("zoo2").await?.is_empty(), "names do not mix");
        let reader = SharedJournal::to_read(here.local().clone(), None, Some(store.clone()));
        assert!(matches!(reader.put_share("zoo", "c", share(0, 1)).await, Err(Error::ReadOnly { .. })));
        assert_eq!(reader.shares("zoo").await?.len(), 2);
        Ok(())
    }

    #[tokio::test]
    async fn a_copy_of_a_store_has_its_shares_and_a_second_copy_counts_nothing_twice() -> TestResult {
        let folder = tempfile::tempdir()?;
        let (from, back) = (folder.path().join("from"), folder.path().join("back"));
        Journal::open(from.join(Journal::FILE))?.put_share("zoo", "a", &share(1, 5))?;
        let open = |path: &std::path::Path| ArtifactStore::open(&path.to_string_lossy(), &[], &NoLayout);
        let (from, remote) = (open(&from)?, ArtifactStore::open("memory:///", &[], &NoLayout)?);
        std::fs::create_dir_all(&back)?;
        let to = open(&back)?;
        for _ in 0..2 {
            copy_shares(&from, &remote).await?;
            copy_shares(&remote, &to).await?;
        }
        assert_eq!(amounts(&Journal::open(back.join(Journal::FILE))?.shares("zoo")?), [("a", 1, 5)]);
        Ok(())
    }
}
