//! Engines execute plans: [`Local`] on this machine, [`Remote`] on a cluster,
//! where the same tasks run in workers by the same code.

mod local;
mod remote;
mod schedule;
mod turns;
pub(crate) mod unit;

pub use local::Local;
pub use remote::Remote;
pub(crate) use schedule::{Assignment, Runner, damaged_tasks, stored_tasks, tasks_to_run};
use turns::TrialTurns;
pub use unit::WorkerSetup;

use crate::{
    Error,
    plan::{Outputs, Plan, TaskId},
    progress::Progress,
    steering::Steering,
    task::RunContext,
};
use models::Caps;
use rag::{load::Unread, python::Failure};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio_util::sync::CancellationToken;

/// The result of executing a plan.
#[derive(Debug, Default)]
pub struct PlanOutcome {
    /// Outputs of the tasks that were reused or ended well.
    pub outputs: Outputs,
    /// Tasks that failed, or could not run, and why.
    pub failed: HashMap<TaskId, String>,
    /// Tasks executed now.
    pub executed: usize,
    /// Tasks taken from the store.
    pub reused: usize,
    /// Rows without a result because a provider failed; the next run asks for them again.
    pub provider_errors: usize,
    /// Rows without a result because a user's function failed.
    pub function_errors: usize,
    /// The tasks of `failed` that failed because of a user's function: which
    /// task called the function, and what happened.
    pub failed_functions: HashMap<TaskId, (TaskId, Failure)>,
    /// The tasks of `failed` that failed because the budget was reached.
    pub over_budget: HashSet<TaskId>,
    /// Tasks that were handed out again because a worker died or could not be reached.
    pub repeated: usize,
    /// Files that could not be read; the next run reads them.
    pub unread: Vec<Unread>,
}

/// What executes plans. Same plan, same keys, same artifacts, whatever the engine.
pub(crate) enum Engine {
    Local(Local),
    Remote(Remote),
}

impl Engine {
    /// Replaces the caps of the run's budget in the processes that spend it.
    ///
    /// # Errors
    /// Why that is not possible, in a sentence.
    pub(crate) async fn set_caps(&self, before: Caps, after: Caps) -> Result<(), String> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Remote(engine) => engine.set_caps(before, after).await,
        }
    }

    /// Executes the tasks whose output is not in the store yet.
    ///
    /// # Errors
    /// If the store fails or the run is interrupted; a failing task is part of
    /// the outcome.
    pub(crate) async fn execute(
        &self,
        plan: &Arc<Plan>,
        run_context: &Arc<RunContext>,
        progress: &Progress,
        steered: (&CancellationToken, &Steering),
    ) -> Result<PlanOutcome, Error> {
        match self {
            Self::Local(engine) => {
                schedule::execute(Arc::new(engine.clone()), plan, run_context, progress, steered).await
            }
            Self::Remote(engine) => engine.execute(plan, run_context, progress, steered).await,
        }
    }
}
