//! What the retrieval metrics share: they differ in the formula alone, which
//! each has in its own file.

use super::evidence::{Cutoff, Walk};
use super::{Error, Metric, Needs, Sample};
use crate::{Score, Scored};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// What a retrieval metric looks at.
pub(super) const NEEDS: Needs = Needs { evidence: true, passages: true, ..Needs::NOTHING };

/// The settings of every retrieval metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Only the first k passages count; all retrieved ones if left out.
    pub k: Option<u32>,
    /// The share of an evidence item's bytes that must be retrieved, above 0
    /// and at most 1.
    pub min_overlap: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { k: None, min_overlap: 0.5 }
    }
}

impl Settings {
    /// The metric of this name and formula.
    pub(super) fn build(&self, metric: &'static str, formula: fn(&Walk<'_>) -> f64) -> Result<Box<dyn Metric>, Error> {
        Ok(Box::new(Retrieval { cutoff: Cutoff::new(metric, self.k, self.min_overlap)?, formula }))
    }

    /// The defaults, at a cutoff.
    #[cfg(test)]
    pub(super) fn at(k: u32) -> Self {
        Self { k: Some(k), ..Self::default() }
    }
}

struct Retrieval {
    cutoff: Cutoff,
    formula: fn(&Walk<'_>) -> f64,
}

#[async_trait]
impl Metric for Retrieval {
    fn needs(&self) -> Needs {
        NEEDS
    }

    async fn score(&self, sample: &Sample<'_>) -> Scored {
        match self.cutoff.walk(sample) {
            Ok(walk) => Scored { score: Score::finite((self.formula)(&walk)), detail: walk.detail() },
            Err(missing) => Scored::missing(missing),
        }
    }
}
