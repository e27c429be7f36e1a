//! Caps on what calls may cost: money, tokens, calls and time.
//!
//! When a call has its slot, right before the request goes out, it reserves the
//! most that it should cost; when it ends, it settles its real cost. So exactly
//! the calls in flight hold reservations: answers from the journal and calls
//! that wait for a slot take no room from others. A cap can be exceeded only by
//! calls in flight that cost more than they reserved, and by no more than these
//! calls cost.
//!
//! Near a cap, a call waits for the calls in flight if it may fit after they
//! have ended. It keeps its slot while it waits: each call with a
//! reservation has a slot of its own, so no two calls wait for each other. A
//! call that can no longer fit fails at once. A cheaper call may still pass.
//!
//! Failed attempts count as free, because providers do not state their cost,
//! but every attempt counts as a call. Time runs from the creation of the
//! budget; calls that are in flight when the time is over are not cut off.
//!
//! Processes that spend one budget each hold an allowance of it
//! ([`Budget::shared`]).

mod allowance;

pub use allowance::Allowances;

use super::{
    Lessor,
    amount::{BudgetAmount, Caps, ONE_CALL, ReachedCap, SpentTotals, dollars, picodollars},
};
use crate::{Cap, Error, Usage, locked};
use allowance::AllowanceSource;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};
use store::Key;
use tokio::{sync::Notify, time::Instant};

/// What happened to a budget in another process since the last report.
///
/// A worker sends it with each finished unit of work, and the process that leads the run merges it: the
/// run then knows its spending and the calls that were not made. An [`AllowanceRequest`](crate::AllowanceRequest)
/// goes to the authority of the budget while calls are made, so that all processes together stay below the caps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetReport {
    /// The cost of calls.
    pub spent: BudgetAmount,
    /// Calls that cost money.
    pub paid_calls: u64,
    /// The cap that was the first to stop a call, if one did.
    pub reached: Option<Cap>,
    /// Calls that were not made, by their keys.
    pub refused: Vec<Key>,
    /// The number of calls that were not made and have no key.
    pub refused_without_key: u64,
}

/// A budget that calls share. Clones are the same budget.
#[derive(Clone)]
pub struct Budget(Arc<BudgetInner>);

/// What clones of a budget share.
struct BudgetInner {
    caps: Caps,
    started: Instant,
    state: Mutex<BudgetState>,
    /// Notified whenever a reservation ends.
    settled: Notify,
    /// Where allowances come from, if other processes spend this budget too.
    source: Option<AllowanceSource>,
}

#[derive(Default)]
struct BudgetState {
    spent: BudgetAmount,
    reserved: BudgetAmount,
    paid_calls: u64,
    reached: Option<Cap>,
    /// The calls that were not made; equal requests count once.
    refused: HashSet<Key>,
    n_refused_without_key: u64,
    /// The amounts of `spent` and `paid_calls` that were already reported.
    reported: (BudgetAmount, u64),
    allowance: allowance::HeldAllowance,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Caps::default())
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("caps", &self.0.caps).field("spent", &self.spent()).finish_non_exhaustive()
    }
}

impl Budget {
    /// A budget whose time starts now.
    pub fn new(caps: Caps) -> Self {
        Self::with(caps, None)
    }

    /// This process's part of the named budget, which other processes spend
    /// too. What is spent here comes from an allowance that the lessor gives.
    /// All processes must give the same caps. Must be called within a tokio
    /// runtime.
    pub fn shared(name: String, caps: Caps, lessor: Arc<dyn Lessor>) -> Self {
        let budget = Self::with(caps, Some(AllowanceSource::new(name, lessor)));
        allowance::report_regularly(Arc::downgrade(&budget.0));
        budget
    }

    fn with(caps: Caps, source: Option<AllowanceSource>) -> Self {
        let (state, settled) = (Mutex::default(), Notify::new());
        Self(Arc::new(BudgetInner { caps, started: Instant::now(), state, settled, source }))
    }

    /// The caps.
    pub fn caps(&self) -> Caps {
        self.0.caps
    }

    /// The rest of each cap: the caps for another budget that spends what is left.
    pub fn rest(&self) -> Caps {
        let (caps, spent) = (self.caps(), self.spent());
        Caps {
            usd: caps.usd.map(|usd| (usd - spent.usd).max(0.0)),
            tokens: caps.tokens.map(|tokens| tokens.saturating_sub(spent.tokens)),
            calls: caps.calls.map(|calls| calls.saturating_sub(spent.calls)),
            minutes: caps.minutes.map(|minutes| (minutes - spent.minutes).max(0.0)),
        }
    }

    /// The cost of calls so far.
    pub fn spent(&self) -> SpentTotals {
        let minutes = self.minutes();
        let state = self.0.state();
        let BudgetAmount { picodollars, tokens, calls } = state.spent;
        SpentTotals { usd: dollars(picodollars), tokens, calls, paid_calls: state.paid_calls, minutes }
    }

    /// What happened since the last report.
    pub fn report(&self) -> BudgetReport {
        let mut state = self.0.state();
        let now = (state.spent, state.paid_calls);
        let (spent, paid_calls) = std::mem::replace(&mut state.reported, now);
        BudgetReport {
            spent: state.spent.minus(spent),
            paid_calls: state.paid_calls.saturating_sub(paid_calls),
            reached: state.reached,
            refused: state.refused.drain().collect(),
            refused_without_key: std::mem::take(&mut state.n_refused_without_key),
        }
    }

    /// Adds the report of another process.
    pub fn merge(&self, report: BudgetReport) {
        let mut state = self.0.state();
        state.spent = state.spent.plus(report.spent);
        state.paid_calls = state.paid_calls.saturating_add(report.paid_calls);
        state.reached = state.reached.or(report.reached);
        state.refused.extend(report.refused);
        state.n_refused_without_key = state.n_refused_without_key.saturating_add(report.refused_without_key);
    }

    /// The cap that was the first to stop a call, if one did.
    pub fn reached(&self) -> Option<Cap> {
        self.0.state().reached
    }

    /// How many calls a cap stopped, equal ones counted once.
    pub fn n_refused(&self) -> u64 {
        let state = self.0.state();
        state.refused.len() as u64 + state.n_refused_without_key
    }

    /// Whether a reservation must state its amount.
    pub(super) fn needs_estimates(&self) -> bool {
        self.0.caps.usd.is_some() || self.0.caps.tokens.is_some()
    }

    /// Records that a call was not made because of a cap.
    pub(super) fn record_refusal(&self, key: Option<Key>) {
        let mut state = self.0.state();
        match key {
            Some(key) => _ = state.refused.insert(key),
            None => state.n_refused_without_key += 1,
        }
    }

    /// Counts a call and reserves its estimated cost. Waits if calls in flight
    /// may still leave room for it.
    pub(super) async fn reserve(&self, amount: BudgetAmount) -> Result<Reservation<'_>, Error> {
        let wanted = amount.plus(ONE_CALL);
        loop {
            // Listens before it looks, so that no settlement in between is missed.
            let settled = self.0.settled.notified();
            let admission = match &self.0.source {
                None => self.admit(wanted),
                Some(source) => source.admit(&self.0, wanted).await,
            };
            match admission {
                BudgetAdmission::Granted => return Ok(Reservation { budget: self, amount }),
                BudgetAdmission::Refused(error) => return Err(error),
                BudgetAdmission::Full if self.0.source.is_none() => settled.await,
                // Calls of other processes may leave room too. The authority
                // cannot call back, so it is asked again.
                BudgetAdmission::Full => _ = tokio::time::timeout(allowance::ASK_AGAIN, settled).await,
            }
        }
    }

    fn admit(&self, wanted: BudgetAmount) -> BudgetAdmission {
        let mut state = self.0.state();
        match obstacle(&self.0.caps, self.minutes(), state.spent, state.reserved, wanted) {
            None => {
                state.admit(wanted);
                BudgetAdmission::Granted
            }
            Some(Obstacle::InFlight) => BudgetAdmission::Full,
            Some(Obstacle::Cap(exhausted)) => BudgetAdmission::Refused(state.exhausted(exhausted)),
        }
    }

    fn minutes(&self) -> f64 {
        self.0.started.elapsed().as_secs_f64() / 60.0
    }
}

impl BudgetInner {
    fn state(&self) -> MutexGuard<'_, BudgetState> {
        locked(&self.state)
    }
}

impl BudgetState {
    /// The amount spent, plus all reservations.
    fn claimed(&self) -> BudgetAmount {
        self.spent.plus(self.reserved)
    }

    /// A call begins: it is counted, and its cost is reserved.
    fn admit(&mut self, wanted: BudgetAmount) {
        self.spent.calls = self.spent.calls.saturating_add(wanted.calls);
        self.reserved = self.reserved.plus(BudgetAmount { calls: 0, ..wanted });
    }

    fn exhausted(&mut self, ReachedCap { cap, spent, limit }: ReachedCap) -> Error {
        self.reached.get_or_insert(cap);
        Error::BudgetExhausted { cap, spent, limit }
    }
}

/// Whether a call may begin.
enum BudgetAdmission {
    Granted,
    /// Not now; it would fit if the calls in flight cost less than they reserved.
    Full,
    Refused(Error),
}

/// The reason why a call does not fit into the budget.
enum Obstacle {
    /// Reservations of calls in flight, which may turn out cheaper.
    InFlight,
    Cap(ReachedCap),
}

/// What keeps `wanted` from being spent in addition to `spent` and `reserved`.
/// Permanent obstacles come before temporary ones.
fn obstacle(
    caps: &Caps,
    minutes: f64,
    spent: BudgetAmount,
    reserved: BudgetAmount,
    wanted: BudgetAmount,
) -> Option<Obstacle> {
    if let Some(limit) = caps.minutes.filter(|limit| minutes >= *limit) {
        return Some(Obstacle::Cap(ReachedCap { cap: Cap::Minutes, spent: minutes, limit }));
    }
    let number: fn(u64) -> f64 = |number| number as f64;
    let calls = (spent.calls, reserved.calls, wanted.calls, caps.calls, number);
    let money = (spent.picodollars, reserved.picodollars, wanted.picodollars, caps.usd.map(picodollars), dollars as _);
    let words = (spent.tokens, reserved.tokens, wanted.tokens, caps.tokens, number);
    let mut obstacle = None;
    for (cap, (spent, reserved, wanted, limit, unit)) in [(Cap::Calls, calls), (Cap::Usd, money), (Cap::Tokens, words)]
    {
        // A call that costs nothing fits under any cap, even one that was exceeded.
        let Some(limit) = limit.filter(|_| wanted > 0) else { continue };
        let least = spent.saturating_add(wanted);
        if least > limit {
            return Some(Obstacle::Cap(ReachedCap { cap, spent: unit(spent), limit: unit(limit) }));
        }
        if least.saturating_add(reserved) > limit {
            obstacle = Some(Obstacle::InFlight);
        }
    }
    obstacle
}

/// Room for one call in flight. If it is dropped without being settled, only
/// the count of calls remains.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    amount: BudgetAmount,
}

impl Reservation<'_> {
    /// The call was refused because of a rate limit, so it does not count. If
    /// other processes spend the budget too, the call may have been reported
    /// already, so it counts.
    pub(super) fn uncount(&self) {
        if self.budget.0.source.is_none() {
            let mut state = self.budget.0.state();
            state.spent.calls = state.spent.calls.saturating_sub(1);
        }
    }

    /// The call ended and cost this much.
    pub(super) fn settle(mut self, usage: Usage, usd: f64) {
        let cost = BudgetAmount::cost(usd, usage.total());
        // One lock for both changes, so that no reader sees the cost twice or not at all.
        let mut state = self.budget.0.state();
        state.spent = state.spent.plus(cost);
        state.paid_calls += u64::from(cost.picodollars > 0);
        state.reserved = state.reserved.minus(std::mem::take(&mut self.amount));
        // Local variables are dropped before arguments, so the lock is free when
        // the reservation is dropped, which only wakes the waiting calls.
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.0.state();
        state.reserved = state.reserved.minus(self.amount);
        drop(state);
        self.budget.0.settled.notify_waiters();
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
