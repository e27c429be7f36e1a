//! Models first: one axis after the other, embedder and generator before all
//! others; the best value of an axis is kept for the next ones.
//!
//! When to use it: in large spaces whose axes hardly depend on each other: it
//! takes the sum of the axes' sizes, not their product. It cannot see that a
//! chunker is good only with a certain embedder.

use super::{SearchProblem, SearchSettingsError, Stop, Strategy, TrialScores, mean, not_tried};
use rag::Axis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 1;

/// These axes first, in this order.
const MODELS: [Axis; 2] = [Axis::Embedder, Axis::Generator];

/// Settings of this search: there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, problem: &SearchProblem) -> Result<Box<dyn Strategy>, SearchSettingsError> {
        let mut axes: Vec<String> = problem.trials.iter().flat_map(|labels| labels.keys().cloned()).collect();
        axes.sort_by_key(|axis| {
            (MODELS.iter().position(|model| model.name() == axis).unwrap_or(MODELS.len()), axis.clone())
        });
        axes.dedup();
        let best = problem.trials.first().cloned().unwrap_or_default();
        Ok(Box::new(ModelsFirst { trials: problem.trials.clone(), questions: problem.questions, axes, at: 0, best }))
    }
}

struct ModelsFirst {
    trials: Vec<BTreeMap<String, String>>,
    questions: usize,
    axes: Vec<String>,
    /// The axis that is looked at.
    at: usize,
    /// The best known value of each axis.
    best: BTreeMap<String, String>,
}

impl ModelsFirst {
    /// The trials that differ from the best one on this axis alone.
    fn along(&self, axis: &str) -> Vec<usize> {
        let alike = |labels: &BTreeMap<String, String>| {
            labels.iter().all(|(name, label)| name == axis || self.best.get(name) == Some(label))
        };
        (0..self.trials.len()).filter(|&trial| alike(&self.trials[trial])).collect()
    }
}

impl Strategy for ModelsFirst {
    fn next(&mut self, seen: &[TrialScores]) -> Vec<usize> {
        let mut asked: Vec<usize> = seen.iter().map(Vec::len).collect();
        while let Some(axis) = self.axes.get(self.at) {
            let along = self.along(axis);
            if along.iter().any(|&trial| asked[trial] < self.questions) {
                along.iter().for_each(|&trial| asked[trial] = self.questions);
                break;
            }
            let scored = along.into_iter().filter_map(|trial| Some((mean(&seen[trial])?, trial)));
            if let Some((_, best)) = scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))) {
                self.best = self.trials[best].clone();
            }
            self.at += 1;
        }
        asked
    }

    fn stops(&self, seen: &[TrialScores]) -> BTreeMap<usize, Stop> {
        not_tried(seen, "it differs from the best one known on more than one axis at a time")
    }
}
