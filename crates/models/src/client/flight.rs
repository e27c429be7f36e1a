//! Identical calls in flight are one call: who comes later waits for it.

use super::{
    answering::View,
    draft::{Draft, Written},
};
use crate::Error;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use store::Key;
use tokio::sync::watch;

type Outcome = Result<Arc<str>, Error>;
type Landing = BoxFuture<'static, Outcome>;
type Board = Arc<Mutex<HashMap<Key, Aloft>>>;

/// What the board says of a flight.
struct Aloft {
    /// A number for each flight, so that only the flight itself ends its entry.
    number: u64,
    future: WeakShared<Landing>,
    written: Option<watch::Receiver<Written>>,
}

/// The calls in flight. They are driven by those who wait for them, and end
/// when nobody does.
#[derive(Default)]
pub(super) struct Flights {
    board: Board,
    n_started: AtomicU64,
}

/// A call in flight.
pub(super) struct Flight {
    future: Shared<Landing>,
    /// The answer as far as it is written, where whoever began it looks on.
    written: Option<watch::Receiver<Written>>,
    /// Whether someone else began it.
    pub(super) joined: bool,
}

impl Flight {
    /// Waits for the answer, and shows meanwhile how far it is written.
    pub(super) async fn land(self, view: Option<&mut View>) -> Outcome {
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
    /// Joins the call of this key, or begins it, to write into this draft.
    pub(super) fn join<Fut>(&self, key: Key, draft: Option<&Draft>, begin: impl FnOnce() -> Fut) -> Flight
    where
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(aloft) = board.get(&key)
            && let Some(future) = aloft.future.upgrade()
        {
            return Flight { future, written: aloft.written.clone(), joined: true };
        }
        let number = self.n_started.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { board: self.board.clone(), key, number };
        let call = begin();
        let landing: Landing = async move {
            // Leaves the board at the end, or when the future is dropped.
            let _entry = entry;
            call.await
        }
        .boxed();
        let future = landing.shared();
        let written = draft.map(Draft::look);
        if let Some(future) = future.downgrade() {
            board.insert(key, Aloft { number, future, written: written.clone() });
        }
        Flight { future, written, joined: false }
    }
}

struct Entry {
    board: Board,
    key: Key,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        if board.get(&self.key).is_some_and(|aloft| aloft.number == self.number) {
            board.remove(&self.key);
        }
    }
}
