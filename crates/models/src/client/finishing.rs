//! Calls that have begun when they are cancelled. They are paid, so if their answers are kept, they run to their end
//! without a caller: the next run finds the answers in the journal.

use super::{Client, flight::CallFuture};
use crate::{Error, locked};
use futures::future::Shared;
use std::{
    collections::HashMap,
    pin::Pin,
    sync::{LazyLock, Mutex},
    time::Duration,
};
use store::Key;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long a call goes on at most.
const AT_MOST: Duration = Duration::from_secs(120);
/// How long the end of a program waits for such calls.
const WAIT: Duration = Duration::from_secs(10);
/// How often to check whether an attempt still runs.
const LOOK: Duration = Duration::from_millis(20);

/// The end of each cancelled call that runs on in this process, whichever client began it.
static DETACHED: LazyLock<Mutex<HashMap<Key, CancellationToken>>> = LazyLock::new(Mutex::default);

/// The end of an equal call that runs on after its cancellation. A caller that waits for it finds the answer in the
/// journal and does not pay again: a notebook cell that is stopped and run again makes the same calls.
pub(super) fn end_of_cancelled(key: &Key) -> Option<CancellationToken> {
    locked(&DETACHED).get(key).cloned()
}

/// A call in [`DETACHED`], until this is dropped.
struct DetachedCall {
    key: Key,
    ended: CancellationToken,
}

impl DetachedCall {
    fn new(key: Key) -> Self {
        let ended = CancellationToken::new();
        locked(&DETACHED).insert(key, ended.clone());
        Self { key, ended }
    }
}

impl Drop for DetachedCall {
    fn drop(&mut self) {
        // Two clients may have begun equal calls at once: the later one stays.
        let mut calls = locked(&DETACHED);
        if calls.get(&self.key).is_some_and(|other| *other == self.ended) {
            calls.remove(&self.key);
        }
        drop(calls);
        self.ended.cancel();
    }
}

/// Awaits a call until it is cancelled. After that, awaits the attempt in flight while `goes_on`, and starts no other.
pub(super) async fn until_cancelled<T>(
    call: Pin<&mut impl Future<Output = Result<T, Error>>>,
    cancel: &CancellationToken,
    goes_on: impl Fn() -> bool,
) -> Result<T, Error> {
    let ended = async {
        cancel.cancelled().await;
        while goes_on() {
            tokio::time::sleep(LOOK).await;
        }
    };
    // If a result is there at the moment of a cancellation, the result wins.
    tokio::select! {
        biased;
        result = call => result,
        () = ended => Err(Error::Cancelled),
    }
}

/// A call that goes on in the background if its caller is cancelled.
pub(super) struct FinishGuard {
    key: Key,
    call: Shared<CallFuture>,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl Drop for FinishGuard {
    fn drop(&mut self) {
        if !self.cancel.is_cancelled() || self.call.peek().is_some() {
            return;
        }
        // Without a runtime, the program is about to end.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (call, detached) = (self.call.clone(), DetachedCall::new(self.key));
        let to_its_end = async move {
            drop(tokio::time::timeout(AT_MOST, call).await);
            drop(detached);
        };
        self.tasks.spawn_on(to_its_end, &runtime);
    }
}

impl Client {
    /// If the guard is dropped after a cancellation, the call runs on without a caller.
    pub(super) fn finish_if_cancelled(&self, key: Key, call: Shared<CallFuture>) -> FinishGuard {
        FinishGuard { key, call, cancel: self.cancel.clone(), tasks: self.inner.finishing.clone() }
    }

    /// How many cancelled calls run on because they are paid.
    pub fn n_finishing(&self) -> usize {
        self.inner.finishing.len()
    }

    /// Waits for the cancelled calls that run on, ten seconds at most.
    pub(super) async fn finish(&self) {
        let finishing = &self.inner.finishing;
        finishing.close();
        let _ = tokio::time::timeout(WAIT, finishing.wait()).await;
    }
}
