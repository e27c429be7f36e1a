//! `reverie query`: an answer with sources.

use super::{
    Context, Failure,
    options::{ExperimentFile, RunChoice},
    since,
};
use crate::{
    environment,
    render::{self, LiveAnswer},
};
use rag::pipeline::Event;
use serde::Serialize;
use std::io::{self, IsTerminal};

/// Answer a question with the winner of the last run, naming the sources.
///
/// The answer comes from the trial as it was in that run: its settings, and the
/// documents as they were read then. What changed since is told. On a terminal
/// the answer is shown as it is written.
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
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

/// An answer, and what has changed since the run of its trial.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    answered: lab::Answered,
    changed_since: Vec<String>,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    if arguments.question.trim().is_empty() {
        return Err(Failure::usage("the question is empty"));
    }
    let session = environment::open_or_read(environment::read(&arguments.file.experiment)?, cx.setup())?;
    if session.workspace().is_reading() {
        cx.note("note: the store cannot be written to: this answer is not kept, and is paid again the next time");
    }
    let record = arguments.run.record(cx, &session).await?;
    // A pipe gets the answer when it is whole: what was printed cannot be taken back.
    let live = (!cx.json && io::stdout().is_terminal()).then(|| LiveAnswer::new(io::stdout()));
    let answered = ask(cx, &session, &record, &arguments.question, arguments.trial.as_deref(), live.as_ref()).await?;
    if !cx.json && live.is_some() {
        let gap = answered.answer.as_ref().map_or("", |_| "\n\n");
        cx.print(format_args!("{gap}{}", render::sources(&answered)));
    } else if !cx.json {
        cx.print(render::answered(&answered));
    }
    let changed_since = since::tell(cx, &session, &record).await;
    if cx.json {
        cx.print_json(&Told { answered, changed_since })?;
    }
    Ok(0)
}

/// Answers with the winner of the last run, else the first of its leaderboard.
pub async fn answer(cx: &Context, session: &lab::Session, question: &str) -> Result<lab::Answered, Failure> {
    let record = lab::latest_record(session).await?;
    ask(cx, session, &record, question, None, None).await
}

/// Answers with the given trial of a run, or with the run's answering trial.
/// The answer is shown live on a terminal.
async fn ask(
    cx: &Context,
    session: &lab::Session,
    record: &lab::RunRecord,
    question: &str,
    trial: Option<&str>,
    live: Option<&LiveAnswer<io::Stdout>>,
) -> Result<lab::Answered, Failure> {
    let answering = record.answering(trial)?;
    if let Some(note) = &answering.note {
        cx.note(note);
    }
    let pipeline = lab::RunPipeline::open(session, record, &answering.trial).await?;
    for note in pipeline.notes() {
        cx.note(format_args!("note: {note}"));
    }
    let on_event = live.map(|live| {
        move |event: &Event| {
            if let Event::Piece(piece) = event {
                live.print(piece.clone());
            }
        }
    });
    let on_event = on_event.as_ref().map(|on_event| on_event as lab::OnEvent<'_>);
    let answered = pipeline.query_watched(question, on_event).await;
    if answered.is_err()
        && let Some(live) = live
    {
        live.break_off();
    }
    Ok(answered?)
}
