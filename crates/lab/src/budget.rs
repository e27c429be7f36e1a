//! The budget of a run and of all starts: the caps, their use, and whether they can be kept.

use crate::spec::SystemSpec;
use models::{Budget, Cap, Caps, ModelConfig, SpentTotals, TotalSpending};
use rag::system::SystemPrice;
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
    /// The caps over all starts of the experiment and what was spent of them; none without such caps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<TotalSpending>,
}

impl BudgetResult {
    /// The budget's present state; none for a budget without caps.
    pub(crate) fn of(budget: &Budget) -> Option<Self> {
        let (caps, spent, reached) = (budget.caps(), budget.spent(), budget.reached());
        let total = budget.total().filter(|total| !total.caps.is_empty());
        let is_capped = !caps.is_empty() || total.is_some();
        is_capped.then(|| Self { caps, spent, reached, calls_not_made: budget.n_refused(), total })
    }

    /// The message if the budget ended the run early.
    pub(crate) fn partial(&self) -> Option<String> {
        if let Some((total, cap)) = self.total.as_ref().and_then(|total| Some((total, total.reached?))) {
            return Some(self.partial_by_total(total, cap));
        }
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

    fn partial_by_total(&self, total: &TotalSpending, cap: Cap) -> String {
        let [limit, earlier, here] =
            [total.caps.limit(cap).unwrap_or_default(), total.earlier.of(cap), total.here.of(cap)]
                .map(|amount| cap.amount(amount));
        let not_made = Cap::Calls.amount(self.calls_not_made as f64);
        format!(
            "the total budget of {limit} for all starts was reached: other starts spent {earlier}, this one {here}, and \
             at least {not_made} were not made; everything finished is kept; raise `total` of the budget to go on"
        )
    }

    /// Whether a cap of the run or of all starts stopped a call.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached.is_some() || self.total.is_some_and(|total| total.reached.is_some())
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

/// The caps of a run, with the cap on dollars that holds: that of the run, else that of all starts.
pub(crate) fn dollar_caps(budget: &Budget) -> Caps {
    let (caps, total) = (budget.caps(), budget.total());
    Caps { usd: caps.usd.or(total.and_then(|total| total.caps.usd)), ..caps }
}

/// The warning that nothing is left of a cap over all starts.
pub(crate) fn used_up(total: &TotalSpending, cap: Cap) -> String {
    format!(
        "the total budget of {} for all starts of this experiment is used up ({} spent): no paid call is made; what needs \
         none is done; raise `total` of the budget to go on",
        cap.amount(total.caps.limit(cap).unwrap_or_default()),
        cap.amount(total.spent(cap))
    )
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

/// Why a cap on money cannot be kept: systems that are asked and have no price.
pub(crate) fn unpriced_systems(caps: &Caps, systems: &BTreeMap<String, SystemSpec>) -> Vec<String> {
    let Some(usd) = caps.usd else { return Vec::new() };
    let is_stated = |price: SystemPrice| price != SystemPrice::default();
    let unpriced = systems.iter().filter(|(_, spec)| spec.asked().is_some() && !spec.price.is_some_and(is_stated));
    let mistake = |(name, _): (&String, &SystemSpec)| {
        format!(
            "systems.{name}: the budget of {} cannot be kept without the price of this system: add \
             `price = {{ call = … }}`, in dollars for each call, 0 where it is free, or limit `calls` instead",
            Cap::Usd.amount(usd)
        )
    };
    unpriced.map(mistake).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use models::{TotalCaps, TotalSpent};

    #[test]
    fn a_budget_that_ended_the_run_is_told_in_a_sentence() {
        let caps = Caps { usd: Some(0.5), ..Caps::default() };
        let spent = SpentTotals { usd: 0.4987, tokens: 9, calls: 900, paid_calls: 812, minutes: 1.0 };
        let result = BudgetResult { caps, spent, reached: Some(Cap::Usd), calls_not_made: 1188, total: None };
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

    fn result(caps: Caps, spent: SpentTotals, reached: Cap, calls_not_made: u64) -> BudgetResult {
        BudgetResult { caps, spent, reached: Some(reached), calls_not_made, total: None }
    }

    #[test]
    fn a_total_that_ended_the_run_is_told_with_what_was_spent_before_and_now() {
        let total = TotalSpending {
            caps: TotalCaps { usd: Some(20.0), ..TotalCaps::default() },
            earlier: TotalSpent { usd: 19.25, tokens: 9, calls: 8 },
            here: TotalSpent { usd: 0.75, tokens: 3, calls: 2 },
            reached: Some(Cap::Usd),
        };
        let spent = SpentTotals { usd: 0.75, tokens: 3, calls: 2, paid_calls: 2, minutes: 1.0 };
        let caps = Caps { usd: Some(5.0), ..Caps::default() };
        let result = BudgetResult { caps, spent, reached: None, calls_not_made: 1_200, total: Some(total) };
        assert_eq!(
            result.partial().as_deref(),
            Some(
                "the total budget of $20.00 for all starts was reached: other starts spent $19.25, this one $0.75, and \
                 at least 1,200 calls were not made; everything finished is kept; raise `total` of the budget to go on"
            )
        );
        assert_eq!(
            used_up(&total, Cap::Usd),
            "the total budget of $20.00 for all starts of this experiment is used up ($20.00 spent): no paid call is \
             made; what needs none is done; raise `total` of the budget to go on"
        );
    }

    #[test]
    fn each_cap_is_named_in_its_unit_with_the_calls_that_it_stops() {
        let caps = Caps { usd: Some(2.0), tokens: Some(1_500_000), calls: Some(1_000), minutes: Some(2.5) };
        let spent = SpentTotals { usd: 0.0, tokens: 9, calls: 1_000, paid_calls: 0, minutes: 1.0 };
        // The cap, calls that were not made, and the beginning of the sentence.
        for (cap, not_made, expected) in [
            (Cap::Usd, 3, "the budget of $2.00 was reached: 0 of at least 3 paid calls were made; everything"),
            (
                Cap::Tokens,
                1,
                "the budget of 1,500,000 tokens was reached: 1,000 of at least 1,001 calls were made; everything",
            ),
            (
                Cap::Calls,
                4_000,
                "the budget of 1,000 calls was reached: 1,000 of at least 5,000 calls were made; everything",
            ),
            (
                Cap::Minutes,
                0,
                "the budget of 2.5 minutes was reached: 1,000 of at least 1,000 calls were made; everything",
            ),
        ] {
            let text = result(caps, spent, cap, not_made).partial().unwrap();
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn only_a_cap_on_money_counts_paid_calls_alone() {
        let caps = Caps { usd: Some(1.0), calls: Some(10), ..Caps::default() };
        let spent = SpentTotals { usd: 1.0, tokens: 0, calls: 10, paid_calls: 4, minutes: 0.0 };
        let text = |cap| result(caps, spent, cap, 1).partial().unwrap();
        assert!(text(Cap::Usd).contains(": 4 of at least 5 paid calls were made, for $1.00;"), "{}", text(Cap::Usd));
        assert!(text(Cap::Calls).contains(": 10 of at least 11 calls were made, for $1.00;"), "{}", text(Cap::Calls));
    }

    #[test]
    fn a_cap_that_is_not_there_stopped_nothing() {
        let spent = SpentTotals::default();
        for cap in [Cap::Usd, Cap::Tokens, Cap::Calls, Cap::Minutes] {
            assert_eq!(result(Caps::default(), spent, cap, 1).partial(), None, "{cap:?}");
        }
    }

    #[test]
    fn a_budget_without_caps_has_no_result_and_a_fresh_one_has_used_nothing() {
        assert_eq!(BudgetResult::of(&Budget::default()), None);
        let caps = Caps { calls: Some(3), ..Caps::default() };
        let found = BudgetResult::of(&Budget::new(caps)).unwrap();
        assert_eq!((found.caps, found.reached, found.calls_not_made), (caps, None, 0));
        let SpentTotals { usd, tokens, calls, paid_calls, .. } = found.spent;
        assert_eq!((usd, tokens, calls, paid_calls), (0.0, 0, 0, 0));
        assert_eq!(found.partial(), None);
    }

    #[test]
    fn the_kind_of_a_model_without_a_price_decides_the_setting_that_is_missing() {
        let text = "[chat]\nchat.openai = {}\n[vectors]\nembedding.openai = {}\n[ranker]\nrerank.openai = {}\n";
        let models: BTreeMap<String, ModelConfig> = toml::from_str(text).unwrap();
        let used = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let usd = Caps { usd: Some(0.0), ..Caps::default() };
        let mistakes = unpriced(&usd, &models, &used(&["vectors", "ranker", "chat", "not there"]));
        let expected = |name: &str, table: &str, setting: &str| {
            format!(
                "models.{name}: the budget of $0.00 cannot be kept without the price of this model: add `{setting}` to its \
                 `{table}`, in dollars per million tokens, 0 where it is free"
            )
        };
        assert_eq!(
            mistakes,
            [
                expected("chat", "chat.openai", "price = { input = …, output = … }"),
                expected("ranker", "rerank.openai", "price = …"),
                expected("vectors", "embedding.openai", "price = …"),
            ],
            "in the order of their names"
        );
        assert!(unpriced(&usd, &models, &used(&[])).is_empty(), "what is not used costs nothing");
    }
}
