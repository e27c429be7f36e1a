//! What the tables of a store hold of the documents.

use super::{
    documents::{DocumentVersions, look_at_tables},
    fingerprint::TextFingerprint,
};
use crate::{
    Error,
    artifact::{TableSubject, TextRow, text_rows},
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::ArtifactStore;

/// By what the documents are recognised.
#[derive(Debug, Default)]
pub(super) struct DocumentSigns {
    /// Their paths, with the digests of their bytes.
    pub(super) versions: DocumentVersions,
    /// Their words.
    pub(super) fingerprint: TextFingerprint,
}

impl DocumentSigns {
    pub(super) fn is_path(&self, path: &str) -> bool {
        self.versions.contains_key(path)
    }
}

/// What a table holds of the documents.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct TableFinding {
    /// What its rows are about; none if it is damaged.
    pub(super) subject: Option<TableSubject>,
    /// Whether a row is about a document, or holds its text.
    pub(super) holds: bool,
    /// The questions with such a row, by id.
    pub(super) questions: BTreeSet<String>,
    /// The texts of the documents' pieces, which may have been embedded.
    pub(super) pieces: Vec<String>,
}

impl TableFinding {
    fn of(bytes: Bytes, signs: &DocumentSigns) -> Self {
        let mut finding = Self::default();
        let subject = text_rows(bytes, |subject, row| finding.look(subject, row, signs));
        Self { subject: subject.ok(), ..finding }
    }

    fn look(&mut self, subject: TableSubject, row: &TextRow<'_>, signs: &DocumentSigns) {
        let is_of = |column: &str| row.text(column).is_some_and(|path| signs.is_path(path));
        match subject {
            TableSubject::Documents => self.holds |= is_of("path"),
            TableSubject::Pieces if is_of("document") => {
                self.holds = true;
                self.pieces.extend(row.text("text").map(str::to_owned));
            }
            // A piece of another document may hold the same words: they stay where that document stays.
            TableSubject::Pieces | TableSubject::Numbers => {}
            TableSubject::Questions => {
                if is_of("document") || row.texts().any(|text| signs.fingerprint.is_in(text)) {
                    self.holds = true;
                    self.questions.extend(row.text("question").map(str::to_owned));
                }
            }
        }
    }
}

/// What tables hold of the documents, by name. Tables that are gone are left out.
pub(super) async fn look_for_documents(
    store: &ArtifactStore,
    tables: &[String],
    signs: &Arc<DocumentSigns>,
) -> Result<BTreeMap<String, TableFinding>, Error> {
    let signs = signs.clone();
    let found = look_at_tables(store, tables, move |bytes| TableFinding::of(bytes, &signs)).await?;
    Ok(found.into_iter().filter_map(|(name, finding)| Some((name, finding?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::{AnswerRow, EnrichedRow, PassageRow, encode};
    use rag::{Answer, Passage};

    const TEXT: &str = "She breeds black swans in a pond that nobody else may enter.";

    fn signs() -> DocumentSigns {
        let mut signs = DocumentSigns::default();
        signs.versions.insert("a.md".to_owned(), BTreeSet::new());
        signs.fingerprint.add(TEXT);
        signs
    }

    fn passage(question: &str, document: &str, text: &str) -> PassageRow {
        let passage = Passage::of_text(document.to_owned(), text.to_owned());
        PassageRow { question: question.to_owned(), rank: 1, passage: Some(passage), remarks: Vec::new() }
    }

    #[test]
    fn questions_are_found_by_the_paths_and_the_words_of_their_rows() {
        let rows = [passage("path", "a.md", "short"), passage("words", "b.md", TEXT), passage("none", "b.md", "short")];
        let finding = TableFinding::of(encode(&rows).unwrap(), &signs());
        assert!(finding.holds && finding.pieces.is_empty());
        assert_eq!(finding.questions, BTreeSet::from(["path".to_owned(), "words".to_owned()]));
        let answer = |question: &str, text: &str| AnswerRow {
            question: question.to_owned(),
            answer: Ok(Answer { text: text.to_owned(), ..Answer::default() }),
        };
        let finding = TableFinding::of(encode(&[answer("words", TEXT), answer("none", "No.")]).unwrap(), &signs());
        assert_eq!(finding.questions, BTreeSet::from(["words".to_owned()]));
    }

    #[test]
    fn pieces_are_those_of_the_document_alone() {
        let row = |document: &str, text: &str| EnrichedRow {
            document: document.to_owned(),
            number: 0,
            text: text.to_owned(),
            fallback: None,
        };
        let both = encode(&[row("a.md", "its piece"), row("b.md", TEXT)]).unwrap();
        assert_eq!(TableFinding::of(both, &signs()).pieces, ["its piece"]);
        let other = TableFinding::of(encode(&[row("b.md", TEXT)]).unwrap(), &signs());
        assert!(!other.holds && other.subject == Some(TableSubject::Pieces));
        assert_eq!(TableFinding::of(Bytes::from_static(b"cut"), &signs()).subject, None);
    }
}
