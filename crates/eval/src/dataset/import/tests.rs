//! Tests of the import.

use super::super::{Origin, Review, Split};
use super::*;
use crate::dataset::{Length, QuestionKind, QuestionStyle};
use rag::Span;

fn faults(name: &str, text: &str) -> Vec<(usize, String)> {
    import(name, text.as_bytes()).unwrap_err().into_iter().map(|error| (error.line, error.reason())).collect()
}

fn lines(name: &str, text: &str) -> Vec<usize> {
    faults(name, text).into_iter().map(|fault| fault.0).collect()
}

fn one(name: &str, text: &str) -> Question {
    let mut questions = import(name, text.as_bytes()).unwrap().questions;
    assert_eq!(questions.len(), 1);
    questions.remove(0)
}

#[test]
fn own_files_survive_a_round_trip() {
    let dataset = Dataset {
        questions: vec![
            Question {
                id: "a".into(),
                question: "What is “APT”?".into(),
                reference: Some("A tool,\nno more.".into()),
                evidence: vec![Evidence {
                    document: "x/y.pdf".into(),
                    quote: "APT is".into(),
                    span: Some(Span { start: 3, end: 9 }),
                }],
                tags: vec!["t".into()],
                answerable: true,
                ..Question::default()
            },
            Question {
                id: "7".into(),
                turns: Vec::new(),
                filter: None,
                attack: None,
                draft: None,
                question: "Why?".into(),
                reference: None,
                evidence: Vec::new(),
                tags: Vec::new(),
                answerable: false,
                origin: Some(Origin {
                    kind: QuestionKind::Unanswerable,
                    persona: Some("Nurse".into()),
                    style: QuestionStyle::WebSearch,
                    length: Length::Short,
                    model: "m".into(),
                }),
                split: Some(Split::Test),
                review: Some(Review::Edited),
            },
        ],
    };
    let jsonl = dataset.to_jsonl().unwrap();
    assert_eq!(jsonl.matches("\"answerable\"").count(), 1, "only what is not so is written");
    assert_eq!(import("golden.jsonl", jsonl.as_bytes()), Ok(dataset.clone()));
    let with_mark = [b"\xEF\xBB\xBF", jsonl.replace('\n', "\r\n\r\n").as_bytes()].concat();
    assert_eq!(import("golden", &with_mark), Ok(dataset));
    let late_fault = [with_mark, b"{\"id\": \"z\", \"qestion\": \"\"}".to_vec()].concat();
    assert_eq!(import("golden", &late_fault).unwrap_err().len(), 2);
}

#[test]
fn own_columns_are_read_from_csv() {
    let csv = "id,question,reference,evidence,tags\n\
               7,\"What, then?\",It,\"[{\"\"document\"\": \"\"a.txt\"\", \"\"quote\"\": \"\"q\"\"}]\",\"x, y\"\n";
    let question = one("g.csv", csv);
    assert_eq!((question.id.as_str(), question.question.as_str()), ("7", "What, then?"));
    assert_eq!(question.evidence, [Evidence { document: "a.txt".into(), quote: "q".into(), span: None }]);
    assert_eq!(question.tags, ["x", "y"]);
}

#[test]
fn a_test_set_of_ragas_0_1_is_read() {
    let csv = "question,contexts,ground_truth,evolution_type,metadata,episode_done\n\
               Why?,\"['It is\\nso', \"\"isn't it\"\"]\",Because,simple,\"[{'filename': 'a'}]\",True\n";
    let question = one("testset.csv", csv);
    assert_eq!(question.reference.as_deref(), Some("Because"));
    let quotes: Vec<&str> = question.evidence.iter().map(|evidence| evidence.quote.as_str()).collect();
    assert_eq!(quotes, ["It is\nso", "isn't it"]);
    assert!(question.evidence.iter().all(|evidence| evidence.document.is_empty()));
    assert_eq!(question.tags, ["simple"]);
    assert!(question.id.starts_with("q-"));
}

#[test]
fn contexts_beside_an_answer_were_retrieved_and_are_no_evidence() {
    let row = r#"{"question": "Why?", "answer": "So", "contexts": ["x"], "ground_truth": "Because"}"#;
    let question = one("g.jsonl", row);
    assert!(question.evidence.is_empty());
    assert_eq!(question.reference.as_deref(), Some("Because"));
}

#[test]
fn a_test_set_of_newer_ragas_is_read() {
    let row = r#"{"user_input": "Why?", "reference": "Because", "reference_contexts": ["<1-hop>\n\none", "<2-hop>\n\ntwo"],
        "retrieved_contexts": ["z"], "response": "So", "synthesizer_name": "multi"}"#;
    let question = one("g.jsonl", &row.replace('\n', " "));
    let quotes: Vec<&str> = question.evidence.iter().map(|evidence| evidence.quote.as_str()).collect();
    assert_eq!(quotes, ["one", "two"]);
    assert_eq!((question.reference.as_deref(), question.tags.as_slice()), (Some("Because"), &["multi".to_owned()][..]));
}

#[test]
fn an_answer_is_the_reference_where_nothing_else_could_be() {
    assert_eq!(one("g.csv", "question,answer\nWhy?,So\n").reference.as_deref(), Some("So"));
    assert_eq!(one("g.csv", "question;answer\nWhy?;So, yes\n").reference.as_deref(), Some("So, yes"));
    assert_eq!(one("g.jsonl", r#"{"question": "Why?", "answer": "So", "contexts": []}"#).reference, None);
    assert_eq!(one("g.csv", "question,ground_truth\nWhy?,nan\n").reference, None);
    assert_eq!(one("g.jsonl", r#"{"question": "Why?", "ground_truths": ["a", "b"]}"#).reference.as_deref(), Some("a"));
}

#[test]
fn ids_made_of_words_do_not_depend_on_the_order() {
    let ids = |text: &str| -> Vec<String> {
        import("g.csv", text.as_bytes()).unwrap().questions.into_iter().map(|question| question.id).collect()
    };
    let (forth, mut back) = (ids("question\nA?\nB?\n"), ids("question\nB?\nA?\n"));
    back.reverse();
    assert_eq!(forth, back);
}

#[test]
fn all_faults_are_told_with_their_lines() {
    let text = "{\"id\": \"a\", \"question\": \"A?\"}\n\
                not json\n\
                \n\
                {\"id\": \"a\", \"question\": \" \"}\n\
                {\"id\": \"b\", \"question\": \"B?\", \"evidense\": []}\n\
                {\"id\": \"c\", \"question\": \"C?\", \"reference\": NaN}\n\
                [1]\n\
                {\"id\": \"d\", \"question\": [1], \"tags\": 3}\n\
                {\"id\": \"e\", \"question\": \"E?\", \"evidence\": [{\"quote\": \" \"}, {\"document\": \"x\"}, {\"quote\": \"x\", \"span\": {\"start\": 3, \"end\": 1}}]}";
    assert_eq!(lines("g.jsonl", text), [2, 4, 4, 5, 6, 7, 8, 8, 9, 9, 9]);
    let messages = faults("g.jsonl", text);
    assert!(messages[3].1.contains("`evidence`"), "{messages:?}");
    assert!(messages[4].1.contains("write null"), "{messages:?}");
    let first = &import("g.jsonl", text.as_bytes()).unwrap_err()[1];
    assert_eq!(first.to_string(), "g.jsonl:4: has an empty question: write one, or remove the line");
}

#[test]
fn the_lines_of_csv_count_line_ends_within_fields() {
    for end in ["\n", "\r\n"] {
        let text = ["id,question", "1,\"two", "lines\"", "2,", "1,again", "3,too,many", "4,ok"].join(end);
        assert_eq!(lines("g.csv", &text), [4, 5, 6], "{end:?}");
    }
}

#[test]
fn faults_of_a_csv_header_are_told_once() {
    assert_eq!(lines("g.csv", "qestion,reference\na,b\nc,d\n"), [1, 1]);
    assert_eq!(lines("g.csv", "question,user_input\na,b\nc,d\n"), [1]);
    assert_eq!(lines("g.csv", "question,question\na,b\n"), [1]);
    assert_eq!(one("g.csv", ",question,my notes\n0,Why?,x\n").question, "Why?");
}

#[test]
fn the_same_question_twice_is_a_fault() {
    assert_eq!(lines("g.csv", "question\nWhy?\nHow?\nWhy?\n"), [4]);
}

#[test]
fn files_without_questions_are_refused() {
    assert_eq!(lines("g.jsonl", ""), [1]);
    assert_eq!(lines("g.csv", ""), [1]);
    assert_eq!(lines("g.csv", "question\n"), [1]);
    let array = faults("g.json", "[{\"question\": \"Why?\"},\n{\"question\": \"How?\"}]");
    assert!(array.len() == 1 && array[0].1.contains("jq"), "{array:?}");
    assert_eq!(import("g.jsonl", b"{\"question\": \"\xFF\"}").unwrap_err()[0].line, 1);
    assert_eq!(import("g.csv", b"question\n\xFF\n").unwrap_err()[0].line, 2);
}

#[test]
fn unanswerable_questions_are_marked_and_have_no_evidence() {
    let answerable = |row: &str| one("g.jsonl", row).answerable;
    assert!(answerable(r#"{"question": "Why?"}"#) && answerable(r#"{"question": "Why?", "answerable": null}"#));
    assert!(!answerable(r#"{"question": "Why?", "answerable": false}"#));
    assert!(!answerable(r#"{"question": "Why?", "is_impossible": true}"#));
    assert!(!one("g.csv", "question,answerable\nWhy?,False\n").answerable);
    assert_eq!(lines("g.jsonl", r#"{"question": "Why?", "answerable": "perhaps"}"#), [1]);
    assert_eq!(lines("g.jsonl", r#"{"question": "Why?", "answerable": true, "is_impossible": false}"#), [1]);
    assert_eq!(lines("g.jsonl", r#"{"question": "Why?", "answerable": false, "evidence": [{"quote": "q"}]}"#), [1]);
}

#[test]
fn rows_of_a_program_are_the_same_questions_and_are_told_by_their_numbers_from_0() {
    let rows = |text: &str| -> Vec<Map<String, Value>> { serde_json::from_str(text).unwrap() };
    let text = r#"{"question": "Why?", "reference": "So.", "quote": "so it is", "document": "a.md", "note": "x"}"#;
    let RowQuestions { dataset, ignored } = read_questions(&rows(&format!("[{text}]"))).unwrap();
    assert_eq!(dataset, import("a.jsonl", text.as_bytes()).unwrap());
    assert_eq!(ignored.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["note"]);
    let faults =
        read_questions(&rows(r#"[{"question": "Why?"}, {"question": ""}, {"question": "Why?"}]"#)).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.number).collect::<Vec<_>>(), [1, 2]);
    assert!(
        faults[0].to_string().contains("remove the row") && faults[1].to_string().contains("of row 0"),
        "{faults:?}"
    );
}

#[test]
fn a_question_comes_with_what_was_said_before_it() {
    let line = r#"{"question": "When?", "turns": [{"role": "user", "content": "Who built it?"}, {"role": "assistant", "content": "Jan."}]}"#;
    let read = one("a.jsonl", line);
    assert_eq!(read.turns, [models::Message::user("Who built it?"), models::Message::assistant("Jan.")]);
    assert_ne!(read.id, one("a.jsonl", r#"{"question": "When?"}"#).id, "it is another question");
    let cell =
        "question,history\nWhen?,\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"Who built it?\"\"}]\"\nWho?,\n";
    let table = import("a.csv", cell.as_bytes()).unwrap().questions;
    assert_eq!((table[0].turns.len(), table[1].turns.len()), (1, 0));
    let wrong = faults("a.jsonl", r#"{"question": "When?", "turns": ["Who built it?"]}"#);
    assert!(wrong[0].1.contains("message 1 has no role"), "{wrong:?}");
}

#[test]
fn lines_with_mistakes_are_left_out_and_named() {
    let text = concat!(
        "{\"question\": \"One?\"}\n",
        "no JSON\n",
        "{\"question\": \"Three?\", \"answerable\": false, \"evidence\": [{\"quote\": \"x\"}]}\n",
        "{\"question\": \"One?\"}\n",
        "{\"question\": \"Five?\"}\n"
    );
    let read = import_readable("a.jsonl", text.as_bytes()).unwrap();
    let questions: Vec<_> = read.questions.iter().map(|(line, question)| (*line, question.question.as_str())).collect();
    assert_eq!(questions, [(1, "One?"), (5, "Five?")]);
    assert_eq!(read.faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn a_file_without_a_line_that_can_be_read_is_refused() {
    for (name, text) in [
        ("a.jsonl", ""),
        ("a.jsonl", "[\n{\"question\": \"One?\"}\n]\n"),
        ("a.jsonl", "no JSON\n"),
        ("a.csv", "query,reference\nOne?,1\n"),
        ("a.csv", "question,question\nOne?,Two?\n"),
    ] {
        assert!(!import_readable(name, text.as_bytes()).unwrap_err().is_empty(), "{name}: {text}");
    }
    assert_eq!(import_readable("a.csv", b"question,reference\nOne?,1\n,2\n").unwrap().questions.len(), 1);
}
