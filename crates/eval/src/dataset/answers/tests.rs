//! Tests of reading answers.

use super::*;
use rag::Span;

fn one(name: &str, text: &str) -> AnsweredRow {
    let mut rows = import_answers(name, text.as_bytes(), &[]).unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn faults(name: &str, text: &str) -> Vec<(usize, String)> {
    import_answers(name, text.as_bytes(), &[])
        .unwrap_err()
        .into_iter()
        .map(|error| (error.line, error.reason()))
        .collect()
}

fn texts_of(row: &AnsweredRow) -> Vec<&str> {
    row.passages.iter().flatten().map(|passage| passage.text.as_str()).collect()
}

#[test]
fn the_columns_of_ragas_deepeval_and_others_are_the_same_to_us() {
    for row in [
        r#"{"question": "Why?", "answer": "So [2].", "contexts": ["a", "b"], "ground_truth": "Because"}"#,
        r#"{"user_input": "Why?", "response": "So [2].", "retrieved_contexts": ["a", "b"], "reference": "Because"}"#,
        r#"{"input": "Why?", "actual_output": "So [2].", "retrieval_context": ["a", "b"], "expected_output": "Because"}"#,
        r#"{"query": "Why?", "prediction": "So [2].", "passages": [{"page_content": "a"}, {"text": "b"}], "ground_truths": ["Because"]}"#,
    ] {
        let row = one("a.jsonl", row);
        assert_eq!((row.question.question.as_str(), row.question.reference.as_deref()), ("Why?", Some("Because")));
        assert_eq!((texts_of(&row), row.question.id.as_str()), (vec!["a", "b"], "line-1"));
        let answer = row.answer.unwrap();
        assert_eq!((answer.text.as_str(), answer.citations), ("So [2].", vec![2]));
    }
}

#[test]
fn tables_hold_lists_as_programs_write_them() {
    let row = one("a.csv", "question,answer,contexts,reference\nWhy?,So,\"['a', 'b']\",nan\n");
    assert_eq!((texts_of(&row), row.question.reference.as_deref()), (vec!["a", "b"], None));
    let row = one("a.csv", "question,answer,contexts\nWhy?,So,\"[{\"\"text\"\": \"\"a\"\"}]\"\n");
    assert_eq!(texts_of(&row), ["a"]);
    let row = one("a.csv", "question,answer,contexts\nWhy?,So,one context\n");
    assert_eq!(texts_of(&row), ["one context"]);
}

#[test]
fn what_is_not_there_is_told_from_what_is_empty() {
    let row = one("a.jsonl", r#"{"question": "Why?"}"#);
    assert_eq!((row.passages, row.answer), (None, None));
    let row = one("a.jsonl", r#"{"question": "Why?", "answer": null, "contexts": null}"#);
    assert_eq!((row.passages, row.answer), (None, None));
    let row = one("a.jsonl", r#"{"question": "Why?", "answer": "", "contexts": []}"#);
    assert_eq!((row.passages, row.answer.map(|answer| answer.text)), (Some(Vec::new()), Some(String::new())));
}

#[test]
fn a_passage_may_say_where_it_stands() {
    let row = one(
        "a.jsonl",
        r#"{"question": "Why?", "contexts": ["x", {"text": "abc", "document": "a.txt", "span": {"start": 3, "end": 6}}], "evidence": [{"document": "a.txt", "quote": "b"}], "answerable": true, "tags": ["t"]}"#,
    );
    let passages = row.passages.unwrap();
    assert!(passages[0].span.is_empty() && passages[0].document.is_empty());
    assert_eq!((passages[1].document.as_str(), passages[1].span), ("a.txt", Span { start: 3, end: 6 }));
    assert_eq!((row.question.evidence.len(), row.question.tags.len()), (1, 1));
}

#[test]
fn the_same_question_may_stand_twice_and_an_id_may_not() {
    let twice = "{\"question\": \"Why?\"}\n\n{\"question\": \"Why?\"}";
    let ids: Vec<String> =
        import_answers("a.jsonl", twice.as_bytes(), &[]).unwrap().into_iter().map(|row| row.question.id).collect();
    assert_eq!(ids, ["line-1", "line-3"]);
    let same = "{\"id\": 7, \"question\": \"Why?\"}\n{\"id\": \"7\", \"question\": \"How?\"}";
    assert_eq!(faults("a.jsonl", same)[0].0, 2);
}

#[test]
fn all_faults_are_told_with_their_lines() {
    let text = "{\"question\": \"A?\", \"answer\": \"a\"}\n\
                {\"answer\": \"a\"}\n\
                {\"question\": \" \", \"contexts\": 3}\n\
                not json\n\
                {\"question\": \"A?\", \"anwser\": \"a\"}\n\
                {\"question\": \"A?\", \"answer\": \"a\", \"response\": \"b\"}\n\
                {\"question\": \"A?\", \"contexts\": [\"a\", {\"score\": 1}, {\"text\": \"a\", \"span\": {\"start\": 2, \"end\": 2}}]}\n\
                {\"question\": \"A?\", \"answer\": [1], \"answerable\": \"perhaps\", \"evidence\": [{}]}";
    let found = faults("a.jsonl", text);
    let lines: Vec<usize> = found.iter().map(|fault| fault.0).collect();
    assert_eq!(lines, [2, 3, 3, 4, 5, 6, 7, 8, 8, 8], "{found:?}");
    assert!(found[4].1.contains("`answer`"), "{found:?}");
    assert!(found[6].1.contains("`contexts` at 2 has no `text`"), "{found:?}");
    let first = &import_answers("a.jsonl", text.as_bytes(), &[]).unwrap_err()[0];
    assert_eq!(first.to_string(), "a.jsonl:2: has no column with the question: name it `question` or `user_input`");
}

#[test]
fn files_that_hold_no_answers_are_refused_with_what_to_do() {
    assert!(faults("a.parquet", "PAR1....")[0].1.contains("to_json"));
    assert!(faults("a.jsonl", "")[0].1.contains("holds no answer"));
    assert!(faults("a.json", "[{\"question\": \"Why?\"}]")[0].1.contains("jq"));
}

#[test]
fn rows_of_a_program_are_told_by_their_numbers_from_0() {
    let rows = |text: &str| -> Vec<Map<String, Value>> { serde_json::from_str(text).unwrap() };
    let read =
        read_answers(&rows(r#"[{"user_input": "Why?", "response": "So"}, {"user_input": "How?"}]"#), &[]).unwrap();
    assert_eq!(read.iter().map(|row| row.question.id.as_str()).collect::<Vec<_>>(), ["row-0", "row-1"]);
    let faults = read_answers(
        &rows(r#"[{"id": "a", "question": "Why?"}, {"id": "a", "question": ""}, {"id": "b", "qestion": "How?"}]"#),
        &[],
    );
    let faults = faults.unwrap_err();
    for (row, part) in [
        (1, "has the id `a` of row 0"),
        (1, "write one, or remove the row"),
        (2, "write `question`, or a less similar name"),
    ] {
        assert!(
            faults.iter().any(|fault| fault.number == row && fault.to_string().contains(part)),
            "{part}: {faults:?}"
        );
    }
    let faults = read_answers(&rows(r#"[{"answer": "a"}, {"answer": "b"}, {"answer": "c"}]"#), &[]).unwrap_err();
    assert_eq!(faults.len(), 1, "a table's columns are told once: {faults:?}");
    assert!(read_answers(&[], &[]).unwrap_err()[0].to_string().contains("no rows"));
}

/// A document in which bytes and characters differ.
fn owls() -> Document {
    let text = "Über Eulen steht hier viel. Zehn Eulen wohnen in der Mühle am Bach.".to_owned();
    Document { path: "owls.txt".to_owned(), text, ..testing_document() }
}

fn testing_document() -> Document {
    rag::load::parse("a.txt", b"text", &rag::load::ParseLimits::default()).unwrap()
}

fn row(place: &str) -> Vec<Map<String, Value>> {
    let rows = format!(
        r#"[{{"question": "Who?", "evidence": [{{"document": "owls.txt", "quote": "Zehn Eulen wohnen in der Mühle", "start_byte": 29, "end_byte": 60}}],
            "contexts": [{{"document": "owls.txt", "text": "Zehn Eulen wohnen in der Mühle am Bach.", {place}}}]}}]"#
    );
    serde_json::from_str(&rows).unwrap()
}

#[test]
fn characters_and_bytes_of_one_passage_are_the_same_place() {
    let documents = [owls()];
    let span = |place: &str| {
        let rows = read_answers(&row(place), &documents).unwrap();
        rows[0].passages.as_ref().unwrap()[0].span
    };
    let bytes = span(r#""start_byte": 29, "end_byte": 69"#);
    assert_eq!(&owls().text[bytes.start..bytes.end], "Zehn Eulen wohnen in der Mühle am Bach.");
    assert_eq!(span(r#""start": 28, "end": 67"#), bytes);
    assert_eq!(span(r#""span": {"start": 28, "end": 67}"#), bytes);
    assert_eq!(span(r#""start": 28.0, "end": 67.0, "start_byte": null, "end_byte": null"#), bytes);
}

#[test]
fn a_place_in_the_wrong_unit_is_refused_with_its_row() {
    let refused = |place: &str, documents: &[Document]| {
        let error = read_answers(&row(place), documents).unwrap_err().remove(0);
        let (row, message) = (error.number, error.to_string());
        assert_eq!((row, message.contains("`contexts` at 1")), (0, true), "{message}");
        message
    };
    // Characters that are called bytes, with the documents and without.
    assert!(refused(r#""start_byte": 28, "end_byte": 67"#, &[owls()]).contains("does not stand at bytes 28 to 67"));
    assert!(refused(r#""start_byte": 28, "end_byte": 67"#, &[]).contains("counts characters"));
    assert!(refused(r#""start_byte": 28, "end_byte": 68"#, &[]).contains("has other words there"));
    assert!(refused(r#""start_byte": 128, "end_byte": 168"#, &[]).contains("does not overlap it"));
    // Characters without a text to count them in.
    assert!(refused(r#""start": 28, "end": 67"#, &[]).contains("give the documents"));
    assert!(refused(r#""span": {"start": 29, "end": 69}"#, &[]).contains("`start_byte`"));
    assert!(refused(r#""start": 28, "end": 670"#, &[owls()]).contains("has 67 characters"));
    assert!(read_answers(&row(r#""start_byte": 29, "end_byte": 69"#), &[]).is_ok());
}

#[test]
fn a_file_counts_bytes_and_is_held_against_the_evidence_too() {
    let file = |start: usize, end: usize| {
        format!(
            r#"{{"question": "Who?", "evidence": [{{"document": "a", "quote": "Zehn Eulen wohnen in der Mühle", "span": {{"start": 29, "end": 60}}}}], "contexts": [{{"document": "a", "text": "Zehn Eulen wohnen in der Mühle am Bach.", "span": {{"start": {start}, "end": {end}}}}}]}}"#
        )
    };
    assert_eq!(one("a.jsonl", &file(29, 69)).passages.unwrap()[0].span, Span { start: 29, end: 69 });
    assert!(faults("a.jsonl", &file(28, 67))[0].1.contains("counts characters"));
}

#[test]
fn other_columns_are_kept_for_functions() {
    let row = r#"{"question": "Who?", "answer": "Me", "contexts": ["x"], "reference": "y", "id": "a", "seconds": 1.5, "tags": ["t"]}"#;
    let names: Vec<String> = one("a.jsonl", row).columns.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["id", "seconds", "tags"]);
}

#[test]
fn a_file_is_checked_against_documents_where_its_own_words_cannot_tell() {
    // The passage is ASCII and stands behind a letter of two bytes.
    let file = |place: &str| {
        format!(
            r#"{{"question": "Who?", "contexts": [{{"document": "owls.txt", "text": "Eulen steht hier viel.", {place}}}]}}"#
        )
    };
    let read = |place: &str, documents: &[Document]| {
        let rows =
            import_answers("a.jsonl", file(place).as_bytes(), documents).map_err(|errors| errors[0].to_string())?;
        Ok::<_, String>(rows[0].passages.as_ref().unwrap()[0].span)
    };
    let (right, characters) = (Span { start: 6, end: 28 }, r#""span": {"start": 5, "end": 27}"#);
    assert_eq!(&owls().text[right.start..right.end], "Eulen steht hier viel.");
    assert!(read(characters, &[]).is_ok(), "without the document nobody can know");
    let refused = read(characters, &[owls()]).unwrap_err();
    assert!(refused.contains("a.jsonl:1: ") && refused.contains("does not stand at bytes 5 to 27"), "{refused}");
    for place in
        [r#""span": {"start": 6, "end": 28}"#, r#""start_byte": 6, "end_byte": 28"#, r#""start": 5, "end": 27"#]
    {
        assert_eq!(read(place, &[owls()]), Ok(right), "{place}");
    }
    assert!(read(r#""start": 5, "end": 27"#, &[]).unwrap_err().contains("give the documents"));
}

#[test]
fn documents_find_the_evidence_that_has_no_place() {
    let rows: Vec<Map<String, Value>> = serde_json::from_str(
        r#"[{"question": "Who?", "evidence": [{"document": "owls.txt", "quote": "Zehn Eulen", "span": {"start": 28, "end": 38}}]}]"#,
    )
    .unwrap();
    let place = |documents: &[Document]| read_answers(&rows, documents).unwrap()[0].question.evidence[0].span;
    assert_eq!((place(&[]), place(&[owls()])), (None, Some(Span { start: 29, end: 39 })));
}
