//! What is left of a plan after people have stopped trials: each stopped trial keeps the questions for which all its scores
//! are there, so its means are those of whole ranges of questions, as in a run that asked it nothing else.

use crate::{
    PreparedRun, Session,
    engine::PlanOutcome,
    gather::RunPart,
    plan::{Plan, TaskId, Trial, TrialTasks, work::Work},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// A plan without what stopped trials were not asked, and what was made of it.
pub(super) struct KeptPart {
    pub(super) trials: Vec<Trial>,
    pub(super) plan: Arc<Plan>,
    pub(super) outcome: PlanOutcome,
    /// How many questions each stopped trial was asked; 0 for one that is left out.
    pub(super) questions: BTreeMap<String, usize>,
}

impl KeptPart {
    /// The part of a plan that was executed while these trials were stopped. None if everything of them had been done.
    pub(super) fn of(
        session: &Session,
        prepared: &PreparedRun,
        part: RunPart<'_>,
        outcome: &PlanOutcome,
        stopped: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let (mut trials, mut asked, mut questions) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (trial, tasks) in part.trials.iter().zip(&part.plan.trials) {
            let is_done = |id: TaskId| outcome.outputs.contains_key(&id) || outcome.failed.contains_key(&id);
            let is_kept = !stopped.contains_key(&trial.id);
            let kept = if is_kept { tasks.asked.clone() } else { scored_questions(part.plan, tasks, is_done) };
            if kept.len() < tasks.asked.len() {
                questions.insert(trial.id.clone(), kept.len());
            }
            if is_kept || !kept.is_empty() {
                trials.push(trial.clone());
                asked.push(kept);
            }
        }
        if questions.is_empty() {
            return None;
        }
        let mut plan = Plan::clone(&prepared.sources.plan(session, &trials, &prepared.questions, Some(&asked)));
        let outcome = of_other_plan(part.plan, &plan, outcome);
        for tasks in &mut plan.trials {
            tasks.recall =
                tasks.recall.filter(|id| outcome.outputs.contains_key(id) || outcome.failed.contains_key(id));
        }
        Some(Self { trials, plan: Arc::new(plan), outcome, questions })
    }
}

/// The questions of a trial for which the tasks of all its scores are done.
fn scored_questions(plan: &Plan, tasks: &TrialTasks, is_done: impl Fn(TaskId) -> bool) -> Vec<usize> {
    let of_task = |id: TaskId| match &plan.tasks[id].work {
        Work::Score(work) => work.questions.clone(),
        _ => Vec::new(),
    };
    let open: BTreeSet<usize> = tasks.scoring().filter(|id| !is_done(*id)).flat_map(of_task).collect();
    tasks.asked.iter().copied().filter(|question| !open.contains(question)).collect()
}

/// An outcome in the numbers of another plan: tasks are the same if their keys are.
fn of_other_plan(before: &Plan, after: &Plan, outcome: &PlanOutcome) -> PlanOutcome {
    let numbers: HashMap<_, TaskId> = after.tasks.iter().enumerate().map(|(id, task)| (task.key, id)).collect();
    let number = |id: &TaskId| numbers.get(&before.tasks[*id].key).copied();
    PlanOutcome {
        outputs: outcome.outputs.iter().filter_map(|(id, name)| Some((number(id)?, name.clone()))).collect(),
        failed: outcome.failed.iter().filter_map(|(id, reason)| Some((number(id)?, reason.clone()))).collect(),
        failed_functions: outcome
            .failed_functions
            .iter()
            .filter_map(|(id, (cause, failure))| Some((number(id)?, (number(cause)?, failure.clone()))))
            .collect(),
        over_budget: outcome.over_budget.iter().filter_map(number).collect(),
        executed: outcome.executed,
        reused: outcome.reused,
        provider_errors: outcome.provider_errors,
        function_errors: outcome.function_errors,
        repeated: outcome.repeated,
        unread: outcome.unread.clone(),
    }
}
