//! Hands tasks out: waiting tasks go as units to workers that have room, and
//! the tasks of a worker that died go to others.

use super::{DriverState, QueuedTask, SharedDriver, WorkerState};
use crate::{
    Error,
    cluster::{CallError, WorkerId},
    engine::unit::{TaskReply, Unit, UnitReply, UnitTask, WorkerActivity},
    operator::Operator,
    steering::Steering,
};
use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long the first workers wait for each other. Each worker begins by
/// sending the paid answers that its node kept because the store could not be
/// reached; a worker that asks a model before that may pay for one of them again.
const OPENING_WAIT: Duration = Duration::from_secs(10);
/// After this many dead workers a task is given up: the task may be what kills them.
const MOST_DEATHS: usize = 4;

impl SharedDriver {
    /// Gives waiting tasks to workers that have room.
    pub(super) fn hand_out_waiting(self: &Arc<Self>) {
        let mut units = Vec::new();
        let mut state = self.state();
        if state.orders().is_paused {
            return;
        }
        let opens = |worker: &WorkerState| worker.node.is_some() && !worker.ready;
        if self.began.elapsed() < OPENING_WAIT && state.workers.iter().any(opens) {
            return;
        }
        let operators: Vec<Operator> = state.queues.keys().rev().copied().collect();
        for operator in operators {
            let (stage, batch) = (self.stage(operator), state.batch(operator));
            loop {
                let DriverState { queues, workers, .. } = &mut *state;
                let Some(queue) = queues.get_mut(&operator).filter(|queue| !queue.is_empty()) else { break };
                let load = |worker: &WorkerState| worker.units.values().sum::<usize>();
                let free = workers.iter_mut().filter(|worker| {
                    let used = worker.units.get(&operator).copied().unwrap_or(0);
                    worker.ready && worker.stage == stage && used < self.slots(worker, operator)
                });
                let Some(worker) = free.min_by_key(|worker| load(worker)) else { break };
                let mut tasks: Vec<QueuedTask> = queue.pop_front().into_iter().collect();
                let run_context = tasks[0].assignment.run_context.clone();
                let is_same = |queued: &mut QueuedTask| Arc::ptr_eq(&queued.assignment.run_context, &run_context);
                while tasks.len() < batch
                    && let Some(queued) = queue.pop_front_if(is_same)
                {
                    tasks.push(queued);
                }
                *worker.units.entry(operator).or_default() += 1;
                units.push((worker.id, operator, tasks));
            }
        }
        drop(state);
        for (worker, operator, tasks) in units {
            tokio::spawn(self.clone().send_unit(worker, operator, tasks));
        }
    }

    async fn send_unit(self: Arc<Self>, worker: WorkerId, operator: Operator, tasks: Vec<QueuedTask>) {
        let reply = match serde_json::to_vec(&make_unit(&tasks)) {
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
            Ok(bytes) => self.finish_unit(worker, operator, tasks, &bytes),
            Err(CallError::Failed(reason)) => refuse(tasks, &reason),
            Err(CallError::Died(reason)) => {
                self.remove_dead_worker(worker, &reason);
                self.requeue(operator, tasks, &reason, 1);
            }
            Err(CallError::Unavailable(reason)) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.requeue(operator, tasks, &reason, 0);
            }
        }
        self.work.notify_one();
        self.room.notify_one();
    }

    fn finish_unit(&self, worker: WorkerId, operator: Operator, mut tasks: Vec<QueuedTask>, bytes: &[u8]) {
        let reply: UnitReply = match serde_json::from_slice(bytes) {
            Ok(reply) => reply,
            Err(error) => {
                let reason = format!("a worker's reply cannot be read ({error}): is the same version everywhere?");
                refuse(tasks, &reason);
                return;
            }
        };
        if let Some(first) = tasks.first() {
            let client = first.assignment.run_context.models().client();
            client.meter().merge(&reply.spending);
            client.budget().merge(reply.budget);
        }
        self.state().show_activity(worker, reply.activity);
        let unanswered = tasks.split_off(reply.tasks.len().min(tasks.len()));
        refuse(unanswered, "a worker's reply says nothing of this task: is the same version everywhere?");
        for (task, TaskReply { result, seconds }) in tasks.into_iter().zip(reply.tasks) {
            let mut state = self.state();
            let usual_seconds = state.usual_seconds.entry(operator).or_insert(seconds);
            *usual_seconds += (seconds - *usual_seconds) * 0.2;
            drop(state);
            let _ = task.done.send(result.map_err(Error::from));
        }
    }

    /// Asks the workers that have something to do what they are doing.
    pub(super) fn ask_activity(self: &Arc<Self>) {
        let mut state = self.state();
        let Ok(orders) = serde_json::to_vec(&state.orders()) else { return };
        let busy = |worker: &&mut WorkerState| worker.ready && !worker.asked && worker.units.values().any(|n| *n > 0);
        for worker in state.workers.iter_mut().filter(busy) {
            worker.asked = true;
            let (shared, id, orders) = (self.clone(), worker.id, orders.clone());
            tokio::spawn(async move {
                // A worker that does not answer is asked again; the replies to its units show
                // whether it died.
                let answer = shared.cluster.look(id, orders).await;
                let look = answer.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let mut state = shared.state();
                if let Some(worker) = state.workers.iter_mut().find(|worker| worker.id == id) {
                    worker.asked = false;
                    state.show_activity(id, look.unwrap_or_default());
                }
            });
        }
    }

    /// Tells workers at once when a pause starts or ends.
    pub(super) async fn tell_pauses(self: &Arc<Self>, steering: &Steering) -> Infallible {
        let mut pauses = steering.pauses();
        loop {
            if pauses.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            self.ask_activity();
            self.work.notify_one();
        }
    }

    /// Removes a worker.
    fn remove_dead_worker(&self, worker: WorkerId, reason: &str) {
        let mut state = self.state();
        state.show_activity(worker, WorkerActivity::default());
        let before = state.workers.len();
        state.workers.retain(|other| other.id != worker);
        if state.workers.len() < before {
            state.deaths += 1;
            state.last_problem = Some(reason.to_owned());
        }
    }

    /// Puts tasks at the front of their queue: they have waited long enough.
    fn requeue(&self, operator: Operator, tasks: Vec<QueuedTask>, reason: &str, deaths: usize) {
        let mut state = self.state();
        for mut task in tasks.into_iter().rev() {
            task.deaths += deaths;
            if task.deaths >= MOST_DEATHS {
                let _ = task.done.send(Err(Error::Remote(format!(
                    "the workers that ran this task died {MOST_DEATHS} times, the last time because: {reason}"
                ))));
                continue;
            }
            state.repeated += 1;
            state.queues.entry(operator).or_default().push_front(task);
        }
    }
}

/// Ends tasks that will not be done.
pub(super) fn refuse(tasks: impl IntoIterator<Item = QueuedTask>, reason: &str) {
    for task in tasks {
        // A cancelled receiver no longer listens.
        let _ = task.done.send(Err(Error::Remote(reason.to_owned())));
    }
}

fn make_unit(tasks: &[QueuedTask]) -> Unit {
    let of = |queued: &QueuedTask| UnitTask {
        task: queued.assignment.task().clone(),
        inputs: queued.assignment.inputs.iter().map(|(id, name)| (*id, name.clone())).collect(),
        partial: queued.assignment.partial,
        turn: queued.assignment.turn,
    };
    let (run, questions) = tasks
        .first()
        .map(|first| (first.assignment.run_context.run.clone(), first.questions.clone()))
        .unwrap_or_default();
    Unit { run, questions, tasks: tasks.iter().map(of).collect() }
}

#[cfg(test)]
mod tests;
