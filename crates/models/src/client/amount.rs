//! Amounts of money, tokens and calls: caps on them, and the parts of a budget
//! that processes ask for and get.

use crate::Cap;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};
use store::CallCosts;

/// Caps on the cost of calls; a cap that is not given does not limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// US dollars, by the configured prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls, including retries, but without attempts that were refused because
    /// of a rate limit: these are not paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Minutes since the start, by the clock on the wall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<f64>,
}

impl Caps {
    /// Whether there are no caps.
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

/// Caps on what an experiment may cost over all starts; a cap that is not given does not limit. Calls of models of this
/// process do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TotalCaps {
    /// US dollars, by the configured prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens that remote models read and wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls of remote models, counted as in the budget of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
}

impl TotalCaps {
    /// Whether there are no caps.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The cap of a kind, in its unit.
    pub fn limit(&self, cap: Cap) -> Option<f64> {
        match cap {
            Cap::Usd => self.usd,
            Cap::Tokens => self.tokens.map(|limit| limit as f64),
            Cap::Calls => self.calls.map(|limit| limit as f64),
            Cap::Minutes => None,
        }
    }
}

impl From<TotalCaps> for Caps {
    fn from(TotalCaps { usd, tokens, calls }: TotalCaps) -> Self {
        Self { usd, tokens, calls, minutes: None }
    }
}

/// Shows all caps, as `$0.50, 1,000 calls`.
impl fmt::Display for TotalCaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Caps::from(*self).fmt(f)
    }
}

/// What calls of remote models cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalSpent {
    /// US dollars.
    pub usd: f64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Calls.
    pub calls: u64,
}

impl TotalSpent {
    /// The amount of a cap's kind, in its unit.
    pub fn of(&self, cap: Cap) -> f64 {
        match cap {
            Cap::Usd => self.usd,
            Cap::Tokens => self.tokens as f64,
            Cap::Calls => self.calls as f64,
            Cap::Minutes => 0.0,
        }
    }
}

impl From<BudgetAmount> for TotalSpent {
    fn from(BudgetAmount { picodollars, tokens, calls }: BudgetAmount) -> Self {
        Self { usd: dollars(picodollars), tokens, calls }
    }
}

/// What an experiment spends over all starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalSpending {
    /// The caps.
    pub caps: TotalCaps,
    /// What earlier starts have spent, and other processes meanwhile. A process that was killed counts with everything
    /// that its calls in flight may have cost.
    pub earlier: TotalSpent,
    /// What this start has spent.
    pub here: TotalSpent,
    /// The cap that was the first to stop a call of this start.
    pub reached: Option<Cap>,
}

impl TotalSpending {
    /// What was spent of a cap's kind, in its unit.
    pub fn spent(&self, cap: Cap) -> f64 {
        self.earlier.of(cap) + self.here.of(cap)
    }

    /// What is left of a cap; none if it does not limit.
    pub fn left(&self, cap: Cap) -> Option<f64> {
        Some((self.caps.limit(cap)? - self.spent(cap)).max(0.0))
    }

    /// The caps of which nothing is left.
    pub fn used_up(&self) -> Vec<Cap> {
        [Cap::Usd, Cap::Tokens, Cap::Calls].into_iter().filter(|cap| self.left(*cap) == Some(0.0)).collect()
    }
}

/// The cost of calls so far, without reservations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SpentTotals {
    /// US dollars.
    pub usd: f64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Attempts that were begun.
    pub calls: u64,
    /// Calls among these that cost money.
    pub paid_calls: u64,
    /// Minutes since the start.
    pub minutes: f64,
}

/// Money, tokens and calls: a part of a budget, or the cost of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAmount {
    /// Money in whole millionths of a millionth of a dollar, so that sums are exact.
    pub picodollars: u64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Calls, each retry counted.
    pub calls: u64,
}

impl BudgetAmount {
    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    pub(super) fn with(self, other: Self, by: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            picodollars: by(self.picodollars, other.picodollars),
            tokens: by(self.tokens, other.tokens),
            calls: by(self.calls, other.calls),
        }
    }

    /// The cost of a call, without the count of calls.
    pub(super) fn cost(usd: f64, tokens: u64) -> Self {
        Self { picodollars: picodollars(usd), tokens, calls: 0 }
    }
}

impl From<CallCosts> for BudgetAmount {
    fn from(CallCosts { picodollars, tokens, calls }: CallCosts) -> Self {
        Self { picodollars, tokens, calls }
    }
}

impl From<BudgetAmount> for CallCosts {
    fn from(BudgetAmount { picodollars, tokens, calls }: BudgetAmount) -> Self {
        Self { picodollars, tokens, calls }
    }
}

pub(super) const ONE_CALL: BudgetAmount = BudgetAmount { picodollars: 0, tokens: 0, calls: 1 };

pub(super) fn picodollars(usd: f64) -> u64 {
    (usd * 1e12).round() as u64
}

pub(super) fn dollars(picodollars: u64) -> f64 {
    picodollars as f64 / 1e12
}

/// Reports what a process spends and holds, and may ask for more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllowanceRequest {
    /// The budget's name.
    pub budget: String,
    /// Its caps.
    pub caps: Caps,
    /// The process that asks.
    pub process: u64,
    /// The cost of its calls so far.
    pub spent: BudgetAmount,
    /// Its whole allowance: the part that it has spent, and the part that it may still spend.
    pub held: BudgetAmount,
    /// How much more it wants.
    pub wanted: Option<BudgetAmount>,
}

/// The authority's answer: how much more a process may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// The amount in addition to what it held when it asked; nothing if it must wait for others.
    pub more: BudgetAmount,
    /// The cap that is reached, if the process can never spend what it asked for.
    pub exhausted: Option<ReachedCap>,
    /// Whether others wait for what this process does not need.
    pub contended: bool,
    /// When the budget's time is over.
    pub ends_in: Option<Duration>,
}

/// A cap that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReachedCap {
    /// The cap's kind.
    pub cap: Cap,
    /// The amount spent, in the cap's unit.
    pub spent: f64,
    /// The cap.
    pub limit: f64,
}
