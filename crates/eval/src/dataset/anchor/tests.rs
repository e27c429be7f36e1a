//! Tests of anchoring.

use super::super::Question;
use super::*;

fn found<'a>(text: &'a str, quote: &str) -> Option<&'a str> {
    anchor(text, quote, None).map(|span| &text[span.start..span.end])
}

#[test]
fn an_exact_quote_is_found_where_it_stands() {
    assert_eq!(anchor("äb cd ef", "cd", None), Some(Span { start: 4, end: 6 }));
    assert_eq!(anchor("äb cd ef", " cd ", None), Some(Span { start: 4, end: 6 }));
    assert_eq!(anchor("äb cd ef", "gh", None), None);
}

#[test]
fn white_space_quotation_marks_dashes_and_ligatures_do_not_matter() {
    assert_eq!(found("the  first\n\tfile is", "the first file"), Some("the  first\n\tfile"));
    assert_eq!(found("so “dpkg’s” – set", "\"dpkg's\" - set"), Some("“dpkg’s” – set"));
    assert_eq!(found("the eﬃcient ﬁle\u{a0}name", "efficient file name"), Some("eﬃcient ﬁle\u{a0}name"));
    assert_eq!(found("wait… done", "wait... done"), Some("wait… done"));
}

#[test]
fn hyphens_at_line_ends_do_not_matter() {
    assert_eq!(found("an exam-\nple here", "an example"), Some("an exam-\nple"));
    assert_eq!(found("a well known case", "a well-known case"), Some("a well known case"));
    assert_eq!(found("soft\u{ad}ware", "software"), Some("soft\u{ad}ware"));
}

#[test]
fn a_quote_that_begins_within_a_ligature_takes_all_of_it() {
    assert_eq!(found("eﬃcient", "ficient"), Some("ﬃcient"));
}

#[test]
fn a_span_that_still_holds_its_quote_is_kept() {
    let text = "one two one two";
    let second = Span { start: 8, end: 11 };
    assert_eq!(anchor(text, "one", Some(second)), Some(second));
    assert_eq!(anchor(text, "one\n", Some(second)), Some(second));
}

#[test]
fn the_place_nearest_to_the_old_span_is_taken() {
    let text = "one two one two";
    assert_eq!(anchor(text, "two", Some(Span { start: 9, end: 12 })), Some(Span { start: 12, end: 15 }));
    assert_eq!(anchor(text, "t wo", Some(Span { start: 9, end: 12 })), Some(Span { start: 12, end: 15 }));
    assert_eq!(anchor(text, "two", None), Some(Span { start: 4, end: 7 }));
}

#[test]
fn spans_that_make_no_sense_are_no_hint_to_fail_on() {
    for span in [Span { start: 9, end: 2 }, Span { start: 1, end: 99 }, Span { start: 1, end: 1 }] {
        assert_eq!(anchor("äbc", "bc", Some(span)), Some(Span { start: 2, end: 4 }), "{span:?}");
    }
}

#[test]
fn nothing_is_found_nowhere() {
    assert_eq!(anchor("abc", "", None), None);
    assert_eq!(anchor("abc", " \n\u{ad}", None), None);
    assert_eq!(anchor("", "abc", None), None);
    assert_eq!(anchor("abc - def", "-- --", None), None);
}

#[test]
fn spans_are_at_character_boundaries_for_any_text() {
    let text = "“äöü” — ﬁ\u{200b}ne…\u{ad}🦊 e\u{301}nd";
    let characters: Vec<(usize, char)> = text.char_indices().collect();
    for (i, &(start, _)) in characters.iter().enumerate() {
        for &(end, c) in &characters[i..] {
            let quote = &text[start..end + c.len_utf8()];
            if let Some(span) = anchor(text, &quote.replace(' ', "\n"), None) {
                assert!(text.get(span.start..span.end).is_some(), "{quote}");
            }
        }
    }
}

fn dataset(evidence: &[(&str, &str)]) -> Dataset {
    let evidence = evidence.iter().map(|(document, quote)| Evidence {
        document: (*document).to_owned(),
        quote: (*quote).to_owned(),
        span: None,
    });
    Dataset {
        questions: vec![Question {
            id: "q1".into(),
            question: "?".into(),
            reference: None,
            evidence: evidence.collect(),
            tags: Vec::new(),
            answerable: true,
            ..Question::default()
        }],
    }
}

const DOCUMENTS: [(&str, &str); 3] =
    [("guide/b.txt", "red fox and hen"), ("guide/a.txt", "a red fox"), ("c.txt", "nothing")];

#[test]
fn evidence_gets_its_document_and_span_whatever_the_order_of_documents() {
    for turn in 0..3 {
        let mut documents = DOCUMENTS;
        documents.rotate_left(turn);
        let mut dataset = dataset(&[("guide/b.txt", "fox  and"), ("", "red fox")]);
        assert_eq!(dataset.anchor(documents), []);
        let evidence = &dataset.questions[0].evidence;
        assert_eq!(evidence[0].span, Some(Span { start: 4, end: 11 }));
        assert_eq!((evidence[1].document.as_str(), evidence[1].span), ("guide/a.txt", Some(Span { start: 2, end: 9 })));
    }
}

#[test]
fn what_is_not_found_is_told_with_its_reason() {
    let mut dataset = dataset(&[("c.txt", "fox"), ("a.txt", "fox"), ("x.txt", "fox"), ("", "unicorn")]);
    dataset.questions[0].evidence[0].span = Some(Span { start: 0, end: 3 });
    let unanchored = dataset.anchor(DOCUMENTS);
    let reasons: Vec<AnchorErrorKind> = unanchored.iter().map(|each| each.reason.clone()).collect();
    assert_eq!(
        reasons,
        [
            AnchorErrorKind::Quote { document: "c.txt".into(), was_there: true, nearest: None },
            AnchorErrorKind::Document { document: "a.txt".into(), similar: Some("guide/a.txt".into()) },
            AnchorErrorKind::Document { document: "x.txt".into(), similar: None },
            AnchorErrorKind::Nowhere,
        ]
    );
    assert_eq!(dataset.questions[0].evidence[0].span, None);
    assert_eq!(
        unanchored[1].to_string(),
        "question `q1`: the evidence “fox” cannot be used: the corpus has no document `a.txt`; did you mean `guide/a.txt`?"
    );
}

#[test]
fn a_quote_that_never_stood_there_is_not_said_to_have_gone_and_the_nearest_words_are_named() {
    let document = "Delays are long. A red fox jumps over\nthe lazy dog, they say. The dog sleeps.";
    let mut dataset = dataset(&[("a.txt", "the red fox jumped over the lazy dog")]);
    let told = dataset.anchor([("a.txt", document)])[0].to_string();
    assert!(told.contains("it is not in `a.txt`") && !told.contains("no longer"), "{told}");
    assert!(told.contains("red fox jumps over the lazy dog"), "{told}");
    assert_eq!(nearest_words(document, "quite other words altogether"), None);
    assert_eq!(nearest_words("", "a b"), None);
}
