//! A learned limit ([`crate::adaptive`]) for Python.

use crate::adaptive::LearnedLimit;
use pyo3::prelude::*;

/// What `reverie.executors` uses with `limiter="adaptive"`.
#[pyclass(frozen, module = "reverie._core")]
pub(crate) struct Adaptive {
    pub(crate) limit: LearnedLimit,
}

#[pymethods]
impl Adaptive {
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
