//! The way to the other parts of a bundle: requests pass through an object of
//! Python's.

use super::remote::runtime;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use lab::{Part, PartTransport, PartUnavailable};
use pyo3::prelude::*;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use tokio::sync::mpsc;

/// The way to the other parts: an object with `call(number, part, streams,
/// request, replies)`, which begins a call and returns at once (`streams`: the
/// part may reply several times, not once), and `cancel(number)`. Both are called from any thread.
pub(crate) struct PyPartTransport {
    object: Arc<Py<PyAny>>,
    calls: AtomicU64,
}

impl PyPartTransport {
    pub(crate) fn new(object: Py<PyAny>) -> Self {
        Self { object: Arc::new(object), calls: AtomicU64::default() }
    }
}

impl PartTransport for PyPartTransport {
    fn call(
        &self,
        part: Part,
        streams: bool,
        request: Vec<u8>,
    ) -> BoxStream<'static, Result<Vec<u8>, PartUnavailable>> {
        let number = self.calls.fetch_add(1, Relaxed);
        let (sender, replies) = mpsc::unbounded_channel();
        let over = Arc::new(AtomicBool::new(false));
        let ending = CancelOnDrop { object: self.object.clone(), number, over: over.clone() };
        let sink = PyReplySink { sender: Mutex::new(Some(sender.clone())), over };
        let object = self.object.clone();
        let begin = move || {
            let arguments = (number, part.name(), streams, request, sink);
            Python::attach(|py| object.call_method1(py, "call", arguments).map(drop))
        };
        let begun = async move {
            let failed = match tokio::task::spawn_blocking(begin).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            // The receiver is gone if the call was cancelled.
            let _ = sender.send(Err(PartUnavailable::Failed(failed)));
        };
        // Nothing is sent before the stream is read.
        let replies = stream::unfold((replies, ending), |(mut replies, ending)| async move {
            let reply = replies.recv().await?;
            Some((reply, (replies, ending)))
        });
        stream::once(begun).filter_map(async |()| None).chain(replies).boxed()
    }
}

/// Cancels a call if its stream is dropped before the last reply.
struct CancelOnDrop {
    object: Arc<Py<PyAny>>,
    number: u64,
    over: Arc<AtomicBool>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.over.load(Relaxed) {
            return;
        }
        let (object, number) = (self.object.clone(), self.number);
        // Not here: other work waits for this thread, and Python may be busy.
        if let Ok(runtime) = runtime() {
            runtime.spawn_blocking(move || {
                // The interpreter may be ending; then the call ends with it.
                Python::attach(|py| object.call_method1(py, "cancel", (number,)).map(drop))
            });
        }
    }
}

/// Where the pieces of a reply go.
type PieceSender = mpsc::UnboundedSender<Result<Vec<u8>, PartUnavailable>>;

/// Takes the replies to a call, from any thread.
#[pyclass(frozen, module = "reverie._core", name = "ReplySink")]
pub(crate) struct PyReplySink {
    sender: Mutex<Option<PieceSender>>,
    over: Arc<AtomicBool>,
}

#[pymethods]
impl PyReplySink {
    /// The next reply.
    fn add(&self, reply: Vec<u8>) {
        if let Some(sender) = &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            // The receiver is gone if the call was cancelled.
            let _ = sender.send(Ok(reply));
        }
    }

    /// Whether the caller still waits for replies.
    fn is_wanted(&self) -> bool {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// There are no more. `kind` is empty, or `died`, `busy` or `failed` with the reason.
    #[pyo3(signature = (kind="", reason=""))]
    fn end(&self, kind: &str, reason: &str) {
        self.over.store(true, Relaxed);
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reason = reason.to_owned();
        let lost = match kind {
            "" => return,
            "died" => PartUnavailable::Died(reason),
            "busy" => PartUnavailable::Busy(reason),
            _ => PartUnavailable::Failed(reason),
        };
        if let Some(sender) = sender {
            let _ = sender.send(Err(lost));
        }
    }
}
