//! What the judged metrics share beside their judge: how a score with its
//! transcript comes about, and the settings of those that ask for verdicts and
//! nothing else.

use super::judge::{Judge, Transcript};
use super::{Error, Metric, MetricContext, Sample};
use crate::{Missing, Scored};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A metric that asks judges.
pub(super) trait JudgedMetric: Send + Sync {
    /// The score. What a person needs to check it goes into the transcript as
    /// it becomes known: it is shown also where there is no score.
    fn try_score(
        &self,
        sample: &Sample<'_>,
        transcript: &mut Transcript,
    ) -> impl Future<Output = Result<f64, Missing>> + Send;
}

#[async_trait]
impl<T: JudgedMetric> Metric for T {
    async fn score(&self, sample: &Sample<'_>) -> Scored {
        let mut transcript = Transcript::default();
        let score = self.try_score(sample, &mut transcript).await;
        transcript.scored(score)
    }
}

/// The settings of metrics that ask for verdicts and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "struct Config")]
#[schemars(rename = "Settings")]
pub struct VerdictSettings {
    /// The probability of yes from which on a verdict is yes; for models that
    /// offer token probabilities.
    pub threshold: f64,
}

impl Default for VerdictSettings {
    fn default() -> Self {
        Self { threshold: 0.5 }
    }
}

impl VerdictSettings {
    /// The judge of the metric of this name.
    pub(super) fn judge(&self, metric: &'static str, cx: &MetricContext<'_>) -> Result<Judge, Error> {
        super::judge(cx, metric, self.threshold)
    }
}
