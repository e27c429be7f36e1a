//! A circuit breaker: after several failures of a pipeline's models in a row, they are
//! not asked, until one question shows that they answer again. No library is used,
//! because those wrap the call; here the caller decides what counts as a failure.
//! Source: M. Nygard, Release It!, 2007, "Circuit Breaker".

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Decides whether a pipeline's models may be asked.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<BreakerState>,
    failures: u32,
    open_for: Duration,
}

#[derive(Debug, Clone, Copy)]
enum BreakerState {
    /// The models are asked. Holds the number of failures in a row.
    Closed(u32),
    /// The models are not asked until this time.
    Open(Instant),
    /// One question tries the models; after this time without an outcome, the next does.
    HalfOpen(Instant),
}

impl Breaker {
    /// A breaker that opens after this many failures in a row, and for this long.
    pub(crate) fn new(failures: u32, open_for: Duration) -> Self {
        Self { state: Mutex::new(BreakerState::Closed(0)), failures: failures.max(1), open_for }
    }

    /// Whether the models may be asked now.
    ///
    /// # Errors
    /// The time until they may be.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            BreakerState::Closed(_) => Ok(()),
            BreakerState::Open(until) | BreakerState::HalfOpen(until) if now < until => Err(until - now),
            BreakerState::Open(_) | BreakerState::HalfOpen(_) => {
                *state = BreakerState::HalfOpen(now + self.open_for);
                Ok(())
            }
        }
    }

    pub(crate) fn record_success(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = BreakerState::Closed(0);
    }

    pub(crate) fn record_failure(&self, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = match *state {
            BreakerState::Closed(failures) if failures + 1 < self.failures => BreakerState::Closed(failures + 1),
            // This question was asked before the breaker opened.
            BreakerState::Open(until) => BreakerState::Open(until),
            BreakerState::Closed(_) | BreakerState::HalfOpen(_) => BreakerState::Open(now + self.open_for),
        };
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(*self.state.lock().unwrap_or_else(PoisonError::into_inner), BreakerState::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_one_question_closes_it_again() {
        let (breaker, start) = (Breaker::new(2, Duration::from_secs(10)), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        breaker.record_failure(at(0));
        breaker.record_success();
        breaker.record_failure(at(0));
        assert!(breaker.check(at(0)).is_ok(), "not in a row");
        breaker.record_failure(at(0));
        assert_eq!(breaker.check(at(4)), Err(Duration::from_secs(6)));
        assert!(breaker.check(at(10)).is_ok() && breaker.check(at(10)).is_err(), "one tries");
        breaker.record_failure(at(11));
        assert!(breaker.is_open() && breaker.check(at(20)).is_err());
        assert!(breaker.check(at(21)).is_ok());
        breaker.record_success();
        assert!(breaker.check(at(21)).is_ok() && !breaker.is_open());
    }

    #[test]
    fn a_trial_that_never_ends_is_followed_by_another() {
        let (breaker, start) = (Breaker::new(1, Duration::from_secs(10)), Instant::now());
        breaker.record_failure(start);
        assert!(breaker.check(start + Duration::from_secs(10)).is_ok());
        assert!(breaker.check(start + Duration::from_secs(15)).is_err());
        assert!(breaker.check(start + Duration::from_secs(20)).is_ok());
    }
}
