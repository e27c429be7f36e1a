//! Counts what calls cost; it can be read while calls are made.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ops::AddAssign,
    sync::{Arc, Mutex, PoisonError},
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
    /// Tokens among these that belong to a prefix which was already computed.
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
        let add = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        add(&mut self.calls, other.calls);
        add(&mut self.from_journal, other.from_journal);
        add(&mut self.prompt_tokens, other.prompt_tokens);
        add(&mut self.completion_tokens, other.completion_tokens);
        add(&mut self.cached_tokens, other.cached_tokens);
        add(&mut self.refused, other.refused);
        self.cost_usd += other.cost_usd;
        self.seconds += other.seconds;
    }
}

impl Spending {
    /// Tokens read and written.
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// The spending since an earlier state.
    fn since(self, earlier: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            from_journal: self.from_journal.saturating_sub(earlier.from_journal),
            prompt_tokens: self.prompt_tokens.saturating_sub(earlier.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_sub(earlier.completion_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            cost_usd: self.cost_usd - earlier.cost_usd,
            refused: self.refused.saturating_sub(earlier.refused),
            seconds: self.seconds - earlier.seconds,
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
        self.models.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The spending of one model.
    pub fn of(&self, model: &str) -> Spending {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).get(model).copied().unwrap_or_default()
    }

    /// The spending of all models together.
    pub fn total(&self) -> Spending {
        let mut total = Spending::default();
        for spending in self.by_model().into_values() {
            total += spending;
        }
        total
    }

    /// The spending since the last report, for a meter in another process.
    pub fn report(&self) -> BTreeMap<String, Spending> {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.by_model();
        let earlier = std::mem::replace(&mut *reported, now.clone());
        let since = |(model, spent): (String, Spending)| {
            let earlier = earlier.get(&model).copied().unwrap_or_default();
            (model, spent.since(earlier))
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
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
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
