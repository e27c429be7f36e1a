//! Searches of a BM25 index.

use super::{
    Bm25Index, Saturation,
    cursor::Cursor,
    search::TermSearch,
    weight::{Norms, Weights, idf},
};
use crate::analysis::{Analyzer, Language};
use std::{borrow::Cow, collections::HashSet};

/// A term of a query.
pub(super) struct QueryTerm {
    idf: f64,
    /// Its number in each file.
    pub(super) numbers: Vec<Option<usize>>,
}

impl Bm25Index {
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
        let terms = self.query(text);
        if k == 0 || terms.is_empty() {
            return Vec::new();
        }
        let norms = self.norms(saturation);
        let mut search = TermSearch::new(k, passes);
        let mut first = 0;
        for (file, segment) in self.segments.iter().enumerate() {
            let mut cursors = self.cursors(&terms, file, &norms, saturation == Saturation::default());
            search.run(&mut cursors, segment.entries(), first, norms.are_usual());
            first += segment.entries();
        }
        search.into_best()
    }

    /// The scores of some entries with the default [`Saturation`]; 0 where no term is shared.
    pub fn scores(&self, text: &str, entries: &[u32]) -> Vec<f32> {
        let terms = self.query(text);
        let norms = self.norms(Saturation::default());
        let mut scores = vec![0.0f32; entries.len()];
        let mut first = 0;
        for (file, segment) in self.segments.iter().enumerate() {
            for mut cursor in self.cursors(&terms, file, &norms, true) {
                for (&entry, score) in entries.iter().zip(&mut scores) {
                    let in_file = entry.checked_sub(first).filter(|&entry| entry < segment.entries());
                    if let Some(weight) = in_file.and_then(|entry| cursor.find(entry)) {
                        *score += weight;
                    }
                }
            }
            first += segment.entries();
        }
        scores
    }

    /// The lists of a file that a query's terms have, in the order of the query.
    fn cursors<'a>(&'a self, terms: &[QueryTerm], file: usize, norms: &'a Norms, is_default: bool) -> Vec<Cursor<'a>> {
        let segment = &self.segments[file];
        let cursor = |term: &QueryTerm| {
            let number = term.numbers[file]?;
            let (list, lengths, weights) = (segment.list(number), segment.lengths(), Weights::new(term.idf, norms));
            let terms = segment.dictionary().len();
            let ready = self.decoded.get(file).filter(|_| is_default);
            let ready = ready.and_then(|ready| ready.of(number, terms, &list, weights, lengths));
            Some(Cursor::new(list, ready, weights, lengths))
        };
        terms.iter().filter_map(cursor).collect()
    }

    fn norms(&self, saturation: Saturation) -> Cow<'_, Norms> {
        let norms = || Norms::new(saturation, self.mean_length, self.longest);
        if saturation == Saturation::default() {
            return Cow::Borrowed(self.norms.get_or_init(norms));
        }
        Cow::Owned(norms())
    }

    /// The terms of a query that the index holds, repetitions included.
    pub(super) fn query(&self, text: &str) -> Vec<QueryTerm> {
        let all: Vec<Language> = self.settings.languages.iter().map(|(language, _)| *language).collect();
        let languages =
            Language::among(text, &all).map_or_else(|| self.frequent_languages(), |language| vec![language]);
        let (mut found, mut seen): (Vec<QueryTerm>, HashSet<Vec<Option<usize>>>) = (Vec::new(), HashSet::new());
        for language in languages {
            let mut of_language = Vec::new();
            Analyzer::new(&self.settings.analysis, language).terms(text, |term| of_language.extend(self.term(term)));
            // Skips terms from an earlier language: a word that two languages cut alike would count twice.
            of_language.retain(|term| !seen.contains(&term.numbers));
            seen.extend(of_language.iter().map(|term| term.numbers.clone()));
            found.extend(of_language);
        }
        found
    }

    /// A term of a query, if the index holds it.
    fn term(&self, term: &str) -> Option<QueryTerm> {
        let numbers: Vec<_> = self.segments.iter().map(|segment| segment.dictionary().find(term)).collect();
        let places = self.segments.iter().zip(&numbers).filter_map(|(segment, number)| number.map(|n| (segment, n)));
        let frequencies = places.map(|(segment, number)| u64::from(segment.dictionary().frequency(number)));
        let frequency = frequencies.reduce(|a, b| a + b)?;
        Some(QueryTerm { idf: idf(self.entries, frequency), numbers })
    }

    /// The languages whose rules cut a query in an unclear language: the most frequent one, and each one with at
    /// least 5 % of the texts. The rules of a rarer language would keep the stop words of the main language. These
    /// words are rare in the index, so they would weigh too much.
    fn frequent_languages(&self) -> Vec<Language> {
        let languages = &self.settings.languages;
        let texts: u64 = languages.iter().map(|(_, n)| u64::from(*n)).sum();
        let is_frequent = |&(place, (_, n)): &(usize, &(Language, u32))| place == 0 || u64::from(*n) * 20 >= texts;
        languages.iter().enumerate().filter(is_frequent).map(|(_, (language, _))| *language).collect()
    }
}
