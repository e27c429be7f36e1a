//! TermSearch by words with BM25, in the variant of Lucene: good at names, codes
//! and rare words, where vectors are weak.
//!
//! A term adds `idf · tf / (tf + k1 (1 − b + b · length / mean length))` with
//! `idf = ln(1 + (N − df + ½) / (df + ½))`, k1 = 1.5 and b = 0.75 by default. The module
//! [`analysis`](crate::analysis) cuts texts into terms; a term that occurs twice in the
//! query counts twice. For English, scores agree with LlamaIndex's `BM25Retriever` (bm25s).
//! Unlike bm25s, the search returns only entries that share a term with the query, and
//! does not add entries with a score of zero.
//!
//! The index stores the languages of its documents. If a query is clearly in one of them, it is
//! cut by the rules of that language. Otherwise it is cut by the rules of each frequent one,
//! because a query of a few words may be in any of them.
//!
//! Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25
//! and Beyond, 2009; Kamphuis et al., Which BM25 Do You Mean?, 2020.

mod blocks;
mod build;
mod cursor;
mod cut;
mod decoded;
mod dictionary;
mod impacts;
mod merge;
mod numbers;
mod old_file;
mod postings;
mod query;
mod search;
mod segment;
mod segment_cache;
mod spool;
mod verify;
mod weight;
mod writer;

use super::{Index, IndexedTexts, MadeFrom, document_starts, kernel};
use crate::{Chunk, Error, analysis::TextAnalysis};
use cut::CutTexts;
use decoded::DecodedLists;
use memmap2::Mmap;
use segment::{FORMAT, HEADER, Segment, SegmentBytes, Settings, bad};
use spool::Spool;
use std::{
    borrow::Cow,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use weight::Norms;

/// The parameters of BM25: how much repeated terms and long texts count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// How much further occurrences of a term add: 0 (nothing) or more.
    pub k1: f32,
    /// How strongly long texts are penalised, from 0 (not at all) to 1.
    pub b: f32,
}

impl Default for Saturation {
    fn default() -> Self {
        Self { k1: 1.5, b: 0.75 }
    }
}

/// An index of the terms of texts. Entry `i` is the `i`-th searchable chunk.
///
/// It is one file or several, whose entries follow each other. Hits and scores are those of one file of all texts.
#[derive(Debug, Clone)]
pub struct Bm25Index {
    segments: Vec<Arc<Segment>>,
    /// How the texts of all files were cut.
    settings: Settings,
    /// The number of entries of all files.
    entries: usize,
    mean_length: f64,
    /// The largest number of terms of an entry.
    longest: u32,
    /// The norms of the default [`Saturation`].
    norms: OnceLock<Norms>,
    /// The decoded lists of each file; none if the files are large.
    decoded: Vec<DecodedLists>,
    /// Whether its file was written by version 0.1. That version always cut texts as English, so retrievers with any
    /// settings may search the index.
    is_of_version_1: bool,
}

impl Bm25Index {
    /// [`Bm25Index::write`] keeps its index under a second name, beside the segments. This is the ending of that name.
    pub const MERGED: &'static str = "merged";
    /// The list of the index's segments has the same name with this ending.
    pub const CONTENT: &'static str = "content";
}

impl Index for Bm25Index {
    const NAME: &'static str = "bm25";
    const TITLE: &'static str = "BM25 index";
    const VERSION: u32 = 2;
    const OLDEST_READ: u32 = 1;
    const MADE_FROM: MadeFrom = MadeFrom::Texts(Self::write);

    fn open_files(files: &[PathBuf]) -> Result<Self, Error> {
        Self::open(files)
    }

    fn verify(&self) -> Result<(), Error> {
        self.segments.iter().try_for_each(|segment| segment.verify())
    }

    fn verify_bytes(bytes: &[u8]) -> Result<(), Error> {
        Self::from_bytes(bytes)?.verify()
    }

    fn entries(&self) -> usize {
        self.entries
    }
}

/// Indexes are equal if the files of their texts are.
impl PartialEq for Bm25Index {
    fn eq(&self, other: &Self) -> bool {
        self.is_of_version_1 == other.is_of_version_1 && self.file_bytes() == other.file_bytes()
    }
}

impl Bm25Index {
    /// Indexes the texts of one document, with the default [`TextAnalysis`].
    pub fn build<T: AsRef<str>>(texts: &[T]) -> Self {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let analysis = &TextAnalysis::default();
        Self::of(&IndexedTexts { texts: &texts, documents: &[0], analysis, languages: None })
    }

    /// Indexes the texts of chunks. The chunks of a document must follow each other.
    pub fn of_chunks(chunks: &[&Chunk], analysis: &TextAnalysis) -> Self {
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        let documents = document_starts(chunks.iter().map(|chunk| chunk.document.as_str()));
        Self::of(&IndexedTexts { texts: &texts, documents: &documents, analysis, languages: None })
    }

    /// Indexes texts, with the threads of the current rayon pool. Equal
    /// texts give an equal index.
    pub fn of(given: &IndexedTexts<'_>) -> Self {
        Self::of_segment(CutTexts::of(given).into_segment(), false)
    }

    /// Whether a retriever with these settings may search it.
    pub fn fits(&self, analysis: &TextAnalysis) -> bool {
        self.is_of_version_1 || self.settings.analysis == *analysis
    }

    /// The index as bytes. Equal indexes give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.file_bytes().into_owned()
    }

    /// Reads an index from the bytes of its file, and compares them with their checksum.
    ///
    /// # Errors
    /// Bytes that are not a complete, undamaged index of this format or an older one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let format = old_file::format(bytes)?;
        if format != FORMAT {
            return Self::of_old_file(bytes, format);
        }
        segment::verify_checksum(bytes)?;
        Ok(Self::of_segment(Segment::new(SegmentBytes::Owned(bytes.to_owned()))?, false))
    }

    /// Maps files into memory; those of old formats are read. Checks the lengths of their parts;
    /// [`verify`](Index::verify) reads all of them.
    fn open(files: &[PathBuf]) -> Result<Self, Error> {
        let open = |file: &PathBuf| {
            let map = map(file)?;
            let format = old_file::format(&map)?;
            if format == FORMAT {
                return Ok(Self::of_segment(Segment::new(SegmentBytes::Mapped(map))?, false));
            }
            Self::of_old_file(&map, format)
        };
        let indexes = files.iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        Self::of_several(indexes)
    }

    /// Maps the file of a segment.
    fn open_segment(file: &Path) -> Result<Arc<Segment>, Error> {
        let mut index = Self::open(&[file.to_owned()])?;
        index.segments.pop().ok_or_else(|| bad("a file without a segment"))
    }

    fn of_old_file(bytes: &[u8], format: u32) -> Result<Self, Error> {
        let cut = old_file::read(bytes, format)?;
        let is_of_version_1 = format == old_file::FORMAT_OF_ENGLISH;
        Ok(Self::of_segment(cut.into_segment(), is_of_version_1))
    }

    fn of_segment(segment: Segment, is_of_version_1: bool) -> Self {
        let settings = segment.settings.clone();
        Self::of_segments(vec![Arc::new(segment)], settings, is_of_version_1)
    }

    /// One index of several, whose entries follow each other.
    fn of_several(mut indexes: Vec<Self>) -> Result<Self, Error> {
        if indexes.len() == 1
            && let Some(index) = indexes.pop()
        {
            return Ok(index);
        }
        let Some(first) = indexes.first() else { return Err(bad("0 files, but an index has at least one")) };
        let (analysis, is_of_version_1) = (first.settings.analysis, first.is_of_version_1);
        if !indexes.iter().all(|one| one.settings.analysis == analysis && one.is_of_version_1 == is_of_version_1) {
            return Err(bad("its files were made with different settings"));
        }
        merge::check_count(indexes.iter().map(|one| one.entries as u64).sum())?;
        let languages = merge::all_languages(indexes.iter().map(|index| index.settings.languages.as_slice()));
        let segments = indexes.into_iter().flat_map(|index| index.segments).collect();
        Ok(Self::of_segments(segments, Settings { analysis, languages }, is_of_version_1))
    }

    fn of_segments(segments: Vec<Arc<Segment>>, settings: Settings, is_of_version_1: bool) -> Self {
        let entries: usize = segments.iter().map(|segment| segment.entries() as usize).sum();
        // Where a file is damaged, the sum may be too large.
        let total = segments.iter().fold(0u64, |total, one| total.saturating_add(one.facts.total_length));
        let longest = segments.iter().map(|segment| segment.facts.longest).max().unwrap_or(0);
        let mean_length = total as f64 / entries.max(1) as f64;
        let bytes = segments.iter().fold(0u64, |bytes, one| bytes.saturating_add(one.facts.bytes[1]));
        let n_decoded = if bytes > decoded::MOST { 0 } else { segments.len() };
        let (norms, decoded) = (OnceLock::new(), vec![DecodedLists::default(); n_decoded]);
        Self { segments, settings, entries, mean_length, longest, norms, decoded, is_of_version_1 }
    }

    /// The bytes of its file, or of the one file that its files would be.
    fn file_bytes(&self) -> Cow<'_, [u8]> {
        if let [segment] = self.segments.as_slice() {
            return Cow::Borrowed(segment.bytes());
        }
        let spools = [Spool::default(), Spool::default()];
        let merged = merge::Merge::of_whole(&self.segments).write(&self.settings, Vec::new(), spools);
        // Of damaged files nothing is made.
        let merged = merged.map(|(mut bytes, header)| {
            bytes[..HEADER].copy_from_slice(&header);
            bytes
        });
        Cow::Owned(merged.unwrap_or_default())
    }
}

fn map(file: &Path) -> Result<Mmap, Error> {
    let mapped = File::open(file).and_then(|file| kernel::map(&file, false));
    mapped.map_err(|error| bad(format!("{}: {error}", file.display())))
}

#[cfg(test)]
mod tests;
