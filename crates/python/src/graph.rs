//! The parts of a bundle in several processes: each answers requests of the
//! others, and an object of Python's passes its own requests on.

use crate::{
    experiment::wait,
    remote::runtime,
    service::{Reply, Told, open},
};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use lab::{Elsewhere, Lost, Part};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};
use serve::Served;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// One part of a bundle.
#[pyclass(frozen, module = "reverie._core", name = "Part")]
pub(crate) struct PyPart {
    served: Arc<Served>,
    /// Removed after the pipeline is gone.
    _scratch: TempDir,
}

#[pymethods]
impl PyPart {
    /// Opens a part and makes it ready; `others` passes requests on.
    #[new]
    fn new(py: Python<'_>, bundle: String, part: &str, others: Py<PyAny>) -> PyResult<Self> {
        let part = Part::named(part).ok_or_else(|| PyValueError::new_err(format!("there is no part `{part}`")))?;
        let scratch = app::scratch_folder()?;
        let folder = scratch.path().to_owned();
        let work = || async move {
            let served = open(&bundle, Some((part, others)), &folder).await?;
            served.warm().await?;
            Ok::<_, lab::Error>(served)
        };
        let served = Arc::new(wait(py, &CancellationToken::new(), work, |_| Ok(()))?);
        Ok(Self { served, _scratch: scratch })
    }

    /// What differs from the run that the bundle is of.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.served.notes().to_vec()
    }

    /// Begins to reply to a request of another part.
    fn reply(&self, request: Vec<u8>) -> PyResult<Reply> {
        let served = self.served.clone();
        Reply::of(|tell| async move {
            let mut said = served.reply(&request);
            while let Some(bytes) = said.next().await {
                if tell.send(Told::Bytes(bytes)).await.is_err() {
                    return;
                }
            }
        })
    }
}

/// The parts that the trial of a bundle has something for.
#[pyfunction]
pub(crate) fn parts(py: Python<'_>, bundle: String) -> PyResult<Vec<&'static str>> {
    let work = || async move {
        let parts = lab::Part::of_bundle(&bundle, &app::setup(CancellationToken::new())).await?;
        Ok::<_, lab::Error>(parts.into_iter().map(Part::name).collect())
    };
    wait(py, &CancellationToken::new(), work, |_| Ok(()))
}

/// The way to the other parts: an object with `call(number, part, streams,
/// request, replies)`, which begins a call and returns at once, and
/// `cancel(number)`. Both are called from any thread.
pub(crate) struct PyElsewhere {
    object: Arc<Py<PyAny>>,
    calls: AtomicU64,
}

impl PyElsewhere {
    pub(crate) fn new(object: Py<PyAny>) -> Self {
        Self { object: Arc::new(object), calls: AtomicU64::default() }
    }
}

impl Elsewhere for PyElsewhere {
    fn call(&self, part: Part, streams: bool, request: Vec<u8>) -> BoxStream<'static, Result<Vec<u8>, Lost>> {
        let number = self.calls.fetch_add(1, Relaxed);
        let (sender, replies) = mpsc::unbounded_channel();
        let over = Arc::new(AtomicBool::new(false));
        let ending = Ending { object: self.object.clone(), number, over: over.clone() };
        let sink = Replies { sender: Mutex::new(Some(sender.clone())), over };
        let object = self.object.clone();
        let begin = move || {
            Python::attach(|py| {
                let request = PyBytes::new(py, &request);
                object.call_method1(py, "call", (number, part.name(), streams, request, sink)).map(drop)
            })
        };
        let begun = async move {
            let failed = match tokio::task::spawn_blocking(begin).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            // Nobody listens if the call was given up.
            let _ = sender.send(Err(Lost::Failed(failed)));
        };
        // Nothing is sent before the stream is read.
        let replies = stream::unfold((replies, ending), |(mut replies, ending)| async move {
            let reply = replies.recv().await?;
            Some((reply, (replies, ending)))
        });
        stream::once(begun).filter_map(async |()| None).chain(replies).boxed()
    }
}

/// Ends a call that nobody waits for any more.
struct Ending {
    object: Arc<Py<PyAny>>,
    number: u64,
    over: Arc<AtomicBool>,
}

impl Drop for Ending {
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
type Pieces = mpsc::UnboundedSender<Result<Vec<u8>, Lost>>;

/// Takes the replies to a call, from any thread.
#[pyclass(frozen, module = "reverie._core")]
pub(crate) struct Replies {
    sender: Mutex<Option<Pieces>>,
    over: Arc<AtomicBool>,
}

#[pymethods]
impl Replies {
    /// The next reply.
    fn add(&self, reply: Vec<u8>) {
        if let Some(sender) = &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            // Nobody listens if the call was given up.
            let _ = sender.send(Ok(reply));
        }
    }

    /// Whether somebody waits for them.
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
            "died" => Lost::Died(reason),
            "busy" => Lost::Busy(reason),
            _ => Lost::Failed(reason),
        };
        if let Some(sender) = sender {
            let _ = sender.send(Err(lost));
        }
    }
}
