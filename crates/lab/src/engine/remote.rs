//! The engine of a cluster: hands tasks to workers on other machines, and
//! hands them out again where a worker died.
//!
//! - One worker for each node executes all stages without settings of their
//!   own. A stage with settings has a pool of workers, which grows while its
//!   tasks wait and shrinks while they are idle.
//! - Short tasks are sent together as one unit of about a tenth of a second, so
//!   that the cluster's overhead per call does not matter.
//! - A worker that died is replaced while its node is alive, and its tasks go
//!   to other workers. Outputs that it had written are in the store, and paid
//!   answers are in the journal, so only the rest is repeated.
//!
//! Source of the shape (an actor per node that holds a native engine): the
//! distributed engine of Daft, "Flotilla", 2025.

mod hand_out;
mod staff;
#[cfg(test)]
mod testing;

use super::{
    Assignment, Local, PlanOutcome, Runner, schedule,
    unit::{WorkerActivity, WorkerOrders, WorkerSetup},
};
use crate::{
    Error,
    cluster::{Cluster, ClusterNode, WorkerId},
    layout,
    operator::Operator,
    plan::Plan,
    progress::Progress,
    spec::{EngineSpec, Experiment, StageSpec},
    steering::Steering,
    task::{RunContext, StoredOutput},
};
use async_trait::async_trait;
use models::Caps;
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicU64},
    time::{Duration, Instant},
};
use store::ArtifactStore;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// The intended duration of a unit in seconds, and the most tasks that it holds.
const UNIT_SECONDS: f64 = 0.1;
const UNIT_TASKS: usize = 64;
/// The interval between two checks of the nodes.
const NODE_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How often workers are asked what they are doing.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(1);

/// Executes on a cluster. Clones share the workers, which live as long as one of them.
#[derive(Clone)]
pub struct Remote {
    shared: Arc<SharedDriver>,
}

struct SharedDriver {
    cluster: Arc<dyn Cluster>,
    store: ArtifactStore,
    setup: WorkerSetup,
    spec: EngineSpec,
    embeds_elsewhere: bool,
    next: AtomicU64,
    began: Instant,
    state: Mutex<DriverState>,
    /// Signals the dispatcher that there is something to do.
    work: Notify,
    /// Signals the schedule that it may hand out more tasks.
    room: Notify,
}

#[derive(Default)]
struct DriverState {
    queues: BTreeMap<Operator, VecDeque<QueuedTask>>,
    workers: Vec<WorkerState>,
    starts: HashMap<String, StartAttempts>,
    /// The usual duration of a task, in seconds.
    usual_seconds: BTreeMap<Operator, f64>,
    /// By execution (the address of its [`RunContext`]), the name of the stored object with its questions.
    questions: HashMap<usize, String>,
    /// The live tables of the plan that is executed.
    progress: Option<Progress>,
    repeated: usize,
    deaths: usize,
    last_problem: Option<String>,
    without_workers: Option<Instant>,
    /// Since when a stage has had tasks but no ready worker.
    unstaffed: BTreeMap<Operator, Instant>,
    growth: ClusterGrowth,
    /// The caps of the workers' budget, if they were replaced.
    caps: Option<Caps>,
    /// What people do to the run that is executed.
    steering: Option<Steering>,
}

/// How the cluster gets more nodes.
#[derive(Default)]
struct ClusterGrowth {
    /// The nodes that were there before `worker` was requested.
    known: HashSet<String>,
    /// Since when tasks have been waiting.
    backlog: Option<Instant>,
    /// The worker for which there is no room yet.
    worker: Option<WorkerId>,
}

/// A task that waits for a worker.
struct QueuedTask {
    assignment: Assignment,
    questions: String,
    deaths: usize,
    done: oneshot::Sender<Result<StoredOutput, Error>>,
}

struct WorkerState {
    id: WorkerId,
    /// The stage whose tasks it runs; none for a node's worker.
    stage: Option<Operator>,
    node: Option<ClusterNode>,
    cores: usize,
    ready: bool,
    /// Whether it was asked what it is doing and has not answered yet.
    asked: bool,
    units: BTreeMap<Operator, usize>,
    idle_since: Instant,
}

#[derive(Default)]
struct StartAttempts {
    failed: u32,
    not_before: Option<Instant>,
}

impl Remote {
    /// An engine on this cluster. Workers start with the first plan.
    pub fn new(cluster: Arc<dyn Cluster>, store: ArtifactStore, setup: WorkerSetup, experiment: &Experiment) -> Self {
        let shared = Arc::new(SharedDriver {
            cluster,
            store,
            setup,
            spec: experiment.engine.clone(),
            embeds_elsewhere: experiment.embeds_elsewhere(),
            next: AtomicU64::new(1),
            began: Instant::now(),
            state: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
        });
        tokio::spawn(dispatch(Arc::downgrade(&shared)));
        Self { shared }
    }

    /// Tasks that were handed out again because their worker died or could
    /// not be reached, and workers that died.
    pub(crate) fn losses(&self) -> (usize, usize) {
        let state = self.shared.state();
        (state.repeated, state.deaths)
    }

    /// Replaces the caps of the budget that the workers divide. They got what was left of the run's caps when the
    /// cluster was joined, so theirs change by as much as those of the run.
    ///
    /// # Errors
    /// Why that is not possible, in a sentence.
    pub(crate) async fn set_caps(&self, before: Caps, after: Caps) -> Result<(), String> {
        let Some((name, given)) = &self.shared.setup.budget else {
            return Err("the run began without a budget, so its workers ask for none".to_owned());
        };
        let now = self.shared.state().caps.unwrap_or(*given);
        let changed = |now: Option<f64>, before: Option<f64>, after: Option<f64>| match (now, before, after) {
            (Some(now), Some(before), Some(after)) => Some((now + after - before).max(0.0)),
            (_, _, after) => after,
        };
        let counted = |now: Option<u64>, before: Option<u64>, after: Option<u64>| {
            let number = |limit: Option<u64>| limit.map(|limit| limit as f64);
            changed(number(now), number(before), number(after)).map(|limit| limit as u64)
        };
        let caps = Caps {
            usd: changed(now.usd, before.usd, after.usd),
            tokens: counted(now.tokens, before.tokens, after.tokens),
            calls: counted(now.calls, before.calls, after.calls),
            minutes: changed(now.minutes, before.minutes, after.minutes),
        };
        self.shared.cluster.set_caps(name, caps).await.map_err(|error| error.to_string())?;
        self.shared.state().caps = Some(caps);
        Ok(())
    }

    /// Ends all workers.
    pub async fn close(&self) {
        let workers: Vec<WorkerId> = self.shared.state().workers.drain(..).map(|worker| worker.id).collect();
        for worker in workers {
            self.shared.cluster.stop(worker).await;
        }
    }

    /// Writes the questions for the workers, once for each execution.
    async fn questions(&self, run_context: &Arc<RunContext>) -> Result<String, Error> {
        let key = Arc::as_ptr(run_context) as usize;
        if let Some(name) = self.shared.state().questions.get(&key) {
            return Ok(name.clone());
        }
        let bytes = serde_json::to_vec(&(&run_context.questions, &run_context.views)).map_err(Error::table)?;
        let name = layout::questions(&bytes);
        self.shared.store.put(&name, bytes).await?;
        self.shared.state().questions.insert(key, name.clone());
        Ok(name)
    }

    pub(super) async fn execute(
        &self,
        plan: &Arc<Plan>,
        run_context: &Arc<RunContext>,
        progress: &Progress,
        steered: (&CancellationToken, &Steering),
    ) -> Result<PlanOutcome, Error> {
        let before = self.losses();
        {
            let mut state = self.shared.state();
            (state.progress, state.steering) = (Some(progress.clone()), Some(steered.1.clone()));
        }
        let outcome = tokio::select! {
            outcome = schedule::execute(Arc::new(self.clone()), plan, run_context, progress, steered) => outcome,
            never = self.shared.tell_pauses(steered.1) => match never {},
        };
        {
            let mut state = self.shared.state();
            // The keys are addresses in memory, which a later execution may reuse.
            state.questions.clear();
            (state.progress, state.steering) = (None, None);
        }
        self.shared.stop_growing().await;
        let (repeated, deaths) = self.losses();
        if (repeated, deaths) != before {
            run_context
                .log("workers_lost", json!({ "workers": deaths - before.1, "tasks_repeated": repeated - before.0 }));
        }
        if matches!(outcome, Err(Error::Interrupted)) {
            self.close().await;
        }
        outcome.map(|outcome| PlanOutcome { repeated: repeated - before.0, ..outcome })
    }
}

#[async_trait]
impl Runner for Remote {
    fn limit(&self, operator: Operator) -> usize {
        let state = self.shared.state();
        let stage = self.shared.stage(operator);
        let ready = state.workers.iter().filter(|worker| worker.ready && worker.stage == stage);
        let slots: usize = ready.map(|worker| self.shared.slots(worker, operator)).sum();
        // One unit more than there are slots may wait, so that a worker that is
        // done continues at once.
        (slots + 1) * state.batch(operator)
    }

    async fn limit_changed(&self) {
        self.shared.room.notified().await;
    }

    async fn run(&self, assignment: Assignment) -> Result<StoredOutput, Error> {
        let questions = self.questions(&assignment.run_context).await?;
        let (done, reply) = oneshot::channel();
        let operator = assignment.task().operator();
        let queued = QueuedTask { assignment, questions, deaths: 0, done };
        self.shared.state().queues.entry(operator).or_default().push_back(queued);
        self.shared.work.notify_one();
        reply.await.unwrap_or_else(|_| Err(Error::Remote("the engine ended before the task did".to_owned())))
    }
}

impl SharedDriver {
    fn state(&self) -> MutexGuard<'_, DriverState> {
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
        // Each worker has its own machine or its own share of one.
        let (tasks, embeds_elsewhere) = (self.spec.local.tasks, self.embeds_elsewhere);
        Local { cores: worker.cores, tasks, embeds_elsewhere }.limit(operator)
    }
}

impl DriverState {
    /// What people have changed since the run began.
    fn orders(&self) -> WorkerOrders {
        WorkerOrders { is_paused: self.steering.as_ref().is_some_and(Steering::is_paused), caps: self.caps }
    }

    /// The number of tasks of an operator that are sent as one unit.
    fn batch(&self, operator: Operator) -> usize {
        let usual_seconds = self.usual_seconds.get(&operator).copied().unwrap_or(UNIT_SECONDS);
        ((UNIT_SECONDS / usual_seconds.max(1e-6)).ceil() as usize).clamp(1, UNIT_TASKS)
    }

    /// Shows what a worker does in the live tables.
    fn show_activity(&self, worker: WorkerId, look: WorkerActivity) {
        let Some(progress) = &self.progress else { return };
        for (operator, rows) in look.rows {
            progress.rows(operator, rows);
        }
        for (operator, expected) in look.expected {
            progress.expect_all(operator, expected);
        }
        progress.set_remote_traffic(worker, look.models);
    }

    fn fail(&mut self, operator: Operator, reason: &str) {
        hand_out::refuse(self.queues.get_mut(&operator).map(std::mem::take).into_iter().flatten(), reason);
    }

    fn fail_all(&mut self, reason: &str) {
        hand_out::refuse(self.queues.values_mut().flat_map(std::mem::take), reason);
    }
}

/// Manages queues and workers until the engine is dropped.
async fn dispatch(shared: Weak<SharedDriver>) {
    let (mut looked, mut asked): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        let Some(shared) = shared.upgrade() else { return };
        if looked.is_none_or(|at| at.elapsed() >= NODE_CHECK_INTERVAL) {
            shared.staff().await;
            looked = Some(Instant::now());
        }
        if asked.is_none_or(|at| at.elapsed() >= ACTIVITY_INTERVAL) {
            shared.ask_activity();
            asked = Some(Instant::now());
        }
        shared.hand_out_waiting();
        let _ = tokio::time::timeout(NODE_CHECK_INTERVAL / 4, shared.work.notified()).await;
    }
}

#[cfg(test)]
mod tests;
