//! The files that an MLflow run keeps: the report, the golden questions, the
//! experiment, and tables of questions for MLflow's pages and for others.

use crate::{
    board::{Board, BoardRow, ColumnKind},
    layout::RunFileName,
    results::{QuestionResult, Results, TrialResult},
    track::RunView,
};
use bytes::Bytes;
use eval::{Dataset, Score};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::Key;

/// A file of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ArtifactFile {
    pub(super) name: String,
    pub(super) bytes: Bytes,
    /// Whether MLflow can show it as a table.
    table: bool,
}

impl ArtifactFile {
    pub(super) fn new(name: &str, bytes: impl Into<Bytes>) -> Self {
        Self { name: name.to_owned(), bytes: bytes.into(), table: false }
    }

    /// MLflow's own form of tables.
    fn table(name: &str, columns: &[String], rows: &[Vec<Value>]) -> Self {
        let text = json!({ "columns": columns, "data": rows }).to_string();
        Self { table: true, ..Self::new(name, text) }
    }

    pub(super) fn digest(&self) -> String {
        Key::of_bytes(&self.bytes).short()
    }

    /// Its media type.
    pub(super) fn kind(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html",
            Some("csv") => "text/csv",
            Some("json") => "application/json",
            _ => "text/plain",
        }
    }
}

/// The tag that makes MLflow show tables.
pub(super) fn tables(files: &[ArtifactFile]) -> String {
    let tables = files.iter().filter(|file| file.table).map(|file| json!({ "path": file.name, "type": "table" }));
    Value::Array(tables.collect()).to_string()
}

/// The files of the run for the whole.
pub(super) fn of_run(view: &RunView, results: &Results, board: &Board) -> Vec<ArtifactFile> {
    let mut files = vec![ArtifactFile::new(RunFileName::Experiment.name(), view.experiment.text_without_secrets())];
    if let Some(page) = view.report.as_ref().and_then(|path| std::fs::read(path).ok()) {
        files.push(ArtifactFile::new(RunFileName::Report.name(), page));
    }
    if !results.questions.is_empty() {
        let dataset = Dataset { questions: results.questions.clone() };
        // The writer has no reason to fail.
        files.extend(dataset.to_jsonl().ok().map(|text| ArtifactFile::new("golden.jsonl", text)));
        files.extend(questions(results).map(|table| ArtifactFile::new("questions.csv", table)));
    }
    files.push(leaderboard(board));
    files
}

/// All trials' questions as CSV: a row for each trial and question.
fn questions(results: &Results) -> Option<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut head = vec!["trial".to_owned()];
    head.extend(columns(results));
    writer.write_record(&head).ok()?;
    for trial in &results.trials {
        for (i, question) in trial.questions.iter().enumerate() {
            let cells = row(results, i, question).into_iter().map(|cell| super::text(&cell));
            writer.write_record(std::iter::once(trial.trial.id.clone()).chain(cells)).ok()?;
        }
    }
    writer.into_inner().ok()
}

/// One trial's questions.
pub(super) fn questions_of(results: &Results, trial: &TrialResult) -> ArtifactFile {
    let rows = trial.questions.iter().enumerate().map(|(i, question)| row(results, i, question));
    ArtifactFile::table("questions.json", &columns(results), &rows.collect::<Vec<_>>())
}

fn columns(results: &Results) -> Vec<String> {
    let fixed = ["id", "question", "reference", "answer", "passages"].map(str::to_owned);
    let metrics = results.metrics.iter().map(|metric| metric.name.clone());
    fixed.into_iter().chain(metrics).chain(["missing".to_owned()]).collect()
}

/// One question: a score is a number or nothing, and then `missing` says why.
fn row(results: &Results, i: usize, found: &QuestionResult) -> Vec<Value> {
    let asked = results.questions.get(i).filter(|question| question.id == found.question);
    let answer = found.answer.as_ref().map(|answer| answer.text.as_str());
    let passages: Vec<&str> = found.passages.iter().map(|passage| passage.document.as_str()).collect();
    let mut missing: BTreeMap<&str, String> = BTreeMap::new();
    if let Some(error) = &found.error {
        missing.insert("answer", error.clone());
    }
    let mut cells = vec![
        json!(found.question),
        json!(asked.map(|question| &question.question)),
        json!(asked.and_then(|question| question.reference.as_ref())),
        json!(answer),
        json!(passages.join(", ")),
    ];
    for metric in &results.metrics {
        let score = found.scores.get(&metric.name).map(|scored| &scored.score);
        if let Some(Score::Missing(reason)) = score {
            missing.insert(&metric.name, reason.to_string());
        }
        cells.push(json!(score.and_then(Score::value)));
    }
    let missing: Vec<String> = missing.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    cells.push(json!(missing.join("; ")));
    cells
}

/// The trials, best first, with the mean of each metric.
fn leaderboard(board: &Board) -> ArtifactFile {
    let is_shown = |kind| matches!(kind, ColumnKind::Axis | ColumnKind::Objective | ColumnKind::Metric);
    let names = board.columns.iter().filter(|column| is_shown(column.kind)).map(|column| column.name.clone());
    let row = |row: &BoardRow| {
        let cells = board.columns.iter().zip(&row.cells).filter(|(column, _)| is_shown(column.kind));
        let values = cells.map(|(_, cell)| cell.text().map_or_else(|| json!(cell.number()), |text| json!(text)));
        std::iter::once(json!(row.id)).chain(values).collect()
    };
    let rows: Vec<Vec<Value>> = board.rows.iter().map(row).collect();
    ArtifactFile::table(
        "leaderboard.json",
        &std::iter::once("trial".to_owned()).chain(names).collect::<Vec<_>>(),
        &rows,
    )
}
