//! Counts the calls at present: a single call gets all cores.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
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

/// Between an answer and the next question of the same caller, another call is
/// alone for a moment; this is not worth a change.
const SETTLED: Duration = Duration::from_millis(300);

impl CallLoad {
    /// Counts a call until the guard is dropped.
    pub(super) fn enter(&self) -> CallGuard<'_> {
        self.lock().calls += 1;
        CallGuard { load: self }
    }

    /// Whether there has been no more than one call for a while.
    pub(super) fn is_single(&self) -> bool {
        let state = self.lock();
        state.calls <= 1 && state.single_since.is_none_or(|since| since.elapsed() >= SETTLED)
    }

    fn lock(&self) -> MutexGuard<'_, LoadState> {
        // Two numbers are whole at every point at which a thread can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is counted.
#[derive(Debug)]
pub(super) struct CallGuard<'a> {
    load: &'a CallLoad,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.load.lock();
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
        load.lock().single_since = Instant::now().checked_sub(SETTLED);
        assert!(load.is_single());
        drop(first);
    }
}
