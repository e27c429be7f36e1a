//! Answers as routes take them: word by word, or whole.

use crate::{Service, error::ApiError, served::Served};
use futures::{Stream, StreamExt, channel::mpsc, stream};
use models::Message;
use rag::{Answer, Passage};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// A question that was checked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The id of the request.
    pub(crate) id: Arc<str>,
    pub(crate) question: String,
    /// What was said before it, oldest first.
    pub(crate) history: Vec<Message>,
    /// The most passages.
    pub(crate) at_most: usize,
}

/// What is told of an answer, in this order.
#[derive(Debug)]
pub(crate) enum Told<P = Served> {
    /// What was found, and by which pipeline.
    Found(Box<Found<P>>),
    /// The next part of the text. All parts together are the text of the answer.
    Text(String),
    /// The answer.
    Answered(Answer),
}

/// What the reader of an answer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// The text while it is written.
    Text,
    /// The answer when it is done.
    Answer,
}

/// What was found for a question.
#[derive(Debug)]
pub(crate) struct Found<P = Served> {
    pub(crate) served: Arc<P>,
    pub(crate) passages: Vec<Passage>,
    /// What there is to tell about the search.
    pub(crate) remarks: Vec<String>,
}

/// What a pipeline answered, whole.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) passages: Vec<Passage>,
    pub(crate) remarks: Vec<String>,
    pub(crate) answer: Answer,
}

/// A whole answer.
pub(crate) struct Whole {
    pub(crate) found: Found,
    pub(crate) answer: Answer,
}

/// Answers a question. The work goes on whether the stream is read or not, so
/// that deadlines hold for a client that does not read; it ends when the stream
/// is dropped. The last item is the answer, or an error.
fn answer(
    service: Arc<Service>,
    asked: Asked,
    reads: Reads,
) -> impl Stream<Item = Result<Told, ApiError>> + Send + 'static {
    let (sender, events) = mpsc::unbounded();
    let work = async move {
        // If nobody listens any more, it is dropped.
        let tell = |event: Result<Told, ApiError>| drop(sender.unbounded_send(event));
        if let Err(error) = service.answering.answer(&asked, reads, &|event| tell(Ok(event))).await {
            tell(Err(error));
        }
    };
    let work = AbortOnDropHandle::new(tokio::spawn(work.in_current_span()));
    // Work that ended in a panic has sent neither an answer nor an error.
    let end = stream::once(async { Err(ApiError::internal("the work on an answer ended without one")) });
    events.chain(end).scan(false, move |is_over, event| {
        // The handle lives as long as the stream.
        let _ = &work;
        let was_over = std::mem::replace(is_over, matches!(event, Ok(Told::Answered(_)) | Err(_)));
        std::future::ready((!was_over).then_some(event))
    })
}

/// The same, once something was told: a question that is refused before that is
/// an error, and no stream.
pub(crate) async fn begun(
    service: Arc<Service>,
    asked: Asked,
) -> Result<impl Stream<Item = Result<Told, ApiError>> + Send + 'static, ApiError> {
    let id = asked.id.clone();
    let mut told = Box::pin(answer(service.clone(), asked, Reads::Text));
    let first = told.next().await.transpose()?;
    let span = tracing::Span::current();
    let rest = told.inspect(move |event| {
        if let Err(error) = event {
            // The response has begun with the status 200, so nothing else notes the failure.
            span.in_scope(|| service.note_failure(error, &id));
        }
    });
    Ok(stream::iter(first.map(Ok)).chain(rest))
}

/// The same as a whole.
pub(crate) async fn whole(service: Arc<Service>, asked: Asked) -> Result<Whole, ApiError> {
    let mut told = std::pin::pin!(answer(service, asked, Reads::Answer));
    let mut found = None;
    while let Some(told) = told.next().await {
        match told? {
            Told::Found(now) => found = Some(*now),
            Told::Text(_) => {}
            Told::Answered(answer) => {
                let found = found.ok_or_else(|| ApiError::internal("an answer came before its passages"))?;
                return Ok(Whole { found, answer });
            }
        }
    }
    Err(ApiError::internal("the pipeline wrote no answer"))
}

/// An error in a word, for counting.
pub(crate) fn failure(error: &ApiError) -> &'static str {
    match error.status.as_u16() {
        502 => "upstream",
        503 if error.is_upstream() => "upstream",
        504 => "timeout",
        503 => "shed",
        _ => "other",
    }
}
