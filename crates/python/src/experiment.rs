//! Experiments and pipelines for Python programs. What goes in and out is
//! JSON; the package's `experiment.py` makes tables and pages of it.

use crate::remote::{PythonCluster, runtime};
use lab::{Error, Progress, Results, Session, Setup};
use pyo3::{
    exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyUserWarning, PyValueError},
    prelude::*,
};
use std::{
    ffi::CString,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// How often Python is asked whether Ctrl-C was pressed, and told how it goes.
const TICK: Duration = Duration::from_millis(250);
/// How long work may take to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(3);

fn error(error: Error) -> PyErr {
    let text = lab::error_chain(&error);
    match error {
        Error::Refused(mistakes) => PyValueError::new_err(mistakes.join("\n")),
        Error::Interrupted => PyKeyboardInterrupt::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Does work with the GIL released. Ctrl-C cancels it, and is raised when what
/// was begun has ended.
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
                // Who does not hear of the end is left behind.
                if raised.as_ref().is_some_and(|(_, at)| at.elapsed() > GRACE) {
                    return Err(Error::Interrupted);
                }
                let heard = Python::attach(|py| py.check_signals().and_then(|()| tick(py)));
                if let Err(signal) = heard {
                    cancel.cancel();
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
    /// Reads the text of an experiment file; relative paths start from `base`.
    #[new]
    fn new(text: &str, base: PathBuf) -> PyResult<Self> {
        let experiment = lab::Experiment::parse(text, base).map_err(|errors| {
            let lines: Vec<String> =
                errors.iter().map(|error| format!("line {error}\n    {}", error.source_line)).collect();
            PyValueError::new_err(lines.join("\n"))
        })?;
        Ok(Self { experiment })
    }

    /// Reads the same as JSON, which a dictionary can be written as.
    #[staticmethod]
    fn from_json(text: &str, base: PathBuf) -> PyResult<Self> {
        let text = lab::Experiment::toml(text).map_err(PyValueError::new_err)?;
        Self::new(&text, base)
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
            session.summary(&prepared).await
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
    ) -> PyResult<String> {
        if !matches!(engine, None | Some("local" | "ray")) {
            return Err(PyValueError::new_err("engine: `local` or `ray`"));
        }
        let mut experiment = self.experiment.clone();
        app::library::choose_engine(&mut experiment, engine, address);
        let progress = Progress::default();
        let chosen = Self { experiment };
        let (session, cancel) = chosen.session(Some(connect), budget_usd, progress.clone())?;
        let run = || async move {
            let prepared = session.prepare().await?;
            let (results, tracking) = app::library::run(&session, &prepared).await;
            Ok((results, tracking.finish().await))
        };
        let mut shown = String::new();
        let (results, notes): (Result<Results, Error>, Vec<String>) = wait(py, &cancel, run, |py| {
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
            // Where warnings are errors, this one is printed: the run is complete.
            if let Err(raised) = PyErr::warn(py, &py.get_type::<PyUserWarning>(), &note, 2) {
                raised.write_unraisable(py, None);
            }
        }
        json(&results.map_err(error)?)
    }

    /// The results of the last finished run.
    fn results(&self, py: Python<'_>) -> PyResult<String> {
        json(&self.latest(py)?)
    }

    /// The report page of the last finished run.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        app::library::report(&self.latest(py)?).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// A trial that can be asked: this one, else the winner of the last run,
    /// else the first of its leaderboard.
    #[pyo3(signature = (trial=None))]
    fn pipeline(&self, py: Python<'_>, trial: Option<String>) -> PyResult<Pipeline> {
        // A question is answered here, wherever the experiment ran.
        let mut experiment = self.experiment.clone();
        app::library::choose_engine(&mut experiment, Some("local"), None);
        let (session, cancel) = Self { experiment }.session(None, None, Progress::default())?;
        let open = || async move {
            let trial = match trial {
                Some(trial) => trial,
                None => {
                    let results = session.latest().await?;
                    let first = results.trials.first().map(|trial| trial.trial.id.clone());
                    let best = results.winner.trial().map(str::to_owned).or(first);
                    best.ok_or_else(|| Error::NotFound("the last run has no trials".to_owned()))?
                }
            };
            let prepared = session.prepare().await?;
            if !prepared.trials.iter().any(|other| other.id == trial) {
                return Err(Error::NotFound(format!("there is no trial `{trial}`")));
            }
            Ok((session, prepared, trial))
        };
        let (session, prepared, trial) = wait(py, &cancel, open, |_| Ok(()))?;
        Ok(Pipeline { opened: Arc::new((session, prepared)), trial })
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

    fn latest(&self, py: Python<'_>) -> PyResult<Results> {
        let (session, cancel) = self.session(None, None, Progress::default())?;
        wait(py, &cancel, || async move { session.latest().await }, |_| Ok(()))
    }
}

/// A trial whose indexes are in the store.
#[pyclass(frozen, module = "reverie._core")]
pub(crate) struct Pipeline {
    opened: Arc<(Session, lab::Prepared)>,
    #[pyo3(get)]
    trial: String,
}

#[pymethods]
impl Pipeline {
    /// Answers a question, with sources.
    fn query(&self, py: Python<'_>, question: String) -> PyResult<String> {
        let (opened, trial) = (self.opened.clone(), self.trial.clone());
        let answer = || async move { opened.0.query(&opened.1, &trial, &question).await };
        json(&wait(py, &CancellationToken::new(), answer, |_| Ok(()))?)
    }

    /// The same, at once: `done` is called from another thread with the answer
    /// or with the reason why there is none.
    fn aquery(&self, question: String, done: Py<PyAny>) -> PyResult<()> {
        let (opened, trial) = (self.opened.clone(), self.trial.clone());
        runtime()?.spawn(async move {
            let answered = opened.0.query(&opened.1, &trial, &question).await;
            let answered = answered.map_err(|error| lab::error_chain(&error));
            let answered =
                answered.and_then(|answered| serde_json::to_string(&answered).map_err(|error| error.to_string()));
            let told = tokio::task::spawn_blocking(move || {
                Python::attach(|py| match answered {
                    Ok(answer) => done.call1(py, (answer, py.None())).map(drop),
                    Err(reason) => done.call1(py, (py.None(), reason)).map(drop),
                })
            });
            let _ = told.await;
        });
        Ok(())
    }
}

fn read(results: &str) -> PyResult<Results> {
    serde_json::from_str(results).map_err(|error| PyValueError::new_err(format!("these are no results: {error}")))
}

/// The report page of results.
#[pyfunction]
pub(crate) fn report(results: &str) -> PyResult<String> {
    app::library::report(&read(results)?).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Two trials, metric by metric, with paired tests.
#[pyfunction]
pub(crate) fn compare(results: &str, first: &str, second: &str) -> PyResult<String> {
    app::library::compare(&read(results)?, first, second).map_err(error)
}
