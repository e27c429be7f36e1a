//! Flushes a journal to the disk within a second after an entry was written, so that a power cut loses no older entry.
//!
//! With `synchronous=NORMAL`, SQLite flushes the write-ahead log only when it moves it into the database. To flush it
//! with every entry would limit paid answers to the disk's flushes per second. So entries are flushed together: the
//! first one begins a delay, and a thread flushes the log at its end.

use super::{lock_ignoring_panics, salvage::with_suffix};
use crate::Error;
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long an entry waits for others to be flushed with it. The flush itself has the other half of the second.
const DELAY: Duration = Duration::from_millis(500);
/// The thread ends after this time without an entry.
const IDLE: Duration = Duration::from_secs(10);

/// Flushes the write-ahead log of one journal. The last entries are flushed when it is dropped.
#[derive(Debug)]
pub(super) struct Flusher {
    shared: Arc<FlushQueue>,
}

#[derive(Debug)]
struct FlushQueue {
    log: PathBuf,
    state: Mutex<FlushState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct FlushState {
    /// When the first entry was written that is not flushed yet.
    unflushed: Option<Instant>,
    has_thread: bool,
    /// Whether a flush has begun that is not counted yet.
    is_flushing: bool,
    is_over: bool,
    n_flushes: u64,
    failure: Option<io::Error>,
}

impl Flusher {
    pub(super) fn new(journal: &Path) -> Self {
        let log = with_suffix(journal, "-wal");
        Self { shared: Arc::new(FlushQueue { log, state: Mutex::default(), changed: Condvar::new() }) }
    }

    /// Records that an entry was written.
    pub(super) fn wrote(&self) {
        let mut state = self.shared.state();
        if state.unflushed.is_none() {
            state.unflushed = Some(Instant::now());
            self.shared.changed.notify_all();
        }
        if !state.has_thread {
            let shared = self.shared.clone();
            let started = thread::Builder::new().name("journal-flush".to_owned()).spawn(move || shared.work());
            match started {
                Ok(_) => state.has_thread = true,
                Err(error) => state.failure = Some(error),
            }
        }
    }

    /// Why the last flush failed; each failure is reported once.
    ///
    /// # Errors
    /// If entries may not be on the disk.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.shared.state().failure.take() {
            Some(error) => Err(Error::file("flush", &self.shared.log, error)),
            None => Ok(()),
        }
    }

    /// How often the log was flushed.
    #[cfg(test)]
    pub(super) fn n_flushes(&self) -> u64 {
        self.shared.state().n_flushes
    }

    /// Waits until all entries are flushed. Returns whether that was so within this time.
    #[cfg(test)]
    pub(super) fn wait(&self, most: Duration) -> bool {
        let is_behind = |state: &mut FlushState| state.unflushed.is_some() || state.is_flushing;
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, most, is_behind);
        waited.is_ok_and(|(_, waited)| !waited.timed_out())
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_over = true;
        let has_unflushed = state.unflushed.is_some();
        drop(state);
        self.shared.changed.notify_all();
        if has_unflushed {
            let _ = self.shared.flush();
        }
    }
}

impl FlushQueue {
    fn state(&self) -> MutexGuard<'_, FlushState> {
        lock_ignoring_panics(&self.state)
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if state.is_over {
                return;
            }
            let Some(since) = state.unflushed else {
                let (now, waited) = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
                state = now;
                if waited.timed_out() && state.unflushed.is_none() {
                    state.has_thread = false;
                    return;
                }
                continue;
            };
            let left = DELAY.saturating_sub(since.elapsed());
            if !left.is_zero() {
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            // Entries that are written from here on may miss this flush, and begin the next delay.
            (state.unflushed, state.is_flushing) = (None, true);
            drop(state);
            let flushed = self.flush();
            state = self.state();
            state.is_flushing = false;
            state.n_flushes += 1;
            state.failure = flushed.err().or(state.failure.take());
            self.changed.notify_all();
        }
    }

    fn flush(&self) -> io::Result<()> {
        match File::open(&self.log) {
            Ok(log) => log.sync_data(),
            // SQLite removes the log when it has moved it into the database, which it flushes.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{entry, key},
        DELAY,
    };
    use crate::Journal;
    use std::time::{Duration, Instant};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    /// Longer than anything takes on a busy machine: only what hangs takes as long.
    const PATIENCE: Duration = Duration::from_secs(300);

    #[test]
    fn entries_are_flushed_together_and_none_waits_for_long() -> TestResult {
        let folder = tempfile::tempdir()?;
        let journal = Journal::open(folder.path().join("journal.db"))?;
        let flusher = journal.inner.flusher.as_ref().ok_or("no flusher")?;
        let began = Instant::now();
        let mut written = 0u64;
        // Entries that keep coming do not postpone a flush: two flushes end while entries are written.
        while flusher.n_flushes() < 2 {
            assert!(began.elapsed() < PATIENCE, "{} flushes after {written} entries", flusher.n_flushes());
            journal.put(&key(&written.to_string()), &entry("answer"))?;
            written += 1;
        }
        assert!(flusher.wait(PATIENCE), "the last entries are never flushed");
        // Each flush ends a delay of half a second, however many entries were written in it. The flushes are counted
        // before the time is taken, so a slow machine only allows more of them.
        let n_flushes = u128::from(flusher.n_flushes());
        let most = began.elapsed().as_millis() / DELAY.as_millis();
        assert!(n_flushes <= most, "{n_flushes} flushes for {written} entries, at most {most} are right");
        Ok(())
    }

    #[test]
    fn a_flush_that_fails_is_the_error_of_the_next_entry() -> TestResult {
        let folder = tempfile::tempdir()?;
        let journal = Journal::open(folder.path().join("journal.db"))?;
        let flusher = journal.inner.flusher.as_ref().ok_or("no flusher")?;
        journal.put(&key("a"), &entry("1"))?;
        flusher.shared.state().failure = Some(std::io::Error::from_raw_os_error(5));
        let failed = journal.put(&key("b"), &entry("2"));
        assert!(failed.is_err_and(|error| error.to_string().contains("flush")));
        journal.put(&key("b"), &entry("2"))?;
        Ok(())
    }
}
