//! Identical calls in flight are one call: who comes later waits for it.

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

type Outcome = Result<Arc<str>, Error>;
type Landing = BoxFuture<'static, Outcome>;
/// A number for each flight, so that only the flight itself ends its entry.
type Board = Arc<Mutex<HashMap<Key, (u64, WeakShared<Landing>)>>>;

/// The calls in flight. They are driven by those who wait for them, and end
/// when nobody does.
#[derive(Default)]
pub(super) struct Flights {
    board: Board,
    n_started: AtomicU64,
}

/// A call in flight.
pub(super) struct Flight {
    pub(super) future: Shared<Landing>,
    /// Whether someone else began it.
    pub(super) joined: bool,
}

impl Flights {
    /// Joins the call of this key, or begins it.
    pub(super) fn join<Fut>(&self, key: Key, begin: impl FnOnce() -> Fut) -> Flight
    where
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, flight)) = board.get(&key)
            && let Some(future) = flight.upgrade()
        {
            return Flight { future, joined: true };
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
        if let Some(flight) = future.downgrade() {
            board.insert(key, (number, flight));
        }
        Flight { future, joined: false }
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
        if board.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            board.remove(&self.key);
        }
    }
}
