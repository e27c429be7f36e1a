//! `reverie query`: an answer with sources.

use super::{Context, Failure};
use crate::{
    environment,
    render::{self, LiveAnswer},
};
use std::{
    io::{self, IsTerminal},
    path::PathBuf,
};

/// Answer a question with the winner of the last run, naming the sources.
///
/// On a terminal the answer is shown as it is written.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie query \"How do I build a source package?\"
  reverie query \"What is a virtual package?\" --trial t05 --json")]
pub struct Arguments {
    /// The question.
    question: String,
    /// Another trial than the winner.
    #[arg(long)]
    trial: Option<String>,
    /// The experiment file.
    #[arg(long, default_value = "experiment.toml")]
    experiment: PathBuf,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    if arguments.question.trim().is_empty() {
        return Err(Failure::usage("the question is empty"));
    }
    let session = environment::open(&arguments.experiment, cx.setup())?;
    // A pipe gets the answer when it is whole: what was printed cannot be taken back.
    let live = (!cx.json && io::stdout().is_terminal()).then(|| LiveAnswer::new(io::stdout()));
    let answered = answer(cx, &session, &arguments.question, arguments.trial, live.as_ref()).await?;
    if cx.json {
        cx.print_json(&answered)?;
    } else if live.is_some() {
        cx.print(format_args!("{}{}", answered.answer.as_ref().map_or("", |_| "\n\n"), render::sources(&answered)));
    } else {
        cx.print(render::answered(&answered));
    }
    Ok(0)
}

/// Answers with the given trial, else the winner, else the best one; live, if
/// there is somebody to see it.
pub async fn answer(
    cx: &Context,
    session: &lab::Session,
    question: &str,
    trial: Option<String>,
    live: Option<&LiveAnswer<io::Stdout>>,
) -> Result<lab::Answered, Failure> {
    let trial = match trial {
        Some(trial) => trial,
        None => {
            let results = session.latest().await?;
            let best = results.trials.first().map(|trial| trial.trial.id.clone());
            match (results.winner.trial(), best) {
                (Some(winner), _) => winner.to_owned(),
                (None, Some(best)) => {
                    cx.note(format_args!("no winner was named; answering with {best}, the first of the leaderboard"));
                    best
                }
                (None, None) => return Err(Failure::work("the last run has no trials")),
            }
        }
    };
    let prepared = session.prepare().await?;
    let on_piece = live.map(|live| move |piece| live.print(piece));
    let on_piece = on_piece.as_ref().map(|on_piece| on_piece as &(dyn Fn(models::Piece) + Send + Sync));
    let answered = session.query_watched(&prepared, &trial, question, on_piece).await;
    if answered.is_err()
        && let Some(live) = live
    {
        live.break_off();
    }
    Ok(answered?)
}
