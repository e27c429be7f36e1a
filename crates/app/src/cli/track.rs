//! `reverie track`: show a recorded run on the experiment's trackers.

use crate::{
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
};

/// Send a run to the experiment's trackers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie track
  reverie track -f books.toml --run manuals-0123456789ab

Where: `mlflow = { uri = \"http://127.0.0.1:5000\" }`, `wandb = {}` or
`trackio = {}` under [track]. A run does
the same while it goes on; this is for what it could not show because the
server was away, or because there was no [track] yet. What a tracker
has already is not sent again.")]
pub struct TrackArguments {
    #[command(flatten)]
    file: ExperimentFile,
    /// The run: a folder below `runs` in the store. Default: the last one.
    #[arg(long)]
    run: Option<String>,
}

pub async fn run(cx: &CommandContext, arguments: TrackArguments) -> Result<u8, CommandFailure> {
    let session = environment::open(&arguments.file.experiment, environment::setup(cx.cancel.clone()))?;
    let notes = lab::track::catch_up(&session, arguments.run.as_deref()).await?;
    cx.finish(&notes, |_| notes.join("\n"))
}
