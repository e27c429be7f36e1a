//! What the retrieval metrics share: they differ in the formula alone, which
//! each has in its own file.

use super::evidence::{Cutoff, Walk};
use super::{Computed, Error, Metric, Sample};
use crate::{Score, Scored};
use serde::{Deserialize, Serialize};

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
        let cutoff = Cutoff::new(metric, self.k, self.min_overlap)?;
        Ok(Box::new(Computed(move |sample: &Sample<'_>| {
            let walk = cutoff.walk(sample)?;
            Ok(Scored { score: Score::finite(formula(&walk)), detail: walk.detail() })
        })))
    }
}

/// The `Config` of a retrieval metric: [`Settings`], and the metric of this
/// name that scores what was retrieved by this formula.
macro_rules! config {
    ($name:literal, $formula:path) => {
        /// Settings of this metric.
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct Config(pub $crate::metric::retrieval::Settings);

        impl Config {
            pub(super) fn build(
                &self,
                _: &rag::Context<'_>,
            ) -> Result<Box<dyn $crate::metric::Metric>, $crate::metric::Error> {
                self.0.build($name, $formula)
            }

            /// The score at a cutoff, of evidence and passages of one document.
            #[cfg(test)]
            fn score(k: Option<u32>, evidence: &[(usize, usize)], passages: &[(usize, usize)]) -> f64 {
                let config = Self($crate::metric::retrieval::Settings { k, ..Default::default() });
                let metric = config.build(&Default::default()).unwrap();
                $crate::metric::testing::retrieval_score(&*metric, evidence, passages)
            }
        }

        impl rag::Component for Config {}

        impl $crate::metric::describe::Describe for Config {
            fn needs(&self) -> $crate::metric::Needs {
                $crate::metric::Needs { evidence: true, passages: true, ..$crate::metric::Needs::NOTHING }
            }
        }
    };
}
pub(super) use config;
