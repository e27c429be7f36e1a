//! What a run would do: its plan in numbers, how much of it is in the store,
//! and what the rest should take and cost.

use crate::{
    Error,
    blocking::compute,
    engine::{damaged_tasks, stored_tasks, tasks_to_run},
    history::history,
    layout,
    plan::{CostEstimate, PlanSummary, PlannedTrial, time::estimate_time},
    prepare::PreparedRun,
    session::Session,
};

/// What a plan costs and how much of it is in the store.
///
/// # Errors
/// If the store fails.
pub async fn summary(session: &Session, prepared: &PreparedRun) -> Result<PlanSummary, Error> {
    let store = session.workspace().store();
    let stored = stored_tasks(&prepared.plan, store).await?;
    let damaged = damaged_tasks(&prepared.plan, &stored, store).await?;
    let (to_run, _) = tasks_to_run(&prepared.plan, &stored, &damaged);
    let trials = prepared.trials.iter().zip(&prepared.plan.trials);
    let combinations = trials.map(|(trial, tasks)| PlannedTrial {
        trial: trial.id.clone(),
        labels: trial.labels.clone(),
        stored: tasks.results().all(|id| stored[id]),
    });
    let runs = layout::runs_folder(session.workspace().root());
    let history = compute(move || history(&runs)).await?;
    let (experiment, PreparedRun { plan, questions, text_bytes, .. }) = (&session.experiment, prepared);
    let (search, caps) = (&experiment.search, session.budget().caps());
    Ok(PlanSummary {
        combinations: combinations.collect(),
        search: (!search.is_exhaustive()).then(|| search.name().to_owned()),
        cost: Some(CostEstimate::of(experiment, caps, plan, questions, *text_bytes, &to_run)),
        time: Some(estimate_time(plan, prepared.execution.components(), *text_bytes, &to_run, &history)),
        dataset: prepared.dataset.clone(),
        rejected: prepared.rejected.clone(),
        unread: prepared.unread.clone(),
        left_out: prepared.left_out.clone(),
        ..plan.summary(&|id| stored[id])
    })
}
