//! Space that is kept free for a journal. A few megabytes are written and flushed beside the file before anything is
//! paid, which shows whether there is space at all. If the disk is full later, they are removed, and the answers that
//! are on their way have room.

use super::{Journal, lock_ignoring_panics};
use crate::{Error, space};
use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
};

/// Thousands of answers, or those of a few hundred calls in flight if each is long.
const BYTES: usize = 4 << 20;

/// A file that takes space until it is dropped.
#[derive(Debug)]
pub(super) struct Reserve(PathBuf);

impl Reserve {
    fn take(path: PathBuf) -> io::Result<Self> {
        let reserve = Self(path);
        // A file system that compresses must not save this.
        let mut bytes = vec![0; BYTES];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        let mut file = File::create(&reserve.0)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        Ok(reserve)
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The reserve of a journal, and whether it was needed.
#[derive(Debug, Default)]
pub(super) struct ReserveState {
    file: Option<Reserve>,
    /// What SQLite said when the reserve was given up.
    shortage: Option<String>,
}

impl Journal {
    /// Writes and flushes a few megabytes beside the file, and keeps them until the journal is closed or its disk is
    /// full. Call it before something is paid.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no space for them.
    pub fn reserve_space(&self) -> Result<(), Error> {
        let mut reserved = lock_ignoring_panics(&self.inner.reserved);
        if self.inner.file.is_none() || reserved.file.is_some() {
            return Ok(());
        }
        let path = self.path().with_extension("reserve");
        reserved.file = Some(Reserve::take(path.clone()).map_err(|source| Error::file("write", &path, source))?);
        reserved.shortage = None;
        Ok(())
    }

    /// The error that the disk is full, if the reserved space had to be used. What was put is kept; nothing more should
    /// be paid until [`Journal::reserve_space`] succeeds.
    pub fn shortage(&self) -> Option<Error> {
        let reason = lock_ignoring_panics(&self.inner.reserved).shortage.clone()?;
        let source = io::Error::new(io::ErrorKind::StorageFull, reason);
        Some(space::full(self.path().display().to_string(), source))
    }

    /// Gives the reserved space up, because of this error. Returns whether there was any.
    pub(super) fn release_space(&self, error: &Error) -> bool {
        let mut reserved = lock_ignoring_panics(&self.inner.reserved);
        if reserved.file.take().is_none() {
            return false;
        }
        reserved.shortage = Some(std::error::Error::source(error).map_or_else(String::new, ToString::to_string));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{entry, key};
    use super::*;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    /// Lets a journal have this many pages more than it has: SQLite then says that the disk is full.
    fn limit(journal: &Journal, more: i64) -> TestResult {
        journal.with(|connection| {
            let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
            connection.query_row(&format!("PRAGMA max_page_count = {}", pages + more), [], |_| Ok(()))
        })?;
        Ok(())
    }

    #[test]
    fn the_reserve_is_there_from_the_first_payment_until_the_journal_is_closed() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal.db");
        let journal = Journal::open(&path)?;
        assert!(!path.with_extension("reserve").exists());
        journal.reserve_space()?;
        assert_eq!(std::fs::metadata(path.with_extension("reserve"))?.len(), BYTES as u64);
        journal.reserve_space()?;
        drop(journal);
        assert!(!path.with_extension("reserve").exists());
        let reader = Journal::open_to_read(&path)?;
        reader.reserve_space()?;
        assert!(!path.with_extension("reserve").exists(), "what is only read needs no space");
        Ok(())
    }

    #[test]
    fn when_the_disk_is_full_the_reserve_is_given_up_and_the_shortage_is_known() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("journal.db");
        let journal = Journal::open(&path)?;
        journal.reserve_space()?;
        limit(&journal, 4)?;
        let long = entry(&"x".repeat(2000));
        let mut kept = 0;
        let error = loop {
            match journal.put(&key(&kept.to_string()), &long) {
                Ok(()) => kept += 1,
                Err(error) => break error,
            }
        };
        // The limit of this test stays when the reserve is removed; the space of a disk does not.
        assert!(matches!(error, Error::Full { .. }), "{error}");
        let words = crate::error_chain(&error);
        assert!(words.contains("free space there and run again") && words.contains("journal.db"), "{words}");
        assert!(!path.with_extension("reserve").exists() && journal.shortage().is_some());
        limit(&journal, 1000)?;
        journal.reserve_space()?;
        assert!(journal.shortage().is_none());
        journal.put(&key("more"), &long)?;
        assert_eq!(journal.statistics()?.entries, kept + 1);
        Ok(())
    }
}
