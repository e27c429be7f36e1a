//! What is told of an experiment, its documents and its questions since a run.

use super::{
    super::{
        IndexedDocument, RunProvenance,
        fixture::{finish, provenance, session, text},
    },
    *,
};

fn experiment(space: &str, rest: &str) -> Experiment {
    let text = format!("name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\n{space}\n{rest}");
    Experiment::parse(&text, ".").unwrap()
}

#[test]
fn what_was_removed_added_and_reordered_is_told_in_a_line_each() {
    let then = experiment("chunker = [\"sentence\", \"token\"]\nretriever = [\"bm25\", { bm25 = { top_k = 9 } }]", "");
    let now =
        experiment("chunker = [\"token\", \"sentence_window\"]\nretriever = [{ bm25 = { top_k = 9 } }, \"bm25\"]", "");
    assert_eq!(
        of_experiment(&then, &now),
        [
            "chunker `sentence` was removed from the experiment file",
            "chunker `sentence_window` was added",
            "the values of `retriever` are in another order: a next run would number its trials differently",
        ]
    );
    assert!(of_experiment(&then, &then).is_empty());
    let resized = experiment(
        "chunker = [{ sentence = { chunk_size = 777 } }, \"token\"]\nretriever = [\"bm25\", { bm25 = { top_k = 9 } }]",
        "",
    );
    let told = of_experiment(&then, &resized);
    assert!(told.len() == 2 && told[1].contains("chunk_size=777"), "{told:?}");
}

#[test]
fn sections_and_models_that_changed_are_named() {
    let space = "chunker = \"sentence\"\nretriever = \"bm25\"";
    let model = |size: usize| {
        format!(
            "[models.m]\nembedding.openai = {{ model = \"m\", base_url = \"http://127.0.0.1:1\", batch_size = {size} }}\n"
        )
    };
    let (then, now) = (
        experiment(space, &model(1)),
        experiment(space, &format!("{}[search]\nrandom = {{ share = 0.5 }}\n", model(2))),
    );
    assert_eq!(of_experiment(&then, &now), ["models.m was changed", "[search] was changed"]);
    assert_eq!(of_experiment(&then, &experiment(space, "")), ["models.m was removed"]);
}

#[test]
fn questions_are_compared_by_what_they_say() {
    let question =
        |id: &str, text: &str| Question { id: id.to_owned(), question: text.to_owned(), ..Question::default() };
    let then = [question("a", "1"), question("b", "2"), question("c", "3")];
    let now = [question("a", "1"), question("b", "other"), question("d", "4")];
    assert_eq!(of_dataset(&then, &now).unwrap(), "the dataset was changed: questions 1 added, 1 removed, 1 changed");
    assert_eq!(of_dataset(&then, &then), None);
}

#[test]
fn names_are_listed_up_to_three() {
    for (names, expected) in [
        (&[][..], ""),
        (&["a"], "a"),
        (&["a", "b", "c"], "a, b, c"),
        (&["a", "b", "c", "d"], "a, b, c, …"),
        (&["a", "b", "c", "d", "e"], "a, b, c, …"),
    ] {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(some_of(&names), expected);
    }
    assert_eq!([0, 1, 2].map(n_documents), ["0 documents", "1 document", "2 documents"]);
}

#[test]
fn each_part_of_a_question_that_is_asked_or_expected_counts() {
    let quote = |document: &str, quote: &str| Evidence { document: document.into(), quote: quote.into(), span: None };
    let before = Question {
        id: "a".to_owned(),
        question: "Why?".to_owned(),
        reference: Some("So.".to_owned()),
        evidence: vec![quote("d.txt", "because")],
        ..Question::default()
    };
    type Change = fn(&mut Question);
    let table: [(&str, Change, Option<&str>); 15] = [
        ("nothing", |_| {}, None),
        ("the id", |it| it.id = "b".to_owned(), None),
        ("tags", |it| it.tags = vec!["new".to_owned()], None),
        ("the split", |it| it.split = Some(eval::dataset::Split::Test), None),
        ("a draft", |it| it.draft = Some("A draft.".to_owned()), None),
        ("a span, which is found anew", |it| it.evidence[0].span = Some(rag::Span { start: 1, end: 8 }), None),
        ("a document that was filled in", |it| it.evidence[0].document = String::new(), None),
        ("the text", |it| it.question = "Why not?".to_owned(), Some("its text")),
        ("earlier messages", |it| it.turns = vec![models::Message::user("Hello")], Some("what was said before it")),
        ("the reference", |it| it.reference = None, Some("its reference answer")),
        ("the quote", |it| it.evidence[0].quote = "since".to_owned(), Some("its evidence")),
        ("the document", |it| it.evidence[0].document = "e.txt".to_owned(), Some("its evidence")),
        ("less evidence", |it| it.evidence.clear(), Some("its evidence")),
        ("whether it can be answered", |it| it.answerable = false, Some("whether it can be answered")),
        (
            "the filter",
            |it| it.filter = serde_json::from_value(serde_json::json!({ "year": 2020 })).unwrap(),
            Some("its filter"),
        ),
    ];
    for (case, change, expected) in table {
        let mut after = before.clone();
        change(&mut after);
        assert_eq!(what_differs(&before, &after), expected, "{case}");
        assert_eq!(what_differs(&after, &before), expected, "{case}, the other way round");
    }
    // Of several changes, the first is reported.
    let other = Question { question: "Who?".to_owned(), reference: None, ..before.clone() };
    assert_eq!(what_differs(&before, &other), Some("its text"));
    // A further piece of evidence is a change.
    let mut more = before.clone();
    more.evidence.push(quote("d.txt", "moreover"));
    assert_eq!(what_differs(&before, &more), Some("its evidence"));
}

#[test]
fn only_the_kinds_of_changes_that_there_are_are_counted() {
    let questions = |texts: &[(&str, &str)]| {
        let question = |(id, text): &(&str, &str)| Question {
            id: (*id).to_owned(),
            question: (*text).to_owned(),
            ..Question::default()
        };
        texts.iter().map(question).collect::<Vec<_>>()
    };
    let then = questions(&[("a", "1"), ("b", "2")]);
    for (now, expected) in [
        (&[("a", "1"), ("b", "2")][..], None),
        (&[("b", "2"), ("a", "1")], None),
        (&[("a", "1")], Some("1 removed")),
        (&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")], Some("2 added")),
        (&[("a", "9"), ("b", "9")], Some("2 changed")),
        (&[], Some("2 removed")),
        (&[("a", "9"), ("c", "3")], Some("1 added, 1 removed, 1 changed")),
    ] {
        let expected = expected.map(|counts| format!("the dataset was changed: questions {counts}"));
        assert_eq!(of_dataset(&then, &questions(now)), expected, "{now:?}");
    }
}

#[test]
fn an_axis_tells_what_came_and_went_and_whether_the_rest_is_in_another_order() {
    let values = |names: &[&str]| names.iter().map(|name| serde_json::json!({ *name: {} })).collect::<Vec<Value>>();
    let lines = |then: &[&str], now: &[&str]| {
        let mut lines = Vec::new();
        axis(&mut lines, "chunker", &values(then), &values(now));
        lines
    };
    let order = "the values of `chunker` are in another order: a next run would number its trials differently";
    let (removed, added) = (
        |name: &str| format!("chunker `{name}` was removed from the experiment file"),
        |name: &str| format!("chunker `{name}` was added"),
    );
    assert!(lines(&[], &[]).is_empty() && lines(&["a", "b"], &["a", "b"]).is_empty());
    assert_eq!(lines(&["a"], &["b"]), [removed("a"), added("b")]);
    assert_eq!(lines(&[], &["a", "b"]), [added("a"), added("b")]);
    assert_eq!(lines(&["a", "b", "c"], &["a", "c"]), [removed("b")], "what is left keeps its order");
    assert_eq!(lines(&["a", "b"], &["c", "a", "b"]), [added("c")], "and so does what was put before it");
    assert_eq!(lines(&["a", "b"], &["b", "a"]), [order]);
    assert_eq!(lines(&["a", "b", "c"], &["c", "d", "a"]), [removed("b"), added("d"), order.to_owned()]);
}

#[test]
fn what_cannot_change_the_results_of_a_run_is_not_told() {
    let space = "chunker = \"sentence\"\nretriever = \"bm25\"";
    let then = experiment(space, "");
    assert!(of_experiment(&then, &experiment(space, "[engine.local]\ntasks = 3\n")).is_empty());
    let evaluated = "[dataset]\npath = \"g.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\n";
    assert_eq!(
        of_experiment(&then, &experiment(space, evaluated)),
        ["[dataset] was changed", "[evaluate] was changed"]
    );
}

const SPACE: &str = "chunker = \"sentence\"\nretriever = \"bm25\"";

/// A session whose corpus has these files, and a record of a run that read them long after they were written.
async fn recorded(folder: &std::path::Path, files: &[(&str, &str)]) -> (Session, RunRecord) {
    std::fs::create_dir_all(folder.join("docs")).unwrap();
    files.iter().for_each(|(name, text)| std::fs::write(folder.join("docs").join(name), text).unwrap());
    let question = r#"{"id":"a","question":"Why?"}"#;
    std::fs::write(folder.join("golden.jsonl"), question).unwrap();
    let session = session(folder, &text(SPACE, "metrics = [\"recall\"]"));
    let documents = files.iter().map(|(name, text)| IndexedDocument {
        path: (*name).to_owned(),
        bytes: text.len() as u64,
        key: Key::of_bytes(text.as_bytes()),
    });
    // As if it had been read a day ago: no file is old enough to be taken for the one that was read.
    let read_ms = crate::clock::now_ms() - 86_400_000;
    let provenance = RunProvenance { documents: documents.collect(), read_ms, ..provenance(&session) };
    let mut results = crate::results::fixture::results(1);
    results.questions = vec![Question { id: "a".to_owned(), question: "Why?".to_owned(), ..Question::default() }];
    finish(&session, &results, &provenance).await;
    let record = super::super::latest_record(&session).await.unwrap();
    (session, record)
}

#[tokio::test]
async fn documents_are_told_that_were_added_changed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a", "b", "c", "d", "e"].map(|name| (format!("{name}.txt"), name.repeat(3)));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let (session, record) = recorded(folder.path(), &files).await;
    assert_eq!(changed_since(&session, &record).await, Vec::<String>::new());
    let docs = folder.path().join("docs");
    // Of the same size, and of another.
    std::fs::write(docs.join("a.txt"), "xyz").unwrap();
    std::fs::write(docs.join("b.txt"), "longer").unwrap();
    std::fs::write(docs.join("new.txt"), "n").unwrap();
    std::fs::remove_file(docs.join("c.txt")).unwrap();
    assert_eq!(
        changed_since(&session, &record).await,
        [
            "1 document was added and is not searched (run again): new.txt",
            "2 documents were changed; the old text is still searched (run again): a.txt, b.txt",
            "1 document was removed and is still searched (run again): c.txt",
        ]
    );
    for name in ["d.txt", "e.txt", "a.txt"] {
        std::fs::remove_file(docs.join(name)).unwrap();
    }
    let lines = changed_since(&session, &record).await;
    let removed = "4 documents were removed and are still searched (run again): a.txt, c.txt, d.txt, …";
    assert_eq!(lines.last().map(String::as_str), Some(removed));
}

#[tokio::test]
async fn a_file_that_is_older_than_the_run_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (session, record) = recorded(folder.path(), &[("a.txt", "aaa")]).await;
    std::fs::write(folder.path().join("docs/a.txt"), "xyz").unwrap();
    assert_eq!(changed_since(&session, &record).await.len(), 1, "of the same size, and it was read");
    // As if it had been read tomorrow: only a file of another size has changed.
    let late = record.provenance().unwrap().read_ms + 2 * 86_400_000;
    let results = record.results(&session).await.unwrap();
    finish(&session, &results, &RunProvenance { read_ms: late, ..record.provenance().unwrap().clone() }).await;
    let record = super::super::latest_record(&session).await.unwrap();
    assert!(changed_since(&session, &record).await.is_empty());
    std::fs::write(folder.path().join("docs/a.txt"), "longer").unwrap();
    assert_eq!(changed_since(&session, &record).await.len(), 1);
}

#[tokio::test]
async fn the_questions_are_compared_with_those_of_the_file_and_a_damaged_file_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (session, record) = recorded(folder.path(), &[("a.txt", "aaa")]).await;
    let golden = folder.path().join("golden.jsonl");
    for (text, expected) in [
        (r#"{"id":"a","question":"Why?"}"#, None),
        (r#"{"id":"a","question":"Who?"}"#, Some("the dataset was changed: questions 1 changed")),
        ("{", Some("the dataset cannot be read now")),
        ("", Some("the dataset cannot be read now")),
    ] {
        std::fs::write(&golden, text).unwrap();
        assert_eq!(changed_since(&session, &record).await, Vec::from_iter(expected), "{text}");
    }
    std::fs::remove_file(&golden).unwrap();
    assert_eq!(changed_since(&session, &record).await, ["the dataset cannot be read now"]);
}

#[tokio::test]
async fn of_a_run_without_a_record_it_is_not_known_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (session, record) = recorded(folder.path(), &[("a.txt", "aaa")]).await;
    let path = crate::layout::RunFileName::Frozen.within(&session.workspace().run_folder(record.id()));
    std::fs::remove_file(path).unwrap();
    let record = super::super::record_of(&session, record.id()).await.unwrap();
    let lines = changed_since(&session, &record).await;
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("what changed since is not known: run zoo-1 of "), "{lines:?}");
}
