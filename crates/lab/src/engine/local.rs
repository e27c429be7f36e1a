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
    /// Tasks that compute, at most.
    pub cores: usize,
    /// Tasks that wait for models, at most.
    pub tasks: usize,
}

#[async_trait]
impl Runner for Local {
    fn limit(&self, operator: Operator) -> usize {
        match operator {
            // One embedding task uses the whole budget: it makes its own batches.
            Operator::EMBED => 1,
            operator if operator.waits() => self.tasks,
            _ => self.cores,
        }
    }

    async fn run(&self, assignment: Assignment) -> Result<StoredOutput, Error> {
        let Assignment { inputs, partial, turn, execution, progress, .. } = &assignment;
        task::execute(assignment.task(), inputs, *partial, *turn, execution, progress).await
    }
}
