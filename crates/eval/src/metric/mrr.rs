//! Mean reciprocal rank: how far up the first evidence stands.
//!
//! When to use it: where one piece of evidence answers the question. The mean
//! over questions is the MRR; this is the value for one. It needs no model.
//!
//! 1 / (rank of the first passage with which an evidence item is covered), 0
//! if none is.
//!
//! Source: E. M. Voorhees, "The TREC-8 Question Answering Track Report", 1999.

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
        Ok(Box::new(Mrr { cutoff: Cutoff::new("mrr", self.k, self.min_overlap)?, needs: self.needs() }))
    }
}

impl Describe for Config {
    fn needs(&self) -> Needs {
        Needs { evidence: true, passages: true, ..Needs::NOTHING }
    }
}

struct Mrr {
    cutoff: Cutoff,
    needs: Needs,
}

#[async_trait]
impl Metric for Mrr {
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
    walk.gaining_ranks().first().map_or(0.0, |rank| 1.0 / *rank as f64)
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
    fn the_rank_of_the_first_evidence_counts() {
        assert_eq!(score(&Config::default(), &[(0, 10), (90, 99)], &[(20, 40), (0, 20), (80, 99)]), 0.5);
        assert_eq!(score(&Config::default(), &[(0, 10)], &[(0, 20)]), 1.0);
    }

    #[test]
    fn evidence_that_is_not_among_the_first_k_gives_zero() {
        assert_eq!(score(&at(1), &[(0, 10)], &[(20, 40), (0, 20)]), 0.0);
        assert_eq!(score(&Config::default(), &[(0, 10)], &[]), 0.0);
    }
}
