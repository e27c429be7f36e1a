//! What a run would do: its plan in numbers, how much of it is in the store,
//! and what the rest should take and cost.

use crate::{
    Error,
    blocking::compute,
    engine::{damaged_tasks, stored_tasks, tasks_to_run},
    history::history,
    layout,
    plan::{CostEstimate, PlanSummary, PlannedTrial, TrialTasks, time::estimate_time},
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
    let mut summary = prepared.plan.summary(&|id| stored[id]);
    let damaged = damaged_tasks(&prepared.plan, &stored, store).await?;
    let (to_run, _) = tasks_to_run(&prepared.plan, &stored, &damaged);
    let search = &session.experiment.search;
    summary.search = (!search.is_exhaustive()).then(|| search.name().to_owned());
    summary.dataset.clone_from(&prepared.dataset);
    summary.rejected.clone_from(&prepared.rejected);
    summary.unread.clone_from(&prepared.unread);
    summary.left_out.clone_from(&prepared.left_out);
    let is_stored = |tasks: &TrialTasks| {
        tasks.answers.iter().copied().chain(tasks.scoring()).chain([tasks.passages]).all(|id| stored[id])
    };
    let trials = prepared.trials.iter().zip(&prepared.plan.trials);
    let combinations = trials.map(|(trial, tasks)| PlannedTrial {
        trial: trial.id.clone(),
        labels: trial.labels.clone(),
        stored: is_stored(tasks),
    });
    summary.combinations = combinations.collect();
    let runs = layout::runs_folder(session.workspace().root());
    let history = compute(move || history(&runs)).await?;
    let (experiment, PreparedRun { plan, questions, text_bytes, .. }) = (&session.experiment, prepared);
    summary.time = Some(estimate_time(plan, prepared.execution.components(), *text_bytes, &to_run, &history));
    let caps = session.budget().caps();
    summary.cost = Some(CostEstimate::of(experiment, caps, plan, questions, *text_bytes, &to_run));
    Ok(summary)
}
