//! What is taken out of the files of a run, and what stays.

use super::*;
use serde_json::json;
use std::collections::BTreeSet;

const TEXT: &str = "She breeds black swans in a pond that nobody else may enter.";

fn signs() -> DocumentSigns {
    let mut signs = DocumentSigns::default();
    signs.versions.insert("swans.md".to_owned(), BTreeSet::new());
    signs.fingerprint.add(TEXT);
    signs
}

fn redacted(value: &Value) -> Option<(Value, RedactionCount)> {
    redact_json(value.to_string().as_bytes(), &signs())
}

#[test]
fn passages_answers_and_explanations_go_and_scores_stay() {
    let of_document = json!({
        "question": "pond", "remarks": ["looked again"],
        "passages": [
            { "document": "swans.md", "text": "short", "book": "Swans", "span": { "start": 3, "end": 8 }, "score": 0.5 },
            { "document": "owls.md", "text": "Owls hunt at night.", "book": null, "score": 0.25 },
        ],
        "answer": { "text": "Nobody may.", "citations": [1] },
        "scores": { "recall": { "score": { "value": 1.0 }, "detail": { "statements": ["Nobody may."] } } },
    });
    let other = json!({
        "question": "owls", "passages": [{ "document": "owls.md", "text": "Owls hunt at night." }],
        "answer": { "text": "At night." },
        "scores": { "recall": { "score": { "value": 0.5 }, "detail": { "statements": ["At night."] } } },
    });
    let (found, count) = redacted(&json!({ "trials": [{ "questions": [of_document, other] }] })).unwrap();
    let expected = json!({
        "question": "pond", "remarks": [FORGOTTEN_TEXT],
        "passages": [
            { "document": FORGOTTEN_TEXT, "text": FORGOTTEN_TEXT, "book": FORGOTTEN_TEXT,
              "span": { "start": 3, "end": 8 }, "score": 0.5 },
            { "document": "owls.md", "text": "Owls hunt at night.", "book": null, "score": 0.25 },
        ],
        "answer": { "text": FORGOTTEN_TEXT, "citations": [1] },
        "scores": { "recall": { "score": { "value": 1.0 }, "detail": null } },
    });
    assert_eq!(found["trials"][0]["questions"][0], expected);
    assert_eq!(found["trials"][0]["questions"][1], other);
    assert_eq!(count, RedactionCount { passages: 1, answers: 1, texts: 2 });
    assert!(redact_json(found.to_string().as_bytes(), &signs()).is_none(), "a second time changes nothing");
}

#[test]
fn the_rows_of_a_trial_are_a_table_without_the_document_and_their_scores_stay() {
    use crate::results::fixture;
    use rag::{Answer, Passage};
    let mut results = fixture::results(1);
    fixture::score(&mut results, "recall", &[vec![Some(1.0), Some(0.5), None, Some(0.25), Some(0.0)]]);
    let passage = |document: &str, text: &str| Passage::of_text(document.to_owned(), text.to_owned());
    let questions = &mut results.trials[0].questions;
    questions[0].passages = vec![passage("swans.md", "short"), passage("owls.md", "Owls hunt at night.")];
    questions[0].answer = Some(Answer { text: "Nobody may.".to_owned(), citations: vec![1], ..Answer::default() });
    questions[1].passages = vec![passage("owls.md", "Owls hunt at night.")];
    questions[1].answer = Some(Answer { text: "At night.".to_owned(), ..Answer::default() });
    questions[3].answer = Some(Answer { text: format!("It says: {TEXT}"), ..Answer::default() });
    let row = |result| QuestionRow { trial: "t01".to_owned(), result };
    let rows: Vec<QuestionRow> = questions.clone().into_iter().map(row).collect();
    let (bytes, count) = redact_rows(&artifact::encode(&rows).unwrap(), &signs()).unwrap();
    let found: Vec<QuestionRow> = artifact::decode(bytes.clone()).unwrap();
    assert_eq!(
        (found[1].clone(), found[2].clone(), found[4].clone()),
        (rows[1].clone(), rows[2].clone(), rows[4].clone())
    );
    let first = &found[0].result;
    assert_eq!(
        (first.passages[0].text.as_str(), first.passages[0].document.as_str()),
        (FORGOTTEN_TEXT, FORGOTTEN_TEXT)
    );
    assert_eq!(first.passages[1], rows[0].result.passages[1]);
    assert_eq!(first.answer.as_ref().unwrap().text, FORGOTTEN_TEXT);
    assert_eq!(found[3].result.answer.as_ref().unwrap().text, FORGOTTEN_TEXT);
    for (found, row) in found.iter().zip(&rows) {
        assert_eq!(found.result.scores["recall"].score, row.result.scores["recall"].score);
    }
    assert_eq!((count.passages, count.answers), (1, 2));
    assert!(redact_rows(&bytes, &signs()).is_none(), "a second time changes nothing");
    assert!(redact_rows(b"cut", &signs()).is_none());
    let bare = with_values_only(&rows[2].result);
    assert!(bare.scores["recall"].score.value().is_none() && bare.error.as_deref() == Some(FORGOTTEN_TEXT));
}

#[test]
fn a_document_goes_out_of_the_list_of_documents() {
    let line = |path: &str| format!("{}\n", json!({ "path": path, "bytes": 3, "key": "00" }));
    let list = [line("a/swans.md"), line("swans.md"), line("owls.md")].concat();
    let (left, count) = redact_documents(list.as_bytes(), &signs()).unwrap();
    assert_eq!(String::from_utf8(left.clone()).unwrap(), line("a/swans.md") + &line("owls.md"));
    assert_eq!(count, RedactionCount { texts: 1, ..RedactionCount::default() });
    assert!(redact_documents(&left, &signs()).is_none());
}

#[test]
fn passages_of_a_system_are_found_by_their_words() {
    let reply = json!({
        "question": "pond", "passages": [{ "document": "unknown", "text": format!("It says: {TEXT}") }],
        "answer": { "text": "Nobody." }, "scores": {},
    });
    let (found, _) = redacted(&reply).unwrap();
    assert_eq!(found["passages"][0], json!({ "document": "unknown", "text": FORGOTTEN_TEXT }));
    assert_eq!(found["answer"]["text"], FORGOTTEN_TEXT);
}

#[test]
fn golden_questions_lose_their_quotes_and_references() {
    let questions = json!([
        { "id": "pond", "question": "Who may enter?", "reference": "Nobody.", "draft": "None.",
          "evidence": [{ "document": "swans.md", "quote": "a pond", "span": { "start": 1, "end": 7 } }] },
        { "id": "owls", "question": "When?", "reference": "At night.", "evidence": [{ "document": "owls.md", "quote": "night" }] },
    ]);
    let (found, _) = redacted(&questions).unwrap();
    let hidden = FORGOTTEN_TEXT;
    assert_eq!(
        found[0],
        json!({ "id": "pond", "question": "Who may enter?", "reference": hidden, "draft": hidden,
                "evidence": [{ "document": hidden, "quote": hidden, "span": { "start": 1, "end": 7 } }] })
    );
    assert_eq!(found[1], questions[1]);
}

#[test]
fn a_path_in_a_text_goes_unless_it_is_a_part_of_another() {
    for (text, expected) in [
        ("load swans.md", Some("load [forgotten]")),
        ("swans.md: empty, swans.md", Some("[forgotten]: empty, [forgotten]")),
        ("load black-swans.md", None),
        ("load old/swans.md", None),
        ("swans.mdx", None),
        ("", None),
    ] {
        assert_eq!(without_path(text, "swans.md").as_deref(), expected, "{text}");
    }
}

#[test]
fn the_lines_of_a_log_stay_lines_and_half_a_line_goes_if_it_holds_text() {
    let log =
        format!("{}\n{}\n", json!({ "time_ms": 1, "kind": "a", "label": "load swans.md" }), json!({ "time_ms": 2 }));
    let (lines, count) = redact_lines(log.as_bytes(), &signs()).unwrap();
    let expected =
        format!("{}\n{}\n", json!({ "time_ms": 1, "kind": "a", "label": "load [forgotten]" }), json!({ "time_ms": 2 }));
    assert_eq!((String::from_utf8(lines).unwrap(), count.texts), (expected, 1));
    assert!(redact_lines(b"{\"time_ms\":2}\n{\"half", &signs()).is_none());
    let torn = format!("{{\"time_ms\":2}}\n{{\"text\":\"{TEXT}");
    assert_eq!(redact_lines(torn.as_bytes(), &signs()).unwrap().0, b"{\"time_ms\":2}\n");
}

#[test]
fn an_experiment_stays_one_that_can_be_read() {
    let text = format!(
        "name = \"x\"\n\n[corpus]\nsource = \"d\"\nexclude = [\"swans.md\"]\n\n[dataset]\nrows = [{{ id = \"a\", question = \"Who?\", \
         reference = \"Nobody.\", evidence = [{{ document = \"swans.md\", quote = \"{TEXT}\" }}] }}]\n"
    );
    let (changed, _) = redact_experiment(&text, &signs()).unwrap();
    let value: Value = toml::from_str(&changed).unwrap();
    assert_eq!(value["dataset"]["rows"][0]["evidence"][0]["quote"], FORGOTTEN_TEXT);
    assert_eq!(value["dataset"]["rows"][0]["reference"], FORGOTTEN_TEXT);
    assert_eq!(value["corpus"]["exclude"][0], "swans.md", "a setting of the user's");
    assert!(redact_experiment("name = \"x\"\n", &signs()).is_none());

    let frozen = json!({
        "version": 1, "experiment": text,
        "documents": [{ "path": "swans.md", "bytes": 3, "key": "ab" }, { "path": "owls.md", "bytes": 3, "key": "cd" }],
    });
    let (changed, _) = redact_provenance(frozen.to_string().as_bytes(), &signs()).unwrap();
    assert_eq!(changed["documents"], json!([{ "path": "owls.md", "bytes": 3, "key": "cd" }]));
    assert!(changed["experiment"].as_str().unwrap().contains("name = \"x\""));
    assert!(!changed.to_string().contains("black swans"));
}
