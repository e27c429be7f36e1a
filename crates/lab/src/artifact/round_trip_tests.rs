//! Each table reads back what was written to it. Tables of earlier versions can be read, and damage is found.

use super::*;
use eval::{Missing, Score, Scored};
use models::{Finish, Matrix, Usage};
use rag::{
    Answer, Chunk, Document, Passage, Span,
    load::{LoadError, Rejected},
    python::{Failure, FailureKind},
    query::SearchQuery,
};
use serde_json::json;
use store::Key;

/// Writes rows and reads them again, all together and one by one.
fn check_round_trip<T: ArtifactTable + Clone + PartialEq + std::fmt::Debug>(rows: &[T]) {
    assert_eq!(decode::<T>(encode(rows).unwrap()).unwrap(), rows);
    for row in rows {
        let one = std::slice::from_ref(row);
        assert_eq!(decode::<T>(encode(one).unwrap()).unwrap(), one);
    }
    assert_eq!(decode::<T>(encode::<T>(&[]).unwrap()).unwrap(), []);
    assert_eq!(encode(rows).unwrap(), encode(rows).unwrap(), "equal rows are equal bytes");
    let batch = to_batch(rows).unwrap();
    assert_eq!(
        (batch.schema(), batch.num_rows()),
        (schema::<T>().unwrap(), rows.len()),
        "one schema whatever the rows"
    );
    assert_eq!(from_batch::<T>(&batch).unwrap(), rows);
    // More rows than are read at once.
    let many: Vec<T> = rows.iter().cycle().take(2 * ROWS_AT_ONCE + 1).cloned().collect();
    assert_eq!(decode::<T>(encode(&many).unwrap()).unwrap(), many);
}

/// The rows as a version wrote them that did not have these columns.
fn without<T: ArtifactTable>(rows: &[T], columns: &[&str]) -> Result<Vec<T>, Error> {
    let mut batch = to_batch(rows).unwrap();
    for column in columns {
        batch.remove_column(batch.schema().index_of(column).unwrap());
    }
    decode(write(&batch).unwrap())
}

fn failure() -> Box<Failure> {
    Box::new(Failure {
        stage: "generator".to_owned(),
        function: "write".to_owned(),
        file: "own.py".to_owned(),
        kind: FailureKind::Raised,
        message: "division by zero".to_owned(),
        traceback: Some("Traceback: …\n".to_owned()),
    })
}

fn answers() -> Vec<AnswerRow> {
    let whole = Answer {
        text: "Oats [2].\nÜber 1700 mühlen 🌾".to_owned(),
        citations: vec![2, 1],
        dropped_passages: 3,
        calls: 2,
        usage: Usage { prompt_tokens: 7, cached_tokens: 5, completion_tokens: u64::MAX, ..Usage::default() },
        seconds: 0.1,
        finish: Finish::Length,
    };
    let withheld = Answer { finish: Finish::ContentFilter, ..Answer::default() };
    let none = |reason: &str, function, budget| Err(NoAnswer { reason: reason.to_owned(), function, budget });
    let row = |question: &str, answer| AnswerRow { question: question.to_owned(), answer };
    vec![
        row("q1", Ok(whole)),
        row("q2", Ok(Answer::default())),
        row("q3", Ok(withheld)),
        row("q4", none("down", None, false)),
        row("q5", none("spent", None, true)),
        row("q6", none("division by zero", Some(failure()), false)),
        row("", none("", None, false)),
    ]
}

#[test]
fn answers_and_why_there_are_none_are_read_as_they_were_written() {
    check_round_trip(&answers());
}

#[test]
fn answers_of_earlier_versions_are_whole_and_failed_for_no_function_and_no_budget() {
    let read = without(&answers(), &["finish", "budget", "function_error"]).unwrap();
    let expected: Vec<AnswerRow> = answers()
        .into_iter()
        .map(|row| AnswerRow {
            answer: row.answer.map(|answer| Answer { finish: Finish::Stop, ..answer }).map_err(|error| NoAnswer {
                function: None,
                budget: false,
                ..error
            }),
            ..row
        })
        .collect();
    assert_eq!(read, expected);
}

#[test]
fn an_answer_that_is_missing_leaves_the_score_missing_for_the_same_reason() {
    let no_answer = |function, budget| NoAnswer { reason: "late".to_owned(), function, budget };
    let late = || "late".to_owned();
    assert_eq!(no_answer(None, false).missing(), Missing::ProviderError(late()));
    assert_eq!(no_answer(None, true).missing(), Missing::Budget(late()));
    assert_eq!(no_answer(Some(failure()), false).missing(), Missing::FunctionError(failure()));
    assert_eq!(
        no_answer(Some(failure()), true).missing(),
        Missing::FunctionError(failure()),
        "the function goes first"
    );
}

fn chunks() -> Vec<Chunk> {
    let chunk = Chunk {
        document: "a/b ü.md".to_owned(),
        number: u32::MAX,
        span: Span { start: 7, end: 1 << 40 },
        text: "The mill.".to_owned(),
        searchable: true,
        level: 2,
        parent: Some(0),
        previous: Some(1),
        next: Some(2),
        page: Some(3),
        book: Some("Mills".to_owned()),
        heading: Some("A > B; C".to_owned()),
        metadata: [("year".to_owned(), json!(1700)), ("tags".to_owned(), json!(["oats"]))].into(),
        space: "\n\n\n".into(),
    };
    vec![chunk, Chunk::default()]
}

#[test]
fn chunks_are_read_as_they_were_written_and_earlier_ones_without_metadata_and_space() {
    check_round_trip(&chunks());
    let read = without(&chunks(), &["metadata", "space"]).unwrap();
    let expected: Vec<Chunk> =
        chunks().into_iter().map(|chunk| Chunk { metadata: Default::default(), space: "".into(), ..chunk }).collect();
    assert_eq!(read, expected);
}

fn documents() -> Vec<DocumentRow> {
    let document = json!({
        "path": "a.md", "content": Key::of_bytes(b"a").hex(), "format": "markdown", "title": "Mills", "author": "Monks",
        "text": "# Mills\n\nOats.", "pages": [{ "number": 1, "span": { "start": 0, "end": 5 } }],
        "headings": [{ "start": 0, "level": 1, "title": "Mills" }], "metadata": { "year": 1700 },
    });
    let document: Document = serde_json::from_value(document).unwrap();
    let bare = Document {
        path: "b.txt".to_owned(),
        title: None,
        author: None,
        text: String::new(),
        pages: Vec::new(),
        headings: Vec::new(),
        metadata: Default::default(),
        tables: Vec::new(),
        problems: Vec::new(),
        ..document.clone()
    };
    let rejected = Rejected { path: "c.pdf".to_owned(), reason: LoadError::UnknownFormat("x".to_owned()) };
    vec![DocumentRow::Document(document), DocumentRow::Rejected(rejected), DocumentRow::Document(bare)]
}

#[test]
fn documents_and_files_that_gave_none_are_read_as_they_were_written() {
    check_round_trip(&documents());
    let read = without(&documents(), &["metadata"]).unwrap();
    let has_metadata = |row: &DocumentRow| matches!(row, DocumentRow::Document(it) if !it.metadata.is_empty());
    assert!(has_metadata(&documents()[0]) && !read.iter().any(has_metadata), "earlier versions had none");
    assert_eq!(read[1..], documents()[1..]);
}

#[test]
fn enriched_texts_are_read_as_they_were_written() {
    let row = |number, fallback: Option<&str>| EnrichedRow {
        document: "a.md".to_owned(),
        number,
        text: "Mills: oats".to_owned(),
        fallback: fallback.map(str::to_owned),
    };
    check_round_trip(&[row(0, None), row(u32::MAX, Some("the reply is empty")), row(1, Some(""))]);
}

fn passages() -> Vec<PassageRow> {
    let whole = Passage {
        span: Span { start: 3, end: 1 << 40 },
        score: -0.1,
        page: Some(2),
        book: Some("Mills".to_owned()),
        heading: Some("A > B".to_owned()),
        rows: vec![7, 0, 7],
        parts: vec![Span { start: 3, end: 4 }, Span { start: 9, end: 12 }],
        ..Passage::of_text("a.md".to_owned(), "Oats.".to_owned())
    };
    let bare = Passage::of_text(String::new(), String::new());
    let row = |rank, passage, remarks: &[&str]| PassageRow {
        question: "q1".to_owned(),
        rank,
        passage,
        remarks: remarks.iter().map(|remark| (*remark).to_owned()).collect(),
    };
    vec![row(1, Some(whole), &["searched again"]), row(2, Some(bare), &[]), row(0, None, &["nothing", "found"])]
}

#[test]
fn passages_and_remarks_without_passages_are_read_as_they_were_written() {
    check_round_trip(&passages());
    let read = without(&passages(), &["parts", "remarks"]).unwrap();
    assert!(read.iter().all(|row| row.remarks.is_empty()));
    assert_eq!(read[1], passages()[1]);
    assert_eq!(read[2].passage, None, "the rank says that there is none");
}

#[test]
fn queries_are_read_as_they_were_written() {
    let filter = serde_json::from_value(json!({ "year": { "ge": 1700 } })).unwrap();
    let whole = SearchQuery {
        words: "mill oats".to_owned(),
        text: "What does the mill grind?".to_owned(),
        hypothetical_passages: vec!["It grinds oats.".to_owned(), String::new()],
        filter: Some(filter),
    };
    let row = |number, query, fallback: Option<&str>| QueryRow {
        question: "q1".to_owned(),
        number,
        query,
        fallback: fallback.map(str::to_owned),
    };
    check_round_trip(&[row(1, whole, None), row(2, "mill".into(), Some("down"))]);
}

fn scores(scores: Vec<Score>) -> Vec<ScoreRow> {
    let row = |(i, score)| ScoreRow { question: format!("q{i}"), scored: Scored { score, detail: json!({ "i": i }) } };
    scores.into_iter().enumerate().map(row).collect()
}

#[test]
fn scores_and_why_they_are_missing_are_read_as_they_were_written() {
    let text = || "text".to_owned();
    check_round_trip(&scores(vec![
        Score::Value(0.1 + 0.2),
        Score::Value(-0.0),
        Score::Value(f64::MIN_POSITIVE),
        Score::Missing(Missing::ProviderError(text())),
        Score::Missing(Missing::Budget(text())),
        Score::Missing(Missing::FunctionError(failure())),
        Score::Missing(Missing::JudgeUnparsable(text())),
        Score::Missing(Missing::EmptyInput(text())),
        Score::Missing(Missing::NoPlace(text())),
        Score::Missing(Missing::PassagesWithoutPlace),
        Score::Missing(Missing::NotApplicable(text())),
        Score::Missing(Missing::NotFinite(text())),
    ]));
}

#[test]
fn a_score_that_is_no_number_is_missing_and_one_without_value_and_reason_is_damage() {
    for value in [f64::NAN, f64::INFINITY] {
        let read: Vec<ScoreRow> = decode(encode(&scores(vec![Score::Value(value)])).unwrap()).unwrap();
        assert_eq!(read[0].scored.score, Score::Missing(Missing::NotFinite(value.to_string())));
    }
    let neither = TableColumns::default()
        .text("question", ["q1"].into_iter())
        .optional_f64("value", [None].into_iter())
        .json("missing", [None::<Missing>].into_iter())
        .json("detail", [()].into_iter());
    let error = decode::<ScoreRow>(write(&neither.batch().unwrap()).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "a table of the store cannot be used: a score with neither value nor reason");
}

#[test]
fn vectors_are_read_as_they_were_written_to_the_last_bit() {
    let numbers = [0.1, -3.5e-8, f32::MIN_POSITIVE, 1.0 / 3.0, -0.0, f32::MAX];
    for (columns, rows) in [(1, 1), (2, 3), (6, 1), (3, ROWS_AT_ONCE * 2 + 1)] {
        let data: Vec<f32> = numbers.iter().copied().cycle().take(columns * rows).collect();
        let matrix = Matrix { columns, data };
        let read = decode_vectors(encode_vectors(&matrix).unwrap()).unwrap();
        let bits = |matrix: &Matrix| matrix.data.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!((read.columns, bits(&read)), (columns, bits(&matrix)), "{columns} × {rows}");
    }
    let nothing = decode_vectors(encode_vectors(&Matrix::default()).unwrap()).unwrap();
    assert_eq!((nothing.rows(), nothing.data.len()), (0, 0));
}

#[test]
fn a_table_of_another_kind_is_refused_by_the_column_that_it_lacks() {
    let refused = |found: Result<(), Error>| found.unwrap_err().to_string();
    let lacks = |column: &str| {
        format!("a table of the store cannot be used: the column `{column}` is missing or of another type")
    };
    let scores = encode(&scores(vec![Score::Value(1.0)])).unwrap();
    let vectors = encode_vectors(&Matrix { columns: 1, data: vec![1.0] }).unwrap();
    assert_eq!(refused(decode::<AnswerRow>(scores.clone()).map(drop)), lacks("text"));
    assert_eq!(refused(decode::<Chunk>(scores.clone()).map(drop)), lacks("document"));
    assert_eq!(refused(decode::<DocumentRow>(scores.clone()).map(drop)), lacks("path"));
    assert_eq!(refused(decode::<PassageRow>(scores.clone()).map(drop)), lacks("rank"));
    assert_eq!(refused(decode::<QueryRow>(scores.clone()).map(drop)), lacks("number"));
    assert_eq!(refused(decode::<EnrichedRow>(scores.clone()).map(drop)), lacks("document"));
    assert_eq!(refused(decode_vectors(scores).map(drop)), lacks("vector"));
    assert_eq!(refused(decode::<ScoreRow>(vectors).map(drop)), lacks("question"));
    // A column of the right name and another type.
    let other = TableColumns::default().u64("question", [7].into_iter());
    assert_eq!(refused(decode::<ScoreRow>(write(&other.batch().unwrap()).unwrap()).map(drop)), lacks("question"));
    for column in ["question", "text", "citations", "dropped_passages", "calls", "seconds", "error"] {
        assert_eq!(refused(without(&answers(), &[column]).map(drop)), lacks(column));
    }
}

#[test]
fn bytes_that_are_cut_off_or_changed_at_their_end_are_no_table() {
    let whole = encode(&answers()).unwrap();
    check(whole.clone()).unwrap();
    let mut changed = whole.to_vec();
    *changed.last_mut().unwrap() ^= 1;
    let damaged = [
        Bytes::new(),
        Bytes::from_static(b"PAR1"),
        whole.slice(..whole.len() - 1),
        whole.slice(..whole.len() / 2),
        whole.slice(1..),
        Bytes::from(changed),
    ];
    for bytes in damaged {
        let n_bytes = bytes.len();
        assert!(check(bytes.clone()).is_err(), "{n_bytes} of {} bytes", whole.len());
        assert!(decode::<AnswerRow>(bytes).is_err());
    }
}

#[test]
fn nested_values_that_cannot_be_read_are_damage_and_not_empty() {
    let row = &answers()[0];
    let mut batch = to_batch(std::slice::from_ref(row)).unwrap();
    let at = batch.schema().index_of("citations").unwrap();
    batch.remove_column(at);
    let mut columns: Vec<(Field, ArrayRef)> = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| ((**field).clone(), column.clone()))
        .collect();
    columns.push((Field::new("citations", DataType::Utf8, false), Arc::new(StringArray::from(vec!["[1,"]))));
    let broken = write(&TableColumns(columns).batch().unwrap()).unwrap();
    let error = decode::<AnswerRow>(broken).unwrap_err().to_string();
    assert!(error.contains("EOF while parsing"), "{error}");
}

#[test]
fn every_table_says_the_version_of_its_columns() {
    let schema = schema::<ScoreRow>().unwrap();
    assert_eq!(schema.metadata()["reverie.version"], VERSION.to_string());
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["question", "value", "missing", "detail"]);
    let nullable: Vec<bool> = schema.fields().iter().map(|field| field.is_nullable()).collect();
    assert_eq!(nullable, [false, true, false, false]);
}
