//! `reverie plan`: what would run, how much of it is paid already, and what
//! the rest should cost.

use super::{
    Context, Failure,
    options::{Changes, ExperimentFile},
};
use crate::{environment, render};
use lab::Experiment;

/// Show what a run would do, without doing it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie plan
  reverie plan -f books.toml --budget-usd 2.50
  reverie plan --set space.retriever.bm25.top_k=3 --limit 20
  reverie plan --json | jq .cost
  reverie plan --json | jq '.operators[] | {operator, unique, stored}'

`reverie run --dry-run` shows the same.")]
pub struct Arguments {
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    changes: Changes,
    /// What a run may cost, in US dollars, whatever the file says.
    #[arg(long, value_name = "DOLLARS", value_parser = crate::dollars::parse)]
    budget_usd: Option<f64>,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let experiment = environment::read_with(&arguments.file.experiment, &arguments.changes.overrides())?;
    show(cx, experiment, arguments.budget_usd).await
}

/// Shows what a run of an experiment would do; nothing is paid.
pub async fn show(cx: &Context, mut experiment: Experiment, budget_usd: Option<f64>) -> Result<u8, Failure> {
    refuse_to_write_questions(&experiment)?;
    // A Jobs API runs what it is given, and plans nothing.
    if let Some(ray) = experiment.engine.ray.take_if(|ray| ray.is_jobs_address()) {
        cx.note(format_args!("note: planned on this machine; the job at {} plans anew in its cluster", ray.address));
    }
    let setup = lab::Setup { budget_usd, ..cx.setup() };
    let session = environment::open_or_read(experiment, setup)?;
    let prepared = session.prepare().await?;
    session.experiment.remarks().iter().for_each(|remark| cx.note(remark));
    let summary = lab::summary(&session, &prepared).await?;
    if cx.json {
        cx.print_json(&summary)?;
    } else {
        cx.print(render::plan(&summary, &prepared));
    }
    Ok(0)
}

/// A run has questions written that are not there yet. Until then nobody knows
/// what it asks.
fn refuse_to_write_questions(experiment: &Experiment) -> Result<(), Failure> {
    let Some(spec) = &experiment.dataset else { return Ok(()) };
    let path = experiment.path(&spec.path);
    let Some(generate) = spec.generate.as_ref().filter(|_| !store::is_url(&spec.path) && !path.exists()) else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "there is no {}: a run would have `{}` write it first, and that is not done here, because it may cost money: \
         `reverie golden generate --dry-run` tells what it costs, and `reverie golden generate` does it",
        path.display(),
        generate.model
    )))
}
