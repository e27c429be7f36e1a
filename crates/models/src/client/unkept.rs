//! Answers that were paid and could not be kept. From the first one on no call begins, because its answer would be lost
//! too. Calls in flight go on to their end even if nobody waits for them any more. What cannot be written is held in
//! memory until it can be written or the program ends.

use super::{Client, ClientInner, journal_error};
use crate::Error;
use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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
/// A call that comes after the failure looks whether there is space again, at most this often.
const RETRY: Duration = Duration::from_secs(1);

/// Why no call begins, and the answers that are held.
pub(super) struct UnsavedAnswers {
    state: Mutex<UnsavedState>,
    /// Whether no call may begin.
    stopped: watch::Sender<bool>,
    /// Done when there was space before the first payment.
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

impl Default for UnsavedAnswers {
    fn default() -> Self {
        Self { state: Mutex::default(), stopped: watch::Sender::new(false), checked: OnceCell::new() }
    }
}

impl UnsavedAnswers {
    fn state(&self) -> MutexGuard<'_, UnsavedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why no call begins.
    pub(super) fn error(&self) -> Option<Error> {
        self.state().cause.clone().map(Error::Journal)
    }

    /// # Errors
    /// If no call may begin.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.error().map_or(Ok(()), Err)
    }

    /// Awaits a call, and gives it up if calls are stopped while none of its attempts runs.
    pub(super) async fn or_stop<T>(
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
    /// Before anything is paid: looks whether there is space, and reserves some. After a failure: looks whether what is
    /// held can be written now.
    pub(super) async fn may_begin(&self, pays: bool) -> Result<(), Error> {
        if self.unkept.error().is_some() {
            return self.resume().await;
        }
        let Some(journal) = self.journal.as_ref().filter(|_| pays) else { return Ok(()) };
        let reserve = || async {
            journal.reserve_space().await.map_err(|error| {
                let error = Arc::new(error);
                self.stop(error.clone());
                Error::Journal(error)
            })
        };
        self.unkept.checked.get_or_try_init(reserve).await.map(|_| ())
    }

    /// Lets no further call begin.
    pub(super) fn stop(&self, cause: Arc<store::Error>) {
        let mut state = self.unkept.state();
        if state.cause.is_some() {
            return;
        }
        state.cause = Some(cause);
        let flights = self.flights.in_flight().into_iter();
        state.in_flight =
            flights.map(|flight| AbortOnDropHandle::new(tokio::spawn(async move { drop(flight.await) }))).collect();
        drop(state);
        self.unkept.stopped.send_replace(true);
    }

    /// Holds answers that could not be kept.
    pub(super) fn hold(&self, calls: Vec<(Key, JournalEntry)>) {
        self.unkept.state().held.extend(calls);
    }

    /// Goes on if there is space again.
    async fn resume(&self) -> Result<(), Error> {
        {
            let mut state = self.unkept.state();
            let now = Instant::now();
            if state.tried.is_some_and(|tried| now.duration_since(tried) < RETRY) {
                drop(state);
                return self.unkept.check();
            }
            state.tried = Some(now);
        }
        if let Some(journal) = &self.journal {
            journal.reserve_space().await.map_err(journal_error)?;
        }
        self.write_held().await?;
        let mut state = self.unkept.state();
        if state.held.is_empty() {
            (state.cause, state.in_flight) = (None, Vec::new());
            drop(state);
            self.unkept.stopped.send_replace(false);
        }
        self.unkept.check()
    }

    /// Writes the answers that are held.
    async fn write_held(&self) -> Result<(), Error> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let held = self.unkept.state().held.clone();
        // One by one: where there is room for a few, these are kept.
        for call in held {
            let key = call.0;
            journal.put_all(vec![call]).await.map_err(journal_error)?;
            self.unkept.state().held.retain(|(other, _)| *other != key);
        }
        Ok(())
    }
}

impl Client {
    /// Lets no further call begin, because what it gives could not be kept.
    pub fn stop(&self, cause: store::Error) {
        self.inner.stop(Arc::new(cause));
    }

    /// Why no call begins any more: something could not be kept. [`Error::Journal`].
    pub fn failure(&self) -> Option<Error> {
        self.inner.unkept.error()
    }

    /// After a failure: waits for the calls in flight, because they are paid, and writes the answers that are held. If
    /// the disk is full, waits some seconds for space; `told` is called once if so, with the number of answers that are
    /// held. Returns how many answers are lost, and will be paid again. After a cancellation it waits for the calls that
    /// have begun, ten seconds at most. Otherwise it does nothing.
    pub async fn settle(&self, told: impl FnOnce(usize)) -> usize {
        let cancel: &CancellationToken = &self.cancel;
        if cancel.is_cancelled() {
            self.finish().await;
        }
        let Some(Error::Journal(cause)) = self.failure() else { return 0 };
        let in_flight = std::mem::take(&mut self.inner.unkept.state().in_flight);
        tokio::select! {
            _ = futures::future::join_all(in_flight) => {}
            () = cancel.cancelled() => {}
        }
        let (started, mut told) = (Instant::now(), Some(told));
        // Space comes back; a file that was removed or is damaged does not.
        let may_pass = matches!(*cause, store::Error::Full { .. });
        while self.inner.write_held().await.is_err() && may_pass && started.elapsed() < WAIT {
            if let Some(told) = told.take() {
                let held = self.inner.unkept.state().held.len();
                told(held);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = cancel.cancelled() => break,
            }
        }
        self.inner.unkept.state().held.len()
    }
}
