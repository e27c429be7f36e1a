//! How many calls may be in flight at once.

use crate::Outcome;
use std::{fmt, sync::Arc};

/// Decides how many calls may be in flight, from what became of earlier ones.
///
/// It is asked before each start, from many threads, so the answer must be
/// ready: a controller computes in [`Controller::record`] and reads in
/// [`Controller::target`]. It must not call a listener while it holds a lock
/// that its other methods take.
pub trait Controller: fmt::Debug + Send + Sync {
    /// How many calls may be in flight now. Zero counts as one, so that a run
    /// always goes on.
    fn target(&self) -> usize;

    /// The most that [`Controller::target`] will ever be.
    fn maximum(&self) -> usize;

    /// Hears how an attempt ended. The target is read again afterwards.
    fn record(&self, outcome: &Outcome);

    /// Keeps a listener, to be called whenever the target changes outside of
    /// [`Controller::record`], such as when a person raises it.
    fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
        drop(listener);
    }
}

/// Always the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed(usize);

impl Fixed {
    /// This many calls in flight, and at least one.
    pub fn new(concurrency: usize) -> Self {
        Self(concurrency.max(1))
    }
}

impl Controller for Fixed {
    fn target(&self) -> usize {
        self.0
    }

    fn maximum(&self) -> usize {
        self.0
    }

    fn record(&self, _outcome: &Outcome) {}
}
