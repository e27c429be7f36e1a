//! Experiments and pipelines for Python programs. They return JSON; the
//! package's `experiment.py` makes tables and pages of it.

use crate::{
    mistakes,
    remote::{PythonCluster, runtime},
    results::Results,
    settings,
};
use app::Place;
use lab::{Error, Progress, Session, Setup};
use pyo3::{
    exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyUserWarning, PyValueError},
    prelude::*,
    types::PyString,
};
use std::{
    ffi::CString,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// How often Python is asked whether Ctrl-C was pressed, and is told the progress.
const TICK: Duration = Duration::from_millis(250);
/// How long work may take to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(3);

/// An error as Python raises it.
pub(crate) fn error(error: Error) -> PyErr {
    let text = lab::error_chain(&error);
    if let Some(failure) = lab::failed_function(&error) {
        return function_error(&text, failure).unwrap_or_else(|error| error);
    }
    match error {
        Error::Refused(mistakes) => PyValueError::new_err(mistakes.join("\n")),
        Error::Interrupted => PyKeyboardInterrupt::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// `reverie.exceptions.FunctionError`, with Python's traceback.
fn function_error(text: &str, failure: &rag::python::Failure) -> PyResult<PyErr> {
    Python::attach(|py| {
        let kind = py.import("reverie.exceptions")?.getattr("FunctionError")?;
        let rows = serde_json::json!([failure]).to_string();
        Ok(PyErr::from_value(kind.call_method1("_of", (text, rows))?))
    })
}

pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Runs work with the GIL released. Ctrl-C cancels the work, and is raised when
/// calls that have begun are finished.
fn wait<T: Send, Work: Future<Output = Result<T, Error>>>(
    py: Python<'_>,
    cancel: &CancellationToken,
    work: impl FnOnce() -> Work + Send,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()> + Send,
) -> PyResult<T> {
    py.detach(|| {
        let mut raised: Option<(PyErr, Instant)> = None;
        let ended = runtime()?.block_on(async {
            let mut work = std::pin::pin!(work());
            loop {
                tokio::select! {
                    ended = &mut work => return ended,
                    () = tokio::time::sleep(TICK) => {}
                }
                // Work that does not end within the grace time is left behind.
                if raised.as_ref().is_some_and(|(_, at)| at.elapsed() > GRACE) {
                    return Err(Error::Interrupted);
                }
                let heard = Python::attach(|py| py.check_signals().and_then(|()| tick(py)));
                if let Err(signal) = heard {
                    cancel.cancel();
                    rag::python::interrupt();
                    raised.get_or_insert((signal, Instant::now()));
                }
            }
        });
        match raised {
            Some((raised, _)) => Err(raised),
            None => ended.map_err(error),
        }
    })
}

/// An experiment: what a file of one holds.
#[pyclass(frozen, module = "reverie._core")]
pub(crate) struct Experiment {
    experiment: lab::Experiment,
}

#[pymethods]
impl Experiment {
    /// Reads the text of an experiment file, or a dictionary with the same
    /// tables; relative paths start from `base`.
    #[new]
    fn new(experiment: &Bound<'_, PyAny>, base: PathBuf) -> PyResult<Self> {
        let experiment = match experiment.cast::<PyString>() {
            Ok(text) => lab::Experiment::parse(text.to_str()?, base).map_err(|errors| {
                errors.iter().map(|error| format!("line {error}\n    {}", error.source_line)).collect::<Vec<_>>()
            }),
            Err(_) => {
                let tables = settings::value(experiment)?.to_string();
                let text = lab::Experiment::toml(&tables).map_err(PyValueError::new_err)?;
                lab::Experiment::parse(&text, base).map_err(|errors| {
                    let named =
                        |error: &lab::SpecError| mistakes::named(&text, error.line, error.column, &error.message);
                    errors.iter().map(named).collect()
                })
            }
        };
        let experiment = experiment.map_err(|mistakes| PyValueError::new_err(mistakes.join("\n")))?;
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

    /// What would run, and what it costs.
    fn plan(&self, py: Python<'_>, connect: Py<PyAny>) -> PyResult<String> {
        let (session, cancel) = self.session(Some(connect), None, Progress::default())?;
        let plan = || async move {
            let prepared = session.prepare().await?;
            lab::summary(&session, &prepared).await
        };
        json(&wait(py, &cancel, plan, |_| Ok(()))?)
    }

    /// The combinations.
    fn trials(&self) -> PyResult<String> {
        json(&self.experiment.trials())
    }

    /// Does what is not done yet, and gives the results.
    #[pyo3(signature = (connect, engine=None, address=None, budget_usd=None, on_progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        connect: Py<PyAny>,
        engine: Option<&str>,
        address: Option<&str>,
        budget_usd: Option<f64>,
        on_progress: Option<Py<PyAny>>,
    ) -> PyResult<Results> {
        let mut experiment = self.experiment.clone();
        if let Place::Job(ray) = app::place(&mut experiment, engine, address).map_err(PyValueError::new_err)? {
            return Err(PyValueError::new_err(format!(
                "{} is the address of a Jobs API: `reverie run --address {0}` submits to it from a \
                 shell. From Python, give the address of a cluster that this process joins (`auto`, HOST:PORT), or \
                 `engine=\"local\"` for this machine",
                ray.address
            )));
        }
        let progress = Progress::default();
        let chosen = Self { experiment };
        let (session, cancel) = chosen.session(Some(connect), budget_usd, progress.clone())?;
        let run = || async move {
            let prepared = session.prepare().await?;
            let (results, tracking) = app::library::run(&session, &prepared).await;
            Ok((results, tracking.finish().await))
        };
        let mut shown = String::new();
        let (results, notes): (Result<lab::Results, Error>, Vec<String>) = wait(py, &cancel, run, |py| {
            let Some(on_progress) = &on_progress else { return Ok(()) };
            let now = serde_json::json!({ "operators": progress.snapshot(), "models": progress.models() }).to_string();
            if now != shown {
                on_progress.call1(py, (&now,))?;
                shown = now;
            }
            Ok(())
        })?;
        for note in notes {
            let note = CString::new(note.replace('\0', " "))?;
            // If warnings are errors, this one is printed, because the run is complete.
            if let Err(raised) = PyErr::warn(py, &py.get_type::<PyUserWarning>(), &note, 2) {
                raised.write_unraisable(py, None);
            }
        }
        results.map(Results::from).map_err(error)
    }

    /// The results of the last finished run.
    fn results(&self, py: Python<'_>) -> PyResult<Results> {
        self.latest(py).map(Results::from)
    }

    /// The report page of the last finished run.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        app::library::report(&self.latest(py)?).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// A trial that can be asked: this one, else the winner of the last run,
    /// else the first of its leaderboard.
    #[pyo3(signature = (trial=None))]
    fn pipeline(&self, py: Python<'_>, trial: Option<String>) -> PyResult<Pipeline> {
        // A question is answered in this process, wherever the experiment ran.
        let mut experiment = self.experiment.clone();
        experiment.engine.ray = None;
        let (session, cancel) = Self { experiment }.session(None, None, Progress::default())?;
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
        Ok(Pipeline { opened: Arc::new(pipeline), trial, run, time_ms, changed_since })
    }
}

impl Experiment {
    fn session(
        &self,
        connect: Option<Py<PyAny>>,
        budget_usd: Option<f64>,
        progress: Progress,
    ) -> PyResult<(Session, CancellationToken)> {
        let cancel = CancellationToken::new();
        let connect =
            connect.map(|connect| -> lab::Connect { Arc::new(move |spec| PythonCluster::join(&connect, spec)) });
        let setup: Setup = app::library::setup(connect, budget_usd, progress, cancel.clone());
        // Opening a store may ask for threads to be there.
        let _guard = runtime()?.enter();
        Ok((Session::open(self.experiment.clone(), setup).map_err(error)?, cancel))
    }

    fn latest(&self, py: Python<'_>) -> PyResult<lab::Results> {
        let (session, cancel) = self.session(None, None, Progress::default())?;
        wait(py, &cancel, || async move { session.latest().await }, |_| Ok(()))
    }
}

/// A trial whose indexes are in the store.
#[pyclass(frozen, module = "reverie._core")]
pub(crate) struct Pipeline {
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
impl Pipeline {
    /// Answers a question, with sources.
    fn query(&self, py: Python<'_>, question: String) -> PyResult<String> {
        let opened = self.opened.clone();
        let answer = || async move { opened.query(&question).await };
        json(&wait(py, &CancellationToken::new(), answer, |_| Ok(()))?)
    }

    /// The same, at once: `done` is called from another thread with the answer
    /// or with the reason why there is none.
    fn aquery(&self, question: String, done: Py<PyAny>) -> PyResult<()> {
        let opened = self.opened.clone();
        runtime()?.spawn(async move {
            let answered = opened.query(&question).await;
            let told = tokio::task::spawn_blocking(move || {
                let answered = answered.map_err(error).and_then(|answered| json(&answered));
                Python::attach(|py| match answered {
                    Ok(answer) => done.call1(py, (answer, py.None())).map(drop),
                    Err(raised) => done.call1(py, (py.None(), raised.into_value(py))).map(drop),
                })
            });
            let _ = told.await;
        });
        Ok(())
    }
}
