//! A breaker: after some failures of a pipeline's models in a row no question
//! waits for them any more, until one question shows that they answer again.
//! Source: M. Nygard, Release It!, 2007, "Circuit Breaker".

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    failures: u32,
    rest: Duration,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Asked, with so many failures in a row.
    Closed(u32),
    /// Not asked until then.
    Open(Instant),
    /// One question tries it, until then.
    Trying(Instant),
}

impl Breaker {
    /// Opens after so many failures, for so long.
    pub(crate) fn new(failures: u32, rest: Duration) -> Self {
        Self { state: Mutex::new(State::Closed(0)), failures: failures.max(1), rest }
    }

    /// Whether the model may be asked now, else how long it is not.
    pub(crate) fn allows(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Closed(_) => Ok(()),
            State::Open(until) | State::Trying(until) if now < until => Err(until - now),
            // A question that tries and never ends is followed by the next.
            State::Open(_) | State::Trying(_) => {
                *state = State::Trying(now + self.rest);
                Ok(())
            }
        }
    }

    pub(crate) fn succeeded(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Closed(0);
    }

    pub(crate) fn failed(&self, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = match *state {
            State::Closed(failures) if failures + 1 < self.failures => State::Closed(failures + 1),
            // Questions that were asked before it opened say nothing new.
            State::Open(until) => State::Open(until),
            State::Closed(_) | State::Trying(_) => State::Open(now + self.rest),
        };
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(*self.state.lock().unwrap_or_else(PoisonError::into_inner), State::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_one_question_closes_it_again() {
        let (breaker, start) = (Breaker::new(2, Duration::from_secs(10)), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        breaker.failed(at(0));
        breaker.succeeded();
        breaker.failed(at(0));
        assert!(breaker.allows(at(0)).is_ok(), "not in a row");
        breaker.failed(at(0));
        assert_eq!(breaker.allows(at(4)), Err(Duration::from_secs(6)));
        assert!(breaker.allows(at(10)).is_ok() && breaker.allows(at(10)).is_err(), "one tries");
        breaker.failed(at(11));
        assert!(breaker.is_open() && breaker.allows(at(20)).is_err());
        assert!(breaker.allows(at(21)).is_ok());
        breaker.succeeded();
        assert!(breaker.allows(at(21)).is_ok() && !breaker.is_open());
    }

    #[test]
    fn a_trial_that_never_ends_is_followed_by_another() {
        let (breaker, start) = (Breaker::new(1, Duration::from_secs(10)), Instant::now());
        breaker.failed(start);
        assert!(breaker.allows(start + Duration::from_secs(10)).is_ok());
        assert!(breaker.allows(start + Duration::from_secs(15)).is_err());
        assert!(breaker.allows(start + Duration::from_secs(20)).is_ok());
    }
}
