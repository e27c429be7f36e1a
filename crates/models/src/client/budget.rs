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
//! ([`Budget::shared`]). [`Budget::count_total`] adds caps on what all starts of an experiment cost together.

mod allowance;
mod total;

pub use allowance::Allowances;

use super::{
    Lessor,
    amount::{BudgetAmount, Caps, ONE_CALL, ReachedCap, SpentTotals, TotalCaps, TotalSpending, dollars, picodollars},
};
use crate::{Cap, Error, Usage, locked};
use allowance::AllowanceSource;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use store::{Key, SharedJournal};
use tokio::{sync::Notify, time::Instant};
use total::{TotalAdmission, TotalBudget};

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
    /// The part of `spent` that counts for the total of the experiment.
    #[serde(default)]
    pub of_total: BudgetAmount,
    /// The cap of the total that was the first to stop a call, if one did.
    #[serde(default)]
    pub total_reached: Option<Cap>,
}

/// A budget that calls share. Clones are the same budget.
#[derive(Clone)]
pub struct Budget(Arc<BudgetInner>);

/// What clones of a budget share.
struct BudgetInner {
    caps: Mutex<Caps>,
    started: Instant,
    state: Mutex<BudgetState>,
    /// Notified whenever a reservation ends.
    settled: Notify,
    /// Where allowances come from, if other processes spend this budget too.
    source: Option<AllowanceSource>,
    /// What the experiment spends over all starts, if that is counted.
    total: OnceLock<TotalBudget>,
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
    /// The amount of the total that was already reported.
    reported_of_total: BudgetAmount,
    allowance: allowance::HeldAllowance,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Caps::default())
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("caps", &self.caps()).field("spent", &self.spent()).finish_non_exhaustive()
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
        let total = OnceLock::new();
        Self(Arc::new(BudgetInner { caps: Mutex::new(caps), started: Instant::now(), state, settled, source, total }))
    }

    /// Counts what calls of remote models cost under a name in a journal, over all processes and starts, and refuses
    /// calls beyond these caps. Once set, the name and the caps stay.
    pub fn count_total(&self, caps: TotalCaps, journal: SharedJournal, name: &str) {
        self.0.total.get_or_init(|| TotalBudget::new(caps, journal, name.to_owned()));
    }

    /// The caps over all starts and what was spent; none if that is not counted. What other processes spent is as it
    /// was at the last [`Budget::look_at_total`], or at the last call that had to claim something.
    pub fn total(&self) -> Option<TotalSpending> {
        let total = self.0.total.get()?;
        let (earlier, here) = total.spent();
        Some(TotalSpending { caps: total.caps(), earlier, here, reached: total.reached() })
    }

    /// Reads what other processes and earlier starts have spent.
    ///
    /// # Errors
    /// If the journal or its store cannot be read.
    pub async fn look_at_total(&self) -> Result<(), Error> {
        match self.0.total.get() {
            Some(total) => total.look().await,
            None => Ok(()),
        }
    }

    /// Writes what was spent of the total, and gives back what is not needed.
    pub(super) async fn give_back_total(&self) {
        if let Some(total) = self.0.total.get() {
            total.give_back().await;
        }
    }

    /// Raises the written share if calls cost more than they reserved, so that their whole cost counts also after a kill.
    pub(super) async fn cover_total(&self) {
        if let Some(total) = self.0.total.get() {
            total.cover().await;
        }
    }

    /// The caps.
    pub fn caps(&self) -> Caps {
        self.0.caps()
    }

    /// Replaces the caps while calls are made, and lets calls that wait for room look again. Calls that were refused
    /// before stay refused. If other processes spend this budget too, they keep the caps that they were given.
    pub fn set_caps(&self, caps: Caps) {
        *locked(&self.0.caps) = caps;
        let mut state = self.0.state();
        // Spending below the new caps stops nothing any more.
        if state.reached.is_some()
            && obstacle(&caps, self.minutes(), state.spent, BudgetAmount::default(), ONE_CALL).is_none()
        {
            state.reached = None;
        }
        drop(state);
        self.0.settled.notify_waiters();
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
        let total = self.0.total.get();
        let of_total = total.map(TotalBudget::spent_here).unwrap_or_default();
        let reported = std::mem::replace(&mut state.reported_of_total, of_total);
        BudgetReport {
            spent: state.spent.minus(spent),
            paid_calls: state.paid_calls.saturating_sub(paid_calls),
            reached: state.reached,
            refused: state.refused.drain().collect(),
            refused_without_key: std::mem::take(&mut state.n_refused_without_key),
            of_total: of_total.minus(reported),
            total_reached: total.and_then(TotalBudget::reached),
        }
    }

    /// Adds the report of another process.
    pub fn merge(&self, report: BudgetReport) {
        if let Some(total) = self.0.total.get() {
            total.merge(report.of_total, report.total_reached);
        }
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
        let caps = self.caps();
        caps.usd.is_some() || caps.tokens.is_some()
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
                BudgetAdmission::Granted => {
                    return Ok(Reservation { budget: self, amount, total: None, submitted: None });
                }
                BudgetAdmission::Refused(error) => return Err(error),
                BudgetAdmission::Full if self.0.source.is_none() => settled.await,
                // Calls of other processes may leave room too. The authority
                // cannot call back, so it is asked again.
                BudgetAdmission::Full => _ = tokio::time::timeout(allowance::ASK_AGAIN, settled).await,
            }
        }
    }

    /// [`Budget::reserve`] for a call that is paid: it also has to fit into the total of the experiment, and is counted
    /// there before it begins.
    pub(super) async fn reserve_paid(&self, amount: BudgetAmount) -> Result<Reservation<'_>, Error> {
        let mut reservation = self.reserve(amount).await?;
        let Some(total) = self.0.total.get() else { return Ok(reservation) };
        loop {
            let settled = self.0.settled.notified();
            match total.admit(&self.0, amount.plus(ONE_CALL)).await {
                TotalAdmission::Granted => {
                    reservation.total = Some(total);
                    return Ok(reservation);
                }
                TotalAdmission::Refused(error) => {
                    reservation.withdraw();
                    return Err(error);
                }
                // Calls of other processes may leave room too.
                TotalAdmission::Full => _ = tokio::time::timeout(allowance::ASK_AGAIN, settled).await,
            }
        }
    }

    fn admit(&self, wanted: BudgetAmount) -> BudgetAdmission {
        let mut state = self.0.state();
        match obstacle(&self.caps(), self.minutes(), state.spent, state.reserved, wanted) {
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
    fn caps(&self) -> Caps {
        *locked(&self.caps)
    }

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
        Error::BudgetExhausted { cap, spent, limit, earlier: None }
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
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    amount: BudgetAmount,
    /// The total of the experiment, if the call is counted there.
    total: Option<&'a TotalBudget>,
    /// If this is set at the end, the call may be billed although it was not settled.
    submitted: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("amount", &self.amount).finish_non_exhaustive()
    }
}

impl Reservation<'_> {
    /// The call was refused because of a rate limit, so it does not count. If
    /// other processes spend the budget too, the call may have been reported
    /// already, so it counts.
    pub(super) fn uncount(&self) {
        if self.budget.0.source.is_none() {
            self.withdraw();
        }
        if let Some(total) = self.total {
            total.uncount();
        }
    }

    /// If the call is given up while this is set, it counts with all that it reserved.
    pub(super) fn counts_if(&mut self, submitted: Option<Arc<AtomicBool>>) {
        self.submitted = submitted;
    }

    /// The call is not made, so the budget of the run does not count it.
    fn withdraw(&self) {
        let mut state = self.budget.0.state();
        state.spent.calls = state.spent.calls.saturating_sub(1);
    }

    /// The call ended and cost this much.
    pub(super) fn settle(mut self, usage: Usage, usd: f64) {
        let cost = BudgetAmount::cost(usd, usage.total());
        if let Some(total) = self.total {
            total.settle(cost, self.amount);
        }
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
        let is_billed = self.submitted.as_ref().is_some_and(|submitted| submitted.load(Ordering::Relaxed));
        let cost = if is_billed { self.amount } else { BudgetAmount::default() };
        if let Some(total) = self.total {
            total.settle(cost, self.amount);
        }
        let mut state = self.budget.0.state();
        state.spent = state.spent.plus(cost);
        state.reserved = state.reserved.minus(self.amount);
        drop(state);
        self.budget.0.settled.notify_waiters();
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
