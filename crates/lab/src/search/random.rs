//! Random: some trials, chosen blindly, are asked every question.
//!
//! When to use it: as the yardstick for other searches, or when most trials
//! are expected to be about as good as the best.
//!
//! Source: J. Bergstra, Y. Bengio, "Random Search for Hyper-Parameter
//! Optimization", JMLR 13 (2012).

use super::{SearchProblem, SearchSettingsError, Stop, Strategy, TrialScores, check_share, not_tried, part};
use eval::statistics::Random as Numbers;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 1;

/// Settings of a random search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The share of the trials that is tried.
    pub share: f64,
    /// Makes the choice repeatable.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { share: 0.35, seed: 0 }
    }
}

impl Config {
    pub(super) fn build(&self, problem: &SearchProblem) -> Result<Box<dyn Strategy>, SearchSettingsError> {
        check_share("share", self.share)?;
        let all = problem.trials.len();
        let mut order: Vec<usize> = (0..all).collect();
        Numbers::new(self.seed).shuffle(&mut order);
        order.truncate(part(self.share, all));
        Ok(Box::new(RandomSearch { chosen: order, questions: problem.questions }))
    }
}

struct RandomSearch {
    chosen: Vec<usize>,
    questions: usize,
}

impl Strategy for RandomSearch {
    fn next(&mut self, seen: &[TrialScores]) -> Vec<usize> {
        let asked = |trial| if self.chosen.contains(&trial) { self.questions } else { 0 };
        (0..seen.len()).map(asked).collect()
    }

    fn stops(&self, seen: &[TrialScores]) -> BTreeMap<usize, Stop> {
        not_tried(seen, "it was not among those that were drawn")
    }
}
