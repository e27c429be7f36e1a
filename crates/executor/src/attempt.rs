//! One attempt at a task, which ends in every case: with a result, at its
//! time limit, or with a panic that is caught here.

use futures::FutureExt;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// How an attempt ended.
pub(crate) enum Attempt<T, E> {
    Finished(Result<T, E>),
    TimedOut(Duration),
    Panicked(String),
}

/// Makes an attempt. A future that takes too long is dropped.
///
/// The future is made before this is awaited, so that a second attempt can
/// begin while the first still runs.
pub(crate) fn attempt<T, E, F>(
    task: &mut dyn FnMut() -> F,
    limit: Option<Duration>,
) -> impl Future<Output = Attempt<T, E>> + use<T, E, F>
where
    F: Future<Output = Result<T, E>>,
{
    // What a panic leaves incomplete is not used again: the task is not
    // retried, and its future is dropped.
    let begun = catch_unwind(AssertUnwindSafe(task));
    async move {
        let guarded = match begun {
            Ok(future) => AssertUnwindSafe(future).catch_unwind(),
            Err(payload) => return Attempt::Panicked(panic_message(&*payload)),
        };
        let ended = match limit {
            Some(limit) => match tokio::time::timeout(limit, guarded).await {
                Ok(ended) => ended,
                Err(_) => return Attempt::TimedOut(limit),
            },
            None => guarded.await,
        };
        ended.map_or_else(|payload| Attempt::Panicked(panic_message(&*payload)), Attempt::Finished)
    }
}

/// The message of a panic.
fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no message)").to_owned()
}
