//! The plan of an experiment.

use super::CommandContext;
use crate::{environment, failure::CommandFailure, render};
use lab::Experiment;

/// Prints what a run of an experiment would do. Nothing is paid.
///
/// # Errors
/// If the experiment is refused, or its questions would have to be generated first.
pub async fn print_plan(
    cx: &CommandContext,
    mut experiment: Experiment,
    budget_usd: Option<f64>,
) -> Result<(), CommandFailure> {
    refuse_to_generate_questions(&experiment)?;
    // The Jobs API of a cluster cannot plan.
    if let Some(ray) = experiment.engine.ray.take_if(|ray| ray.is_jobs_address()) {
        cx.note(format_args!("note: planned on this machine; the job at {} plans anew in its cluster", ray.address));
    }
    let setup = lab::Setup { budget_usd, ..cx.setup() };
    let session = environment::open_maybe_read_only(experiment, setup)?;
    let prepared = session.prepare().await?;
    session.experiment.remarks().iter().for_each(|remark| cx.note(remark));
    let summary = lab::plan_summary(&session, &prepared).await?;
    cx.show(&summary, |_| render::plan(&summary, &prepared))?;
    Ok(())
}

/// Prints what a first run of an experiment would cost, estimated from so many files of its corpus. Nothing is paid,
/// and nothing is stored.
///
/// # Errors
/// If the experiment is refused, or its questions would have to be generated first.
pub async fn print_sampled_plan(
    cx: &CommandContext,
    experiment: Experiment,
    budget_usd: Option<f64>,
    files: usize,
) -> Result<(), CommandFailure> {
    refuse_to_generate_questions(&experiment)?;
    let setup = lab::Setup { budget_usd, ..cx.setup() };
    let session = environment::open_without_storing(experiment, setup)?;
    let plan = lab::sample_plan(&session, files).await?;
    session.experiment.remarks().iter().for_each(|remark| cx.note(remark));
    cx.show(&plan, render::sampled_plan)?;
    Ok(())
}

/// Refuses an experiment whose run would first generate its golden questions:
/// until then the questions are not known.
fn refuse_to_generate_questions(experiment: &Experiment) -> Result<(), CommandFailure> {
    let Some(spec) = &experiment.dataset else { return Ok(()) };
    let path = experiment.path(&spec.path);
    let Some(generate) = spec.generate.as_ref().filter(|_| !store::is_url(&spec.path) && !path.exists()) else {
        return Ok(());
    };
    Err(CommandFailure::usage(format!(
        "there is no {}: a run would have `{}` write it first, and that is not done here, because it may cost money: \
         `reverie golden generate --dry-run` shows what it costs, and `reverie golden generate` does it",
        path.display(),
        generate.model
    )))
}
