//! How a run is doing now, for whoever watches it from another process.
//!
//! The process of the run writes one object into its store each second, [`LiveRun`], whole each time. So a page that opens
//! late sees everything at once, any number of pages costs the run nothing, and a run on a cluster is watched in the same
//! way as one on this machine.

use crate::{
    Error, PreparedRun, Session,
    budget::BudgetResult,
    clock::now_ms,
    layout,
    operator::Operator,
    plan::Plan,
    progress::{ModelTraffic, OperatorProgress, Progress},
    steering::{AppliedAct, Steering, posted_acts},
    task::RunContext,
    track::{Observer, RunReader, TaskFailure},
};
use models::{Budget, Caps, SpentTotals};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::ArtifactStore;
use tokio::{sync::oneshot, task::JoinHandle};

/// How often the object is written: in a folder, in an object store.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// When it is written first. A run whose tasks are all in the store has ended by then.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A running run that has written nothing for this long has ended without saying so, or cannot reach its store.
const STALLED_AFTER_MS: i64 = 20_000;
/// The most points of the history. If there are more, every second one is dropped.
const MOST_POINTS: usize = 600;
/// The most kinds of failures.
const MOST_FAILURES: usize = 50;
/// The most characters of a failure's reason.
const LONGEST_REASON: usize = 2000;
/// The most bytes of the object.
const MOST_BYTES: u64 = 64 << 20;

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveState {
    /// It is at work.
    Running,
    /// A person has paused it.
    Paused,
    /// It came to its end.
    Finished,
    /// A person stopped it; the next run continues.
    Interrupted,
    /// It could not go on.
    Failed,
    /// It has written nothing for a while: its process was killed, or its store cannot be reached.
    Stalled,
}

impl LiveState {
    /// Whether a process is at work on the run.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }
}

/// How a run is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveRun {
    /// The run's id.
    pub run: String,
    /// The experiment's name.
    pub experiment: String,
    /// Its state.
    pub state: LiveState,
    /// When this start of it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// When this was written, in milliseconds since 1970.
    pub written_ms: i64,
    /// Why it ended, if it failed.
    #[serde(default)]
    pub note: Option<String>,
    /// The id of the run as which it went on, if a person has changed its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_as: Option<String>,
    /// The operators, from upstream to downstream.
    #[serde(default, deserialize_with = "known_items")]
    pub operators: Vec<OperatorProgress>,
    /// Which operator's outputs go to which.
    #[serde(default, deserialize_with = "known_items")]
    pub flow: Vec<(Operator, Operator)>,
    /// The models that were called.
    #[serde(default, deserialize_with = "known_items")]
    pub models: Vec<ModelTraffic>,
    /// What was spent, and the caps.
    pub spending: LiveSpending,
    /// Trackers that are behind, and stages without a worker.
    #[serde(default)]
    pub problems: Vec<LiveProblem>,
    /// What went wrong, in order.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Tasks that failed, by operator and reason, the most frequent first.
    #[serde(default, deserialize_with = "known_items")]
    pub failures: Vec<LiveFailure>,
    /// The metrics whose mean compares trials.
    #[serde(default)]
    pub objective: Vec<String>,
    /// The trials, in the order of the experiment.
    #[serde(default, deserialize_with = "known_items")]
    pub trials: Vec<LiveTrial>,
    /// What people did to the run.
    #[serde(default, deserialize_with = "known_items")]
    pub acts: Vec<AppliedAct>,
    /// How it was going before.
    #[serde(default)]
    pub history: LiveHistory,
}

/// Reads a list without the items that this version does not know: the process of the run may be of another version, and
/// whoever watches it should see the rest.
fn known_items<'de, D: Deserializer<'de>, T: DeserializeOwned>(list: D) -> Result<Vec<T>, D::Error> {
    let items = Vec::<Value>::deserialize(list)?;
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

/// What a run has spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveSpending {
    /// Calls that models answered.
    pub calls: u64,
    /// Tokens read and written.
    pub tokens: u64,
    /// US dollars.
    pub cost_usd: f64,
    /// The caps of the run.
    pub caps: Caps,
    /// Why calls are no longer made, if a cap is reached.
    pub reached: Option<String>,
}

/// Something that is behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveProblem {
    /// What.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Tasks, or rows of tasks, that failed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveFailure {
    /// The kind of work.
    pub operator: Operator,
    /// Why.
    pub reason: String,
    /// How many tasks and rows.
    pub count: usize,
    /// The first of them.
    pub example: String,
}

/// A trial of a run that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveTrial {
    /// Its id.
    pub trial: String,
    /// Its value on each axis.
    pub labels: BTreeMap<String, String>,
    /// What becomes of it.
    pub state: LiveTrialState,
    /// Its means so far, by metric.
    pub scores: BTreeMap<String, LiveScore>,
}

/// What becomes of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveTrialState {
    /// It has no scores yet.
    Waiting,
    /// It has some scores.
    Running,
    /// All its scores are there.
    Finished,
    /// A person stopped it.
    Stopped,
}

/// A mean of some scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LiveScore {
    /// The mean.
    pub mean: f64,
    /// The low end of its 95 % interval over questions.
    pub low: Option<f64>,
    /// The high end.
    pub high: Option<f64>,
    /// Questions that have a score or should have one.
    pub questions: usize,
}

/// Numbers of a run over time; lists of one length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveHistory {
    /// When, in milliseconds since 1970.
    pub time_ms: Vec<i64>,
    /// Calls in flight, over all models.
    pub in_flight: Vec<f64>,
    /// How many may be in flight.
    pub target: Vec<f64>,
    /// Tokens per second.
    pub tokens_per_second: Vec<f64>,
    /// US dollars spent.
    pub cost_usd: Vec<f64>,
    /// The share of attempts that were refused, in [0, 1].
    pub refused_share: Vec<f64>,
}

impl LiveHistory {
    fn add(&mut self, time_ms: i64, models: &[ModelTraffic], cost_usd: f64) {
        let sum = |of: fn(&ModelTraffic) -> f64| models.iter().map(of).sum::<f64>() + 0.0;
        let lists = [
            (&mut self.in_flight, sum(|model| model.in_flight as f64)),
            (&mut self.target, sum(|model| model.target as f64)),
            (&mut self.tokens_per_second, sum(|model| model.tokens_per_second)),
            (&mut self.cost_usd, cost_usd),
            (&mut self.refused_share, models.iter().map(|model| model.refused_share).fold(0.0, f64::max)),
        ];
        self.time_ms.push(time_ms);
        let is_full = self.time_ms.len() > MOST_POINTS;
        for (list, value) in lists {
            list.push(value);
            if is_full {
                *list = list.iter().copied().step_by(2).collect();
            }
        }
        if is_full {
            self.time_ms = self.time_ms.iter().copied().step_by(2).collect();
        }
    }
}

/// Reads how a run is doing; none if it wrote nothing. What is said of a run whose process died is corrected.
///
/// # Errors
/// If the store cannot be read, or the object is damaged.
pub(crate) async fn read_live(store: &ArtifactStore, run: &str) -> Result<Option<LiveRun>, Error> {
    let Some(bytes) = store.get_at_most(&layout::live(run), MOST_BYTES).await? else { return Ok(None) };
    let unreadable = |error| {
        Error::Unusable(format!(
            "the state of the run `{run}` cannot be read: its file is damaged, or another version of reverie wrote it \
             ({error})"
        ))
    };
    let mut live: LiveRun = serde_json::from_slice(&bytes).map_err(unreadable)?;
    if live.state.is_live() && now_ms() - live.written_ms > STALLED_AFTER_MS {
        live.state = LiveState::Stalled;
    }
    if live.state.is_live() {
        // Acts that the run has not read yet, or is at work on. Acts of earlier starts were posted before this one began.
        let applied: BTreeSet<u64> = live.acts.iter().map(|act| act.number).collect();
        let first = applied.first().copied().unwrap_or_default();
        let after = (first..).find(|number| !applied.contains(&(number + 1))).unwrap_or_default();
        let posted = posted_acts(store, run, after).await?;
        let is_new = |act: &crate::PostedAct| act.time_ms >= live.started_ms && !applied.contains(&act.number);
        let pending: Vec<AppliedAct> = posted.into_iter().filter(is_new).map(AppliedAct::pending).collect();
        live.acts.extend(pending);
    }
    Ok(Some(live))
}

/// Writes how a run is doing, until it is told how the run ended.
pub(crate) struct LiveWriter {
    end: Option<oneshot::Sender<LiveEnd>>,
    task: JoinHandle<()>,
}

/// How a run ended.
#[derive(Debug, Clone)]
struct LiveEnd {
    state: LiveState,
    /// Why, if it failed.
    note: Option<String>,
    continued_as: Option<String>,
}

impl LiveWriter {
    /// Begins to write.
    pub(crate) fn start(session: &Session, prepared: &PreparedRun) -> Self {
        let (end, mut ended) = oneshot::channel();
        let store = session.workspace().store().clone();
        let pause = PAUSES[usize::from(store.is_remote())];
        let folder = session.workspace().run_folder(&prepared.run);
        let mut state = LiveObserver {
            reader: Some(RunReader::new(folder, &prepared.run, session.experiment.clone())),
            observer: Observer::new(prepared, session.setup().control.progress.clone()),
            run_context: prepared.run_context.clone(),
            progress: session.setup().control.progress.clone(),
            steering: session.setup().control.steering.clone(),
            budget: session.budget().clone(),
            before: session.budget().spent(),
            flow: flow(&prepared.plan),
            trials: prepared.trials.iter().map(|trial| (trial.id.clone(), trial.labels.clone())).collect(),
            metrics: session.experiment.evaluate.metrics.len(),
            objective: session.experiment.evaluate.objective.clone(),
            started_ms: now_ms(),
            history: LiveHistory::default(),
            failures: BTreeMap::new(),
        };
        let name = layout::live(&prepared.run);
        let task = tokio::spawn(async move {
            let mut next = FIRST_PAUSE;
            loop {
                let end = tokio::select! {
                    () = tokio::time::sleep(std::mem::replace(&mut next, pause)) => None,
                    ended = &mut ended => {
                        let lost = LiveEnd { state: LiveState::Interrupted, note: None, continued_as: None };
                        Some(ended.unwrap_or(lost))
                    }
                };
                let live = state.look(end.clone()).await;
                if let Ok(bytes) = serde_json::to_vec(&live) {
                    // A store that is away gets the next one.
                    let _ = store.replace(&name, bytes).await;
                }
                if end.is_some() {
                    return;
                }
            }
        });
        Self { end: Some(end), task }
    }

    /// Writes once more: how the run ended, and as which run it goes on.
    pub(crate) async fn finish<T>(mut self, result: &Result<T, Error>, continued_as: Option<String>) {
        let (state, note) = match result {
            Ok(_) => (LiveState::Finished, None),
            Err(Error::Interrupted | Error::Continued(_)) => (LiveState::Interrupted, None),
            Err(error) => (LiveState::Failed, Some(crate::error_chain(error))),
        };
        if let Some(end) = self.end.take() {
            let _ = end.send(LiveEnd { state, note, continued_as });
        }
        let _ = tokio::time::timeout(Duration::from_secs(10), self.task).await;
    }
}

/// What the process of a run knows of it.
struct LiveObserver {
    /// None while another thread reads.
    reader: Option<RunReader>,
    observer: Observer,
    run_context: Arc<RunContext>,
    progress: Progress,
    steering: Steering,
    budget: Budget,
    /// What was spent before: the run goes on with one budget after its plan was changed, and with a new client.
    before: SpentTotals,
    flow: Vec<(Operator, Operator)>,
    trials: Vec<(String, BTreeMap<String, String>)>,
    metrics: usize,
    objective: Vec<String>,
    started_ms: i64,
    history: LiveHistory,
    failures: BTreeMap<(Operator, String), (usize, String)>,
}

impl LiveObserver {
    /// Writes the scores and the spending that are new into the event log, and returns how the run is doing.
    async fn look(&mut self, end: Option<LiveEnd>) -> LiveRun {
        let mut scores = Vec::new();
        if let Some(mut reader) = self.read().await {
            self.observer.observe(&mut reader).await;
            self.reader = Some(reader);
        }
        if let Some(mut reader) = self.read().await {
            for TaskFailure { operator, reason, label, count } in reader.take_failures() {
                let reason: String = reason.chars().take(LONGEST_REASON).collect();
                self.failures.entry((operator, reason)).or_insert((0, label)).0 += count;
            }
            scores = reader.last_scores();
            self.reader = Some(reader);
        }
        let (operators, models) = (self.progress.snapshot(), self.progress.models());
        let total = self.run_context.models().client().meter().total();
        let (calls, tokens) = (self.before.calls + total.calls, self.before.tokens + total.tokens());
        let cost_usd = self.before.usd + total.cost_usd;
        let now = now_ms();
        self.history.add(now, &models, cost_usd);
        let going_on = if self.steering.is_paused() { LiveState::Paused } else { LiveState::Running };
        let LiveEnd { state, note, continued_as } =
            end.unwrap_or(LiveEnd { state: going_on, note: None, continued_as: None });
        let problems = self.progress.problems().into_iter();
        LiveRun {
            run: self.run_context.run.clone(),
            experiment: self.run_context.experiment.name.clone(),
            state,
            started_ms: self.started_ms,
            written_ms: now,
            note,
            continued_as,
            operators,
            flow: self.flow.clone(),
            models,
            spending: LiveSpending {
                calls,
                tokens,
                cost_usd,
                caps: self.budget.caps(),
                reached: BudgetResult::of(&self.budget).and_then(|budget| budget.partial()),
            },
            problems: problems.map(|(name, reason)| LiveProblem { name, reason }).collect(),
            warnings: self.progress.warnings(),
            failures: self.failures(),
            objective: self.objective.clone(),
            trials: self.trials(&scores),
            acts: self.steering.applied(),
            history: self.history.clone(),
        }
    }

    /// Reads the event log on another thread: it may be long, and a disk slow.
    async fn read(&mut self) -> Option<RunReader> {
        let mut reader = self.reader.take()?;
        tokio::task::spawn_blocking(move || {
            // A log that cannot be read now is read the next time.
            let _ = reader.catch_up();
            reader
        })
        .await
        .ok()
    }

    fn failures(&self) -> Vec<LiveFailure> {
        let failure = |((operator, reason), (count, example)): (&(Operator, String), &(usize, String))| LiveFailure {
            operator: *operator,
            reason: reason.clone(),
            count: *count,
            example: example.clone(),
        };
        let mut failures: Vec<LiveFailure> = self.failures.iter().map(failure).collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        failures.truncate(MOST_FAILURES);
        failures
    }

    fn trials(&self, scores: &[crate::track::ScorePoint]) -> Vec<LiveTrial> {
        let mut by_trial: BTreeMap<&str, BTreeMap<String, LiveScore>> = BTreeMap::new();
        for point in scores {
            let score = LiveScore { mean: point.mean, low: point.low, high: point.high, questions: point.questions };
            by_trial.entry(&point.trial).or_default().insert(point.metric.clone(), score);
        }
        let stopped = self.steering.stopped_trials();
        let trial = |(id, labels): &(String, BTreeMap<String, String>)| {
            let scores = by_trial.remove(id.as_str()).unwrap_or_default();
            let state = match scores.len() {
                _ if stopped.contains_key(id) => LiveTrialState::Stopped,
                0 => LiveTrialState::Waiting,
                n if n >= self.metrics => LiveTrialState::Finished,
                _ => LiveTrialState::Running,
            };
            LiveTrial { trial: id.clone(), labels: labels.clone(), state, scores }
        };
        self.trials.iter().map(trial).collect()
    }
}

/// Which operator's outputs go to which.
fn flow(plan: &Plan) -> Vec<(Operator, Operator)> {
    let mut flow = BTreeSet::new();
    for task in &plan.tasks {
        for input in task.inputs() {
            let (from, to) = (plan.tasks[input].operator(), task.operator());
            if from != to {
                flow.insert((from, to));
            }
        }
    }
    flow.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn model(in_flight: usize, refused_share: f64) -> ModelTraffic {
        ModelTraffic {
            name: "chat m".to_owned(),
            in_flight,
            target: 8,
            waiting: 0,
            answered: 1,
            goodput: 1.0,
            tokens_per_second: 10.0,
            refused_share,
        }
    }

    #[test]
    fn a_state_of_another_version_is_read_without_what_is_not_known() {
        let act =
            |act: Value| json!({ "number": 1, "time_ms": 1, "by": "a", "act": act, "outcome": null, "refused": false });
        let text = json!({
            "run": "zoo-1", "experiment": "zoo", "state": "running", "started_ms": 1, "written_ms": 2, "mood": "fine",
            "spending": { "calls": 0, "tokens": 0, "cost_usd": 0.0, "caps": {}, "reached": null },
            "acts": [act(json!({ "act": "teleport" })), act(json!({ "act": "pause" }))],
            "flow": [["load", "levitate"], ["load", "score"]],
        });
        let live: LiveRun = serde_json::from_value(text.clone()).unwrap();
        let acts: Vec<String> = live.acts.iter().map(|applied| applied.act.to_string()).collect();
        assert_eq!((acts, live.flow), (vec!["pause".to_owned()], vec![(Operator::Load, Operator::Score)]));
        assert_eq!((live.operators, live.trials, live.history), (vec![], vec![], LiveHistory::default()));
        let mut unknown = text;
        unknown["state"] = json!("dreaming");
        assert!(serde_json::from_value::<LiveRun>(unknown).is_err());
    }

    #[test]
    fn a_long_history_keeps_its_beginning_and_its_end_and_stays_short() {
        let mut history = LiveHistory::default();
        for time in 0..5000 {
            history.add(time, &[model(1, 0.25), model(2, 0.5)], time as f64);
        }
        let n = history.time_ms.len();
        assert!(n <= MOST_POINTS && n > MOST_POINTS / 4, "{n}");
        assert_eq!((history.time_ms[0], history.time_ms[n - 1] >= 4980), (0, true));
        assert!(history.time_ms.is_sorted());
        for list in
            [&history.in_flight, &history.target, &history.tokens_per_second, &history.cost_usd, &history.refused_share]
        {
            assert_eq!(list.len(), n);
        }
        assert_eq!((history.in_flight[0], history.target[0], history.refused_share[0]), (3.0, 16.0, 0.5));
    }
}
