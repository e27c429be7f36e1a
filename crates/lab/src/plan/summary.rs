//! A plan in numbers: its tasks per operator, and what they should take and cost.

use super::{Plan, estimate::CostEstimate, graph::TaskId, time::TimeEstimate, work::Task};
use crate::operator::Operator;
use eval::dataset::DatasetReport;
use rag::load::{Rejected, Unread};
use serde::Serialize;
use std::collections::BTreeMap;

/// A plan and its cost, for people and programs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PlanSummary {
    /// Trials.
    pub trials: usize,
    /// The trials one by one, in the order of the grid.
    pub combinations: Vec<PlannedTrial>,
    /// Per operator.
    pub operators: Vec<OperatorPlan>,
    /// The name of the search, which asks for a part of this plan; none for a grid.
    pub search: Option<String>,
    /// The estimated cost of the remaining tasks, beside the budget.
    pub cost: Option<CostEstimate>,
    /// The questions and the columns of their file that are not used.
    pub dataset: Option<DatasetReport>,
    /// Files that gave no document.
    pub rejected: Vec<Rejected>,
    /// Files that cannot be read now.
    pub unread: Vec<Unread>,
    /// Questions that are left out, since their evidence stands in such a file.
    pub left_out: Vec<String>,
    /// How long the remaining tasks should take, from earlier runs on this machine.
    pub time: Option<TimeEstimate>,
}

/// One trial of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedTrial {
    /// Its id.
    pub trial: String,
    /// Its value on each axis, as a short label.
    pub labels: BTreeMap<String, String>,
    /// Whether everything that it needs is in the store.
    pub stored: bool,
}

/// One operator's share of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct OperatorPlan {
    /// The operator.
    pub operator: Operator,
    /// Tasks if every trial were run on its own.
    pub planned: usize,
    /// Different tasks among these.
    pub unique: usize,
    /// Different tasks that are already in the store.
    pub stored: usize,
    /// What the unique tasks are, for operators with few kinds.
    pub detail: Vec<String>,
}

impl Plan {
    /// Counts per operator. `stored` says which tasks are in the store.
    pub fn summary(&self, stored: &dyn Fn(TaskId) -> bool) -> PlanSummary {
        let of_tasks: Vec<Operator> = self.tasks.iter().map(Task::operator).collect();
        let mut planned: BTreeMap<Operator, usize> = BTreeMap::new();
        for id in self.trials.iter().flat_map(|trial| self.tasks_of(trial)) {
            *planned.entry(of_tasks[id]).or_default() += 1;
        }
        let mut unique: BTreeMap<Operator, Vec<TaskId>> = BTreeMap::new();
        for (id, operator) in of_tasks.into_iter().enumerate() {
            unique.entry(operator).or_default().push(id);
        }
        let operators = unique
            .into_iter()
            .map(|(operator, ids)| {
                let mut detail: Vec<String> = ids.iter().map(|&id| self.tasks[id].label.clone()).collect();
                detail.sort();
                detail.dedup();
                OperatorPlan {
                    operator,
                    planned: planned.get(&operator).copied().unwrap_or(ids.len()),
                    unique: ids.len(),
                    stored: ids.iter().filter(|&&id| stored(id)).count(),
                    detail,
                }
            })
            .collect();
        PlanSummary { trials: self.trials.len(), operators, ..PlanSummary::default() }
    }
}
