//! A run's scheduler as Python sees it: the rules of [`crate::scheduler`] with
//! the inputs, the outputs, the clock and the concurrency controller.
//!
//! No lock is held while Python code runs: an input's iterator, a controller
//! and a signal handler may call back.

mod attempt;

use super::controllers::{PyAdaptive, PyAimd};
use crate::{
    adaptive::AttemptLoad,
    scheduler::{AttemptVerdict, CutReason, InputTask, RunRules, TaskClaim, TaskScheduler, WorkerNumber},
};
pub(crate) use attempt::PyAttempt;
use pyo3::{
    PyTraverseError, PyVisit,
    call::PyCallArgs,
    intern,
    prelude::*,
    types::{PyIterator, PyList, PyString},
};
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The longest time for which attempts that never wait may keep the event loop
/// from other work.
const BUSY_MICROSECONDS: u64 = 1000;

/// What decides how many attempts may run.
enum TargetControl {
    /// Nothing: as many as the concurrency.
    Unlimited,
    /// Our own rule, called without Python.
    Own(Py<PyAimd>),
    /// A limit that is learned, called without Python.
    Learned(Py<PyAdaptive>),
    /// A controller object of the user.
    Other(Py<PyAny>),
}

/// One run's state. Python's `asyncio` loop drives it.
#[pyclass(frozen, module = "reverie._core", name = "Scheduler")]
pub(crate) struct PyScheduler {
    core: Mutex<TaskScheduler<Py<PyAny>, Py<PyAny>>>,
    control: Mutex<TargetControl>,
    since: Instant,
    /// The user's function: from an input to a coroutine with its output.
    generate: Py<PyAny>,
    inputs: Py<PyIterator>,
    outputs: Py<PyList>,
    fallback: Py<PyAny>,
    /// Called without arguments when one more worker may be hired: it starts workers.
    on_room: Py<PyAny>,
    copy_context: Py<PyAny>,
    busy_microseconds: AtomicU64,
}

impl PyScheduler {
    fn core(&self) -> MutexGuard<'_, TaskScheduler<Py<PyAny>, Py<PyAny>>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn control(&self, py: Python<'_>) -> TargetControl {
        match &*self.control.lock().unwrap_or_else(PoisonError::into_inner) {
            TargetControl::Unlimited => TargetControl::Unlimited,
            TargetControl::Own(windows) => TargetControl::Own(windows.clone_ref(py)),
            TargetControl::Learned(learned) => TargetControl::Learned(learned.clone_ref(py)),
            TargetControl::Other(other) => TargetControl::Other(other.clone_ref(py)),
        }
    }

    fn target(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(match self.control(py) {
            TargetControl::Unlimited => usize::MAX,
            TargetControl::Own(windows) => windows.get().limit(),
            TargetControl::Learned(learned) => learned.get().limit.target(),
            // Cuts off the fraction, and values that do not fit.
            TargetControl::Other(other) => {
                other.getattr(py, intern!(py, "target_concurrency"))?.extract::<f64>(py)? as usize
            }
        })
    }

    /// Tells the controller how an attempt ended: our own by `own`, the user's by its
    /// `method`. A learned limit is told by the caller, which has the load. If a controller
    /// raises, that is reported and otherwise ignored, so that no result is lost.
    fn tell(
        &self,
        py: Python<'_>,
        own: impl FnOnce(&PyAimd),
        method: &Bound<'_, PyString>,
        arguments: impl for<'py> PyCallArgs<'py>,
    ) {
        match self.control(py) {
            TargetControl::Unlimited | TargetControl::Learned(_) => {}
            TargetControl::Own(windows) => own(windows.get()),
            TargetControl::Other(other) => {
                if let Err(error) = other.call_method1(py, method, arguments) {
                    error.write_unraisable(py, Some(other.bind(py)));
                }
            }
        }
    }

    /// A learned limit, if that is what decides.
    fn learned(&self, py: Python<'_>) -> Option<Py<PyAdaptive>> {
        match self.control(py) {
            TargetControl::Learned(learned) => Some(learned),
            _ => None,
        }
    }

    fn attempt_load(&self, worker: WorkerNumber) -> Option<AttemptLoad> {
        let (latency, in_flight, others) = self.core().attempt_load(worker, self.now())?;
        Some(AttemptLoad { latency, in_flight, others })
    }

    /// The next input. Makes room for its output.
    fn fetch(&self, py: Python<'_>, index: usize) -> PyResult<Option<Py<PyAny>>> {
        let Some(payload) = self.inputs.bind(py).clone().next() else { return Ok(None) };
        let outputs = self.outputs.bind(py);
        while outputs.len() <= index {
            outputs.append(self.fallback.clone_ref(py))?;
        }
        payload.map(|payload| Some(payload.unbind()))
    }

    pub(crate) fn generate(&self) -> &Py<PyAny> {
        &self.generate
    }

    /// A fresh copy of the current context.
    pub(crate) fn copy_context(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.copy_context.call0(py)
    }

    /// Keeps a result. Returns whether it was wanted.
    pub(crate) fn complete(&self, py: Python<'_>, worker: WorkerNumber, value: Py<PyAny>) -> PyResult<bool> {
        let learned = self.learned(py);
        let load = learned.as_ref().and_then(|_| self.attempt_load(worker));
        let now = self.now();
        let completed = self.core().complete(worker, now);
        let Some((index, latency)) = completed else { return Ok(false) };
        if let (Some(learned), Some(load)) = (learned, load) {
            learned.get().limit.record_success(load);
        }
        self.outputs.bind(py).set_item(index, value)?;
        let latency = latency.as_secs_f64();
        self.tell(py, |windows| windows.record_success(latency), intern!(py, "record_success"), (latency,));
        Ok(true)
    }

    /// An attempt waits, so the event loop continues with something else.
    pub(crate) fn note_wait(&self) {
        self.busy_microseconds.store(0, Ordering::Relaxed);
    }

    /// An attempt that began at this time has ended without waiting. Returns
    /// whether the event loop should do something else now.
    pub(crate) fn should_give_way(&self, began: Instant) -> bool {
        let spent = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        let busy_microseconds = self.busy_microseconds.load(Ordering::Relaxed).saturating_add(spent);
        let enough = busy_microseconds >= BUSY_MICROSECONDS;
        self.busy_microseconds.store(if enough { 0 } else { busy_microseconds }, Ordering::Relaxed);
        enough
    }
}

#[pymethods]
impl PyScheduler {
    #[new]
    #[pyo3(signature = (generate, inputs, *, length, outputs, fallback, concurrency, max_retries, timeout, on_room))]
    fn new(
        py: Python<'_>,
        generate: Py<PyAny>,
        inputs: Py<PyIterator>,
        length: Option<usize>,
        outputs: Py<PyList>,
        fallback: Py<PyAny>,
        concurrency: usize,
        max_retries: i64,
        timeout: f64,
        on_room: Py<PyAny>,
    ) -> PyResult<Self> {
        let timeout = Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX);
        let rules = RunRules { concurrency, max_retries, timeout };
        Ok(Self {
            core: Mutex::new(TaskScheduler::new(rules, length)),
            control: Mutex::new(TargetControl::Unlimited),
            since: Instant::now(),
            generate,
            inputs,
            outputs,
            fallback,
            on_room,
            copy_context: py.import("contextvars")?.getattr("copy_context")?.unbind(),
            busy_microseconds: AtomicU64::new(0),
        })
    }

    /// Changes what decides how many attempts may run: an `Aimd`, an `Adaptive`, an object
    /// with Phoenix's methods, or nothing.
    fn set_controller(&self, controller: Option<Bound<'_, PyAny>>) {
        let control = match controller {
            None => TargetControl::Unlimited,
            Some(controller) => match controller.cast::<PyAimd>() {
                Ok(windows) => TargetControl::Own(windows.clone().unbind()),
                Err(_) => match controller.cast::<PyAdaptive>() {
                    Ok(learned) => TargetControl::Learned(learned.clone().unbind()),
                    Err(_) => TargetControl::Other(controller.unbind()),
                },
            },
        };
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = control;
    }

    /// Hires a worker if there is room for one.
    fn hire(&self, py: Python<'_>) -> PyResult<Option<WorkerNumber>> {
        let target = self.target(py)?;
        let now = self.now();
        self.core().wake(now);
        if self.learned(py).is_some_and(|learned| learned.get().limit.pause_left().is_some()) {
            return Ok(None);
        }
        Ok(self.core().hire(target))
    }

    /// Seconds until a waiting attempt may start, because its task has rested or the limit
    /// admits attempts again. `None` if none waits.
    fn next_start(&self, py: Python<'_>) -> Option<f64> {
        let learned = self.learned(py)?;
        let (rested, wanting) = {
            let (now, core) = (self.now(), self.core());
            (core.next_wake(now), core.wanting())
        };
        let pause = learned.get().limit.pause_left().filter(|_| wanting);
        let next = match (rested, pause) {
            // Whichever is first: then both are looked at again.
            (Some(rested), Some(pause)) => Some(rested.min(pause)),
            (one, other) => one.or(other),
        };
        next.map(|next| next.as_secs_f64())
    }

    /// The worker's next attempt; nothing if it is let go.
    fn take(slf: &Bound<'_, Self>, worker: WorkerNumber) -> PyResult<Option<PyAttempt>> {
        let (this, py) = (slf.get(), slf.py());
        let target = this.target(py)?;
        if let Some(learned) = this.learned(py) {
            let now = this.now();
            this.core().wake(now);
            let may_claim = this.core().may_claim(worker, target);
            if may_claim && !learned.get().limit.admit() {
                this.core().let_go(worker);
                return Ok(None);
            }
        }
        loop {
            let claim = this.core().claim(worker, target);
            let task = match claim {
                None => return Ok(None),
                Some(TaskClaim::Again(task)) => task,
                Some(TaskClaim::Fresh(index)) => match this.fetch(py, index)? {
                    Some(payload) => InputTask { index, attempts: 0, payload },
                    None => {
                        this.core().exhaust();
                        continue;
                    }
                },
            };
            let payload = task.payload.clone_ref(py);
            let began = Instant::now();
            let (begun, room) = {
                let mut core = this.core();
                (core.begin(worker, task, began.duration_since(this.since)), core.room(target))
            };
            if !begun {
                return Ok(None);
            }
            if room {
                this.on_room.call0(py)?;
            }
            return Ok(Some(PyAttempt::new(slf.clone().unbind(), worker, payload, began)));
        }
    }

    /// The state of the worker's attempt: `running`, `timed out`,
    /// `stopped`, or `gone`.
    fn attempt_state(&self, worker: WorkerNumber) -> &'static str {
        match self.core().attempt(worker) {
            None => "gone",
            Some(None) => "running",
            Some(Some(CutReason::TimedOut)) => "timed out",
            Some(Some(CutReason::Stopped)) => "stopped",
        }
    }

    /// The worker's attempt failed: which input it was of, attempts so far,
    /// and whether there will be another. `retry_after` is how many seconds the
    /// other side asks to wait; only a learned limit keeps to it.
    #[pyo3(signature = (worker, error, retryable, rate_limited, retry_after=None))]
    fn failed(
        &self,
        py: Python<'_>,
        worker: WorkerNumber,
        error: Py<PyAny>,
        retryable: bool,
        rate_limited: bool,
        retry_after: Option<f64>,
    ) -> Option<(usize, u32, bool)> {
        let now = self.now();
        let Some(learned) = self.learned(py) else {
            let verdict = self.core().fail(worker, error, retryable, now);
            let AttemptVerdict { index, attempts, again } = verdict?;
            if rate_limited && again {
                self.tell(py, PyAimd::record_error, intern!(py, "record_error"), ());
            }
            return Some((index, attempts, again));
        };
        let limit = &learned.get().limit;
        let load = self.attempt_load(worker)?;
        let (index, refusals) = self.core().refusals(worker)?;
        let is_refused = rate_limited && retryable;
        let rest = is_refused.then(|| {
            let wish = retry_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            limit.record_refusal(load, wish, index as u64, refusals + 1)
        });
        let verdict = match rest.flatten() {
            Some(rest) => self.core().refuse(worker, error, rest, now),
            None => self.core().fail(worker, error, retryable && !is_refused, now),
        };
        let AttemptVerdict { index, attempts, again } = verdict?;
        if !is_refused {
            limit.record_failure(load, false, again);
        }
        Some((index, attempts, again))
    }

    /// The worker's attempt took too long, and has ended or is given up.
    fn timed_out(&self, py: Python<'_>, worker: WorkerNumber, error: Py<PyAny>) -> Option<(usize, u32, bool)> {
        let now = self.now();
        let load = self.attempt_load(worker);
        let verdict = self.core().fail(worker, error, true, now);
        let AttemptVerdict { index, attempts, again } = verdict?;
        if let (Some(learned), Some(load)) = (self.learned(py), load) {
            learned.get().limit.record_failure(load, true, again);
        }
        self.tell(py, PyAimd::record_timeout, intern!(py, "record_timeout"), ());
        Some((index, attempts, again))
    }

    /// The worker leaves; an attempt that it still has leaves no trace.
    fn let_go(&self, worker: WorkerNumber) {
        self.core().let_go(worker);
    }

    /// Cuts the attempts that take too long, and returns their workers.
    fn cut_overdue(&self) -> Vec<WorkerNumber> {
        let now = self.now();
        self.core().cut_overdue(now)
    }

    /// Seconds until an attempt could be overdue.
    fn next_deadline(&self) -> f64 {
        let now = self.now();
        self.core().next_deadline(now).as_secs_f64()
    }

    /// Nothing begins any more. Returns the workers whose attempts must end.
    fn stop(&self) -> Vec<WorkerNumber> {
        self.core().stop()
    }

    /// Whether there is work for another worker, if only the target were higher.
    fn wanting(&self) -> bool {
        self.core().wanting()
    }

    /// Whether nothing more will happen.
    fn finished(&self) -> bool {
        self.core().finished()
    }

    /// Takes out the status, seconds and errors of each input.
    fn records(&self) -> Vec<(u8, f64, Vec<Py<PyAny>>)> {
        let records = self.core().take_records();
        records.into_iter().map(|record| (record.status as u8, record.spent.as_secs_f64(), record.errors)).collect()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for held in [&self.generate, &self.fallback, &self.on_room] {
            visit.call(held)?;
        }
        visit.call(&self.inputs)?;
        visit.call(&self.outputs)?;
        if let Ok(control) = self.control.try_lock()
            && let TargetControl::Other(other) = &*control
        {
            visit.call(other)?;
        }
        Ok(())
    }
}
