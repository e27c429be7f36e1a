//! The side of a process that shares a limit: the controller that keeps its
//! calls within its lease, and the renewal of that lease.

use super::{Lease, LeaseReport};
use crate::adaptive::bucket::{Bucket, spend_both};
use crate::{Controller, Limiter, Outcome, RateHints};
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

/// The most outcomes that are kept for the next report; a process that reports
/// too rarely loses the oldest.
const KEPT: usize = 1024;
/// When a call without a valid lease tries again by itself: in effect never,
/// because a new lease wakes all waiting calls.
const NEVER: Duration = Duration::from_secs(3600);
/// How often a process that has calls renews its lease.
const RENEW: Duration = Duration::from_millis(300);
/// A process that has waiting calls and was given nothing asks again after this
/// time. The authority cannot call back, so it has to be asked.
const ASK_AGAIN: Duration = Duration::from_millis(25);
/// A process whose request failed asks again after this time.
const PAUSE: Duration = Duration::from_secs(1);

/// The controller of a process that holds a [`Lease`]. Without a valid lease no
/// call starts.
pub struct Leaseholder {
    concurrency: AtomicUsize,
    maximum: usize,
    state: Mutex<LeaseState>,
    /// Notified when a call starts or begins to wait.
    in_use: Notify,
    listeners: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
}

struct LeaseState {
    until: Option<Instant>,
    requests: Bucket,
    tokens: Bucket,
    outcomes: Vec<Outcome>,
    hints: Option<RateHints>,
    refused: bool,
}

impl Leaseholder {
    /// A controller without a lease; its leases will never allow more calls than this.
    pub fn new(maximum: usize) -> Self {
        let now = Instant::now();
        let state = LeaseState {
            until: None,
            requests: Bucket::new(None, now),
            tokens: Bucket::new(None, now),
            outcomes: Vec::new(),
            hints: None,
            refused: false,
        };
        Self {
            concurrency: AtomicUsize::new(0),
            maximum: maximum.max(1),
            state: Mutex::new(state),
            in_use: Notify::new(),
            listeners: Mutex::default(),
        }
    }

    /// Replaces the lease, and wakes the calls that wait for one.
    pub fn hold(&self, lease: &Lease) {
        let now = Instant::now();
        let mut state = self.state();
        state.until = (lease.concurrency > 0).then(|| now + lease.valid);
        state.refused = false;
        state.requests.set_limit(lease.requests_per_minute, now);
        state.tokens.set_limit(lease.tokens_per_minute, now);
        drop(state);
        self.concurrency.store(lease.concurrency.min(self.maximum), Ordering::Release);
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        listeners.iter().for_each(|listener| listener());
    }

    /// Whether refusals used up all places of this lease.
    pub fn is_refused(&self) -> bool {
        self.state().refused
    }

    /// The report for the authority; `in_flight` and `waiting` are those of the
    /// limiter that this controls.
    pub fn report(&self, in_flight: usize, waiting: usize) -> LeaseReport {
        let mut state = self.state();
        LeaseReport { in_flight, waiting, outcomes: std::mem::take(&mut state.outcomes), hints: state.hints.take() }
    }

    /// Renews the lease whenever the limiter that this controls has calls, as
    /// long as the future is polled. `ask` carries a report to the authority,
    /// and its answer back.
    pub async fn renew<F, Fut, E>(&self, limiter: &Limiter, ask: F)
    where
        F: Fn(LeaseReport) -> Fut,
        Fut: Future<Output = Result<Lease, E>>,
    {
        let mut renewed: Option<Instant> = None;
        loop {
            let status = limiter.status();
            if status.in_flight + status.waiting == 0 {
                self.in_use.notified().await;
                continue;
            }
            // After a refusal the other side has no room: asking soon would
            // only cause the next refusal.
            let has_nothing = status.target == 0 && !self.is_refused();
            let pause = if has_nothing && status.waiting > 0 { ASK_AGAIN } else { RENEW };
            if let Some(due) = renewed.map(|at| at + pause).filter(|due| *due > Instant::now()) {
                tokio::select! {
                    () = sleep_until(due) => {}
                    // A process without a share asks sooner when a call begins to wait.
                    () = self.in_use.notified(), if has_nothing => {}
                }
                continue;
            }
            match ask(self.report(status.in_flight, status.waiting)).await {
                Ok(lease) => self.hold(&lease),
                Err(_) => sleep(PAUSE).await,
            }
            renewed = Some(Instant::now());
        }
    }

    fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Leaseholder {
    fn target(&self) -> usize {
        self.concurrency.load(Ordering::Acquire)
    }

    fn maximum(&self) -> usize {
        self.maximum
    }

    fn record(&self, outcome: &Outcome) {
        let mut state = self.state();
        if outcome.kind.is_refusal() {
            // Until the authority knows of the refusal, no more calls may run
            // than were accepted; otherwise every waiting call would be refused
            // in turn.
            self.concurrency.fetch_min(outcome.others, Ordering::AcqRel);
            if outcome.others == 0 {
                state.refused = true;
                state.until = None;
            }
        }
        if state.outcomes.len() == KEPT {
            state.outcomes.remove(0);
        }
        state.outcomes.push(*outcome);
    }

    fn queued(&self) {
        self.in_use.notify_one();
    }

    fn admit(&self, cost: u64, now: Instant) -> Result<(), Instant> {
        self.in_use.notify_one();
        let state = &mut *self.state();
        if state.until.is_none_or(|until| until <= now) {
            return Err(now + NEVER);
        }
        spend_both(&mut state.requests, &mut state.tokens, cost as f64, now)
    }

    fn apply_hints(&self, hints: &RateHints) {
        self.state().hints = Some(*hints);
    }

    fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }
}

impl fmt::Debug for Leaseholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaseholder").field("concurrency", &self.target()).finish_non_exhaustive()
    }
}
