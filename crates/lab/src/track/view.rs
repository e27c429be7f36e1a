//! The view of a run, read from its folder: the event log, the results, the
//! report. Each look reads only the new lines of the log.

use crate::{
    Error, board::Board, layout::RunFileName, operator::Operator, plan::trial, results::Results, spec::Experiment,
    task::RowFailure,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};
use store::Event;

/// The state of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunState {
    /// It is running, as far as its folder shows.
    #[default]
    Running,
    /// It came to its end.
    Finished,
    /// A person stopped it; the next run continues.
    Interrupted,
    /// It could not go on.
    Failed,
}

/// The version of data that a run was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataVersion {
    /// The digest of its content.
    pub version: String,
    /// Where it is, as the experiment file says.
    pub source: String,
    /// Questions or documents.
    pub rows: usize,
    /// Bytes of text; none for questions.
    #[serde(default)]
    pub bytes: Option<usize>,
}

/// The usage of a run at some time, of all its processes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsagePoint {
    /// Counted from 0.
    pub step: i64,
    /// In milliseconds since 1970.
    pub time_ms: i64,
    /// Tasks that ended well.
    pub tasks: u64,
    /// Calls that models answered.
    pub calls: u64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Dollars.
    pub cost_usd: f64,
}

/// A trial's mean by some metric, after a number of questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScorePoint {
    /// The trial.
    pub trial: String,
    /// The metric.
    pub metric: String,
    /// Questions that have a score or should have one.
    pub questions: usize,
    /// The mean of those with a score.
    pub mean: f64,
    /// The low end of its 95 % interval over questions; none for fewer than two questions, and in logs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The high end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// In milliseconds since 1970.
    #[serde(default)]
    pub time_ms: i64,
}

/// A place in the event log that trackers show as one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunPoint {
    /// The run started, for the first time or again.
    Start,
    /// The usage of this index in [`RunView::usage`].
    Usage(usize),
    /// The score of this index in [`RunView::scores`].
    Score(usize),
}

/// Everything that can be shown of a run.
#[derive(Debug, Clone)]
pub struct RunView {
    /// The run's id.
    pub run: String,
    /// The experiment.
    pub experiment: Arc<Experiment>,
    /// The trials with their labels and settings.
    pub trials: Arc<Vec<trial::Trial>>,
    /// How it is doing.
    pub state: RunState,
    /// When it first started, in milliseconds since 1970.
    pub started_ms: i64,
    /// When it last ended.
    pub ended_ms: Option<i64>,
    /// The golden questions.
    pub dataset: Option<DataVersion>,
    /// The corpus.
    pub corpus: Option<DataVersion>,
    /// The usage over time.
    pub usage: Vec<UsagePoint>,
    /// The scores so far, in the order in which they were found.
    pub scores: Vec<ScorePoint>,
    /// Starts, usage and scores in the order of the log. A longer log only adds to the end of the list.
    pub(super) points: Vec<RunPoint>,
    /// The results, once the run has ended: without passages and long texts, which are in `folder`.
    pub results: Option<Arc<Results>>,
    /// Whether this is the last view that its tracker is given.
    pub(super) is_last: bool,
    /// The run's folder.
    pub(super) folder: PathBuf,
    /// The leaderboard of the results.
    pub board: Option<Arc<Board>>,
    /// The report's page, once the run has ended.
    pub report: Option<PathBuf>,
}

impl RunView {
    /// A run of which nothing is known but its experiment.
    pub(super) fn new(run: &str, experiment: Arc<Experiment>) -> Self {
        Self {
            run: run.to_owned(),
            trials: Arc::new(trial::grid(&experiment)),
            experiment,
            state: RunState::Running,
            started_ms: 0,
            ended_ms: None,
            dataset: None,
            corpus: None,
            usage: Vec::new(),
            scores: Vec::new(),
            points: Vec::new(),
            results: None,
            is_last: false,
            folder: PathBuf::new(),
            board: None,
            report: None,
        }
    }
}

/// Reads a run's folder again and again.
#[derive(Debug)]
pub(crate) struct RunReader {
    folder: PathBuf,
    tail: Tail,
    view: RunView,
    /// The usage of earlier processes, and of this one so far.
    before: UsagePoint,
    process: UsagePoint,
    tasks: u64,
    seen: BTreeSet<(String, String, usize, u64)>,
    /// Keys of finished tasks that gave scores.
    scored: Vec<String>,
    /// Tasks that failed since the run was started last.
    failures: Vec<TaskFailure>,
}

/// A task that failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct TaskFailure {
    /// Its kind of work.
    pub(crate) operator: Operator,
    /// Why.
    #[serde(rename = "error")]
    pub(crate) reason: String,
    /// What it was to do.
    pub(crate) label: String,
    /// How many tasks, or rows of a task, failed so.
    #[serde(default = "one")]
    pub(crate) count: usize,
}

fn one() -> usize {
    1
}

/// A task of which some rows have no result.
#[derive(Deserialize)]
struct PartialTask {
    operator: Operator,
    label: String,
    failures: Vec<RowFailure>,
}

impl RunReader {
    pub(crate) fn new(folder: PathBuf, run: &str, experiment: Arc<Experiment>) -> Self {
        let view = RunView { folder: folder.clone(), ..RunView::new(run, experiment) };
        let tail = Tail { path: RunFileName::Events.within(&folder), read: 0, rest: Vec::new() };
        Self {
            folder,
            tail,
            view,
            before: UsagePoint::default(),
            process: UsagePoint::default(),
            tasks: 0,
            seen: BTreeSet::new(),
            scored: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Reads what was added to the log.
    pub(crate) fn catch_up(&mut self) -> Result<(), Error> {
        let lines = self.tail.lines()?;
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(|line| self.line(line));
        Ok(())
    }

    /// The present state of the run, as its folder shows it.
    pub(crate) fn look(&mut self) -> Result<RunView, Error> {
        self.catch_up()?;
        if self.view.state == RunState::Finished && self.view.results.is_none() {
            let results = Results::read_outline(&self.folder)?;
            self.view.board = Some(Arc::new(Board::of(&results)));
            self.view.results = Some(Arc::new(results));
        }
        // The page is written after the results.
        let report = RunFileName::Report.within(&self.folder);
        self.view.report = (self.view.results.is_some() && report.is_file()).then_some(report);
        Ok(self.view.clone())
    }

    /// The keys of finished tasks that gave scores since the last call.
    pub(crate) fn take_scored_tasks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.scored)
    }

    /// The tasks that failed since the last call.
    pub(crate) fn take_failures(&mut self) -> Vec<TaskFailure> {
        std::mem::take(&mut self.failures)
    }

    /// Each trial's last mean by each metric.
    pub(crate) fn last_scores(&self) -> Vec<ScorePoint> {
        let by_name = |point: &ScorePoint| ((point.trial.clone(), point.metric.clone()), point.clone());
        self.view.scores.iter().map(by_name).collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Whether the log holds this trial's mean by this metric already.
    pub(crate) fn knows(&self, trial: &str, metric: &str) -> bool {
        self.view.scores.iter().any(|point| point.trial == trial && point.metric == metric)
    }

    /// Notes why rows of a task have no result.
    fn take_rows(&mut self, line: &[u8]) {
        let task = serde_json::from_slice::<Event>(line).ok().and_then(|event| event.parse::<PartialTask>().ok());
        let Some(PartialTask { operator, label, failures }) = task else { return };
        self.failures.extend(failures.into_iter().map(|RowFailure { reason, count, example }| {
            let label = format!("{label}: {example}");
            TaskFailure { operator, reason, label, count }
        }));
    }

    fn line(&mut self, line: &[u8]) {
        // Most lines are about tasks, and of those only scores matter.
        let holds = |word: &str| std::str::from_utf8(line).is_ok_and(|line| line.contains(word));
        let kind = kind_of(line);
        if matches!(kind, "task_partial" | "task_finished") && holds("\"failures\":[") {
            self.take_rows(line);
        }
        if kind == "task_finished" {
            self.tasks += 1;
            if !holds("\"operator\":\"score\"") && !holds("\"operator\":\"judge\"") {
                return;
            }
        }
        let kinds = ["run_", "usage", "trial_scored", "task_finished", "task_failed"];
        if !kinds.iter().any(|beginning| kind.starts_with(beginning)) {
            return;
        }
        let Ok(event) = serde_json::from_slice::<Event>(line) else { return };
        match event.kind.as_str() {
            "task_finished" => self.scored.extend(event.fields["task"].as_str().map(str::to_owned)),
            "task_failed" => self.failures.extend(event.parse::<TaskFailure>()),
            "run_started" => self.start(&event),
            "run_finished" => self.end(&event, RunState::Finished),
            "run_interrupted" | "run_continued" => self.end(&event, RunState::Interrupted),
            "run_failed" => self.end(&event, RunState::Failed),
            "usage" => {
                let Ok(used) = event.parse::<UsagePoint>() else { return };
                self.process = used;
                let before = self.before;
                self.view.points.push(RunPoint::Usage(self.view.usage.len()));
                self.view.usage.push(UsagePoint {
                    step: self.view.usage.len() as i64,
                    time_ms: event.time_ms,
                    tasks: self.tasks,
                    calls: before.calls + used.calls,
                    tokens: before.tokens + used.tokens,
                    cost_usd: before.cost_usd + used.cost_usd,
                });
            }
            "trial_scored" => {
                let Ok(point) = event.parse::<ScorePoint>() else { return };
                // A resumed search repeats its steps in the log.
                let name = (point.trial.clone(), point.metric.clone(), point.questions, point.mean.to_bits());
                if self.seen.insert(name) {
                    self.view.points.push(RunPoint::Score(self.view.scores.len()));
                    self.view.scores.push(ScorePoint { time_ms: event.time_ms, ..point });
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, event: &Event) {
        let view = &mut self.view;
        view.points.push(RunPoint::Start);
        if view.started_ms == 0 {
            view.started_ms = event.time_ms;
        }
        (view.state, view.ended_ms) = (RunState::Running, None);
        (view.results, view.board) = (None, None);
        self.failures.clear();
        let data = |name: &str| event.fields.get(name).and_then(|data: &Value| DataVersion::deserialize(data).ok());
        view.dataset = data("dataset").or_else(|| view.dataset.take());
        view.corpus = data("corpus").or_else(|| view.corpus.take());
        self.before.calls += self.process.calls;
        self.before.tokens += self.process.tokens;
        self.before.cost_usd += self.process.cost_usd;
        self.process = UsagePoint::default();
    }

    fn end(&mut self, event: &Event, state: RunState) {
        (self.view.state, self.view.ended_ms) = (state, Some(event.time_ms));
    }
}

impl RunView {
    /// Each trial's means by metric and number of questions, the last of each.
    pub(crate) fn scores_of(&self, trial: &str) -> BTreeMap<(&str, usize), &ScorePoint> {
        let of_trial = self.scores.iter().filter(|point| point.trial == trial);
        of_trial.map(|point| ((point.metric.as_str(), point.questions), point)).collect()
    }
}

/// A file that grows, read line by line.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    read: u64,
    /// The last line, if it is not complete yet.
    rest: Vec<u8>,
}

impl Tail {
    fn lines(&mut self) -> Result<Vec<u8>, Error> {
        let failed = |source| Error::file("read", &self.path, source);
        let opened = Error::allow_missing(&self.path, File::open(&self.path))?;
        let Some(mut file) = opened else { return Ok(Vec::new()) };
        file.seek(SeekFrom::Start(self.read)).map_err(failed)?;
        let mut bytes = std::mem::take(&mut self.rest);
        let kept = bytes.len();
        let result = file.read_to_end(&mut bytes);
        self.read += (bytes.len() - kept) as u64;
        result.map_err(failed)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.rest = bytes.split_off(end);
        Ok(bytes)
    }
}

/// The kind of an event, which is at the beginning of its line; empty if there is none.
fn kind_of(line: &[u8]) -> &str {
    const KEY: &[u8] = b"\"kind\":\"";
    let head = &line[..line.len().min(64)];
    let Some(start) = head.windows(KEY.len()).position(|window| window == KEY) else { return "" };
    let kind = line[start + KEY.len()..].split(|byte| *byte == b'"').next().unwrap_or_default();
    std::str::from_utf8(kind).unwrap_or_default()
}

/// The run of an experiment that was worked on last, by the name of its
/// folder.
pub(crate) fn last_run(runs: &Path, experiment: &str) -> Option<String> {
    let entries = std::fs::read_dir(runs).ok()?.filter_map(Result::ok);
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_key = |key: &str| key.len() == 12 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_key(name.strip_prefix(experiment)?.strip_prefix('-')?).then_some(())?;
        let changed = RunFileName::Events.within(&entry.path()).metadata().and_then(|file| file.modified()).ok()?;
        Some((changed, name))
    });
    named.max().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use store::EventLog;

    fn reader(folder: &Path) -> RunReader {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        RunReader::new(folder.to_owned(), "x-1", Arc::new(Experiment::parse(text, ".").unwrap()))
    }

    #[test]
    fn what_processes_used_is_added_up_and_steps_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(folder.path().join("events.jsonl")).unwrap();
        let say = |time, kind: &str, fields: Value| log.append(&Event::new(time, kind).with(&fields)).unwrap();
        let mut reader = reader(folder.path());
        say(10, "run_started", json!({}));
        say(11, "task_finished", json!({ "task": "a", "operator": "load" }));
        say(12, "usage", json!({ "calls": 3, "tokens": 30, "cost_usd": 0.5 }));
        assert_eq!(reader.look().unwrap().usage.len(), 1);
        say(20, "run_started", json!({}));
        say(21, "task_finished", json!({ "task": "b", "operator": "score" }));
        say(22, "usage", json!({ "calls": 1, "tokens": 10, "cost_usd": 0.25 }));
        say(23, "usage", json!({ "calls": 2, "tokens": 20, "cost_usd": 0.5 }));
        let view = reader.look().unwrap();
        let last = UsagePoint { step: 2, time_ms: 23, tasks: 2, calls: 5, tokens: 50, cost_usd: 1.0 };
        assert_eq!(view.usage.last(), Some(&last));
        assert_eq!((view.started_ms, view.state), (10, RunState::Running));
        assert_eq!(reader.take_scored_tasks(), ["b"]);
        assert!(reader.take_scored_tasks().is_empty(), "each is told once");
        say(30, "run_interrupted", json!({}));
        assert_eq!(reader.look().unwrap().state, RunState::Interrupted);
        let whole = super::tests::reader(folder.path()).look().unwrap();
        assert_eq!((whole.usage, whole.state), (view.usage, RunState::Interrupted), "read at once it is the same");
        use RunPoint::{Start, Usage};
        assert_eq!(whole.points, [Start, Usage(0), Start, Usage(1), Usage(2)], "in the order of the log");
    }

    #[test]
    fn a_line_that_is_being_written_is_read_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let point = r#"{"time_ms":5,"kind":"trial_scored","trial":"t01","metric":"recall","questions":4,"mean":0.5}"#;
        let mut reader = reader(folder.path());
        std::fs::write(&path, &point[..40]).unwrap();
        assert!(reader.look().unwrap().scores.is_empty());
        std::fs::write(&path, format!("{point}\n{point}\n")).unwrap();
        let view = reader.look().unwrap();
        assert_eq!(view.scores.len(), 1, "the same point again is no other");
        assert_eq!(view.scores_of("t01")[&("recall", 4)].mean, 0.5);
        assert!(reader.knows("t01", "recall") && !reader.knows("t01", "ndcg"));
    }

    #[test]
    fn the_last_run_is_that_of_this_experiment() {
        let runs = tempfile::tempdir().unwrap();
        for name in ["x-0123456789ab", "x-y-0123456789ab", "x.latest"] {
            EventLog::open(runs.path().join(name).join("events.jsonl")).unwrap();
        }
        assert_eq!(last_run(runs.path(), "x").as_deref(), Some("x-0123456789ab"));
        assert_eq!(last_run(runs.path(), "z"), None);
    }

    #[test]
    fn a_run_that_begins_again_is_running_and_keeps_what_it_was_made_from() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(folder.path().join("events.jsonl")).unwrap();
        let say = |time, kind: &str, fields: Value| log.append(&Event::new(time, kind).with(&fields)).unwrap();
        let mut reader = reader(folder.path());
        let before = reader.look().unwrap();
        assert_eq!(
            (before.started_ms, before.state, before.ended_ms),
            (0, RunState::Running, None),
            "nothing is there yet"
        );
        let data = |version: &str| json!({ "version": version, "source": "d", "rows": 3 });
        say(10, "run_started", json!({ "dataset": data("q1"), "corpus": data("c1") }));
        for (time, kind, state) in
            [(20, "run_failed", RunState::Failed), (30, "run_interrupted", RunState::Interrupted)]
        {
            say(time, kind, json!({}));
            let view = reader.look().unwrap();
            assert_eq!((view.state, view.ended_ms), (state, Some(time)));
        }
        say(40, "run_started", json!({ "corpus": data("c2") }));
        let view = reader.look().unwrap();
        assert_eq!((view.started_ms, view.state, view.ended_ms), (10, RunState::Running, None));
        let version = |data: &Option<DataVersion>| data.as_ref().map(|data| data.version.clone());
        assert_eq!((version(&view.dataset).as_deref(), version(&view.corpus).as_deref()), (Some("q1"), Some("c2")));
        assert_eq!(view.report, None);
    }

    #[test]
    fn lines_that_are_damaged_or_of_no_interest_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(folder.path().join("events.jsonl")).unwrap();
        let say = |kind: &str, fields: Value| log.append(&Event::new(5, kind).with(&fields)).unwrap();
        say("task_started", json!({ "task": "a", "operator": "score" }));
        say("task_finished", json!({ "task": "b", "operator": "judge" }));
        say("task_finished", json!({ "task": "c", "operator": "embed" }));
        say("task_partial", json!({ "task": "d", "operator": "score" }));
        say("usage", json!({ "calls": "many" }));
        say("trial_scored", json!({ "trial": "t01" }));
        let path = folder.path().join("events.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}\n\n{{\"time_ms\":5,\"kind\":\"run_finished\"\n\u{7f}\n")).unwrap();
        let mut reader = reader(folder.path());
        let view = reader.look().unwrap();
        assert_eq!((view.usage.len(), view.scores.len(), view.state), (0, 0, RunState::Running));
        assert_eq!(reader.take_scored_tasks(), ["b"]);
    }

    #[test]
    fn of_a_trials_means_by_the_same_questions_the_last_counts() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(folder.path().join("events.jsonl")).unwrap();
        let point = |time, trial: &str, questions: usize, mean: f64| {
            let fields = json!({ "trial": trial, "metric": "recall", "questions": questions, "mean": mean });
            log.append(&Event::new(time, "trial_scored").with(&fields)).unwrap();
        };
        for (time, trial, questions, mean) in
            [(1, "t01", 4, 0.5), (2, "t02", 4, 0.25), (3, "t01", 8, 0.75), (4, "t01", 4, 0.125), (5, "t01", 8, 0.75)]
        {
            point(time, trial, questions, mean);
        }
        let view = reader(folder.path()).look().unwrap();
        let of = |trial: &str| {
            view.scores_of(trial).into_iter().map(|((_, n), point)| (n, point.mean, point.time_ms)).collect::<Vec<_>>()
        };
        assert_eq!(of("t01"), [(4, 0.125, 4), (8, 0.75, 3)], "what is said twice was known at first");
        assert_eq!((of("t02"), of("t03")), (vec![(4, 0.25, 2)], vec![]));
    }

    #[test]
    fn the_last_run_is_the_one_that_was_written_to_last_whatever_its_name() {
        let runs = tempfile::tempdir().unwrap();
        let names = [
            "x-aaaaaaaaaaaa",
            "x-000000000000",
            "x-ffffffffffff",
            "x-00000000000g",
            "x-0123456789abc",
            "y-ffffffffffff",
        ];
        for (i, name) in names.into_iter().enumerate() {
            let path = runs.path().join(name).join("events.jsonl");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            // The third is the oldest of those that are runs of `x`.
            let seconds = [3_000, 2_000, 1_000, 9_000, 9_000, 9_000][i];
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        std::fs::create_dir_all(runs.path().join("x-bbbbbbbbbbbb")).unwrap();
        assert_eq!(last_run(runs.path(), "x").as_deref(), Some("x-aaaaaaaaaaaa"));
        assert_eq!(last_run(&runs.path().join("absent"), "x"), None);
    }
}
