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
        let Some((kind, used)) = metric.verdict() else {
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
        match found.threshold {
            Some(fitted) if (fitted - used).abs() > NEAR => Some(format!(
                "`{judge}` is qualified for `{}` with a threshold of {fitted:.2}, not {used}: write `{} = {{ threshold = {fitted:.2} }}`",
                kind.name(),
                metric.name()
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eval::verdict::VerdictKind;
    use serde_json::{Value, json};

    fn metric(settings: Value) -> MetricConfig {
        serde_json::from_value(settings).unwrap()
    }

    /// The judge `m`, tried with this result for `supported`; never tried if there is none.
    fn judge(found: Option<Value>) -> JudgeResult {
        let record = found.map(|found| {
            let model = json!({ "provider": "test", "model": "m", "revision": "1", "parameters": {} });
            let record =
                json!({ "judge": "m", "model": model, "cases": "abc", "n_cases": 60, "time_ms": 1, "kinds": [found] });
            serde_json::from_value(record).unwrap()
        });
        JudgeResult { judge: "m".to_owned(), record }
    }

    fn supported(qualified: bool, threshold: Option<f64>) -> Option<Value> {
        let reason = "too lenient";
        let counts = json!({ "kind": "supported", "n": 60, "unreadable": 0, "qualified": qualified, "reason": reason });
        let mut kind = counts;
        kind["threshold"] = json!(threshold);
        Some(kind)
    }

    #[test]
    fn a_judge_that_was_not_tried_on_what_the_metric_asks_may_not_choose() {
        let faithfulness = metric(json!({ "faithfulness": {} }));
        let objection = |found, metric: &MetricConfig| judge(found).objection(metric);
        assert_eq!(objection(None, &faithfulness).unwrap(), "`m` was never tried: run the qualification of `m`");
        let mut other = supported(true, None).unwrap();
        other["kind"] = json!("relevant");
        assert_eq!(
            objection(Some(other), &faithfulness).unwrap(),
            "`m` was tried on no case of `supported`: run the qualification of `m` with some"
        );
        assert_eq!(
            objection(supported(false, None), &faithfulness).unwrap(),
            "`m` is not qualified for `supported`: too lenient"
        );
        assert_eq!(objection(supported(true, None), &faithfulness), None);
        let no_cases = metric(json!({ "answer_accuracy": {} }));
        let expected = "there are no labelled cases for what this metric asks";
        assert_eq!(objection(supported(true, None), &no_cases).as_deref(), Some(expected), "whatever the judge did");
        assert_eq!(objection(None, &no_cases).as_deref(), Some(expected));
    }

    #[test]
    fn the_threshold_of_a_metric_may_be_two_hundredths_from_the_fitted_one() {
        // The threshold that fits the judge best, that of the metric, and whether they are near enough.
        for (fitted, used, near) in [
            (0.5, 0.5, true),
            (0.5, 0.51, true),
            (0.5, 0.49, true),
            (0.5, 0.53, false),
            (0.5, 0.47, false),
            (0.71, 0.5, false),
            (0.71, 0.7, true),
        ] {
            let faithfulness = metric(json!({ "faithfulness": { "threshold": used } }));
            let found = judge(supported(true, Some(fitted))).objection(&faithfulness);
            assert_eq!(found.is_none(), near, "{fitted} and {used}: {found:?}");
        }
        let faithfulness = metric(json!({ "faithfulness": { "threshold": 0.5 } }));
        assert_eq!(
            judge(supported(true, Some(0.714))).objection(&faithfulness).unwrap(),
            "`m` is qualified for `supported` with a threshold of 0.71, not 0.5: write `faithfulness = { threshold = \
             0.71 }`"
        );
        assert_eq!(faithfulness.verdict(), Some((VerdictKind::Supported, 0.5)));
        assert_eq!(metric(json!({ "recall": {} })).verdict(), None, "it asks no judge");
        // A judge that gives no probabilities has no threshold.
        assert_eq!(judge(supported(true, None)).objection(&faithfulness), None);
    }

    #[test]
    fn an_unqualified_judge_is_told_so_whatever_its_threshold() {
        let faithfulness = metric(json!({ "faithfulness": { "threshold": 0.5 } }));
        let found = judge(supported(false, Some(0.9))).objection(&faithfulness).unwrap();
        assert!(found.contains("is not qualified") && !found.contains("threshold"), "{found}");
    }
}
