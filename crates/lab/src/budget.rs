//! A run's budget: its caps, its use, and whether it can be kept.

use models::{Budget, Cap, Caps, ModelConfig, SpentTotals};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The caps and the use of a run's budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetResult {
    /// The caps.
    pub caps: Caps,
    /// What the run used. Answers that were paid before cost nothing.
    pub spent: SpentTotals,
    /// The cap that was the first to stop a call.
    pub reached: Option<Cap>,
    /// Calls that were not made because of a cap. Further calls that would have
    /// followed from their answers are not counted.
    pub calls_not_made: u64,
}

impl BudgetResult {
    /// The budget's present state; none for a budget without caps.
    pub(crate) fn of(budget: &Budget) -> Option<Self> {
        let (caps, spent, reached) = (budget.caps(), budget.spent(), budget.reached());
        (!caps.is_empty()).then(|| Self { caps, spent, reached, calls_not_made: budget.n_refused() })
    }

    /// The message if the budget ended the run early.
    pub(crate) fn partial(&self) -> Option<String> {
        let (cap, SpentTotals { usd, calls, paid_calls, .. }) = (self.reached?, self.spent);
        let limit = cap.amount(self.limit(cap)?);
        // A cap on money stops only calls that cost money: models of this process continue.
        let (made, paid) = if cap == Cap::Usd { (paid_calls, "paid ") } else { (calls, "") };
        let number = |calls: u64| Cap::Calls.amount(calls as f64).trim_end_matches(" calls").to_owned();
        let (made, needed) = (number(made), number(made + self.calls_not_made));
        let cost = if usd > 0.0 { format!(", for {}", Cap::Usd.amount(usd)) } else { String::new() };
        Some(format!(
            "the budget of {limit} was reached: {made} of at least {needed} {paid}calls were made{cost}; everything \
             finished is kept, and the next run goes on from there, with a budget of its own"
        ))
    }

    fn limit(&self, cap: Cap) -> Option<f64> {
        match cap {
            Cap::Usd => self.caps.usd,
            Cap::Tokens => self.caps.tokens.map(|limit| limit as f64),
            Cap::Calls => self.caps.calls.map(|limit| limit as f64),
            Cap::Minutes => self.caps.minutes,
        }
    }
}

/// Why a cap on money cannot be kept: models in use without a price. A price of
/// zero is allowed, but must be written.
pub(crate) fn unpriced(caps: &Caps, models: &BTreeMap<String, ModelConfig>, used: &BTreeSet<String>) -> Vec<String> {
    let Some(usd) = caps.usd else { return Vec::new() };
    used.iter()
        .filter_map(|name| Some((name, models.get(name)?)))
        .filter(|(_, config)| config.prices().is_none())
        .map(|(name, config)| {
            let (table, setting) = config.price_setting();
            format!(
                "models.{name}: the budget of {} cannot be kept without the price of this model: add `{setting}` to \
                 its `{table}`, in dollars per million tokens, 0 where it is free",
                Cap::Usd.amount(usd)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_ended_the_run_is_told_in_a_sentence() {
        let caps = Caps { usd: Some(0.5), ..Caps::default() };
        let spent = SpentTotals { usd: 0.4987, tokens: 9, calls: 900, paid_calls: 812, minutes: 1.0 };
        let result = BudgetResult { caps, spent, reached: Some(Cap::Usd), calls_not_made: 1188 };
        assert_eq!(
            result.partial().as_deref(),
            Some(
                "the budget of $0.50 was reached: 812 of at least 2,000 paid calls were made, for $0.4987; \
                 everything finished is kept, and the next run goes on from there, with a budget of its own"
            )
        );
        assert_eq!(BudgetResult { reached: None, ..result }.partial(), None);
    }

    #[test]
    fn a_model_without_a_price_is_named_where_money_is_capped() {
        let text = "[far]\nchat.openai = { price = { input = 1 } }\n[free]\nchat.openai = { price = { input = 0, output = 0 } }\n[here]\nchat.local = {}\n[idle]\nrerank.openai = {}\n";
        let models: BTreeMap<String, ModelConfig> = toml::from_str(text).unwrap();
        let used: BTreeSet<String> = ["far", "free", "here"].map(str::to_owned).into();
        let usd = Caps { usd: Some(0.5), ..Caps::default() };
        let mistakes = unpriced(&usd, &models, &used);
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        for part in ["models.far", "$0.50", "`price = { input = …, output = … }`", "`chat.openai`"] {
            assert!(mistakes[0].contains(part), "{mistakes:?}");
        }
        assert!(unpriced(&Caps { calls: Some(1), ..Caps::default() }, &models, &used).is_empty());
    }
}
