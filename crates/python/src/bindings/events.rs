//! What happens while a question is answered, for Python programs that read it
//! while it happens.

use super::{
    remote::runtime,
    work::{python_error, spawn_for_callback, to_json, wait},
};
use lab::{Error, RunPipeline, TrialAnswer};
use models::AnswerPiece;
use pyo3::prelude::*;
use rag::{Passage, pipeline::PipelineEvent};
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// The events of one question, from work that goes on in another thread. The
/// work ends when this is closed or dropped.
#[pyclass(frozen, module = "reverie._core", name = "Events")]
pub(crate) struct PyEvents {
    queue: Arc<Mutex<EventQueue>>,
    work: std::sync::Mutex<Option<AbortOnDropHandle<()>>>,
}

/// An event as Python reads it, written as JSON without a `serde_json::Value` between: that would widen the scores of
/// passages to other numbers than the answer has.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum QueryEvent {
    Found { passages: Vec<Passage> },
    Piece { text: String },
    Restart,
    Answer { answered: Box<TrialAnswer> },
}

/// Events that were not read yet.
struct EventQueue {
    events: mpsc::UnboundedReceiver<Result<QueryEvent, Error>>,
    /// Why there are no more events; what came before it is read first.
    failed: Option<Error>,
}

impl PyEvents {
    pub(crate) fn begin(opened: Arc<RunPipeline>, question: String) -> PyResult<Self> {
        let (tell, events) = mpsc::unbounded_channel();
        let work = runtime()?.spawn(async move {
            // Without a reader, the event is dropped.
            let on_event = |event: &PipelineEvent| {
                let event = match event {
                    PipelineEvent::PassagesFound(passages) => QueryEvent::Found { passages: passages.clone() },
                    PipelineEvent::Piece(AnswerPiece::Text(text)) => QueryEvent::Piece { text: text.clone() },
                    PipelineEvent::Piece(AnswerPiece::Restart) => QueryEvent::Restart,
                    // The last event holds the answer, with the passages and remarks.
                    PipelineEvent::Fallback(_) | PipelineEvent::Remark(_) | PipelineEvent::Answered(_) => return,
                };
                _ = tell.send(Ok(event));
            };
            let answered = opened.query_with(question.as_str().into(), Some(&on_event)).await;
            _ = tell.send(answered.map(|answered| QueryEvent::Answer { answered: Box::new(answered) }));
        });
        let work = std::sync::Mutex::new(Some(AbortOnDropHandle::new(work)));
        Ok(Self { queue: Arc::new(Mutex::new(EventQueue { events, failed: None })), work })
    }
}

/// All events that have come since the last call, at least one; `None` after the last one.
async fn next_events(queue: &Mutex<EventQueue>, cancel: &CancellationToken) -> Result<Option<Vec<QueryEvent>>, Error> {
    let mut queue = queue.lock().await;
    if let Some(error) = queue.failed.take() {
        return Err(error);
    }
    let first = tokio::select! {
        () = cancel.cancelled() => return Err(Error::Interrupted),
        first = queue.events.recv() => first,
    };
    let Some(first) = first else { return Ok(None) };
    let mut events = vec![first?];
    while let Ok(more) = queue.events.try_recv() {
        match more {
            Ok(event) => events.push(event),
            Err(error) => queue.failed = Some(error),
        }
    }
    Ok(Some(events))
}

#[pymethods]
impl PyEvents {
    /// The next events as a JSON list; `None` after the last one.
    fn next(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let (queue, cancel) = (self.queue.clone(), CancellationToken::new());
        let stop = cancel.clone();
        let work = || async move { next_events(&queue, &stop).await };
        wait(py, &cancel, work, |_| Ok(()))?.map(|events| to_json(&events)).transpose()
    }

    /// The same without waiting: `done` is called from another thread with the events
    /// or with the error.
    fn anext(&self, done: Py<PyAny>) -> PyResult<()> {
        let queue = self.queue.clone();
        spawn_for_callback(done, async move {
            let events = next_events(&queue, &CancellationToken::new()).await.map_err(python_error)?;
            events.map(|events| to_json(&events)).transpose()
        })
    }

    /// Ends the work, unless it has ended.
    fn close(&self) {
        let work = self.work.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        drop(work);
    }
}
