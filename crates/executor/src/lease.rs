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
#[derive(Debug, Clone, Copy, PartialEq)]
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
#[derive(Debug, Clone, Default)]
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
        if self.answered { self.limit.target() } else { self.initial.max(1) }
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
        let taken: usize = self.others(process).map(|member| member.granted).sum();
        let free = self.target().saturating_sub(taken);
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

    /// Takes a process' share back at once: it has ended.
    pub fn leave(&mut self, process: u64) {
        self.members.remove(&process);
    }

    fn others(&self, process: u64) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |(other, _)| **other != process).map(|(_, member)| member)
    }

    /// The max–min fair share of the whole limit.
    fn fair_share(&self, process: u64, needs: usize) -> usize {
        let mut all: Vec<usize> = self.others(process).map(|member| member.needs).chain([needs]).collect();
        all.sort_unstable();
        let mut left = self.target();
        let mut count = all.len();
        for need in all {
            // Rounded up, lest a remainder serve nobody; `free` bounds it.
            let even = left.div_ceil(count);
            if need >= even {
                return needs.min(even);
            }
            left -= need;
            count -= 1;
        }
        needs
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
        state.requests.limit(lease.requests_per_minute, now);
        state.tokens.limit(lease.tokens_per_minute, now);
        drop(state);
        self.concurrency.store(lease.concurrency.min(self.maximum), Ordering::Release);
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        listeners.iter().for_each(|listener| listener());
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
        if outcome.kind.is_refusal() {
            // Until the authority has heard of it, no more than were accepted.
            self.concurrency.fetch_min(outcome.others.max(1), Ordering::AcqRel);
        }
        let mut state = self.state();
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
mod tests {
    use super::*;
    use crate::{Call, Limiter, Retryable};
    use std::convert::Infallible;
    use tokio_util::sync::CancellationToken;

    const VALID: Duration = Duration::from_secs(2);

    fn authority(limit: usize) -> Authority {
        let settings = AdaptiveSettings { initial: limit, maximum: limit, ..AdaptiveSettings::default() };
        Authority::new(settings, VALID)
    }

    fn needs(waiting: usize) -> Report {
        Report { waiting, ..Report::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn shares_are_fair_by_need_and_never_exceed_the_limit() {
        let mut authority = authority(12);
        let now = Instant::now();
        assert_eq!(authority.renew(1, &needs(100), now).concurrency, 12);
        assert_eq!(authority.renew(2, &needs(100), now).concurrency, 0, "all of it is leased out");
        assert_eq!(authority.renew(1, &needs(100), now).concurrency, 6);
        assert_eq!(authority.renew(2, &needs(100), now).concurrency, 6);
        assert_eq!(authority.renew(3, &needs(2), now).concurrency, 0);
        assert_eq!(authority.renew(1, &needs(100), now).concurrency, 5);
        assert_eq!(authority.renew(2, &needs(100), now).concurrency, 5);
        assert_eq!(authority.renew(3, &needs(2), now).concurrency, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_share_of_a_process_that_died_is_free_when_its_lease_has_run_out() {
        let mut authority = authority(8);
        let start = Instant::now();
        assert_eq!(authority.renew(1, &needs(50), start).concurrency, 8);
        assert_eq!(authority.renew(2, &needs(50), start + VALID / 2).concurrency, 0);
        assert_eq!(authority.renew(2, &needs(50), start + VALID).concurrency, 8);
        authority.leave(2);
        assert_eq!(authority.renew(3, &needs(50), start + VALID).concurrency, 8);
    }

    #[tokio::test(start_paused = true)]
    async fn rates_are_divided_like_places() {
        let settings = AdaptiveSettings {
            initial: 10,
            maximum: 10,
            requests_per_minute: Some(600.0),
            ..AdaptiveSettings::default()
        };
        let mut authority = Authority::new(settings, VALID);
        let now = Instant::now();
        authority.renew(1, &needs(5), now);
        let second = authority.renew(2, &needs(50), now);
        let first = authority.renew(1, &needs(5), now);
        let total = first.requests_per_minute.unwrap() + second.requests_per_minute.unwrap();
        assert!(total <= 600.0 + 1e-9 && first.requests_per_minute.unwrap() > 0.0, "{first:?} {second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_valid_lease_nothing_starts() {
        let leased = Arc::new(Leased::new(4));
        let limiter = Limiter::new(leased.clone());
        let cancel = CancellationToken::new();
        let call = || limiter.call(Call::default(), &cancel, || std::future::ready(Ok::<_, Infallible>(())));
        assert!(tokio::time::timeout(Duration::from_secs(60), call()).await.is_err());
        let lease = Lease { concurrency: 2, requests_per_minute: None, tokens_per_minute: None, valid: VALID };
        leased.hold(&lease);
        assert!(call().await.is_ok());
        tokio::time::sleep(VALID).await;
        assert!(tokio::time::timeout(Duration::from_secs(60), call()).await.is_err(), "it has run out");
        let (waiting, ()) = tokio::join!(call(), async { leased.hold(&lease) });
        assert!(waiting.is_ok(), "a lease wakes those who wait");
        assert_eq!(leased.report(0, 0).outcomes.len(), 2);
    }

    #[derive(Debug, thiserror::Error)]
    #[error("refused")]
    struct Refused;

    impl Retryable for Refused {
        fn class(&self) -> crate::ErrorClass {
            crate::ErrorClass::RateLimited
        }
    }

    #[tokio::test(start_paused = true)]
    async fn three_processes_find_and_share_a_limit_that_nobody_told() {
        const LIMIT: usize = 12;
        let authority = Arc::new(Mutex::new(Authority::new(AdaptiveSettings::default(), VALID)));
        let in_flight = Arc::new(AtomicUsize::new(0));
        let refused = Arc::new(AtomicUsize::new(0));
        let process = |number: u64| {
            let (authority, in_flight, refused) = (authority.clone(), in_flight.clone(), refused.clone());
            async move {
                let leased = Arc::new(Leased::new(64));
                let limiter = Limiter::new(leased.clone());
                let cancel = CancellationToken::new();
                let calls = futures::future::join_all((0..200).map(|_| {
                    limiter.call(0, &cancel, || {
                        let (in_flight, refused) = (in_flight.clone(), refused.clone());
                        async move {
                            let accepted = in_flight.fetch_add(1, Ordering::SeqCst) < LIMIT;
                            let seconds = if accepted { 0.3 } else { 0.002 };
                            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                            in_flight.fetch_sub(1, Ordering::SeqCst);
                            refused.fetch_add(usize::from(!accepted), Ordering::SeqCst);
                            if accepted { Ok(()) } else { Err(Refused) }
                        }
                    })
                }));
                let renewing = async {
                    loop {
                        let status = limiter.status();
                        let report = leased.report(status.in_flight, status.waiting);
                        leased.hold(&authority.lock().unwrap().renew(number, &report, Instant::now()));
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                };
                tokio::select! {
                    done = calls => {
                        authority.lock().unwrap().leave(number);
                        done.into_iter().filter(Result::is_ok).count()
                    }
                    () = renewing => 0,
                }
            }
        };
        let started = Instant::now();
        let done = futures::join!(process(1), process(2), process(3));
        assert_eq!(done, (200, 200, 200));
        let optimum = 600.0 * 0.3 / LIMIT as f64;
        let share = optimum / started.elapsed().as_secs_f64();
        let refused = refused.load(Ordering::SeqCst);
        println!("{share:.2} of the optimum, {refused} refused");
        assert!(share > 0.7 && refused < 60, "{share:.2} of the optimum, {refused} refused");
    }
}
