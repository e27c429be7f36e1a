//! Decides whether refused calls still have a reason to wait: they wait while
//! other calls get through, and give up when no call has for too long.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// If calls were given up less than this long ago, a refused call is given up at
/// once: it belongs to the same series of refusals.
const SAME_SERIES: Duration = Duration::from_secs(60);

/// The calls that were refused and wait for another attempt.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Whether a call was refused since the last one got through; otherwise a
    /// call that gets through needs no lock.
    any: AtomicBool,
    period: Mutex<RefusalPeriod>,
    given_up: Notify,
}

#[derive(Debug, Default)]
struct RefusalPeriod {
    /// Calls between their first refusal and their end.
    calls: usize,
    /// The first refusal after which no call has got through.
    since: Option<Instant>,
    /// When calls were last given up because no call got through.
    given_up: Option<Instant>,
}

impl Refusals {
    /// A call was refused for the first time.
    pub(crate) fn enter(&self) -> RefusedCall<'_> {
        self.period().calls += 1;
        RefusedCall(self)
    }

    /// A call got through.
    pub(crate) fn passed(&self) {
        if self.any.load(Ordering::Relaxed) {
            let mut period = self.period();
            (period.since, period.given_up) = (None, None);
            self.any.store(false, Ordering::Relaxed);
        }
    }

    /// Records a refusal. A call that was just refused is given up if no call has
    /// got through for `patience`. [`Patience::JustExhausted`] also ends the wait
    /// of all other refused calls: see [`Refusals::until_given_up`].
    pub(crate) fn record(&self, patience: Duration, now: Instant) -> Patience {
        let mut period = self.period();
        self.any.store(true, Ordering::Relaxed);
        if period.given_up.is_some_and(|at| now.saturating_duration_since(at) <= SAME_SERIES) {
            period.given_up = Some(now);
            return Patience::AlreadyExhausted;
        }
        period.given_up = None;
        let since = *period.since.get_or_insert(now);
        if now.saturating_duration_since(since) < patience {
            return Patience::Left;
        }
        (period.since, period.given_up) = (None, Some(now));
        drop(period);
        self.given_up.notify_waiters();
        Patience::JustExhausted
    }

    /// Waits until calls are given up.
    pub(crate) async fn until_given_up(&self) {
        self.given_up.notified().await;
    }

    fn period(&self) -> MutexGuard<'_, RefusalPeriod> {
        self.period.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether refused calls may wait longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// They may still wait.
    Left,
    /// They waited too long, as of this refusal.
    JustExhausted,
    /// They were given up a moment ago.
    AlreadyExhausted,
}

/// A call that was refused, until it ends.
#[derive(Debug)]
pub(crate) struct RefusedCall<'a>(&'a Refusals);

impl Drop for RefusedCall<'_> {
    fn drop(&mut self) {
        let mut period = self.0.period();
        period.calls -= 1;
        if period.calls == 0 {
            // No call waits any more, so later refusals start a new period.
            period.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn patience_ends_when_nothing_has_got_through_for_so_long() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let _call = refusals.enter();
        let at = |seconds| refusals.record(PATIENCE, start + Duration::from_secs(seconds));
        assert_eq!((at(0), at(59)), (Patience::Left, Patience::Left));
        refusals.passed();
        assert_eq!((at(61), at(120), at(121)), (Patience::Left, Patience::Left, Patience::JustExhausted));
        assert_eq!((at(122), at(181)), (Patience::AlreadyExhausted, Patience::AlreadyExhausted), "of the same series");
        refusals.passed();
        assert_eq!(at(182), Patience::Left, "what gets through is a new beginning");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_without_calls_is_no_time_in_which_nothing_got_through() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let call = refusals.enter();
        assert_eq!(refusals.record(PATIENCE, start), Patience::Left);
        drop(call);
        let _later = refusals.enter();
        assert_eq!(refusals.record(PATIENCE, start + Duration::from_secs(3600)), Patience::Left);
    }
}
