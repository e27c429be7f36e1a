//! `reverie leaderboard`: the results of the last run.

use super::{Context, Failure, run};
use crate::{environment, render};
use std::path::PathBuf;

/// Show the leaderboard of the last run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie leaderboard
  reverie leaderboard experiment.toml --json | jq -r '.winner'")]
pub struct Arguments {
    /// The experiment file.
    #[arg(default_value = "experiment.toml")]
    experiment: PathBuf,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let session = environment::open(&arguments.experiment, cx.setup())?;
    let results = session.latest().await?;
    if cx.json {
        cx.print_json(&results)?;
    } else {
        cx.print(render::leaderboard(&results));
        cx.print(format_args!("report: {}", run::write_report(&session, &results)?.display()));
    }
    Ok(0)
}
