//! A budget that several processes spend: one authority ([`Allowances`])
//! divides it, and each process spends no more than it holds.
//!
//! A process asks when its next call does not fit into what it holds, and is
//! given a little more than that call, so that not every call asks. Where the
//! authority does not answer, the call gives its slot back and asks again
//! later, for two minutes. What a process does not need it gives back, at once
//! where others want it. Nothing is spent that was not given, so the caps hold
//! over all processes as they hold in one: only calls in flight that cost more
//! than was reserved exceed them.
//!
//! A process that is not heard of any more may have spent all that it held;
//! that counts as spent. An authority that was started anew knows only what
//! living processes report to it, which they do every few seconds; it should
//! give nothing before that.

use super::{Admission, Amount, Cap, Caps, Inner, Obstacle, State, obstacle};
use crate::{
    Error,
    client::lease::{self, Lessor},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// After which time a call asks again that has no room while calls of other
/// processes are in flight.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(250);
/// How often a process that makes calls reports what it spent. Allowance that
/// was not used for so long is given back.
const BEAT: Duration = Duration::from_millis(500);
/// How often a process without calls reports that it is alive.
const ALIVE: Duration = Duration::from_secs(2);
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
const SILENCE: &str = "it did not answer a request";
/// A process that has not reported for so long may have spent all that it held.
const SILENT: Duration = Duration::from_secs(10);
/// For how long after a process had to wait the others are asked to give back
/// what they do not need.
const CONTENDED: Duration = Duration::from_secs(3);
/// A process is given so many times what it asks for, but no more than its
/// part of a fraction of what is left.
const AHEAD: u64 = 16;
const FRACTION: u64 = 8;

/// Reports what a process spends and holds, and may ask for more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllowanceRequest {
    /// Which budget.
    pub budget: String,
    /// Its caps.
    pub caps: Caps,
    /// The process that asks.
    pub process: u64,
    /// What its calls cost so far.
    pub spent: Amount,
    /// All that it holds: what it has spent, and what it may still spend.
    pub held: Amount,
    /// What it wants beside.
    pub wanted: Option<Amount>,
}

/// What a process may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// Beside what it held when it asked. Nothing, where it must wait for others.
    pub more: Amount,
    /// The cap that keeps what it wanted from ever being spent.
    pub exhausted: Option<Exhausted>,
    /// Others wait for what this process does not need.
    pub contended: bool,
    /// When the budget's time is over.
    pub ends_in: Option<Duration>,
}

/// A cap that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Exhausted {
    /// Which.
    pub cap: Cap,
    /// What was spent, in its unit.
    pub spent: f64,
    /// The cap.
    pub limit: f64,
}

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
    spent: Amount,
    held: Amount,
    heard: Instant,
}

impl Allowances {
    /// Divides a budget with these caps.
    pub fn new(caps: Caps, now: Instant) -> Self {
        Self { caps, started: now, holders: BTreeMap::new(), contended_until: None }
    }

    /// Hears a process and gives it more, if it wants that and there is some.
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
                    allowance.more = self.ahead(held, wanted);
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

    /// When it was asked last.
    pub fn asked(&self) -> Option<Instant> {
        self.holders.values().map(|holder| holder.heard).max()
    }

    /// What all have spent, and what they hold.
    fn totals(&self, now: Instant) -> (Amount, Amount) {
        let sum = |of: &dyn Fn(&Holder) -> Amount| self.holders.values().map(of).fold(Amount::default(), Amount::plus);
        let silent = |holder: &Holder| now.duration_since(holder.heard) > SILENT;
        (sum(&|holder| if silent(holder) { holder.held } else { holder.spent }), sum(&|holder| holder.held))
    }

    /// What is wanted, and some more where there is plenty.
    fn ahead(&self, held: Amount, wanted: Amount) -> Amount {
        let shares = FRACTION * self.holders.len().max(1) as u64;
        let more = |wanted: u64, held: u64, limit: Option<u64>| {
            let plenty = limit.map_or(u64::MAX, |limit| limit.saturating_sub(held) / shares);
            wanted.max(wanted.saturating_mul(AHEAD).min(plenty))
        };
        Amount {
            picodollars: more(wanted.picodollars, held.picodollars, self.caps.usd.map(super::picodollars)),
            tokens: more(wanted.tokens, held.tokens, self.caps.tokens),
            calls: more(wanted.calls, held.calls, self.caps.calls),
        }
    }
}

/// Where a process' allowance comes from.
pub(super) struct AllowanceSource {
    name: String,
    process: u64,
    lessor: Arc<dyn Lessor>,
    /// One request after the other, so that both sides know what is held.
    asking: tokio::sync::Mutex<()>,
}

/// What a process holds.
#[derive(Debug, Default)]
pub(super) struct Held {
    share: Amount,
    ends: Option<Instant>,
    contended: bool,
}

impl AllowanceSource {
    pub(super) fn new(name: String, lessor: Arc<dyn Lessor>) -> Self {
        Self { name, process: lease::process(), lessor, asking: tokio::sync::Mutex::default() }
    }

    /// Takes a call's share from what is held, or asks for more first.
    pub(super) async fn admit(&self, budget: &Inner, wanted: Amount) -> Admission {
        loop {
            if budget.state().take(&budget.caps, wanted) {
                return Admission::Granted;
            }
            let _turn = self.asking.lock().await;
            let request = {
                let mut state = budget.state();
                // The request before this one may have brought enough for two.
                if state.take(&budget.caps, wanted) {
                    return Admission::Granted;
                }
                let claimed = state.claimed();
                // What was spent beyond what was held cannot be undone.
                state.allowance.share = state.allowance.share.with(claimed, u64::max);
                let missing = claimed.plus(wanted).minus(state.allowance.share);
                self.request(budget, &state, Some(missing))
            };
            match timeout(PATIENCE, self.lessor.allow(request)).await.unwrap_or_else(|_| Err(SILENCE.to_owned())) {
                // The call holds a slot of the limiter, so it does not wait here.
                Err(reason) => {
                    return Admission::Refused(Error::BudgetUnreachable { after: Duration::ZERO, reason });
                }
                Ok(allowance) => {
                    let mut state = budget.state();
                    state.hold(&allowance);
                    if let Some(exhausted) = allowance.exhausted {
                        return Admission::Refused(state.exhausted(exhausted));
                    }
                    if allowance.more == Amount::default() {
                        return Admission::Full;
                    }
                }
            }
        }
    }

    fn request(&self, budget: &Inner, state: &State, wanted: Option<Amount>) -> AllowanceRequest {
        AllowanceRequest {
            budget: self.name.clone(),
            caps: budget.caps,
            process: self.process,
            spent: state.spent,
            held: state.allowance.share,
            wanted,
        }
    }
}

impl State {
    /// Whether the call fits into what is held; then it begins.
    fn take(&mut self, caps: &Caps, wanted: Amount) -> bool {
        if self.allowance.ends.is_some_and(|ends| Instant::now() >= ends) {
            return false;
        }
        let (claimed, held) = (self.claimed(), self.allowance.share);
        let fits = |capped: bool, claimed: u64, wanted: u64, held: u64| {
            !capped || wanted == 0 || claimed.saturating_add(wanted) <= held
        };
        // The first answer of the authority says when time is over.
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

/// Reports what is spent, gives back what is not needed, and says that the
/// process is alive.
pub(super) fn report_regularly(budget: Weak<Inner>) {
    tokio::spawn(async move {
        let mut before = Amount::default();
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
            // An authority that cannot be reached now gets the next report.
            if let Ok(Ok(allowance)) = timeout(PATIENCE, source.lessor.allow(request)).await {
                budget.state().hold(&allowance);
                reported = Instant::now();
            }
        }
    });
}

#[cfg(test)]
mod tests;
