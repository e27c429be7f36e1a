//! `reverie watch`: follows the documents, and serves what has changed.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::CommandFailure,
    option_values::parse_seconds,
    render,
};
use lab::{CorpusFollower, CorpusUpdate, error_chain};
use std::{num::NonZeroUsize, time::Duration};
use tokio::time::Instant;

/// Follow the documents: index what has changed, and serve it.
///
/// Looks at the corpus again and again. When files were added, edited, moved or removed, it makes a new version of a
/// trial: a bundle below --output, whose chunks and indexes are made from what has changed. The trial has the settings
/// and models of its run, and keeps that run's scores.
///
/// `reverie serve PLACE` answers from the newest version, and changes to the next one without dropping a request. What
/// was removed is in no answer from then on. If a version cannot be made, the one before is served still, and the next
/// look tries again. Golden questions whose evidence is in no document any more are named.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie watch --output live/manuals                 # the winner of the last run, until Ctrl-C
  reverie serve live/manuals                          # in another terminal, or on other machines
  reverie watch t05 --output s3://bucket/manuals --every 60
  reverie watch --output live/manuals --once          # one look, for a timer such as cron
  reverie versions live/manuals                       # what there is; with a name: roll back

A look lists all files, and reads those whose size, times or entity tag have changed. A
corpus must stay as it is for 0.3 seconds before it is indexed, or change for 2 seconds.
The budget of the experiment file holds for as long as this runs.")]
pub struct WatchArguments {
    /// The trial; default: the winner, else the first of the leaderboard.
    trial: Option<String>,
    /// Where the versions are: a folder, or a URL such as s3://bucket/manuals.
    #[arg(long, value_name = "PLACE", value_hint = clap::ValueHint::AnyPath)]
    output: String,
    /// Seconds between two looks. After a look that found nothing, the pause is at least nine times as long as the look.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    every: Duration,
    /// How many versions stay. The one that is served stays in any case.
    #[arg(long, value_name = "VERSIONS", default_value = "5")]
    keep: NonZeroUsize,
    /// Look once, and end.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

/// The pause after a look that found nothing is at least this many times as long as the look.
const PAUSE: u32 = 9;
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

pub async fn run(cx: &CommandContext, arguments: WatchArguments) -> Result<u8, CommandFailure> {
    let session = environment::open(&arguments.file.experiment, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let answering = record.answering(arguments.trial.as_deref())?;
    if let Some(note) = &answering.note {
        cx.note(note);
    }
    let (title, keep) = (record.title(), arguments.keep.get());
    let mut follower = CorpusFollower::open(session, record, &answering.trial, &arguments.output, keep).await?;
    if !arguments.once {
        cx.note(format_args!(
            "trial {} of {title} follows its documents into {}; Ctrl-C ends it",
            answering.trial,
            follower.place().address()
        ));
    }
    let (mut failures, mut told) = (0, String::new());
    loop {
        let (began, mut pause) = (Instant::now(), arguments.every);
        match follower.update().await {
            Ok(Some(update)) => {
                (failures, told) = (0, String::new());
                tell(cx, &update)?;
            }
            Ok(None) => {
                (failures, told) = (0, String::new());
                pause = pause.max(began.elapsed() * PAUSE);
            }
            Err(lab::Error::Interrupted) => return Ok(0),
            Err(error) if arguments.once => return Err(error.into()),
            Err(error) => {
                failures += 1;
                let reason = error_chain(&error);
                // A provider that is away for a night does not fill a log.
                if reason != told {
                    cx.warn(format_args!("no new version: {reason}"));
                    told = reason;
                }
            }
        }
        if arguments.once {
            return Ok(0);
        }
        if failures > 0 {
            let doubled = arguments.every * 2_u32.saturating_pow(failures.min(16));
            pause = doubled.min(LONGEST_PAUSE.max(arguments.every));
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = cx.cancel.cancelled() => return Ok(0),
        }
    }
}

/// Prints a version: a line, or a line of JSON.
fn tell(cx: &CommandContext, update: &CorpusUpdate) -> Result<(), CommandFailure> {
    for line in render::file_lines(&update.rejected, |file| {
        format!("not a document: {}: {}", file.path, error_chain(&file.reason))
    }) {
        cx.note(line);
    }
    for line in render::file_lines(&update.unread, |file| {
        format!("{} cannot be read and is not searched until it can be: {}", file.path, file.reason)
    }) {
        cx.warn(line);
    }
    for lost in &update.lost {
        cx.note(lost);
    }
    match cx.json {
        true => cx.print(serde_json::to_string(update).map_err(CommandFailure::runtime)?),
        false => cx.print(render::corpus_update(update)),
    }
    Ok(())
}
