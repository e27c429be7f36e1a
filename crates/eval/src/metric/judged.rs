//! Shared code of the judged metrics: a score with its transcript, and the settings
//! of metrics that ask for verdicts only.

use super::judge::{Judge, Transcript};
use super::{Error, Metric, MetricContext, Sample};
use crate::{Missing, Scored};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A metric that asks judges.
pub(super) trait JudgedMetric: Send + Sync {
    /// The score. Details for a human check go into the transcript as they become
    /// known, so that they are shown even if there is no score.
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

/// A metric of one judge, or one panel, and its settings.
pub(super) struct Judged<C> {
    pub(super) judge: Judge,
    pub(super) config: C,
}

impl<C> Judged<C>
where
    Self: JudgedMetric + 'static,
{
    /// The metric of this name; its judges say yes from the threshold on.
    pub(super) fn build(
        cx: &MetricContext<'_>,
        metric: &'static str,
        threshold: f64,
        config: C,
    ) -> Result<Box<dyn Metric>, Error> {
        Ok(Box::new(Self { judge: super::judge(cx, metric, threshold)?, config }))
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
