//! The engine of one machine: tokio runs tasks that wait, blocking threads
//! within the CPU budget run tasks that compute.

use super::{Assignment, Runner};
use crate::{
    Error,
    operator::Operator,
    task::{self, StoredOutput},
};
use async_trait::async_trait;

/// Executes on this machine.
#[derive(Debug, Clone)]
pub struct Local {
    /// The most tasks of one operator that compute at once.
    pub cores: usize,
    /// The most tasks of one operator that wait for models at once.
    pub tasks: usize,
    /// Whether texts are embedded by a model outside this process, so that embedding waits too.
    pub embeds_elsewhere: bool,
}

#[async_trait]
impl Runner for Local {
    fn limit(&self, operator: Operator) -> usize {
        match operator {
            operator if operator.waits_where(self.embeds_elsewhere) => self.tasks,
            _ => self.cores,
        }
    }

    async fn run(&self, assignment: Assignment) -> Result<StoredOutput, Error> {
        let Assignment { inputs, partial, turn, run_context, progress, .. } = &assignment;
        task::execute(assignment.task(), inputs, *partial, *turn, run_context, progress).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_compute_share_the_cores_and_those_that_wait_have_places() {
        let waiting = ["enrich", "query", "rerank", "refine", "generate", "ask", "judge"];
        for embeds_elsewhere in [false, true] {
            let engine = Local { cores: 3, tasks: 16, embeds_elsewhere };
            for operator in Operator::all() {
                let name = operator.name();
                let waits = waiting.contains(&name) || (embeds_elsewhere && name.starts_with("embed"));
                assert_eq!(engine.limit(operator), if waits { 16 } else { 3 }, "{name}, {embeds_elsewhere}");
            }
        }
    }
}
