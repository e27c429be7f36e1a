//! The results of a run for Python, read once however often they are asked.

use crate::{experiment::error, process::check};
use lab::Results as Found;
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
};
use std::sync::OnceLock;

/// The results of a run.
#[pyclass(frozen, module = "reverie._core")]
pub(crate) struct Results {
    /// As in `results.json`.
    #[pyo3(get)]
    text: String,
    found: OnceLock<Found>,
}

#[pymethods]
impl Results {
    #[new]
    fn new(text: String) -> Self {
        Self { text, found: OnceLock::new() }
    }

    fn __getnewargs__(&self) -> (&str,) {
        (&self.text,)
    }

    /// The report page.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        check()?;
        let found = self.found()?;
        page(py, found)
    }

    /// The report page without questions and passages.
    fn overview(&self, py: Python<'_>) -> PyResult<String> {
        check()?;
        let found = self.found()?;
        let bare = |trial: &lab::TrialResult| lab::TrialResult { questions: Vec::new(), ..trial.clone() };
        let trials = found.trials.iter().map(bare).collect();
        page(py, &Found { trials, questions: Vec::new(), rejected: Vec::new(), ..found.clone() })
    }

    /// What functions of the user's own failed at, as a text with their
    /// tracebacks for people; none where nothing did.
    fn function_failures(&self) -> PyResult<Option<String>> {
        Ok(app::library::function_failures(self.found()?))
    }

    /// Two trials, metric by metric, with paired tests, as JSON.
    fn compare(&self, py: Python<'_>, first: &str, second: &str) -> PyResult<String> {
        check()?;
        let found = self.found()?;
        py.detach(|| app::library::compare(found, first, second)).map_err(error)
    }
}

impl Results {
    /// The results that a run gave.
    pub(crate) fn of(found: Found) -> PyResult<Self> {
        let text = serde_json::to_string(&found).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(Self { text, found: found.into() })
    }

    fn found(&self) -> PyResult<&Found> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let read = serde_json::from_str(&self.text);
        let read = read.map_err(|error| PyValueError::new_err(format!("these are no results: {error}")))?;
        Ok(self.found.get_or_init(|| read))
    }
}

fn page(py: Python<'_>, found: &Found) -> PyResult<String> {
    py.detach(|| app::library::report(found)).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
