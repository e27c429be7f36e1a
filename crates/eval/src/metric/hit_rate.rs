//! Hit rate: whether any evidence was retrieved.
//!
//! When to use it: as the plainest view of a retriever; the mean over questions
//! is the share of questions with at least one find. It needs no model.
//!
//! 1 if at least one evidence item is covered by the first k passages, else 0;
//! so it is 1 exactly where recall is above 0.

use super::evidence::{Cutoff, Walk};
use super::{Context, Describe, Error, Metric, Needs, Sample};
use crate::{Score, Scored};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;

/// Settings of this metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Only the first k passages count; all retrieved ones if left out.
    pub k: Option<u32>,
    /// The share of an evidence item's bytes that must be retrieved, above 0
    /// and at most 1.
    pub min_overlap: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { k: None, min_overlap: 0.5 }
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context) -> Result<Box<dyn Metric>, Error> {
        Ok(Box::new(HitRate { cutoff: Cutoff::new("hit_rate", self.k, self.min_overlap)?, needs: self.needs() }))
    }
}

impl Describe for Config {
    fn needs(&self) -> Needs {
        Needs { evidence: true, passages: true, ..Needs::NOTHING }
    }
}

struct HitRate {
    cutoff: Cutoff,
    needs: Needs,
}

#[async_trait]
impl Metric for HitRate {
    fn needs(&self) -> Needs {
        self.needs
    }

    async fn score(&self, sample: &Sample<'_>) -> Scored {
        match self.cutoff.walk(sample) {
            Ok(walk) => Scored { score: Score::finite(formula(&walk)), detail: walk.detail() },
            Err(missing) => Scored::missing(missing),
        }
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
        Config { k: Some(k), ..Config::default() }
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
