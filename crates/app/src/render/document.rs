//! A document's text with the beginnings of its pages.

use rag::Document;
use std::fmt::Write;

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

#[cfg(test)]
mod tests {
    use super::*;
    use rag::{Format, Page, Span};

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
        };
        let shown = document(&found);
        assert_eq!(shown, "Preface. \n── page 7 ──\nBarn owls swallow voles.\n── page 8 ──\nThey sleep.");
        found.pages.clear();
        assert_eq!(document(&found), text);
    }
}
