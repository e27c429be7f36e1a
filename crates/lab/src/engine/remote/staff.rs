//! Staffing: a worker for each node, pools for stages that have resources of
//! their own, and what to do where there are no workers.

use super::{LOOK, Shared, Starts, State, WorkerState};
use crate::{
    engine::{
        CallError, ClusterNode, Resources, WorkerId,
        unit::{Look, WorkerSetup},
    },
    plan::Operator,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// A worker of a stage without work for so long is ended, if it may be.
const IDLE: Duration = Duration::from_secs(30);
/// After so many failed starts in a row a node is left alone for a while.
const FAILED_STARTS: u32 = 3;
const LEFT_ALONE: Duration = Duration::from_secs(60);
/// How long a run waits without any worker before its tasks fail.
const WITHOUT_WORKERS: Duration = Duration::from_secs(180);

impl Shared {
    /// Starts workers where there are too few, and ends those that are idle.
    pub(super) async fn staff(self: &Arc<Self>) {
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
                    state.see(idle, Look::default());
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
        state.workers.push(WorkerState {
            id,
            stage,
            node: node.clone(),
            cores,
            ready: false,
            asked: false,
            units,
            idle_since,
        });
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
