//! Grid: every trial is asked every question.
//!
//! When to use it: when the whole picture is wanted, or the space is small.

use super::{SearchProblem, SearchSettingsError, Stop, Strategy, TrialScores};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 1;

/// Settings of the grid: there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, problem: &SearchProblem) -> Result<Box<dyn Strategy>, SearchSettingsError> {
        Ok(Box::new(Grid { questions: problem.questions }))
    }
}

struct Grid {
    questions: usize,
}

impl Strategy for Grid {
    fn next(&mut self, seen: &[TrialScores]) -> Vec<usize> {
        vec![self.questions; seen.len()]
    }

    fn stops(&self, _seen: &[TrialScores]) -> BTreeMap<usize, Stop> {
        BTreeMap::new()
    }
}
