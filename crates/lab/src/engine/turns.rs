//! Decides which calls go first when trials compete for a model: trials take
//! turns, and a trial that is nearly done goes before the others, so that
//! finished trials come early instead of all at the end.

use crate::{
    plan::{Plan, TaskId},
    task::CallTurn,
};
use std::collections::HashMap;

/// A trial is nearly done when at most one in this many of its tasks is left.
const NEARLY_DONE: usize = 4;

/// The trials of a plan, and how many tasks each has left.
#[derive(Debug)]
pub(crate) struct TrialTurns {
    trials: Vec<WaitingTrial>,
    /// The trials that need a task, by task.
    users: HashMap<TaskId, Vec<usize>>,
}

#[derive(Debug)]
struct WaitingTrial {
    tasks: Vec<TaskId>,
    left: usize,
}

impl WaitingTrial {
    fn is_nearly_done(&self) -> bool {
        self.left * NEARLY_DONE <= self.tasks.len()
    }
}

impl TrialTurns {
    /// The turns of the tasks that are to run. Tasks whose output is in the
    /// store do not count: only a trial's own work in this run does.
    pub(crate) fn new(plan: &Plan, to_run: &[TaskId]) -> Self {
        let mut users: HashMap<TaskId, Vec<usize>> = to_run.iter().map(|&id| (id, Vec::new())).collect();
        let mut trials = Vec::with_capacity(plan.trials.len());
        for (trial, places) in plan.trials.iter().enumerate() {
            let mut tasks: Vec<TaskId> = places.answers.iter().copied().chain(places.scoring()).collect();
            tasks.sort_unstable();
            tasks.dedup();
            tasks.retain(|id| users.contains_key(id));
            for id in &tasks {
                users.entry(*id).or_default().push(trial);
            }
            trials.push(WaitingTrial { left: tasks.len(), tasks });
        }
        Self { trials, users }
    }

    /// The turn of a task's calls now.
    pub(crate) fn of(&self, id: TaskId) -> CallTurn {
        let Some(users) = self.users.get(&id) else { return CallTurn::default() };
        let nearly = users.iter().any(|&trial| self.trials[trial].is_nearly_done());
        // A task that several trials need belongs to the first of them.
        CallTurn { priority: i32::from(nearly), group: users.first().map_or(0, |&trial| trial as u64 + 1) }
    }

    /// Records that a task has ended; returns the tasks that are urgent from now on.
    pub(crate) fn end(&mut self, id: TaskId) -> Vec<TaskId> {
        let mut urgent = Vec::new();
        for &trial in self.users.get(&id).into_iter().flatten() {
            let trial = &mut self.trials[trial];
            let before = trial.is_nearly_done();
            trial.left = trial.left.saturating_sub(1);
            if !before && trial.is_nearly_done() {
                urgent.extend(&trial.tasks);
            }
        }
        urgent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::TrialTasks;

    /// Trials with four tasks each; the first is shared by all.
    fn plan(trials: usize) -> Plan {
        let trial = |trial: usize| {
            let own = 1 + trial * 3;
            TrialTasks { answers: vec![0, own, own + 1, own + 2], ..TrialTasks::default() }
        };
        let mut plan = Plan::default();
        plan.trials.extend((0..trials).map(trial));
        plan
    }

    #[test]
    fn a_trial_becomes_urgent_with_its_last_quarter() {
        let plan = plan(2);
        let mut turns = TrialTurns::new(&plan, &(0..7).collect::<Vec<_>>());
        assert_eq!(turns.of(6), CallTurn { priority: 0, group: 2 });
        assert!(turns.end(0).is_empty(), "three of four are left");
        assert!(turns.end(4).is_empty());
        assert_eq!(turns.end(5), [0, 4, 5, 6], "the second trial has one task left");
        assert_eq!(turns.of(6), CallTurn { priority: 1, group: 2 });
        assert_eq!(turns.of(1), CallTurn { priority: 0, group: 1 }, "the other trial waits for its turn");
    }

    #[test]
    fn a_shared_task_is_urgent_as_soon_as_one_of_its_trials_is() {
        let plan = plan(2);
        let mut turns = TrialTurns::new(&plan, &(0..7).collect::<Vec<_>>());
        for id in [4, 5, 6] {
            turns.end(id);
        }
        assert_eq!(turns.of(0), CallTurn { priority: 1, group: 1 });
    }

    #[test]
    fn what_is_stored_does_not_make_a_trial_urgent() {
        let turns = TrialTurns::new(&plan(1), &[2, 3]);
        assert_eq!(turns.of(2).priority, 0, "two of two are left");
        assert_eq!(turns.of(0), CallTurn::default(), "it is not to run");
    }
}
