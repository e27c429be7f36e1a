//! `reverie query`: an answer with sources.

use super::{Context, Failure};
use crate::{environment, render};
use std::path::PathBuf;

/// Answer a question with the winner of the last run, naming the sources.
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
    let session = environment::open(&arguments.experiment, environment::setup(cx.cancel.clone()))?;
    let answered = answer(cx, &session, &arguments.question, arguments.trial).await?;
    if cx.json {
        cx.print_json(&answered)?;
    } else {
        cx.print(render::answered(&answered));
    }
    Ok(0)
}

/// Answers with the given trial, else the winner, else the best one.
pub async fn answer(
    cx: &Context,
    session: &lab::Session,
    question: &str,
    trial: Option<String>,
) -> Result<lab::Answered, Failure> {
    let trial = match trial {
        Some(trial) => trial,
        None => {
            let results = session.latest()?;
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
    Ok(session.query(&prepared, &trial, question).await?)
}
