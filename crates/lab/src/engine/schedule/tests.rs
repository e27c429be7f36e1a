//! Plans as text, run by a runner that does what a table says.
//!
//! A line is a task: its name, what it does, and the tasks whose outputs it needs.

use super::*;
use crate::{
    plan::{
        TrialTasks,
        work::{GenerateWork, IndexWork, LoadWork, ScoreWork, Work},
    },
    spec::Experiment,
    task::fixture,
};
use rag::{index::IndexKind, python::Failure};
use serde_json::json;
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use store::{Event, EventLog, Key};
use tokio::sync::Notify;

/// Two trials over one index: a generation of each, and its score.
const TWO_TRIALS: &str = "load: load\nindex: index load\na: generate index\nb: generate index\n\
                          score a: score index a\nscore b: score index b\n";

fn work(kind: &str, inputs: &[TaskId]) -> Work {
    let score = |metric: &str| ScoreWork {
        metric: serde_json::from_value(json!({ metric: {} })).unwrap(),
        passages: inputs[0],
        answers: inputs[1..].to_vec(),
        questions: Vec::new(),
        parser: 0,
        without_passages: false,
        replies: None,
        part: None,
    };
    match kind {
        "load" => LoadWork::default().into(),
        "index" => {
            IndexWork { kind: IndexKind::Bm25, from: inputs.to_vec(), enriched: false, analysis: None, graph: None }
                .into()
        }
        "generate" => {
            let part = json!({ "whole": Key::of_bytes(b""), "part": 0 });
            let generator = serde_json::from_value(json!({ "compact": { "model": "gpt" } })).unwrap();
            let (passages, queries) = (inputs[0], inputs.get(1).copied());
            let part = serde_json::from_value(part).unwrap();
            GenerateWork { generator, embedder: None, passages, queries, questions: Vec::new(), part }.into()
        }
        "score" => score("recall").into(),
        "judge" => score("faithfulness").into(),
        other => panic!("{other}"),
    }
}

/// A plan of these tasks. Each trial is the names of the tasks whose outputs are its answers and scores; without
/// trials, all outputs are results.
pub(in crate::engine) fn plan(text: &str, trials: &[&[&str]]) -> Arc<Plan> {
    let mut plan = Plan::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, rest) = line.split_once(": ").unwrap();
        let kind = rest.split(' ').next().unwrap();
        let mut rest = rest[kind.len()..].trim();
        let mut inputs = Vec::new();
        while !rest.is_empty() {
            // Names may hold spaces: the longest that fits.
            let fits = |label: &&Task| rest == label.label || rest.starts_with(&format!("{} ", label.label));
            let found = plan.tasks.iter().filter(fits).max_by_key(|task| task.label.len()).unwrap();
            inputs.push(id(&plan, &found.label));
            rest = rest[found.label.len()..].trim();
        }
        plan.tasks.push(Task {
            key: Key::of_bytes(name.as_bytes()),
            work: work(kind, &inputs),
            rows: Some(1),
            label: name.to_owned(),
            trials: Vec::new(),
        });
    }
    for (number, outputs) in trials.iter().enumerate() {
        let answers: Vec<TaskId> = outputs.iter().map(|name| id(&plan, name)).collect();
        let id = format!("t{:02}", number + 1);
        plan.trials.push(TrialTasks { id, passages: answers[0], answers, ..TrialTasks::default() });
    }
    Arc::new(plan)
}

pub(in crate::engine) fn id(plan: &Plan, name: &str) -> TaskId {
    plan.tasks.iter().position(|task| task.label == name).unwrap_or_else(|| panic!("no task {name}"))
}

/// What becomes of a task.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// Some of its rows are missing.
    Partial,
    /// Another run made it in the meantime.
    Shared,
    Fails,
    /// The user's function fails.
    FunctionFails,
    OverBudget,
    /// There is no space left.
    Full,
    /// The store's folder was removed.
    Gone,
    /// It never ends.
    Hangs,
    /// It ends when the run is cancelled, because its calls do.
    CallCancelled,
}

/// What a task was given when it started.
#[derive(Debug, Clone)]
struct StartedTask {
    name: String,
    /// The names of its inputs whose outputs are known, in alphabetical order.
    inputs: Vec<String>,
    partial: bool,
    turn: CallTurn,
}

/// Does what is said of tasks by their names, and all others as they should be done.
#[derive(Default)]
struct Fake {
    steering: Steering,
    fates: HashMap<String, Fate>,
    /// How many tasks of an operator it takes at once; as many as there are for others.
    limits: HashMap<Operator, usize>,
    /// Whether outputs are not written, so that nothing waits for a disk and all starts have one order.
    writes_nothing: bool,
    /// Tasks in the order in which they started.
    started: Mutex<Vec<StartedTask>>,
    ended: Mutex<Vec<String>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    /// Is told of every start.
    start: Notify,
    cancel: CancellationToken,
}

impl Fake {
    fn of(fates: &[(&str, Fate)]) -> Self {
        let fates = fates.iter().map(|(name, fate)| ((*name).to_owned(), *fate)).collect();
        Self { fates, ..Self::default() }
    }

    fn limited(limits: &[(Operator, usize)]) -> Self {
        Self { limits: limits.iter().copied().collect(), writes_nothing: true, ..Self::default() }
    }

    fn order(&self) -> Vec<String> {
        self.started.lock().unwrap().iter().map(|task| task.name.clone()).collect()
    }

    fn task(&self, name: &str) -> StartedTask {
        self.started.lock().unwrap().iter().find(|task| task.name == name).unwrap().clone()
    }
}

#[async_trait]
impl Runner for Fake {
    fn limit(&self, operator: Operator) -> usize {
        self.limits.get(&operator).copied().unwrap_or(usize::MAX)
    }

    async fn run(&self, assignment: Assignment) -> Result<StoredOutput, Error> {
        let task = assignment.task();
        let (name, artifact) = (task.label.clone(), task.artifact());
        let mut inputs: Vec<String> =
            assignment.inputs.keys().map(|&input| assignment.plan.tasks[input].label.clone()).collect();
        inputs.sort();
        let Assignment { partial, turn, .. } = assignment;
        self.started.lock().unwrap().push(StartedTask { name: name.clone(), inputs, partial, turn });
        self.start.notify_one();
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        // Loading takes longer than anything else.
        for _ in 0..if task.operator() == Operator::Load { 8 } else { 1 } {
            tokio::task::yield_now().await;
        }
        let fate = self.fates.get(&name).copied();
        let partial = assignment.partial || fate == Some(Fate::Partial);
        let full = || std::sync::Arc::new(std::io::Error::other("full"));
        let path = || "store".to_owned();
        let result = match fate {
            Some(Fate::Hangs) => std::future::pending().await,
            Some(Fate::CallCancelled) => {
                self.cancel.cancelled().await;
                Err(models::Error::Cancelled.into())
            }
            Some(Fate::Fails) => Err(Error::Table("the table is torn".to_owned())),
            Some(Fate::FunctionFails) => Err(Error::Function {
                reason: "it raised".to_owned(),
                failure: Box::new(Failure {
                    stage: "generator".to_owned(),
                    function: "answer".to_owned(),
                    file: String::new(),
                    kind: serde_json::from_value(json!("raised")).unwrap(),
                    message: "KeyError".to_owned(),
                    traceback: None,
                }),
            }),
            Some(Fate::OverBudget) => {
                Err(models::Error::BudgetExhausted { cap: models::Cap::Calls, spent: 3.0, limit: 2.0, earlier: None }
                    .into())
            }
            Some(Fate::Full) => Err(store::Error::Full { path: path(), source: full() }.into()),
            Some(Fate::Gone) => Err(store::Error::Gone { path: path() }.into()),
            Some(Fate::Shared) => Ok(StoredOutput { artifact, rows: 1, shared: true, ..StoredOutput::default() }),
            Some(Fate::Partial) | None => {
                let artifact = assignment.run_context.name(task, partial);
                if !self.writes_nothing {
                    assignment.run_context.store.put(&artifact, name.clone()).await?;
                }
                let errors = usize::from(fate == Some(Fate::Partial));
                Ok(StoredOutput { artifact, rows: 1, errors, partial, ..StoredOutput::default() })
            }
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.ended.lock().unwrap().push(name);
        result
    }
}

/// A folder with a store, in which plans are executed.
struct TestStore {
    folder: tempfile::TempDir,
    run_context: Arc<RunContext>,
    progress: Progress,
}

impl TestStore {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"x\"\n[corpus]\nsource = \"docs\"\n[models.gpt]\nchat.openai = { model = \"m\", base_url = \
                    \"http://127.0.0.1:1/v1\" }\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let experiment = Experiment::parse(text, folder.path()).unwrap();
        let run_context = Arc::new(fixture::run_context(folder.path(), experiment, Vec::new()));
        Self { folder, run_context, progress: Progress::default() }
    }

    async fn run(&self, plan: &Arc<Plan>, fake: &Arc<Fake>) -> Result<PlanOutcome, Error> {
        execute(fake.clone(), plan, &self.run_context, &self.progress, (&fake.cancel, &fake.steering)).await
    }

    /// Runs a plan that is cancelled as soon as a task of this name has started.
    async fn run_cancelled_at(&self, plan: &Arc<Plan>, fake: &Arc<Fake>, task: &str) -> Result<PlanOutcome, Error> {
        let stops = async {
            while !fake.order().iter().any(|started| started == task) {
                fake.start.notified().await;
            }
            fake.cancel.cancel();
        };
        tokio::join!(self.run(plan, fake), stops).0
    }

    /// Runs a plan to its end.
    async fn outcome(&self, plan: &Arc<Plan>, fake: Fake) -> (PlanOutcome, Arc<Fake>) {
        let fake = Arc::new(fake);
        (self.run(plan, &fake).await.unwrap(), fake)
    }

    fn events(&self, kind: &str) -> Vec<Event> {
        let events = EventLog::read(self.folder.path().join("events.jsonl")).unwrap();
        events.into_iter().filter(|event| event.kind == kind).collect()
    }

    /// The labels of the tasks that events are of.
    fn labels(&self, kind: &str) -> Vec<String> {
        let label = |event: Event| event.fields["label"].as_str().unwrap().to_owned();
        self.events(kind).into_iter().map(label).collect()
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[tokio::test]
async fn of_ready_tasks_the_one_closest_to_the_end_starts_first() {
    type Case = (&'static str, &'static str, &'static [(Operator, usize)], &'static str);
    const ONE_LOAD: &[(Operator, usize)] = &[(Operator::Load, 1)];
    let table: [Case; 4] = [
        (
            "a shard goes through before the next one is loaded",
            "l1: load\nl2: load\nl3: load\ni1: index l1\ni2: index l2\ni3: index l3\ns1: score i1\ns2: score i2\ns3: score i3",
            ONE_LOAD,
            "l1 i1 l2 s1 i2 l3 s2 i3 s3",
        ),
        ("equal ones in the order of the plan", "l1: load\nl2: load\nl3: load", &[], "l1 l2 l3"),
        (
            "whatever their place in the plan",
            "l1: load\nl2: load\ni1: index l1\ng1: generate l1\ns1: score l1\nj1: judge l1",
            ONE_LOAD,
            "l1 j1 s1 g1 i1 l2",
        ),
        (
            "an operator that is full holds up no other",
            "l1: load\ng1: generate l1\ng2: generate l1\ng3: generate l1\ni1: index l1",
            &[(Operator::GENERATE, 1)],
            "l1 g1 i1 g2 g3",
        ),
    ];
    for (case, text, limits, expected) in table {
        let (place, plan) = (TestStore::new(), plan(text, &[]));
        let (outcome, fake) = place.outcome(&plan, Fake::limited(limits)).await;
        assert_eq!(fake.order().join(" "), expected, "{case}");
        assert_eq!((outcome.executed, outcome.outputs.len()), (plan.tasks.len(), plan.tasks.len()), "{case}");
    }
}

#[tokio::test]
async fn no_more_tasks_run_at_once_than_the_limit_of_their_operator() {
    let text: String = (0..10).map(|i| format!("l{i}: load\n")).collect();
    for (limit, expected) in [(1, 1), (3, 3), (50, 10)] {
        let (_, fake) = TestStore::new().outcome(&plan(&text, &[]), Fake::limited(&[(Operator::Load, limit)])).await;
        assert_eq!(fake.most_running.load(Ordering::SeqCst), expected);
    }
}

#[tokio::test]
async fn a_task_is_given_the_outputs_of_its_inputs_and_starts_after_all_of_them() {
    let text = "l1: load\nl2: load\ni1: index l1 l2\ns1: score i1 l2";
    let (outcome, fake) = TestStore::new().outcome(&plan(text, &[]), Fake::default()).await;
    let inputs = |name: &str| fake.task(name).inputs.join(" ");
    assert_eq!((inputs("l1").as_str(), inputs("i1").as_str(), inputs("s1").as_str()), ("", "l1 l2", "i1 l2"));
    assert_eq!((outcome.executed, fake.order().len()), (4, 4), "once each");
}

#[tokio::test]
async fn a_failed_task_fails_what_depends_on_it_and_nothing_else() {
    let diamond = "a: load\nb: load\nx: index a\ny: index b\nz: score x y\nw: score y";
    let table: [(&[&str], &str, &str); 5] = [
        // What fails, what cannot run, and what is done.
        (&["a"], "x z", "b w y"),
        (&["b"], "w y z", "a x"),
        (&["x"], "z", "a b w y"),
        (&["a", "b"], "w x y z", ""),
        (&["w", "z"], "", "a b x y"),
    ];
    for (failing, not_run, done) in table {
        let (place, plan) = (TestStore::new(), plan(diamond, &[]));
        let fates: Vec<(&str, Fate)> = failing.iter().map(|name| (*name, Fate::Fails)).collect();
        let (outcome, fake) = place.outcome(&plan, Fake::of(&fates)).await;
        let names =
            |ids: &mut dyn Iterator<Item = TaskId>| sorted(ids.map(|id| plan.tasks[id].label.clone()).collect());
        assert_eq!(names(&mut outcome.outputs.keys().copied()).join(" "), done, "{failing:?}");
        let is_consequence = |id: &TaskId| outcome.failed[id].starts_with("not run, because `");
        let (consequences, causes): (Vec<TaskId>, Vec<TaskId>) =
            outcome.failed.keys().partition(|id| is_consequence(id));
        assert_eq!(names(&mut causes.into_iter()), failing, "{failing:?}");
        assert_eq!(names(&mut consequences.into_iter()).join(" "), not_run, "{failing:?}");
        assert_eq!(outcome.executed, outcome.outputs.len());
        assert!(not_run.split(' ').all(|name| !fake.order().contains(&name.to_owned())), "{:?}", fake.order());
        assert_eq!(sorted(place.labels("task_failed")), failing, "only what ran is in the log");
    }
}

#[tokio::test]
async fn a_failure_names_its_cause_at_every_distance() {
    let plan = plan("a: load\nx: index a\ny: generate x\nz: score x y", &[]);
    let torn = "a table of the store cannot be used: the table is torn";
    let (outcome, _) = TestStore::new().outcome(&plan, Fake::of(&[("a", Fate::Fails)])).await;
    assert_eq!(outcome.failed[&0], torn);
    for id in 1..4 {
        assert_eq!(outcome.failed[&id], format!("not run, because `a` failed: {torn}"));
    }
    assert!(outcome.failed_functions.is_empty() && outcome.over_budget.is_empty());

    let (outcome, _) = TestStore::new().outcome(&plan, Fake::of(&[("x", Fate::FunctionFails)])).await;
    let functions: std::collections::BTreeMap<TaskId, (TaskId, &str)> =
        outcome.failed_functions.iter().map(|(id, (of, failure))| (*id, (*of, failure.function.as_str()))).collect();
    assert_eq!(functions, [(1, (1, "answer")), (2, (1, "answer")), (3, (1, "answer"))].into());
    assert!(outcome.over_budget.is_empty());

    let (outcome, _) = TestStore::new().outcome(&plan, Fake::of(&[("y", Fate::OverBudget)])).await;
    assert_eq!(outcome.over_budget, [2, 3].into());
    assert!(outcome.failed_functions.is_empty());
}

#[tokio::test]
async fn a_partial_output_makes_what_depends_on_it_partial_and_the_next_run_does_both_again() {
    let plan = plan(TWO_TRIALS, &[]);
    let place = TestStore::new();
    let (outcome, fake) = place.outcome(&plan, Fake::of(&[("a", Fate::Partial)])).await;
    let partial = |name: &str| outcome.outputs[&id(&plan, name)].starts_with("partial/run/");
    assert!(partial("a") && partial("score a"), "{:?}", outcome.outputs);
    assert!(!partial("index") && !partial("b") && !partial("score b"), "{:?}", outcome.outputs);
    assert!(fake.task("score a").partial && !fake.task("a").partial && !fake.task("score b").partial);
    assert_eq!((outcome.executed, outcome.provider_errors, outcome.failed.len()), (6, 1, 0));
    assert_eq!(place.labels("task_partial"), ["a", "score a"]);
    assert_eq!(place.labels("task_finished").len(), 4);

    let (outcome, fake) = place.outcome(&plan, Fake::default()).await;
    assert_eq!(sorted(fake.order()), ["a", "score a"]);
    assert_eq!((outcome.executed, outcome.reused, outcome.outputs.len()), (2, 4, 6));
    assert!(!fake.task("score a").partial);
}

#[tokio::test]
async fn what_is_stored_is_not_done_again_and_its_inputs_are_not_looked_at() {
    let plan = plan(TWO_TRIALS, &[&["score a"], &["score b"]]);
    let place = TestStore::new();
    let (outcome, _) = place.outcome(&plan, Fake::default()).await;
    assert_eq!((outcome.executed, outcome.reused), (6, 0));
    let (outcome, fake) = place.outcome(&plan, Fake::default()).await;
    // Only the results of the trials are needed.
    assert_eq!((outcome.executed, outcome.reused, fake.order().len()), (0, 2, 0));
    assert_eq!(outcome.outputs.len(), 2);

    let store = &place.run_context.store;
    let remove = async |name: &str| store.remove(&plan.tasks[id(&plan, name)].artifact()).await.unwrap();
    remove("score a").await;
    remove("load").await;
    let (outcome, fake) = place.outcome(&plan, Fake::default()).await;
    assert_eq!(fake.order(), ["score a"], "its inputs are stored, so nobody needs what they were made from");
    // Reused: the index and the answer, and the other trial's score.
    assert_eq!((outcome.executed, outcome.reused), (1, 3));
    remove("score b").await;
    remove("b").await;
    remove("index").await;
    let (outcome, fake) = place.outcome(&plan, Fake::default()).await;
    assert_eq!(fake.order(), ["load", "index", "b", "score b"]);
    assert_eq!((outcome.executed, outcome.reused), (4, 1), "of the first trial only its result");
}

#[tokio::test]
async fn an_output_that_was_set_aside_is_made_again_although_nothing_needs_it() {
    let plan = plan(TWO_TRIALS, &[&["score a"], &["score b"]]);
    let place = TestStore::new();
    place.outcome(&plan, Fake::default()).await;
    let store = &place.run_context.store;
    store.set_aside(&plan.tasks[id(&plan, "index")].artifact(), "it is torn").await;
    assert_eq!(damaged_tasks(&plan, &stored_tasks(&plan, store).await.unwrap(), store).await.unwrap(), [1]);
    let (outcome, fake) = place.outcome(&plan, Fake::default()).await;
    assert_eq!(fake.order(), ["index"]);
    assert_eq!((outcome.executed, outcome.reused), (1, 3), "with what it is made from, and both results");
    let (outcome, _) = place.outcome(&plan, Fake::default()).await;
    assert_eq!(outcome.executed, 0, "it is there again");
}

#[tokio::test]
async fn an_output_that_another_run_made_in_the_meantime_counts_as_reused() {
    let plan = plan(TWO_TRIALS, &[]);
    let (outcome, fake) = TestStore::new().outcome(&plan, Fake::of(&[("index", Fate::Shared)])).await;
    assert_eq!((outcome.executed, outcome.reused, outcome.outputs.len()), (5, 1, 6));
    assert_eq!(fake.order().len(), 6);
}

#[tokio::test]
async fn the_last_task_of_a_trial_goes_before_those_of_trials_that_have_more_left() {
    let text = "p: load\na1: generate p\na2: generate p\na3: generate p\nb1: generate p\nb2: generate p\n\
                b3: generate p\nb4: generate p\na4: generate p";
    let trials: [&[&str]; 2] = [&["a1", "a2", "a3", "a4"], &["b1", "b2", "b3", "b4"]];
    let limits = [(Operator::GENERATE, 1)];
    let (_, fake) = TestStore::new().outcome(&plan(text, &trials), Fake::limited(&limits)).await;
    assert_eq!(fake.order().join(" "), "p a1 a2 a3 a4 b1 b2 b3 b4");
    assert_eq!(fake.task("a3").turn, CallTurn { priority: 0, group: 1 });
    assert_eq!(fake.task("a4").turn, CallTurn { priority: 1, group: 1 });
    assert_eq!(fake.task("b1").turn, CallTurn { priority: 0, group: 2 });
    assert_eq!(fake.task("b4").turn, CallTurn { priority: 1, group: 2 });
    assert_eq!(fake.task("p").turn, CallTurn::default(), "no answer and no score");

    // The three that failed are over too.
    let fates = [("a1", Fate::Fails), ("a2", Fate::Fails), ("a3", Fate::Fails)];
    let fake = Fake { limits: limits.into(), ..Fake::of(&fates) };
    let (_, fake) = TestStore::new().outcome(&plan(text, &trials), fake).await;
    assert_eq!(fake.order().join(" "), "p a1 a2 a3 a4 b1 b2 b3 b4");
}

#[tokio::test]
async fn a_run_that_is_cancelled_is_interrupted_and_starts_nothing_more() {
    let place = TestStore::new();
    let fake = Arc::new(Fake { limits: [(Operator::GENERATE, 1)].into(), ..Fake::of(&[("a", Fate::Hangs)]) });
    let plan = plan(TWO_TRIALS, &[]);
    let result = place.run_cancelled_at(&plan, &fake, "a").await;
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert_eq!(fake.order(), ["load", "index", "a"]);
    assert_eq!(place.events("run_interrupted")[0].fields["executed"], 2);
    // What was finished is kept.
    let (outcome, _) = place.outcome(&plan, Fake::default()).await;
    assert_eq!((outcome.executed, outcome.reused), (4, 2));
}

#[tokio::test]
async fn a_run_that_was_cancelled_before_it_began_is_interrupted() {
    for _ in 0..50 {
        let (place, fake) = (TestStore::new(), Arc::new(Fake::default()));
        fake.cancel.cancel();
        let result = place.run(&plan(TWO_TRIALS, &[]), &fake).await;
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        assert!(fake.order().is_empty());
    }
}

#[tokio::test]
async fn a_task_whose_calls_were_cancelled_is_no_failure_but_ends_the_run_as_interrupted() {
    for _ in 0..50 {
        let (place, fake) = (TestStore::new(), Arc::new(Fake::of(&[("a", Fate::CallCancelled)])));
        let plan = plan("l: load\na: generate l", &[]);
        let result = place.run_cancelled_at(&plan, &fake, "a").await;
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    }
}

#[tokio::test]
async fn without_space_nothing_more_starts_and_what_has_begun_is_awaited() {
    let place = TestStore::new();
    let text = "l: load\na: generate l\nb: generate l\nc: generate l\ns: score l b";
    let fake = Arc::new(Fake { limits: [(Operator::GENERATE, 2)].into(), ..Fake::of(&[("a", Fate::Full)]) });
    let result = place.run(&plan(text, &[]), &fake).await;
    assert!(matches!(&result, Err(Error::Store(store::Error::Full { .. }))), "{result:?}");
    assert_eq!(fake.order(), ["l", "a", "b"]);
    assert_eq!(sorted(fake.ended.lock().unwrap().clone()), ["a", "b", "l"], "the call of `b` is paid");
    let failure = place.run_context.models().client().failure();
    assert!(failure.is_some(), "no further call is made either");
}

#[tokio::test]
async fn a_store_that_is_gone_ends_the_run_at_once() {
    let place = TestStore::new();
    let fake = Arc::new(Fake::of(&[("a", Fate::Gone), ("b", Fate::Hangs)]));
    let result = place.run(&plan("l: load\na: generate l\nb: generate l", &[]), &fake).await;
    assert!(matches!(&result, Err(Error::Store(store::Error::Gone { .. }))), "{result:?}");
    assert_eq!(fake.order(), ["l", "a", "b"], "`b` was not awaited");
}

#[tokio::test]
async fn the_live_table_counts_what_ended_failed_and_was_reused() {
    let plan = plan(TWO_TRIALS, &[]);
    let place = TestStore::new();
    place.outcome(&plan, Fake::of(&[("a", Fate::Fails)])).await;
    let row = |place: &TestStore, operator| {
        let rows = place.progress.snapshot();
        let row = rows.into_iter().find(|row| row.operator == operator).unwrap();
        [row.queued, row.active, row.finished, row.reused, row.failed]
    };
    assert_eq!(row(&place, Operator::GENERATE), [0, 0, 1, 0, 1]);
    assert_eq!(row(&place, Operator::Score), [0, 0, 1, 0, 1], "the one that could not run");
    let again = TestStore { progress: Progress::default(), ..place };
    again.outcome(&plan, Fake::default()).await;
    assert_eq!(row(&again, Operator::GENERATE), [0, 0, 1, 1, 0]);
    assert_eq!(row(&again, Operator::Load), [0, 0, 0, 1, 0]);
}

/// Two trials over one index, of two answers each.
const TWO_LONG_TRIALS: &str = "load: load\nindex: index load\na1: generate index\na2: generate index\nb1: generate index\n\
                               b2: generate index\nscore a: score index a1 a2\nscore b: score index b1 b2\n";

/// Runs a plan, and does this as soon as a task of this name has started.
async fn run_and_steer(
    place: &TestStore,
    plan: &Arc<Plan>,
    fake: &Arc<Fake>,
    task: &str,
    steer: impl AsyncFnOnce(&Steering),
) -> PlanOutcome {
    let steers = async {
        while !fake.order().iter().any(|started| started == task) {
            fake.start.notified().await;
        }
        steer(&fake.steering).await;
    };
    tokio::join!(place.run(plan, fake), steers).0.unwrap()
}

#[tokio::test]
async fn what_only_a_stopped_trial_needs_is_not_started_and_nothing_of_it_has_failed() {
    let plan = plan(TWO_LONG_TRIALS, &[&["a1", "a2", "score a"], &["b1", "b2", "score b"]]);
    let place = TestStore::new();
    let fake = Arc::new(Fake { limits: [(Operator::GENERATE, 1)].into(), ..Fake::default() });
    let outcome = run_and_steer(&place, &plan, &fake, "a1", async |steering| {
        steering.stop_trial("t01", "Ann");
    });
    let outcome = outcome.await;
    assert_eq!(fake.order().join(" "), "load index a1 b1 b2 score b", "the one in flight went on to its end");
    assert_eq!((outcome.executed, outcome.failed.len(), outcome.outputs.len()), (6, 0, 6));
    let progress = place.progress.snapshot();
    assert!(progress.iter().all(|operator| operator.queued == 0 && operator.failed == 0), "{progress:?}");

    // Another start, in which nobody stops anything, does the rest.
    let (outcome, fake) = place.outcome(&plan, Fake::default()).await;
    assert_eq!((fake.order().join(" ").as_str(), outcome.executed), ("a2 score a", 2));
}

#[tokio::test]
async fn a_paused_run_starts_nothing_until_it_goes_on() {
    let plan = plan(TWO_LONG_TRIALS, &[&["a1", "a2", "score a"], &["b1", "b2", "score b"]]);
    let place = TestStore::new();
    let fake = Arc::new(Fake::limited(&[(Operator::GENERATE, 1)]));
    let outcome = run_and_steer(&place, &plan, &fake, "a1", async |steering| {
        steering.set_paused(true);
        while place.progress.snapshot().iter().any(|operator| operator.active > 0) {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(fake.order().last().map(String::as_str), Some("a1"), "nothing was started meanwhile");
        // What is stopped during a pause stays stopped.
        steering.stop_trial("t02", "Ann");
        steering.set_paused(false);
    });
    let outcome = outcome.await;
    assert_eq!(fake.order().join(" "), "load index a1 a2 score a");
    assert_eq!((outcome.executed, outcome.failed.len()), (5, 0));
}

#[tokio::test]
async fn a_paused_run_can_be_cancelled() {
    let plan = plan(TWO_TRIALS, &[]);
    let place = TestStore::new();
    let fake = Arc::new(Fake::default());
    fake.steering.set_paused(true);
    let cancels = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        fake.cancel.cancel();
    };
    let (result, ()) = tokio::join!(place.run(&plan, &fake), cancels);
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert!(fake.order().is_empty());
}
