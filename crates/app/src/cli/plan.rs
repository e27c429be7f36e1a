//! `reverie plan`: what would run, how much of it is paid already, and what
//! the rest should cost.

use super::{Context, Failure, run};
use crate::{environment, render};
use std::path::PathBuf;

/// Show what a run would do, without doing it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie plan experiment.toml
  reverie plan experiment.toml --budget-usd 2.50
  reverie plan experiment.toml --json | jq .cost
  reverie plan experiment.toml --json | jq '.operators[] | {operator, unique, stored}'")]
pub struct Arguments {
    /// The experiment file.
    #[arg(default_value = "experiment.toml")]
    experiment: PathBuf,
    /// What a run may cost, in US dollars, whatever the file says.
    #[arg(long, value_name = "DOLLARS", value_parser = run::dollars)]
    budget_usd: Option<f64>,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let setup = lab::Setup { budget_usd: arguments.budget_usd, ..cx.setup() };
    let session = environment::open_or_read(&arguments.experiment, setup)?;
    let prepared = session.prepare().await?;
    let summary = lab::summary(&session, &prepared).await?;
    if cx.json {
        cx.print_json(&summary)?;
    } else {
        cx.print(render::plan(&summary, &prepared));
    }
    Ok(0)
}
