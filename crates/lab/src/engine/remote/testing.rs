//! A driver whose dispatcher does not run, so that a test takes each step itself, and a cluster that does what a test
//! says.

use super::*;
use crate::{
    cluster::{CallError, ClusterError, Resources},
    engine::{
        schedule::tests::{id, plan},
        unit::{TaskError, TaskReply, Unit, UnitReply},
    },
    spec::Experiment,
    task::{CallTurn, fixture},
};
use tokio::sync::oneshot::Receiver;

/// The reply to a task of a [`Bench`].
pub(super) type Reply = Receiver<Result<StoredOutput, Error>>;

/// Nodes are names with CPUs. Workers start at once, and their units never end, unless something else is said.
#[derive(Default)]
pub(super) struct Script {
    pub(super) nodes: Mutex<Vec<(&'static str, f64)>>,
    /// Why the nodes cannot be listed.
    pub(super) closed: Mutex<Option<&'static str>>,
    /// Why the next starts fail.
    pub(super) failing_starts: Mutex<VecDeque<CallError>>,
    /// What becomes of the next units.
    pub(super) replies: Mutex<VecDeque<Result<Vec<u8>, CallError>>>,
    pub(super) started: Mutex<Vec<(WorkerId, Option<String>, Resources)>>,
    pub(super) units: Mutex<Vec<(WorkerId, Unit)>>,
    pub(super) asked: Mutex<Vec<WorkerId>>,
    pub(super) stopped: Mutex<Vec<WorkerId>>,
}

#[async_trait]
impl Cluster for Script {
    async fn nodes(&self) -> Result<Vec<ClusterNode>, ClusterError> {
        match *self.closed.lock().unwrap() {
            Some(reason) => Err(ClusterError(reason.to_owned())),
            None => Ok(self.nodes.lock().unwrap().iter().map(|(name, cpus)| node(name, *cpus)).collect()),
        }
    }

    async fn start(
        &self,
        worker: WorkerId,
        node: Option<&str>,
        resources: &Resources,
        _setup: &[u8],
    ) -> Result<String, CallError> {
        self.started.lock().unwrap().push((worker, node.map(str::to_owned), resources.clone()));
        let failure = self.failing_starts.lock().unwrap().pop_front();
        failure.map_or_else(|| Ok(node.unwrap_or("new").to_owned()), Err)
    }

    async fn call(&self, worker: WorkerId, unit: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.units.lock().unwrap().push((worker, serde_json::from_slice(&unit).unwrap()));
        let reply = self.replies.lock().unwrap().pop_front();
        match reply {
            Some(reply) => reply,
            None => std::future::pending().await,
        }
    }

    async fn look(&self, worker: WorkerId, _orders: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.asked.lock().unwrap().push(worker);
        Ok(serde_json::to_vec(&WorkerActivity::default()).unwrap())
    }

    async fn set_caps(&self, _budget: &str, _caps: models::Caps) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn stop(&self, worker: WorkerId) {
        self.stopped.lock().unwrap().push(worker);
    }
}

pub(super) fn node(name: &str, cpus: f64) -> ClusterNode {
    ClusterNode { id: name.to_owned(), name: format!("{name}.lan"), cpus }
}

/// Long enough ago that nothing waits for it.
pub(super) fn long_ago() -> Instant {
    Instant::now().checked_sub(Duration::from_secs(100)).unwrap()
}

/// A reply to a unit: the outputs of its tasks, and the seconds that each took.
pub(super) fn reply(tasks: Vec<(Result<&str, TaskError>, f64)>) -> UnitReply {
    let task = |(result, seconds): (Result<&str, TaskError>, f64)| {
        let output = |artifact: &str| StoredOutput { artifact: artifact.to_owned(), ..StoredOutput::default() };
        TaskReply { result: result.map(output), seconds }
    };
    UnitReply {
        tasks: tasks.into_iter().map(task).collect(),
        spending: BTreeMap::new(),
        budget: models::BudgetReport::default(),
        activity: WorkerActivity::default(),
    }
}

/// A driver of a [`Script`], with tasks that a test may queue by their names: `load 0` to `load 199`, `index`,
/// `answer` and `score`.
pub(super) struct Bench {
    folder: tempfile::TempDir,
    pub(super) cluster: Arc<Script>,
    pub(super) driver: Arc<SharedDriver>,
    pub(super) run_context: Arc<RunContext>,
    plan: Arc<Plan>,
}

impl Bench {
    /// A driver with these settings under `[engine]`.
    pub(super) fn new(engine: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"docs\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n{engine}"
        );
        let experiment = Experiment::parse(&text, folder.path()).unwrap();
        let spec = experiment.engine.clone();
        let run_context = Arc::new(fixture::run_context(folder.path(), experiment, Vec::new()));
        let setup = WorkerSetup {
            experiment: text,
            base: folder.path().to_owned(),
            store: "s".to_owned(),
            source: "docs".to_owned(),
            probe: "probes/1".to_owned(),
            pdf_library: "none".to_owned(),
            identities: BTreeMap::new(),
            budget: None,
            cores: 1,
        };
        let cluster = Arc::new(Script::default());
        let driver = Arc::new(SharedDriver {
            cluster: cluster.clone(),
            store: run_context.store.clone(),
            setup,
            spec,
            embeds_elsewhere: false,
            next: AtomicU64::new(1),
            began: long_ago(),
            state: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
        });
        let loads: String = (0..200).map(|i| format!("load {i}: load\n")).collect();
        let plan =
            plan(&format!("{loads}index: index load 0\nanswer: generate index\nscore: score index answer\n"), &[]);
        Self { folder, cluster, driver, run_context, plan }
    }

    /// Another execution, as a second plan of the same engine has it.
    pub(super) fn other_execution(&self) -> Arc<RunContext> {
        let folder = self.folder.path().join("other");
        std::fs::create_dir_all(&folder).unwrap();
        Arc::new(fixture::run_context(&folder, (*self.run_context.experiment).clone(), Vec::new()))
    }

    /// A worker that is ready; without a stage it is that of a node of its own.
    pub(super) fn worker(&self, id: WorkerId, cores: usize, stage: Option<Operator>) {
        self.driver.state().workers.push(WorkerState {
            id,
            stage,
            node: stage.is_none().then(|| node(&format!("n{id}"), cores as f64)),
            cores,
            ready: true,
            asked: false,
            units: BTreeMap::new(),
            idle_since: Instant::now(),
        });
    }

    /// Changes a worker.
    pub(super) fn change(&self, id: WorkerId, change: impl FnOnce(&mut WorkerState)) {
        change(self.driver.state().workers.iter_mut().find(|worker| worker.id == id).unwrap());
    }

    /// Queues a task, and returns where its result comes.
    pub(super) fn queue(&self, task: &str) -> Reply {
        self.queue_with(task, |_| {})
    }

    /// Queues a task whose assignment is changed.
    pub(super) fn queue_with(&self, task: &str, change: impl FnOnce(&mut Assignment)) -> Reply {
        let mut assignment = Assignment {
            plan: self.plan.clone(),
            id: id(&self.plan, task),
            inputs: HashMap::new(),
            partial: false,
            turn: CallTurn::default(),
            run_context: self.run_context.clone(),
            progress: Progress::default(),
        };
        change(&mut assignment);
        let operator = assignment.task().operator();
        let (done, reply) = oneshot::channel();
        let queued = QueuedTask { assignment, questions: "questions/1.json".to_owned(), deaths: 0, done };
        self.driver.state().queues.entry(operator).or_default().push_back(queued);
        reply
    }

    /// Queues `load 0` and so on.
    pub(super) fn queue_loads(&self, count: usize) -> Vec<Reply> {
        (0..count).map(|i| self.queue(&format!("load {i}"))).collect()
    }

    /// The names of the tasks that wait, in the order in which they will be handed out.
    pub(super) fn waiting(&self, operator: Operator) -> Vec<String> {
        let state = self.driver.state();
        state.queues.get(&operator).into_iter().flatten().map(|queued| queued.assignment.task().label.clone()).collect()
    }

    /// Hands out what can be handed out. Returns all units so far: the worker, and the names of the tasks.
    pub(super) async fn hand_out(&self) -> Vec<(WorkerId, Vec<String>)> {
        self.driver.hand_out_waiting();
        settle().await;
        let units = self.cluster.units.lock().unwrap();
        let tasks = |unit: &Unit| unit.tasks.iter().map(|task| task.task.label.clone()).collect();
        units.iter().map(|(worker, unit)| (*worker, tasks(unit))).collect()
    }

    /// Looks after the workers. Returns what was started by it: the node if one was named, and the resources.
    pub(super) async fn staff(&self) -> Vec<(Option<String>, Resources)> {
        self.driver.staff().await;
        settle().await;
        self.cluster.started.lock().unwrap().drain(..).map(|(_, node, resources)| (node, resources)).collect()
    }

    /// What becomes of the next unit.
    pub(super) fn next_reply(&self, reply: Result<UnitReply, CallError>) {
        let bytes = reply.map(|reply| serde_json::to_vec(&reply).unwrap());
        self.cluster.replies.lock().unwrap().push_back(bytes);
    }
}

/// Lets all that was spawned go as far as it can.
pub(super) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// What a reply says, if it has come.
pub(super) fn said(reply: &mut Reply) -> Option<Result<String, String>> {
    let result = reply.try_recv().ok()?;
    Some(result.map(|output| output.artifact).map_err(|error| error.to_string()))
}
