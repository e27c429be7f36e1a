//! How the judges of an experiment did on labelled cases, and whether their verdicts may choose a winner.

use crate::action::Action;
use eval::{MetricConfig, qualify::Qualification};
use models::Identity;
use serde::{Deserialize, Serialize};

/// Thresholds closer than this give the same verdicts, with few exceptions.
const NEAR: f64 = 0.02;

/// How a judge did on labelled cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QualificationRecord {
    /// The judge, by its name in the experiment.
    pub judge: String,
    /// The identity of the model.
    pub model: Identity,
    /// The digest of the cases.
    pub cases: String,
    /// How many there were.
    pub n_cases: usize,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// One for each kind of verdict that had cases.
    pub kinds: Vec<Qualification>,
}

/// A judge of an experiment, and its record if it was ever tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgeResult {
    /// Its name in the experiment.
    pub judge: String,
    /// How it did; none if nobody tried it.
    pub record: Option<QualificationRecord>,
}

impl JudgeResult {
    /// Why verdicts for a metric do not count; none if they count.
    pub(crate) fn objection(&self, metric: &MetricConfig) -> Option<String> {
        let judge = &self.judge;
        let Some(kind) = metric.verdict() else {
            return Some("there are no labelled cases for what this metric asks".to_owned());
        };
        let Some(record) = &self.record else {
            return Some(format!("`{judge}` was never tried: run {}", Action::Judge(Some(judge))));
        };
        let Some(found) = record.kinds.iter().find(|found| found.kind == kind) else {
            return Some(format!(
                "`{judge}` was tried on no case of `{}`: run {} with some",
                kind.name(),
                Action::Judge(Some(judge))
            ));
        };
        if !found.qualified {
            return Some(format!("`{judge}` is not qualified for `{}`: {}", kind.name(), found.reason));
        }
        let used = threshold(metric);
        match (found.threshold, used) {
            (Some(fitted), Some(used)) if (fitted - used).abs() > NEAR => Some(format!(
                "`{judge}` is qualified for `{}` with a threshold of {fitted:.2}, not {used}: write `{} = {{ threshold = {fitted:.2} }}`",
                kind.name(),
                metric.name()
            )),
            _ => None,
        }
    }
}

/// The probability of yes from which on a metric counts a verdict as yes.
fn threshold(metric: &MetricConfig) -> Option<f64> {
    serde_json::to_value(metric).ok()?.get(metric.name())?.get("threshold")?.as_f64()
}
