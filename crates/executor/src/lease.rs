//! One limit, shared by processes on many machines.
//!
//! An [`Authority`], in one place, knows the limit. Each process has a
//! [`Leased`] controller, and from time to time sends the authority a
//! [`Report`] of what it does and needs; the answer is a [`Lease`]: its share
//! of the limit, for a while. How reports and leases travel is the caller's
//! business.
//!
//! Shares are fair by need: nobody gets more than it has use for, and what is
//! left is divided evenly among the others (max–min fairness). All leases that
//! may still be in use never exceed the limit together, so a share grows only
//! after another was given back or ran out. A process that dies stops
//! reporting, and its share is free when its lease has run out.

use crate::{Adaptive, AdaptiveSettings, Controller, Outcome, RateHints, adaptive::bucket::Bucket};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// So many outcomes are kept for the next report; a process that reports too
/// rarely forgets the oldest.
const KEPT: usize = 1024;
/// Who holds no valid lease waits for one, which wakes it.
const UNTIL_LEASED: Duration = Duration::from_secs(3600);

/// A share of a limit, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// Calls in flight at most. Zero means none: ask again.
    pub concurrency: usize,
    /// The share of the limit on calls, where one is known.
    pub requests_per_minute: Option<f64>,
    /// The share of the limit on tokens, where one is known.
    pub tokens_per_minute: Option<f64>,
    /// How long it holds from when it is given. Renew it well before.
    pub valid: Duration,
}

/// What a process tells the authority.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// Its calls in flight.
    pub in_flight: usize,
    /// Its calls that wait for a slot.
    pub waiting: usize,
    /// How attempts ended since the last report.
    pub outcomes: Vec<Outcome>,
    /// What the other side said last of its limits.
    pub hints: Option<RateHints>,
}

/// Divides a limit among processes. Callers give the time, which need not be
/// that of the processes.
#[derive(Debug)]
pub struct Authority {
    limit: Adaptive,
    initial: usize,
    valid: Duration,
    answered: bool,
    members: BTreeMap<u64, Member>,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    needs: usize,
    in_flight: usize,
    granted: usize,
    requests: f64,
    tokens: f64,
    until: Instant,
}

impl Authority {
    /// An authority over a limit of which this much is known; leases hold for
    /// `valid`.
    pub fn new(settings: AdaptiveSettings, valid: Duration) -> Self {
        let initial = settings.initial;
        Self { limit: Adaptive::new(settings), initial, valid, answered: false, members: BTreeMap::new() }
    }

    /// How many calls may be in flight, over all processes.
    pub fn target(&self) -> usize {
        if self.answered { self.limit.target() } else { self.initial.min(self.limit.maximum()).max(1) }
    }

    /// Hears a process and gives it its share.
    pub fn renew(&mut self, process: u64, report: &Report, now: Instant) -> Lease {
        self.members.retain(|_, member| member.until > now);
        let elsewhere: usize = self.others(process).map(|member| member.in_flight).sum();
        if let Some(hints) = &report.hints {
            self.limit.hear(hints);
        }
        for outcome in &report.outcomes {
            self.answered = true;
            let (in_flight, others) = (outcome.in_flight + elsewhere, outcome.others + elsewhere);
            self.limit.record(&Outcome { in_flight, others, ..*outcome });
        }
        let needs = report.in_flight + report.waiting;
        // Calls that began under a larger share still have their places.
        let taken: usize = self.others(process).map(|member| member.granted.max(member.in_flight)).sum();
        let even = self.even_share(process, needs);
        // What others may still come for is kept for them.
        let kept: usize =
            self.others(process).map(|member| even.min(member.needs).saturating_sub(member.granted)).sum();
        let free = self.target().saturating_sub(taken + kept);
        let granted = self.fair_share(process, needs).min(free);
        let (requests, tokens) = self.limit.rates();
        let part = granted as f64 / (taken + granted).max(1) as f64;
        let rate = |limit: Option<f64>, used: f64| limit.map(|limit| (limit * part).min(limit - used).max(0.0));
        let requests = rate(requests, self.others(process).map(|member| member.requests).sum());
        let tokens = rate(tokens, self.others(process).map(|member| member.tokens).sum());
        let member = Member {
            needs,
            in_flight: report.in_flight,
            granted,
            requests: requests.unwrap_or_default(),
            tokens: tokens.unwrap_or_default(),
            until: now + self.valid,
        };
        self.members.insert(process, member);
        let per_minute = |rate: Option<f64>| rate.map(|rate| rate * 60.0);
        Lease {
            concurrency: granted,
            requests_per_minute: per_minute(requests),
            tokens_per_minute: per_minute(tokens),
            valid: self.valid,
        }
    }

    /// Takes what a process knows of the limit: of two numbers for one, the
    /// smaller holds from now on.
    pub fn restrict(&mut self, settings: &AdaptiveSettings) {
        self.limit.restrict(settings);
    }

    /// Takes a process' share back at once: it has ended.
    pub fn leave(&mut self, process: u64) {
        self.members.remove(&process);
    }

    fn others(&self, process: u64) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |(other, _)| **other != process).map(|(_, member)| member)
    }

    /// The max–min fair share of the whole limit, rounded up, lest a remainder
    /// serve nobody; what is free bounds it.
    fn fair_share(&self, process: u64, needs: usize) -> usize {
        self.share(process, needs, usize::div_ceil).min(needs)
    }

    /// The share of who needs more than there is, rounded down: everybody can
    /// have it.
    fn even_share(&self, process: u64, needs: usize) -> usize {
        self.share(process, needs, |left, count| left / count)
    }

    fn share(&self, process: u64, needs: usize, divide: fn(usize, usize) -> usize) -> usize {
        let mut all: Vec<usize> = self.others(process).map(|member| member.needs).chain([needs]).collect();
        all.sort_unstable();
        let mut left = self.target();
        let mut count = all.len();
        for need in all {
            let even = divide(left, count);
            if need >= even {
                return even;
            }
            left -= need;
            count -= 1;
        }
        usize::MAX
    }
}

/// The controller of a process that holds a [`Lease`]. Without a valid one
/// nothing starts.
pub struct Leased {
    concurrency: AtomicUsize,
    maximum: usize,
    state: Mutex<State>,
    listeners: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
}

struct State {
    until: Option<Instant>,
    requests: Bucket,
    tokens: Bucket,
    outcomes: Vec<Outcome>,
    hints: Option<RateHints>,
    refused: bool,
}

impl Leased {
    /// A controller without a lease, which will never hold more than this.
    pub fn new(maximum: usize) -> Self {
        let now = Instant::now();
        let state = State {
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
            listeners: Mutex::default(),
        }
    }

    /// Holds this lease from now on, instead of the one before.
    pub fn hold(&self, lease: &Lease) {
        let now = Instant::now();
        let mut state = self.state();
        state.until = (lease.concurrency > 0).then(|| now + lease.valid);
        state.refused = false;
        state.requests.limit(lease.requests_per_minute, now);
        state.tokens.limit(lease.tokens_per_minute, now);
        drop(state);
        self.concurrency.store(lease.concurrency.min(self.maximum), Ordering::Release);
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        listeners.iter().for_each(|listener| listener());
    }

    /// Whether refusals took all that this lease gave. Whoever asks for another
    /// at once is refused again: the other side has no room now.
    pub fn is_refused(&self) -> bool {
        self.state().refused
    }

    /// What to tell the authority; `in_flight` and `waiting` are those of the
    /// limiter that this controls.
    pub fn report(&self, in_flight: usize, waiting: usize) -> Report {
        let mut state = self.state();
        Report { in_flight, waiting, outcomes: std::mem::take(&mut state.outcomes), hints: state.hints.take() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Leased {
    fn target(&self) -> usize {
        self.concurrency.load(Ordering::Acquire)
    }

    fn maximum(&self) -> usize {
        self.maximum
    }

    fn record(&self, outcome: &Outcome) {
        let mut state = self.state();
        if outcome.kind.is_refusal() {
            // Until the authority has heard of it, no more than were accepted;
            // with none, every call that waits would be refused in turn.
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

    fn admit(&self, cost: u64, now: Instant) -> Result<(), Instant> {
        let state = &mut *self.state();
        if state.until.is_none_or(|until| until <= now) {
            return Err(now + UNTIL_LEASED);
        }
        let cost = cost as f64;
        let waits = [state.requests.ready(1.0, now), state.tokens.ready(cost, now)];
        if let Some(at) = waits.into_iter().flatten().max() {
            return Err(at);
        }
        state.requests.spend(1.0, now);
        state.tokens.spend(cost, now);
        Ok(())
    }

    fn hear(&self, hints: &RateHints) {
        self.state().hints = Some(*hints);
    }

    fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }
}

impl fmt::Debug for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased").field("concurrency", &self.target()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
