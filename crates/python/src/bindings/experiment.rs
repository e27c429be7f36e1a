//! Experiments and pipelines for Python programs. They return dictionaries and
//! JSON; the package's `experiment.py` makes tables and pages of these.

use super::{
    events::PyEvents,
    remote::PythonCluster,
    results::PyResults,
    rows, settings,
    stop::PyStop,
    work::{
        attach_partial, check_budget, open_session, python_error, remove_nulls, report_progress, spawn_for_callback,
        spec_mistakes, to_json, to_python, value_error, wait,
    },
};
use app::ExecutionPlace;
use eval::MetricConfig;
use lab::{BudgetSpec, Error, Progress, Promotion, ReplySource, Session};
use pyo3::{
    exceptions::{PyRuntimeError, PyUserWarning, PyValueError},
    prelude::*,
    types::{PyDict, PyMapping, PyString},
};
use rag::{system::SystemConfig, vector_index::VectorIndexConfig};
use serde_json::{Value, json as value};
use std::{
    ffi::CString,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// The tables of an experiment, which Python programs may give in other forms:
/// questions as rows, documents and questions as a path, metrics as the objective.
fn tables(experiment: &Bound<'_, PyAny>) -> PyResult<Value> {
    let given = PyDict::new(experiment.py());
    given.update(experiment.cast::<PyMapping>()?)?;
    let dataset = given.get_item("dataset")?;
    if dataset.is_some() {
        given.del_item("dataset")?;
    }
    let mut tables = settings::value(&given)?;
    if let Some(dataset) = dataset.filter(|dataset| !dataset.is_none()) {
        let is_setting = dataset.is_instance_of::<PyString>()
            || dataset.is_instance_of::<PyMapping>()
            || dataset.hasattr("__fspath__")?;
        tables["dataset"] = if is_setting {
            settings::value_of(&dataset, "dataset")?
        } else {
            // TOML cannot express nulls.
            let rows = rows::rows(&dataset, "dataset")?.into_iter().map(|row| remove_nulls(row.into()));
            value!({ "rows": rows.collect::<Vec<_>>() })
        };
    }
    for (table, key) in [("corpus", "source"), ("dataset", "path")] {
        if let Some(path) = tables[table].as_str() {
            tables[table] = value!({ key: path });
        }
    }
    if let Some(objective) = tables["evaluate"].get_mut("objective") {
        let items = if objective.is_array() { objective.take() } else { value!([objective.take()]) };
        let label = |item: &Value| match serde_json::from_value::<MetricConfig>(item.clone()) {
            Ok(metric) if item.is_object() => metric.label().into(),
            _ => item.clone(),
        };
        *objective = items.as_array().map(|items| items.iter().map(label).collect()).unwrap_or_default();
    }
    Ok(remove_nulls(tables))
}

/// Refuses a cluster for functions and objects of this program, which its workers cannot reach.
fn refuse_cluster(experiment: &lab::Experiment) -> PyResult<()> {
    if experiment.engine.ray.is_none() {
        return Ok(());
    }
    let functions = experiment.models.iter().filter(|(_, config)| config.is_function()).map(|(name, _)| name.as_str());
    let functions: Vec<&str> = functions.collect();
    if !functions.is_empty() {
        return Err(value_error(format!(
            "models.{}: a function as a model is asked in this process, which the workers of a cluster cannot reach: \
             run with `engine=\"local\"`, or put the model behind an endpoint",
            functions.join(", models.")
        )));
    }
    let is_object = |spec: &lab::SystemSpec| match &spec.source {
        ReplySource::Asked(config) => matches!(**config, SystemConfig::Object(_)),
        ReplySource::Answers(_) => false,
    };
    let objects = experiment.systems.iter().filter(|(_, spec)| is_object(spec)).map(|(name, _)| name.as_str());
    let objects: Vec<&str> = objects.collect();
    if !objects.is_empty() {
        return Err(value_error(format!(
            "systems.{}: an object is asked in this process, which the workers of a cluster cannot reach: run with \
             `engine=\"local\"`, give a function that imports everything inside it, or put the system behind HTTP",
            objects.join(", systems.")
        )));
    }
    Ok(())
}

/// The names in an experiment: its sections, the axes of its space,
/// the keys of its section `evaluate`, and the metrics.
#[pyfunction]
pub(crate) fn experiment_names() -> [&'static [&'static str]; 4] {
    [lab::Experiment::SECTIONS, lab::Axis::NAMES, lab::Experiment::EVALUATE, MetricConfig::NAMES]
}

/// The folder of a finished run, and its results without passages and long texts.
type StoredRun = (PathBuf, lab::Results);

/// An experiment: what a file of one holds.
#[pyclass(frozen, module = "reverie._core", name = "Experiment")]
pub(crate) struct PyExperiment {
    experiment: lab::Experiment,
}

#[pymethods]
impl PyExperiment {
    /// Reads the text of an experiment file, or a dictionary with the same
    /// tables; relative paths start from `base`.
    #[new]
    fn new(experiment: &Bound<'_, PyAny>, base: PathBuf) -> PyResult<Self> {
        let experiment = match experiment.cast::<PyString>() {
            Ok(text) => lab::Experiment::parse(text.to_str()?, base).map_err(|errors| {
                errors.iter().map(|error| format!("line {error}\n    {}", error.source_line)).collect::<Vec<_>>()
            }),
            Err(_) => {
                let tables = tables(experiment)?;
                let text = lab::Experiment::json_to_toml(&tables.to_string());
                let text = text.map_err(value_error)?;
                lab::Experiment::parse(&text, base).map_err(|errors| spec_mistakes(&errors))
            }
        };
        let experiment = experiment.map_err(|mistakes| value_error(mistakes.join("\n")))?;
        Ok(Self { experiment })
    }

    fn __getnewargs__(&self) -> (&str, PathBuf) {
        (&self.experiment.text, self.experiment.base.clone())
    }

    #[getter]
    fn name(&self) -> &str {
        &self.experiment.name
    }

    #[getter]
    fn text(&self) -> &str {
        &self.experiment.text
    }

    /// What would run, and what it costs. `connect(address, environment)` joins the Ray cluster of an
    /// experiment that runs on one.
    fn plan(&self, py: Python<'_>, connect: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let cancel = CancellationToken::new();
        let session = self.session(Some(connect), None, Progress::default(), &cancel)?;
        let plan = || async move {
            let prepared = session.prepare().await?;
            lab::plan_summary(&session, &prepared).await
        };
        to_python(py, &wait(py, &cancel, plan, |_| Ok(()))?)
    }

    /// What a first run would cost, estimated from a sample of at most so many files. Nothing is stored.
    fn sample_plan(&self, py: Python<'_>, files: usize) -> PyResult<Py<PyAny>> {
        if files < lab::FEWEST_SAMPLED_FILES {
            return Err(value_error(format!("files: a sample has at least {} files", lab::FEWEST_SAMPLED_FILES)));
        }
        let cancel = CancellationToken::new();
        let session = self.session(None, None, Progress::default(), &cancel)?;
        to_python(py, &wait(py, &cancel, || async move { lab::sample_plan(&session, files).await }, |_| Ok(()))?)
    }

    /// The combinations.
    fn trials(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &self.experiment.trials())
    }

    /// Runs the tasks that are not done yet, and returns the results.
    #[pyo3(signature = (connect, engine=None, address=None, budget_usd=None, on_progress=None, stop=None))]
    fn run(
        &self,
        py: Python<'_>,
        connect: Py<PyAny>,
        engine: Option<&str>,
        address: Option<&str>,
        budget_usd: Option<f64>,
        on_progress: Option<Py<PyAny>>,
        stop: Option<&PyStop>,
    ) -> PyResult<PyResults> {
        let budget_usd = check_budget(budget_usd)?;
        let mut experiment = self.experiment.clone();
        let place = app::choose_place(&mut experiment, engine, address);
        if let ExecutionPlace::Job(ray) = place.map_err(value_error)? {
            return Err(value_error(format!(
                "{} is the address of a Jobs API: `reverie run --address {0}` submits to it from a \
                 shell. From Python, give the address of a cluster that this process joins (`auto`, HOST:PORT), or \
                 `engine=\"local\"` for this machine",
                ray.address
            )));
        }
        refuse_cluster(&experiment)?;
        let progress = Progress::default();
        let (connect, cancel) = (Some(PythonCluster::connect(connect)), PyStop::token(stop));
        let mut setup = app::library::setup(connect, budget_usd, progress.clone(), cancel.clone());
        setup.control.sends_batches = true;
        let session = open_session(experiment, setup)?;
        let partial = Mutex::new(None);
        let kept = &partial;
        let run = || async move {
            let prepared = session.prepare().await?;
            let app::library::EndedRun { session, prepared, results, tracking } =
                app::library::run(session, prepared).await?;
            let results = results.map(|results| (session.workspace().run_folder(&results.run), results));
            // The trials that are scored are kept.
            if matches!(results, Err(Error::Interrupted))
                && let Ok(Some(scored)) = session.so_far(&prepared).await
            {
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(scored);
            }
            Ok((results, tracking.finish().await))
        };
        let ended: PyResult<(Result<StoredRun, Error>, Vec<String>)> =
            wait(py, &cancel, run, report_progress(&progress, on_progress));
        let partial = partial.into_inner().unwrap_or_else(PoisonError::into_inner);
        let with_scored = |raised: PyErr| match partial {
            Some(scored) => attach_partial(py, raised, PyResults::of_experiment(scored, self.experiment.clone())),
            None => raised,
        };
        let (results, notes) = match ended {
            Ok(ended) => ended,
            Err(raised) => return Err(with_scored(raised)),
        };
        for note in notes {
            let note = CString::new(note.replace('\0', " "))?;
            // If warnings are errors, this one is printed, because the run is complete.
            if let Err(raised) = PyErr::warn(py, &py.get_type::<PyUserWarning>(), &note, 2) {
                raised.write_unraisable(py, None);
            }
        }
        match results {
            Ok((folder, results)) => PyResults::of_run(results, self.experiment.clone(), folder),
            Err(failed) => Err(with_scored(python_error(failed))),
        }
    }

    /// Where the noise of a metric of a trial of the last run comes from.
    #[pyo3(signature = (trial, metric, questions, answers, judgements, budget_usd=None, stop=None))]
    fn noise(
        &self,
        py: Python<'_>,
        trial: String,
        metric: String,
        questions: usize,
        answers: usize,
        judgements: usize,
        budget_usd: Option<f64>,
        stop: Option<&PyStop>,
    ) -> PyResult<Py<PyAny>> {
        let design = lab::NoiseDesign { questions, answers, judgements };
        design.check().map_err(value_error)?;
        let cancel = PyStop::token(stop);
        let session = self.session(None, check_budget(budget_usd)?, Progress::default(), &cancel)?;
        let work = || async move { lab::noise(&session, &trial, &metric, design).await };
        to_python(py, &wait(py, &cancel, work, |_| Ok(()))?)
    }

    /// The results of the last finished run.
    fn results(&self, py: Python<'_>) -> PyResult<PyResults> {
        PyResults::kept(py, self.session(None, None, Progress::default(), &CancellationToken::new())?, None)
    }

    /// The report page of the last finished run.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        app::library::report(&self.latest(py)?).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// How the run is doing that goes on: the one whose id begins with `run`, or else that of this experiment.
    #[pyo3(signature = (run=None))]
    fn live(&self, py: Python<'_>, run: Option<String>) -> PyResult<Py<PyAny>> {
        let cancel = CancellationToken::new();
        let session = self.session(None, None, Progress::default(), &cancel)?;
        let find = || async move { lab::find_live_run(&session, run.as_deref()).await };
        to_python(py, &wait(py, &cancel, find, |_| Ok(()))?)
    }

    /// How this run is doing, or was when it ended.
    fn live_run(&self, py: Python<'_>, run: String) -> PyResult<Py<PyAny>> {
        let cancel = CancellationToken::new();
        let session = self.session(None, None, Progress::default(), &cancel)?;
        let look = || async move {
            let absent = || Error::NotFound(format!("the run {run} has not written how it is doing"));
            lab::live_run(&session, &run).await?.ok_or_else(absent)
        };
        to_python(py, &wait(py, &cancel, look, |_| Ok(()))?)
    }

    /// Posts an act, which is JSON, and waits for what the run does about it.
    fn steer(&self, py: Python<'_>, run: String, act: &str) -> PyResult<Py<PyAny>> {
        let act: lab::Act = serde_json::from_str(act).map_err(value_error)?;
        let cancel = CancellationToken::new();
        let session = self.session(None, None, Progress::default(), &cancel)?;
        let by = app::library::user_name().unwrap_or_else(|| "Python".to_owned());
        let steer = || async move { lab::steer(&session, &run, &by, act).await };
        to_python(py, &wait(py, &cancel, steer, |_| Ok(()))?)
    }

    /// Makes the bundle of a trial: of this one, else of the winner, else of the first of the leaderboard of `run`,
    /// else of the last run. `into` is a database as `reverie promote --into` takes it, or its name and settings as
    /// JSON. Returns its manifest, without the list of its files.
    #[pyo3(signature = (output, trial=None, run=None, into=None, alias=None))]
    fn promote(
        &self,
        py: Python<'_>,
        output: String,
        trial: Option<String>,
        run: Option<String>,
        into: Option<String>,
        alias: Option<String>,
    ) -> PyResult<Py<PyAny>> {
        let database = |text: String| match serde_json::from_str::<VectorIndexConfig>(&text) {
            Ok(index) => Ok(index),
            Err(_) => VectorIndexConfig::named(&text).map_err(|error| PyValueError::new_err(format!("into: {error}"))),
        };
        let promotion = into.map(database).transpose()?.map(|index| Promotion { index, alias });
        let cancel = CancellationToken::new();
        let session = self.session(None, None, Progress::default(), &cancel)?;
        let make = || async move {
            let record = lab::chosen_record(&session, run.as_deref()).await?;
            let answering = record.answering(trial.as_deref())?;
            let mut notes = record.remarks(&session, run.is_some());
            notes.extend(answering.note.clone());
            let trial = &answering.trial;
            let manifest = match &promotion {
                None => lab::Bundle::make(&session, &record, trial, &output).await?,
                Some(promotion) => promotion.make_bundle(&session, &record, trial, &output, (&|_| (), &|_| ())).await?,
            };
            Ok(value!({
                "place": output, "name": manifest.name, "trial": manifest.trial, "run": manifest.run,
                "digest": manifest.digest(), "bytes": manifest.bytes(), "settings": manifest.settings, "notes": notes,
                "database": manifest.database,
            }))
        };
        to_python(py, &wait(py, &cancel, make, |_| Ok(()))?)
    }

    /// Opens a trial for questions: this one, else the winner of the last run, else
    /// the first of its leaderboard.
    #[pyo3(signature = (trial=None, budget_usd=None))]
    fn pipeline(&self, py: Python<'_>, trial: Option<String>, budget_usd: Option<f64>) -> PyResult<PyPipeline> {
        // A question is answered in this process, wherever the experiment ran.
        let mut experiment = self.experiment.clone();
        experiment.engine.ray = None;
        // The experiment's budget was that of its run.
        experiment.evaluate.budget = BudgetSpec::default();
        let cancel = CancellationToken::new();
        let session = Self { experiment }.session(None, check_budget(budget_usd)?, Progress::default(), &cancel)?;
        let open = || async move {
            let record = lab::latest_record(&session).await?;
            let answering = record.answering(trial.as_deref())?;
            let pipeline = lab::RunPipeline::open(&session, &record, &answering.trial).await?;
            let mut changed = lab::changed_since(&session, &record).await;
            changed.extend_from_slice(pipeline.notes());
            Ok((pipeline, changed, record.time_ms()))
        };
        let (pipeline, changed_since, time_ms) = wait(py, &cancel, open, |_| Ok(()))?;
        let (trial, run) = (pipeline.trial().id.clone(), pipeline.run().to_owned());
        Ok(PyPipeline { opened: Arc::new(pipeline), trial, run, time_ms, changed_since })
    }
}

impl PyExperiment {
    fn session(
        &self,
        connect: Option<Py<PyAny>>,
        budget_usd: Option<f64>,
        progress: Progress,
        cancel: &CancellationToken,
    ) -> PyResult<Session> {
        let connect = connect.map(PythonCluster::connect);
        open_session(self.experiment.clone(), app::library::setup(connect, budget_usd, progress, cancel.clone()))
    }

    fn latest(&self, py: Python<'_>) -> PyResult<lab::Results> {
        let cancel = CancellationToken::new();
        let session = self.session(None, None, Progress::default(), &cancel)?;
        wait(py, &cancel, || async move { session.latest().await }, |_| Ok(()))
    }
}

/// A trial whose indexes are in the store.
#[pyclass(frozen, module = "reverie._core", name = "Pipeline")]
pub(crate) struct PyPipeline {
    opened: Arc<lab::RunPipeline>,
    #[pyo3(get)]
    trial: String,
    /// The run's id.
    #[pyo3(get)]
    run: String,
    /// When the run finished, in milliseconds since 1970.
    #[pyo3(get)]
    time_ms: i64,
    /// What is no longer as it was in the run.
    #[pyo3(get)]
    changed_since: Vec<String>,
}

#[pymethods]
impl PyPipeline {
    /// Answers a question, with sources.
    fn query(&self, py: Python<'_>, question: String) -> PyResult<String> {
        let opened = self.opened.clone();
        let answer = || async move { opened.query(&question).await };
        to_json(&wait(py, &CancellationToken::new(), answer, |_| Ok(()))?)
    }

    /// Whether it writes answers, besides finding passages.
    #[getter]
    fn has_generator(&self) -> bool {
        self.opened.has_generator()
    }

    /// At most `at_most` passages for a question, without an answer.
    fn retrieve(&self, py: Python<'_>, question: String, at_most: usize) -> PyResult<String> {
        let opened = self.opened.clone();
        let find = || async move { opened.retrieve(&question, &[], at_most).await };
        to_json(&wait(py, &CancellationToken::new(), find, |_| Ok(()))?.passages)
    }

    /// The same as `retrieve`, but returns at once: `done(passages, error)` is called from another thread.
    fn aretrieve(&self, question: String, at_most: usize, done: Py<PyAny>) -> PyResult<()> {
        let opened = self.opened.clone();
        spawn_for_callback(done, async move {
            let found = opened.retrieve(&question, &[], at_most).await.map_err(python_error)?;
            to_json(&found.passages).map(Some)
        })
    }

    /// The events of one question. The work starts now, and ends when the events are
    /// dropped or closed.
    fn stream(&self, question: String) -> PyResult<PyEvents> {
        PyEvents::begin(self.opened.clone(), question)
    }

    /// The same as `query`, but returns at once: `done(answer, error)` is called from
    /// another thread.
    fn aquery(&self, question: String, done: Py<PyAny>) -> PyResult<()> {
        let opened = self.opened.clone();
        spawn_for_callback(done, async move {
            let answered = opened.query(&question).await.map_err(python_error)?;
            to_json(&answered).map(Some)
        })
    }
}
