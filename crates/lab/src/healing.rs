//! Executes plans with a session's engine. What turns out to be damaged or
//! gone while something needs it is made again.

use crate::{
    Error,
    engine::PlanOutcome,
    plan::{Plan, Task, TaskId},
    session::Session,
    task::{Execution, RunInputs},
    workspace::ClaimedArtifacts,
};
use eval::Question;
use rag::load::Source;
use std::{collections::HashSet, sync::Arc};
use store::ArtifactStore;

/// The most times that damaged artifacts are made again: damage may go up the chain of inputs, from
/// an answer to its documents.
pub(crate) const HEALINGS: usize = 8;

/// What the tasks of a run share.
pub(crate) fn execution(
    session: &Session,
    source: Source,
    questions: Vec<Question>,
    run: &str,
) -> Result<Execution, Error> {
    let workspace = session.workspace();
    let log = workspace.event_log(run)?;
    Ok(Execution::new(
        session.experiment.clone(),
        workspace.store().clone(),
        RunInputs { source, questions },
        workspace.scratch_folder(),
        run.to_owned(),
        log,
        Arc::new(session.models()),
    ))
}

/// Claims the artifacts of a plan, then executes it.
pub(crate) async fn execute(
    session: &Session,
    claimed: &mut ClaimedArtifacts,
    plan: &Arc<Plan>,
    execution: &Arc<Execution>,
) -> Result<PlanOutcome, Error> {
    match claimed.add(&execution.run, plan.tasks.iter().map(Task::artifact)).await {
        Err(error @ store::Error::Gone { .. }) => return Err(error.into()),
        // A store that nothing can be written to may have all that is needed.
        Err(error) => execution.log("lease_failed", serde_json::json!({ "error": crate::error_chain(&error) })),
        Ok(()) => {}
    }
    let store = session.workspace().store();
    let mut outcome = execute_once(session, plan, execution).await?;
    for _ in 0..HEALINGS {
        let lost = lost_inputs(store, plan, &outcome).await?;
        if lost.is_empty() {
            break;
        }
        execution.log("artifacts_lost", serde_json::json!({ "artifacts": lost }));
        // All inputs are checked, so that all damage is repaired at once.
        check_outputs(store, &outcome, outcome.failed.keys().flat_map(|&id| plan.tasks[id].inputs())).await;
        let again = execute_once(session, plan, execution).await?;
        let (executed, repeated) = (outcome.executed + again.executed, outcome.repeated + again.repeated);
        outcome = PlanOutcome { executed, repeated, ..again };
    }
    Ok(outcome)
}

async fn execute_once(session: &Session, plan: &Arc<Plan>, execution: &Arc<Execution>) -> Result<PlanOutcome, Error> {
    let (engine, control) = (session.engine().await?, &session.setup().control);
    engine.execute(plan, execution, &control.progress, &control.cancel).await
}

/// Compares outputs of tasks with their checksums; one that is damaged is set
/// aside by that.
pub(crate) async fn check_outputs(store: &ArtifactStore, outcome: &PlanOutcome, ids: impl IntoIterator<Item = TaskId>) {
    for name in ids.into_iter().filter_map(|id| outcome.outputs.get(&id)) {
        let _ = store.check(name).await;
    }
}

/// The artifacts that failed tasks needed and that are not there any more:
/// what is damaged was set aside.
async fn lost_inputs(store: &ArtifactStore, plan: &Plan, outcome: &PlanOutcome) -> Result<Vec<String>, Error> {
    let inputs: HashSet<TaskId> = outcome.failed.keys().flat_map(|&id| plan.tasks[id].inputs()).collect();
    let mut lost = Vec::new();
    for name in inputs.iter().filter_map(|id| outcome.outputs.get(id)) {
        if !store.exists(name).await? {
            lost.push(name.clone());
        }
    }
    lost.sort_unstable();
    Ok(lost)
}
