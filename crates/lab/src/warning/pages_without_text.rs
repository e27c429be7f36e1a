//! `pages-without-text`: pages without text inside PDF documents that have text elsewhere.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "pages without text",
    meaning: "These PDF documents have text, and some of their pages have none: such a page is a scan or a picture, or is \
              empty. What stands on a scanned page cannot be found.",
    action: "look at one of the pages; if it is scanned, read the document with OCR first",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

/// The most documents that the sentence names.
const NAMED: usize = 3;

fn find(facts: &RunFacts) -> Vec<Finding> {
    let mut documents: Vec<&(String, usize, usize)> =
        facts.corpus.blank_pages.iter().filter(|(_, blank, _)| *blank > 0).collect();
    if documents.is_empty() {
        return Vec::new();
    }
    documents.sort_by_key(|(path, blank, _)| (std::cmp::Reverse(*blank), path.as_str()));
    let blank = documents.iter().map(|(_, blank, _)| blank).sum();
    let named = documents.iter().take(NAMED);
    let named = named.map(|(path, blank, pages)| format!("`{path}` ({} of {})", count(*blank), count(*pages)));
    let mut names = named.collect::<Vec<_>>().join(", ");
    if documents.len() > NAMED {
        names += &format!(" and {} more", count(documents.len() - NAMED));
    }
    let verb = if blank == 1 { "has" } else { "have" };
    let (pages, of) = (counted(blank, "page"), counted(documents.len(), "PDF document"));
    vec![Finding::of_run(format!("{pages} of {of} {verb} no text: {names}"), blank, None)]
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, WarningCode,
        fixture::{only, told},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::PagesWithoutText;

    fn corpus(documents: &[(&str, usize, usize)]) -> RunFacts {
        let blank_pages = documents.iter().map(|&(path, blank, pages)| (path.to_owned(), blank, pages)).collect();
        RunFacts { corpus: CorpusFacts { blank_pages, ..CorpusFacts::default() }, ..RunFacts::default() }
    }

    #[test]
    fn pages_are_counted_and_the_documents_with_most_of_them_named() {
        let one = told(CODE, &corpus(&[("mixed.pdf", 1, 2)]));
        assert_eq!(one, ["1 page of 1 PDF document has no text: `mixed.pdf` (1 of 2)"]);
        let found = only(CODE, &corpus(&[("a.pdf", 1, 9), ("b.pdf", 5, 6), ("c.pdf", 1, 2), ("d.pdf", 2, 2)]));
        assert_eq!(
            found.text,
            "9 pages of 4 PDF documents have no text: `b.pdf` (5 of 6), `d.pdf` (2 of 2), `a.pdf` (1 of 9) and 1 more"
        );
        assert_eq!(found.count, Some(9));
    }

    #[test]
    fn documents_whose_pages_all_have_text_are_not_told() {
        assert!(told(CODE, &corpus(&[])).is_empty());
        assert!(told(CODE, &corpus(&[("a.pdf", 0, 9)])).is_empty());
    }
}
