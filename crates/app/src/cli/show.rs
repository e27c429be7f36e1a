//! `reverie show`: one trial, question by question.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::CommandFailure,
    render,
};

/// Show what a trial retrieved and answered, and every verdict.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie show t03
  reverie show t03 q07 -f books.toml")]
pub struct ShowArguments {
    /// The trial, such as `t03`.
    trial: String,
    /// The question's id; all questions if left out.
    question: Option<String>,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

pub async fn run(cx: &CommandContext, arguments: ShowArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let results = &record.results_with_rows_of(&session, &arguments.trial).await?;
    let trial = results.trial(&arguments.trial)?;
    let chosen: Vec<_> = trial
        .questions
        .iter()
        .filter(|result| arguments.question.as_ref().is_none_or(|id| *id == result.question))
        .collect();
    if let Some(id) = arguments.question.as_ref().filter(|_| chosen.is_empty()) {
        let known: Vec<_> = results.questions.iter().map(|question| question.id.as_str()).collect();
        return Err(CommandFailure::usage(format!("there is no question `{id}`; there are {}", known.join(", "))));
    }
    cx.show(&chosen, |chosen| match arguments.question {
        Some(_) => chosen.iter().map(|result| render::question(&record, trial, result)).collect::<Vec<_>>().join("\n"),
        None => format!("{}\n{}\n{}", record.title(), render::trial(results, trial), render::means(trial)),
    })?;
    cx.note_changes_since(&session, &record).await;
    Ok(0)
}
