//! How large the index over the vectors of a trial is.

use crate::{
    Error,
    plan::{Outputs, Plan, TaskId, Trial, TrialTasks},
    task::RunContext,
};
use rag::{
    PipelineConfig,
    index::{FilledCollection, IndexKind},
};

/// The bytes of the index over the vectors of a trial, with the vectors; none if it has none, or they are not known.
pub(super) async fn of_trial(
    run_context: &RunContext,
    (plan, outputs): (&Plan, &Outputs),
    trial: &Trial,
    tasks: &TrialTasks,
) -> Result<Option<u64>, Error> {
    if !trial.pipeline().is_some_and(PipelineConfig::compares_vectors) {
        return Ok(None);
    }
    // A run whose passages are in the store does not open the indexes.
    let artifact = |id: &TaskId| outputs.get(id).cloned().unwrap_or_else(|| plan.tasks[*id].artifact());
    let parts = |kind| tasks.corpus.indexes.get(&kind).into_iter().flatten().map(artifact);
    if let Some(name) = parts(IndexKind::Database).next() {
        let file = run_context.store.get(&name).await?;
        return Ok(file.and_then(|bytes| FilledCollection::read(&bytes).ok()?.bytes));
    }
    let mut sum = 0;
    for name in parts(IndexKind::Dense).chain(parts(IndexKind::Hnsw)) {
        let Some(bytes) = run_context.store.size(&name).await? else { return Ok(None) };
        sum += bytes;
    }
    Ok(Some(sum).filter(|bytes| *bytes > 0))
}
