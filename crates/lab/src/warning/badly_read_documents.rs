//! `badly-read-documents`: documents that were not read as they are.

use super::{BadlyReadDocuments, Finding, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};
use rag::ReadingProblemKind;

pub(super) const KIND: WarningKind = WarningKind {
    title: "badly read documents",
    meaning: "Something in these documents was read badly or not at all: characters that could not be decoded, an encoding \
              that had to be guessed, a font that does not name its letters, a table that does not fit together, a \
              picture that could hardly be read, or an \
              attachment of another type. What was lost cannot be found.",
    action: "look at how one of the documents was read, which lists what was read badly, and convert the file",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    let of_kind = |(&kind, found): (&ReadingProblemKind, &BadlyReadDocuments)| {
        let named: Vec<String> = found.first.iter().map(|(path, detail)| format!("`{path}` ({detail})")).collect();
        let mut names = named.join(", ");
        if found.documents > found.first.len() {
            names += &format!(" and {} more", count(found.documents - found.first.len()));
        }
        let (one, many) = in_words(kind);
        let verb = if found.documents == 1 { one } else { many };
        let text = format!("{} {verb}: {names}", counted(found.documents, "document"));
        Finding::of_run(text, found.documents, Some(facts.corpus.documents))
    };
    facts.corpus.badly_read.iter().map(of_kind).collect()
}

/// What documents with a problem of this kind do, in the singular and the plural.
fn in_words(kind: ReadingProblemKind) -> (&'static str, &'static str) {
    match kind {
        ReadingProblemKind::NoText => ("has pages without text", "have pages without text"),
        ReadingProblemKind::LowConfidence => {
            ("has pages whose pictures could hardly be read", "have pages whose pictures could hardly be read")
        }
        ReadingProblemKind::BrokenTable => {
            ("has a table that does not fit together", "have tables that do not fit together")
        }
        ReadingProblemKind::ReplacedCharacters => {
            ("has characters that could not be decoded", "have characters that could not be decoded")
        }
        ReadingProblemKind::GuessedEncoding => ("names no encoding", "name no encoding"),
        ReadingProblemKind::UnmappedFont => {
            ("has a font that does not name its letters", "have fonts that do not name their letters")
        }
        ReadingProblemKind::UnreadPart => ("has parts that were not read", "have parts that were not read"),
        ReadingProblemKind::HiddenPart => ("has hidden parts", "have hidden parts"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, WarningCode,
        fixture::{only, told},
    };
    use super::*;
    use std::collections::BTreeMap;

    const CODE: WarningCode = WarningCode::BadlyReadDocuments;

    fn corpus(documents: usize, first: &[(&str, &str)]) -> RunFacts {
        let first = first.iter().map(|&(path, detail)| (path.to_owned(), detail.to_owned())).collect();
        let found = BadlyReadDocuments { documents, first };
        let badly_read = BTreeMap::from([(ReadingProblemKind::GuessedEncoding, found)]);
        RunFacts { corpus: CorpusFacts { documents: 9, badly_read, ..CorpusFacts::default() }, ..RunFacts::default() }
    }

    #[test]
    fn the_first_documents_are_named_with_what_is_wrong() {
        let one = told(CODE, &corpus(1, &[("a.txt", "read as Windows-1252")]));
        assert_eq!(one, ["1 document names no encoding: `a.txt` (read as Windows-1252)"]);
        let found = only(CODE, &corpus(5, &[("a.txt", "x"), ("b.txt", "y")]));
        assert_eq!(found.text, "5 documents name no encoding: `a.txt` (x), `b.txt` (y) and 3 more");
        assert_eq!((found.count, found.total), (Some(5), Some(9)));
    }

    #[test]
    fn a_corpus_that_was_read_well_is_not_told() {
        assert!(told(CODE, &RunFacts::default()).is_empty());
    }
}
