//! Results of a run for Python programs: parsed once, and asked any number of
//! times. The package's `results.py` makes tables and pages of them.

use crate::{
    experiment::{error, json},
    process::check,
};
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
};

/// The results of a run.
#[pyclass(frozen, module = "reverie._core")]
pub(crate) struct Results {
    results: lab::Results,
}

impl From<lab::Results> for Results {
    fn from(results: lab::Results) -> Self {
        Self { results }
    }
}

#[pymethods]
impl Results {
    /// Reads `results.json`.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let results = serde_json::from_str(text)
            .map_err(|error| PyValueError::new_err(format!("these are no results: {error}")))?;
        Ok(Self { results })
    }

    /// Everything, as in `results.json`.
    fn text(&self) -> PyResult<String> {
        json(&self.results)
    }

    /// What the leaderboard says of them.
    fn board(&self) -> PyResult<String> {
        json(&lab::Board::of(&self.results))
    }

    /// Two trials, metric by metric, with paired tests.
    fn compare(&self, py: Python<'_>, first: &str, second: &str) -> PyResult<String> {
        check()?;
        json(&py.detach(|| self.results.compare(first, second)).map_err(error)?)
    }

    /// The report page.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        check()?;
        page(py.detach(|| app::library::report(&self.results)))
    }

    /// A page with nothing but the report's plot, and no question or passage in it.
    fn plot(&self, py: Python<'_>) -> PyResult<String> {
        page(py.detach(|| app::library::plot(&self.results)))
    }

    /// What functions of the user's own failed at, as a text with their
    /// tracebacks for people; none where nothing did.
    fn function_failures(&self) -> Option<String> {
        app::library::function_failures(&self.results)
    }
}

fn page(made: Result<String, serde_json::Error>) -> PyResult<String> {
    made.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
