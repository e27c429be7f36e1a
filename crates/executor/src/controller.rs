//! Controllers: how many calls may be in flight at once, and how many may start.

use crate::{Outcome, RateHints};
use std::{fmt, sync::Arc};
use tokio::time::Instant;

/// Decides how many calls may be in flight and how fast they may start, from
/// the outcomes of earlier calls and from what the other side announces.
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

    /// Records how an attempt ended. The target is read again afterwards.
    fn record(&self, outcome: &Outcome);

    /// Takes the cost of a call out of the rate limits, or says when to ask
    /// again. `cost` is in the unit of the limit on cost: for a model, tokens.
    /// This is asked only if [`Controller::target`] has room for the call, so a
    /// call that is admitted starts.
    ///
    /// # Errors
    /// The earliest time at which it could be admitted, later than `now`.
    fn admit(&self, cost: u64, now: Instant) -> Result<(), Instant> {
        let _ = (cost, now);
        Ok(())
    }

    /// Called when a call has begun to wait in the queue.
    fn queued(&self) {}

    /// Takes what the other side announces about its limits. Afterwards the
    /// target is read again, and waiting calls are tried again.
    fn apply_hints(&self, hints: &RateHints) {
        let _ = hints;
    }

    /// Stores a listener. The controller calls it whenever the target or a rate
    /// changes outside of [`Controller::record`] and [`Controller::apply_hints`], for
    /// example because a person raises it.
    fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
        drop(listener);
    }
}

/// A controller that always allows the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedController(usize);

impl FixedController {
    /// This many calls in flight, and at least one.
    pub fn new(concurrency: usize) -> Self {
        Self(concurrency.max(1))
    }
}

impl Controller for FixedController {
    fn target(&self) -> usize {
        self.0
    }

    fn maximum(&self) -> usize {
        self.0
    }

    fn record(&self, _outcome: &Outcome) {}
}
