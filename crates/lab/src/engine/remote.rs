//! The engine of a cluster: hands tasks to workers on other machines, and
//! hands them out again where a worker died.
//!
//! - One worker for each node executes everything that has no stage of its
//!   own; a stage with settings has a pool of workers, which grows while its
//!   tasks wait and shrinks while they are idle.
//! - Tasks that are short travel together, so that a unit takes about a tenth
//!   of a second and the cluster's own cost per call does not count.
//! - A worker that died is replaced while its node is alive; its tasks go to
//!   others. What they had written is in the store already, and what their
//!   calls paid is in the journal, so a repeated task repeats only the rest.
//!
//! Source of the shape (an actor per node that holds a native engine): the
//! distributed engine of Daft, "Flotilla", 2025.

use super::{
    Assignment, CallError, Cluster, ClusterNode, Engine, Local, Outcome, Resources, Runner, WorkerId, schedule,
    unit::{Reply, TaskReply, Unit, UnitTask, WorkerSetup},
    worker::questions_object,
};
use crate::{
    Error,
    plan::{Operator, Plan},
    progress::Progress,
    spec::{EngineSpec, StageSpec},
    task::{Execution, Output},
};
use async_trait::async_trait;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use store::ArtifactStore;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// What a unit should take, in seconds, and how many tasks it holds at most.
const UNIT_SECONDS: f64 = 0.1;
const UNIT_TASKS: usize = 64;
/// A task whose workers died so often is given up: it may be what kills them.
const DEATHS: usize = 4;
/// How often nodes are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// A worker of a stage without work for so long is ended, if it may be.
const IDLE: Duration = Duration::from_secs(30);
/// After so many failed starts in a row a node is left alone for a while.
const FAILED_STARTS: u32 = 3;
const LEFT_ALONE: Duration = Duration::from_secs(60);
/// How long a run waits without any worker before its tasks fail.
const WITHOUT_WORKERS: Duration = Duration::from_secs(180);

/// Executes on a cluster. Clones share the workers, which live as long as one of them.
#[derive(Clone)]
pub struct Remote {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Arc<dyn Cluster>,
    store: ArtifactStore,
    setup: WorkerSetup,
    spec: EngineSpec,
    next: AtomicU64,
    state: Mutex<State>,
    /// The dispatcher has something to look at.
    work: Notify,
    /// The schedule may hand out more.
    room: Notify,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<Operator, VecDeque<Queued>>,
    workers: Vec<WorkerState>,
    starts: HashMap<String, Starts>,
    /// The usual seconds of a task.
    usual: BTreeMap<Operator, f64>,
    /// Objects with questions that were written.
    questions: HashMap<usize, String>,
    repeated: usize,
    deaths: usize,
    trouble: Option<String>,
    without_workers: Option<Instant>,
}

/// A task that waits for a worker.
struct Queued {
    assignment: Assignment,
    questions: String,
    deaths: usize,
    done: oneshot::Sender<Result<Output, Error>>,
}

struct WorkerState {
    id: WorkerId,
    /// The stage it belongs to; none for a node's worker.
    stage: Option<Operator>,
    node: Option<ClusterNode>,
    cores: usize,
    ready: bool,
    units: BTreeMap<Operator, usize>,
    idle_since: Instant,
}

#[derive(Default)]
struct Starts {
    failed: u32,
    not_before: Option<Instant>,
}

impl Remote {
    /// An engine on this cluster. Workers start with the first plan.
    pub fn new(cluster: Arc<dyn Cluster>, store: ArtifactStore, setup: WorkerSetup, spec: EngineSpec) -> Self {
        let shared = Arc::new(Shared {
            cluster,
            store,
            setup,
            spec,
            next: AtomicU64::new(1),
            state: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
        });
        tokio::spawn(dispatch(Arc::downgrade(&shared)));
        Self { shared }
    }

    /// Tasks that were handed out again because their worker died, and
    /// workers that died.
    pub fn losses(&self) -> (usize, usize) {
        let state = self.shared.state();
        (state.repeated, state.deaths)
    }

    /// Ends all workers.
    pub async fn close(&self) {
        let workers: Vec<WorkerId> = self.shared.state().workers.drain(..).map(|worker| worker.id).collect();
        for worker in workers {
            self.shared.cluster.stop(worker).await;
        }
    }

    /// Writes the questions for the workers, once for each execution.
    async fn questions(&self, execution: &Arc<Execution>) -> Result<String, Error> {
        let key = Arc::as_ptr(execution) as usize;
        if let Some(name) = self.shared.state().questions.get(&key) {
            return Ok(name.clone());
        }
        let bytes = serde_json::to_vec(&execution.questions).map_err(Error::table)?;
        let name = questions_object(&bytes);
        self.shared.store.put(&name, bytes).await?;
        self.shared.state().questions.insert(key, name.clone());
        Ok(name)
    }
}

#[async_trait]
impl Engine for Remote {
    async fn execute(
        &self,
        plan: &Arc<Plan>,
        execution: &Arc<Execution>,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Error> {
        let before = self.losses();
        let outcome = schedule::execute(Arc::new(self.clone()), plan, execution, progress, cancel).await;
        // Addresses are used again: another execution may come to lie here.
        self.shared.state().questions.clear();
        let (repeated, deaths) = self.losses();
        if (repeated, deaths) != before {
            execution.log(
                "workers_lost",
                serde_json::json!({ "workers": deaths - before.1, "tasks_repeated": repeated - before.0 }),
            );
        }
        if matches!(outcome, Err(Error::Interrupted)) {
            self.close().await;
        }
        outcome.map(|outcome| Outcome { repeated: repeated - before.0, ..outcome })
    }
}

#[async_trait]
impl Runner for Remote {
    fn limit(&self, operator: Operator) -> usize {
        let state = self.shared.state();
        let stage = self.shared.stage(operator);
        let slots: usize = state
            .workers
            .iter()
            .filter(|worker| worker.ready && worker.stage == stage)
            .map(|worker| self.shared.slots(worker, operator))
            .sum();
        // A unit's worth waits, so that a worker that is done goes on at once.
        (slots + 1) * state.batch(operator)
    }

    async fn changed(&self) {
        self.shared.room.notified().await;
    }

    async fn run(&self, assignment: Assignment) -> Result<Output, Error> {
        let questions = self.questions(&assignment.execution).await?;
        let (done, reply) = oneshot::channel();
        let operator = assignment.task().operator;
        let queued = Queued { assignment, questions, deaths: 0, done };
        self.shared.state().queues.entry(operator).or_default().push_back(queued);
        self.shared.work.notify_one();
        reply.await.unwrap_or_else(|_| Err(Error::Remote("the engine ended before the task did".to_owned())))
    }
}

impl State {
    /// Tasks of an operator that travel together.
    fn batch(&self, operator: Operator) -> usize {
        let usual = self.usual.get(&operator).copied().unwrap_or(UNIT_SECONDS);
        ((UNIT_SECONDS / usual.max(1e-6)).ceil() as usize).clamp(1, UNIT_TASKS)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stage whose workers an operator's tasks run on.
    fn stage(&self, operator: Operator) -> Option<Operator> {
        self.spec.ray.as_ref().filter(|ray| ray.stages.contains_key(&operator)).map(|_| operator)
    }

    fn stages(&self) -> impl Iterator<Item = (Operator, &StageSpec)> {
        self.spec.ray.iter().flat_map(|ray| ray.stages.iter().map(|(operator, stage)| (*operator, stage)))
    }

    /// Units of an operator that a worker takes at once.
    fn slots(&self, worker: &WorkerState, operator: Operator) -> usize {
        // A worker is a machine of its own.
        Local { cores: worker.cores, tasks: self.spec.local.tasks }.limit(operator)
    }

    /// Gives waiting tasks to workers that have room.
    fn pump(self: &Arc<Self>) {
        let mut units = Vec::new();
        let mut state = self.state();
        let operators: Vec<Operator> = state.queues.keys().rev().copied().collect();
        for operator in operators {
            let (stage, batch) = (self.stage(operator), state.batch(operator));
            loop {
                let State { queues, workers, .. } = &mut *state;
                let Some(queue) = queues.get_mut(&operator).filter(|queue| !queue.is_empty()) else { break };
                let load = |worker: &WorkerState| worker.units.values().sum::<usize>();
                let free = workers.iter_mut().filter(|worker| {
                    let used = worker.units.get(&operator).copied().unwrap_or(0);
                    worker.ready && worker.stage == stage && used < self.slots(worker, operator)
                });
                let Some(worker) = free.min_by_key(|worker| load(worker)) else { break };
                let same = |queued: &Queued, first: &Queued| {
                    Arc::ptr_eq(&queued.assignment.execution, &first.assignment.execution)
                };
                let mut tasks: Vec<Queued> = queue.pop_front().into_iter().collect();
                while tasks.len() < batch
                    && let Some(queued) = queue.pop_front()
                {
                    if !same(&queued, &tasks[0]) {
                        queue.push_front(queued);
                        break;
                    }
                    tasks.push(queued);
                }
                *worker.units.entry(operator).or_default() += 1;
                units.push((worker.id, operator, tasks));
            }
        }
        drop(state);
        for (worker, operator, tasks) in units {
            tokio::spawn(self.clone().unit(worker, operator, tasks));
        }
    }

    async fn unit(self: Arc<Self>, worker: WorkerId, operator: Operator, tasks: Vec<Queued>) {
        let reply = match serde_json::to_vec(&unit(&tasks)) {
            Ok(bytes) => self.cluster.call(worker, bytes).await,
            Err(error) => Err(CallError::Failed(error.to_string())),
        };
        {
            let mut state = self.state();
            if let Some(worker) = state.workers.iter_mut().find(|other| other.id == worker) {
                worker.units.entry(operator).and_modify(|units| *units = units.saturating_sub(1));
                worker.idle_since = Instant::now();
            }
        }
        match reply {
            Ok(bytes) => self.replied(operator, tasks, &bytes),
            Err(CallError::Failed(reason)) => refuse(tasks, &reason),
            Err(CallError::Died(reason)) => {
                self.lost(worker, &reason);
                self.again(operator, tasks, &reason, 1);
            }
            Err(CallError::Unavailable(reason)) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.again(operator, tasks, &reason, 0);
            }
        }
        self.work.notify_one();
        self.room.notify_one();
    }

    fn replied(&self, operator: Operator, tasks: Vec<Queued>, bytes: &[u8]) {
        let reply: Reply = match serde_json::from_slice(bytes) {
            Ok(reply) => reply,
            Err(error) => {
                let reason = format!("a worker's reply cannot be read ({error}): is the same version everywhere?");
                refuse(tasks, &reason);
                return;
            }
        };
        if let Some(first) = tasks.first() {
            first.assignment.execution.models().client().meter().merge(&reply.spending);
        }
        for (task, TaskReply { result, seconds }) in tasks.into_iter().zip(reply.tasks) {
            let mut state = self.state();
            let usual = state.usual.entry(operator).or_insert(seconds);
            *usual += (seconds - *usual) * 0.2;
            drop(state);
            if let Ok(output) = &result {
                task.assignment.progress.rows(operator, output.rows);
            }
            let _ = task.done.send(result.map_err(Error::Remote));
        }
    }

    /// A worker is gone.
    fn lost(&self, worker: WorkerId, reason: &str) {
        let mut state = self.state();
        let before = state.workers.len();
        state.workers.retain(|other| other.id != worker);
        if state.workers.len() < before {
            state.deaths += 1;
            state.trouble = Some(reason.to_owned());
        }
    }

    /// Tasks go to the front of their queue: they have waited long enough.
    fn again(&self, operator: Operator, tasks: Vec<Queued>, reason: &str, deaths: usize) {
        let mut state = self.state();
        for mut task in tasks.into_iter().rev() {
            task.deaths += deaths;
            if task.deaths >= DEATHS {
                let _ = task.done.send(Err(Error::Remote(format!(
                    "the workers that had it died {DEATHS} times, at last so: {reason}"
                ))));
                continue;
            }
            state.repeated += 1;
            state.queues.entry(operator).or_default().push_front(task);
        }
    }

    /// Starts workers where there are too few, and ends those that are idle.
    async fn staff(self: &Arc<Self>) {
        let nodes = match self.cluster.nodes().await {
            Ok(nodes) => nodes,
            Err(reason) => {
                self.state().trouble = Some(reason);
                return;
            }
        };
        let mut starting = Vec::new();
        let mut ending = Vec::new();
        let now = Instant::now();
        {
            let mut state = self.state();
            for node in nodes {
                let staffed = |worker: &WorkerState| {
                    worker.stage.is_none() && worker.node.as_ref().is_some_and(|other| other.id == node.id)
                };
                let waits = |starts: &Starts| starts.not_before.is_some_and(|at| at > now);
                if state.workers.iter().any(staffed) || state.starts.get(&node.id).is_some_and(waits) {
                    continue;
                }
                let cores = (node.cpus.floor() as usize).max(1);
                // A CPU is left to others where there are several, such as
                // workers of stages and the tasks of Ray Data.
                let cpus = if node.cpus >= 2.0 { node.cpus - 1.0 } else { node.cpus / 2.0 };
                let resources = Resources { cpus, ..Resources::default() };
                starting.push(self.worker(&mut state, None, Some(node), cores, resources));
            }
            for (operator, stage) in self.stages() {
                let queued = state.queues.get(&operator).map_or(0, VecDeque::len);
                let pool: Vec<&WorkerState> =
                    state.workers.iter().filter(|worker| worker.stage == Some(operator)).collect();
                let busy = |worker: &&WorkerState| worker.units.get(&operator).is_some_and(|units| *units > 0);
                let all_busy = pool.iter().all(|worker| worker.ready && busy(worker));
                let count = pool.len();
                let idle = pool.iter().find(|worker| {
                    worker.ready && !busy(worker) && worker.idle_since.elapsed() > IDLE && count > stage.min
                });
                if let Some(idle) = idle.map(|worker| worker.id) {
                    state.workers.retain(|worker| worker.id != idle);
                    ending.push(idle);
                }
                let missing = stage.min.max(usize::from(queued > 0)).saturating_sub(count);
                let more = if missing == 0 && queued > 0 && all_busy && count < stage.max { 1 } else { missing };
                for _ in 0..more {
                    let memory = stage.memory_mib.map(|mib| mib << 20);
                    let resources =
                        Resources { cpus: stage.cpus, gpus: stage.gpus, memory, custom: stage.resources.clone() };
                    let cores = (stage.cpus.floor() as usize).max(1);
                    starting.push(self.worker(&mut state, Some(operator), None, cores, resources));
                }
            }
            self.give_up(&mut state, now);
        }
        for (id, node, setup, resources) in starting {
            tokio::spawn(self.clone().start(id, node, setup, resources));
        }
        for worker in ending {
            self.cluster.stop(worker).await;
        }
    }

    fn worker(
        &self,
        state: &mut State,
        stage: Option<Operator>,
        node: Option<ClusterNode>,
        cores: usize,
        resources: Resources,
    ) -> (WorkerId, Option<ClusterNode>, WorkerSetup, Resources) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (units, idle_since) = (BTreeMap::new(), Instant::now());
        state.workers.push(WorkerState { id, stage, node: node.clone(), cores, ready: false, units, idle_since });
        (id, node, WorkerSetup { cores, ..self.setup.clone() }, resources)
    }

    async fn start(self: Arc<Self>, id: WorkerId, node: Option<ClusterNode>, setup: WorkerSetup, resources: Resources) {
        let place = node.as_ref().map(|node| node.id.as_str());
        let started = match serde_json::to_vec(&setup) {
            Ok(setup) => self.cluster.start(id, place, &resources, &setup).await,
            Err(error) => Err(CallError::Failed(error.to_string())),
        };
        let mut state = self.state();
        let starts = state.starts.entry(place.unwrap_or_default().to_owned()).or_default();
        match started {
            Ok(()) => {
                *starts = Starts::default();
                if let Some(worker) = state.workers.iter_mut().find(|worker| worker.id == id) {
                    worker.ready = true;
                }
            }
            Err(error) => {
                starts.failed += 1;
                let pause = if starts.failed >= FAILED_STARTS { LEFT_ALONE } else { LOOK };
                starts.not_before = Some(Instant::now() + pause);
                state.workers.retain(|worker| worker.id != id);
                let (CallError::Died(reason) | CallError::Unavailable(reason) | CallError::Failed(reason)) = &error;
                let on = node.as_ref().map_or(String::new(), |node| format!(" on {}", node.name));
                let reason = format!("a worker did not start{on}: {reason}");
                state.trouble = Some(reason.clone());
                // What is refused will be refused again; nobody need wait for that.
                let alone = !state.workers.iter().any(|worker| worker.ready || worker.id != id);
                if matches!(error, CallError::Failed(_)) && alone {
                    state.fail_all(&reason);
                }
            }
        }
        drop(state);
        self.work.notify_one();
        self.room.notify_one();
    }

    /// Ends the wait of tasks for which there have been no workers for long.
    fn give_up(&self, state: &mut State, now: Instant) {
        if state.workers.iter().any(|worker| worker.ready) || state.queues.values().all(VecDeque::is_empty) {
            state.without_workers = None;
            return;
        }
        let since = *state.without_workers.get_or_insert(now);
        if now.duration_since(since) > WITHOUT_WORKERS {
            let reason = state.trouble.clone().unwrap_or_else(|| "the cluster has no free resources".to_owned());
            state.fail_all(&format!("no worker for {} s: {reason}", WITHOUT_WORKERS.as_secs()));
        }
    }
}

impl State {
    fn fail_all(&mut self, reason: &str) {
        refuse(self.queues.values_mut().flat_map(std::mem::take), reason);
    }
}

/// Ends tasks that will not be done.
fn refuse(tasks: impl IntoIterator<Item = Queued>, reason: &str) {
    for task in tasks {
        // Who was cancelled does not listen any more.
        let _ = task.done.send(Err(Error::Remote(reason.to_owned())));
    }
}

/// Looks after queues and workers until the engine is gone.
async fn dispatch(shared: Weak<Shared>) {
    let mut looked: Option<Instant> = None;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        if looked.is_none_or(|at| at.elapsed() >= LOOK) {
            shared.staff().await;
            looked = Some(Instant::now());
        }
        shared.pump();
        let _ = tokio::time::timeout(LOOK / 4, shared.work.notified()).await;
    }
}

fn unit(tasks: &[Queued]) -> Unit {
    let of = |queued: &Queued| UnitTask {
        task: queued.assignment.task().clone(),
        inputs: queued.assignment.inputs.iter().map(|(id, name)| (*id, name.clone())).collect(),
        partial: queued.assignment.partial,
        turn: queued.assignment.turn,
    };
    let (run, questions) = tasks
        .first()
        .map(|first| (first.assignment.execution.run.clone(), first.questions.clone()))
        .unwrap_or_default();
    Unit { run, questions, tasks: tasks.iter().map(of).collect() }
}

#[cfg(test)]
mod tests;
