//! `reverie compare`: one trial against another, metric by metric.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::CommandFailure,
    render,
};

/// Compare two trials of the last run on the questions that both were asked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie compare t03 t07
  reverie compare t03 t07 --json | jq '.[] | select(.p_value < 0.05)'

Differences are first minus second, question by question. The p-value is that
of a sign-flip test of these two trials, corrected by Holm for the number of
metrics; the effect size is the mean difference in standard deviations of the
differences. The group of each trial, above the table, is the one of the
leaderboard: it takes into account that the best was chosen from all trials.")]
pub struct CompareArguments {
    /// The first trial, such as `t03`.
    first: String,
    /// The second trial.
    second: String,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

pub async fn run(cx: &CommandContext, arguments: CompareArguments) -> Result<u8, CommandFailure> {
    if arguments.first == arguments.second {
        return Err(CommandFailure::usage(format!(
            "`{}` is named twice: name the trial that it is compared with",
            arguments.first
        )));
    }
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let rows = record.compare(&arguments.first, &arguments.second)?;
    let board = record.board();
    if cx.json {
        cx.print_json(&rows)?;
    } else if let (Some(first), Some(second)) = (board.row(&arguments.first), board.row(&arguments.second)) {
        cx.print(format_args!("{}\n{}", record.title(), render::comparison(first, second, &rows)));
    }
    cx.note_changes_since(&session, &record).await;
    Ok(0)
}
