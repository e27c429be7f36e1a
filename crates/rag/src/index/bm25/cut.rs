//! Cuts the texts of an index into terms, in parallel.

use super::{
    blocks::TermPostings,
    merge::by_frequency,
    postings::Postings,
    segment::{Segment, SegmentFacts, Settings},
    spool::Spool,
    writer::SegmentWriter,
};
use crate::{
    analysis::{Analyzer, Language, TextAnalysis, document_languages},
    index::IndexedTexts,
};
use foldhash::HashMap as FastHashMap;
use rayon::prelude::*;
use std::{borrow::Cow, collections::HashMap, io};

/// The smallest number of texts in a batch, except the last. One thread cuts a batch.
const BATCH_TEXTS: usize = 256;
/// Batches per thread. Several, because some take longer than others.
const BATCHES_PER_THREAD: usize = 8;
/// The lists that are made at once.
const LISTS: usize = 4096;

/// The texts of an index, cut into terms.
pub(super) struct CutTexts {
    pub(super) settings: Settings,
    pub(super) postings: Postings,
    /// The number of terms of each text.
    pub(super) lengths: Vec<u32>,
}

impl CutTexts {
    /// Cuts texts into terms. The result does not depend on the number of threads.
    pub(super) fn of(given: &IndexedTexts<'_>) -> Self {
        let languages = text_languages(given);
        let length = (given.texts.len() / (BATCHES_PER_THREAD * rayon::current_num_threads())).max(BATCH_TEXTS);
        let batches = given.texts.par_chunks(length).zip(languages.par_chunks(length));
        let analyzers = || Analyzers::new(given.analysis);
        let read = |analyzers: &mut Analyzers<'_>, (texts, languages)| Batch::read(analyzers, texts, languages);
        let batches: Vec<Batch> = batches.map_init(analyzers, read).collect();
        let lengths = batches.iter().flat_map(|batch| &batch.lengths).copied().collect();
        let mut counts = HashMap::new();
        languages.iter().for_each(|language| *counts.entry(*language).or_default() += 1);
        let settings = Settings { analysis: *given.analysis, languages: by_frequency(counts) };
        Self { settings, postings: merge(batches), lengths }
    }

    /// Makes a file of them in memory. The bytes do not depend on the number of threads.
    pub(super) fn into_segment(self) -> Segment {
        // Writing into memory does not fail.
        let (bytes, facts) = self.write().unwrap_or_default();
        Segment::written(bytes, facts, self.settings)
    }

    fn write(&self) -> io::Result<(Vec<u8>, SegmentFacts)> {
        let mut writer = SegmentWriter::begin(Vec::new(), &self.settings, [Spool::default(), Spool::default()])?;
        writer.lengths(self.lengths.iter().copied())?;
        let frequency = |term| self.postings.range(term).len() as u32;
        let list = |scratch: &mut TermPostings, term: usize| {
            scratch.clear();
            scratch.entries.extend_from_slice(self.postings.entries_of(term));
            scratch.counts.extend_from_slice(&self.postings.counts[self.postings.range(term)]);
            scratch.lengths.extend(scratch.entries.iter().map(|&entry| self.lengths[entry as usize]));
            let mut bytes = Vec::new();
            scratch.write(&mut bytes);
            bytes
        };
        // An old file may have terms without postings.
        let terms: Vec<usize> = (0..self.postings.terms.len()).filter(|&term| frequency(term) > 0).collect();
        for terms in terms.chunks(LISTS) {
            let lists =
                terms.par_iter().with_min_len(64).map_init(TermPostings::default, |scratch, &term| list(scratch, term));
            for (&term, list) in terms.iter().zip(lists.collect::<Vec<_>>()) {
                writer.term(self.postings.terms[term].as_bytes(), frequency(term), &list)?;
            }
        }
        let (mut bytes, facts, header) = writer.finish()?;
        bytes[..header.len()].copy_from_slice(&header);
        Ok((bytes, facts))
    }
}

/// The terms of the texts of one batch. Each term has a number within the batch.
#[derive(Default)]
struct Batch {
    numbers: FastHashMap<String, u32>,
    /// For each text in order: the numbers of its terms with their counts.
    term_counts: Vec<(u32, u32)>,
    /// Where each text ends in `term_counts`.
    ends: Vec<usize>,
    /// The number of terms of each text.
    lengths: Vec<u32>,
}

impl Batch {
    fn read(analyzers: &mut Analyzers<'_>, texts: &[&str], languages: &[Language]) -> Self {
        let Self { mut numbers, mut term_counts, mut ends, mut lengths } = Self::default();
        // Where in `term_counts` each term was last counted.
        let mut places: Vec<usize> = Vec::new();
        for (text, &language) in texts.iter().zip(languages) {
            let (first, mut length) = (term_counts.len(), 0);
            analyzers.of(language).terms(text, |term| {
                length += 1;
                let number = numbers.get(term).copied().unwrap_or_else(|| {
                    let number = places.len() as u32;
                    numbers.insert(term.to_owned(), number);
                    // Not counted yet.
                    places.push(usize::MAX);
                    number
                });
                let place = &mut places[number as usize];
                match term_counts.get_mut(*place) {
                    Some((_, count)) if *place >= first => *count += 1,
                    _ => {
                        *place = term_counts.len();
                        term_counts.push((number, 1));
                    }
                }
            });
            ends.push(term_counts.len());
            lengths.push(length);
        }
        Self { numbers, term_counts, ends, lengths }
    }
}

/// Merges the batches. Terms are sorted by their bytes.
fn merge(mut batches: Vec<Batch>) -> Postings {
    let mut numbers: FastHashMap<String, usize> = FastHashMap::default();
    // The number of texts that contain each term.
    let mut frequencies: Vec<usize> = Vec::new();
    for batch in &mut batches {
        let mut global_numbers = vec![0; batch.numbers.len()];
        for (term, number) in std::mem::take(&mut batch.numbers) {
            let next = numbers.len();
            global_numbers[number as usize] = *numbers.entry(term).or_insert(next) as u32;
        }
        frequencies.resize(numbers.len(), 0);
        for (number, _) in &mut batch.term_counts {
            *number = global_numbers[*number as usize];
            frequencies[*number as usize] += 1;
        }
    }
    let mut sorted: Vec<(String, usize)> = numbers.into_iter().collect();
    sorted.sort_unstable();
    let (mut terms, mut starts, mut next) = (Vec::with_capacity(sorted.len()), vec![0], vec![0; sorted.len()]);
    let mut n_postings = 0;
    for (term, number) in sorted {
        next[number] = n_postings;
        n_postings += frequencies[number];
        terms.push(term);
        starts.push(n_postings);
    }
    let (mut entries, mut counts) = (vec![0; n_postings], vec![0; n_postings]);
    let mut entry = 0;
    for batch in batches {
        let mut start = 0;
        for end in batch.ends {
            for &(number, count) in &batch.term_counts[start..end] {
                let place = &mut next[number as usize];
                (entries[*place], counts[*place]) = (entry, count);
                *place += 1;
            }
            (start, entry) = (end, entry + 1);
        }
    }
    Postings { terms, starts, entries, counts }
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
    let detect = || document_languages(given.texts, given.documents).into();
    let found: Cow<'_, [Language]> = given.languages.map_or_else(detect, Cow::Borrowed);
    let ends = given.documents.iter().skip(1).copied().chain([given.texts.len()]);
    let lengths = given.documents.iter().zip(ends).map(|(first, end)| end - first);
    found.iter().zip(lengths).flat_map(|(&language, length)| std::iter::repeat_n(language, length)).collect()
}
