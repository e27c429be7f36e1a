//! Tests of files that are changed and written again.

use super::*;
use crate::Evidence;
use crate::dataset::{Review, Split, import};
use rag::Span;

fn changed(name: &str, bytes: &[u8], change: impl Fn(&mut Question)) -> Vec<u8> {
    let mut file = DatasetFile::read(name, bytes).unwrap();
    file.dataset.questions.iter_mut().for_each(change);
    file.to_bytes().unwrap()
}

fn text(name: &str, text: &str, change: impl Fn(&mut Question)) -> String {
    String::from_utf8(changed(name, text.as_bytes(), change)).unwrap()
}

fn accept(question: &mut Question) {
    question.review = Some(Review::Accepted);
    question.split = Some(Split::Test);
}

#[test]
fn csv_stays_csv_with_every_column_in_its_place() {
    let csv = "difficulty,question,document,quote,my notes,\nhard,\"Why, then?\",a.txt,\"it is, so\",\" keep \",\n,Who?,b.txt,me,,x\n";
    let expected = "difficulty,question,document,quote,my notes,,split,review\nhard,\"Why, then?\",a.txt,\"it is, so\", keep ,,test,accepted\n,Who?,b.txt,me,,x,test,accepted\n";
    assert_eq!(text("g.csv", csv, accept), expected);
    // A second time nothing is added.
    assert_eq!(text("g.csv", expected, accept), expected);
    let questions = import("g.csv", expected.as_bytes()).unwrap().questions;
    let evidence =
        |document: &str, quote: &str| Evidence { document: document.into(), quote: quote.into(), span: None };
    assert_eq!(questions[0].evidence, [evidence("a.txt", "it is, so")]);
    assert_eq!(questions[1].evidence, [evidence("b.txt", "me")]);
}

#[test]
fn marks_semicolons_and_line_ends_stay_as_they_were() {
    let csv = "\u{feff}question;x\r\nWhy?;1,5\r\n";
    assert_eq!(text("g.csv", csv, accept), "\u{feff}question;x;split;review\r\nWhy?;1,5;test;accepted\r\n");
    assert_eq!(
        text("g.tsv", "question\tx\nWhy?\ta b\n", accept),
        "question\tx\tsplit\treview\nWhy?\ta b\ttest\taccepted\n"
    );
}

#[test]
fn json_lines_keep_what_is_not_understood_to_the_digit() {
    let jsonl = "{\"zeta\": 12345678901234567890123, \"question\": \"Why?\", \"nested\": {\"b\": [1, {\"a\": 1.50}], \"a\": \"}\\\"]\"} , \"review\":null}\n{ }".replace("\n{ }", "\n{\"question\":\"Who?\"}");
    let expected = "{\"zeta\": 12345678901234567890123, \"question\": \"Why?\", \"nested\": {\"b\": [1, {\"a\": 1.50}], \"a\": \"}\\\"]\"} , \"review\":\"accepted\", \"split\": \"test\"}\n{\"question\":\"Who?\", \"split\": \"test\", \"review\": \"accepted\"}\n";
    assert_eq!(text("g.jsonl", &jsonl, accept), expected);
    assert_eq!(text("g.jsonl", expected, |_| {}), expected);
}

#[test]
fn an_edited_question_keeps_its_id_and_its_columns() {
    let csv = "user_input,ground_truth\nWhy?,So\nWho?,Me\n";
    let id = import("g.csv", csv.as_bytes()).unwrap().questions[0].id.clone();
    let edited = text("g.csv", csv, |question| {
        if question.question == "Why?" {
            (question.question, question.reference) = ("Why not?".into(), Some("So, and\nso".into()));
        }
    });
    assert_eq!(edited, format!("user_input,ground_truth,id\nWhy not?,\"So, and\nso\",{id}\nWho?,Me,\n"));
    assert_eq!(import("g.csv", edited.as_bytes()).unwrap().questions[0].id, id);
    let several = "{\"question\": \"Why?\", \"ground_truths\": [\"a\", \"b\"]}\n";
    let edited = text("g.jsonl", several, |question| question.reference = Some("c".into()));
    assert!(edited.contains("\"ground_truths\": [\"c\",\"b\"]"), "{edited}");
    let answer = text("g.csv", "question,answer\nWhy?,So\n", |question| question.reference = Some("No".into()));
    assert_eq!(answer, "question,answer\nWhy?,No\n");
}

#[test]
fn places_that_were_found_stand_in_a_column_of_their_own() {
    let csv = "question,contexts\nWhy?,\"['it is so']\"\nWho?,\n";
    let anchored = text("g.csv", csv, |question| {
        for evidence in &mut question.evidence {
            evidence.document = "a.txt".into();
            evidence.span = Some(Span { start: 1, end: 9 });
        }
    });
    assert!(anchored.starts_with("question,contexts,evidence\nWhy?,['it is so'],"), "{anchored}");
    let questions = import("g.csv", anchored.as_bytes()).unwrap().questions;
    assert_eq!((questions[0].evidence[0].document.as_str(), questions[1].evidence.len()), ("a.txt", 0));
}

#[test]
fn removed_questions_leave_and_all_of_them_do_not() {
    let mut file = DatasetFile::read("g.csv", b"question,x\nWhy?,1\nWho?,2\n").unwrap();
    file.dataset.questions.remove(0);
    assert_eq!(file.to_bytes().unwrap(), b"question,x\nWho?,2\n");
    file.dataset.questions.clear();
    assert!(file.to_bytes().unwrap_err().to_string().contains("g.csv"));
}

#[test]
fn what_a_file_cannot_hold_is_refused_by_name() {
    let mut file = DatasetFile::read("g.csv", b"id,question\na,Why?\n").unwrap();
    file.dataset.questions[0].reference = Some("nan".into());
    let refused = file.to_bytes().unwrap_err().to_string();
    assert!(refused.contains("reference") && refused.contains("`a`"), "{refused}");
}

#[test]
fn columns_that_are_not_used_are_named_with_what_to_do() {
    let csv = "question,source_text,filename,Quote,response,mood\nWhy?,it is,a.txt,x,So,\nWho?,,,,,\n";
    let file = DatasetFile::read("g.csv", csv.as_bytes()).unwrap();
    let found: Vec<(&str, usize, &str)> = file
        .ignored
        .iter()
        .map(|column| (column.name.as_str(), column.rows, column.hint.as_deref().unwrap_or("")))
        .collect();
    let hints = ["name it `quote`", "name it `document`", "name it `quote` to use it", "a system's output", ""];
    let names = [("source_text", 1), ("filename", 1), ("Quote", 1), ("response", 1), ("mood", 0)];
    for (((name, rows, hint), wanted), (expected, n)) in found.iter().zip(hints).zip(names) {
        assert!((*name, *rows) == (expected, n) && hint.contains(wanted), "{name}: {hint}");
    }
    let report = file.report();
    assert_eq!((report.questions, report.with_evidence, report.without_evidence), (2, 0, 2));
    let alone = DatasetFile::read("g.csv", b"question,document\nWhy?,a.txt\n").unwrap();
    assert!(alone.ignored[0].hint.as_deref().unwrap().contains("`quote`"));
}

#[test]
fn lists_of_quotes_go_with_one_document_or_as_many() {
    let rows = "{\"question\": \"a\", \"quote\": [\"x\", \"y\"], \"document\": \"d\"}\n{\"question\": \"b\", \"quote\": [\"x\", \"y\"], \"document\": [\"d\", \"e\"]}\n{\"question\": \"c\", \"quote\": \"x\"}\n";
    let questions = import("g.jsonl", rows.as_bytes()).unwrap().questions;
    let documents = |i: usize| questions[i].evidence.iter().map(|one| one.document.as_str()).collect::<Vec<_>>();
    assert_eq!((documents(0), documents(1), documents(2)), (vec!["d", "d"], vec!["d", "e"], vec![""]));
    let fault =
        import("g.jsonl", b"{\"question\": \"a\", \"quote\": [\"x\", \"y\", \"z\"], \"document\": [\"d\", \"e\"]}")
            .unwrap_err();
    assert!(fault[0].reason().contains("3 quotes") && fault[0].reason().contains("2 documents"), "{fault:?}");
}

#[test]
fn a_parquet_file_is_no_csv() {
    let fault = DatasetFile::read("g.parquet", b"PAR1\0\0\0PAR1").unwrap_err();
    assert!(fault.len() == 1 && fault[0].reason().contains("Parquet"), "{fault:?}");
}

#[test]
fn a_new_file_holds_the_questions_that_are_put_into_it() {
    for name in ["new.jsonl", "new.csv", "new.tsv"] {
        let mut file = DatasetFile::empty(name);
        let evidence = vec![super::super::Evidence { document: "a.md".into(), quote: "One, two".into(), span: None }];
        let question = Question { id: "q".into(), question: "Who?".into(), evidence, ..Question::default() };
        file.dataset.questions.push(question.clone());
        let bytes = file.to_bytes().unwrap();
        assert_eq!(DatasetFile::read(name, &bytes).unwrap().dataset.questions, [question], "{name}");
    }
}
