//! `reverie leaderboard`: the results of the last run.

use super::{Context, Failure, options::ExperimentFile, since};
use crate::{
    environment, render,
    report::{report_path, write_report},
};
use lab::Board;

/// Show the leaderboard of the last run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie leaderboard
  reverie leaderboard -f books.toml --json | jq -r '.winner'")]
pub struct Arguments {
    #[command(flatten)]
    file: ExperimentFile,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let record = lab::latest_record(&session).await?;
    let results = &record.results;
    if cx.json {
        cx.print_json(results)?;
    } else {
        cx.print(render::leaderboard(&Board::of(results)));
        let report = if session.workspace().is_reading() {
            Some(report_path(&session, results)).filter(|report| report.is_file())
        } else {
            Some(write_report(&session, results).await?)
        };
        if let Some(report) = report {
            cx.print(format_args!("report: {}", report.display()));
        }
    }
    since::tell(cx, &session, &record).await;
    Ok(0)
}
