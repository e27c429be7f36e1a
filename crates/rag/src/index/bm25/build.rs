//! Writes an index whose texts need not fit into memory.

use super::Bm25Index;
use crate::{
    Error,
    analysis::{DocumentLanguages, Language, TextAnalysis},
    index::{EntryTexts, IndexedTexts, document_starts, header::bad},
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

/// A segment has about so many texts, and about so many bytes of text.
const SEGMENT_TEXTS: usize = 1 << 16;
const SEGMENT_BYTES: usize = 64 << 20;

impl Bm25Index {
    /// Writes the index of texts. More than fit into one segment are indexed segment by segment, and the segments are
    /// merged; the file is the same.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(texts: &dyn EntryTexts, analysis: &TextAnalysis, target: &Path) -> Result<(), Error> {
        Self::write_in_segments(texts, analysis, target, segments(texts, SEGMENT_TEXTS, SEGMENT_BYTES))
    }

    pub(super) fn write_in_segments(
        texts: &dyn EntryTexts,
        analysis: &TextAnalysis,
        target: &Path,
        segments: Vec<TextSegment>,
    ) -> Result<(), Error> {
        let write = |path: &Path, index: &Self| {
            std::fs::write(path, index.to_bytes()).map_err(|error| bad(&path.display().to_string(), error))
        };
        if segments.len() <= 1 {
            let (texts, documents) = in_memory(texts, 0..texts.entries());
            let given = IndexedTexts { texts: &texts, documents: &documents, analysis, languages: None };
            return write(target, &Self::of(&given));
        }
        // The language of an unclear document depends on all documents.
        let languages = match analysis.language.language() {
            Some(language) => vec![language; segments.iter().map(|segment| segment.documents.len()).sum()],
            None => detect(texts, &segments),
        };
        let files: Vec<SegmentFile> = (0..segments.len()).map(|_| SegmentFile(store::staged_path(target))).collect();
        for (segment, file) in segments.iter().zip(&files) {
            let (texts, documents) = in_memory(texts, segment.entries.clone());
            let languages = Some(&languages[segment.documents.clone()]);
            write(&file.0, &Self::of(&IndexedTexts { texts: &texts, documents: &documents, analysis, languages }))?;
        }
        Self::merge(&files.iter().map(|file| file.0.as_path()).collect::<Vec<_>>(), target)
    }
}

/// The file of a segment, which is removed in the end.
struct SegmentFile(PathBuf);

impl Drop for SegmentFile {
    fn drop(&mut self) {
        // What a killed process leaves is found by its name.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Documents that are indexed together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TextSegment {
    entries: Range<usize>,
    documents: Range<usize>,
}

/// Cuts entries into segments at the borders of documents. A segment ends when it has this many texts or bytes.
pub(super) fn segments(texts: &dyn EntryTexts, most_texts: usize, most_bytes: usize) -> Vec<TextSegment> {
    let mut segments: Vec<TextSegment> = Vec::new();
    let (mut first_entry, mut first_document, mut document, mut bytes) = (0, 0, 0, 0);
    for entry in 0..texts.entries() {
        if entry > 0 && texts.document(entry) != texts.document(entry - 1) {
            document += 1;
            if entry - first_entry >= most_texts || bytes >= most_bytes {
                segments.push(TextSegment { entries: first_entry..entry, documents: first_document..document });
                (first_entry, first_document, bytes) = (entry, document, 0);
            }
        }
        bytes += texts.text(entry).len();
    }
    if texts.entries() > 0 {
        segments.push(TextSegment { entries: first_entry..texts.entries(), documents: first_document..document + 1 });
    }
    segments
}

/// The texts of some entries, and the places of the first texts of their documents.
fn in_memory(texts: &dyn EntryTexts, entries: Range<usize>) -> (Vec<&str>, Vec<usize>) {
    let documents = document_starts(entries.clone().map(|entry| texts.document(entry)));
    (entries.map(|entry| texts.text(entry)).collect(), documents)
}

fn detect(texts: &dyn EntryTexts, segments: &[TextSegment]) -> Vec<Language> {
    let mut languages = DocumentLanguages::default();
    for segment in segments {
        let (texts, documents) = in_memory(texts, segment.entries.clone());
        languages.add(&texts, &documents);
    }
    languages.finish()
}
