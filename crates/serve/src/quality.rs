//! What is known of the answers of a service: their scores by the metrics that
//! chose the pipeline, whether those have fallen below what its run found, and
//! how a candidate's answers to the same questions compare.

use crate::{
    lanes::Role,
    metrics::{Metrics, Scored, ScoredRole},
    served::Served,
};
use eval::{
    Score,
    statistics::{FallDetector, Summary, betting_evidence},
};
use lab::ScoredBy;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// From so much evidence on, scores are said to have fallen: where none did, that
/// happens on average at most once in as many scored answers.
pub(crate) const DRIFT: f64 = 10_000.0;
/// From so much evidence on, a candidate is said to be better or worse: wrong
/// once in twenty candidates, however often one looks.
const DIFFERS: f64 = 40.0;
/// More pairs would say no more.
const PAIRS: usize = 20_000;

/// Scores by metric, as a scorer gave them.
pub(crate) type Scores = BTreeMap<String, eval::Scored>;

/// Scores over time.
pub(crate) struct Quality {
    metrics: Vec<ScoredBy>,
    state: Mutex<State>,
    numbers: Arc<Metrics>,
}

#[derive(Default)]
struct State {
    /// The versions whose answers count: one that was served before may still be
    /// on its way.
    serving: String,
    candidate: Option<String>,
    watched: BTreeMap<String, Watched>,
}

/// One metric.
#[derive(Clone, Default)]
struct Watched {
    /// What the run found.
    baseline: Option<Summary>,
    detector: Option<FallDetector>,
    serving: Mean,
    candidate: Mean,
    /// The candidate's score less that of the served pipeline, where both
    /// answered.
    pairs: Vec<f64>,
}

#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn told(&self) -> Value {
        let mean = (self.count > 0).then(|| self.sum / self.count as f64);
        json!({ "mean": mean, "answers": self.count })
    }
}

impl Quality {
    pub(crate) fn new(metrics: Vec<ScoredBy>, serving: &Served, numbers: Arc<Metrics>) -> Self {
        let quality = Self { metrics, state: Mutex::default(), numbers };
        quality.serves(serving);
        quality
    }

    /// Another pipeline is served: it is compared with what its own run found.
    pub(crate) fn serves(&self, serving: &Served) {
        let mut state = self.state();
        serving.version.clone_into(&mut state.serving);
        state.watched.clear();
        for metric in &self.metrics {
            let baseline = serving.scores().get(&metric.name).cloned();
            let detector = baseline.as_ref().and_then(|baseline| level(metric, baseline)).map(FallDetector::new);
            let label = Scored { metric: metric.name.clone() };
            let mean = baseline.as_ref().and_then(|baseline| baseline.mean);
            self.numbers.baseline.get_or_create(&label).set(mean.unwrap_or(f64::NAN));
            self.numbers.drift.get_or_create(&label).set(0.0);
            state.watched.insert(metric.name.clone(), Watched { baseline, detector, ..Watched::default() });
        }
    }

    /// Another candidate is tried, or none.
    pub(crate) fn tries(&self, candidate: Option<&Served>) {
        let mut state = self.state();
        state.candidate = candidate.map(|served| served.version.clone());
        for watched in state.watched.values_mut() {
            watched.candidate = Mean::default();
            watched.pairs.clear();
        }
    }

    /// The scores of an answer; gives the metrics that are found to have fallen
    /// with it, in sentences.
    pub(crate) fn add(&self, role: Role, version: &str, scores: &Scores) -> Vec<String> {
        let mut state = self.state();
        let is_present = match role {
            Role::Serving => state.serving == version,
            Role::Canary | Role::Shadow => state.candidate.as_deref() == Some(version),
            // What stands in is not what was promised.
            Role::Fallback => false,
        };
        let mut fallen = Vec::new();
        for metric in &self.metrics {
            let Some(score) = scores.get(&metric.name) else { continue };
            let (name, role_name) = (metric.name.clone(), role.name());
            let value = match &score.score {
                Score::Value(value) => *value,
                Score::Missing(missing) => {
                    let label = ScoredRole { metric: name, role: role_name, kind: missing.name() };
                    self.numbers.unscored.get_or_create(&label).inc();
                    continue;
                }
            };
            let label = ScoredRole { metric: name, role: role_name, kind: "scored" };
            self.numbers.scores.get_or_create(&label).observe(value);
            let Some(watched) = state.watched.get_mut(&metric.name).filter(|_| is_present) else { continue };
            if role != Role::Serving {
                watched.candidate.add(value);
                continue;
            }
            watched.serving.add(value);
            if let Some(detector) = &mut watched.detector {
                let before = detector.evidence();
                detector.observe(scaled(metric, value));
                let now = detector.evidence();
                self.numbers.drift.get_or_create(&Scored { metric: metric.name.clone() }).set(now);
                if before < DRIFT && now >= DRIFT {
                    fallen.push(format!(
                        "`{}` has fallen below what the run found: {:.3} over {} answers since the start",
                        metric.name,
                        watched.serving.sum / watched.serving.count as f64,
                        watched.serving.count
                    ));
                }
            }
        }
        fallen
    }

    /// The scores of two answers to one question: of the pipeline that is served,
    /// and of the candidate.
    pub(crate) fn compare(&self, (serving, of): (&str, &Scores), (candidate, with): (&str, &Scores)) {
        let mut state = self.state();
        if state.serving != serving || state.candidate.as_deref() != Some(candidate) {
            return;
        }
        for metric in &self.metrics {
            let value = |scores: &Scores| scores.get(&metric.name).and_then(|scored| scored.score.value());
            let (Some(a), Some(b)) = (value(of), value(with)) else { continue };
            if let Some(watched) = state.watched.get_mut(&metric.name)
                && watched.pairs.len() < PAIRS
            {
                watched.pairs.push(b - a);
            }
        }
    }

    /// All of it, by metric. It takes a while where many pairs are compared.
    pub(crate) fn told(&self) -> Value {
        // A copy: answers that are scored meanwhile must not wait for the comparison.
        let watched = self.state().watched.clone();
        let told = self.metrics.iter().filter_map(|metric| Some((metric, watched.get(&metric.name)?)));
        let told = told.map(|(metric, watched)| {
            let evidence = watched.detector.as_ref().map(FallDetector::evidence);
            json!({
                "metric": metric.name, "higher_is_better": metric.higher_is_better, "baseline": watched.baseline,
                "serving": watched.serving.told(), "candidate": watched.candidate.told(),
                "drift": evidence.map(|evidence| json!({ "evidence": evidence, "has_fallen": evidence >= DRIFT })),
                "pairs": watched.compared(metric),
            })
        });
        told.collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn compared(&self, metric: &ScoredBy) -> Value {
        if self.pairs.is_empty() {
            return Value::Null;
        }
        let width = (metric.range.1 - metric.range.0).max(f64::MIN_POSITIVE);
        let sign = if metric.higher_is_better { 1.0 } else { -1.0 };
        let better: Vec<f64> = self.pairs.iter().map(|difference| sign * difference).collect();
        let worse: Vec<f64> = better.iter().map(|difference| -difference).collect();
        // Questions never end, so that nothing is known of what is left of them.
        let evidence = |differences: &[f64]| betting_evidence(differences, usize::MAX >> 11, width);
        let (better, worse) = (evidence(&better), evidence(&worse));
        let verdict = match (better >= DIFFERS, worse >= DIFFERS) {
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

/// A score on a scale from 0 to 1 on which more is better.
fn scaled(metric: &ScoredBy, value: f64) -> f64 {
    let (least, most) = metric.range;
    let share = (value - least) / (most - least).max(f64::MIN_POSITIVE);
    if metric.higher_is_better { share } else { 1.0 - share }
}

/// What production is compared with: the end of the run's interval that is worse.
fn level(metric: &ScoredBy, baseline: &Summary) -> Option<f64> {
    let end = if metric.higher_is_better { baseline.low } else { baseline.high };
    Some(scaled(metric, end.or(baseline.mean)?))
}
