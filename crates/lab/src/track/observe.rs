//! Writes into the event log what trackers show while a run goes on: usage, and
//! each trial's means as soon as there are scores.

use super::view::{RunReader, ScorePoint, UsagePoint};
use crate::{
    PreparedRun,
    artifact::{self, ScoreRow},
    progress::Progress,
    results::SEED,
    task::RunContext,
};
use eval::{Score, statistics};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Observes a run of this process.
pub(crate) struct Observer {
    run_context: Arc<RunContext>,
    progress: Progress,
    /// The means that need each task's scores, by the task's key.
    needed_by: BTreeMap<String, Vec<usize>>,
    /// The means that are not known yet; none for those that are.
    means: Vec<Option<PendingMean>>,
    /// Where each question stands in the dataset.
    order: HashMap<String, usize>,
    logged: (usize, UsagePoint),
    /// Whether the scores that were in the store already have been looked for.
    has_looked: bool,
}

/// A trial's mean by a metric, and where its scores will be.
struct PendingMean {
    trial: String,
    metric: String,
    /// The metric's least and greatest value.
    range: (f64, f64),
    artifacts: Vec<String>,
    /// How many of the artifacts, from the first one on, are known to be there.
    present: usize,
}

impl Observer {
    pub(crate) fn new(prepared: &PreparedRun, progress: Progress) -> Self {
        let (mut needed_by, mut means) = (BTreeMap::<String, Vec<usize>>::new(), Vec::new());
        for (trial, tasks) in prepared.trials.iter().zip(&prepared.plan.trials) {
            for (config, shards) in &tasks.scores {
                let tasks = || shards.iter().map(|&id| &prepared.plan.tasks[id]);
                for task in tasks() {
                    needed_by.entry(task.key.hex()).or_default().push(means.len());
                }
                let artifacts = tasks().map(crate::Task::artifact).collect();
                let (trial, metric) = (trial.id.clone(), config.label());
                let range = config.range();
                means.push(Some(PendingMean { trial, metric, range, artifacts, present: 0 }));
            }
        }
        let order = prepared.questions.iter().enumerate().map(|(i, question)| (question.id.clone(), i)).collect();
        Self {
            run_context: prepared.run_context.clone(),
            progress,
            needed_by,
            means,
            order,
            logged: Default::default(),
            has_looked: false,
        }
    }

    /// Writes what has become known since the last call.
    pub(crate) async fn observe(&mut self, reader: &mut RunReader) {
        let scored = reader.take_scored_tasks();
        let mut needed: Vec<usize> =
            scored.iter().filter_map(|key| self.needed_by.get(key)).flatten().copied().collect();
        if !std::mem::replace(&mut self.has_looked, true) {
            needed.extend(self.stored_means().await);
        }
        for place in needed {
            let Some(mut mean) = self.means[place].take() else { continue };
            if reader.knows(&mean.trial, &mean.metric) {
                continue;
            }
            if !self.is_complete(&mut mean).await {
                self.means[place] = Some(mean);
            } else if let Some(point) = self.point(&mean).await {
                log_score(&self.run_context, &point);
            }
        }
        let finished = self.progress.snapshot().iter().map(|operator| operator.finished).sum();
        let total = self.run_context.models().client().meter().total();
        let used = UsagePoint {
            calls: total.calls,
            tokens: total.tokens(),
            cost_usd: total.cost_usd,
            ..UsagePoint::default()
        };
        if (finished, used) != self.logged {
            self.logged = (finished, used);
            let fields = json!({ "calls": used.calls, "tokens": used.tokens, "cost_usd": used.cost_usd });
            self.run_context.log("usage", fields);
        }
    }

    /// The means whose first scores another run has left in the store.
    async fn stored_means(&self) -> Vec<usize> {
        let first =
            |(place, mean): (usize, &Option<PendingMean>)| Some((place, mean.as_ref()?.artifacts.first()?.clone()));
        let (places, names): (Vec<usize>, Vec<String>) = self.means.iter().enumerate().filter_map(first).unzip();
        let stored = self.run_context.store.which_exist(&names).await.unwrap_or_default();
        places.into_iter().zip(stored).filter(|(_, is_there)| *is_there).map(|(place, _)| place).collect()
    }

    /// Whether all scores of a mean are there.
    async fn is_complete(&self, mean: &mut PendingMean) -> bool {
        while let Some(artifact) = mean.artifacts.get(mean.present) {
            if !matches!(self.run_context.store.exists(artifact).await, Ok(true)) {
                return false;
            }
            mean.present += 1;
        }
        true
    }

    /// The mean of the scores in some artifacts. Scores that cannot be read now
    /// are in the results later.
    async fn point(&self, mean: &PendingMean) -> Option<ScorePoint> {
        let mut rows = Vec::new();
        for artifact in &mean.artifacts {
            let bytes = self.run_context.store.get(artifact).await.ok()??;
            rows.extend(artifact::decode::<ScoreRow>(bytes).ok()?);
        }
        // In the same order as in the results, so that the mean is the same to the last bit.
        rows.sort_by_key(|row| self.order.get(&row.question).copied());
        let scores: Vec<Score> = rows.into_iter().map(|row| row.scored.score).collect();
        let values: Vec<f64> = scores.iter().filter_map(Score::value).collect();
        let questions = values.len() + scores.iter().filter(|score| score.is_failure()).count();
        let (trial, metric) = (mean.trial.clone(), mean.metric.clone());
        score_point((trial, metric), questions, &values, mean.range)
    }
}

/// A trial's mean, with its interval.
pub(crate) fn score_point(
    (trial, metric): (String, String),
    questions: usize,
    values: &[f64],
    range: (f64, f64),
) -> Option<ScorePoint> {
    let interval = statistics::bootstrap_mean(values, range, SEED);
    let (low, high) = (interval.map(|interval| interval.low), interval.map(|interval| interval.high));
    Some(ScorePoint { trial, metric, questions, mean: statistics::mean(values)?, low, high, time_ms: 0 })
}

/// Logs the mean scores that a search has after each step, each once.
#[derive(Default)]
pub(crate) struct StepLog {
    logged: BTreeSet<(String, String, usize, u64)>,
}

impl StepLog {
    /// Writes the means of a step: those of the metrics, and the mean by which
    /// the search compares trials, over the questions that each trial was
    /// asked.
    pub(crate) fn log<'a>(
        &mut self,
        run_context: &RunContext,
        of_metrics: impl Iterator<Item = ScorePoint>,
        seen: impl Iterator<Item = (&'a str, &'a [Option<f64>])>,
    ) {
        let compared = seen.filter_map(|(trial, scores)| {
            let (trial, metric) = (trial.to_owned(), "search_objective".to_owned());
            let known: Vec<f64> = scores.iter().copied().flatten().collect();
            score_point((trial, metric), scores.len(), &known, (0.0, 1.0))
        });
        for point in of_metrics.chain(compared) {
            let name = (point.trial.clone(), point.metric.clone(), point.questions, point.mean.to_bits());
            if self.logged.insert(name) {
                log_score(run_context, &point);
            }
        }
    }
}

fn log_score(run_context: &RunContext, point: &ScorePoint) {
    let ScorePoint { trial, metric, questions, mean, low, high, .. } = point;
    run_context.log(
        "trial_scored",
        json!({ "trial": trial, "metric": metric, "questions": questions, "mean": mean, "low": low, "high": high }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{spec::Experiment, task::fixture};

    #[test]
    fn a_step_is_written_where_it_says_something_new() {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let run_context = fixture::run_context(folder.path(), Experiment::parse(text, ".").unwrap(), Vec::new());
        let mut steps = StepLog::default();
        let recall = |questions, mean| ScorePoint {
            trial: "t01".to_owned(),
            metric: "recall".to_owned(),
            questions,
            mean,
            low: None,
            high: None,
            time_ms: 0,
        };
        let mut said = 0;
        // What a step knows: of a metric, and of what trials are compared by. Then the lines that are new.
        let mut step = |of_metrics: Vec<ScorePoint>, seen: &[(&str, &[Option<f64>])]| {
            steps.log(&run_context, of_metrics.into_iter(), seen.iter().copied());
            let log = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
            let lines: Vec<serde_json::Value> =
                log.lines().skip(said).map(|line| serde_json::from_str(line).unwrap()).collect();
            said += lines.len();
            let told = |line: serde_json::Value| {
                assert_eq!(line["kind"], "trial_scored");
                let word = |name: &str| line[name].as_str().unwrap().to_owned();
                format!("{} {} {} {}", word("trial"), word("metric"), line["questions"], line["mean"])
            };
            lines.into_iter().map(told).collect::<Vec<String>>()
        };
        let scores: [Option<f64>; 3] = [Some(0.5), None, Some(1.0)];
        let first = step(vec![recall(4, 0.5)], &[("t01", &scores), ("t02", &[]), ("t03", &[None])]);
        assert_eq!(first, ["t01 recall 4 0.5", "t01 search_objective 3 0.75"], "nothing of those without a score");
        assert_eq!(step(vec![recall(4, 0.5)], &[("t01", &scores)]), [""; 0], "a resumed search repeats its steps");
        assert_eq!(step(vec![recall(4, 0.25), recall(8, 0.5)], &[]), ["t01 recall 4 0.25", "t01 recall 8 0.5"]);
        assert_eq!(step(vec![], &[("t02", &scores)]), ["t02 search_objective 3 0.75"], "the same of another trial");
    }
}
