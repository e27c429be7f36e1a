//! Successive halving: all trials are asked a few questions, the best of them
//! more, and so on until the last ones are asked everything.
//!
//! When to use it: where a race would be too cautious and nobody needs to know
//! how sure a stop was. It stops trials by rank alone, so it may stop the best
//! one, and does not say how likely that is.
//!
//! Source: K. Jamieson, A. Talwalkar, "Non-stochastic Best Arm Identification
//! and Hyperparameter Optimization", AISTATS 2016.

use super::{SearchProblem, SearchSettingsError, Stop, StopKind, Strategy, TrialScores, standing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 2;

/// Settings of successive halving.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// One in this many trials goes on to the next rung, which has this many
    /// times the questions.
    pub reduction: usize,
    /// Questions of the first rung, at least.
    pub least: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { reduction: 3, least: 10 }
    }
}

impl Config {
    pub(super) fn build(&self, problem: &SearchProblem) -> Result<Box<dyn Strategy>, SearchSettingsError> {
        if self.reduction < 2 || self.least == 0 {
            return Err(SearchSettingsError::Reduction);
        }
        // From the top: all questions, a third of them, a ninth and so on, as
        // long as that is enough to judge by and there are trials to choose
        // from.
        let mut rungs = vec![problem.questions];
        let mut survivors = self.reduction;
        while survivors <= problem.trials.len() && rungs[rungs.len() - 1] / self.reduction >= self.least {
            rungs.push(rungs[rungs.len() - 1] / self.reduction);
            survivors *= self.reduction;
        }
        rungs.reverse();
        let alive = (0..problem.trials.len()).collect();
        Ok(Box::new(SuccessiveHalving { rungs, rung: 0, alive, reduction: self.reduction, stops: BTreeMap::new() }))
    }
}

struct SuccessiveHalving {
    /// Questions of each rung.
    rungs: Vec<usize>,
    rung: usize,
    alive: Vec<usize>,
    reduction: usize,
    stops: BTreeMap<usize, Stop>,
}

impl Strategy for SuccessiveHalving {
    fn next(&mut self, seen: &[TrialScores]) -> Vec<usize> {
        let mut asked: Vec<usize> = seen.iter().map(Vec::len).collect();
        let done = self.alive.iter().all(|&trial| asked[trial] >= self.rungs[self.rung]);
        if done && self.rung + 1 < self.rungs.len() {
            let all = self.alive.len();
            let standing = standing(&self.alive, seen);
            self.alive.sort_by(|a, b| standing[b].total_cmp(&standing[a]).then(a.cmp(b)));
            let behind = self.alive.split_off(all.div_ceil(self.reduction));
            for (place, trial) in (self.alive.len() + 1..).zip(behind) {
                let reason = format!("place {place} of {all} after {} questions", asked[trial]);
                self.stops.insert(trial, Stop { kind: StopKind::OutOfCalls, questions: asked[trial], reason });
            }
            self.rung += 1;
        }
        for &trial in &self.alive {
            asked[trial] = asked[trial].max(self.rungs[self.rung]);
        }
        asked
    }

    fn stops(&self, _seen: &[TrialScores]) -> BTreeMap<usize, Stop> {
        self.stops.clone()
    }
}
