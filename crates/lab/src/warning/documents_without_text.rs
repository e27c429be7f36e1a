//! `documents-without-text`: files that were read and hold no text, such as scans.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "documents without text",
    meaning: "These files were opened and hold no text, or nearly none: most often they are scans, or hold only pictures. \
              Nothing in them can be found.",
    action: "read scanned pages with OCR first, and put the result into the corpus",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

/// The most files that the sentence names.
const NAMED: usize = 3;

fn find(facts: &RunFacts) -> Vec<Finding> {
    let without = &facts.corpus.without_text;
    if without.is_empty() {
        return Vec::new();
    }
    let mut names = without.iter().take(NAMED).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    if without.len() > NAMED {
        names += &format!(" and {} more", count(without.len() - NAMED));
    }
    let verb = if without.len() == 1 { "holds" } else { "hold" };
    let text = format!("{} {verb} no text: {names}", counted(without.len(), "file"));
    vec![Finding::of_run(text, without.len(), Some(without.len() + facts.corpus.documents))]
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, WarningCode,
        fixture::{only, told},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::DocumentsWithoutText;

    fn corpus(paths: &[&str]) -> RunFacts {
        let without_text = paths.iter().map(|&path| path.to_owned()).collect();
        RunFacts {
            corpus: CorpusFacts { documents: 10, without_text, ..CorpusFacts::default() },
            ..RunFacts::default()
        }
    }

    #[test]
    fn the_first_files_are_named_and_all_are_counted() {
        assert_eq!(told(CODE, &corpus(&["scan.pdf"])), ["1 file holds no text: `scan.pdf`"]);
        let found = only(CODE, &corpus(&["a.pdf", "b.pdf", "c.pdf", "d.pdf", "e.pdf"]));
        assert_eq!(found.text, "5 files hold no text: `a.pdf`, `b.pdf`, `c.pdf` and 2 more");
        assert_eq!((found.count, found.total), (Some(5), Some(15)));
    }

    #[test]
    fn a_corpus_of_texts_is_not_told() {
        assert!(told(CODE, &corpus(&[])).is_empty());
    }
}
