//! Answers for routes: a stream of events, or the complete answer.

use super::{
    dispatcher::LaneDispatcher,
    events::{AnswerEvent, Delivery, FoundPassages},
    pipeline::UserQuestion,
};
use crate::error::ApiError;
use futures::{Stream, StreamExt, channel::mpsc, stream};
use rag::Answer;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// Answers a question in a task of its own, so that its deadlines also hold if the client
/// does not read. The work ends when the stream is dropped. The last item is the
/// complete answer, or an error.
fn answer_events(
    dispatcher: Arc<LaneDispatcher>,
    question: UserQuestion,
    delivery: Delivery,
) -> impl Stream<Item = Result<AnswerEvent, ApiError>> + Send + 'static {
    let (sender, events) = mpsc::unbounded();
    let work = async move {
        // Sending fails if the stream was dropped; this work is then aborted.
        let send = |event: Result<AnswerEvent, ApiError>| drop(sender.unbounded_send(event));
        if let Err(error) = dispatcher.answer(&question, delivery, &|event| send(Ok(event))).await {
            send(Err(error));
        }
    };
    let work = AbortOnDropHandle::new(tokio::spawn(work.in_current_span()));
    // A panic of the work sends neither an answer nor an error.
    let end = stream::once(async { Err(ApiError::internal("the work on an answer ended without one")) });
    events.chain(end).scan(false, move |is_over, event| {
        // The handle lives as long as the stream.
        let _ = &work;
        let was_over = std::mem::replace(is_over, matches!(event, Ok(AnswerEvent::Done(_)) | Err(_)));
        std::future::ready((!was_over).then_some(event))
    })
}

/// Waits for the first event of an answer, and streams all events.
///
/// # Errors
/// If there is an error before the first event.
pub(crate) async fn stream_answer(
    dispatcher: Arc<LaneDispatcher>,
    question: UserQuestion,
) -> Result<impl Stream<Item = Result<AnswerEvent, ApiError>> + Send + 'static, ApiError> {
    let id = question.id.clone();
    let mut events = Box::pin(answer_events(dispatcher.clone(), question, Delivery::Streamed));
    let first = events.next().await.transpose()?;
    let span = tracing::Span::current();
    let rest = events.inspect(move |event| {
        if let Err(error) = event {
            // The response has begun with the status 200, so middleware sees no error.
            span.in_scope(|| dispatcher.log.record_error(error, &id));
        }
    });
    Ok(stream::iter(first.map(Ok)).chain(rest))
}

/// Waits for a complete answer.
///
/// # Errors
/// If no pipeline answers.
pub(crate) async fn collect_answer(
    dispatcher: Arc<LaneDispatcher>,
    question: UserQuestion,
) -> Result<(FoundPassages, Answer), ApiError> {
    let mut events = std::pin::pin!(answer_events(dispatcher, question, Delivery::Whole));
    let mut found = None;
    while let Some(event) = events.next().await {
        match event? {
            AnswerEvent::Passages(passages) => found = Some(*passages),
            AnswerEvent::Text(_) => {}
            AnswerEvent::Done(answer) => {
                let found = found.ok_or_else(|| ApiError::internal("an answer came before its passages"))?;
                return Ok((found, answer));
            }
        }
    }
    Err(ApiError::internal("the pipeline wrote no answer"))
}
