//! Indexes that are built segment by segment.

use super::{super::build::segments, *};
use crate::index::EntryTexts;

/// Texts with the documents that they are in.
struct Texts(Vec<(String, String)>);

impl EntryTexts for Texts {
    fn entries(&self) -> usize {
        self.0.len()
    }

    fn text(&self, entry: usize) -> &str {
        &self.0[entry].1
    }

    fn document(&self, entry: usize) -> &str {
        &self.0[entry].0
    }
}

/// German documents, an English one, and documents too short for a language, which count as German.
fn texts() -> Texts {
    let chunk = |document: &str, text: &str| (document.to_owned(), text.to_owned());
    let mut all = vec![chunk("short", "Haus"), chunk("english", ENGLISH), chunk("english", "The cats are running.")];
    for i in 0..9 {
        all.push(chunk(&format!("german {i}"), GERMAN[i % 2]));
        all.push(chunk(&format!("german {i}"), "Zombieprozesse verschwinden."));
        all.push(chunk(&format!("number {i}"), &format!("Prozesse {i}")));
    }
    Texts(all)
}

#[test]
fn the_file_is_the_same_however_many_segments_its_texts_are_built_in() {
    let (texts, folder) = (texts(), tempfile::tempdir().unwrap());
    let rows: Vec<&str> = texts.0.iter().map(|(_, text)| text.as_str()).collect();
    let documents = document_starts(texts.0.iter().map(|(document, _)| document.as_str()));
    for language in [LanguageChoice::Auto, LanguageChoice::Named(Language::ENGLISH)] {
        let analysis = TextAnalysis { language, ..TextAnalysis::default() };
        let given = IndexedTexts { texts: &rows, documents: &documents, analysis: &analysis, languages: None };
        let whole = Bm25Index::of(&given).to_bytes();
        for (most_texts, most_bytes) in
            [(1, usize::MAX), (2, usize::MAX), (7, usize::MAX), (1_000, 300), (1_000, 1 << 20)]
        {
            let cut = segments(&texts, most_texts, most_bytes);
            let target = folder.path().join("index");
            let n = cut.len();
            Bm25Index::write_in_segments(&texts, &analysis, &target, cut).unwrap();
            assert!(std::fs::read(&target).unwrap() == whole, "{n} segments");
        }
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["index"], "the files of segments are removed");
    }
}

#[test]
fn a_document_is_never_divided_between_segments() {
    let texts = texts();
    assert_eq!(segments(&texts, 1, usize::MAX).len(), 20);
    assert_eq!(segments(&texts, usize::MAX, usize::MAX).len(), 1);
    assert!(segments(&Texts(Vec::new()), 1, 1).is_empty());
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    Bm25Index::write(&Texts(Vec::new()), &TextAnalysis::default(), &empty).unwrap();
    assert_eq!(Bm25Index::open_files(&[empty]).unwrap().entries(), 0);
}
