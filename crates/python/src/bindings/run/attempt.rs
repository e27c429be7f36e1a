//! One attempt at a task, as an awaitable that steps the user's coroutine.
//!
//! It does three things that a plain `await` in the worker would not do:
//! - the coroutine runs in its own copy of the context, as in a task of its
//!   own, so that context variables set for one input are not seen by the next;
//! - a result goes straight to the scheduler, without a step through Python;
//! - attempts that never wait give way to the event loop now and then, so that
//!   a signal is heard.
//!
//! Awaiting it gives `None` if the result was kept, and `False` if the result
//! was no longer wanted. It raises what the coroutine raises.

use super::PyScheduler;
use crate::scheduler::WorkerNumber;
use pyo3::{
    PyTraverseError, PyVisit,
    exceptions::{PyRuntimeError, PyStopIteration, PyTypeError},
    intern,
    prelude::*,
    types::PyTuple,
};
use std::time::Instant;

/// See the module.
#[pyclass(module = "reverie._core", name = "Attempt")]
pub(crate) struct PyAttempt {
    scheduler: Py<PyScheduler>,
    worker: WorkerNumber,
    began: Instant,
    state: CoroutineState,
}

enum CoroutineState {
    /// Not yet begun.
    Fresh(Py<PyAny>),
    Running(StartedAttempt),
    /// Over; the event loop may do something else first.
    GivingWay(bool),
    Over,
}

struct StartedAttempt {
    /// `run` of the context.
    run: Py<PyAny>,
    coroutine: Py<PyAny>,
    /// What makes `run` step the coroutine: `send` and nothing to send, or
    /// `__next__` of an iterator that has no `send`.
    step: Py<PyTuple>,
    waited: bool,
}

impl PyAttempt {
    pub(crate) fn new(scheduler: Py<PyScheduler>, worker: WorkerNumber, payload: Py<PyAny>, began: Instant) -> Self {
        Self { scheduler, worker, began, state: CoroutineState::Fresh(payload) }
    }

    fn begin(&self, py: Python<'_>, payload: Py<PyAny>) -> PyResult<StartedAttempt> {
        let scheduler = self.scheduler.get();
        let run = scheduler.copy_context(py)?.getattr(py, intern!(py, "run"))?;
        let made = scheduler.generate().call1(py, (payload,)).map_err(|error| forbid_stop_iteration(py, error))?;
        if let Ok(send) = made.getattr(py, intern!(py, "send")) {
            let step = (send, py.None()).into_pyobject(py)?.unbind();
            return Ok(StartedAttempt { run, coroutine: made, step, waited: false });
        }
        let Ok(iterate) = made.getattr(py, intern!(py, "__await__")) else {
            let kind = made.bind(py).get_type();
            return Err(PyTypeError::new_err(format!(
                "the executor's function gave {kind}, which cannot be awaited: make it an `async def`"
            )));
        };
        let iterator = run.call1(py, (iterate,)).map_err(|error| forbid_stop_iteration(py, error))?;
        let step = (iterator.getattr(py, intern!(py, "__next__"))?,).into_pyobject(py)?.unbind();
        Ok(StartedAttempt { run, coroutine: iterator, step, waited: false })
    }

    /// Continues until the coroutine waits (returns what it waits for) or ends (returns none).
    fn advance(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let running = match std::mem::replace(&mut self.state, CoroutineState::Over) {
            CoroutineState::Fresh(payload) => self.begin(py, payload)?,
            CoroutineState::Running(running) => running,
            CoroutineState::GivingWay(kept) => return end(kept),
            CoroutineState::Over => return Ok(None),
        };
        let stepped = running.run.call1(py, &running.step);
        self.handle_step(py, running, stepped)
    }

    fn handle_step(
        &mut self,
        py: Python<'_>,
        running: StartedAttempt,
        stepped: PyResult<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let scheduler = self.scheduler.get();
        match stepped {
            Ok(awaited) => {
                scheduler.note_wait();
                self.state = CoroutineState::Running(StartedAttempt { waited: true, ..running });
                Ok(Some(awaited))
            }
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                let value = error.value(py).getattr(intern!(py, "value"))?.unbind();
                let kept = scheduler.complete(py, self.worker, value)?;
                if !running.waited && scheduler.should_give_way(self.began) {
                    self.state = CoroutineState::GivingWay(kept);
                    return Ok(Some(py.None()));
                }
                end(kept)
            }
            Err(error) => Err(error),
        }
    }
}

/// A function that raises `StopIteration` has failed, not ended.
fn forbid_stop_iteration(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py) {
        return error;
    }
    let failure = PyRuntimeError::new_err("the executor's function raised StopIteration");
    failure.set_cause(py, Some(error));
    failure
}

fn end(kept: bool) -> PyResult<Option<Py<PyAny>>> {
    if kept { Ok(None) } else { Err(PyStopIteration::new_err(false)) }
}

/// At the end, `send` and `throw` must raise, and `__next__` may return nothing.
fn or_stop_iteration(waited: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
    waited.ok_or_else(|| PyStopIteration::new_err(()))
}

#[pymethods]
impl PyAttempt {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.advance(py)
    }

    #[pyo3(signature = (_value, /))]
    fn send(&mut self, py: Python<'_>, _value: Py<PyAny>) -> PyResult<Py<PyAny>> {
        or_stop_iteration(self.advance(py)?)
    }

    #[pyo3(signature = (kind, value=None, _traceback=None, /))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        _traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let error = value.unwrap_or(kind);
        let CoroutineState::Running(running) = std::mem::replace(&mut self.state, CoroutineState::Over) else {
            return Err(PyErr::from_value(error));
        };
        let Ok(throw) = running.coroutine.getattr(py, intern!(py, "throw")) else {
            return Err(PyErr::from_value(error));
        };
        let stepped = running.run.call1(py, (throw, error));
        or_stop_iteration(self.handle_step(py, running, stepped)?)
    }

    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        if let CoroutineState::Running(running) = std::mem::replace(&mut self.state, CoroutineState::Over)
            && let Ok(close) = running.coroutine.getattr(py, intern!(py, "close"))
        {
            running.run.call1(py, (close,))?;
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.scheduler)?;
        match &self.state {
            CoroutineState::Fresh(payload) => visit.call(payload),
            CoroutineState::Running(running) => {
                visit.call(&running.run)?;
                visit.call(&running.coroutine)?;
                visit.call(&running.step)
            }
            CoroutineState::GivingWay(_) | CoroutineState::Over => Ok(()),
        }
    }

    fn __clear__(&mut self) {
        self.state = CoroutineState::Over;
    }
}
