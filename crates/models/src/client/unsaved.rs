//! Answers that were paid but could not be written to the journal. After the first one no call begins, because its
//! answer would be lost too. Calls in flight run to their end, also without a caller. Answers that cannot be written are
//! held in memory until they can be written or the program ends.

use super::{Client, ClientInner, journal_error};
use crate::{Error, locked};
use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use store::{JournalEntry, Key};
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How long an ending program waits for space on a full disk, and how often it looks.
const WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(250);
/// The shortest time between two checks for space after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Why no call begins, and the answers that are held.
#[derive(Default)]
pub(super) struct UnsavedAnswers {
    state: Mutex<UnsavedState>,
    /// Whether no call may begin.
    stopped: watch::Sender<bool>,
    /// Set once space is reserved for the first payment.
    checked: OnceCell<()>,
}

#[derive(Default)]
struct UnsavedState {
    cause: Option<Arc<store::Error>>,
    held: Vec<(Key, JournalEntry)>,
    /// The calls that were in flight when the first answer could not be kept.
    in_flight: Vec<AbortOnDropHandle<()>>,
    tried: Option<Instant>,
}

impl UnsavedAnswers {
    fn state(&self) -> MutexGuard<'_, UnsavedState> {
        locked(&self.state)
    }

    /// Why no call begins.
    pub(super) fn error(&self) -> Option<Error> {
        self.state().cause.clone().map(Error::Journal)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.error().map_or(Ok(()), Err)
    }

    /// Awaits a call, and gives it up if calls are stopped while none of its attempts runs.
    pub(super) async fn unless_stopped<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
        running: &AtomicU32,
    ) -> Result<T, Error> {
        let (mut call, mut stopped) = (pin!(call), self.stopped.subscribe());
        tokio::select! {
            biased;
            outcome = &mut call => return outcome,
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        match self.error() {
            Some(error) if running.load(Ordering::Relaxed) == 0 => Err(error),
            _ => call.await,
        }
    }
}

/// Counts an attempt as running until it is dropped.
pub(super) struct RunningAttempt<'a>(&'a AtomicU32);

impl<'a> RunningAttempt<'a> {
    pub(super) fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for RunningAttempt<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ClientInner {
    /// Before the first payment, reserves space on the disk. After a failure, tries to write the answers that are held.
    pub(super) async fn may_begin(&self, pays: bool) -> Result<(), Error> {
        if self.unsaved.error().is_some() {
            return self.resume().await;
        }
        let Some(journal) = self.journal.as_ref().filter(|_| pays) else { return Ok(()) };
        let reserve = || async { journal.reserve_space().await.map_err(|error| self.stop(error)) };
        self.unsaved.checked.get_or_try_init(reserve).await.map(|_| ())
    }

    /// Stops further calls from beginning. Returns `cause` as an error of a call.
    pub(super) fn stop(&self, cause: store::Error) -> Error {
        let cause = Arc::new(cause);
        let mut state = self.unsaved.state();
        if state.cause.is_none() {
            state.cause = Some(cause.clone());
            let flights = self.flights.in_flight().into_iter();
            state.in_flight =
                flights.map(|flight| AbortOnDropHandle::new(tokio::spawn(async move { drop(flight.await) }))).collect();
            self.unsaved.stopped.send_replace(true);
        }
        Error::Journal(cause)
    }

    /// Holds answers that could not be written.
    pub(super) fn hold(&self, calls: Vec<(Key, JournalEntry)>) {
        self.unsaved.state().held.extend(calls);
    }

    /// Lets calls begin again if there is space.
    async fn resume(&self) -> Result<(), Error> {
        {
            let mut state = self.unsaved.state();
            let now = Instant::now();
            if state.tried.is_some_and(|tried| now.duration_since(tried) < RETRY) {
                drop(state);
                return self.unsaved.check();
            }
            state.tried = Some(now);
        }
        if let Some(journal) = &self.journal {
            journal.reserve_space().await.map_err(journal_error)?;
        }
        self.write_held().await?;
        let mut state = self.unsaved.state();
        if state.held.is_empty() {
            (state.cause, state.in_flight) = (None, Vec::new());
            drop(state);
            self.unsaved.stopped.send_replace(false);
        }
        self.unsaved.check()
    }

    async fn write_held(&self) -> Result<(), Error> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let held = self.unsaved.state().held.clone();
        // One by one: where there is room for a few, these are kept.
        for call in held {
            let key = call.0;
            journal.put_all(vec![call]).await.map_err(journal_error)?;
            self.unsaved.state().held.retain(|(other, _)| *other != key);
        }
        Ok(())
    }
}

impl Client {
    /// Stops further calls from beginning, because their answers could not be kept.
    pub fn stop(&self, cause: store::Error) {
        self.inner.stop(cause);
    }

    /// Why no call begins any more: something could not be kept. [`Error::Journal`].
    pub fn failure(&self) -> Option<Error> {
        self.inner.unsaved.error()
    }

    /// Ends the work of a client. After a failure, waits for the calls in flight, because they are paid, and writes the
    /// answers that are held. If the disk is full, calls `on_wait` once with the number of held answers, and waits ten
    /// seconds for space. After a cancellation, waits at most ten seconds for the calls that have begun. At the end, writes how
    /// much of the experiment's total was spent. Returns how many answers are lost and have to be paid again.
    pub async fn drain(&self, on_wait: impl FnOnce(usize)) -> usize {
        let lost = self.drain_answers(on_wait).await;
        self.budget.give_back_total().await;
        lost
    }

    async fn drain_answers(&self, on_wait: impl FnOnce(usize)) -> usize {
        let cancel: &CancellationToken = &self.cancel;
        if cancel.is_cancelled() {
            self.finish().await;
        }
        let Some(Error::Journal(cause)) = self.failure() else { return 0 };
        let in_flight = std::mem::take(&mut self.inner.unsaved.state().in_flight);
        tokio::select! {
            _ = futures::future::join_all(in_flight) => {}
            () = cancel.cancelled() => {}
        }
        let (started, mut on_wait) = (Instant::now(), Some(on_wait));
        // Space comes back; a file that was removed or is damaged does not.
        let may_pass = matches!(*cause, store::Error::Full { .. });
        while self.inner.write_held().await.is_err() && may_pass && started.elapsed() < WAIT {
            if let Some(on_wait) = on_wait.take() {
                let held = self.inner.unsaved.state().held.len();
                on_wait(held);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = cancel.cancelled() => break,
            }
        }
        self.inner.unsaved.state().held.len()
    }
}
