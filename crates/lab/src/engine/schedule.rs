//! The order in which an engine runs a plan's tasks; the same for all engines.
//!
//! The tasks in flight bound the memory: every output goes to the store, and of
//! the ready tasks the one closest to the end of the pipeline starts first, so
//! earlier stages wait instead of piling up outputs. Trials that are nearly
//! done go before all others.

use super::{Outputs, PlanOutcome, TrialTurns};
use crate::{
    Error, error_chain, failed_function,
    operator::Operator,
    plan::{Plan, Task, TaskId},
    progress::Progress,
    settlement::ends_all,
    steering::Steering,
    task::{CallTurn, RunContext, StoredOutput},
};
use async_trait::async_trait;
use serde_json::json;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Bound,
    sync::Arc,
    time::{Duration, Instant},
};
use store::ArtifactStore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often the engine checks that the store still exists.
const STORE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a cancelled run waits for aborted tasks: a task that computes goes on to its next
/// await.
const ABORT_WAIT: Duration = Duration::from_secs(1);

/// A task that is to run now.
#[derive(Clone)]
pub(crate) struct Assignment {
    pub(crate) plan: Arc<Plan>,
    pub(crate) id: TaskId,
    /// Where the task's inputs are.
    pub(crate) inputs: Outputs,
    /// Whether one of its inputs is partial.
    pub(crate) partial: bool,
    /// The place of its model calls in the queue.
    pub(crate) turn: CallTurn,
    pub(crate) run_context: Arc<RunContext>,
    pub(crate) progress: Progress,
}

impl Assignment {
    pub(crate) fn task(&self) -> &Task {
        &self.plan.tasks[self.id]
    }
}

/// Where an engine's tasks run.
#[async_trait]
pub(crate) trait Runner: Send + Sync {
    /// How many tasks of an operator it takes at once.
    fn limit(&self, operator: Operator) -> usize;

    /// Waits until a limit may have changed without a task ending.
    async fn limit_changed(&self) {
        std::future::pending().await
    }

    async fn run(&self, assignment: Assignment) -> Result<StoredOutput, Error>;
}

/// Ready tasks: those of trials that are nearly done, then the most
/// downstream operator, then the order of the plan.
type Ready = BTreeSet<ReadyTask>;
type ReadyTask = (Reverse<i32>, Reverse<Operator>, TaskId);

fn ready_task(plan: &Plan, turn: CallTurn, id: TaskId) -> ReadyTask {
    (Reverse(turn.priority), Reverse(plan.tasks[id].operator()), id)
}

fn next(runner: &dyn Runner, ready: &mut Ready, active: &HashMap<Operator, usize>) -> Option<TaskId> {
    // A full operator is skipped as a whole: it may have many ready tasks.
    let mut from = Bound::Unbounded;
    loop {
        let place = ready.range((from, Bound::Unbounded)).next().copied()?;
        let (priority, Reverse(operator), id) = place;
        if active.get(&operator).copied().unwrap_or(0) < runner.limit(operator) {
            ready.remove(&place);
            return Some(id);
        }
        from = Bound::Excluded((priority, Reverse(operator), TaskId::MAX));
    }
}

/// Executes what is not in the store yet.
pub(super) async fn execute(
    runner: Arc<dyn Runner>,
    plan: &Arc<Plan>,
    run_context: &Arc<RunContext>,
    progress: &Progress,
    (cancel, steering): (&CancellationToken, &Steering),
) -> Result<PlanOutcome, Error> {
    let mut steered = steering.changes();
    let stored = stored_tasks(plan, &run_context.store).await?;
    let damaged = damaged_tasks(plan, &stored, &run_context.store).await?;
    let (to_run, reused) = tasks_to_run(plan, &stored, &damaged);
    progress.begin(plan, &to_run, &reused);
    progress.watch(run_context.models().client());
    run_context.log("tasks_reused", json!({ "count": reused.len(), "to_run": to_run.len() }));

    let mut outcome = PlanOutcome { reused: reused.len(), ..PlanOutcome::default() };
    outcome.outputs.extend(reused.iter().map(|&id| (id, plan.tasks[id].artifact())));
    let mut waiting: HashMap<TaskId, usize> = HashMap::new();
    let mut users: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    let mut ready = Ready::new();
    let mut turns = TrialTurns::new(plan, &to_run);
    let running: HashSet<TaskId> = to_run.iter().copied().collect();
    for &id in &to_run {
        let open: HashSet<TaskId> =
            plan.tasks[id].inputs().iter().copied().filter(|input| running.contains(input)).collect();
        for &input in &open {
            users.entry(input).or_default().push(id);
        }
        if open.is_empty() {
            ready.insert(ready_task(plan, turns.of(id), id));
        } else {
            waiting.insert(id, open.len());
        }
    }

    let mut active: HashMap<Operator, usize> = HashMap::new();
    let mut partial: HashSet<TaskId> = HashSet::new();
    let mut set: JoinSet<(TaskId, Result<StoredOutput, Error>)> = JoinSet::new();
    let mut gone = Box::pin(gone(&run_context.store));
    // The error that ends all work. Tasks that have begun are awaited, because their calls are
    // paid.
    let mut end: Option<Error> = None;
    // Tasks that only stopped trials need.
    let mut dropped: HashSet<TaskId> = HashSet::new();
    let mut n_stopped = 0;
    loop {
        let stopped = steering.stopped_trials();
        if stopped.len() > n_stopped {
            n_stopped = stopped.len();
            let needed = tasks_for_others(plan, &running, &stopped);
            for &id in to_run.iter().filter(|id| !needed.contains(id)) {
                let was_ready = ready.remove(&ready_task(plan, turns.of(id), id));
                if was_ready || waiting.remove(&id).is_some() {
                    progress.withdraw(plan.tasks[id].operator());
                    dropped.insert(id);
                }
            }
        }
        if let Some(next) = steering.next_run() {
            end.get_or_insert(Error::Continued(next.run));
        }
        let is_paused = steering.is_paused();
        while !cancel.is_cancelled()
            && end.is_none()
            && !is_paused
            && let Some(id) = next(&*runner, &mut ready, &active)
        {
            let task = &plan.tasks[id];
            *active.entry(task.operator()).or_default() += 1;
            progress.start(task.operator());
            let needed = task.inputs();
            let inputs: Outputs =
                needed.iter().filter_map(|input| Some((*input, outcome.outputs.get(input)?.clone()))).collect();
            let is_partial = needed.iter().any(|input| partial.contains(input));
            let turn = turns.of(id);
            let (run_context, progress) = (run_context.clone(), progress.clone());
            let assignment =
                Assignment { plan: plan.clone(), id, inputs, partial: is_partial, turn, run_context, progress };
            let runner = runner.clone();
            set.spawn(async move { (id, run(&*runner, assignment).await) });
        }
        let waits_for_a_person = is_paused && end.is_none() && set.is_empty() && !ready.is_empty();
        let joined = tokio::select! {
            joined = set.join_next(), if !waits_for_a_person => joined,
            () = runner.limit_changed() => continue,
            Ok(()) = steered.changed() => continue,
            gone = &mut gone => {
                set.abort_all();
                return Err(gone.into());
            }
            () = cancel.cancelled() => {
                set.abort_all();
                // When a task is dropped, its paid calls go on, and the client waits for them later:
                // so all tasks must be dropped first.
                let gone = async { while set.join_next().await.is_some() {} };
                let _ = tokio::time::timeout(ABORT_WAIT, gone).await;
                return Err(interrupted(run_context, &outcome));
            }
        };
        let Some(joined) = joined else { break };
        let (id, result) =
            joined.map_err(|error| Error::Task { label: "a task".to_owned(), reason: error.to_string() })?;
        let operator = plan.tasks[id].operator();
        active.entry(operator).and_modify(|count| *count -= 1);
        for urgent in turns.end(id) {
            // Until now it was not urgent: an entry with the default priority. The group is not in an entry.
            if ready.remove(&ready_task(plan, CallTurn::default(), urgent)) {
                ready.insert(ready_task(plan, turns.of(urgent), urgent));
            }
        }
        match result {
            Ok(output) => {
                if output.shared {
                    progress.share(operator, plan.tasks[id].rows);
                    outcome.reused += 1;
                } else {
                    progress.finish(operator, output.rows, output.errors + output.function_errors);
                    outcome.executed += 1;
                }
                outcome.provider_errors += output.errors;
                outcome.unread.extend(output.unread);
                outcome.function_errors += output.function_errors;
                if output.partial {
                    partial.insert(id);
                }
                outcome.outputs.insert(id, output.artifact);
                for &user in users.get(&id).into_iter().flatten() {
                    if let Some(open) = waiting.get_mut(&user) {
                        *open -= 1;
                        if *open == 0 {
                            waiting.remove(&user);
                            ready.insert(ready_task(plan, turns.of(user), user));
                        }
                    }
                }
            }
            Err(error)
                if cancel.is_cancelled() && matches!(crate::model_error(&error), Some(models::Error::Cancelled)) => {}
            // From here on no output could be stored.
            Err(error @ Error::Store(store::Error::Gone { .. })) => {
                set.abort_all();
                return Err(error);
            }
            Err(error) if ends_all(&error) => {
                progress.fail(operator, true);
                if let Error::Store(full) = &error
                    && let Some(full) = full.clone_if_full()
                {
                    run_context.models().client().stop(full);
                }
                end.get_or_insert(error);
            }
            Err(error) => {
                progress.fail(operator, true);
                fail(plan, id, &error, &users, &mut waiting, &mut outcome, progress);
            }
        }
    }
    // With nothing in flight, the loop may end without having seen the cancellation.
    let is_whole = outcome.outputs.len() + outcome.failed.len() + dropped.len() == to_run.len() + reused.len();
    if end.is_none() && !is_whole && cancel.is_cancelled() {
        return Err(interrupted(run_context, &outcome));
    }
    end.map_or(Ok(outcome), Err)
}

/// The tasks among `running` that trials need that were not stopped.
fn tasks_for_others(plan: &Plan, running: &HashSet<TaskId>, stopped: &BTreeMap<String, String>) -> HashSet<TaskId> {
    let mut open = plan.sinks_without(|trial| stopped.contains_key(trial));
    let mut needed = HashSet::new();
    while let Some(id) = open.pop() {
        if running.contains(&id) && needed.insert(id) {
            open.extend(plan.tasks[id].inputs());
        }
    }
    needed
}

fn interrupted(run_context: &RunContext, outcome: &PlanOutcome) -> Error {
    run_context.log("run_interrupted", json!({ "executed": outcome.executed }));
    Error::Interrupted
}

/// Records that a task failed, and with it everything that depends on it.
fn fail(
    plan: &Plan,
    id: TaskId,
    error: &Error,
    users: &HashMap<TaskId, Vec<TaskId>>,
    waiting: &mut HashMap<TaskId, usize>,
    outcome: &mut PlanOutcome,
    progress: &Progress,
) {
    let (reason, function) = (error_chain(error), failed_function(error));
    let consequence = format!("not run, because `{}` failed: {reason}", plan.tasks[id].label);
    let over_budget = matches!(crate::model_error(error), Some(models::Error::BudgetExhausted { .. }));
    let mut record = |task: TaskId, reason: String| {
        outcome.failed.insert(task, reason);
        outcome.over_budget.extend(over_budget.then_some(task));
        outcome.failed_functions.extend(function.map(|failure| (task, (id, failure.clone()))));
    };
    record(id, reason);
    let mut open: Vec<TaskId> = users.get(&id).cloned().unwrap_or_default();
    while let Some(user) = open.pop() {
        if waiting.remove(&user).is_some() {
            progress.fail(plan.tasks[user].operator(), false);
            record(user, consequence.clone());
            open.extend(users.get(&user).into_iter().flatten());
        }
    }
}

async fn run(runner: &dyn Runner, assignment: Assignment) -> Result<StoredOutput, Error> {
    let (plan, run_context) = (assignment.plan.clone(), assignment.run_context.clone());
    let task = &plan.tasks[assignment.id];
    let started = Instant::now();
    let component = run_context.components().name(&task.work);
    let fields =
        || json!({ "task": task.key, "operator": task.operator(), "label": task.label, "component": component });
    run_context.log("task_started", fields());
    let result = runner.run(assignment).await;
    let mut fields = fields();
    fields["seconds"] = json!(started.elapsed().as_secs_f64());
    match &result {
        Ok(output) if output.shared => run_context.log("task_shared", fields),
        // A partial output is not finished: the next run tries again.
        Ok(output) => {
            fields["rows"] = json!(output.rows);
            fields["errors"] = json!(output.errors);
            if output.resumed > 0 {
                fields["resumed"] = json!(output.resumed);
            }
            if output.bytes > 0 {
                fields["bytes"] = json!(output.bytes);
            }
            fields["function_errors"] = json!(output.function_errors);
            if !output.failures.is_empty() {
                fields["failures"] = json!(output.failures);
            }
            run_context.log(if output.partial { "task_partial" } else { "task_finished" }, fields);
        }
        Err(error) => {
            fields["error"] = json!(error_chain(error));
            run_context.log("task_failed", fields);
        }
    }
    result
}

/// For each task, whether its artifact is in the store.
pub(crate) async fn stored_tasks(plan: &Plan, store: &ArtifactStore) -> Result<Vec<bool>, Error> {
    let names: Vec<String> = plan.tasks.iter().map(Task::artifact).collect();
    Ok(store.which_exist(&names).await?)
}

/// The tasks that must be done again because their output was damaged and set
/// aside, even if no remaining task needs the output.
pub(crate) async fn damaged_tasks(plan: &Plan, stored: &[bool], store: &ArtifactStore) -> Result<Vec<TaskId>, Error> {
    let lost: HashSet<String> = store.lost().await?.into_iter().collect();
    let missing = |id: &TaskId| !stored[*id] && lost.contains(&plan.tasks[*id].artifact());
    Ok(if lost.is_empty() { Vec::new() } else { (0..plan.tasks.len()).filter(missing).collect() })
}

/// Waits until the store is removed.
async fn gone(store: &ArtifactStore) -> store::Error {
    loop {
        tokio::time::sleep(STORE_CHECK_INTERVAL).await;
        if let Err(error @ store::Error::Gone { .. }) = store.writable() {
            return error;
        }
    }
}

/// The tasks that must run, and the stored tasks whose outputs they or the
/// results need. The inputs of a stored task are not looked at.
pub(crate) fn tasks_to_run(plan: &Plan, stored: &[bool], damaged: &[TaskId]) -> (Vec<TaskId>, Vec<TaskId>) {
    let mut seen = vec![false; plan.tasks.len()];
    let (mut to_run, mut reused) = (Vec::new(), Vec::new());
    let mut open = plan.sinks();
    open.extend(damaged);
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        if stored[id] {
            reused.push(id);
        } else {
            to_run.push(id);
            open.extend(&plan.tasks[id].inputs());
        }
    }
    to_run.sort_unstable();
    reused.sort_unstable();
    (to_run, reused)
}

#[cfg(test)]
pub(super) mod tests;
