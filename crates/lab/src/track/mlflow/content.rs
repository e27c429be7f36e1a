//! The content of an MLflow run and of its trials, in a form in which MLflow's
//! compare page and its parallel coordinates work: the same parameters for
//! every trial, each of one type; only finite numbers; only names that MLflow
//! accepts.

use super::files::{self, ArtifactFile};
use crate::{
    board::{Board, Cell, ColumnKind},
    plan::{Trial, TrialKind},
    results::Results,
    spec::legal_key,
    track::{DataVersion, RunState, RunView, leaderboard::pipeline},
    warning::Warning,
};
use rag::PipelineConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The tags by which runs are found.
pub(super) const RUN: &str = "reverie.run";
pub(super) const TRIAL: &str = "reverie.trial";
/// The tag that lists the files of a run and their digests.
pub(super) const FILES: &str = "reverie.files";

/// The longest that older servers accept.
const LONGEST_PARAM: usize = 500;
const LONGEST_TAG: usize = 5000;
/// The most trials in the note of a run.
const NOTED: usize = 20;

/// By step, a value and its time.
type Points = BTreeMap<i64, (f64, i64)>;

/// The wanted state of one MLflow run.
#[derive(Debug, Clone, Default)]
pub(super) struct WantedRun {
    pub(super) name: String,
    pub(super) user: String,
    pub(super) start_ms: i64,
    pub(super) status: &'static str,
    pub(super) end_ms: Option<i64>,
    /// The tags by which the run is found.
    pub(super) identifying_tags: BTreeMap<String, String>,
    pub(super) params: BTreeMap<String, String>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) metrics: BTreeMap<String, Points>,
    pub(super) inputs: Vec<Value>,
    pub(super) files: Vec<ArtifactFile>,
    /// Whether everything is known; tags that are not in this state are then outdated.
    pub(super) complete: bool,
}

/// A metric's key. A slash would begin a group.
fn metric_key(label: &str) -> String {
    legal_key(label).replace('/', "_")
}

impl WantedRun {
    fn new(view: &RunView, name: String, tags: &BTreeMap<String, String>, user: Option<&str>) -> Self {
        let (status, end_ms) = match view.state {
            RunState::Running => ("RUNNING", None),
            RunState::Finished => ("FINISHED", view.ended_ms),
            RunState::Interrupted => ("KILLED", view.ended_ms),
            RunState::Failed => ("FAILED", view.ended_ms),
        };
        let mut wanted = Self {
            name,
            user: user.unwrap_or_default().to_owned(),
            start_ms: view.started_ms,
            status,
            end_ms,
            complete: view.results.is_some(),
            ..Self::default()
        };
        wanted.identifying_tags.insert(RUN.to_owned(), view.run.clone());
        for (key, value) in tags {
            wanted.tag(key, value);
        }
        wanted.tag("mlflow.source.name", "reverie");
        wanted.tag("mlflow.source.type", "LOCAL");
        if let Some(user) = user {
            wanted.tag("mlflow.user", user);
        }
        wanted.inputs = inputs(view);
        wanted
    }

    fn with_identifying_tags(mut self) -> Self {
        self.tags.extend(self.identifying_tags.clone());
        self
    }

    fn tag(&mut self, key: &str, value: &str) {
        self.tags.insert(key.to_owned(), value.chars().take(LONGEST_TAG).collect());
    }

    /// Adds a value, unless it is not a finite number.
    fn point(&mut self, key: &str, step: i64, value: impl Into<Option<f64>>, time_ms: i64) {
        if let Some(value) = value.into().filter(|value: &f64| value.is_finite()) {
            // The sum of nothing is -0, which comes back as 0.
            self.metrics.entry(key.to_owned()).or_default().insert(step, (value + 0.0, time_ms));
        }
    }
}

/// The state of the run for the whole experiment.
pub(super) fn parent(view: &RunView, tags: &BTreeMap<String, String>, user: Option<&str>) -> WantedRun {
    let mut wanted = WantedRun::new(view, view.run.clone(), tags, user);
    let experiment = &view.experiment;
    wanted.tag("reverie.experiment", &experiment.name);
    wanted.tag("reverie.search", experiment.search.name());
    for point in &view.usage {
        let counts = [("tasks_finished", point.tasks), ("calls", point.calls), ("tokens", point.tokens)];
        for (key, count) in counts {
            wanted.point(key, point.step, count as f64, point.time_ms);
        }
        wanted.point("cost_usd", point.step, point.cost_usd, point.time_ms);
    }
    let (Some(results), Some(board)) = (view.results.as_deref(), view.board.as_deref()) else {
        return wanted.with_identifying_tags();
    };
    let time = results.time_ms;
    wanted.point("trials", 0, results.trials.len() as f64, time);
    wanted.point("questions", 0, results.questions.len() as f64, time);
    wanted.point("documents", 0, results.documents as f64, time);
    wanted.point("provider_errors", 0, results.provider_errors as f64, time);
    wanted.point("function_errors", 0, results.function_errors as f64, time);
    if let Some(best) = board.answering.as_ref().and_then(|answering| board.row(&answering.trial)) {
        wanted.point("objective", 0, board.cell(best, ColumnKind::Objective, "objective").and_then(Cell::number), time);
    }
    wanted.tag("reverie.verdict", &board.verdict.join("; "));
    let winner = view.trials.iter().find(|trial| board.winner.as_ref() == Some(&trial.id));
    for (key, value) in [
        ("reverie.winner", &board.winner),
        ("reverie.winner.pipeline", &winner.map(|trial| pipeline(trial, &view.trials))),
        ("reverie.leads", &board.leads),
        ("reverie.no_winner", &board.no_winner),
        ("reverie.partial", &board.partial),
    ] {
        value.iter().for_each(|value| wanted.tag(key, value));
    }
    if !board.warnings.is_empty() {
        wanted.tag("reverie.warnings", &warnings_text(board.warnings.iter()));
    }
    wanted.tag("reverie.objective", &results.objective.join(", "));
    wanted.tag("mlflow.note.content", &note(view, board));
    wanted.files = files::of_run(view, results, board);
    wanted.tag("mlflow.loggedArtifacts", &files::tables(&wanted.files));
    wanted.with_identifying_tags()
}

/// The trials about which something is known.
pub(super) fn shown_trials(view: &RunView) -> impl Iterator<Item = &Trial> {
    view.trials.iter().filter(|trial| {
        let found = view.results.as_ref().is_some_and(|results| results.trial(&trial.id).is_ok());
        found || view.scores.iter().any(|point| point.trial == trial.id)
    })
}

/// The state of one trial's run, below the parent with this id.
pub(super) fn trial(
    view: &RunView,
    trial: &Trial,
    parent: &str,
    tags: &BTreeMap<String, String>,
    user: Option<&str>,
) -> WantedRun {
    let pipeline = pipeline(trial, &view.trials);
    let mut wanted = WantedRun::new(view, format!("{} {pipeline}", trial.id).trim().to_owned(), tags, user);
    wanted.identifying_tags.insert(TRIAL.to_owned(), trial.id.clone());
    wanted.identifying_tags.insert("mlflow.parentRunId".to_owned(), parent.to_owned());
    wanted.params = params(trial, &view.trials);
    for ((metric, questions), point) in view.scores_of(&trial.id) {
        wanted.point(&metric_key(metric), questions as i64, point.mean, point.time_ms);
    }
    if let (Some(results), Some(board)) = (view.results.as_deref(), view.board.as_deref())
        && let Some(rank) = results.trials.iter().position(|found| found.trial.id == trial.id)
    {
        add_results(&mut wanted, view, results, board, rank);
    }
    wanted.with_identifying_tags()
}

/// Adds the results of the trial of this rank, counted from 0.
fn add_results(wanted: &mut WantedRun, view: &RunView, results: &Results, board: &Board, rank: usize) {
    let (time, found, row) = (results.time_ms, &results.trials[rank], &board.rows[rank]);
    for (metric, summary) in &found.metrics {
        let (key, step) = (metric_key(metric), (summary.n_scored + summary.n_failed) as i64);
        wanted.point(&key, step, summary.mean, time);
        wanted.point(&format!("n/{key}"), step, summary.n_scored as f64, time);
        wanted.point(&format!("low/{key}"), step, summary.low, time);
        wanted.point(&format!("high/{key}"), step, summary.high, time);
        if let Some(Cell::Scores(scores)) = board.cell(row, ColumnKind::Metric, metric)
            && let Some(missing) = &scores.missing
        {
            wanted.tag(&format!("reverie.missing.{key}"), missing);
        }
    }
    if let Some(objective) = &found.objective {
        wanted.point("objective", 0, objective.mean, time);
        wanted.point("low/objective", 0, objective.low, time);
        wanted.point("high/objective", 0, objective.high, time);
    }
    if let Some(test) = &found.test {
        wanted.point("test/objective", 0, test.mean, time);
    }
    wanted.point("cost_usd", 0, found.cost_usd, time);
    wanted.point("index_cost_usd", 0, found.index_cost_usd, time);
    wanted.point("latency_p50", 0, found.latency_p50, time);
    wanted.point("latency_p95", 0, found.latency_p95, time);
    wanted.point("tokens_per_answer", 0, found.tokens, time);
    wanted.point("p_value", 0, found.p_value, time);
    wanted.point("rank", 0, (rank + 1) as f64, time);
    wanted.tag("reverie.verdict", row.standing.name());
    if let Some(reason) = &row.stopped {
        wanted.tag("reverie.stopped", reason);
    }
    let mut warnings = board.warnings.iter().filter(|warning| warning.trials.contains(&row.id)).peekable();
    if warnings.peek().is_some() {
        wanted.tag("reverie.warnings", &warnings_text(warnings));
    }
    if !found.failures.is_empty() {
        wanted.tag("reverie.failures", &found.failures.join("\n"));
        wanted.status = "FAILED";
    }
    wanted.files = files::questions_of(results, found, &view.folder).into_iter().collect();
    wanted.tag("mlflow.loggedArtifacts", &files::tables(&wanted.files));
}

/// A line for each warning: its code and its sentence.
fn warnings_text<'a>(warnings: impl Iterator<Item = &'a Warning>) -> String {
    let lines = warnings.map(|warning| format!("{}: {}", warning.code.name(), warning.text));
    lines.collect::<Vec<_>>().join("\n")
}

/// One parameter for each axis, and one for each setting that all trials have
/// with the same type: MLflow's plots leave out runs that lack one, and read
/// a parameter as numbers only where all are numbers.
fn params(trial: &Trial, trials: &[Trial]) -> BTreeMap<String, String> {
    let own = settings(trial);
    let others: Vec<_> = trials.iter().map(settings).collect();
    let everywhere = |key: &str, value: &Value| {
        others.iter().all(|other| {
            other.get(key).is_some_and(|other| std::mem::discriminant(other) == std::mem::discriminant(value))
        })
    };
    let shared =
        own.iter().filter(|(key, value)| everywhere(key, value)).map(|(key, value)| (key.clone(), super::text(value)));
    let mut params: BTreeMap<String, String> = shared.filter(|(_, value)| !value.is_empty()).collect();
    params.extend(trial.labels.iter().map(|(axis, label)| (axis.clone(), label.clone())));
    params.into_iter().map(|(key, value)| (legal_key(&key), value.chars().take(LONGEST_PARAM).collect())).collect()
}

/// Numbers, texts and switches of a trial's components: `chunker.chunk_size`.
fn settings(trial: &Trial) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    if let TrialKind::System(system) = &trial.kind {
        settings.extend(system.parameters.iter().map(|(key, value)| (format!("system.{key}"), value.clone())));
    }
    for (axis, component) in trial.pipeline().into_iter().flat_map(PipelineConfig::values) {
        let Value::Object(named) = component.value() else { continue };
        for (key, value) in named.values().filter_map(Value::as_object).flatten() {
            if value.is_number() || value.is_string() || value.is_boolean() {
                settings.insert(format!("{}.{key}", axis.name()), value.clone());
            }
        }
    }
    settings
}

/// The golden questions and the corpus, as MLflow's inputs.
fn inputs(view: &RunView) -> Vec<Value> {
    let name = |data: &DataVersion, fallback: &str| {
        let last = data.source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let name = if last.is_empty() || last == "." { fallback } else { last };
        name.chars().take(500).collect::<String>()
    };
    let input = |data: &DataVersion, fallback: &str, context: &str, schema: Value, profile: Value| {
        let kind = if data.source.starts_with("s3://") { "s3" } else { "local" };
        json!({
            "dataset": {
                "name": name(data, fallback),
                "digest": data.version.chars().take(36).collect::<String>(),
                "source_type": kind,
                "source": json!({ "uri": data.source }).to_string(),
                "schema": schema.to_string(),
                "profile": profile.to_string(),
            },
            "tags": [{ "key": "mlflow.data.context", "value": context }],
        })
    };
    let column = |name: &str, kind: &str, required: bool| json!({ "name": name, "type": kind, "required": required });
    let golden = view.dataset.as_ref().map(|data| {
        let columns = [
            column("id", "string", true),
            column("question", "string", true),
            column("reference", "string", false),
            column("answerable", "boolean", false),
        ];
        input(data, "golden", "eval", json!({ "mlflow_colspec": columns }), json!({ "num_rows": data.rows }))
    });
    let corpus = view.corpus.as_ref().map(|data| {
        let columns = [column("path", "string", true), column("text", "string", true)];
        let profile = json!({ "num_rows": data.rows, "text_bytes": data.bytes });
        input(data, "corpus", "corpus", json!({ "mlflow_colspec": columns }), profile)
    });
    golden.into_iter().chain(corpus).collect()
}

/// The note that people read on the run's page.
fn note(view: &RunView, board: &Board) -> String {
    let mut lines: Vec<String> = board.verdict.iter().map(|sentence| format!("{sentence}.")).collect();
    let trial_of = |id: &String| view.trials.iter().find(|trial| trial.id == *id);
    if let Some(trial) = board.leads.as_ref().and_then(trial_of) {
        lines.insert(0, format!("**{}** {}", trial.id, pipeline(trial, &view.trials)));
    }
    lines.push(String::new());
    if let Some(partial) = &board.partial {
        lines.extend([format!("Partial: {partial}"), String::new()]);
    }
    let metrics = board.columns.iter().filter(|column| column.kind == ColumnKind::Metric);
    let names: Vec<&str> = metrics.map(|column| column.name.as_str()).collect();
    lines.push(format!("| trial | pipeline | objective | {} |", names.join(" | ")));
    lines.push(format!("|---|---|---|{}", "---|".repeat(names.len())));
    for row in board.rows.iter().take(NOTED) {
        let shown = |kind, name: &str| {
            let mean = board.cell(row, kind, name).and_then(Cell::number);
            mean.map_or_else(|| "–".to_owned(), |mean| format!("{mean:.3}"))
        };
        lines.push(format!(
            "| {} | {} | {} | {} |",
            row.id,
            trial_of(&row.id).map_or_else(String::new, |trial| pipeline(trial, &view.trials)).replace('|', "/"),
            shown(ColumnKind::Objective, "objective"),
            names.iter().map(|name| shown(ColumnKind::Metric, name)).collect::<Vec<_>>().join(" | ")
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
