//! `reverie plan`: what would run, and how much of it is paid already.

use super::{Context, Failure};
use crate::{environment, render};
use std::path::PathBuf;

/// Show what a run would do, without doing it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie plan experiment.toml
  reverie plan experiment.toml --json | jq '.operators[] | {operator, unique, stored}'")]
pub struct Arguments {
    /// The experiment file.
    #[arg(default_value = "experiment.toml")]
    experiment: PathBuf,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let session = environment::open(&arguments.experiment, environment::setup(cx.cancel.clone()))?;
    let prepared = session.prepare().await?;
    let summary = session.summary(&prepared).await?;
    if cx.json {
        cx.print_json(&summary)?;
    } else {
        cx.print(render::plan(&summary, &prepared));
    }
    Ok(0)
}
