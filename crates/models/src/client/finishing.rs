//! Calls that have begun when they are cancelled. They are paid, so those whose answers are kept go on to their end,
//! although nobody waits for these answers: the next run has them.

use super::{Client, flight::CallFuture};
use crate::Error;
use futures::future::Shared;
use std::{pin::Pin, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long a call goes on at most.
const AT_MOST: Duration = Duration::from_secs(120);
/// How long the end of a program waits for such calls.
const WAIT: Duration = Duration::from_secs(10);
/// How often it is looked whether an attempt still runs.
const LOOK: Duration = Duration::from_millis(20);

/// Awaits a call until it is cancelled: then an attempt that `goes_on` is awaited, and no other follows.
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

/// A call that is handed on when its caller is cancelled.
pub(super) struct Finishing {
    call: Shared<CallFuture>,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl Drop for Finishing {
    fn drop(&mut self) {
        if !self.cancel.is_cancelled() || self.call.peek().is_some() {
            return;
        }
        // Without a runtime, the program is about to end.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let call = self.call.clone();
        self.tasks.spawn_on(async move { drop(tokio::time::timeout(AT_MOST, call).await) }, &runtime);
    }
}

impl Client {
    /// Sees to the end of a call if what this returns is dropped after a cancellation.
    pub(super) fn finishing(&self, call: Shared<CallFuture>) -> Finishing {
        Finishing { call, cancel: self.cancel.clone(), tasks: self.inner.finishing.clone() }
    }

    /// How many calls go on although they were cancelled, because they are paid.
    pub fn n_finishing(&self) -> usize {
        self.inner.finishing.len()
    }

    /// Waits for the calls that go on although they were cancelled, ten seconds at most.
    pub(super) async fn finish(&self) {
        let finishing = &self.inner.finishing;
        finishing.close();
        let _ = tokio::time::timeout(WAIT, finishing.wait()).await;
    }
}
