//! The quality of a service's answers: scores by the metrics that selected the
//! pipeline, whether they have fallen below what its run measured, and how a
//! candidate's answers to the same questions compare.

use crate::{
    answering::{LaneRole, ServedPipeline},
    telemetry::{MetricLabel, MetricRoleLabels, Metrics},
};
use eval::{
    Score,
    statistics::{FallDetector, Summary, betting_evidence},
};
use lab::ScoringMetric;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Scores count as fallen from this evidence on. False alarms come at most once in this
/// many scored answers, on average.
const DRIFT_EVIDENCE: f64 = 10_000.0;
/// A candidate counts as better or worse from this evidence on. The verdict is wrong for
/// at most one candidate in twenty, however often the evidence is checked: each of the
/// two sides, better and worse, is wrong for at most one in 40.
const DIFFERENCE_EVIDENCE: f64 = 40.0;
/// The most pairs of scores that are compared.
const MAX_PAIRS: usize = 20_000;

/// The scores of an answer by metric.
pub(crate) type AnswerScores = BTreeMap<String, eval::Scored>;

/// The scores of a service's answers over time.
pub(crate) struct Quality {
    metrics: Vec<ScoringMetric>,
    state: Mutex<QualityState>,
    exported: Arc<Metrics>,
}

#[derive(Default)]
struct QualityState {
    /// The served version. Answers of an earlier version may still come, and do not
    /// count.
    serving: String,
    candidate: Option<String>,
    histories: BTreeMap<String, MetricHistory>,
}

/// The scores by one metric.
#[derive(Clone, Default)]
struct MetricHistory {
    /// What the run measured.
    baseline: Option<Summary>,
    detector: Option<FallDetector>,
    serving: RunningMean,
    candidate: RunningMean,
    /// The candidate's score minus that of the served pipeline, for each question that
    /// both answered.
    pairs: Vec<f64>,
}

#[derive(Clone, Copy, Default)]
struct RunningMean {
    sum: f64,
    count: u64,
}

impl RunningMean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn to_json(self) -> Value {
        let mean = (self.count > 0).then(|| self.sum / self.count as f64);
        json!({ "mean": mean, "answers": self.count })
    }
}

impl Quality {
    pub(crate) fn new(metrics: Vec<ScoringMetric>, serving: &ServedPipeline, exported: Arc<Metrics>) -> Self {
        let quality = Self { metrics, state: Mutex::default(), exported };
        quality.set_serving(serving);
        quality
    }

    /// Starts anew for another served pipeline, with the baseline of its own run.
    pub(crate) fn set_serving(&self, serving: &ServedPipeline) {
        let mut state = self.state();
        serving.version.clone_into(&mut state.serving);
        state.histories.clear();
        for metric in &self.metrics {
            let baseline = serving.scores.get(&metric.name).cloned();
            let detector = baseline.as_ref().and_then(|baseline| fall_level(metric, baseline)).map(FallDetector::new);
            let label = MetricLabel { metric: metric.name.clone() };
            let mean = baseline.as_ref().and_then(|baseline| baseline.mean);
            self.exported.baseline.get_or_create(&label).set(mean.unwrap_or(f64::NAN));
            self.exported.drift.get_or_create(&label).set(0.0);
            state
                .histories
                .insert(metric.name.clone(), MetricHistory { baseline, detector, ..MetricHistory::default() });
        }
    }

    /// Restarts the comparison for another candidate, or for none.
    pub(crate) fn set_candidate(&self, candidate: Option<&ServedPipeline>) {
        let mut state = self.state();
        state.candidate = candidate.map(|served| served.version.clone());
        for history in state.histories.values_mut() {
            history.candidate = RunningMean::default();
            history.pairs.clear();
        }
    }

    /// Adds the scores of an answer. Returns a sentence for each metric that is now known
    /// to have fallen.
    pub(crate) fn add(&self, role: LaneRole, version: &str, scores: &AnswerScores) -> Vec<String> {
        let mut state = self.state();
        let is_current = match role {
            LaneRole::Serving => state.serving == version,
            LaneRole::Canary | LaneRole::Shadow => state.candidate.as_deref() == Some(version),
            // The fallback answers only while the others fail.
            LaneRole::Fallback => false,
        };
        let mut fallen = Vec::new();
        for metric in &self.metrics {
            let Some(score) = scores.get(&metric.name) else { continue };
            let (name, role_name) = (metric.name.clone(), role.name());
            let value = match &score.score {
                Score::Value(value) => *value,
                Score::Missing(missing) => {
                    let label = MetricRoleLabels { metric: name, role: role_name, kind: missing.name() };
                    self.exported.unscored.get_or_create(&label).inc();
                    continue;
                }
            };
            let label = MetricRoleLabels { metric: name, role: role_name, kind: "scored" };
            self.exported.scores.get_or_create(&label).observe(value);
            let Some(history) = state.histories.get_mut(&metric.name).filter(|_| is_current) else { continue };
            if role != LaneRole::Serving {
                history.candidate.add(value);
                continue;
            }
            history.serving.add(value);
            if let Some(detector) = &mut history.detector {
                let before = detector.evidence();
                detector.observe(scale(metric, value));
                let now = detector.evidence();
                self.exported.drift.get_or_create(&MetricLabel { metric: metric.name.clone() }).set(now);
                if before < DRIFT_EVIDENCE && now >= DRIFT_EVIDENCE {
                    fallen.push(format!(
                        "`{}` has fallen below what the run measured: {:.3} over {} answers since the start",
                        metric.name,
                        history.serving.sum / history.serving.count as f64,
                        history.serving.count
                    ));
                }
            }
        }
        fallen
    }

    /// Compares the scores of two answers to one question, each with its version: that of
    /// the served pipeline, and that of the candidate.
    pub(crate) fn compare(&self, serving: (&str, &AnswerScores), candidate: (&str, &AnswerScores)) {
        let mut state = self.state();
        if state.serving != serving.0 || state.candidate.as_deref() != Some(candidate.0) {
            return;
        }
        for metric in &self.metrics {
            let value = |scores: &AnswerScores| scores.get(&metric.name).and_then(|scored| scored.score.value());
            let (Some(a), Some(b)) = (value(serving.1), value(candidate.1)) else { continue };
            if let Some(history) = state.histories.get_mut(&metric.name)
                && history.pairs.len() < MAX_PAIRS
            {
                history.pairs.push(b - a);
            }
        }
    }

    /// Summarizes the scores by metric, as JSON. With many pairs it takes a while.
    pub(crate) fn summarize(&self) -> Value {
        // A copy is compared, so that scoring does not wait.
        let histories = self.state().histories.clone();
        let found = self.metrics.iter().filter_map(|metric| Some((metric, histories.get(&metric.name)?)));
        let summaries = found.map(|(metric, history)| {
            let evidence = history.detector.as_ref().map(FallDetector::evidence);
            json!({
                "metric": metric.name, "higher_is_better": metric.higher_is_better, "baseline": history.baseline,
                "serving": history.serving.to_json(), "candidate": history.candidate.to_json(),
                "drift": evidence.map(|evidence| json!({ "evidence": evidence, "has_fallen": evidence >= DRIFT_EVIDENCE })),
                "pairs": history.compare(metric),
            })
        });
        summaries.collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, QualityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetricHistory {
    fn compare(&self, metric: &ScoringMetric) -> Value {
        if self.pairs.is_empty() {
            return Value::Null;
        }
        let width = (metric.range.1 - metric.range.0).max(f64::MIN_POSITIVE);
        let sign = if metric.higher_is_better { 1.0 } else { -1.0 };
        let better: Vec<f64> = self.pairs.iter().map(|difference| sign * difference).collect();
        let worse: Vec<f64> = better.iter().map(|difference| -difference).collect();
        // The population of questions has no end; 2⁵³ stands for it: `f64` counts exactly up to there.
        let evidence = |differences: &[f64]| betting_evidence(differences, usize::MAX >> 11, width);
        let (better, worse) = (evidence(&better), evidence(&worse));
        let verdict = match (better >= DIFFERENCE_EVIDENCE, worse >= DIFFERENCE_EVIDENCE) {
            (true, false) => "better",
            (false, true) => "worse",
            _ => "undecided",
        };
        let mean = self.pairs.iter().sum::<f64>() / self.pairs.len() as f64;
        json!({
            "questions": self.pairs.len(), "mean_difference": mean, "evidence_better": better.min(1e12),
            "evidence_worse": worse.min(1e12), "verdict": verdict,
        })
    }
}

/// Maps a score to a scale from 0 to 1 on which higher is better.
fn scale(metric: &ScoringMetric, value: f64) -> f64 {
    let (least, most) = metric.range;
    let share = (value - least) / (most - least).max(f64::MIN_POSITIVE);
    if metric.higher_is_better { share } else { 1.0 - share }
}

/// The scaled score below which answers have fallen: the worse end of the run's interval.
fn fall_level(metric: &ScoringMetric, baseline: &Summary) -> Option<f64> {
    let end = if metric.higher_is_better { baseline.low } else { baseline.high };
    Some(scale(metric, end.or(baseline.mean)?))
}
