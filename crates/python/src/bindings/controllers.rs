//! The limits of [`crate::aimd`] and [`crate::adaptive`] for Python, on the machine's
//! monotonic clock.

use crate::{
    adaptive::LearnedLimit,
    aimd::{AimdWindows, Policy},
};
use pyo3::prelude::*;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The rule of `reverie.executors.ConcurrencyController`.
#[pyclass(frozen, module = "reverie._core", name = "Aimd")]
pub(crate) struct PyAimd {
    since: Instant,
    windows: Mutex<AimdWindows>,
}

/// Seconds as Python gives them: negative values and NaN become zero, values
/// that are too large become the longest duration.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

impl PyAimd {
    fn windows(&self) -> MutexGuard<'_, AimdWindows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyAimd {
    #[new]
    fn new(
        max_concurrency: usize,
        initial_target: f64,
        window_seconds: f64,
        increase_step: f64,
        decrease_ratio: f64,
        smoothing_factor: f64,
        collapse_window_seconds: f64,
        collapse_error_threshold: usize,
    ) -> Self {
        let policy = Policy {
            maximum: max_concurrency,
            initial_target,
            window: duration(window_seconds),
            increase_step,
            decrease_ratio,
            smoothing_factor,
            collapse_window: duration(collapse_window_seconds),
            collapse_errors: collapse_error_threshold,
        };
        Self { since: Instant::now(), windows: Mutex::new(AimdWindows::new(policy, Duration::ZERO)) }
    }

    #[getter]
    pub(crate) fn limit(&self) -> usize {
        self.windows().limit()
    }

    #[getter]
    fn target(&self) -> f64 {
        self.windows().target()
    }

    fn set_target(&self, target: f64) {
        self.windows().set_target(target);
    }

    #[getter]
    fn counts(&self) -> (u64, u64, u64) {
        self.windows().counts()
    }

    #[getter]
    fn smoothed_latency(&self) -> Option<f64> {
        self.windows().smoothed_latency()
    }

    pub(crate) fn record_success(&self, latency_seconds: f64) {
        self.windows().record_success(latency_seconds, self.since.elapsed());
    }

    pub(crate) fn record_timeout(&self) {
        self.windows().record_timeout(self.since.elapsed());
    }

    pub(crate) fn record_error(&self) {
        self.windows().record_error(self.since.elapsed());
    }
}

/// What `reverie.executors` uses with `limiter="adaptive"`.
#[pyclass(frozen, module = "reverie._core", name = "Adaptive")]
pub(crate) struct PyAdaptive {
    pub(crate) limit: LearnedLimit,
}

#[pymethods]
impl PyAdaptive {
    #[new]
    fn new(maximum: usize) -> Self {
        Self { limit: LearnedLimit::new(maximum) }
    }

    /// How many attempts may run now.
    #[getter]
    fn target_concurrency(&self) -> usize {
        self.limit.target()
    }
}
