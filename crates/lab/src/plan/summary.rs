//! A plan in numbers: its tasks per operator, and what they should take and cost.

use super::{Plan, estimate::CostEstimate, graph::TaskId, time::TimeEstimate, work::Task};
use crate::{operator::Operator, warning::Warning};
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
    /// Counts of the questions, and the columns of their file that are not used.
    pub dataset: Option<DatasetReport>,
    /// Files that gave no document.
    pub rejected: Vec<Rejected>,
    /// Files that cannot be read now.
    pub unread: Vec<Unread>,
    /// Questions that are left out, since their evidence stands in an unread file.
    pub left_out: Vec<String>,
    /// The warnings that are known before the run.
    pub warnings: Vec<Warning>,
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
    /// The labels of the unique tasks, each once, in alphabetical order.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::Fixture;

    fn of(summary: &PlanSummary) -> Vec<(&'static str, usize, usize, usize)> {
        let counts = |it: &OperatorPlan| (it.operator.name(), it.planned, it.unique, it.stored);
        summary.operators.iter().map(counts).collect()
    }

    #[test]
    fn each_operator_has_the_tasks_of_all_trials_the_different_ones_and_the_stored_ones() {
        let space = "chunker = \"sentence\"\nretriever = [\"bm25\", { bm25 = { top_k = 3 } }]\n";
        let plan = Fixture::new(space).plan();
        // Three shards of documents, which both trials need, as their chunks and their index.
        let shared = |stored: [usize; 5]| {
            let [load, chunk, index, retrieve, score] = stored;
            vec![
                ("load", 6, 3, load),
                ("chunk", 6, 3, chunk),
                ("index", 2, 1, index),
                ("retrieve", 2, 2, retrieve),
                ("score", 2, 2, score),
            ]
        };
        assert_eq!(of(&plan.summary(&|_| false)), shared([0; 5]));
        assert_eq!(of(&plan.summary(&|_| true)), shared([3, 3, 1, 2, 2]));
        let first = plan.trials[0].passages;
        let summary = plan.summary(&|id| id == first);
        assert_eq!((of(&summary), summary.trials), (shared([0, 0, 0, 1, 0]), 2));
        let planned: usize = summary.operators.iter().map(|it| it.planned).sum();
        assert_eq!(planned, plan.unshared, "as many as were planned before tasks were shared");
    }

    #[test]
    fn what_tasks_are_is_told_once_in_alphabetical_order() {
        let space = "chunker = [\"token\", \"sentence\"]\nretriever = \"bm25\"\n";
        let summary = Fixture::new(space).plan().summary(&|_| false);
        let detail = |name: &str| {
            summary.operators.iter().find(|it| it.operator.name() == name).map(|it| it.detail.clone()).unwrap()
        };
        assert_eq!(detail("chunk"), ["chunk with sentence", "chunk with token"]);
        assert_eq!(detail("load"), ["load a.txt", "load b.txt", "load c.txt"]);
        assert_eq!(detail("score"), ["score recall"], "of two tasks");
    }

    #[test]
    fn a_plan_without_trials_has_its_tasks_once() {
        let mut plan = Fixture::new("chunker = \"sentence\"\nretriever = \"bm25\"\n").plan();
        plan.trials.clear();
        assert!(of(&plan.summary(&|_| false)).iter().all(|(_, planned, unique, _)| planned == unique));
        assert_eq!(of(&Plan::default().summary(&|_| true)), []);
    }
}
