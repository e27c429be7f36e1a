//! A document's text with the beginnings of its pages, and what was read badly.

use rag::{Document, ReadingProblem};
use std::fmt::Write;

/// The most problems that are listed; the others are counted.
const LISTED: usize = 20;

/// The text, and a line before each page where the format has pages.
pub fn document(document: &Document) -> String {
    let (mut text, mut written) = (String::new(), 0);
    for page in &document.pages {
        text.push_str(&document.text[written..page.span.start]);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "── page {} ──", page.number);
        written = page.span.start;
    }
    text.push_str(&document.text[written..]);
    text.truncate(text.trim_end().len());
    text
}

/// One page's text alone. None if the document has no such page.
pub fn page(document: &Document, number: u32) -> Option<String> {
    let page = document.pages.iter().find(|page| page.number == number)?;
    Some(document.text[page.span.start..page.span.end].trim_end().to_owned())
}

/// What was read badly, a line for each; empty if nothing was.
pub fn problems(problems: &[ReadingProblem]) -> String {
    let mut text = String::new();
    for problem in problems.iter().take(LISTED) {
        let page = problem.page.map(|page| format!("page {page}: ")).unwrap_or_default();
        let _ = writeln!(text, "note: {page}{}", problem.detail);
    }
    if problems.len() > LISTED {
        let _ = writeln!(text, "note: and {} more (--json lists all)", problems.len() - LISTED);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rag::{Format, Page, ReadingProblemKind, Span};

    #[test]
    fn a_line_stands_before_each_page_and_the_text_is_whole() {
        let text = "Preface. Barn owls swallow voles.\nThey sleep.";
        let page = |number, start, end| Page { number, span: Span { start, end } };
        let mut found = Document {
            path: "owls.pdf".to_owned(),
            content: store::Key::of_bytes(text.as_bytes()),
            format: Format::Pdf,
            title: None,
            author: None,
            text: text.to_owned(),
            pages: vec![page(7, 9, 33), page(8, 34, text.len())],
            headings: Vec::new(),
            metadata: Default::default(),
            tables: Vec::new(),
            problems: Vec::new(),
        };
        let shown = document(&found);
        assert_eq!(shown, "Preface. \n── page 7 ──\nBarn owls swallow voles.\n── page 8 ──\nThey sleep.");
        assert_eq!(super::page(&found, 8).as_deref(), Some("They sleep."));
        assert_eq!(super::page(&found, 9), None);
        found.pages.clear();
        assert_eq!(document(&found), text);
    }

    #[test]
    fn the_first_problems_are_listed_and_the_others_counted() {
        let kind = ReadingProblemKind::NoText;
        let problem = |page| ReadingProblem { kind, page: Some(page), detail: "the page has no text".to_owned() };
        let all: Vec<ReadingProblem> = (1..=23).map(problem).collect();
        let told = problems(&all);
        assert!(told.starts_with("note: page 1: the page has no text\n"), "{told}");
        assert!(told.ends_with("note: page 20: the page has no text\nnote: and 3 more (--json lists all)\n"), "{told}");
        let of_file = [ReadingProblem { page: None, ..problem(1) }];
        assert_eq!(problems(&of_file), "note: the page has no text\n");
        assert_eq!(problems(&[]), "");
    }
}
