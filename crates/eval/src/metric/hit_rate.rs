//! Hit rate: whether any evidence was retrieved.
//!
//! When to use it: as the plainest view of a retriever; the mean over questions
//! is the share of questions with at least one find. It needs no model.
//!
//! 1 if at least one evidence item is covered by the first k passages, else 0;
//! so it is 1 exactly where recall is above 0.

use super::evidence::Walk;
use super::retrieval::{NEEDS, Settings};
use super::{Context, Describe, Error, Metric, Needs};
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;

/// Settings of this metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Config(pub Settings);

impl Config {
    pub(super) fn build(&self, _: &Context) -> Result<Box<dyn Metric>, Error> {
        self.0.build("hit_rate", formula)
    }
}

impl Describe for Config {
    fn needs(&self) -> Needs {
        NEEDS
    }
}

fn formula(walk: &Walk<'_>) -> f64 {
    if walk.n_covered() > 0 { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::retrieval_score;
    use super::*;

    fn score(config: &Config, evidence: &[(usize, usize)], passages: &[(usize, usize)]) -> f64 {
        retrieval_score(&*config.build(&Context::default()).unwrap(), evidence, passages)
    }

    fn at(k: u32) -> Config {
        Config(Settings::at(k))
    }

    #[test]
    fn one_find_is_a_hit() {
        assert_eq!(score(&Config::default(), &[(0, 10), (90, 99)], &[(20, 40), (0, 20)]), 1.0);
    }

    #[test]
    fn no_find_is_none() {
        assert_eq!(score(&at(1), &[(0, 10)], &[(20, 40), (0, 20)]), 0.0);
        assert_eq!(score(&Config::default(), &[(0, 10)], &[]), 0.0);
    }
}
