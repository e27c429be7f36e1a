//! What a run would do: its plan in numbers, how much of it is in the store,
//! and what the rest should take and cost.

use crate::{
    Error, Prepared, Session,
    engine::{again, required, stored},
    estimate::CostEstimate,
    plan::{PlanSummary, PlannedTrial, TrialTasks},
    timing::time,
};

/// What a plan costs and how much of it is in the store.
///
/// # Errors
/// If the store fails.
pub async fn summary(session: &Session, prepared: &Prepared) -> Result<PlanSummary, Error> {
    let store = session.workspace().store();
    let stored = stored(&prepared.plan, store).await?;
    let mut summary = prepared.plan.summary(&|id| stored[id]);
    let again = again(&prepared.plan, &stored, store).await?;
    let (to_run, _) = required(&prepared.plan, &stored, &again);
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
    summary.time = Some(time(session, prepared, &to_run).await?);
    summary.cost = Some(CostEstimate::of(&session.experiment, session.budget().caps(), prepared, &to_run));
    Ok(summary)
}
