//! A learned limit ([`crate::adaptive`]) for Python.

use crate::adaptive::LearnedLimit;
use pyo3::prelude::*;

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
