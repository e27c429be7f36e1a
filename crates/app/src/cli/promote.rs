//! `reverie promote`: a trial as a bundle that can be served anywhere.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::CommandFailure,
};

/// Make a bundle of a trial: everything needed to serve it without the store.
///
/// A bundle holds the resolved pipeline, its chunks and indexes, the identities of
/// its models, its scores with their intervals, and the digest of every file. It is
/// never changed. The models themselves are not in it.
///
/// Of a trial that is another system, the bundle holds its scores alone: it is a
/// baseline for `reverie check`, and cannot be served.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie promote --output bundles/manuals-1
  reverie promote t05 --output s3://bucket/manuals-2
  reverie serve bundles/manuals-1")]
pub struct PromoteArguments {
    /// The trial; default: the winner, else the first of the leaderboard.
    trial: Option<String>,
    /// Where the bundle is made: a new folder, or a URL such as s3://bucket/manuals-1.
    #[arg(long, value_name = "PLACE", value_hint = clap::ValueHint::AnyPath)]
    output: String,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

pub async fn run(cx: &CommandContext, arguments: PromoteArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_maybe_read_only(environment::read(&arguments.file.experiment)?, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let answering = record.answering(arguments.trial.as_deref())?;
    if let Some(note) = &answering.note {
        cx.note(note);
    }
    let manifest = lab::Bundle::make(&session, &record, &answering.trial, &arguments.output).await?;
    let output = &arguments.output;
    let use_it = match record.system_of(&answering.trial) {
        Some(system) => format!("later runs of {system} are compared with it by: reverie check --against {output}"),
        None => format!("serve it with: reverie serve {output}"),
    };
    cx.finish(&manifest, |manifest| {
        format!(
            "{output}: trial {} of run {}, {:.1} MB, digest {}\n{use_it}",
            manifest.trial,
            manifest.run,
            manifest.bytes() as f64 / 1e6,
            &manifest.digest()[..12],
        )
    })
}
