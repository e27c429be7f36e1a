//! Estimates what the calls of a plan should cost, before any of them is made.
//!
//! Passages are taken to be as many and as large as the settings allow, and
//! answers as long as `max_tokens`; answers that are in the journal already are
//! not subtracted. So a run mostly costs less. How many statements a judge
//! finds is known only later. Each metric tells how often it asks its judges. If
//! there are several judges, each is asked, but only the first writes statements.

use super::{Plan, graph::TaskId, model_load::ModelLoad, work::Sizes};
use crate::spec::Experiment;
use eval::Question;
use models::{Cap, Caps, ModelConfig};
use serde::Serialize;
use std::collections::BTreeMap;

/// The estimated cost of the tasks that are left to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostEstimate {
    /// By model, in alphabetical order.
    pub models: Vec<ModelEstimate>,
    /// Calls of all models.
    pub calls: u64,
    /// Tokens read and written, of all models.
    pub tokens: u64,
    /// Dollars of all models, if every price is known.
    pub cost_usd: Option<f64>,
    /// The run's caps.
    pub budget: Caps,
    /// The caps that the run will probably reach before it ends.
    pub exceeds: Vec<Cap>,
}

/// The estimated cost of one model's calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelEstimate {
    /// The model's name in the experiment.
    pub model: String,
    /// Calls.
    pub calls: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written, at most.
    pub completion_tokens: u64,
    /// Dollars, if the price is known; 0 for a model of this process.
    pub cost_usd: Option<f64>,
    /// Whether the model runs in this process: its calls cost time only.
    pub here: bool,
}

impl CostEstimate {
    /// The cost of some tasks of a plan. `text_bytes` is the size of all documents.
    pub(crate) fn of(
        experiment: &Experiment,
        budget: Caps,
        plan: &Plan,
        questions: &[Question],
        text_bytes: usize,
        to_run: &[TaskId],
    ) -> Self {
        let sizes = Sizes::new(experiment, questions, &plan.tasks, text_bytes);
        let tasks = to_run.iter().map(|&id| &plan.tasks[id]);
        Self::sum(&experiment.models, budget, tasks.flat_map(|task| task.work.describe().estimate_calls(&sizes)))
    }

    /// The cost of all loads together.
    pub(crate) fn sum<'a>(
        configs: &BTreeMap<String, ModelConfig>,
        budget: Caps,
        asked: impl Iterator<Item = (&'a str, ModelLoad)>,
    ) -> Self {
        let mut loads: BTreeMap<&str, ModelLoad> = BTreeMap::new();
        for (model, load) in asked {
            loads.entry(model).or_default().add(load);
        }
        let models: Vec<ModelEstimate> = loads
            .into_iter()
            .filter(|(_, load)| load.calls > 0)
            .map(|(model, ModelLoad { calls, read, written })| {
                let prices = configs.get(model).and_then(ModelConfig::prices);
                let cost_usd = prices.map(|(input, output)| (read as f64 * input + written as f64 * output) / 1e6);
                ModelEstimate {
                    model: model.to_owned(),
                    calls,
                    prompt_tokens: read,
                    completion_tokens: written,
                    cost_usd,
                    here: configs.get(model).is_some_and(ModelConfig::is_here),
                }
            })
            .collect();
        let calls = models.iter().map(|model| model.calls).sum();
        let tokens = models.iter().map(|model| model.prompt_tokens + model.completion_tokens).sum();
        // The sum of nothing is -0.
        let cost_usd = models.iter().map(|model| model.cost_usd).sum::<Option<f64>>().map(|cost| cost + 0.0);
        let exceeds = [
            (Cap::Usd, budget.usd.zip(cost_usd).is_some_and(|(limit, cost)| cost > limit)),
            (Cap::Tokens, budget.tokens.is_some_and(|limit| tokens > limit)),
            (Cap::Calls, budget.calls.is_some_and(|limit| calls > limit)),
        ];
        let exceeds = exceeds.into_iter().filter(|(_, exceeds)| *exceeds).map(|(cap, _)| cap).collect();
        Self { models, calls, tokens, cost_usd, budget, exceeds }
    }
}
