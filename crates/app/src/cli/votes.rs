//! `reverie votes`: which answers people prefer.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice, write_new_file},
    environment,
    failure::CommandFailure,
    render,
};
use lab::{RunAnswers, VoteDesk};
use std::path::PathBuf;

/// Show which trials people prefer, by the votes on the page Votes of `reverie ui`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie votes
  reverie votes --run 0123 --json
  reverie votes --export votes.out.jsonl

The votes are in votes.jsonl beside the golden questions. A vote is about two
texts, so it counts for every run whose trials answer a question with them. Of
each person, the last vote on a question and two texts counts.
A share is that of the votes that a trial won; a vote for both or against both
counts half. Intervals and p-values are over questions, because votes on one
question depend on each other; p-values are corrected by Holm for the number
of pairs. With votes on fewer than 10 questions there is no share.
A line of --export has question, answer_a, answer_b, winner (a, b, tie or
both_bad) and by.")]
pub struct VotesArguments {
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
    /// Write the votes with the texts of the answers, as JSONL.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Replace the file of --export.
    #[arg(long, requires = "export")]
    yes: bool,
}

pub async fn run(cx: &CommandContext, arguments: VotesArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let answers = RunAnswers::load(&session, record.id()).await?;
    let desk = VoteDesk::new(lab::votes_path(&session.experiment));
    if let Some(path) = &arguments.export {
        if path.exists() && !arguments.yes {
            return Err(CommandFailure::usage(format!(
                "{} is there already: choose another file, or add --yes to replace it",
                path.display()
            )));
        }
        let votes = desk.export(&answers)?;
        let mut lines = String::new();
        for vote in &votes {
            lines += &serde_json::to_string(vote).map_err(CommandFailure::runtime)?;
            lines.push('\n');
        }
        write_new_file(path, lines.as_bytes(), arguments.yes)?;
        let written = serde_json::json!({ "file": path, "votes": votes.len() });
        return cx.finish(&written, |_| {
            format!("{} of {} written to {}", render::counted(votes.len(), "vote"), record.title(), path.display())
        });
    }
    let standing = desk.standing(&answers)?;
    cx.finish(&standing, |standing| format!("{}\n{}", record.title(), render::votes(standing)))
}
