//! Results of a run for Python programs: parsed once, and queried any number of
//! times. The package's `results.py` makes tables and pages of them.

use super::{
    process,
    remote::runtime,
    rows,
    scoring::scores_json,
    settings,
    work::{open_session, python_error, remove_nulls, to_json, to_python, value_error, wait},
};
use pyo3::{
    exceptions::{PyLookupError, PyRuntimeError},
    prelude::*,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::PathBuf, sync::OnceLock};
use tokio_util::sync::CancellationToken;

/// The results of a run. What its leaderboard says is there at once; the rest,
/// which holds every passage, is read on demand.
#[pyclass(frozen, module = "reverie._core", name = "Results")]
pub(crate) struct PyResults {
    board: lab::Board,
    source: ResultsSource,
}

/// Where the results are, besides the leaderboard.
enum ResultsSource {
    /// In memory, with the experiment if it is known.
    Here(Box<lab::Results>, Option<Box<lab::Experiment>>),
    /// In the run's folder, and in memory once they were read.
    Kept { experiment: Box<lab::Experiment>, record: Box<lab::RunRecord>, read: OnceLock<Box<lab::Results>> },
}

impl From<lab::Results> for PyResults {
    fn from(results: lab::Results) -> Self {
        Self { board: lab::Board::of(&results), source: ResultsSource::Here(Box::new(results), None) }
    }
}

impl PyResults {
    /// The results of a run that has just ended.
    pub(crate) fn of_run(results: lab::Results, experiment: lab::Experiment) -> Self {
        let board = lab::Board::of(&results);
        Self { board, source: ResultsSource::Here(Box::new(results), Some(Box::new(experiment))) }
    }

    /// The results of a run in the store: of `run`, or of the last one of the session's
    /// experiment.
    pub(crate) fn kept(py: Python<'_>, session: lab::Session, run: Option<&str>) -> PyResult<Self> {
        let experiment = Box::new(lab::Experiment::clone(&session.experiment));
        let run = run.map(str::to_owned);
        let open = || async move {
            match run {
                Some(run) => lab::record_of(&session, &run).await,
                None => lab::latest_record(&session).await,
            }
        };
        let record = Box::new(wait(py, &CancellationToken::new(), open, |_| Ok(()))?);
        let board = record.board().clone();
        Ok(Self { board, source: ResultsSource::Kept { experiment, record, read: OnceLock::new() } })
    }

    /// All results, which are read from the store at the first call.
    pub(crate) fn all(&self, py: Python<'_>) -> PyResult<&lab::Results> {
        let (experiment, record, kept) = match &self.source {
            ResultsSource::Here(results, _) => return Ok(results),
            ResultsSource::Kept { experiment, record, read } => (experiment, record, read),
        };
        if let Some(results) = kept.get() {
            return Ok(results);
        }
        let setup = app::library::setup(None, None, lab::Progress::default(), CancellationToken::new());
        let session = open_session(lab::Experiment::clone(experiment), setup)?;
        let read = || async move { record.results(&session).await };
        let results = wait(py, &CancellationToken::new(), read, |_| Ok(()))?;
        // Another thread may have read the same meanwhile.
        Ok(kept.get_or_init(|| Box::new(results)))
    }
}

#[pymethods]
impl PyResults {
    /// Reads `results.json`.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let results: lab::Results =
            serde_json::from_str(text).map_err(|error| value_error(format!("these are no results: {error}")))?;
        Ok(results.into())
    }

    /// The results of a run of an experiment in a store: of `run`, or of the last one.
    #[staticmethod]
    #[pyo3(signature = (name, store, base, run=None))]
    fn of(py: Python<'_>, name: &str, store: &str, base: PathBuf, run: Option<&str>) -> PyResult<Self> {
        let session = open_by_name(name, store, base)?;
        let runs = session.workspace().past_runs().map_err(python_error)?;
        if let Some(run) = run
            && !runs.iter().any(|past| past.run == run && past.experiment == name)
        {
            let known: Vec<&str> =
                runs.iter().filter(|past| past.experiment == name).map(|past| past.run.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(PyLookupError::new_err(format!(
                "{}: there is no run `{run}` of `{name}`; there are {known}",
                session.workspace().run_folder(run).display()
            )));
        }
        Self::kept(py, session, run)
    }

    /// Everything, as in `results.json`.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        to_json(self.all(py)?)
    }

    /// What the leaderboard says of them.
    fn board(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &self.board)
    }

    /// Two trials, metric by metric, with paired tests.
    fn compare(&self, py: Python<'_>, first: &str, second: &str) -> PyResult<Py<PyAny>> {
        process::check()?;
        let rows = py.detach(|| match &self.source {
            ResultsSource::Here(results, _) => results.compare(first, second),
            ResultsSource::Kept { record, .. } => record.compare(first, second),
        });
        to_python(py, &rows.map_err(python_error)?)
    }

    /// The scores of a trial as the JSON that `score` gives.
    fn scores(&self, py: Python<'_>, trial: &str) -> PyResult<String> {
        process::check()?;
        scores_json(lab::ScoreResults::of_trial(self.all(py)?, trial).map_err(python_error)?)
    }

    /// The spaces of the first trials, a dictionary by axis for each. The values in `more` replace a trial's own.
    fn finalists(&self, py: Python<'_>, best: usize, more: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let more: Map<String, Value> = settings::read("finalists", settings::value(more)?)?;
        let axis = |(name, value): (String, Value)| {
            let axis = lab::Axis::ALL.iter().find(|axis| axis.name() == name);
            let unknown = || format!("finalists: there is no axis `{name}`; there are {}", lab::Axis::NAMES.join(", "));
            Ok((*axis.ok_or_else(|| value_error(unknown()))?, value))
        };
        let more = more.into_iter().map(axis).collect::<PyResult<Vec<_>>>()?;
        let spaces =
            self.board.finalist_spaces(best, &more).map_err(|none| PyLookupError::new_err(none.to_string()))?;
        let space = |(_, values): (_, Vec<(lab::Axis, Value)>)| {
            values.into_iter().map(|(axis, value)| (axis.name().to_owned(), remove_nulls(value))).collect()
        };
        to_python(py, &spaces.into_iter().map(space).collect::<Vec<Map<String, Value>>>())
    }

    /// Where passages begin and end in characters of their documents' texts: by
    /// document, by `START-END` in bytes. A passage is left out if its text is not
    /// at this location in the document as it is read now. Results that were read
    /// from text have none, because their documents are not known.
    fn characters(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let experiment = match &self.source {
            ResultsSource::Here(_, experiment) => experiment.as_ref(),
            ResultsSource::Kept { experiment, .. } => Some(experiment),
        };
        let Some(experiment) = experiment else { return to_python(py, &Map::new()) };
        let mut wanted: BTreeMap<&str, BTreeMap<(usize, usize), &str>> = BTreeMap::new();
        let results = self.all(py)?;
        for passage in results.trials.iter().flat_map(|trial| &trial.questions).flat_map(|result| &result.passages) {
            let place = (passage.span.start, passage.span.end);
            wanted.entry(&passage.document).or_default().insert(place, &passage.text);
        }
        let setup = app::library::setup(None, None, lab::Progress::default(), CancellationToken::new());
        let session = open_session(lab::Experiment::clone(experiment), setup)?;
        let read = || async move {
            let corpus = lab::load_corpus(&session).await?;
            let mut found = Map::new();
            corpus
                .visit(|document| {
                    let Some(places) = wanted.get(document.path.as_str()) else { return };
                    let characters = |byte: usize| document.text.get(..byte).map(|before| before.chars().count());
                    let places = places.iter().filter_map(|(&(start, end), text)| {
                        let is_there = document.text.get(start..end).is_some_and(|there| there == *text);
                        let both = characters(start).zip(characters(end)).filter(|_| is_there)?;
                        Some((format!("{start}-{end}"), json!([both.0, both.1])))
                    });
                    found.insert(document.path.clone(), Value::Object(places.collect()));
                })
                .await?;
            corpus.end().await;
            Ok(found)
        };
        to_python(py, &wait(py, &CancellationToken::new(), read, |_| Ok(()))?)
    }

    /// A judged metric compared with labels that people gave.
    fn calibrate(&self, py: Python<'_>, metric: &str, labels: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        process::check()?;
        let labels: Vec<lab::AnswerLabel> = rows::read_typed(labels, "labels")?;
        let results = self.all(py)?;
        to_python(py, &py.detach(|| results.calibrate(metric, &labels)).map_err(python_error)?)
    }

    /// The report page.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        process::check()?;
        let results = self.all(py)?;
        page(py.detach(|| app::library::report(results)))
    }

    /// Writes the report page, and the folder of its parts if it is not to be one file.
    #[pyo3(signature = (page, one_file))]
    fn save_report(&self, py: Python<'_>, page: PathBuf, one_file: Option<bool>) -> PyResult<()> {
        process::check()?;
        let results = self.all(py)?;
        py.detach(|| app::library::save_report(results, &page, one_file)).map_err(python_error)
    }

    /// A page with nothing but the report's plot, and no question or passage in it.
    fn plot(&self, py: Python<'_>) -> PyResult<String> {
        let results = self.all(py)?;
        page(py.detach(|| app::library::plot(results)))
    }

    /// The failures of the user's functions with their tracebacks, as text; `None` if
    /// nothing failed.
    fn function_failures(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(app::library::function_failures(self.all(py)?))
    }
}

/// The finished runs in a store on this machine, the last first.
#[pyfunction]
pub(crate) fn runs(py: Python<'_>, store: &str, base: PathBuf) -> PyResult<Py<PyAny>> {
    to_python(py, &open_by_name("any", store, base)?.workspace().past_runs().map_err(python_error)?)
}

fn open_by_name(name: &str, store: &str, base: PathBuf) -> PyResult<lab::Session> {
    let setup = app::library::setup(None, None, lab::Progress::default(), CancellationToken::new());
    // Opening a store may start work on the runtime's threads.
    let _guard = runtime()?.enter();
    app::library::open_by_name(name, store, base, setup).map_err(python_error)
}

fn page(made: Result<String, serde_json::Error>) -> PyResult<String> {
    made.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
