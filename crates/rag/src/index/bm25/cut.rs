//! Cuts the texts of an index into terms, in parallel.

use crate::{
    analysis::{Analyzer, Language, TextAnalysis, document_languages},
    index::IndexedTexts,
};
use rayon::prelude::*;
use std::{cmp::Reverse, collections::HashMap};

/// The number of texts in a batch, which one thread cuts into terms.
const BATCH_TEXTS: usize = 512;

/// The texts of an index, cut into terms.
pub(super) struct CutTexts {
    pub(super) analysis: TextAnalysis,
    /// The languages, each with the number of its texts, the most frequent first.
    pub(super) languages: Vec<(Language, u32)>,
    /// Each term with the entries that hold it and how often each does, sorted by the bytes of the terms.
    pub(super) postings: Vec<(String, Vec<(u32, u32)>)>,
    /// The number of terms of each text.
    pub(super) lengths: Vec<u32>,
}

impl CutTexts {
    /// Cuts texts into terms. The result does not depend on the number of threads.
    pub(super) fn of(given: &IndexedTexts<'_>) -> Self {
        let languages = text_languages(given);
        let batches = given.texts.par_chunks(BATCH_TEXTS).zip(languages.par_chunks(BATCH_TEXTS));
        let analyzers = || Analyzers::new(given.analysis);
        let read = |analyzers: &mut Analyzers<'_>, (texts, languages)| PartialIndex::read(analyzers, texts, languages);
        let parts: Vec<PartialIndex> = batches.map_init(analyzers, read).collect();
        let mut postings: HashMap<String, Vec<(u32, u32)>> = HashMap::new();
        let mut lengths = Vec::with_capacity(given.texts.len());
        for part in parts {
            let first = lengths.len() as u32;
            for (term, found) in part.postings {
                let found = found.into_iter().map(|(entry, count)| (first + entry, count));
                postings.entry(term).or_default().extend(found);
            }
            lengths.extend(part.lengths);
        }
        let mut postings: Vec<(String, Vec<(u32, u32)>)> = postings.into_iter().collect();
        postings.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (analysis, languages) = (*given.analysis, by_frequency(&languages));
        Self { analysis, languages, postings, lengths }
    }
}

/// The postings of the texts of one batch.
struct PartialIndex {
    postings: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
}

impl PartialIndex {
    fn read(analyzers: &mut Analyzers<'_>, texts: &[&str], languages: &[Language]) -> Self {
        let mut part = Self { postings: HashMap::new(), lengths: Vec::with_capacity(texts.len()) };
        for ((entry, text), &language) in (0u32..).zip(texts).zip(languages) {
            let mut length = 0;
            analyzers.of(language).terms(text, |term| {
                length += 1;
                if !part.postings.contains_key(term) {
                    part.postings.insert(term.to_owned(), Vec::new());
                }
                let Some(found) = part.postings.get_mut(term) else { return };
                match found.last_mut() {
                    Some((last, count)) if *last == entry => *count += 1,
                    _ => found.push((entry, 1)),
                }
            });
            part.lengths.push(length);
        }
        part
    }
}

/// An analyzer for each language so far, created when it is first needed.
struct Analyzers<'a> {
    analysis: &'a TextAnalysis,
    made: HashMap<Language, Analyzer>,
}

impl<'a> Analyzers<'a> {
    fn new(analysis: &'a TextAnalysis) -> Self {
        Self { analysis, made: HashMap::new() }
    }

    fn of(&mut self, language: Language) -> &mut Analyzer {
        self.made.entry(language).or_insert_with(|| Analyzer::new(self.analysis, language))
    }
}

/// The language of each text: the one that the settings name, or else the detected language of its document.
fn text_languages(given: &IndexedTexts<'_>) -> Vec<Language> {
    if let Some(language) = given.analysis.language.language() {
        return vec![language; given.texts.len()];
    }
    let ends = given.documents.iter().skip(1).copied().chain([given.texts.len()]);
    let lengths = given.documents.iter().zip(ends).map(|(first, end)| end - first);
    let found = document_languages(given.texts, given.documents);
    found.into_iter().zip(lengths).flat_map(|(language, length)| std::iter::repeat_n(language, length)).collect()
}

/// Each language with the number of its texts, the most frequent first; equally frequent ones by name.
fn by_frequency(languages: &[Language]) -> Vec<(Language, u32)> {
    let mut counts: HashMap<Language, u32> = HashMap::new();
    for language in languages {
        *counts.entry(*language).or_default() += 1;
    }
    let mut counts: Vec<(Language, u32)> = counts.into_iter().collect();
    counts.sort_by_key(|&(language, count)| (Reverse(count), language));
    counts
}
