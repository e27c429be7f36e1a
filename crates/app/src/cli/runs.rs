//! `reverie runs`: the finished runs of an experiment.

use crate::{
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
    render::{self, RunListEntry},
};

/// List the finished runs of an experiment, and which were tries with --set or --limit.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie runs
  reverie leaderboard --run 0123

The verbs that look at a run (leaderboard, show, compare, finalists, query)
look at the last one, also where that was a try, and say so; --run chooses
another by its id or the beginning of it. With an object store, only
runs that this machine started or opened are listed.")]
pub struct RunsArguments {
    #[command(flatten)]
    file: ExperimentFile,
}

pub async fn run(cx: &CommandContext, arguments: RunsArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    // Fetches the last run if the store is an object store.
    lab::latest_record(&session).await?;
    let mut listed = Vec::new();
    for run in session.workspace().past_runs()? {
        if run.experiment != session.experiment.name {
            continue;
        }
        let record = lab::record_of(&session, &run.run).await.ok();
        let board = record.as_ref().map(lab::RunRecord::board);
        listed.push(RunListEntry {
            questions: record.as_ref().map(|record| record.questions().len()),
            trials: board.map(|board| board.rows.len()),
            leads: board.and_then(|board| board.leads.clone()),
            winner: board.and_then(|board| board.winner.clone()),
            run,
        });
    }
    cx.finish(&listed, |listed| render::runs(listed))
}
