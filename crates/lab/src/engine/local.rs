//! The engine of one machine: tokio for what waits, blocking threads within
//! the CPU budget for what computes.
//!
//! Memory is bounded by the tasks in flight: every output goes to the store,
//! and of the tasks that are ready the most downstream one starts first, so
//! that upstream stages wait while their outputs pile up. Trials that are
//! nearly done go before all others.

use super::{Engine, Outcome, Outputs, Turn, Turns};
use crate::{
    Error, error_chain,
    plan::{Operator, Plan, Task, TaskId},
    progress::Progress,
    task::{self, Execution, Output},
};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Instant,
};
use store::ArtifactStore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Executes on this machine.
#[derive(Debug, Clone)]
pub struct Local {
    /// Tasks that compute, at most.
    pub cores: usize,
    /// Tasks that wait for models, at most.
    pub tasks: usize,
}

/// Ready tasks: those of trials that are nearly done, then the most
/// downstream operator, then the order of the plan.
type Ready = BTreeSet<Place>;
type Place = (Reverse<i32>, Reverse<Operator>, TaskId);

fn place(plan: &Plan, turn: Turn, id: TaskId) -> Place {
    (Reverse(turn.priority), Reverse(plan.tasks[id].operator), id)
}

impl Local {
    fn limit(&self, operator: Operator) -> usize {
        match operator {
            // One embedding task fills the budget: it has its own batches.
            Operator::Embed => 1,
            Operator::Generate | Operator::Judge | Operator::Rerank => self.tasks,
            _ => self.cores,
        }
    }

    fn next(&self, ready: &mut Ready, active: &HashMap<Operator, usize>) -> Option<TaskId> {
        let fits = |operator| active.get(&operator).copied().unwrap_or(0) < self.limit(operator);
        let next = ready.iter().find(|(_, Reverse(operator), _)| fits(*operator)).copied()?;
        ready.remove(&next);
        Some(next.2)
    }
}

#[async_trait]
impl Engine for Local {
    async fn execute(
        &self,
        plan: &Arc<Plan>,
        execution: &Arc<Execution>,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Error> {
        let stored = stored(plan, &execution.store).await?;
        let (to_run, reused) = required(plan, &stored);
        progress.begin(plan, &to_run, &reused);
        progress.watch(execution.models().client());
        execution.log("tasks_reused", serde_json::json!({ "count": reused.len(), "to_run": to_run.len() }));

        let mut outcome = Outcome { reused: reused.len(), ..Outcome::default() };
        outcome.outputs.extend(reused.iter().map(|&id| (id, plan.tasks[id].artifact())));
        let mut waiting: HashMap<TaskId, usize> = HashMap::new();
        let mut users: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
        let mut ready = Ready::new();
        let mut turns = Turns::new(plan, &to_run);
        let running: HashSet<TaskId> = to_run.iter().copied().collect();
        for &id in &to_run {
            let open: HashSet<TaskId> =
                plan.tasks[id].inputs.iter().copied().filter(|input| running.contains(input)).collect();
            for &input in &open {
                users.entry(input).or_default().push(id);
            }
            if open.is_empty() {
                ready.insert(place(plan, turns.of(id), id));
            } else {
                waiting.insert(id, open.len());
            }
        }

        let mut active: HashMap<Operator, usize> = HashMap::new();
        let mut tainted: HashSet<TaskId> = HashSet::new();
        let mut set: JoinSet<(TaskId, Result<Output, Error>)> = JoinSet::new();
        loop {
            while !cancel.is_cancelled()
                && let Some(id) = self.next(&mut ready, &active)
            {
                let task = &plan.tasks[id];
                *active.entry(task.operator).or_default() += 1;
                progress.start(task.operator);
                let inputs: Outputs = task
                    .inputs
                    .iter()
                    .filter_map(|input| Some((*input, outcome.outputs.get(input)?.clone())))
                    .collect();
                let partial = task.inputs.iter().any(|input| tainted.contains(input));
                let turn = turns.of(id);
                let (plan, execution, progress) = (plan.clone(), execution.clone(), progress.clone());
                set.spawn(async move { (id, run(&plan, id, inputs, partial, turn, &execution, &progress).await) });
            }
            let joined = tokio::select! {
                joined = set.join_next() => joined,
                () = cancel.cancelled() => {
                    set.abort_all();
                    execution.log("run_interrupted", serde_json::json!({ "executed": outcome.executed }));
                    return Err(Error::Interrupted);
                }
            };
            let Some(joined) = joined else { break };
            let (id, result) =
                joined.map_err(|error| Error::Task { label: "a task".to_owned(), reason: error.to_string() })?;
            let operator = plan.tasks[id].operator;
            active.entry(operator).and_modify(|count| *count -= 1);
            for urgent in turns.end(id) {
                if ready.remove(&place(plan, Turn::default(), urgent)) {
                    ready.insert(place(plan, turns.of(urgent), urgent));
                }
            }
            match result {
                Ok(output) => {
                    progress.finish(operator, output.rows);
                    outcome.executed += 1;
                    outcome.provider_errors += output.errors;
                    if output.partial {
                        tainted.insert(id);
                    }
                    outcome.outputs.insert(id, output.artifact);
                    for &user in users.get(&id).into_iter().flatten() {
                        if let Some(open) = waiting.get_mut(&user) {
                            *open -= 1;
                            if *open == 0 {
                                waiting.remove(&user);
                                ready.insert(place(plan, turns.of(user), user));
                            }
                        }
                    }
                }
                Err(Error::Model(models::Error::Cancelled)) if cancel.is_cancelled() => {}
                Err(error) => {
                    progress.fail(operator, true);
                    fail(plan, id, error_chain(&error), &users, &mut waiting, &mut outcome, progress);
                }
            }
        }
        Ok(outcome)
    }
}

/// Notes a failure, and that of everything that depends on it.
fn fail(
    plan: &Plan,
    id: TaskId,
    reason: String,
    users: &HashMap<TaskId, Vec<TaskId>>,
    waiting: &mut HashMap<TaskId, usize>,
    outcome: &mut Outcome,
    progress: &Progress,
) {
    let mut open: Vec<TaskId> = users.get(&id).cloned().unwrap_or_default();
    let consequence = format!("not run, because `{}` failed: {reason}", plan.tasks[id].label);
    outcome.failed.insert(id, reason);
    while let Some(user) = open.pop() {
        if waiting.remove(&user).is_some() {
            progress.fail(plan.tasks[user].operator, false);
            outcome.failed.insert(user, consequence.clone());
            open.extend(users.get(&user).into_iter().flatten());
        }
    }
}

async fn run(
    plan: &Plan,
    id: TaskId,
    inputs: Outputs,
    partial: bool,
    turn: Turn,
    execution: &Execution,
    progress: &Progress,
) -> Result<Output, Error> {
    let task = &plan.tasks[id];
    let started = Instant::now();
    let fields = || serde_json::json!({ "task": task.key, "operator": task.operator, "label": task.label });
    execution.log("task_started", fields());
    let result = task::execute(plan, id, &inputs, partial, turn, execution, progress).await;
    let mut fields = fields();
    fields["seconds"] = serde_json::json!(started.elapsed().as_secs_f64());
    match &result {
        // A partial output is not finished: the next run tries again.
        Ok(output) => {
            fields["rows"] = serde_json::json!(output.rows);
            fields["errors"] = serde_json::json!(output.errors);
            execution.log(if output.partial { "task_partial" } else { "task_finished" }, fields);
        }
        Err(error) => {
            fields["error"] = serde_json::json!(error_chain(error));
            execution.log("task_failed", fields);
        }
    }
    result
}

/// Which tasks have their artifact in the store.
pub(crate) async fn stored(plan: &Plan, store: &ArtifactStore) -> Result<Vec<bool>, Error> {
    let looks = plan.tasks.iter().map(Task::artifact).map(|name| {
        let store = store.clone();
        async move { store.exists(&name).await }
    });
    let looks: Vec<_> = looks.collect();
    let found: Vec<_> = stream::iter(looks).buffered(64).collect().await;
    Ok(found.into_iter().collect::<Result<_, _>>()?)
}

/// Which tasks must run, and which stored ones are needed as they are: what a
/// stored task was made from is not looked at.
pub(crate) fn required(plan: &Plan, stored: &[bool]) -> (Vec<TaskId>, Vec<TaskId>) {
    let mut seen = vec![false; plan.tasks.len()];
    let (mut to_run, mut reused) = (Vec::new(), Vec::new());
    let mut open = plan.sinks();
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        if stored[id] {
            reused.push(id);
        } else {
            to_run.push(id);
            open.extend(&plan.tasks[id].inputs);
        }
    }
    to_run.sort_unstable();
    reused.sort_unstable();
    (to_run, reused)
}
