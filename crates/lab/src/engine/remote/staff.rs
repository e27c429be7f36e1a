//! Starts and ends workers: one for each node, and pools for stages that have resources of their own.
//! Fails tasks that get no worker for too long.

use super::{DriverState, NODE_CHECK_INTERVAL, SharedDriver, StartAttempts, WorkerState};
use crate::{
    cluster::{CallError, ClusterNode, Resources, WorkerId},
    engine::unit::{WorkerActivity, WorkerSetup},
    operator::Operator,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// A stage's worker that has been idle this long is ended, unless it is one of the minimum.
const IDLE: Duration = Duration::from_secs(30);
/// After this many failed starts in a row a node is left alone for a while.
const FAILED_STARTS: u32 = 3;
const LEFT_ALONE: Duration = Duration::from_secs(60);
/// How long a run waits without any worker before its tasks fail.
const WITHOUT_WORKERS: Duration = Duration::from_secs(180);
/// How long a stage's tasks wait for a worker with its resources: a cloud needs
/// minutes to start a machine.
const WITHOUT_STAGE: Duration = Duration::from_secs(900);
/// A longer wait is reported.
const REPORT_AFTER: Duration = Duration::from_secs(20);
/// How long tasks that compute wait before another node is requested.
const GROW_AFTER: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 10 });

/// A worker that is to be started.
type Starting = (WorkerId, Option<ClusterNode>, WorkerSetup, Resources);

fn cores(node: &ClusterNode) -> usize {
    (node.cpus.floor() as usize).max(1)
}

impl SharedDriver {
    /// Starts workers where there are too few, and ends those that are idle.
    pub(super) async fn staff(self: &Arc<Self>) {
        let nodes = match self.cluster.nodes().await {
            Ok(nodes) => nodes,
            Err(error) => {
                self.state().last_problem = Some(error.to_string());
                return;
            }
        };
        let mut starting = Vec::new();
        let mut ending = Vec::new();
        let now = Instant::now();
        {
            let mut state = self.state();
            for node in &nodes {
                let staffed = |worker: &WorkerState| {
                    worker.stage.is_none() && worker.node.as_ref().is_some_and(|other| other.id == node.id)
                };
                let waits = |starts: &StartAttempts| starts.not_before.is_some_and(|at| at > now);
                if state.workers.iter().any(staffed) || state.starts.get(&node.id).is_some_and(waits) {
                    continue;
                }
                // A new node is for the worker that asked for one.
                if state.growth.worker.is_some() && !state.growth.known.contains(&node.id) {
                    continue;
                }
                let resources = Resources { cpus: self.worker_cpus(node), ..Resources::default() };
                starting.push(self.add_worker(&mut state, None, Some(node.clone()), cores(node), resources));
            }
            if state.growth.worker.is_none() {
                state.growth.known = nodes.iter().map(|node| node.id.clone()).collect();
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
                    state.show_activity(idle, WorkerActivity::default());
                    ending.push(idle);
                }
                let missing = stage.min.max(usize::from(queued > 0)).saturating_sub(count);
                let more = if missing == 0 && queued > 0 && all_busy && count < stage.max { 1 } else { missing };
                for _ in 0..more {
                    let memory = stage.memory_mib.map(|mib| mib << 20);
                    let resources =
                        Resources { cpus: stage.cpus, gpus: stage.gpus, memory, custom: stage.resources.clone() };
                    let cores = (stage.cpus.floor() as usize).max(1);
                    starting.push(self.add_worker(&mut state, Some(operator), None, cores, resources));
                }
            }
            if let Some(worker) = self.grow(&mut state, &nodes, now) {
                starting.push(worker);
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

    /// The CPUs of a node that its worker reserves. It leaves as many as the
    /// largest stage needs, at least one, to others, such as the tasks of Ray
    /// Data. On a node that has no more than that, it reserves none, or half if
    /// no stage has settings.
    fn worker_cpus(&self, node: &ClusterNode) -> f64 {
        let wanted = self.stages().map(|(_, stage)| stage.cpus).fold(1.0, f64::max);
        if node.cpus > wanted {
            node.cpus - wanted
        } else if self.stages().next().is_none() {
            node.cpus / 2.0
        } else {
            0.0
        }
    }

    /// Starts a worker without naming a node while tasks that compute wait, so
    /// that a cluster which can grow adds a node; one node at a time. If the
    /// cluster cannot grow, the worker is given up when the plan has ended.
    fn grow(&self, state: &mut DriverState, nodes: &[ClusterNode], now: Instant) -> Option<Starting> {
        let waits = |(operator, queue): (&Operator, &VecDeque<_>)| {
            !queue.is_empty() && !operator.waits() && self.stage(*operator).is_none()
        };
        if !state.queues.iter().any(waits) {
            state.growth.backlog = None;
            return None;
        }
        let since = *state.growth.backlog.get_or_insert(now);
        let starting = state.workers.iter().any(|worker| worker.stage.is_none() && !worker.ready);
        if starting || state.growth.worker.is_some() || now.duration_since(since) < GROW_AFTER {
            return None;
        }
        let node = nodes.iter().max_by(|a, b| a.cpus.total_cmp(&b.cpus))?;
        // More CPUs than any node has left, so that the worker does not join another on its node.
        let (share, left) = (self.worker_cpus(node), node.cpus - self.worker_cpus(node));
        let cpus = if share > left { share } else { node.cpus };
        let worker = self.add_worker(state, None, None, cores(node), Resources { cpus, ..Resources::default() });
        state.growth.worker = Some(worker.0);
        Some(worker)
    }

    /// Stops waiting for a node that is no longer needed.
    pub(super) async fn stop_growing(&self) {
        let waiting = {
            let mut state = self.state();
            let waiting = state.growth.worker.take();
            state.growth.backlog = None;
            state.workers.retain(|worker| Some(worker.id) != waiting);
            waiting
        };
        if let Some(worker) = waiting {
            self.cluster.stop(worker).await;
        }
    }

    fn add_worker(
        &self,
        state: &mut DriverState,
        stage: Option<Operator>,
        node: Option<ClusterNode>,
        cores: usize,
        resources: Resources,
    ) -> Starting {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        state.workers.push(WorkerState {
            id,
            stage,
            node: node.clone(),
            cores,
            ready: false,
            asked: false,
            units: BTreeMap::new(),
            idle_since: Instant::now(),
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
        if state.growth.worker == Some(id) {
            (state.growth.worker, state.growth.backlog) = (None, None);
        }
        let starts = state.starts.entry(place.unwrap_or_default().to_owned()).or_default();
        match started {
            Ok(place) => {
                *starts = StartAttempts::default();
                if let Some(worker) = state.workers.iter_mut().find(|worker| worker.id == id) {
                    worker.ready = true;
                    // The node of a stage's worker does not matter.
                    if worker.stage.is_none() && worker.node.is_none() {
                        let name = place.clone();
                        worker.node = Some(ClusterNode { id: place, name, cpus: worker.cores as f64 });
                    }
                }
            }
            Err(error) => {
                starts.failed += 1;
                let pause = if starts.failed >= FAILED_STARTS { LEFT_ALONE } else { NODE_CHECK_INTERVAL };
                starts.not_before = Some(Instant::now() + pause);
                state.workers.retain(|worker| worker.id != id);
                let (CallError::Died(reason) | CallError::Unavailable(reason) | CallError::Failed(reason)) = &error;
                let on = node.as_ref().map_or(String::new(), |node| format!(" on {}", node.name));
                let reason = format!("a worker did not start{on}: {reason}");
                state.last_problem = Some(reason.clone());
                // If a worker refuses, it will refuse again, so nobody waits for it.
                if matches!(error, CallError::Failed(_)) && state.workers.is_empty() {
                    state.fail_all(&reason);
                }
            }
        }
        drop(state);
        self.work.notify_one();
        self.room.notify_one();
    }

    /// Fails tasks that have had no workers for too long.
    fn give_up(&self, state: &mut DriverState, now: Instant) {
        for (operator, stage) in self.stages() {
            let waits = state.queues.get(&operator).is_some_and(|queue| !queue.is_empty());
            let staffed = state.workers.iter().any(|worker| worker.stage == Some(operator) && worker.ready);
            let what = format!("stage {}", operator.name());
            if !waits || staffed {
                if state.unstaffed.remove(&operator).is_some()
                    && let Some(progress) = &state.progress
                {
                    progress.set_problem(&what, None);
                }
                continue;
            }
            let waited = now.duration_since(*state.unstaffed.entry(operator).or_insert(now));
            let wanted = format!(
                "no node has {} CPUs{}{}{} free for a worker of this stage",
                stage.cpus,
                if stage.gpus > 0.0 { format!(", {} GPUs", stage.gpus) } else { String::new() },
                stage.memory_mib.map(|mib| format!(", {mib} MiB")).unwrap_or_default(),
                stage.resources.iter().map(|(name, count)| format!(", {count} {name}")).collect::<String>(),
            );
            if waited > WITHOUT_STAGE {
                let reason = format!("stage {}: {wanted}, for {} s", operator.name(), WITHOUT_STAGE.as_secs());
                state.fail(operator, &reason);
            } else if waited > REPORT_AFTER
                && let Some(progress) = &state.progress
            {
                progress.set_problem(&what, Some(wanted));
            }
        }
        if state.workers.iter().any(|worker| worker.ready) || state.queues.values().all(VecDeque::is_empty) {
            state.without_workers = None;
            return;
        }
        let since = *state.without_workers.get_or_insert(now);
        if now.duration_since(since) > WITHOUT_WORKERS {
            let reason = state.last_problem.clone().unwrap_or_else(|| "the cluster has no free resources".to_owned());
            state.fail_all(&format!("no worker for {} s: {reason}", WITHOUT_WORKERS.as_secs()));
        }
    }
}

#[cfg(test)]
mod tests;
