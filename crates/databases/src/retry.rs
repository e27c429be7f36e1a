//! Calls again what a database could not do just now.

use crate::{DatabaseProblem, Error};
use std::time::{Duration, Instant};

/// The waiting time before the second try; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Tries of a request whose reply says that it may be made again.
const MAX_TRIES: u32 = 5;
/// The longest pause between them that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(20);

/// Makes a call again while its error is transient ([`Error::is_transient`]), for at most so long in all, and then
/// returns the error. The waiting times grow from 0.2 s to 5 s, or are what the server asks for.
///
/// # Errors
/// The last error.
pub async fn retrying<T, C>(limit: Duration, mut call: impl FnMut() -> C) -> Result<T, Error>
where
    C: Future<Output = Result<T, Error>>,
{
    let started = Instant::now();
    let mut wait = FIRST_WAIT;
    loop {
        let error = match call().await {
            Err(error) if error.is_transient() => error,
            done => return done,
        };
        let asked = match &error.problem {
            DatabaseProblem::Busy { retry_after, .. } => *retry_after,
            _ => None,
        };
        // Whole numbers of milliseconds between a half and the whole waiting time, so that clients do not come together.
        let millis = wait.as_millis() as u64;
        let pause = asked.unwrap_or_else(|| Duration::from_millis(fastrand::u64(millis / 2..=millis)));
        if started.elapsed() + pause > limit {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        wait = (2 * wait).min(LONGEST_WAIT);
    }
}

/// Makes a request whose repetition changes nothing, up to five times while the server is too busy or cannot be reached.
pub(crate) async fn while_busy<T, C>(mut request: impl FnMut() -> C) -> Result<T, DatabaseProblem>
where
    C: Future<Output = Result<T, DatabaseProblem>>,
{
    let mut pause = FIRST_WAIT;
    for attempt in 1.. {
        let sent = request().await;
        let asked = match &sent {
            Err(DatabaseProblem::Busy { retry_after, .. }) => *retry_after,
            Err(DatabaseProblem::Unreachable { .. } | DatabaseProblem::ConnectionLost { .. }) => None,
            _ => return sent,
        };
        if attempt >= MAX_TRIES {
            return sent;
        }
        // Clients that failed together do not come back together.
        let pause_now = asked.unwrap_or(pause).min(MAX_PAUSE).mul_f64(0.75 + fastrand::f64() / 2.0);
        tokio::time::sleep(pause_now).await;
        pause *= 2;
    }
    Err(DatabaseProblem::Unreachable { reason: "no try was made".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn error(problem: DatabaseProblem) -> Error {
        Error { server: "memory://test".to_owned(), collection: None, problem }
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_until_the_limit_and_nothing_else_is() {
        let lost = || DatabaseProblem::ConnectionLost { reason: "restart".to_owned() };
        let calls = Cell::new(0);
        let third = retrying(Duration::from_secs(60), || {
            calls.set(calls.get() + 1);
            let done = if calls.get() == 3 { Ok(7) } else { Err(error(lost())) };
            async move { done }
        });
        assert_eq!((third.await.unwrap(), calls.get()), (7, 3));
        let never = retrying(Duration::from_secs(1), || async { Err::<(), _>(error(lost())) }).await;
        assert_eq!(never.unwrap_err().problem, lost());
        calls.set(0);
        let final_error = retrying(Duration::from_secs(60), || {
            calls.set(calls.get() + 1);
            async { Err::<(), _>(error(DatabaseProblem::MissingCollection)) }
        });
        assert!(final_error.await.is_err() && calls.get() == 1);
    }
}
