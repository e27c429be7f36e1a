//! Which rows a metric applies to, and what follows from the scores; metrics that ask no model.

use super::*;
use crate::{
    record::fixture::{UNREACHABLE, endpoint},
    results::QualificationRecord,
    spec::ScoringChoice,
};
use models::{Caps, ModelDirectory};
use serde_json::json;
use std::collections::BTreeMap;

const MODELS: &str = "[models.strict]\nchat.openai = { model = \"strict\", base_url = \"http://127.0.0.1:1/v1\", price = { \
    input = 2, output = 8 } }\n";

fn setup(folder: &Path) -> Setup {
    Setup::new(ModelDirectory::new(folder.join("models"), Vec::new()), Arc::new(|_: &str| None))
}

fn spec(folder: &Path, text: &str, metrics: &[&str]) -> ScoringSpec {
    let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
    let choice = ScoringChoice { metrics, ..ScoringChoice::default() };
    ScoringSpec::of_program(text, folder, &choice).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn objects(rows: &Value) -> Vec<Map<String, Value>> {
    rows.as_array().unwrap().iter().map(|row| row.as_object().unwrap().clone()).collect()
}

async fn scoring(folder: &Path, metrics: &[&str], rows: &Value) -> Result<Scoring, Error> {
    Scoring::of_rows(spec(folder, "", metrics), "answers", &objects(rows), &[], setup(folder)).await
}

async fn scored(metrics: &[&str], rows: &Value) -> ScoreResults {
    let folder = tempfile::tempdir().unwrap();
    scoring(folder.path(), metrics, rows).await.unwrap().run().await.unwrap()
}

fn refusal<T>(found: Result<T, Error>) -> Vec<String> {
    match found {
        Err(Error::Refused(mistakes)) => mistakes,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing was refused"),
    }
}

/// Three rows: right, wrong, and without an answer.
fn rows() -> Value {
    json!([
        { "id": "a", "question": "Which bird hoots?", "answer": "The owl.", "reference": "owl" },
        { "id": "b", "question": "Which bird swims?", "answer": "An owl", "reference": "duck" },
        { "id": "c", "question": "Which bird sings?", "answer": null, "reference": "lark" },
    ])
}

#[tokio::test]
async fn every_row_is_scored_by_every_metric_and_a_mean_is_over_the_rows_to_which_it_applies() {
    let found = scored(&["exact_match", "token_f1"], &rows()).await;
    assert_eq!(found.file, "answers");
    let ids: Vec<(usize, &str)> = found.rows.iter().map(|row| (row.line, row.id.as_str())).collect();
    assert_eq!(ids, [(0, "a"), (1, "b"), (2, "c")]);
    for (metric, of_metric) in found.metrics.iter().zip(["exact_match", "token_f1"]) {
        assert_eq!((metric.name.as_str(), metric.judged, metric.qualified), (of_metric, false, false));
        let values: Vec<Option<f64>> = found.rows.iter().map(|row| row.scores[of_metric].score.value()).collect();
        assert_eq!(values, [Some(1.0), Some(0.0), None], "{of_metric}");
        let summary = &metric.summary;
        assert_eq!((summary.mean, summary.n_scored, summary.n_failed, summary.n_total), (Some(0.5), 2, 0, 3));
        assert_eq!(metric.missing, BTreeMap::from([("not_applicable".to_owned(), 1)]));
    }
    assert_eq!((found.provider_errors, found.function_errors, found.damaged_entries), (0, 0, 0));
    assert!(found.partial.is_none() && found.budget.is_none() && found.notes().is_empty(), "{:?}", found.notes());
}

#[tokio::test]
async fn one_row_has_a_mean_without_an_interval_and_many_rows_keep_their_order() {
    let one = scored(&["exact_match"], &json!([{ "question": "Q?", "answer": "x", "reference": "x" }])).await;
    let summary = &one.metrics[0].summary;
    assert_eq!((summary.mean, summary.low, summary.high), (Some(1.0), None, None));
    // More than are computed at once.
    let row = |i: usize| {
        let answer = if i.is_multiple_of(3) { "yes" } else { "no" };
        json!({ "id": format!("q{i}"), "question": "Q?", "answer": answer, "reference": "yes" })
    };
    let many = scored(&["exact_match"], &(0..600).map(row).collect::<Vec<_>>().into()).await;
    for (i, row) in many.rows.iter().enumerate() {
        let value = if i.is_multiple_of(3) { 1.0 } else { 0.0 };
        assert_eq!((row.id.as_str(), row.scores["exact_match"].score.value()), (&*format!("q{i}"), Some(value)));
    }
    assert_eq!(many.metrics[0].summary.mean, Some(200.0 / 600.0));
}

#[tokio::test]
async fn a_metric_applies_to_the_rows_that_have_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let rows = json!([
        { "question": "1?", "answer": "x", "reference": "x", "contexts": ["p"] },
        { "question": "2?", "answer": "x", "contexts": [] },
        { "question": "3?", "reference": "x" },
    ]);
    let found = scoring(folder.path(), &["exact_match", "context_tokens", "rouge_l"], &rows).await.unwrap();
    assert_eq!(found.n_rows(), 3);
    let expected = [("exact_match", 1), ("context_tokens", 2), ("rouge_l", 1)];
    assert_eq!(found.applicable(), expected.map(|(name, n)| (name.to_owned(), n)));
}

#[test]
fn the_first_thing_that_a_row_lacks_is_told() {
    let row = |row: Value| read_answers(&objects(&json!([row])), &[]).unwrap().remove(0);
    let config = |name: &str| serde_json::from_value::<MetricConfig>(json!({ name: {} })).unwrap();
    let reason = |text: &str| Some(Missing::NotApplicable(text.to_owned()));
    let whole = json!({ "question": "?", "answer": "x", "reference": "x", "contexts": ["p"], "evidence": [{ "document": "d", "quote": "p" }] });
    let without = |column: &str| {
        let mut cut = whole.clone();
        cut.as_object_mut().unwrap().remove(column);
        row(cut)
    };
    for name in ["exact_match", "recall", "context_tokens", "faithfulness"] {
        assert_eq!(why_not_applicable(&config(name), &row(whole.clone())), None, "{name}");
    }
    for (name, column, expected) in [
        ("exact_match", "answer", reason("the row has no answer")),
        ("exact_match", "contexts", None),
        ("faithfulness", "answer", reason("the row has no answer")),
        ("faithfulness", "contexts", reason("the row does not tell what was retrieved")),
        ("faithfulness", "reference", None),
        ("recall", "contexts", reason("the row does not tell what was retrieved")),
        ("recall", "evidence", reason("the row has no golden evidence")),
        ("recall", "answer", None),
    ] {
        assert_eq!(why_not_applicable(&config(name), &without(column)), expected, "{name} without {column}");
    }
    assert!(why_not_applicable(&config("exact_match"), &without("reference")).is_some());
    let nothing = row(json!({ "question": "?" }));
    assert_eq!(
        why_not_applicable(&config("faithfulness"), &nothing),
        reason("the row has no answer"),
        "the answer comes first"
    );
    let empty = row(json!({ "question": "?", "answer": "", "contexts": [] }));
    assert_eq!(why_not_applicable(&config("faithfulness"), &empty), None, "empty is not missing");
}

#[tokio::test]
async fn a_metric_that_applies_to_no_row_is_refused_with_the_columns_that_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let rows = json!([{ "question": "1?", "answer": "x" }, { "question": "2?", "answer": "y" }]);
    let mistakes = refusal(scoring(folder.path(), &["exact_match", "recall"], &rows).await);
    assert_eq!(mistakes.len(), 2);
    for (mistake, (begin, columns)) in mistakes.iter().zip([
        ("`exact_match` applies to no row (", "`answer` or `response`, `reference` or `ground_truth`"),
        (
            "`recall` applies to no row (not applicable: the row does not tell what was retrieved)",
            "`contexts` or `retrieved_contexts`, `evidence`, with `document` and `span` in `contexts`",
        ),
    ]) {
        let end = format!("it needs the columns {columns}; leave it out, or add them");
        assert!(mistake.starts_with(begin) && mistake.ends_with(&end), "{mistake}");
    }
    // One row is enough.
    let rows = json!([{ "question": "1?", "answer": "x" }, { "question": "2?", "answer": "y", "reference": "y" }]);
    assert!(scoring(folder.path(), &["exact_match"], &rows).await.is_ok());
    assert!(metrics_without_rows(&[], &[]).is_empty());
    let config: MetricConfig = serde_json::from_value(json!({ "exact_match": {} })).unwrap();
    assert!(metrics_without_rows(&[config], &[]).is_empty(), "without rows nothing is lacking");
}

#[tokio::test]
async fn faults_of_rows_are_told_with_their_numbers_and_those_of_files_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let rows = json!([{ "question": "1?", "answer": "x", "reference": "x" }, { "answer": "y" }]);
    let mistakes = refusal(scoring(folder.path(), &["exact_match"], &rows).await);
    let text = "answers, row 1 (from 0): has no column with the question: name it `question` or `user_input`";
    assert_eq!(mistakes, [text]);
    let none = refusal(scoring(folder.path(), &["exact_match"], &json!([])).await);
    assert_eq!(none, ["answers, row 0 (from 0): there are no rows: give one for each answer"]);

    let open = async |name: &str| {
        Scoring::open(spec(folder.path(), "", &["exact_match"]), &folder.path().join(name), &[], setup(folder.path()))
            .await
    };
    let absent = refusal(open("absent.jsonl").await);
    assert!(absent.len() == 1 && absent[0].contains("absent.jsonl cannot be read: "), "{absent:?}");
    std::fs::write(
        folder.path().join("answers.jsonl"),
        "{\"question\":\"1?\",\"answer\":\"x\",\"reference\":\"x\"}\n{\n",
    )
    .unwrap();
    let mistakes = refusal(open("answers.jsonl").await);
    assert!(mistakes.len() == 1 && mistakes[0].contains("answers.jsonl:2"), "{mistakes:?}");
}

#[tokio::test]
async fn a_file_is_scored_whatever_its_format() {
    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    let table = |columns: &[(&str, [&str; 2])]| {
        let columns =
            columns.iter().map(|(name, texts)| (*name, Arc::new(StringArray::from(texts.to_vec())) as ArrayRef));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = ::parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    let parquet = table(&[("question", ["1?", "2?"]), ("answer", ["x", "y"]), ("reference", ["x", "x"])]);
    let jsonl = "{\"question\":\"1?\",\"answer\":\"x\",\"reference\":\"x\"}\n{\"question\":\"2?\",\"answer\":\"y\",\"reference\":\"x\"}\n";
    let csv = "question,answer,reference\n1?,x,x\n2?,y,x\n";
    for (name, bytes, lines) in [
        ("a.jsonl", jsonl.as_bytes().to_vec(), [1, 2]),
        ("a.csv", csv.as_bytes().to_vec(), [2, 3]),
        ("a.tsv", csv.replace(',', "\t").into_bytes(), [2, 3]),
        ("a.parquet", parquet.clone(), [1, 2]),
        ("a.csv", parquet, [1, 2]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let spec = spec(folder.path(), "", &["exact_match"]);
        let scoring = Scoring::open(spec, &path, &[], setup(folder.path())).await.unwrap();
        let found = scoring.run().await.unwrap();
        assert_eq!(found.file, path.display().to_string());
        let rows: Vec<(usize, Option<f64>)> =
            found.rows.iter().map(|row| (row.line, row.scores["exact_match"].score.value())).collect();
        assert_eq!(rows, [(lines[0], Some(1.0)), (lines[1], Some(0.0))], "{name}");
    }
    // A damaged one and one with other columns say what is wrong, without a line number that a reader could look up.
    let wrong = table(&[("question", ["1?", ""]), ("answer", ["x", "y"])]);
    for (bytes, part) in
        [(b"PAR1".to_vec(), "rows.parquet: the Parquet file cannot be read"), (wrong, "rows.parquet: row 2: ")]
    {
        let mistakes = answers_file::read("rows.parquet", bytes, &[]).unwrap_err();
        assert!(mistakes[0].starts_with(part), "{mistakes:?}");
    }
}

#[tokio::test]
async fn a_deadline_that_is_over_keeps_what_was_scored_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let cancelled = || Scored::missing(Missing::Cancelled);
    let late = vec![Scored::plain(Score::Value(1.0)), cancelled(), cancelled()];
    let with = async |deadline| scoring_of(folder.path(), &["exact_match"]).await.with_deadline(deadline);
    let limited = with(Some(Duration::from_millis(2_500))).await;
    let found = limited.finish(late.clone(), true).unwrap();
    let text = "the deadline of 2.5 s was reached: 1 of 3 scores are there; score again to go on";
    assert_eq!(found.partial.as_deref(), Some(text));
    assert_eq!((found.metrics[0].summary.n_scored, found.metrics[0].summary.n_failed), (1, 2));
    assert_eq!(found.metrics[0].missing, BTreeMap::from([("cancelled".to_owned(), 2)]));
    assert!(limited.so_far().is_none(), "it was not interrupted");

    // Whatever a person interrupted is an error, also where there is a deadline that was not reached.
    for (deadline, is_late) in [(Some(Duration::from_secs(60)), false), (None, true)] {
        let scoring = with(deadline).await;
        assert!(matches!(scoring.finish(late.clone(), is_late), Err(Error::Interrupted)));
        let text = "it was interrupted: 1 of 3 scores are there; score again to go on";
        assert_eq!(scoring.so_far().unwrap().partial.as_deref(), Some(text));
    }
    // Whoever is in time loses nothing by a deadline.
    let whole = vec![Scored::plain(Score::Value(1.0)); 3];
    assert_eq!(with(Some(Duration::ZERO)).await.finish(whole, true).unwrap().partial, None);
    assert_eq!(with(Some(Duration::from_secs(3_600))).await.run().await.unwrap().partial, None);
}

#[tokio::test]
async fn an_interruption_is_an_error_and_what_was_scored_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path());
    let cancel = setup.control.cancel.clone();
    let spec = spec(folder.path(), "", &["exact_match"]);
    let scoring = Scoring::of_rows(spec, "answers", &objects(&rows()), &[], setup).await.unwrap();
    assert!(scoring.so_far().is_none());
    cancel.cancel();
    let error = scoring.run().await.unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    let found = scoring.so_far().unwrap();
    // To the third row the metric does not apply; that needs no time.
    let text = "it was interrupted: 1 of 3 scores are there; score again to go on";
    assert_eq!(found.partial.as_deref(), Some(text));
}

#[tokio::test]
async fn a_deadline_ends_the_scoring_and_not_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path());
    let cancel = setup.control.cancel.clone();
    let open = async || {
        let spec = spec(folder.path(), "", &["exact_match"]);
        Scoring::of_rows(spec, "answers", &objects(&rows()), &[], setup.clone()).await.unwrap()
    };
    let (first, second) = (open().await, open().await);
    first.control.cancel.cancel();
    assert!(!cancel.is_cancelled() && !second.control.cancel.is_cancelled());
    cancel.cancel();
    assert!(second.control.cancel.is_cancelled());
}

#[tokio::test]
async fn only_judged_scores_cost_money_and_only_of_rows_to_which_they_apply() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{MODELS}[evaluate]\njudge = \"strict\"\n").replace(UNREACHABLE, &endpoint("4"));
    let spec = spec(folder.path(), &text, &["exact_match", "answer_accuracy"]);
    let scoring = Scoring::of_rows(spec, "answers", &objects(&rows()), &[], setup(folder.path())).await.unwrap();
    let estimate = scoring.estimate();
    // Two ratings of each of the two answers. No tokenizer is known for the judge: a question is estimated as 5
    // tokens, its reference as 1, the answers as 3 and 2.
    let read = 2 * (2 * rag::INSTRUCTION_TOKENS + (5 + 1 + 3) + (5 + 1 + 2));
    let found: Vec<_> = estimate
        .models
        .iter()
        .map(|it| (it.model.as_str(), it.calls, it.prompt_tokens, it.completion_tokens))
        .collect();
    assert_eq!(found, [("strict", 4, read, 4 * 60)]);
    assert_eq!(estimate.budget, Caps::default());
    let free = scoring_of(folder.path(), &["exact_match"]).await.estimate();
    assert_eq!((free.calls, free.cost_usd), (0, Some(0.0)));
}

async fn scoring_of(folder: &Path, metrics: &[&str]) -> Scoring {
    scoring(folder, metrics, &rows()).await.unwrap()
}

#[tokio::test]
async fn places_that_nobody_checked_are_told_where_a_score_depends_on_them() {
    let row = json!([{
        "question": "Q?", "answer": "x", "reference": "x",
        "contexts": [{ "text": "an owl", "document": "a.txt", "start_byte": 0, "end_byte": 6 }],
        "evidence": [{ "document": "a.txt", "quote": "an owl", "start_byte": 0, "end_byte": 6 }],
    }]);
    let found = scored(&["recall", "exact_match"], &row).await;
    assert_eq!(found.metrics[0].summary.mean, Some(1.0));
    assert_eq!(found.unchecked_places, ["recall"]);

    let folder = tempfile::tempdir().unwrap();
    let documents = [rag::load::parse("a.txt", b"an owl hoots", &rag::load::ParseLimits::default()).unwrap()];
    let spec = spec(folder.path(), "", &["recall", "exact_match"]);
    let checked = Scoring::of_rows(spec, "answers", &objects(&row), &documents, setup(folder.path())).await.unwrap();
    let found = checked.run().await.unwrap();
    assert_eq!((found.metrics[0].summary.mean, found.unchecked_places.len()), (Some(1.0), 0));

    let unplaced = json!([{ "question": "Q?", "answer": "x", "reference": "x", "contexts": ["an owl"] }]);
    assert!(scored(&["exact_match"], &unplaced).await.unchecked_places.is_empty());
}

/// Rows with these scores by a metric.
fn row_scores(name: &str, scores: &[Score]) -> Vec<RowScores> {
    let row = |(line, score): (usize, &Score)| RowScores {
        line,
        id: format!("q{line}"),
        question: "Q?".to_owned(),
        scores: BTreeMap::from([(name.to_owned(), Scored::plain(score.clone()))]),
    };
    scores.iter().enumerate().map(row).collect()
}

#[test]
fn a_summary_counts_missing_scores_by_their_reason_and_only_failures_widen_the_bounds() {
    let config: MetricConfig = serde_json::from_value(json!({ "exact_match": {} })).unwrap();
    let missing = |missing| Score::Missing(missing);
    let rows = row_scores(
        "exact_match",
        &[
            Score::Value(1.0),
            Score::Value(0.5),
            missing(Missing::ProviderError("down".to_owned())),
            missing(Missing::ProviderError("late".to_owned())),
            missing(Missing::NotApplicable("no answer".to_owned())),
            missing(Missing::Cancelled),
        ],
    );
    let found = summary(&config, &rows, &[]);
    let counts = [("cancelled", 1), ("not_applicable", 1), ("provider_error", 2)];
    assert_eq!(found.missing, counts.map(|(name, n)| (name.to_owned(), n)).into());
    let MetricScores { summary: numbers, .. } = found;
    assert_eq!((numbers.mean, numbers.n_scored, numbers.n_failed, numbers.n_total), (Some(0.75), 2, 3, 6));
    assert_eq!((numbers.worst, numbers.best), (Some(1.5 / 5.0), Some(4.5 / 5.0)));
    let nothing = summary(&config, &[], &[]);
    assert_eq!((nothing.summary.mean, nothing.summary.n_total, nothing.missing.len()), (None, 0, 0));
}

#[test]
fn a_judged_metric_is_qualified_if_each_judge_is() {
    let judge = |qualified: Option<bool>| {
        let record = qualified.map(|qualified| {
            let kind = json!({ "kind": "supported", "n": 60, "unreadable": 0, "qualified": qualified, "reason": "" });
            let model = json!({ "provider": "test", "model": "m", "revision": "1", "parameters": {} });
            let record =
                json!({ "judge": "m", "model": model, "cases": "", "n_cases": 60, "time_ms": 1, "kinds": [kind] });
            serde_json::from_value::<QualificationRecord>(record).unwrap()
        });
        JudgeResult { judge: "m".to_owned(), record }
    };
    let config = |name: &str| serde_json::from_value::<MetricConfig>(json!({ name: {} })).unwrap();
    for (judges, qualified) in [
        (vec![Some(true)], true),
        (vec![Some(true), Some(true)], true),
        (vec![Some(true), Some(false)], false),
        (vec![Some(true), None], false),
        (vec![None], false),
        (vec![], false),
    ] {
        let judges: Vec<JudgeResult> = judges.into_iter().map(judge).collect();
        let found = summary(&config("faithfulness"), &[], &judges);
        assert_eq!((found.judged, found.qualified), (true, qualified), "{judges:?}");
        assert!(!summary(&config("exact_match"), &[], &judges).qualified, "it is not judged");
    }
}

#[test]
fn judged_metrics_are_counted_as_work_of_judges() {
    for (name, expected) in [("faithfulness", Operator::Judge), ("exact_match", Operator::Score)] {
        let config: MetricConfig = serde_json::from_value(json!({ name: {} })).unwrap();
        assert_eq!(operator(&config), expected, "{name}");
    }
}
