//! Results of a run for Python programs: parsed once, and asked any number of
//! times. The package's `results.py` makes tables and pages of them.

use crate::{
    experiment::{error, json, wait},
    process::check,
    remote::runtime,
};
use pyo3::{
    exceptions::{PyLookupError, PyRuntimeError, PyValueError},
    prelude::*,
};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

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

    /// Those of an experiment's last run in a store, or of this run.
    #[staticmethod]
    #[pyo3(signature = (name, store, base, run=None))]
    fn of(py: Python<'_>, name: &str, store: &str, base: PathBuf, run: Option<&str>) -> PyResult<Self> {
        let session = named(name, store, base)?;
        let Some(run) = run else {
            let latest = || async move { session.latest().await };
            return wait(py, &CancellationToken::new(), latest, |_| Ok(())).map(Self::from);
        };
        let runs = session.workspace().past_runs().map_err(error)?;
        if !runs.iter().any(|past| past.run == run && past.experiment == name) {
            let known: Vec<&str> =
                runs.iter().filter(|past| past.experiment == name).map(|past| past.run.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(PyLookupError::new_err(format!(
                "{}: there is no run `{run}` of `{name}`; there are {known}",
                session.workspace().run_folder(run).display()
            )));
        }
        lab::Results::read(&session.workspace().run_folder(run)).map(Self::from).map_err(error)
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

    /// Writes the report page, and the folder of its parts if it is not to be one file.
    #[pyo3(signature = (page, one_file))]
    fn save_report(&self, py: Python<'_>, page: PathBuf, one_file: Option<bool>) -> PyResult<()> {
        check()?;
        py.detach(|| app::library::save_report(&self.results, &page, one_file)).map_err(error)
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

/// The finished runs in a store on this machine, the last first, as JSON.
#[pyfunction]
pub(crate) fn runs(store: &str, base: PathBuf) -> PyResult<String> {
    json(&named("any", store, base)?.workspace().past_runs().map_err(error)?)
}

fn named(name: &str, store: &str, base: PathBuf) -> PyResult<lab::Session> {
    let setup = app::library::setup(None, None, lab::Progress::default(), CancellationToken::new());
    // Opening a store may ask for threads to be there.
    let _guard = runtime()?.enter();
    app::library::of_name(name, store, base, setup).map_err(error)
}

fn page(made: Result<String, serde_json::Error>) -> PyResult<String> {
    made.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
