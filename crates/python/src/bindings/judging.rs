//! Judges for Python programs: what a metric asks a judge about one example,
//! and whether a judge can tell right from wrong.

use super::{
    golden::{PyQuestions, session},
    rows,
    scoring::spec,
    settings,
    stop::PyStop,
    work::{check_budget, to_python, value_error, wait},
};
use eval::{Score, verdict::Case};
use lab::{Error, Progress, Scoring, ScoringChoice};
use models::Exchange;
use pyo3::prelude::*;
use serde_json::{Map, Value, json as value};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// Scores one example by one metric. Returns the score, what a person needs to
/// check it, and every exchange with a judge, in full.
#[pyfunction]
#[pyo3(signature = (example, tables, judges, embedder, base, budget_usd=None, stop=None))]
pub(crate) fn explain(
    py: Python<'_>,
    example: &Bound<'_, PyAny>,
    tables: &Bound<'_, PyAny>,
    judges: Vec<String>,
    embedder: Option<String>,
    base: PathBuf,
    budget_usd: Option<f64>,
    stop: Option<&PyStop>,
) -> PyResult<Py<PyAny>> {
    let budget_usd = check_budget(budget_usd)?;
    let choice = ScoringChoice { metrics: Vec::new(), judges, embedder };
    let spec = spec(tables, base, &choice)?;
    let rows = rows::rows(example, "example")?;
    if rows.len() != 1 {
        let n = rows.len();
        return Err(value_error(format!("example: give one example, not {n}; `reverie.evaluate` scores many")));
    }
    let cancel = PyStop::token(stop);
    let exchanges: Arc<Mutex<Vec<Value>>> = Arc::default();
    let recorded = exchanges.clone();
    let mut setup = app::library::setup(None, budget_usd, Progress::default(), cancel.clone());
    setup.control.listener = Some(Arc::new(move |exchange| {
        recorded.lock().unwrap_or_else(PoisonError::into_inner).push(exchange_row(exchange))
    }));
    rag::python::reset_failures();
    let work = || async move { Scoring::of_rows(spec, "example", &rows, &[], setup).await?.run().await };
    let results = wait(py, &cancel, work, |_| Ok(()))?;
    let (Some(row), Some(metric)) = (results.rows.first(), results.metrics.first()) else {
        return Err(value_error("metric: there is none to score by"));
    };
    let scored = row.scores.get(&metric.name);
    let (score, missing) = match scored.map(|scored| &scored.score) {
        Some(Score::Value(score)) => (Some(*score), None),
        Some(Score::Missing(missing)) => (None, Some(missing.to_string())),
        None => (None, None),
    };
    let exchanges = std::mem::take(&mut *exchanges.lock().unwrap_or_else(PoisonError::into_inner));
    let summary = value!({
        "metric": metric.name, "score": score, "missing": missing, "range": metric.range,
        "detail": scored.map(|scored| &scored.detail), "exchanges": exchanges,
        "function_failures": results.function_failures(),
        "failed_functions": app::library::function_failures_of_scores(&results),
    });
    to_python(py, &summary)
}

/// An exchange as a Python program reads it.
fn exchange_row(exchange: &Exchange<'_>) -> Value {
    let Exchange { model, request, outcome } = exchange;
    let mut row = value!({
        "model": model.model, "messages": request.messages, "schema": request.schema,
        "reply": null, "error": null, "probabilities": null, "prompt_tokens": 0, "completion_tokens": 0,
    });
    match outcome {
        Ok(response) => {
            row["reply"] = value!(response.text);
            row["prompt_tokens"] = value!(response.usage.prompt_tokens);
            row["completion_tokens"] = value!(response.usage.completion_tokens);
            if !response.choices.is_empty() {
                let choices = request.choices.iter().cloned().zip(response.choices.iter().map(|share| value!(share)));
                row["probabilities"] = Value::Object(choices.collect::<Map<_, _>>());
            }
        }
        Err(error) => row["error"] = value!(lab::error_chain(error)),
    }
    row
}

/// Tries judges on labelled cases, and on cases planted from golden questions
/// ([`lab::planted_cases`]).
/// Stores how they did, and returns it as a list.
#[pyfunction]
#[pyo3(signature = (judges, cases, golden, planted, tables, base, budget_usd=None, stop=None))]
pub(crate) fn qualify(
    py: Python<'_>,
    judges: Vec<String>,
    cases: Option<&Bound<'_, PyAny>>,
    golden: Option<&PyQuestions>,
    planted: Option<usize>,
    tables: &Bound<'_, PyAny>,
    base: PathBuf,
    budget_usd: Option<f64>,
    stop: Option<&PyStop>,
) -> PyResult<Py<PyAny>> {
    let mut labelled: Vec<Case> = cases.map(|cases| rows::read_typed(cases, "cases")).transpose()?.unwrap_or_default();
    if let Some(golden) = golden {
        let wanted = lab::planted_count(planted, &labelled);
        labelled.extend(lab::planted_cases(golden.questions(), wanted));
    }
    if labelled.is_empty() {
        return Err(value_error(
            "there are no cases: give labelled ones as `cases`, or `golden` questions with evidence, from which cases \
             are made",
        ));
    }
    let session = session(settings::value(tables)?, &judges, base, check_budget(budget_usd)?, stop)?;
    let work = || async move {
        let mut records = Vec::new();
        for judge in &judges {
            records.push(lab::qualify(&session, judge, &labelled).await?);
        }
        Ok::<_, Error>(records)
    };
    to_python(py, &wait(py, &PyStop::token(stop), work, |_| Ok(()))?)
}
