//! Search by words with BM25, in the variant of Lucene: good at names, codes
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

mod cut;
mod file;
mod postings;

use super::{Index, IndexedTexts, MadeFrom, document_starts, kind::only, top::Top};
use crate::{
    Chunk, Error,
    analysis::{Analyzer, Language, TextAnalysis},
};
use cut::CutTexts;
use file::bad;
use postings::Postings;
use std::{collections::HashSet, path::PathBuf};

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
#[derive(Debug, Clone, PartialEq)]
pub struct Bm25Index {
    analysis: TextAnalysis,
    /// The languages of its texts, each with the number of its texts, the most frequent first.
    languages: Vec<(Language, u32)>,
    postings: Postings,
    /// What each posting adds to the score of its entry, with the default [`Saturation`].
    weights: Vec<f32>,
    /// The number of terms of each entry.
    lengths: Vec<u32>,
    mean_length: f64,
    /// Whether its file was written by version 0.1. That version always cut texts as English, so retrievers with any
    /// settings may search the index.
    is_of_version_1: bool,
}

impl Index for Bm25Index {
    const NAME: &'static str = "bm25";
    const TITLE: &'static str = "BM25 index";
    const VERSION: u32 = 2;
    const OLDEST_READ: u32 = 1;
    const MADE_FROM: MadeFrom = MadeFrom::Texts(|texts| Self::of(texts).to_bytes());

    fn open_files(files: &[PathBuf]) -> Result<Self, Error> {
        let file = only(files)?;
        let bytes = std::fs::read(file).map_err(|error| bad(format!("{}: {error}", file.display())))?;
        Self::from_bytes(&bytes)
    }

    /// Its file was compared with its checksum when it was opened.
    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }

    fn verify_bytes(bytes: &[u8]) -> Result<(), Error> {
        Self::from_bytes(bytes).map(drop)
    }

    fn entries(&self) -> usize {
        self.lengths.len()
    }
}

impl Bm25Index {
    /// Indexes the texts of one document, with the default [`TextAnalysis`].
    pub fn build<T: AsRef<str>>(texts: &[T]) -> Self {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        Self::of(&IndexedTexts { texts: &texts, documents: &[0], analysis: &TextAnalysis::default() })
    }

    /// Indexes the texts of chunks. The chunks of a document must follow each other.
    pub fn of_chunks(chunks: &[&Chunk], analysis: &TextAnalysis) -> Self {
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        let documents = document_starts(chunks.iter().map(|chunk| chunk.document.as_str()));
        Self::of(&IndexedTexts { texts: &texts, documents: &documents, analysis })
    }

    /// Indexes texts, with the threads of the current rayon pool. Equal
    /// texts give an equal index.
    pub fn of(given: &IndexedTexts<'_>) -> Self {
        Self::assemble(CutTexts::of(given))
    }

    /// Whether a retriever with these settings may search it.
    pub fn fits(&self, analysis: &TextAnalysis) -> bool {
        self.is_of_version_1 || self.analysis == *analysis
    }

    /// At most `k` entries that share a term with the query `text`, with their scores,
    /// best first, equal scores by entry.
    pub fn search(&self, text: &str, k: usize) -> Vec<(u32, f32)> {
        self.search_where(text, k, Saturation::default(), |_| true)
    }

    /// [`search`](Self::search) with other parameters, among the entries that pass.
    pub fn search_where(
        &self,
        text: &str,
        k: usize,
        saturation: Saturation,
        passes: impl Fn(u32) -> bool,
    ) -> Vec<(u32, f32)> {
        let mut scores = vec![0.0f32; self.lengths.len()];
        for term in self.query(text) {
            if saturation == Saturation::default() {
                let weights = &self.weights[self.postings.range(term)];
                let add = |(&entry, weight): (&u32, &f32)| scores[entry as usize] += weight;
                self.postings.entries_of(term).iter().zip(weights).for_each(add);
            } else {
                let idf = self.idf(term);
                let add = |(entry, count)| scores[entry as usize] += self.weight(idf, entry, count, saturation);
                self.postings.of(term).for_each(add);
            }
        }
        let mut top = Top::new(k);
        // Most entries take one comparison. A later entry with an equal score is not among the best.
        let mut least = 0.0;
        for (entry, score) in (0u32..).zip(scores) {
            if score > least && passes(entry) {
                top.push(entry, score);
                least = top.threshold().max(0.0);
            }
        }
        top.into_sorted()
    }

    /// The scores of some entries with the default [`Saturation`]; 0 where no term is shared.
    pub fn scores(&self, text: &str, entries: &[u32]) -> Vec<f32> {
        let mut scores = vec![0.0f32; entries.len()];
        for term in self.query(text) {
            let weights = &self.weights[self.postings.range(term)];
            for (entry, score) in entries.iter().zip(&mut scores) {
                if let Ok(at) = self.postings.entries_of(term).binary_search(entry) {
                    *score += weights[at];
                }
            }
        }
        scores
    }

    /// The terms of a query that the index holds, by their numbers, repetitions included.
    fn query(&self, text: &str) -> Vec<usize> {
        let all: Vec<Language> = self.languages.iter().map(|(language, _)| *language).collect();
        let languages =
            Language::among(text, &all).map_or_else(|| self.frequent_languages(), |language| vec![language]);
        let (mut found, mut seen): (Vec<usize>, HashSet<usize>) = (Vec::new(), HashSet::new());
        for language in languages {
            let mut of_language = Vec::new();
            Analyzer::new(&self.analysis, language).terms(text, |term| {
                of_language.extend(self.postings.number_of(term));
            });
            // Skips terms from an earlier language: a word that two languages cut alike would count twice.
            of_language.retain(|term| !seen.contains(term));
            seen.extend(&of_language);
            found.extend(of_language);
        }
        found
    }

    /// The languages whose rules cut a query in an unclear language: the most frequent one, and each one with at
    /// least 5 % of the texts. The rules of a rarer language would keep the stop words of the main language. These
    /// words are rare in the index, so they would weigh too much.
    fn frequent_languages(&self) -> Vec<Language> {
        let texts: u64 = self.languages.iter().map(|(_, n)| u64::from(*n)).sum();
        let is_frequent = |&(place, (_, n)): &(usize, &(Language, u32))| place == 0 || u64::from(*n) * 20 >= texts;
        self.languages.iter().enumerate().filter(is_frequent).map(|(_, (language, _))| *language).collect()
    }

    /// The inverse document frequency of a term.
    fn idf(&self, term: usize) -> f64 {
        let (n, frequency) = (self.lengths.len() as f64, self.postings.range(term).len() as f64);
        (1.0 + (n - frequency + 0.5) / (frequency + 0.5)).ln()
    }

    /// What a term adds to the score of an entry that contains it `count` times.
    fn weight(&self, idf: f64, entry: u32, count: u32, Saturation { k1, b }: Saturation) -> f32 {
        let (k1, b) = (f64::from(k1), f64::from(b));
        let (count, length) = (f64::from(count), f64::from(self.lengths[entry as usize]));
        (idf * count / (count + k1 * (1.0 - b + b * length / self.mean_length))) as f32
    }

    fn assemble(CutTexts { analysis, languages, postings, lengths }: CutTexts) -> Self {
        let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        let mean_length = total as f64 / lengths.len().max(1) as f64;
        let index =
            Self { analysis, languages, postings, weights: Vec::new(), lengths, mean_length, is_of_version_1: false };
        let mut weights = Vec::with_capacity(index.postings.entries.len());
        for term in 0..index.postings.terms.len() {
            let idf = index.idf(term);
            let weight = |(entry, count)| index.weight(idf, entry, count, Saturation::default());
            weights.extend(index.postings.of(term).map(weight));
        }
        Self { weights, ..index }
    }
}

#[cfg(test)]
mod tests;
