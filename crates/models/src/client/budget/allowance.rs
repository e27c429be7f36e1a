//! A budget that several processes spend: one authority ([`Allowances`])
//! divides it, and each process spends no more than its allowance.
//!
//! A process asks when its next call does not fit into its allowance, and gets
//! up to 16 times what it asks for, so that not every call has to ask. If
//! the authority does not answer, the call gives its slot back and asks again
//! later, for two minutes. A process gives back what it does not need; at once
//! if others want it. Processes spend only what they were given, so the caps
//! hold over all processes as they do in one: only calls in flight that cost
//! more than they reserved can exceed them.
//!
//! A process that no longer reports may have spent its whole allowance, so all
//! of it counts as spent. An authority that was restarted knows only what
//! living processes report, which they do every few seconds. Whoever holds the
//! authority (the actor of a cluster) must therefore set `wanted` of each
//! request to `None` in the first seconds after a restart, until every living
//! process had time to report.

use super::{BudgetAdmission, BudgetInner, BudgetState, Obstacle, obstacle};
use crate::{
    Error,
    client::{
        amount::{Allowance, AllowanceRequest, BudgetAmount, Caps},
        lease::{self, Lessor, LessorError},
    },
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// If a call has no room while calls of other processes are in flight, it asks
/// again after this time.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(250);
/// How often a process that makes calls reports its spending. If it made none in this time, it
/// gives back the allowance that it has not spent.
const BEAT: Duration = Duration::from_millis(500);
/// How often a process without calls reports that it is alive.
const ALIVE: Duration = Duration::from_secs(2);
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
const NO_ANSWER: &str = "it did not answer a request";
/// A process that has not reported for this time may have spent its whole allowance.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// After a process had to wait, the others are asked for this time to give back
/// what they do not need.
const CONTENDED: Duration = Duration::from_secs(3);
/// A process gets [`PREFETCH_FACTOR`] times the amount that it asks for, but at
/// most its share of what is left: `left / (SHARE_DIVISOR × processes)`.
const PREFETCH_FACTOR: u64 = 16;
const SHARE_DIVISOR: u64 = 8;

/// Divides a budget among processes. Its time begins when it is made.
#[derive(Debug)]
pub struct Allowances {
    caps: Caps,
    started: Instant,
    holders: BTreeMap<u64, Holder>,
    contended_until: Option<Instant>,
}

#[derive(Debug)]
struct Holder {
    spent: BudgetAmount,
    held: BudgetAmount,
    heard: Instant,
}

impl Allowances {
    /// Divides a budget with these caps.
    pub fn new(caps: Caps, now: Instant) -> Self {
        Self { caps, started: now, holders: BTreeMap::new(), contended_until: None }
    }

    /// Replaces the caps.
    pub fn set_caps(&mut self, caps: Caps) {
        self.caps = caps;
    }

    /// Takes a process's report, and gives it more if it wants more and there is some.
    pub fn ask(&mut self, request: &AllowanceRequest, now: Instant) -> Allowance {
        let AllowanceRequest { spent, held, .. } = *request;
        self.holders.insert(request.process, Holder { spent, held: held.with(spent, u64::max), heard: now });
        let minutes = now.duration_since(self.started).as_secs_f64() / 60.0;
        let mut allowance = Allowance {
            ends_in: self.caps.minutes.map(|limit| Duration::from_secs_f64((limit - minutes).max(0.0) * 60.0)),
            ..Allowance::default()
        };
        if let Some(wanted) = request.wanted {
            let (spent, held) = self.totals(now);
            match obstacle(&self.caps, minutes, spent, held.minus(spent), wanted) {
                None => {
                    allowance.more = self.prefetch(held, wanted);
                    if let Some(holder) = self.holders.get_mut(&request.process) {
                        holder.held = holder.held.plus(allowance.more);
                    }
                }
                Some(Obstacle::InFlight) => self.contended_until = Some(now + CONTENDED),
                Some(Obstacle::Cap(exhausted)) => allowance.exhausted = Some(exhausted),
            }
        }
        allowance.contended = self.contended_until.is_some_and(|until| now < until);
        allowance
    }

    /// When it was last asked.
    pub fn last_request(&self) -> Option<Instant> {
        self.holders.values().map(|holder| holder.heard).max()
    }

    /// What all processes have spent, and what they hold.
    fn totals(&self, now: Instant) -> (BudgetAmount, BudgetAmount) {
        let sum = |of: &dyn Fn(&Holder) -> BudgetAmount| {
            self.holders.values().map(of).fold(BudgetAmount::default(), BudgetAmount::plus)
        };
        let silent = |holder: &Holder| now.duration_since(holder.heard) > SILENT_AFTER;
        (sum(&|holder| if silent(holder) { holder.held } else { holder.spent }), sum(&|holder| holder.held))
    }

    /// The wanted amount, and some more if plenty is left.
    fn prefetch(&self, held: BudgetAmount, wanted: BudgetAmount) -> BudgetAmount {
        let shares = SHARE_DIVISOR * self.holders.len().max(1) as u64;
        let more = |wanted: u64, held: u64, limit: Option<u64>| {
            let plenty = limit.map_or(u64::MAX, |limit| limit.saturating_sub(held) / shares);
            wanted.max(wanted.saturating_mul(PREFETCH_FACTOR).min(plenty))
        };
        BudgetAmount {
            picodollars: more(wanted.picodollars, held.picodollars, self.caps.usd.map(super::picodollars)),
            tokens: more(wanted.tokens, held.tokens, self.caps.tokens),
            calls: more(wanted.calls, held.calls, self.caps.calls),
        }
    }
}

/// The source of a process's allowance.
pub(super) struct AllowanceSource {
    name: String,
    process: u64,
    lessor: Arc<dyn Lessor>,
    /// Only one request at a time, so that both sides agree on what is held.
    asking: tokio::sync::Mutex<()>,
}

/// A process's allowance.
#[derive(Debug, Default)]
pub(super) struct HeldAllowance {
    share: BudgetAmount,
    ends: Option<Instant>,
    contended: bool,
}

impl AllowanceSource {
    pub(super) fn new(name: String, lessor: Arc<dyn Lessor>) -> Self {
        Self { name, process: lease::process(), lessor, asking: tokio::sync::Mutex::default() }
    }

    /// Takes a call's amount from the allowance, or asks for more first.
    pub(super) async fn admit(&self, budget: &BudgetInner, wanted: BudgetAmount) -> BudgetAdmission {
        loop {
            if budget.state().take(&budget.caps(), wanted) {
                return BudgetAdmission::Granted;
            }
            let _turn = self.asking.lock().await;
            let request = {
                let mut state = budget.state();
                // The previous request may have brought enough for this call too.
                if state.take(&budget.caps(), wanted) {
                    return BudgetAdmission::Granted;
                }
                let claimed = state.claimed();
                // Spending beyond the allowance cannot be undone.
                state.allowance.share = state.allowance.share.with(claimed, u64::max);
                let missing = claimed.plus(wanted).minus(state.allowance.share);
                self.request(budget, &state, Some(missing))
            };
            match timeout(PATIENCE, self.lessor.allow(request))
                .await
                .unwrap_or_else(|_| Err(LessorError(NO_ANSWER.to_owned())))
            {
                // The call holds a slot of the limiter, so it does not wait here.
                Err(LessorError(reason)) => {
                    return BudgetAdmission::Refused(Error::BudgetUnreachable { after: Duration::ZERO, reason });
                }
                Ok(allowance) => {
                    let mut state = budget.state();
                    state.hold(&allowance);
                    if let Some(exhausted) = allowance.exhausted {
                        return BudgetAdmission::Refused(state.exhausted(exhausted));
                    }
                    if allowance.more == BudgetAmount::default() {
                        return BudgetAdmission::Full;
                    }
                }
            }
        }
    }

    fn request(&self, budget: &BudgetInner, state: &BudgetState, wanted: Option<BudgetAmount>) -> AllowanceRequest {
        AllowanceRequest {
            budget: self.name.clone(),
            caps: budget.caps(),
            process: self.process,
            spent: state.spent,
            held: state.allowance.share,
            wanted,
        }
    }
}

impl BudgetState {
    /// If the call fits into the allowance, begins it. Returns whether it did.
    fn take(&mut self, caps: &Caps, wanted: BudgetAmount) -> bool {
        if self.allowance.ends.is_some_and(|ends| Instant::now() >= ends) {
            return false;
        }
        let (claimed, held) = (self.claimed(), self.allowance.share);
        let fits = |capped: bool, claimed: u64, wanted: u64, held: u64| {
            !capped || wanted == 0 || claimed.saturating_add(wanted) <= held
        };
        // The end of the time is known from the first answer of the authority.
        let known = caps.minutes.is_none() || self.allowance.ends.is_some();
        let all = known
            && fits(caps.usd.is_some(), claimed.picodollars, wanted.picodollars, held.picodollars)
            && fits(caps.tokens.is_some(), claimed.tokens, wanted.tokens, held.tokens)
            && fits(caps.calls.is_some(), claimed.calls, wanted.calls, held.calls);
        if all {
            self.admit(wanted);
        }
        all
    }

    fn hold(&mut self, allowance: &Allowance) {
        let held = &mut self.allowance;
        held.share = held.share.plus(allowance.more);
        held.contended = allowance.contended;
        held.ends = allowance.ends_in.map(|left| Instant::now() + left);
    }
}

/// Reports spending, gives back what is not needed, and shows that the process
/// is alive.
pub(super) fn report_regularly(budget: Weak<BudgetInner>) {
    tokio::spawn(async move {
        let mut before = BudgetAmount::default();
        let mut reported = Instant::now();
        loop {
            tokio::time::sleep(BEAT).await;
            let Some(budget) = budget.upgrade() else { return };
            let Some(source) = &budget.source else { return };
            let _turn = source.asking.lock().await;
            let request = {
                let mut state = budget.state();
                let claimed = state.claimed();
                let idle = claimed == before;
                let held = state.allowance.share;
                let unneeded = idle || state.allowance.contended;
                state.allowance.share = if unneeded { claimed } else { held.with(claimed, u64::max) };
                before = claimed;
                let same = state.allowance.share == held;
                if idle && same && reported.elapsed() < ALIVE {
                    continue;
                }
                source.request(&budget, &state, None)
            };
            // If the authority cannot be reached now, it gets the next report.
            if let Ok(Ok(allowance)) = timeout(PATIENCE, source.lessor.allow(request)).await {
                budget.state().hold(&allowance);
                reported = Instant::now();
            }
        }
    });
}

#[cfg(test)]
mod tests;
