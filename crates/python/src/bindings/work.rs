//! Work that Python waits for: it runs with the GIL released, Ctrl-C ends it, and
//! its errors are raised as Python's.

use super::remote::runtime;
use eval::{GeneratedQuestions, Rejection};
use lab::{Error, FunctionFailure, Progress, Session, Setup};
use pyo3::{
    exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError},
    prelude::*,
};
use pythonize::pythonize;
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    fmt::Display,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// The interval at which signals are checked and progress is reported.
const TICK: Duration = Duration::from_millis(250);
/// How long work may take to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(3);

/// An error as Python raises it.
pub(crate) fn python_error(error: Error) -> PyErr {
    let text = lab::error_chain(&error);
    if let Some(failure) = lab::failed_function(&error) {
        return own_exception("FunctionError", &text, &[failure]);
    }
    match error {
        Error::NoQuestions { ref generated, .. } => {
            let details = json!({
                "rejected": rejection_rows(generated), "counts": generated.counts(), "attempts": generated.attempts,
                "written": generated.n_written(), "failures": function_failures(generated),
            });
            own_exception("GenerationError", &text, &details)
        }
        Error::Refused(mistakes) => value_error(mistakes.join("\n")),
        Error::Interrupted => PyKeyboardInterrupt::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// An exception of `reverie.exceptions` with a text, and with details for programs.
fn own_exception(class: &str, text: &str, details: &impl Serialize) -> PyErr {
    let made = Python::attach(|py| {
        let class = py.import("reverie.exceptions")?.getattr(class)?;
        PyResult::Ok(PyErr::from_value(class.call_method1("_of", (text, to_python(py, details)?))?))
    });
    made.unwrap_or_else(|error| error)
}

/// A `ValueError` with this text.
pub(crate) fn value_error(reason: impl Display) -> PyErr {
    PyValueError::new_err(reason.to_string())
}

/// A value as JSON text, for what is pickled and for numbers of 32 bits, which
/// would have other digits as Python's numbers of 64 bits.
pub(crate) fn to_json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// A value as the dictionaries, lists, texts and numbers that Python would read from its JSON.
pub(crate) fn to_python(py: Python<'_>, value: &(impl Serialize + ?Sized)) -> PyResult<Py<PyAny>> {
    let value = serde_json::to_value(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok(pythonize(py, &value)?.unbind())
}

/// Opens an experiment's store.
pub(crate) fn open_session(experiment: lab::Experiment, setup: Setup) -> PyResult<Session> {
    // Opening a store may start work on the runtime's threads.
    let _guard = runtime()?.enter();
    Session::open(experiment, setup).map_err(python_error)
}

/// Starts work on this module's threads and returns at once; `done(result, error)` is called from another thread.
pub(crate) fn spawn_for_callback<T: for<'py> IntoPyObject<'py> + Send + 'static>(
    done: Py<PyAny>,
    work: impl Future<Output = PyResult<Option<T>>> + Send + 'static,
) -> PyResult<()> {
    runtime()?.spawn(async move {
        let ended = work.await;
        // Python code may block, which threads of the runtime must not.
        let call = tokio::task::spawn_blocking(move || {
            Python::attach(|py| match ended {
                Ok(result) => done.call1(py, (result, py.None())).map(drop),
                Err(raised) => done.call1(py, (py.None(), raised.into_value(py))).map(drop),
            })
        });
        _ = call.await;
    });
    Ok(())
}

/// Added to the message about a list where one value belongs.
const SWEEP: &str = "; a setting has one value: to compare several, list the component once for each";

/// The mistakes of settings that Python gave as a dictionary, each with its key.
pub(crate) fn spec_mistakes(errors: &[lab::SpecError]) -> Vec<String> {
    let sweep = |error: &lab::SpecError| if error.message.contains("invalid type: list") { SWEEP } else { "" };
    errors.iter().map(|error| error.message_with_key() + sweep(error)).collect()
}

/// Puts partial results on an exception, as its attribute `_partial`.
pub(crate) fn attach_partial(py: Python<'_>, raised: PyErr, partial: impl for<'a> IntoPyObject<'a>) -> PyErr {
    // An exception that takes no attribute is raised as it is.
    let _ = raised.value(py).setattr("_partial", partial);
    raised
}

/// Rewrites a message about a price: the settings are written as in a dictionary instead of TOML.
pub(crate) fn rewrite_price_message(py: Python<'_>, raised: PyErr) -> PyErr {
    if !raised.is_instance_of::<PyValueError>(py) {
        return raised;
    }
    let text = raised.value(py).to_string();
    let chat = text.replace("`price = { input = …, output = … }`", "`\"price\": {\"input\": …, \"output\": …}`");
    value_error(chat.replace("`price = …`", "`\"price\": …`"))
}

/// Checks that a budget is an amount of money.
pub(crate) fn check_budget(usd: Option<f64>) -> PyResult<Option<f64>> {
    let checked = usd.map(app::library::check_usd).transpose();
    checked.map_err(|reason| value_error(format!("budget_usd: {reason}")))
}

/// Calls `on_progress` with the progress of a run, each time that it has changed.
pub(crate) fn report_progress(
    progress: &Progress,
    on_progress: Option<Py<PyAny>>,
) -> impl FnMut(Python<'_>) -> PyResult<()> + Send + use<> {
    let (progress, mut shown) = (progress.clone(), Value::Null);
    move |py| {
        let Some(on_progress) = &on_progress else { return Ok(()) };
        let now = json!({ "operators": progress.snapshot(), "models": progress.models() });
        if now != shown {
            on_progress.call1(py, (to_python(py, &now)?,))?;
            shown = now;
        }
        Ok(())
    }
}

/// Runs work with the GIL released. Ctrl-C cancels the work, and is raised when
/// calls that have begun are finished, or after [`GRACE`].
pub(crate) fn wait<T: Send, Work: Future<Output = Result<T, Error>>>(
    py: Python<'_>,
    cancel: &CancellationToken,
    work: impl FnOnce() -> Work + Send,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()> + Send,
) -> PyResult<T> {
    py.detach(|| {
        let mut raised: Option<PyErr> = None;
        let ended = runtime()?.block_on(async {
            let mut work = std::pin::pin!(work());
            let mut stopped: Option<Instant> = None;
            loop {
                tokio::select! {
                    ended = &mut work => return ended,
                    () = tokio::time::sleep(TICK) => {}
                }
                // Work that does not end within the grace time is left behind.
                if cancel.is_cancelled() && stopped.get_or_insert_with(Instant::now).elapsed() > GRACE {
                    return Err(Error::Interrupted);
                }
                let heard = Python::attach(|py| py.check_signals().and_then(|()| tick(py)));
                if let Err(signal) = heard {
                    cancel.cancel();
                    rag::python::interrupt();
                    raised.get_or_insert(signal);
                }
            }
        });
        match raised {
            Some(raised) => Err(raised),
            None => ended.map_err(python_error),
        }
    })
}

/// Removes all nulls: TOML has none.
pub(crate) fn remove_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, remove_nulls(value))).collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().filter(|item| !item.is_null()).map(remove_nulls).collect())
        }
        other => other,
    }
}

/// The drafts that were rejected, and why.
pub(crate) fn rejection_rows(generated: &GeneratedQuestions) -> Vec<Value> {
    let rows = generated.rejected.iter().map(|rejection| {
        let Rejection { reason, kind, document, span, question } = rejection;
        json!({
            "reason": reason.to_string(), "kind": kind, "document": document, "start_byte": span.start, "end_byte": span.end,
            "question": question,
        })
    });
    rows.collect()
}

/// The failures of a user's function that was to write questions.
pub(crate) fn function_failures(generated: &GeneratedQuestions) -> Vec<FunctionFailure> {
    let row = |failure: &rag::python::Failure| FunctionFailure {
        trial: String::new(),
        label: failure.stage.clone(),
        question: None,
        failure: failure.clone(),
    };
    generated.failures().map(row).collect()
}
