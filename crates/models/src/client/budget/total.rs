//! What an experiment spends over all starts, and its caps.
//!
//! Each process has a share in the journal ([`store::SpendingShare`]). It says how much the process has spent, and how
//! much it has reserved for its next calls. A call begins only when the written share covers it, so nothing is left
//! uncounted after `kill -9`: calls that were in flight count with what they reserved, because they may be billed.
//!
//! A journal file is written for each call. Writing to a store that machines share takes longer, so a process then
//! claims several calls at once. It gives back what it does not need when it makes no calls, and at its end.
//!
//! A process that has not written for some time is dead, so all that it held counts as spent.

use super::{BudgetInner, Obstacle, obstacle};
use crate::{
    Cap, Error,
    client::amount::{BudgetAmount, Caps, ReachedCap, TotalCaps, TotalSpent},
    client::journal_error,
    locked,
};
use std::{
    sync::{Arc, Mutex, Once},
    time::Duration,
};
use store::{SharedJournal, SpendingShare, SpendingShares};
use tokio::time::{Instant, timeout};

/// How much of what is left a process claims at once in a store that machines share: this many calls like the one that
/// needs it, and at most `left / (SHARE_DIVISOR × processes)`.
const PREFETCH_FACTOR: u64 = 64;
const SHARE_DIVISOR: u64 = 8;
/// How long a request to a store that machines share may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Without caps, calls do not wait for a store that failed; it is tried again after this time.
const PAUSE: Duration = Duration::from_secs(30);
/// A cap that was found to be reached is believed for this time.
const BELIEVED: Duration = Duration::from_secs(5);

/// How often a process writes its share, and when it counts as dead.
#[derive(Debug, Clone, Copy)]
struct ShareTimes {
    /// How often changes are written.
    beat: Duration,
    /// How often a process that holds something writes, even if nothing changed.
    alive: Duration,
    /// After this time without a write, a process counts as dead.
    silent: Duration,
}

const IN_A_FILE: ShareTimes =
    ShareTimes { beat: Duration::from_millis(500), alive: Duration::from_secs(2), silent: Duration::from_secs(10) };
/// Machines have clocks of their own, so more time passes before one counts as dead.
const IN_A_STORE: ShareTimes =
    ShareTimes { beat: Duration::from_secs(5), alive: Duration::from_secs(10), silent: Duration::from_secs(90) };

/// What an experiment spends over all starts.
pub(super) struct TotalBudget {
    caps: TotalCaps,
    journal: SharedJournal,
    /// The name under which it is counted: that of the experiment.
    name: String,
    process: String,
    times: ShareTimes,
    state: Mutex<TotalState>,
    /// Only one write at a time, so that the last one is the newest.
    writing: tokio::sync::Mutex<()>,
    reports: Once,
}

#[derive(Default)]
struct TotalState {
    /// What finished calls of this process cost.
    spent: BudgetAmount,
    /// What its calls in flight may cost.
    reserved: BudgetAmount,
    /// What its written share holds.
    share: BudgetAmount,
    /// What its written share says that it has spent.
    recorded: BudgetAmount,
    /// What other processes have spent, when their shares were last read.
    others: BudgetAmount,
    /// How many of them lived and held something.
    active: u64,
    /// What workers of this start have spent, as they reported it.
    workers: BudgetAmount,
    read: Option<Instant>,
    written: Option<Instant>,
    reached: Option<Cap>,
    paused: Option<Instant>,
}

impl TotalState {
    fn claimed(&self) -> BudgetAmount {
        self.spent.plus(self.reserved)
    }

    /// If the written share covers one more call, begins it. Returns whether it did.
    fn take(&mut self, wanted: BudgetAmount) -> bool {
        let needed = self.claimed().plus(wanted);
        let is_covered = needed.minus(self.share) == BudgetAmount::default();
        if is_covered {
            self.begin(wanted);
        }
        is_covered
    }

    fn begin(&mut self, wanted: BudgetAmount) {
        self.spent.calls = self.spent.calls.saturating_add(wanted.calls);
        self.reserved = self.reserved.plus(BudgetAmount { calls: 0, ..wanted });
    }
}

/// What others have spent and hold.
struct OtherShares {
    spent: BudgetAmount,
    held: BudgetAmount,
    /// How many of them live and hold something.
    active: u64,
}

/// Whether a call may begin.
pub(super) enum TotalAdmission {
    Granted,
    /// Not now; it would fit if the calls in flight cost less than they reserved.
    Full,
    Refused(Error),
}

impl TotalBudget {
    pub(super) fn new(caps: TotalCaps, journal: SharedJournal, name: String) -> Self {
        let times = if journal.is_shared() { IN_A_STORE } else { IN_A_FILE };
        Self {
            caps,
            journal,
            name,
            process: store::unique_token(),
            times,
            state: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            reports: Once::new(),
        }
    }

    pub(super) fn caps(&self) -> TotalCaps {
        self.caps
    }

    pub(super) fn reached(&self) -> Option<Cap> {
        locked(&self.state).reached
    }

    /// What was spent before this start or by others meanwhile, and in this start.
    pub(super) fn spent(&self) -> (TotalSpent, TotalSpent) {
        let state = locked(&self.state);
        let here = state.spent.plus(state.workers);
        // The shares of workers are among those of other processes.
        let earlier = state.others.minus(state.workers);
        (earlier.into(), here.into())
    }

    /// Adds what a worker reported.
    pub(super) fn merge(&self, spent: BudgetAmount, reached: Option<Cap>) {
        let mut state = locked(&self.state);
        state.workers = state.workers.plus(spent);
        state.reached = state.reached.or(reached);
    }

    /// What this process has spent.
    pub(super) fn spent_here(&self) -> BudgetAmount {
        locked(&self.state).spent
    }

    /// Begins a call if the written share covers it, or if it can be raised.
    pub(super) async fn admit(&self, budget: &Arc<BudgetInner>, wanted: BudgetAmount) -> TotalAdmission {
        self.report_regularly(budget);
        if let Some(reached) = self.known_obstacle(wanted) {
            return TotalAdmission::Refused(self.exhausted(reached));
        }
        if locked(&self.state).take(wanted) {
            return TotalAdmission::Granted;
        }
        let _turn = self.writing.lock().await;
        let mut claimed_more = self.prefetch(wanted);
        loop {
            // The previous write may have brought enough for this call too.
            if locked(&self.state).take(wanted) {
                return TotalAdmission::Granted;
            }
            if self.is_paused() {
                locked(&self.state).begin(wanted);
                return TotalAdmission::Granted;
            }
            let claim = move |state: &TotalState| state.claimed().plus(claimed_more).with(state.share, u64::max);
            let (held, others) = match self.write(claim).await {
                Ok(written) => written,
                Err(error) if self.caps.is_empty() => {
                    let mut state = locked(&self.state);
                    state.paused = Some(Instant::now() + PAUSE);
                    state.begin(wanted);
                    tracing::warn!("what is spent cannot be recorded now: {error}");
                    return TotalAdmission::Granted;
                }
                Err(error) => return TotalAdmission::Refused(error),
            };
            match self.obstacle(&others, claimed_more) {
                // It covers the call, unless calls that began meanwhile have taken it.
                None => locked(&self.state).share = held,
                // A claim of several calls is replaced by one for this call alone.
                Some(_) if claimed_more != wanted => {
                    claimed_more = wanted;
                    let mut state = locked(&self.state);
                    state.share = state.claimed();
                }
                Some(found) => {
                    // If the claim cannot be taken back, it counts until the next write.
                    let _ = self.write(TotalState::claimed).await;
                    return match found {
                        Obstacle::InFlight => TotalAdmission::Full,
                        Obstacle::Cap(reached) => TotalAdmission::Refused(self.exhausted(reached)),
                    };
                }
            }
        }
    }

    /// What keeps `wanted` from being spent, after it was claimed.
    fn obstacle(&self, others: &OtherShares, wanted: BudgetAmount) -> Option<Obstacle> {
        let state = locked(&self.state);
        let reserved = others.held.minus(others.spent).plus(state.reserved);
        obstacle(&self.caps.into(), 0.0, others.spent.plus(state.spent), reserved, wanted)
    }

    /// Whether calls do not wait for a store that failed.
    fn is_paused(&self) -> bool {
        self.caps.is_empty() && locked(&self.state).paused.is_some_and(|until| Instant::now() < until)
    }

    /// The cap that a call can never fit into, as far as is known without a look at the store.
    fn known_obstacle(&self, wanted: BudgetAmount) -> Option<ReachedCap> {
        let state = locked(&self.state);
        state.read.filter(|read| read.elapsed() < BELIEVED)?;
        let spent = state.others.plus(state.spent);
        match obstacle(&self.caps.into(), 0.0, spent, BudgetAmount::default(), wanted)? {
            Obstacle::Cap(reached) => Some(reached),
            Obstacle::InFlight => None,
        }
    }

    fn exhausted(&self, ReachedCap { cap, spent, limit }: ReachedCap) -> Error {
        let (earlier, _) = self.spent();
        locked(&self.state).reached.get_or_insert(cap);
        Error::BudgetExhausted { cap, spent, limit, earlier: Some(earlier.of(cap).min(spent)) }
    }

    /// The amount that is claimed with a call.
    fn prefetch(&self, wanted: BudgetAmount) -> BudgetAmount {
        let state = locked(&self.state);
        // A claim in a file is quick. The first claim in a store is exact, because nothing is known of others.
        if !self.journal.is_shared() || state.read.is_none() {
            return wanted;
        }
        let used = state.others.plus(state.claimed());
        let shares = SHARE_DIVISOR * (state.active + 1);
        let more = |wanted: u64, used: u64, limit: Option<u64>| {
            let share = limit.map_or(u64::MAX, |limit| limit.saturating_sub(used) / shares);
            wanted.max(wanted.saturating_mul(PREFETCH_FACTOR).min(share))
        };
        let caps = Caps::from(self.caps);
        BudgetAmount {
            picodollars: more(wanted.picodollars, used.picodollars, caps.usd.map(super::picodollars)),
            tokens: more(wanted.tokens, used.tokens, caps.tokens),
            calls: more(wanted.calls, used.calls, caps.calls),
        }
    }

    /// Writes a share that holds this much, and reads the shares of others. What it holds more than before may be used
    /// when the caller has compared it with the caps and set [`TotalState::share`].
    async fn write(
        &self,
        held: impl FnOnce(&TotalState) -> BudgetAmount,
    ) -> Result<(BudgetAmount, OtherShares), Error> {
        let (spent, held) = {
            let mut state = locked(&self.state);
            let held = held(&state).with(state.spent, u64::max);
            // What is given back may not be used while it is written.
            state.share = state.share.with(held, u64::min);
            (state.spent, held)
        };
        let share = SpendingShare::now(spent.into(), held.into());
        let writing = self.journal.put_share(&self.name, &self.process, share);
        let shares = match timeout(PATIENCE, writing).await {
            Ok(written) => written.map_err(|error| self.failed(error))?,
            Err(_) => return Err(unreachable("the store did not answer".to_owned())),
        };
        let others = self.others(&shares);
        let mut state = locked(&self.state);
        state.recorded = spent;
        (state.others, state.active) = (others.spent, others.active);
        let now = Instant::now();
        (state.read, state.written, state.paused) = (Some(now), Some(now), None);
        Ok((held, others))
    }

    /// Writes a share that covers the calls so far, however much that is.
    async fn write_covered(&self, held: impl FnOnce(&TotalState) -> BudgetAmount) {
        // What cannot be written now is written with the next call, or at the end.
        if let Ok((held, _)) = self.write(held).await {
            let mut state = locked(&self.state);
            state.share = state.share.with(held, u64::max);
        }
    }

    fn failed(&self, error: store::Error) -> Error {
        // A file that cannot be written cannot keep answers either. A store may be back soon.
        match self.journal.is_shared() && !matches!(error, store::Error::ReadOnly { .. }) {
            true => unreachable(store::error_chain(&error)),
            false => journal_error(error),
        }
    }

    fn others(&self, shares: &SpendingShares) -> OtherShares {
        let now = SpendingShare::now(Default::default(), Default::default()).written_unix_ms;
        let silent_ms = self.times.silent.as_millis() as u64;
        let mut others = OtherShares { spent: BudgetAmount::default(), held: BudgetAmount::default(), active: 0 };
        for (_, share) in shares.iter().filter(|(process, _)| **process != self.process) {
            let is_dead = now.abs_diff(share.written_unix_ms) > silent_ms;
            let (spent, held) = (BudgetAmount::from(share.spent), BudgetAmount::from(share.held));
            others.spent = others.spent.plus(if is_dead { held } else { spent });
            others.held = others.held.plus(held);
            others.active += u64::from(!is_dead && held != spent);
        }
        others
    }

    /// Reads what others have spent, and writes nothing.
    pub(super) async fn look(&self) -> Result<(), Error> {
        let shares = self.journal.shares(&self.name).await.map_err(journal_error)?;
        let others = self.others(&shares);
        let mut state = locked(&self.state);
        (state.others, state.read) = (others.spent, Some(Instant::now()));
        Ok(())
    }

    /// Raises the written share if calls cost more than they reserved.
    pub(super) async fn cover(&self) {
        let is_covered = || {
            let state = locked(&self.state);
            state.claimed().minus(state.share) == BudgetAmount::default()
        };
        if is_covered() || self.is_paused() {
            return;
        }
        let _turn = self.writing.lock().await;
        if !is_covered() {
            self.write_covered(TotalState::claimed).await;
        }
    }

    /// Writes what was spent, and gives back what is held beyond the calls in flight.
    pub(super) async fn give_back(&self) {
        let _turn = self.writing.lock().await;
        let is_written = {
            let state = locked(&self.state);
            let claimed = state.claimed();
            let is_new = state.written.is_none() && claimed == BudgetAmount::default();
            is_new || (state.share == claimed && state.recorded == state.spent)
        };
        if !is_written {
            self.write_covered(TotalState::claimed).await;
        }
    }

    /// A call was refused because of a rate limit, so it does not count.
    pub(super) fn uncount(&self) {
        let mut state = locked(&self.state);
        state.spent.calls = state.spent.calls.saturating_sub(1);
    }

    /// A call ended and cost this much.
    pub(super) fn settle(&self, cost: BudgetAmount, reserved: BudgetAmount) {
        let mut state = locked(&self.state);
        state.spent = state.spent.plus(cost);
        state.reserved = state.reserved.minus(reserved);
    }

    /// Writes changes of the share, and shows that the process is alive.
    fn report_regularly(&self, budget: &Arc<BudgetInner>) {
        self.reports.call_once(|| {
            let (budget, ShareTimes { beat, alive, .. }) = (Arc::downgrade(budget), self.times);
            tokio::spawn(async move {
                let mut before = BudgetAmount::default();
                loop {
                    tokio::time::sleep(beat).await;
                    let Some(budget) = budget.upgrade() else { return };
                    let Some(total) = budget.total.get() else { return };
                    let _turn = total.writing.lock().await;
                    let is_idle = {
                        let state = locked(&total.state);
                        let claimed = state.claimed();
                        let is_idle = claimed == before;
                        before = claimed;
                        let is_written = state.recorded == state.spent && (!is_idle || state.share == claimed);
                        let is_alive = state.written.is_some_and(|written| written.elapsed() < alive);
                        if is_written && (is_alive || state.share == state.spent) {
                            continue;
                        }
                        is_idle
                    };
                    let held = |state: &TotalState| match is_idle {
                        true => state.claimed(),
                        false => state.share.with(state.claimed(), u64::max),
                    };
                    total.write_covered(held).await;
                    budget.settled.notify_waiters();
                }
            });
        });
    }
}

fn unreachable(reason: String) -> Error {
    Error::BudgetUnreachable { after: Duration::ZERO, reason }
}

#[cfg(test)]
mod tests;
