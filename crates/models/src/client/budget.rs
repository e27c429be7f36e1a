//! Caps on what calls may cost: money, tokens, calls and time.
//!
//! A call reserves the most that it should cost when it has its slot, right
//! before the request goes out, and settles what it did cost when it ends. So
//! what is reserved is what is in flight: neither what is in the journal nor
//! what waits for a slot takes room from others. A cap is exceeded only by
//! calls in flight that cost more than was reserved for them; together that
//! can never be more than what those calls cost.
//!
//! Near a cap, a call that would fit if those in flight turned out cheap waits
//! for them (and keeps its slot: whoever holds a reservation has one of its
//! own, so nobody waits in a circle). One that cannot fit any more fails at
//! once. A cheaper call may still pass.
//!
//! Attempts that failed cost nothing, since nobody tells what they cost, but
//! every attempt counts as a call. Time runs from the making of the budget;
//! calls in flight when it is over are not cut off.

use crate::{Error, Usage};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::Key;
use tokio::{sync::Notify, time::Instant};

/// What calls may cost; what is not given has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// US dollars, by the configured prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls, each retry counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Minutes since the start, by the clock on the wall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<f64>,
}

impl Caps {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Shows all caps, as `$0.50, 1,000 calls`.
impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |cap: Cap, limit: Option<u64>| limit.map(|limit| cap.amount(limit as f64));
        let parts = [
            self.usd.map(|limit| Cap::Usd.amount(limit)),
            whole(Cap::Tokens, self.tokens),
            whole(Cap::Calls, self.calls),
            self.minutes.map(|limit| Cap::Minutes.amount(limit)),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Which of the caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// Money.
    Usd,
    /// Tokens.
    Tokens,
    /// Calls.
    Calls,
    /// Time.
    Minutes,
}

impl Cap {
    /// An amount in this cap's unit, for people: `$0.50`, `1,000 tokens`.
    pub fn amount(self, amount: f64) -> String {
        match self {
            Self::Usd => {
                // What is below cents only where there is something.
                let text = format!("{amount:.4}");
                format!("${}", text.strip_suffix("00").unwrap_or(&text))
            }
            Self::Tokens => format!("{} tokens", grouped(amount as u64)),
            Self::Calls => format!("{} calls", grouped(amount as u64)),
            Self::Minutes => format!("{} minutes", (amount * 10.0).round() / 10.0),
        }
    }
}

/// A number with a comma after every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What calls cost so far; reservations are no part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// US dollars.
    pub usd: f64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Attempts that were begun.
    pub calls: u64,
    /// Of these, those that cost money.
    pub paid_calls: u64,
    /// Minutes since the start.
    pub minutes: f64,
}

/// A budget that calls share. Clones are the same budget.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    caps: Caps,
    started: Instant,
    state: Mutex<State>,
    /// Told whenever a reservation ends.
    settled: Notify,
}

/// Money in whole millionths of a millionth of a dollar, so that sums are exact.
#[derive(Default)]
struct State {
    spent: Amount,
    reserved: Amount,
    calls: u64,
    paid_calls: u64,
    reached: Option<Cap>,
    /// The calls that were not made, those of equal requests once.
    refused: HashSet<Key>,
    n_refused_without_key: u64,
}

/// What a call costs, or may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    picodollars: u64,
    tokens: u64,
}

impl Amount {
    fn new(usd: f64, tokens: u64) -> Self {
        Self { picodollars: picodollars(usd), tokens }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            picodollars: self.picodollars.saturating_add(other.picodollars),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            picodollars: self.picodollars.saturating_sub(other.picodollars),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }
}

fn picodollars(usd: f64) -> u64 {
    (usd * 1e12).round() as u64
}

fn dollars(picodollars: u64) -> f64 {
    picodollars as f64 / 1e12
}

/// The most that a call should cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) usd: f64,
    /// Read and written.
    pub(super) tokens: u64,
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
        let (state, settled) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { caps, started: Instant::now(), state, settled }))
    }

    /// What is limited.
    pub fn caps(&self) -> Caps {
        self.0.caps
    }

    /// What calls cost so far.
    pub fn spent(&self) -> Spent {
        let minutes = self.minutes();
        let state = self.state();
        let Amount { picodollars, tokens } = state.spent;
        Spent { usd: dollars(picodollars), tokens, calls: state.calls, paid_calls: state.paid_calls, minutes }
    }

    /// The cap that was the first to stop a call, if one did.
    pub fn reached(&self) -> Option<Cap> {
        self.state().reached
    }

    /// How many calls a cap stopped, equal ones counted once.
    pub fn n_refused(&self) -> u64 {
        let state = self.state();
        state.refused.len() as u64 + state.n_refused_without_key
    }

    /// Whether a reservation must say how much it is for.
    pub(super) fn needs_estimates(&self) -> bool {
        self.0.caps.usd.is_some() || self.0.caps.tokens.is_some()
    }

    /// Notes that a call was not made because of a cap.
    pub(super) fn refused(&self, key: Option<Key>) {
        let mut state = self.state();
        match key {
            Some(key) => _ = state.refused.insert(key),
            None => state.n_refused_without_key += 1,
        }
    }

    /// Counts a call and reserves what it may cost; waits where others that
    /// are in flight may yet leave room for it.
    pub(super) async fn reserve(&self, estimate: Estimate) -> Result<Reservation<'_>, Error> {
        let amount = Amount::new(estimate.usd, estimate.tokens);
        loop {
            // Listens before it looks, so that nothing ends in between unheard.
            let settled = self.0.settled.notified();
            match self.admit(amount) {
                Admission::Granted => return Ok(Reservation { budget: self, amount }),
                Admission::Refused(error) => return Err(error),
                Admission::Full => settled.await,
            }
        }
    }

    fn admit(&self, wanted: Amount) -> Admission {
        let mut state = self.state();
        match self.obstacle(&state, wanted) {
            None => {
                state.calls += 1;
                state.reserved = state.reserved.plus(wanted);
                Admission::Granted
            }
            Some(Obstacle::InFlight) => Admission::Full,
            Some(Obstacle::Cap { cap, spent, limit }) => {
                state.reached.get_or_insert(cap);
                Admission::Refused(Error::BudgetExhausted { cap, spent, limit })
            }
        }
    }

    /// What keeps a call from being made now. What cannot change comes before
    /// what can.
    fn obstacle(&self, state: &State, wanted: Amount) -> Option<Obstacle> {
        let Caps { usd, tokens, calls, minutes } = self.0.caps;
        let now = self.minutes();
        if let Some(limit) = minutes.filter(|limit| now >= *limit) {
            return Some(Obstacle::Cap { cap: Cap::Minutes, spent: now, limit });
        }
        if let Some(limit) = calls.filter(|limit| state.calls >= *limit) {
            return Some(Obstacle::Cap { cap: Cap::Calls, spent: state.calls as f64, limit: limit as f64 });
        }
        let (spent, reserved) = (state.spent, state.reserved);
        let money = (spent.picodollars, reserved.picodollars, wanted.picodollars, usd.map(picodollars));
        let words = (spent.tokens, reserved.tokens, wanted.tokens, tokens);
        // What costs nothing fits under any cap, also one that was exceeded.
        let limited = [(Cap::Usd, money), (Cap::Tokens, words)]
            .into_iter()
            .filter_map(|(cap, (spent, reserved, wanted, limit))| Some((cap, spent, reserved, wanted, limit?)))
            .filter(|(_, _, _, wanted, _)| *wanted > 0);
        let mut obstacle = None;
        for (cap, spent, reserved, wanted, limit) in limited {
            let least = spent.saturating_add(wanted);
            if least > limit {
                let unit: fn(u64) -> f64 = if cap == Cap::Usd { dollars } else { |number| number as f64 };
                return Some(Obstacle::Cap { cap, spent: unit(spent), limit: unit(limit) });
            }
            if least.saturating_add(reserved) > limit {
                obstacle = Some(Obstacle::InFlight);
            }
        }
        obstacle
    }

    fn minutes(&self) -> f64 {
        self.0.started.elapsed().as_secs_f64() / 60.0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Admission {
    Granted,
    /// Only what is in flight stands in the way.
    Full,
    Refused(Error),
}

enum Obstacle {
    InFlight,
    Cap { cap: Cap, spent: f64, limit: f64 },
}

/// Room for one call in flight. Dropped without being settled, it leaves no
/// trace but the count of calls.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    amount: Amount,
}

impl Reservation<'_> {
    /// The call ended and cost this much.
    pub(super) fn settle(mut self, usage: Usage, usd: f64) {
        let cost = Amount::new(usd, usage.prompt_tokens.saturating_add(usage.completion_tokens));
        // One lock for both, so that nobody sees the cost twice or not at all.
        let mut state = self.budget.state();
        state.spent = state.spent.plus(cost);
        state.paid_calls += u64::from(cost.picodollars > 0);
        state.reserved = state.reserved.minus(std::mem::take(&mut self.amount));
        // Locals go before arguments: the drop of the reservation finds the
        // lock free, gives back nothing, and tells those who wait.
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.reserved = state.reserved.minus(self.amount);
        drop(state);
        self.budget.0.settled.notify_waiters();
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
