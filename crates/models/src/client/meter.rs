//! Counts what calls cost; it can be read while calls are made.

use crate::locked;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ops::AddAssign,
    sync::{Arc, Mutex},
};

/// The cost of the calls to one model. Answers from the journal cost nothing
/// and add to `from_journal` only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// Calls that a model answered.
    pub calls: u64,
    /// Answers from the journal, or from an identical call in flight.
    pub from_journal: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Prompt tokens that belong to a prefix which was already computed.
    pub cached_tokens: u64,
    /// In US dollars, by the configured prices.
    pub cost_usd: f64,
    /// Attempts that the provider refused for lack of capacity; they were repeated.
    #[serde(default)]
    pub refused: u64,
    /// The time that models took, summed over calls that may have overlapped.
    pub seconds: f64,
}

impl AddAssign for Spending {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, u64::saturating_add, |sum, more| sum + more);
    }
}

impl Spending {
    /// Tokens read and written.
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Combines counts and sums, each with that of the same name.
    fn with(self, other: Self, count: fn(u64, u64) -> u64, sum: fn(f64, f64) -> f64) -> Self {
        Self {
            calls: count(self.calls, other.calls),
            from_journal: count(self.from_journal, other.from_journal),
            prompt_tokens: count(self.prompt_tokens, other.prompt_tokens),
            completion_tokens: count(self.completion_tokens, other.completion_tokens),
            cached_tokens: count(self.cached_tokens, other.cached_tokens),
            cost_usd: sum(self.cost_usd, other.cost_usd),
            refused: count(self.refused, other.refused),
            seconds: sum(self.seconds, other.seconds),
        }
    }
}

/// The spending of all models of a client. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    models: Arc<Mutex<BTreeMap<String, Spending>>>,
    reported: Arc<Mutex<BTreeMap<String, Spending>>>,
}

impl Meter {
    /// By the model's name.
    pub fn by_model(&self) -> BTreeMap<String, Spending> {
        locked(&self.models).clone()
    }

    /// The spending of one model.
    pub fn of(&self, model: &str) -> Spending {
        locked(&self.models).get(model).copied().unwrap_or_default()
    }

    /// The spending of all models together.
    pub fn total(&self) -> Spending {
        let mut total = Spending::default();
        locked(&self.models).values().for_each(|spending| total += *spending);
        total
    }

    /// The spending since the last report, for a meter in another process.
    pub fn report(&self) -> BTreeMap<String, Spending> {
        let mut reported = locked(&self.reported);
        let now = self.by_model();
        let earlier = std::mem::replace(&mut *reported, now.clone());
        let since = |(model, spent): (String, Spending)| {
            let earlier = earlier.get(&model).copied().unwrap_or_default();
            (model, spent.with(earlier, u64::saturating_sub, |now, before| now - before))
        };
        now.into_iter().map(since).collect()
    }

    /// Adds the spending of another process.
    pub fn merge(&self, spending: &BTreeMap<String, Spending>) {
        for (model, spent) in spending {
            self.add(model, |spending| *spending += *spent);
        }
    }

    pub(super) fn add(&self, model: &str, change: impl FnOnce(&mut Spending)) {
        let mut models = locked(&self.models);
        change(models.entry(model.to_owned()).or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_together_are_all_that_was_spent() {
        let (here, there) = (Meter::default(), Meter::default());
        for calls in [3, 0, 4] {
            here.add("gpt", |spending| {
                spending.calls += calls;
                spending.cost_usd += 0.25 * calls as f64;
            });
            there.merge(&here.report());
        }
        assert_eq!(there.by_model(), here.by_model());
        assert_eq!(there.total().calls, 7, "and what was spent here is still known here");
    }
}
