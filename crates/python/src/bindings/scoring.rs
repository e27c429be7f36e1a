//! Scoring of answers for Python programs: the work is that of
//! [`lab::Scoring`], and the package's `scores.py` makes tables of what it
//! gives.

use super::{
    rows, settings,
    stages::read_documents,
    stop::PyStop,
    work::{
        attach_partial, check_budget, report_progress, rewrite_price_message, spec_mistakes, to_json, to_python,
        value_error, wait,
    },
};
use eval::{Score, Scored};
use lab::{FunctionFailure, Progress, RowScores, ScoreResults, ScoredAnswers, Scoring, ScoringChoice, ScoringSpec};
use models::RetryPolicy;
use pyo3::prelude::*;
use pythonize::depythonize;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::PathBuf, sync::OnceLock, time::Duration};

/// Compares the scores of two systems' answers, both in the form that the JSON of
/// [`score`] has. Returns a list of comparisons, one per metric.
#[pyfunction]
pub(crate) fn compare_scores(
    py: Python<'_>,
    first: &Bound<'_, PyAny>,
    second: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let read = |scores: &Bound<'_, PyAny>| {
        let value: Value = depythonize(scores)?;
        serde_json::from_value::<ScoredAnswers>(value)
            .map_err(|error| value_error(format!("these are no scores: {error}")))
    };
    let (first, second) = (read(first)?, read(second)?);
    let comparisons = py.detach(|| first.compare(&second));
    to_python(py, &comparisons.map_err(value_error)?)
}

/// Scores answers: rows, or the file at a path. `tables` is what an experiment
/// would say: `models`, `evaluate`, `store`. `documents` are those that the
/// places of contexts and evidence refer to; `attempts` is how often a call is tried at
/// most; after `deadline_seconds` no call is begun. An exception has as `_partial` what was
/// scored before, if anything was.
#[pyfunction]
#[pyo3(signature = (data, tables, judges, embedder, base, budget_usd=None, on_progress=None, stop=None, documents=None, attempts=None, deadline_seconds=None))]
pub(crate) fn score(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    tables: &Bound<'_, PyAny>,
    judges: Vec<String>,
    embedder: Option<String>,
    base: PathBuf,
    budget_usd: Option<f64>,
    on_progress: Option<Py<PyAny>>,
    stop: Option<&PyStop>,
    documents: Option<&Bound<'_, PyAny>>,
    attempts: Option<u32>,
    deadline_seconds: Option<f64>,
) -> PyResult<String> {
    let budget_usd = check_budget(budget_usd)?;
    let deadline = deadline_seconds.map(deadline).transpose()?;
    let choice = ScoringChoice { metrics: Vec::new(), judges, embedder };
    let spec = spec(tables, base, &choice)?;
    let file = rows::path(data)?;
    let rows = if file.is_some() { Vec::new() } else { rows::rows(data, "data")? };
    let cancel = PyStop::token(stop);
    let progress = Progress::default();
    let documents = documents.map(read_documents).transpose()?.unwrap_or_default();
    let mut setup = app::library::setup(None, budget_usd, progress.clone(), cancel.clone());
    if let Some(attempts) = attempts {
        if attempts == 0 {
            return Err(value_error("attempts: a call is tried at least once, not 0 times"));
        }
        setup.control.retry = Some(RetryPolicy { max_attempts: attempts, ..RetryPolicy::default() });
    }
    // Functions that failed in an earlier run of this process are tried again.
    rag::python::reset_failures();
    let kept = &OnceLock::new();
    let work = || async move {
        let scoring = match &file {
            Some(file) => Scoring::open(spec, file, &documents, setup).await?,
            None => Scoring::of_rows(spec, "data", &rows, &documents, setup).await?,
        };
        // Kept outside, because `wait` may leave the work behind.
        kept.get_or_init(|| scoring.with_deadline(deadline)).run().await
    };
    let results = wait(py, &cancel, work, report_progress(&progress, on_progress));
    let raised = match results {
        Ok(results) => return scores_json(results),
        Err(raised) => rewrite_price_message(py, raised),
    };
    Err(match kept.get().and_then(Scoring::so_far) {
        Some(scored) => attach_partial(py, raised, scores_json(scored)?),
        None => raised,
    })
}

fn deadline(seconds: f64) -> PyResult<Duration> {
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| value_error(format!("deadline_seconds must be above 0, not {seconds}")))
}

pub(crate) fn spec(tables: &Bound<'_, PyAny>, base: PathBuf, choice: &ScoringChoice) -> PyResult<ScoringSpec> {
    let text = lab::Experiment::json_to_toml(&settings::value(tables)?.to_string());
    let text = text.map_err(value_error)?;
    ScoringSpec::of_program(&text, base, choice).map_err(|errors| {
        // Python gives these as parameters, not in a section `evaluate`.
        let place = |message: String| message.strip_prefix("evaluate.").map(str::to_owned).unwrap_or(message);
        value_error(spec_mistakes(&errors).into_iter().map(place).collect::<Vec<_>>().join("\n"))
    })
}

/// The results as JSON for the Python package, with notes and with the reason for
/// each missing score in words. Rows are serialized directly, without a JSON
/// value for each, because there may be many.
pub(crate) fn scores_json(mut results: ScoreResults) -> PyResult<String> {
    let mut notes = results.notes();
    if results.needs_anchoring() {
        notes.push(
            "`reverie.golden.anchor(documents, questions).questions` has the locations of the evidence".to_owned(),
        );
    }
    let function_failures = results.function_failures();
    let failed_functions = app::library::function_failures_of_scores(&results);
    let rows = std::mem::take(&mut results.rows);
    let Value::Object(mut rest) = json!(results) else { unreachable!("a structure is an object") };
    rest.shift_remove("rows");
    to_json(&ScoresJson {
        rest,
        rows: rows.iter().map(ScoresJsonRow::of).collect(),
        notes,
        function_failures,
        failed_functions,
    })
}

#[derive(Serialize)]
struct ScoresJson<'a> {
    #[serde(flatten)]
    rest: Map<String, Value>,
    rows: Vec<ScoresJsonRow<'a>>,
    notes: Vec<String>,
    function_failures: Vec<FunctionFailure>,
    failed_functions: Option<String>,
}

#[derive(Serialize)]
struct ScoresJsonRow<'a> {
    row: usize,
    id: &'a str,
    question: &'a str,
    scores: BTreeMap<&'a str, ScoreCell<'a>>,
}

impl<'a> ScoresJsonRow<'a> {
    fn of(row: &'a RowScores) -> Self {
        let scores = row.scores.iter().map(|(metric, scored)| (metric.as_str(), ScoreCell::of(scored))).collect();
        Self { row: row.line, id: &row.id, question: &row.question, scores }
    }
}

#[derive(Serialize)]
struct ScoreCell<'a> {
    value: Option<f64>,
    #[serde(flatten)]
    missing: Option<MissingReason>,
    detail: &'a Value,
}

/// Why a score is missing.
#[derive(Serialize)]
struct MissingReason {
    missing: &'static str,
    failed: bool,
    reason: String,
}

impl<'a> ScoreCell<'a> {
    fn of(scored: &'a Scored) -> Self {
        let missing = match &scored.score {
            Score::Value(_) => None,
            Score::Missing(missing) => Some(MissingReason {
                missing: missing.name(),
                failed: missing.is_failure(),
                reason: missing.to_string(),
            }),
        };
        Self { value: scored.score.value(), missing, detail: &scored.detail }
    }
}
