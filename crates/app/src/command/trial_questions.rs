//! Questions to a trial of a run.

use super::CommandContext;
use crate::{failure::CommandFailure, render::LiveAnswer};
use lab::{OnEvent, RunPipeline, RunRecord, Session, TrialAnswer};
use models::Message;
use rag::pipeline::{AskedQuestion, PipelineEvent};
use std::io;

/// Opens the pipeline of a trial, by default of the winner, else of the first of the leaderboard.
/// Notes on it are printed on standard error.
///
/// # Errors
/// If the run has no such trial, or its files cannot be read.
pub async fn open_pipeline(
    cx: &CommandContext,
    session: &Session,
    record: &RunRecord,
    trial: Option<&str>,
) -> Result<RunPipeline, CommandFailure> {
    let answering = record.answering(trial)?;
    if let Some(note) = &answering.note {
        cx.note(note);
    }
    let pipeline = RunPipeline::open(session, record, &answering.trial).await?;
    for note in pipeline.notes() {
        cx.note(format_args!("note: {note}"));
    }
    Ok(pipeline)
}

/// Answers a question after earlier messages; `live` shows the answer while it is written.
///
/// # Errors
/// If the pipeline fails.
pub async fn ask_trial(
    pipeline: &RunPipeline,
    question: &str,
    history: &[Message],
    live: Option<&LiveAnswer<io::Stdout>>,
) -> Result<TrialAnswer, CommandFailure> {
    let on_event = live.map(|live| {
        move |event: &PipelineEvent| {
            if let PipelineEvent::Piece(piece) = event {
                live.print(piece.clone());
            }
        }
    });
    let on_event = on_event.as_ref().map(|on_event| on_event as OnEvent<'_>);
    let asked = AskedQuestion { text: question, history, filter: None };
    let answered = pipeline.query_with(asked, on_event).await;
    if answered.is_err()
        && let Some(live) = live
    {
        live.break_off();
    }
    Ok(answered?)
}

/// Prints on standard error why an answer is less than it could be: the query
/// component fell back, a later step has a remark, or the answer was cut off.
pub fn note_answer(cx: &CommandContext, answered: &TrialAnswer) {
    if let Some(reason) = &answered.query_fallback {
        cx.note(format_args!("note: the query component fell back, because: {reason}"));
    }
    for remark in &answered.remarks {
        cx.note(format_args!("note: {remark}"));
    }
    if answered.answer.as_ref().is_some_and(|answer| answer.finish == models::Finish::Length) {
        cx.note("note: the answer was cut off at `max_tokens` of the generator");
    }
}
