//! The outbox of a journal: entries that a shared store does not have yet. An
//! entry and its place in the outbox are written in one transaction, so `kill
//! -9` cannot separate them.

use super::{Journal, JournalEntry, select_keys, stored, unsigned, write};
use crate::{Error, Key};
use rusqlite::{Connection, TransactionBehavior};

impl Journal {
    /// Stores calls, all of them or none, and puts them into the outbox.
    pub(super) fn put_to_send(&self, calls: &[(Key, JournalEntry)]) -> Result<(), Error> {
        let written = self.insert(calls.iter().map(|(key, entry)| (key, entry)), |connection, key| {
            connection.prepare_cached("INSERT OR IGNORE INTO outbox VALUES (?1)")?.execute([key.bytes()])?;
            Ok(())
        });
        written.map(|_| ())
    }

    /// Takes an entry out of the outbox, because it was sent.
    pub(super) fn sent(&self, key: &Key) -> Result<(), Error> {
        self.with(|connection| delete(connection, key))
    }

    /// Replaces our entry by the store's. Nothing is left to be sent then.
    pub(super) fn adopt(&self, key: &Key, entry: &JournalEntry) -> Result<(), Error> {
        self.with(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            write(&transaction, key, entry)?;
            delete(&transaction, key)?;
            transaction.commit()
        })
    }

    /// Entries to be sent, at most this many, after a key. Entries that are
    /// damaged or were removed are taken out of the outbox.
    pub(super) fn to_send(&self, after: Option<Key>, at_most: u64) -> Result<Vec<(Key, JournalEntry)>, Error> {
        self.with(|connection| {
            let mut found = Vec::new();
            let after = after.map_or(Vec::new(), |key| key.bytes().to_vec());
            let sql = "SELECT key FROM outbox WHERE key > ?1 ORDER BY key LIMIT ?2";
            for bytes in select_keys(connection, sql, (after, super::signed(at_most)))? {
                let key = Key::from_slice(&bytes);
                match key.map(|key| Ok::<_, rusqlite::Error>((key, stored(connection, &key)?))).transpose()? {
                    Some((key, Some(Ok(entry)))) => found.push((key, entry)),
                    _ => _ = connection.execute("DELETE FROM outbox WHERE key = ?1", [bytes])?,
                }
            }
            Ok(found)
        })
    }

    /// How many entries have to be sent.
    pub(super) fn n_to_send(&self) -> Result<u64, Error> {
        let count = |connection: &mut Connection| {
            connection.query_row("SELECT count(*) FROM outbox", [], |row| Ok(unsigned(row.get(0)?)))
        };
        self.with(count)
    }
}

fn delete(connection: &Connection, key: &Key) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM outbox WHERE key = ?1")?.execute([key.bytes()])?;
    Ok(())
}
