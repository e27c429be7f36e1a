//! What the trackers share whose client is a Python package: the process that uses the package, and what it is sent of
//! a run. The process is started in the interpreter of the user's functions.
//!
//! A call brings the package to the state of the run's folder, as for every tracker. Points of the event log are the
//! steps, so that a step always means the same; the program in Python leaves out the steps that are there already.

use super::{RunState, RunView, Tracker, TrackerError, leaderboard, view::RunPoint};
use crate::{
    board::{Board, ColumnKind},
    results::Results,
    spec::Pace,
};
use async_trait::async_trait;
use rag::python::{PackageFailure, PackageProcess};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::Key;

/// The beginning of each program: it answers calls.
const CLIENT: &str = include_str!("client.py");
/// The time limit of a call. The run does not wait for it; its end waits for [`Pace::wait`].
const CALL: Duration = Duration::from_secs(300);

/// How a tracker uses its package.
pub(super) struct PackageSettings {
    /// The name of the package.
    pub(super) package: &'static str,
    /// What shows a run: a program after [`CLIENT`].
    pub(super) program: &'static str,
    /// Environment variables of its process, which may be secrets.
    pub(super) secrets: Vec<(&'static str, String)>,
    /// The tracker's place, for people.
    pub(super) place: String,
    pub(super) pace: Pace,
    /// The name of the project; none for the experiment's name.
    pub(super) project: Option<String>,
    /// Additional fields of the run, for the program.
    pub(super) fields: Map<String, Value>,
}

/// A tracker with a Python package.
pub(super) struct PackageTracker {
    settings: PackageSettings,
    process: Option<Arc<PackageProcess>>,
    /// Points that this process has shown.
    shown: usize,
    /// The digest of the run's end that was shown.
    ended: Option<String>,
}

impl PackageTracker {
    /// Nothing is started yet.
    pub(super) fn new(settings: PackageSettings) -> Self {
        Self { settings, process: None, shown: 0, ended: None }
    }

    /// The process, which is started if there is none.
    async fn process(&mut self) -> Result<Arc<PackageProcess>, TrackerError> {
        if let Some(process) = self.process.as_ref().filter(|process| process.is_usable()) {
            return Ok(process.clone());
        }
        self.shown = 0;
        let (package, code) = (self.settings.package, format!("{CLIENT}\n\n{}", self.settings.program));
        let variables = self.settings.secrets.clone();
        let started = tokio::task::spawn_blocking(move || {
            let secrets = variables.iter().map(|(_, secret)| secret.clone()).collect();
            PackageProcess::start(package, &code, &variables, secrets)
        });
        let process = Arc::new(started.await.map_err(|error| TrackerError::Refused(error.to_string()))??);
        self.process = Some(process.clone());
        Ok(process)
    }

    fn end_process(&mut self) {
        if let Some(process) = self.process.take() {
            process.end();
        }
        self.shown = 0;
    }
}

impl Drop for PackageTracker {
    fn drop(&mut self) {
        // A thread may wait for an answer that nobody wants any more.
        self.end_process();
    }
}

#[async_trait]
impl Tracker for PackageTracker {
    fn place(&self) -> &str {
        &self.settings.place
    }

    fn pace(&self) -> Pace {
        self.settings.pace
    }

    async fn sync(&mut self, view: &RunView) -> Result<Vec<String>, TrackerError> {
        if view.started_ms == 0 {
            return Ok(Vec::new());
        }
        let run = run(view, &self.settings);
        let end = end(view, &run);
        let digest = end.as_ref().map(|(digest, _)| digest.clone());
        if digest.is_some() && digest == self.ended {
            return Ok(Vec::new());
        }
        let process = self.process().await?;
        let call = Map::from_iter([
            ("run".to_owned(), run),
            ("rows".to_owned(), json!(rows(view, self.shown))),
            ("end".to_owned(), json!(end.map(|(_, end)| end))),
        ]);
        let answered = tokio::task::spawn_blocking(move || process.call(call, CALL)).await;
        match answered.map_err(|error| TrackerError::Refused(error.to_string()))? {
            Ok(reply) => {
                self.shown = view.points.len();
                if digest.is_some() {
                    self.end_process();
                }
                self.ended = digest;
                let notes = reply.get("notes").and_then(Value::as_array).into_iter().flatten();
                Ok(notes.filter_map(Value::as_str).map(str::to_owned).collect())
            }
            Err(failure) => {
                // What it has shown is not certain: the next process looks.
                self.end_process();
                Err(failure.into())
            }
        }
    }
}

impl From<PackageFailure> for TrackerError {
    fn from(failure: PackageFailure) -> Self {
        let text = failure.to_string();
        match failure {
            PackageFailure::Ended(_) | PackageFailure::Raised { is_away: true, .. } => Self::Away(text),
            _ => Self::Refused(text),
        }
    }
}

/// A name that all packages accept in a metric: `recall@10` becomes `recall_at_10`.
fn metric_key(label: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    label.replace('@', "_at_").chars().map(fits).collect()
}

fn seconds(time_ms: i64) -> f64 {
    time_ms as f64 / 1000.0
}

/// What identifies the run, and what it is made from.
fn run(view: &RunView, settings: &PackageSettings) -> Value {
    let experiment = &view.experiment;
    let trials: BTreeMap<&str, &BTreeMap<String, String>> =
        view.trials.iter().map(|trial| (trial.id.as_str(), &trial.labels)).collect();
    // Questions, references and quotes that stand in the experiment itself stay here; their number and version are sent.
    let mut shown = experiment.comparable();
    if let Some(dataset) = shown.get_mut("dataset").and_then(Value::as_object_mut) {
        dataset.remove("rows");
    }
    let mut run = settings.fields.clone();
    run.insert("id".to_owned(), json!(view.run));
    run.insert("experiment".to_owned(), json!(experiment.name));
    run.insert("project".to_owned(), json!(settings.project.as_ref().unwrap_or(&experiment.name)));
    let folder = std::path::absolute(&view.folder).unwrap_or_else(|_| view.folder.clone());
    run.insert("folder".to_owned(), json!(folder.display().to_string()));
    run.insert(
        "config".to_owned(),
        json!({
            "reverie": env!("CARGO_PKG_VERSION"), "experiment": shown, "dataset": view.dataset,
            "corpus": view.corpus, "trials": trials,
        }),
    );
    Value::Object(run)
}

/// The usage of a run so far.
fn usage(view: &RunView, i: usize) -> Map<String, Value> {
    let Some(used) = view.usage.get(i) else { return Map::new() };
    let counts = [("tasks", used.tasks), ("calls", used.calls), ("tokens", used.tokens)];
    let mut values: Map<String, Value> =
        counts.into_iter().map(|(name, count)| (format!("usage/{name}"), json!(count))).collect();
    if used.cost_usd.is_finite() {
        // The sum of nothing is -0.
        values.insert("usage/dollars".to_owned(), json!(used.cost_usd + 0.0));
    }
    values
}

/// The steps from the point of this index on.
fn rows(view: &RunView, from: usize) -> Vec<Value> {
    let row = |(step, point): (usize, &RunPoint)| match point {
        RunPoint::Start => None,
        RunPoint::Usage(i) => {
            let time = view.usage.get(*i)?.time_ms;
            Some(json!({ "step": step, "seconds": seconds(time), "values": usage(view, *i) }))
        }
        RunPoint::Score(i) => {
            let point = view.scores.get(*i).filter(|point| point.mean.is_finite())?;
            let (trial, metric) = (&point.trial, metric_key(&point.metric));
            let mut values = Map::from_iter([
                (format!("{trial}/{metric}"), json!(point.mean)),
                ("questions".to_owned(), json!(point.questions)),
            ]);
            for (name, value) in [("low", point.low), ("high", point.high)] {
                if let Some(value) = value.filter(|value| value.is_finite()) {
                    values.insert(format!("{trial}/{metric}_{name}"), json!(value));
                }
            }
            Some(json!({ "step": step, "seconds": seconds(point.time_ms), "values": values, "trial": trial }))
        }
    };
    view.points.iter().enumerate().skip(from).filter_map(row).collect()
}

/// The end of a run, with the digest of all that is shown of the run; none while more may come.
fn end(view: &RunView, run: &Value) -> Option<(String, Value)> {
    // A run writes some points after the event that ends it.
    if !view.is_last {
        return None;
    }
    let (state, exit_code) = match view.state {
        // The run has not ended, or its process was killed: `reverie track` shows what is known.
        RunState::Running => ("running", 255),
        RunState::Finished => ("finished", 0),
        RunState::Failed => ("failed", 1),
        // What the clients report after Ctrl-C.
        RunState::Interrupted => ("killed", 255),
    };
    let mut summary = Map::from_iter([("state".to_owned(), json!(state))]);
    let mut values = view.usage.len().checked_sub(1).map(|last| usage(view, last)).unwrap_or_default();
    let (mut table, mut text) = (Value::Null, format!("The run is {state}."));
    if let (Some(results), Some(board)) = (view.results.as_deref(), view.board.as_deref()) {
        summary.extend(outcome(view, results, board));
        values.extend(counts(results, board));
        let (columns, rows) = leaderboard::table(board);
        table = json!({ "columns": columns, "data": rows });
        text = board.verdict.iter().map(|sentence| format!("{sentence}.")).collect::<Vec<_>>().join("\n");
    }
    let shown = json!([run["config"], summary, values, table, rows(view, 0).len()]).to_string();
    let digest = Key::of_bytes(shown.as_bytes()).short();
    let end = json!({
        "step": view.points.len(), "seconds": seconds(view.ended_ms.unwrap_or_default()), "digest": digest,
        "has_ended": view.state != RunState::Running, "exit_code": exit_code, "summary": summary, "values": values,
        "table": table, "text": text,
    });
    Some((digest, end))
}

/// Who won and why, in words.
fn outcome(view: &RunView, results: &Results, board: &Board) -> Map<String, Value> {
    let winner = view.trials.iter().find(|trial| board.winner.as_ref() == Some(&trial.id));
    let known = [
        ("winner", board.winner.clone()),
        ("winner_pipeline", winner.map(|trial| leaderboard::pipeline(trial, &view.trials))),
        ("leads", board.leads.clone()),
        ("no_winner", board.no_winner.clone()),
        ("partial", board.partial.clone()),
        ("verdict", Some(board.verdict.join("; "))),
        ("objective_metrics", Some(results.objective.join(", "))),
    ];
    known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect()
}

/// The numbers of the results.
fn counts(results: &Results, board: &Board) -> Map<String, Value> {
    let best = board.answering.as_ref().and_then(|answering| board.row(&answering.trial));
    let objective = best.and_then(|best| board.cell(best, ColumnKind::Objective, "objective")?.number());
    let known = [
        ("objective", objective),
        ("trials", Some(results.trials.len() as f64)),
        ("questions", Some(results.questions.len() as f64)),
        ("documents", Some(results.documents as f64)),
        ("provider_errors", Some(results.provider_errors as f64)),
        ("function_errors", Some(results.function_errors as f64)),
    ];
    let finite = |(name, value): (&str, Option<f64>)| {
        Some((format!("results/{name}"), json!(value.filter(|value| value.is_finite())?)))
    };
    known.into_iter().filter_map(finite).collect()
}

#[cfg(test)]
mod tests;
