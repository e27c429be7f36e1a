//! Work that Python waits for: it runs with the GIL released, Ctrl-C ends it, and
//! its errors are raised as Python's.

use crate::remote::runtime;
use eval::{GeneratedQuestions, Rejection};
use lab::{Error, FunctionFailure, Progress};
use pyo3::{
    exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError},
    prelude::*,
};
use serde_json::{Value, json as value};
use std::time::{Duration, Instant};
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
        Error::NoQuestions { ref generated, .. } => no_questions(&text, generated).unwrap_or_else(|error| error),
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

/// `reverie.exceptions.GenerationError`, with what was rejected.
fn no_questions(text: &str, generated: &eval::GeneratedQuestions) -> PyResult<PyErr> {
    Python::attach(|py| {
        let kind = py.import("reverie.exceptions")?.getattr("GenerationError")?;
        let told = value!({
            "rejected": rejected(generated), "counts": generated.counts(), "attempts": generated.attempts,
            "written": generated.n_written(), "failures": failures(generated),
        });
        Ok(PyErr::from_value(kind.call_method1("_of", (text, told.to_string()))?))
    })
}

pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Added to the message about a list where one value belongs.
const SWEEP: &str = "; a setting has one value: to compare several, list the component once for each";

/// All mistakes of settings that were a dictionary, with its keys.
pub(crate) fn told(errors: &[lab::SpecError]) -> Vec<String> {
    let sweep = |error: &lab::SpecError| if error.message.contains("invalid type: list") { SWEEP } else { "" };
    errors.iter().map(|error| error.with_key() + sweep(error)).collect()
}

/// An exception with what there is all the same, as its attribute `_partial`.
pub(crate) fn carrying(py: Python<'_>, raised: PyErr, partial: impl for<'a> IntoPyObject<'a>) -> PyErr {
    // An exception that takes no attribute is raised as it is.
    let _ = raised.value(py).setattr("_partial", partial);
    raised
}

/// The message about a price, with the settings as a dictionary has them.
pub(crate) fn in_python_words(py: Python<'_>, raised: PyErr) -> PyErr {
    if !raised.is_instance_of::<PyValueError>(py) {
        return raised;
    }
    let text = raised.value(py).to_string();
    let chat = text.replace("`price = { input = …, output = … }`", "`\"price\": {\"input\": …, \"output\": …}`");
    PyValueError::new_err(chat.replace("`price = …`", "`\"price\": …`"))
}

/// What a run may cost, if that is an amount of money.
pub(crate) fn budget(usd: Option<f64>) -> PyResult<Option<f64>> {
    let checked = usd.map(app::library::dollars).transpose();
    checked.map_err(|reason| PyValueError::new_err(format!("budget_usd: {reason}")))
}

/// Calls a function with the progress of a run, each time that it has changed.
pub(crate) fn watched(
    progress: &Progress,
    on_progress: Option<Py<PyAny>>,
) -> impl FnMut(Python<'_>) -> PyResult<()> + Send + use<> {
    let (progress, mut shown) = (progress.clone(), String::new());
    move |py| {
        let Some(on_progress) = &on_progress else { return Ok(()) };
        let now = serde_json::json!({ "operators": progress.snapshot(), "models": progress.models() }).to_string();
        if now != shown {
            on_progress.call1(py, (&now,))?;
            shown = now;
        }
        Ok(())
    }
}

/// Runs work with the GIL released. Ctrl-C cancels the work, and is raised when
/// calls that have begun are finished.
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
            None => ended.map_err(error),
        }
    })
}

/// A value without its nulls: TOML has none.
pub(crate) fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nothing(value))).collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().filter(|item| !item.is_null()).map(without_nothing).collect())
        }
        other => other,
    }
}

/// What was rejected, and why.
pub(crate) fn rejected(generated: &GeneratedQuestions) -> Vec<Value> {
    let told = generated.rejected.iter().map(|rejection| {
        let Rejection { reason, kind, document, span, question } = rejection;
        value!({
            "reason": reason.to_string(), "kind": kind, "document": document, "start_byte": span.start, "end_byte": span.end,
            "question": question,
        })
    });
    told.collect()
}

/// The failures of a function of the caller's own that was to write.
pub(crate) fn failures(generated: &GeneratedQuestions) -> Vec<FunctionFailure> {
    let told = |failure: &rag::python::Failure| FunctionFailure {
        trial: String::new(),
        label: failure.stage.clone(),
        question: None,
        failure: failure.clone(),
    };
    generated.failures().map(told).collect()
}
