//! Writes into the event log what trackers show while a run goes on: usage, and
//! each trial's means as soon as there are scores.

use super::view::{RunReader, ScorePoint, UsagePoint};
use crate::{
    Prepared,
    artifact::{self, ScoreRow},
    progress::Progress,
    results::Results,
    task::Execution,
};
use eval::{Score, statistics};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Observes a run of this process.
pub(super) struct Observer {
    execution: Arc<Execution>,
    progress: Progress,
    /// The scores of each task, by the task's key: trial, metric, artifact.
    gives: BTreeMap<String, Vec<(String, String, String)>>,
    /// Where each question stands in the dataset.
    order: HashMap<String, usize>,
    told: (usize, UsagePoint),
}

impl Observer {
    pub(super) fn new(prepared: &Prepared, progress: Progress) -> Self {
        let mut gives: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (trial, tasks) in prepared.trials.iter().zip(&prepared.plan.trials) {
            for (metric, id) in &tasks.scores {
                let task = &prepared.plan.tasks[*id];
                let scores = (trial.id.clone(), metric.label(), task.artifact());
                gives.entry(task.key.hex()).or_default().push(scores);
            }
        }
        let order = prepared.questions.iter().enumerate().map(|(i, question)| (question.id.clone(), i)).collect();
        Self { execution: prepared.execution.clone(), progress, gives, order, told: Default::default() }
    }

    /// Writes what has become known since the last call.
    pub(super) async fn observe(&mut self, reader: &mut RunReader) {
        for key in reader.scored() {
            for (trial, metric, artifact) in self.gives.get(&key).into_iter().flatten() {
                if !reader.knows(trial, metric)
                    && let Some(point) = self.point(trial, metric, artifact).await
                {
                    log_score(&self.execution, &point);
                }
            }
        }
        let finished = self.progress.snapshot().iter().map(|operator| operator.finished).sum();
        let total = self.execution.models().client().meter().total();
        let used = UsagePoint {
            calls: total.calls,
            tokens: total.tokens(),
            cost_usd: total.cost_usd,
            ..UsagePoint::default()
        };
        if (finished, used) != self.told {
            self.told = (finished, used);
            let fields = serde_json::json!({ "calls": used.calls, "tokens": used.tokens, "cost_usd": used.cost_usd });
            self.execution.log("usage", fields);
        }
    }

    /// The mean of one artifact's scores. Scores that cannot be read now are in
    /// the results later.
    async fn point(&self, trial: &str, metric: &str, artifact: &str) -> Option<ScorePoint> {
        let bytes = self.execution.store.get(artifact).await.ok()??;
        let mut rows = artifact::decode::<ScoreRow>(bytes).ok()?;
        // In the same order as in the results, so that the mean is the same to the last bit.
        rows.sort_by_key(|row| self.order.get(&row.question).copied());
        let scores: Vec<Score> = rows.into_iter().map(|row| row.scored.score).collect();
        let values: Vec<f64> = scores.iter().filter_map(Score::value).collect();
        let questions = values.len() + scores.iter().filter(|score| score.is_failure()).count();
        let mean = statistics::mean(&values)?;
        Some(ScorePoint { trial: trial.to_owned(), metric: metric.to_owned(), questions, mean, time_ms: 0 })
    }
}

/// Writes what a search knows after each step, if it is new.
#[derive(Default)]
pub(crate) struct StepLog {
    told: BTreeSet<(String, String, usize, u64)>,
}

impl StepLog {
    /// Writes the means of a step: those of the metrics, and the mean by which
    /// the search compares trials, over the questions that each trial was
    /// asked.
    pub(crate) fn log<'a>(
        &mut self,
        execution: &Execution,
        results: &Results,
        seen: impl Iterator<Item = (&'a str, &'a [Option<f64>])>,
    ) {
        let of_metrics = results.trials.iter().flat_map(|trial| {
            trial.metrics.iter().filter_map(|(metric, summary)| ScorePoint::of(&trial.trial.id, metric, summary))
        });
        let compared = seen.filter_map(|(trial, scores)| {
            let (trial, metric) = (trial.to_owned(), "search_objective".to_owned());
            let known: Vec<f64> = scores.iter().copied().flatten().collect();
            Some(ScorePoint { trial, metric, questions: scores.len(), mean: statistics::mean(&known)?, time_ms: 0 })
        });
        for point in of_metrics.chain(compared) {
            let name = (point.trial.clone(), point.metric.clone(), point.questions, point.mean.to_bits());
            if self.told.insert(name) {
                log_score(execution, &point);
            }
        }
    }
}

fn log_score(execution: &Execution, point: &ScorePoint) {
    let ScorePoint { trial, metric, questions, mean, .. } = point;
    let fields = serde_json::json!({ "trial": trial, "metric": metric, "questions": questions, "mean": mean });
    execution.log("trial_scored", fields);
}
