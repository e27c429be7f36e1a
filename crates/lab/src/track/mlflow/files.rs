//! The files that an MLflow run keeps: the report, the golden questions, the
//! experiment, and tables of questions for MLflow's pages and other programs.

use crate::{
    board::Board,
    layout::RunFileName,
    results::{QuestionResult, Results, TrialResult},
    track::{RunView, leaderboard},
};
use bytes::Bytes;
use eval::{Dataset, Score};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};
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

/// The files of the parent run.
pub(super) fn of_run(view: &RunView, results: &Results, board: &Board) -> Vec<ArtifactFile> {
    let mut files = vec![ArtifactFile::new(RunFileName::Experiment.name(), view.experiment.text_without_secrets())];
    if let Some(page) = view.report.as_ref().and_then(|path| std::fs::read(path).ok()) {
        files.push(ArtifactFile::new(RunFileName::Report.name(), page));
    }
    if !results.questions.is_empty() {
        let dataset = Dataset { questions: results.questions.clone() };
        // The writer has no reason to fail.
        files.extend(dataset.to_jsonl().ok().map(|text| ArtifactFile::new("golden.jsonl", text)));
        files.extend(questions(results, &view.folder).map(|table| ArtifactFile::new("questions.csv", table)));
    }
    files.push(leaderboard(board));
    files
}

/// All trials' questions as CSV: a row for each trial and question. None if those of a trial cannot be read in the
/// run's folder.
fn questions(results: &Results, folder: &Path) -> Option<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut head = vec!["trial".to_owned()];
    head.extend(columns(results));
    writer.write_record(&head).ok()?;
    for trial in &results.trials {
        for (i, question) in trial.whole_rows(folder).ok()?.iter().enumerate() {
            let cells = row(results, i, question).into_iter().map(|cell| super::text(&cell));
            writer.write_record(std::iter::once(trial.trial.id.clone()).chain(cells)).ok()?;
        }
    }
    writer.into_inner().ok()
}

/// One trial's questions; none if they cannot be read in the run's folder.
pub(super) fn questions_of(results: &Results, trial: &TrialResult, folder: &Path) -> Option<ArtifactFile> {
    let found = trial.whole_rows(folder).ok()?;
    let rows = found.iter().enumerate().map(|(i, question)| row(results, i, question));
    Some(ArtifactFile::table("questions.json", &columns(results), &rows.collect::<Vec<_>>()))
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
    let (columns, rows) = leaderboard::table(board);
    ArtifactFile::table("leaderboard.json", &columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;
    use eval::{Missing, Scored};

    #[test]
    fn a_file_has_the_media_type_of_its_ending() {
        for (name, kind) in [
            ("report.html", "text/html"),
            ("a.b.csv", "text/csv"),
            ("questions.json", "application/json"),
            ("golden.jsonl", "text/plain"),
            ("experiment.toml", "text/plain"),
            ("html", "text/html"),
        ] {
            assert_eq!(ArtifactFile::new(name, "").kind(), kind, "{name}");
        }
    }

    /// Two trials, of which the second lacks an answer and a score.
    fn results() -> Results {
        let mut results = fixture::results(2);
        fixture::score(
            &mut results,
            "recall",
            &[vec![Some(0.5); 5], vec![None, Some(0.25), Some(1.0), Some(1.0), Some(1.0)]],
        );
        fixture::choose(&mut results, "recall", &[1, 1]);
        results.questions[0].question = "Why, \"a\"?".to_owned();
        results.questions[0].reference = Some("So.".to_owned());
        let found = &mut results.trials[1].questions[0];
        found.error = Some("down".to_owned());
        found.passages = ["a.md", "b.md"].map(|name| rag::Passage::of_text(name.to_owned(), "x".to_owned())).to_vec();
        found.scores.insert("recall".to_owned(), Scored::plain(Score::Missing(Missing::Budget("spent".to_owned()))));
        results
    }

    #[test]
    fn a_question_has_a_number_for_each_score_or_the_reason_why_there_is_none() {
        let results = results();
        let first = row(&results, 0, &results.trials[0].questions[0]);
        assert_eq!(
            first,
            [json!("a"), json!("Why, \"a\"?"), json!("So."), Value::Null, json!(""), json!(0.5), json!("")]
        );
        let second = row(&results, 0, &results.trials[1].questions[0]);
        let missing = json!("answer: down; recall: not asked: spent");
        assert_eq!(second[3..], [Value::Null, json!("a.md, b.md"), Value::Null, missing]);
        assert_eq!(columns(&results), ["id", "question", "reference", "answer", "passages", "recall", "missing"]);
        assert_eq!(second.len(), columns(&results).len());
        let other = row(&results, 1, &results.trials[0].questions[0]);
        assert_eq!(other[1..3], [Value::Null, Value::Null], "another question stands at this place");
    }

    #[test]
    fn all_questions_of_all_trials_are_a_table_of_csv() {
        let results = results();
        let text = String::from_utf8(questions(&results, Path::new(".")).unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (11, "trial,id,question,reference,answer,passages,recall,missing"));
        assert_eq!(lines[1], "t01,a,\"Why, \"\"a\"\"?\",So.,,,0.5,");
        assert_eq!(lines[6], "t02,a,\"Why, \"\"a\"\"?\",So.,,\"a.md, b.md\",,answer: down; recall: not asked: spent");
    }

    #[test]
    fn a_leaderboard_has_words_and_means_and_is_shown_as_a_table() {
        let board = Board::of(&results());
        let file = leaderboard(&board);
        let table: Value = serde_json::from_slice(&file.bytes).unwrap();
        let columns: Vec<&str> = table["columns"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!((columns[0], columns.last()), ("trial", Some(&"recall")));
        assert!(!columns.contains(&"cost_usd"), "only what is compared by");
        let cell = |row: usize, name: &str| {
            table["data"][row][columns.iter().position(|column| *column == name).unwrap()].clone()
        };
        assert_eq!((cell(1, "trial"), cell(1, "retriever")), (json!("t02"), json!("bm25(top_k=2)")));
        assert_eq!((cell(0, "recall"), cell(0, "objective")), (json!(0.5), json!(0.5)));
        let files = [ArtifactFile::new("a.csv", "1"), file];
        assert_eq!(tables(&files), "[{\"path\":\"leaderboard.json\",\"type\":\"table\"}]");
        assert_eq!(tables(&files[..1]), "[]");
    }

    #[test]
    fn a_digest_is_that_of_the_bytes_whatever_the_name() {
        let file = |name: &str, bytes: &'static str| ArtifactFile::new(name, bytes).digest();
        assert_eq!(file("a", "1"), file("b", "1"));
        assert_ne!(file("a", "1"), file("a", "2"));
    }
}
