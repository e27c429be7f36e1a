//! Identical calls in flight are one call: later callers wait for its answer.

use super::{
    answer_stream::DraftView,
    draft::{AnswerDraft, DraftText},
    reply::StoredAnswer,
};
use crate::{Error, locked};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use store::Key;
use tokio::sync::watch;

type FlightOutcome = Result<StoredAnswer, Error>;
pub(super) type CallFuture = BoxFuture<'static, FlightOutcome>;
type FlightEntries = Arc<Mutex<HashMap<Key, FlightEntry>>>;

/// A call in flight that other callers may join.
struct FlightEntry {
    /// A number for each call, so that a call removes only its own entry.
    number: u64,
    future: WeakShared<CallFuture>,
    written: Option<watch::Receiver<DraftText>>,
}

/// The calls in flight. A call runs as long as at least one caller waits for it.
#[derive(Default)]
pub(super) struct Flights {
    entries: FlightEntries,
    n_started: AtomicU64,
}

/// A call in flight, for one of the callers that wait for it.
pub(super) struct Flight {
    future: Shared<CallFuture>,
    /// The answer as far as it is written, if the first caller reads it as a
    /// stream.
    written: Option<watch::Receiver<DraftText>>,
    /// Whether another caller began it.
    pub(super) joined: bool,
}

impl Flight {
    /// The call itself, which goes on while the returned future is awaited.
    pub(super) fn call(&self) -> Shared<CallFuture> {
        self.future.clone()
    }

    /// Waits for the answer, and shows meanwhile how far it is written.
    pub(super) async fn answer(self, view: Option<&mut DraftView>) -> FlightOutcome {
        let Self { mut future, written, .. } = self;
        let (Some(view), Some(mut written)) = (view, written) else { return future.await };
        loop {
            tokio::select! {
                biased;
                outcome = &mut future => return outcome,
                Ok(()) = written.changed() => view.show(&written.borrow_and_update()),
            }
        }
    }
}

impl Flights {
    /// All calls in flight; each goes on while the returned future is awaited.
    pub(super) fn in_flight(&self) -> Vec<Shared<CallFuture>> {
        let entries = locked(&self.entries);
        entries.values().filter_map(|entry| entry.future.upgrade()).collect()
    }

    /// Joins the call of this key, or begins it. `begin` makes a call that writes into
    /// `draft`; a caller that joins another's call leaves its draft empty.
    pub(super) fn join<Fut>(&self, key: Key, draft: Option<&AnswerDraft>, begin: impl FnOnce() -> Fut) -> Flight
    where
        Fut: Future<Output = FlightOutcome> + Send + 'static,
    {
        let mut entries = locked(&self.entries);
        if let Some(entry) = entries.get(&key)
            && let Some(future) = entry.future.upgrade()
        {
            return Flight { future, written: entry.written.clone(), joined: true };
        }
        let number = self.n_started.fetch_add(1, Ordering::Relaxed);
        let removal = RemoveEntry { entries: self.entries.clone(), key, number };
        let call = begin();
        let call: CallFuture = async move {
            // Removes the entry at the end, or when the future is dropped.
            let _removal = removal;
            call.await
        }
        .boxed();
        let future = call.shared();
        let written = draft.map(AnswerDraft::watch);
        if let Some(future) = future.downgrade() {
            entries.insert(key, FlightEntry { number, future, written: written.clone() });
        }
        Flight { future, written, joined: false }
    }
}

/// Removes a call's entry when dropped.
struct RemoveEntry {
    entries: FlightEntries,
    key: Key,
    number: u64,
}

impl Drop for RemoveEntry {
    fn drop(&mut self) {
        let mut entries = locked(&self.entries);
        if entries.get(&self.key).is_some_and(|entry| entry.number == self.number) {
            entries.remove(&self.key);
        }
    }
}
