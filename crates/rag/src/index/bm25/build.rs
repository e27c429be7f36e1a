//! Writes an index whose texts need not fit into memory.

use super::{
    Bm25Index,
    merge::{Merge, all_languages, write_file},
    segment::{Segment, Settings},
    segment_cache::{MergedSegment, SegmentCache, file_name},
};
use crate::{
    Error,
    analysis::{DocumentLanguages, TextAnalysis},
    index::{EntryTexts, IndexedTexts, document_starts, header::bad},
};
use rayon::prelude::*;
use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::note_use;

/// More texts than this are indexed segment by segment.
const FEW_TEXTS: usize = 1 << 9;
/// An index has about so many segments, if a segment then has no fewer and no more documents than these.
const SEGMENTS: u64 = 64;
const FEWEST_DOCUMENTS: u64 = 32;
const MOST_DOCUMENTS: u64 = 128;
/// It has about so many segments at most: all are mapped while they are merged, and a process has 65,530 maps.
const MOST_SEGMENTS: u64 = 1 << 14;
/// A segment has about so many texts at most, and about so many bytes of text.
const SEGMENT_TEXTS: usize = 1 << 14;
const SEGMENT_BYTES: usize = 16 << 20;

impl Bm25Index {
    /// Writes the index of texts. Many are indexed segment by segment, and the segments are merged; the file is the same.
    /// Segments stay in `cache`, a folder that may be removed at any time: of texts that have changed a little, only the
    /// segments with changed texts are made again.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(texts: &dyn EntryTexts, analysis: &TextAnalysis, target: &Path, cache: &Path) -> Result<(), Error> {
        if texts.entries() > FEW_TEXTS {
            // A power of two, so that a text more or less seldom changes it.
            let documents = (texts.entries() as u64 / SEGMENTS).next_power_of_two();
            let fewest = (texts.entries() as u64 / MOST_SEGMENTS).next_power_of_two();
            let documents = documents.clamp(FEWEST_DOCUMENTS, MOST_DOCUMENTS).max(fewest);
            let segments = segments(texts, documents, SEGMENT_TEXTS, SEGMENT_BYTES);
            return Self::write_in_segments(texts, analysis, target, (&segments, cache));
        }
        let (texts, documents) = in_memory(texts, 0..texts.entries());
        let index = Self::of(&IndexedTexts { texts: &texts, documents: &documents, analysis, languages: None });
        std::fs::write(target, index.to_bytes()).map_err(|error| bad(&target.display().to_string(), error))
    }

    pub(super) fn write_in_segments(
        texts: &dyn EntryTexts,
        analysis: &TextAnalysis,
        target: &Path,
        (segments, cache): (&[Range<usize>], &Path),
    ) -> Result<(), Error> {
        let cache = SegmentCache::open(cache, analysis)?;
        let keys: Vec<_> = segments.par_iter().map(|segment| cache.key(texts, segment.clone())).collect();
        let whole = segments.par_iter().zip(&keys);
        let languages: Vec<DocumentLanguages> = match analysis.language.language() {
            Some(_) => Vec::new(),
            None => whole
                .clone()
                .map(|(segment, key)| {
                    cache.languages(key, || {
                        let (texts, documents) = in_memory(texts, segment.clone());
                        let mut languages = DocumentLanguages::default();
                        languages.add(&texts, &documents);
                        languages
                    })
                })
                .collect::<Result<_, _>>()?,
        };
        // The language of an unclear document depends on all documents.
        let mut all = DocumentLanguages::default();
        languages.iter().for_each(|some| all.append(some));
        let most = all.most_text();
        let files: Vec<PathBuf> = (0..segments.len())
            .map(|place| {
                let other = languages.get(place).filter(|found| found.has_unclear()).map(|_| most);
                cache.segment_file(&keys[place], other)
            })
            .collect();
        let make = |place: usize| {
            let (texts, documents) = in_memory(texts, segments[place].clone());
            let languages = match analysis.language.language() {
                Some(language) => vec![language; documents.len()],
                None => languages.get(place).map(|found| found.or(most)).unwrap_or_default(),
            };
            Self::of(&IndexedTexts { texts: &texts, documents: &documents, analysis, languages: Some(&languages) })
        };
        merge_segments(&cache, *analysis, &files, make, target)?;
        cache.remove_unused();
        Ok(())
    }
}

/// Where the entries of a segment are read.
enum SegmentSource<'a> {
    /// In an earlier index, which has the segment as these entries.
    Earlier(&'a MergedSegment, Range<u32>),
    /// In its own file.
    File(Arc<Segment>),
}

/// Merges segments, which `make` makes if they are missing, into one file. Segments that an earlier index has are read there:
/// its lists are decoded once, not segment by segment. The file is the same.
fn merge_segments(
    cache: &SegmentCache<'_>,
    analysis: TextAnalysis,
    segments: &[PathBuf],
    make: impl Fn(usize) -> Bm25Index + Sync,
    target: &Path,
) -> Result<(), Error> {
    let names: Vec<String> = segments.iter().map(|file| file_name(file)).collect();
    let earlier = cache.earlier_merge(&names);
    let taken = earlier.as_ref().map(|earlier| earlier.find(&names)).unwrap_or_default();
    let source = |(place, file): (usize, &PathBuf)| match taken.get(place).copied().flatten() {
        Some((segment, entries)) => {
            note_use(file);
            Ok(SegmentSource::Earlier(segment, entries.clone()))
        }
        None => cache.segment(file, || make(place)).map(SegmentSource::File),
    };
    let sources = segments.par_iter().enumerate().map(source).collect::<Result<Vec<_>, Error>>()?;
    let mut files: Vec<Arc<Segment>> = earlier.iter().map(|earlier| earlier.index.clone()).collect();
    let (mut parts, mut content) = (Vec::with_capacity(sources.len()), Vec::with_capacity(sources.len()));
    for (source, file) in sources.into_iter().zip(segments) {
        match source {
            SegmentSource::Earlier(segment, entries) => {
                parts.push((0, entries));
                content.push(segment.clone());
            }
            SegmentSource::File(segment) => {
                parts.push((files.len(), 0..segment.entries()));
                content.push(MergedSegment::of(file, &segment));
                files.push(segment);
            }
        }
    }
    let languages = all_languages(content.iter().map(|segment| segment.languages.as_slice()));
    write_file(&Merge::of_parts(&files, parts)?, &Settings { analysis, languages }, target)?;
    cache.keep_merged(target, &content, earlier);
    Ok(())
}

/// Cuts entries into segments at the borders of documents. Where a segment ends depends on the names of the documents, so
/// that adding or removing a document moves few borders. A segment has at least half of the mean number of documents:
/// without this minimum, most documents would be in a few long segments. A segment ends at the latest when it has this many
/// texts or bytes.
///
/// Source: content-defined chunking, A. Muthitacharoen, B. Chen, D. Mazières, "A Low-bandwidth Network File System",
/// SOSP 2001.
pub(super) fn segments(
    texts: &dyn EntryTexts,
    mean_documents: u64,
    most_texts: usize,
    most_bytes: usize,
) -> Vec<Range<usize>> {
    let fewest_documents = mean_documents / 2;
    let is_border = |document: &str| {
        // A task reads documents whose hashes begin with the same bits, so neighbours have these bits in common. The last
        // bytes differ.
        let hash = blake3::hash(document.as_bytes());
        let number = hash.as_bytes().last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        number.is_multiple_of((mean_documents - fewest_documents).max(1))
    };
    let (mut segments, mut first, mut bytes, mut documents) = (Vec::new(), 0, 0, 0);
    for entry in 0..texts.entries() {
        if entry > first && texts.document(entry) != texts.document(entry - 1) {
            documents += 1;
            let is_full = entry - first >= most_texts || bytes >= most_bytes;
            if is_full || (documents >= fewest_documents && is_border(texts.document(entry - 1))) {
                segments.push(first..entry);
                (first, bytes, documents) = (entry, 0, 0);
            }
        }
        bytes += texts.text(entry).len();
    }
    if first < texts.entries() {
        segments.push(first..texts.entries());
    }
    segments
}

/// The texts of some entries, and the places of the first texts of their documents.
fn in_memory(texts: &dyn EntryTexts, entries: Range<usize>) -> (Vec<&str>, Vec<usize>) {
    let documents = document_starts(entries.clone().map(|entry| texts.document(entry)));
    (entries.map(|entry| texts.text(entry)).collect(), documents)
}
