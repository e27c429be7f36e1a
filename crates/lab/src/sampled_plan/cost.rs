//! The estimated cost with its interval, compared with the budget.

use super::estimate::Estimate;
use crate::plan::{CostEstimate, ModelEstimate, estimate::cap_of_run};
use models::{Cap, Caps, TotalSpending};
use serde::Serialize;

/// The estimated cost of a run that finds nothing in the store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledCost {
    /// By model, in alphabetical order.
    pub models: Vec<SampledModelCost>,
    /// Calls of all models.
    pub calls: Estimate<u64>,
    /// Tokens read and written, of all models.
    pub tokens: Estimate<u64>,
    /// Dollars of all models, if every price is known.
    pub cost_usd: Option<Estimate<f64>>,
    /// The run's caps.
    pub budget: Caps,
    /// The caps that the run will reach before it ends, because the low end of the interval exceeds them.
    pub exceeds: Vec<Cap>,
    /// The caps that the run may reach before it ends, because only the high end exceeds them.
    pub may_exceed: Vec<Cap>,
    /// The caps over all starts and what was spent of them; none without such caps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<TotalSpending>,
    /// The caps over all starts that the run will reach before it ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exceeds_total: Vec<Cap>,
    /// The caps over all starts that the run may reach before it ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub may_exceed_total: Vec<Cap>,
}

/// The estimated cost of one model's calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledModelCost {
    /// The model's name in the experiment.
    pub model: String,
    /// Calls.
    pub calls: Estimate<u64>,
    /// Tokens read; 0 for a system, whose tokens are not known before it replies.
    pub prompt_tokens: Estimate<u64>,
    /// Tokens written, at most; 0 for a system.
    pub completion_tokens: Estimate<u64>,
    /// Whether it is a system, whose tokens are not known before it replies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_system: bool,
    /// Dollars, if the price is known; 0 for a model of this process.
    pub cost_usd: Option<Estimate<f64>>,
    /// Whether the model runs in this process: its calls cost time only.
    pub here: bool,
}

/// Gives the interval of a value, from its estimate, its estimates in resamples, and the most that the low end is.
pub(super) type FindInterval<'a> = dyn Fn(f64, &[f64], Option<f64>) -> Estimate<f64> + 'a;

/// An estimate of a cost, and its estimates in resamples.
pub(super) struct ResampledCost<'a> {
    pub(super) estimate: &'a CostEstimate,
    pub(super) resampled: &'a [&'a CostEstimate],
    /// The cost that the low ends do not exceed, if the resamples do not show everything.
    pub(super) least: Option<&'a CostEstimate>,
    pub(super) interval: &'a FindInterval<'a>,
}

impl ResampledCost<'_> {
    /// The cost with its intervals, compared with the caps.
    pub(super) fn with_intervals(&self, total: Option<TotalSpending>) -> SampledCost {
        let budget = self.estimate.budget;
        let total = total.filter(|total| !total.caps.is_empty());
        let (exceeds, may_exceed) = self.exceeded(CostEstimate::amounts, |cap| cap_of_run(&budget, cap));
        let left = |cap| total.as_ref().and_then(|total| total.left(cap));
        let (exceeds_total, may_exceed_total) = self.exceeded(CostEstimate::amounts_of_all_starts, left);
        SampledCost {
            models: self.estimate.models.iter().map(|model| self.model(model)).collect(),
            calls: self.of(|cost| Some(cost.calls as f64)).unwrap_or_default().whole(),
            tokens: self.of(|cost| Some(cost.tokens as f64)).unwrap_or_default().whole(),
            cost_usd: self.of(|cost| cost.cost_usd),
            budget,
            exceeds,
            may_exceed,
            total,
            exceeds_total,
            may_exceed_total,
        }
    }

    /// An amount with its interval; none if it is not known.
    fn of(&self, amount: impl Fn(&CostEstimate) -> Option<f64>) -> Option<Estimate<f64>> {
        let resampled: Vec<f64> = self.resampled.iter().filter_map(|cost| amount(cost)).collect();
        Some((self.interval)(amount(self.estimate)?, &resampled, self.least.and_then(&amount)))
    }

    fn model(&self, model: &ModelEstimate) -> SampledModelCost {
        let of = |amount: &dyn Fn(&ModelEstimate) -> Option<f64>| {
            self.of(|cost| {
                let found = cost.models.iter().find(|other| other.model == model.model);
                // A model that is not asked in a resample costs nothing there.
                found.map_or(Some(0.0), amount)
            })
        };
        let whole = |amount: &dyn Fn(&ModelEstimate) -> u64| {
            of(&|model| Some(amount(model) as f64)).unwrap_or_default().whole()
        };
        SampledModelCost {
            model: model.model.clone(),
            calls: whole(&|model| model.calls),
            prompt_tokens: whole(&|model| model.prompt_tokens),
            completion_tokens: whole(&|model| model.completion_tokens),
            is_system: model.is_system,
            cost_usd: of(&|model| model.cost_usd),
            here: model.here,
        }
    }

    /// The caps that are exceeded even by the low ends of the amounts, and those that are exceeded only by the high
    /// ends.
    fn exceeded(
        &self,
        amounts: impl Fn(&CostEstimate) -> Vec<(Cap, f64)>,
        limit: impl Fn(Cap) -> Option<f64>,
    ) -> (Vec<Cap>, Vec<Cap>) {
        let (mut exceeds, mut may_exceed) = (Vec::new(), Vec::new());
        let of = |cap: Cap, cost: &CostEstimate| {
            amounts(cost).into_iter().find(|(other, _)| *other == cap).map(|(_, amount)| amount)
        };
        for (cap, _) in amounts(self.estimate) {
            let Some((limit, amount)) = limit(cap).zip(self.of(|cost| of(cap, cost))) else { continue };
            if amount.low > limit {
                exceeds.push(cap);
            } else if amount.high > limit {
                may_exceed.push(cap);
            }
        }
        (exceeds, may_exceed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use models::{TotalCaps, TotalSpent};

    /// So many calls of a model behind an endpoint, of 10 tokens and a cent each, and 5 of a model of this process.
    fn cost(calls: u64, budget: Caps) -> CostEstimate {
        let model = |name: &str, calls: u64, here: bool| ModelEstimate {
            model: name.to_owned(),
            calls,
            prompt_tokens: calls * 10,
            completion_tokens: 0,
            is_system: false,
            cost_usd: Some(if here { 0.0 } else { calls as f64 / 100.0 }),
            here,
        };
        CostEstimate {
            models: vec![model("gpt", calls, false), model("small", 5, true)],
            calls: calls + 5,
            tokens: (calls + 5) * 10,
            cost_usd: Some(calls as f64 / 100.0),
            budget,
            exceeds: Vec::new(),
            total: None,
            exceeds_total: Vec::new(),
        }
    }

    /// A cost of 100 calls, whose interval ends at the fewest and the most calls of the resamples.
    fn with_intervals(budget: Caps, total: Option<TotalSpending>, least: Option<u64>) -> SampledCost {
        let (estimate, few, many) = (cost(100, budget), cost(90, budget), cost(120, budget));
        let least = least.map(|calls| cost(calls, budget));
        let interval = |estimate: f64, resampled: &[f64], least: Option<f64>| {
            let low = resampled.iter().copied().chain(least).fold(estimate, f64::min);
            Estimate { estimate, low, high: resampled.iter().copied().fold(estimate, f64::max) }
        };
        let resampled = [&few, &many];
        let least = least.as_ref();
        ResampledCost { estimate: &estimate, resampled: &resampled, least, interval: &interval }.with_intervals(total)
    }

    #[test]
    fn every_amount_has_an_interval_and_what_does_not_change_is_exact() {
        let found = with_intervals(Caps::default(), None, None);
        assert_eq!(found.calls, Estimate { estimate: 105, low: 95, high: 125 });
        assert_eq!(found.tokens, Estimate { estimate: 1_050, low: 950, high: 1_250 });
        assert_eq!(found.cost_usd, Some(Estimate { estimate: 1.0, low: 0.9, high: 1.2 }));
        let [gpt, small] = &found.models[..] else { panic!("{found:?}") };
        assert_eq!((gpt.calls.low, gpt.prompt_tokens.high), (90, 1_200));
        assert!(small.calls.is_exact() && small.cost_usd.is_some_and(|usd| usd.is_exact()));
        let found = with_intervals(Caps::default(), None, Some(40));
        assert_eq!((found.calls.low, found.models[1].calls.low), (45, 5));
    }

    #[test]
    fn a_cap_is_exceeded_by_the_low_end_and_may_be_exceeded_by_the_high_end() {
        let exceeded = |calls: u64| {
            let found = with_intervals(Caps { calls: Some(calls), ..Caps::default() }, None, None);
            (found.exceeds, found.may_exceed)
        };
        assert_eq!(exceeded(94), (vec![Cap::Calls], vec![]));
        assert_eq!(exceeded(95), (vec![], vec![Cap::Calls]));
        assert_eq!(exceeded(125), (vec![], vec![]));
    }

    #[test]
    fn models_of_this_process_do_not_count_for_the_caps_over_all_starts() {
        let exceeded = |calls: u64| {
            let caps = TotalCaps { calls: Some(calls), ..TotalCaps::default() };
            let earlier = TotalSpent { calls: 10, ..TotalSpent::default() };
            let total = TotalSpending { caps, earlier, ..TotalSpending::default() };
            let found = with_intervals(Caps::default(), Some(total), None);
            (found.exceeds_total, found.may_exceed_total)
        };
        assert_eq!(exceeded(99), (vec![Cap::Calls], vec![]));
        assert_eq!(exceeded(100), (vec![], vec![Cap::Calls]));
        assert_eq!(exceeded(130), (vec![], vec![]));
        assert_eq!(with_intervals(Caps::default(), Some(TotalSpending::default()), None).total, None);
    }
}
