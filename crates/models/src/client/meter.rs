//! What calls cost, readable while they are made.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ops::AddAssign,
    sync::{Arc, Mutex, PoisonError},
};

/// What the calls to one model cost. Answers that were taken from the journal
/// cost nothing and add to `from_journal` only.
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
    /// Of the tokens read, those of a prefix that was already computed.
    pub cached_tokens: u64,
    /// In US dollars, by the configured prices.
    pub cost_usd: f64,
    /// Attempts that the provider refused for want of room; they were made again.
    #[serde(default)]
    pub refused: u64,
    /// The time that models took, summed over calls that may have overlapped.
    pub seconds: f64,
}

impl AddAssign for Spending {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.from_journal += other.from_journal;
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cost_usd += other.cost_usd;
        self.refused += other.refused;
        self.seconds += other.seconds;
    }
}

/// The spending of all models of a client. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    models: Arc<Mutex<BTreeMap<String, Spending>>>,
}

impl Meter {
    /// By the model's name.
    pub fn by_model(&self) -> BTreeMap<String, Spending> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Of one model.
    pub fn of(&self, model: &str) -> Spending {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).get(model).copied().unwrap_or_default()
    }

    /// Of all models together.
    pub fn total(&self) -> Spending {
        let mut total = Spending::default();
        for spending in self.by_model().into_values() {
            total += spending;
        }
        total
    }

    /// All there is, and starts from zero again.
    pub fn take(&self) -> BTreeMap<String, Spending> {
        std::mem::take(&mut *self.models.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds what was spent elsewhere.
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
