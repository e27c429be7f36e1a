//! Counts the calls at present, because a single call gets all cores.

use crate::locked;
use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

/// Counts calls, waiting ones too.
#[derive(Debug, Default)]
pub(super) struct CallLoad {
    state: Mutex<LoadState>,
}

#[derive(Debug, Default)]
struct LoadState {
    calls: usize,
    single_since: Option<Instant>,
}

/// A call counts as single only after this time: between an answer and the next question of one caller, another
/// caller's call is alone for a moment.
const SETTLED: Duration = Duration::from_millis(300);

impl CallLoad {
    /// Counts a call until the guard is dropped.
    pub(super) fn enter(&self) -> CallGuard<'_> {
        locked(&self.state).calls += 1;
        CallGuard { call_load: self }
    }

    /// Whether there has been no more than one call for a while.
    pub(super) fn is_single(&self) -> bool {
        let state = locked(&self.state);
        state.calls <= 1 && state.single_since.is_none_or(|since| since.elapsed() >= SETTLED)
    }
}

/// A call that is counted.
#[derive(Debug)]
pub(super) struct CallGuard<'a> {
    call_load: &'a CallLoad,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.call_load.state);
        state.calls -= 1;
        if state.calls == 1 {
            state.single_since = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_is_single_at_once() {
        let load = CallLoad::default();
        let _call = load.enter();
        assert!(load.is_single());
    }

    #[test]
    fn of_two_calls_none_is_single_nor_is_the_one_that_just_remained() {
        let load = CallLoad::default();
        let first = load.enter();
        let second = load.enter();
        assert!(!load.is_single());
        drop(second);
        assert!(!load.is_single());
        locked(&load.state).single_since = Instant::now().checked_sub(SETTLED);
        assert!(load.is_single());
        drop(first);
    }
}
