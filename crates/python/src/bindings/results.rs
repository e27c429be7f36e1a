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

/// A run of fewer bytes of rows is read as soon as it ends, so that its results stay what they are if it runs again.
const FEW_BYTES: u64 = 8 << 20;

/// The results of a run. What its leaderboard says is there at once; the rest,
/// which holds every passage, is read on demand: of one trial, or of all.
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
    Kept(Box<KeptResults>),
}

/// Results in a run's folder.
struct KeptResults {
    experiment: lab::Experiment,
    folder: PathBuf,
    /// None for a run that has just ended, whose head has the scores.
    record: Option<lab::RunRecord>,
    /// Everything but the rows of trials, or with what statistics need of them.
    head: OnceLock<Box<lab::Results>>,
    whole: OnceLock<Box<lab::Results>>,
}

impl From<lab::Results> for PyResults {
    fn from(results: lab::Results) -> Self {
        Self { board: lab::Board::of(&results), source: ResultsSource::Here(Box::new(results), None) }
    }
}

impl PyResults {
    /// Results that are in memory, of an experiment.
    pub(crate) fn of_experiment(results: lab::Results, experiment: lab::Experiment) -> Self {
        let board = lab::Board::of(&results);
        Self { board, source: ResultsSource::Here(Box::new(results), Some(Box::new(experiment))) }
    }

    /// The results of a run that has just ended; their rows are in its folder.
    pub(crate) fn of_run(results: lab::Results, experiment: lab::Experiment, folder: PathBuf) -> PyResult<Self> {
        let board = lab::Board::of(&results);
        let whole = match results.row_bytes(&folder) < FEW_BYTES {
            true => OnceLock::from(Box::new(results.clone().with_rows(&folder).map_err(python_error)?)),
            false => OnceLock::new(),
        };
        let head = OnceLock::from(Box::new(results));
        let kept = KeptResults { experiment, folder, record: None, head, whole };
        Ok(Self { board, source: ResultsSource::Kept(Box::new(kept)) })
    }

    /// The results of a run in the store: of `run`, or of the last one of the session's
    /// experiment.
    pub(crate) fn kept(py: Python<'_>, session: lab::Session, run: Option<&str>) -> PyResult<Self> {
        let experiment = lab::Experiment::clone(&session.experiment);
        let run = run.map(str::to_owned);
        let open = || async move {
            match run {
                Some(run) => lab::record_of(&session, &run).await,
                None => lab::latest_record(&session).await,
            }
        };
        let record = wait(py, &CancellationToken::new(), open, |_| Ok(()))?;
        let board = record.board().clone();
        let folder = record.folder().map(PathBuf::from).unwrap_or_default();
        let (record, head, whole) = (Some(record), OnceLock::new(), OnceLock::new());
        let kept = KeptResults { experiment, folder, record, head, whole };
        Ok(Self { board, source: ResultsSource::Kept(Box::new(kept)) })
    }

    /// All results, which are read from the store at the first call.
    pub(crate) fn all(&self, py: Python<'_>) -> PyResult<&lab::Results> {
        match &self.source {
            ResultsSource::Here(results, _) => Ok(results),
            ResultsSource::Kept(kept) => kept.all(py),
        }
    }

    /// The results, perhaps without the rows of trials.
    fn head(&self, py: Python<'_>) -> PyResult<&lab::Results> {
        match &self.source {
            ResultsSource::Here(results, _) => Ok(results),
            ResultsSource::Kept(kept) => kept.head(py),
        }
    }

    /// The rows of one trial, with everything that is known of it.
    fn trial_with_rows(&self, py: Python<'_>, trial: &str) -> PyResult<lab::TrialResult> {
        let found = self.head(py)?.trial(trial).map_err(python_error)?.clone();
        match &self.source {
            ResultsSource::Here(..) => Ok(found),
            ResultsSource::Kept(kept) => match kept.whole.get() {
                Some(whole) => Ok(whole.trial(trial).map_err(python_error)?.clone()),
                None => py.detach(|| found.with_rows(&kept.folder)).map_err(python_error),
            },
        }
    }
}

impl KeptResults {
    fn all(&self, py: Python<'_>) -> PyResult<&lab::Results> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let head = self.head(py)?.clone();
        let whole = py.detach(|| head.with_rows(&self.folder)).map_err(python_error)?;
        // Another thread may have read the same meanwhile.
        Ok(self.whole.get_or_init(|| Box::new(whole)))
    }

    fn head(&self, py: Python<'_>) -> PyResult<&lab::Results> {
        let (None, Some(record)) = (self.head.get(), &self.record) else {
            return self.head.get().map(|head| &**head).ok_or_else(|| PyRuntimeError::new_err("there are no results"));
        };
        let setup = app::library::setup(None, None, lab::Progress::default(), CancellationToken::new());
        let session = open_session(self.experiment.clone(), setup)?;
        let read = || async move { record.results_head(&session).await };
        let results = wait(py, &CancellationToken::new(), read, |_| Ok(()))?;
        Ok(self.head.get_or_init(|| Box::new(results)))
    }
}

#[pymethods]
impl PyResults {
    /// Reads `results.json`, and the rows of trials beside it in `folder`.
    #[new]
    #[pyo3(signature = (text, folder=None))]
    fn new(text: &str, folder: Option<PathBuf>) -> PyResult<Self> {
        let results: lab::Results =
            serde_json::from_str(text).map_err(|error| value_error(format!("these are no results: {error}")))?;
        match folder {
            Some(folder) => Ok(results.with_rows(&folder).map_err(python_error)?.into()),
            None if results.lacks_rows() => Err(value_error(
                "these results lack what each trial found, which is in files beside them: `reverie.Results.read` reads \
                 both"
                    .to_owned(),
            )),
            None => Ok(results.into()),
        }
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

    /// Everything, with the rows of all trials.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        to_json(self.all(py)?)
    }

    /// Everything but the rows of trials, of which some or all may be there too.
    fn head_text(&self, py: Python<'_>) -> PyResult<String> {
        to_json(self.head(py)?)
    }

    /// One trial with its rows.
    fn trial_text(&self, py: Python<'_>, trial: &str) -> PyResult<String> {
        to_json(&self.trial_with_rows(py, trial)?)
    }

    /// What the leaderboard says of them.
    fn board(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &self.board)
    }

    /// Two trials, metric by metric, with paired tests.
    fn compare(&self, py: Python<'_>, first: &str, second: &str) -> PyResult<Py<PyAny>> {
        process::check()?;
        let record = match &self.source {
            ResultsSource::Kept(kept) => kept.record.as_ref(),
            ResultsSource::Here(..) => None,
        };
        let rows = match record {
            Some(record) => py.detach(|| record.compare(first, second)),
            None => {
                let results = self.head(py)?;
                py.detach(|| results.compare(first, second))
            }
        };
        to_python(py, &rows.map_err(python_error)?)
    }

    /// The scores of a trial as the JSON that `score` gives.
    fn scores(&self, py: Python<'_>, trial: &str) -> PyResult<String> {
        process::check()?;
        let of = |results: &lab::Results| lab::ScoreResults::of_trial(results, trial).map_err(python_error);
        let scores = match &self.source {
            ResultsSource::Here(results, _) => of(results)?,
            ResultsSource::Kept(kept) => {
                let head = kept.head(py)?.clone();
                of(&py.detach(|| head.with_rows_of(&kept.folder, trial)).map_err(python_error)?)?
            }
        };
        scores_json(scores)
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
    /// from text have none, because their documents are not known. Those of one trial, or of all.
    #[pyo3(signature = (trial=None))]
    fn characters(&self, py: Python<'_>, trial: Option<&str>) -> PyResult<Py<PyAny>> {
        let experiment = match &self.source {
            ResultsSource::Here(_, experiment) => experiment.as_deref(),
            ResultsSource::Kept(kept) => Some(&kept.experiment),
        };
        let Some(experiment) = experiment else { return to_python(py, &Map::new()) };
        let mut wanted: BTreeMap<&str, BTreeMap<(usize, usize), &str>> = BTreeMap::new();
        let one = trial.map(|trial| self.trial_with_rows(py, trial)).transpose()?;
        let trials: &[lab::TrialResult] = match &one {
            Some(trial) => std::slice::from_ref(trial),
            None => &self.all(py)?.trials,
        };
        for passage in trials.iter().flat_map(|trial| &trial.questions).flat_map(|result| &result.passages) {
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
        Ok(app::library::function_failures(self.head(py)?))
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
