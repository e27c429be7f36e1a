//! Estimates how long the rest of a plan should take: the event logs of the
//! store's earlier runs on this machine say how long each component took for
//! its rows or bytes.

use crate::{
    Error, Prepared, Session,
    layout::{self, RunFile},
    operator::Operator,
    plan::{Plan, TaskId},
    spec::Experiment,
    task::compute,
    work::{MadeOf, Work},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use store::{Event, KeyBuilder};

/// The number of runs whose logs are read, the latest first.
const RUNS: usize = 20;

/// The estimated time of the tasks that are left to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeEstimate {
    /// Seconds of all tasks; none if a component was never run here.
    pub seconds: Option<f64>,
    /// Seconds of the components that were run here before.
    pub known_seconds: f64,
    /// By component, upstream first.
    pub components: Vec<ComponentTime>,
}

/// The estimated time of one component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentTime {
    /// The operator.
    pub operator: Operator,
    /// What it runs: a component, or a model's name.
    pub component: String,
    /// Tasks that are to run.
    pub tasks: usize,
    /// Seconds in which at least one of the tasks runs; none if the component was never run here.
    pub seconds: Option<f64>,
}

/// Names of the components of tasks. Two names are equal if the component and
/// its models have equal settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Components {
    /// Digests of the settings of models and of judging, which hold no secrets.
    models: BTreeMap<String, String>,
    evaluate: Vec<String>,
}

impl Components {
    pub(crate) fn of(experiment: &Experiment) -> Self {
        let root = experiment.comparable();
        let digest = |value: &Value| KeyBuilder::new("model").field("settings", value).finish().short();
        let models = root["models"].as_object().into_iter().flatten();
        let evaluate = &experiment.evaluate;
        Self {
            models: models.map(|(name, settings)| (name.clone(), digest(settings))).collect(),
            evaluate: evaluate.judges.iter().chain(&evaluate.embedder).cloned().collect(),
        }
    }

    /// The name under which the event log keeps the time of a task.
    pub(crate) fn name(&self, work: &Work) -> String {
        let MadeOf { words, settings, models, evaluates } = work.kind().made_of();
        let evaluate = self.evaluate.iter().filter(|_| evaluates).map(String::as_str);
        let models: Vec<_> = models.into_iter().chain(evaluate).map(|model| self.models.get(model)).collect();
        let digest = KeyBuilder::new("component").field("settings", &settings);
        format!("{words} {}", digest.field("models", &models).finish().short())
    }
}

/// The amount of work, in several units; one of them decides how long the work takes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Amount {
    tasks: f64,
    rows: f64,
    bytes: f64,
}

impl Amount {
    fn add(&mut self, more: Self) {
        (self.tasks, self.rows, self.bytes) = (self.tasks + more.tasks, self.rows + more.rows, self.bytes + more.bytes);
    }

    /// The amount in the unit of the operator: text if its bytes are known,
    /// questions if the operator handles questions, otherwise tasks.
    fn of(self, operator: Operator, has_bytes: bool) -> f64 {
        match operator {
            Operator::CHUNK | Operator::EMBED if has_bytes => self.bytes,
            Operator::CHUNK | Operator::EMBED | Operator::Load | Operator::Index => self.tasks,
            _ => self.rows,
        }
    }
}

/// The earlier work of a component.
#[derive(Debug, Default)]
struct Done {
    amount: Amount,
    /// From when to when each task ran, in seconds since 1970.
    spans: Vec<(f64, f64)>,
}

impl Done {
    /// Seconds in which at least one task ran.
    fn seconds(&self) -> f64 {
        let mut spans = self.spans.clone();
        spans.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut sum, mut until) = (0.0, f64::NEG_INFINITY);
        for (from, to) in spans {
            sum += (to - from.max(until)).max(0.0);
            until = until.max(to);
        }
        sum
    }
}

type History = BTreeMap<(Operator, String), Done>;

/// A line of the log about a task that ended well.
#[derive(Deserialize)]
struct Finished {
    operator: Operator,
    component: String,
    seconds: f64,
    rows: f64,
    #[serde(default)]
    resumed: f64,
    #[serde(default)]
    bytes: f64,
}

fn history(runs: &Path) -> History {
    let mut history = History::new();
    for log in latest_logs(runs) {
        let Ok(text) = std::fs::read_to_string(&log) else { continue };
        // Most lines are about other events.
        let told = text.lines().filter(|line| line.contains("\"task_finished\"") && line.contains("\"component\""));
        for event in told.filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
            let Ok(task) = event.parse::<Finished>() else { continue };
            let done = history.entry((task.operator, task.component)).or_default();
            done.amount.add(Amount { tasks: 1.0, rows: task.rows - task.resumed, bytes: task.bytes });
            let end = event.time_ms as f64 / 1e3;
            done.spans.push((end - task.seconds, end));
        }
    }
    history
}

fn latest_logs(runs: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().filter_map(Result::ok);
    let logs = entries.map(|entry| RunFile::Events.within(&entry.path()));
    let mut logs: Vec<_> = logs.filter_map(|log| Some((log.metadata().ok()?.modified().ok()?, log))).collect();
    logs.sort_by(|one, other| other.cmp(one));
    logs.into_iter().take(RUNS).map(|(_, log)| log).collect()
}

/// How long the tasks that are to run should take.
pub(crate) async fn time(session: &Session, prepared: &Prepared, to_run: &[TaskId]) -> Result<TimeEstimate, Error> {
    let runs = layout::runs_folder(session.workspace().root());
    let history = compute(move || history(&runs)).await?;
    Ok(estimate(&prepared.plan, prepared.execution.components(), prepared.text_bytes, to_run, &history))
}

fn estimate(
    plan: &Plan,
    components: &Components,
    text_bytes: usize,
    to_run: &[TaskId],
    history: &History,
) -> TimeEstimate {
    let shards = plan.tasks.iter().filter(|task| task.operator() == Operator::Load).count().max(1);
    let mut left: BTreeMap<(Operator, String), (String, Amount)> = BTreeMap::new();
    for task in to_run.iter().map(|&id| &plan.tasks[id]) {
        let amount =
            Amount { tasks: 1.0, rows: task.rows.unwrap_or_default() as f64, bytes: text_bytes as f64 / shards as f64 };
        let name = (task.operator(), components.name(&task.work));
        left.entry(name).or_insert_with(|| (task.work.kind().made_of().words, Amount::default())).1.add(amount);
    }
    let components: Vec<ComponentTime> = left
        .into_iter()
        .map(|((operator, name), (words, amount))| {
            let done = history.get(&(operator, name));
            let seconds = done.and_then(|done| {
                let has_bytes = done.amount.bytes > 0.0;
                let all = done.amount.of(operator, has_bytes);
                (all > 0.0).then(|| done.seconds() / all * amount.of(operator, has_bytes))
            });
            ComponentTime { operator, component: words, tasks: amount.tasks as usize, seconds }
        })
        .collect();
    TimeEstimate {
        seconds: components.iter().map(|component| component.seconds).sum::<Option<f64>>().map(|sum| sum + 0.0),
        known_seconds: components.iter().filter_map(|component| component.seconds).sum::<f64>() + 0.0,
        components,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::EmbedQueries;
    use serde_json::json;
    use store::EventLog;

    #[test]
    fn tasks_that_ran_side_by_side_took_the_time_of_one() {
        let spans = vec![(0.0, 10.0), (2.0, 8.0), (5.0, 12.0), (20.0, 21.0)];
        assert_eq!(Done { amount: Amount::default(), spans }.seconds(), 13.0);
    }

    #[test]
    fn the_log_tells_how_long_a_component_took_for_what_it_did_itself() {
        let runs = tempfile::tempdir().unwrap();
        let log = EventLog::open(runs.path().join("x-1/events.jsonl")).unwrap();
        let told = |time_ms, fields: Value| log.append(&Event::new(time_ms, "task_finished").with(&fields)).unwrap();
        told(
            10_000,
            json!({ "operator": "embed", "component": "m 1", "seconds": 4.0, "rows": 50, "bytes": 800, "resumed": 10 }),
        );
        told(20_000, json!({ "operator": "embed", "component": "m 1", "seconds": 6.0, "rows": 60, "bytes": 1200 }));
        told(20_000, json!({ "operator": "embed", "seconds": 6.0, "rows": 60 }));
        let history = history(runs.path());
        let done = &history[&(Operator::EMBED, "m 1".to_owned())];
        assert_eq!(done.amount, Amount { tasks: 2.0, rows: 100.0, bytes: 2000.0 });
        assert_eq!((done.seconds(), history.len()), (10.0, 1));
    }

    #[test]
    fn other_settings_or_models_are_other_components_and_secrets_are_no_part_of_their_names() {
        let components = |key: &str, size: usize| {
            let text = format!(
                "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.m]\nembedding.openai = {{ model = \"m\", base_url = \
                 \"http://127.0.0.1:1\", batch_size = {size}, headers = {{ x-key = \"{key}\" }} }}\n[space]\nchunker = \
                 \"sentence\"\nretriever = \"bm25\"\n"
            );
            Components::of(&Experiment::parse(&text, ".").unwrap())
        };
        let name = |components: Components| {
            components.name(&EmbedQueries { model: "m".to_owned(), queries: None, standalone: false }.into())
        };
        assert_eq!(name(components("secret", 1)), name(components("renewed", 1)));
        assert_ne!(name(components("secret", 1)), name(components("secret", 2)));
    }
}
