//! Finds quotes in documents.
//!
//! When to use it: for every dataset, before anything is run on it. A span that
//! still holds its quote is kept. Otherwise the quote is searched: first exactly,
//! then ignoring white space, kinds of quotation marks and dashes, ligatures and
//! invisible characters, and last also ignoring hyphens, which PDF extraction adds
//! or drops at line ends. Of several places, the one nearest to the old span is
//! taken, or the first.
//!
//! Time is linear in the length of the text. Positions are found by folding the
//! text a second time, so no table of offsets is needed.

use super::{
    Dataset, Evidence,
    fold::{Fold, fold, folded, unfold},
};
use rag::Span;
use std::cell::OnceCell;
use std::collections::HashMap;

/// Evidence that was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("question `{question}`: the evidence “{quote}” cannot be used: {reason}")]
pub struct AnchorError {
    /// The question's id.
    pub question: String,
    /// The document as the dataset names it; empty if it names none.
    pub document: String,
    /// The beginning of the quote.
    pub quote: String,
    /// Why.
    pub reason: AnchorErrorKind,
}

/// Why evidence was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnchorErrorKind {
    /// The corpus has no such document.
    #[error("the corpus has no document `{document}`{}", similar.as_ref().map_or(String::new(), |path| format!("; did you mean `{path}`?")))]
    Document {
        /// The document's name.
        document: String,
        /// A document with the same file name.
        similar: Option<String>,
    },
    /// The document does not hold the quote.
    #[error("{} in `{document}`{}: correct the quote, or remove the evidence", if *was_there { "it is no longer" } else { "it is not" }, nearest.as_ref().map_or(String::new(), |nearest| format!("; the most similar words there are “{nearest}”")))]
    Quote {
        /// The document's name.
        document: String,
        /// Whether the dataset has a span for it, so that the document has changed.
        was_there: bool,
        /// The most similar words of the document, if any are similar.
        nearest: Option<String>,
    },
    /// No document holds the quote.
    #[error("no document of the corpus holds it: correct the quote, or name its document")]
    Nowhere,
}

/// Finds a quote in a text: its span in bytes, at character boundaries. The place
/// nearest to `hint`, the old span, is preferred.
pub fn anchor(document_text: &str, quote: &str, hint: Option<Span>) -> Option<Span> {
    Haystack::new(document_text).find(quote, hint)
}

/// A text to search in, with its folded forms, which are made on demand.
struct Haystack<'a> {
    text: &'a str,
    /// By level of folding.
    folded: [OnceCell<String>; 2],
}

impl<'a> Haystack<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, folded: [const { OnceCell::new() }; 2] }
    }

    fn find(&self, quote: &str, hint: Option<Span>) -> Option<Span> {
        let quote = quote.trim();
        let needle = folded(quote, Fold::Typography);
        if needle.is_empty() {
            return None;
        }
        if let Some(span) = hint {
            // A span that is reversed, too long or inside a character has no text.
            let there = self.text.get(span.start..span.end).unwrap_or_default();
            if folded(there, Fold::Typography) == needle {
                return Some(span);
            }
        }
        let hint = hint.map(|span| span.start);
        if let Some(start) = nearest(self.text, quote, hint) {
            return Some(Span { start, end: start + quote.len() });
        }
        self.find_folded(quote, hint, Fold::Typography).or_else(|| self.find_folded(quote, hint, Fold::Hyphens))
    }

    fn find_folded(&self, quote: &str, hint: Option<usize>, level: Fold) -> Option<Span> {
        let haystack = self.folded[level as usize].get_or_init(|| folded(self.text, level));
        let needle = folded(quote, level);
        if needle.is_empty() {
            return None;
        }
        let hint = hint.map(|byte| {
            fold(self.text, level).take_while(|(_, start, _)| *start < byte).map(|(c, _, _)| c.len_utf8()).sum()
        });
        let found = nearest(haystack, &needle, hint)?;
        unfold(self.text, found, found + needle.len(), level)
    }
}

/// The occurrence of a needle nearest to a hint, or the first.
fn nearest(haystack: &str, needle: &str, hint: Option<usize>) -> Option<usize> {
    let mut places = haystack.match_indices(needle).map(|(place, _)| place);
    match hint {
        None => places.next(),
        Some(hint) => places.min_by_key(|place| place.abs_diff(hint)),
    }
}

/// Evidence by its place in the dataset: (question, item).
type EvidencePosition = (usize, usize);

/// A search for the evidence of a dataset. The order of documents does not change
/// the result.
pub struct Anchoring<'a> {
    dataset: &'a mut Dataset,
    by_document: HashMap<String, Vec<EvidencePosition>>,
    by_file_name: HashMap<String, Vec<EvidencePosition>>,
    unnamed: Vec<EvidencePosition>,
    found: HashMap<EvidencePosition, (String, Span)>,
    seen: HashMap<EvidencePosition, DocumentMatch>,
}

/// What is known of the document that evidence names.
enum DocumentMatch {
    /// It was visited; with its words that are nearest to the quote.
    Document(Option<String>),
    /// Only another document with the same file name was visited.
    Similar(String),
}

impl<'a> Anchoring<'a> {
    pub(super) fn new(dataset: &'a mut Dataset) -> Self {
        let mut by_document: HashMap<String, Vec<EvidencePosition>> = HashMap::new();
        let mut by_file_name: HashMap<String, Vec<EvidencePosition>> = HashMap::new();
        let mut unnamed = Vec::new();
        for (i, question) in dataset.questions.iter().enumerate() {
            for (j, Evidence { document, .. }) in question.evidence.iter().enumerate() {
                if document.is_empty() {
                    unnamed.push((i, j));
                } else {
                    by_document.entry(document.clone()).or_default().push((i, j));
                    by_file_name.entry(file_name(document).to_owned()).or_default().push((i, j));
                }
            }
        }
        Self { dataset, by_document, by_file_name, unnamed, found: HashMap::new(), seen: HashMap::new() }
    }

    /// Whether the text of a document with this path is searched. Other documents count by their names alone, and may be
    /// visited without their texts.
    pub fn reads(&self, path: &str) -> bool {
        !self.unnamed.is_empty() || self.by_document.contains_key(path)
    }

    /// Searches one document.
    pub fn visit(&mut self, path: &str, text: &str) {
        let haystack = Haystack::new(text);
        let mut suggestions = 0;
        for &place in self.by_document.get(path).into_iter().flatten() {
            let evidence = &self.dataset.questions[place.0].evidence[place.1];
            if let Some(span) = haystack.find(&evidence.quote, evidence.span) {
                self.seen.insert(place, DocumentMatch::Document(None));
                self.found.insert(place, (path.to_owned(), span));
            } else {
                suggestions += 1;
                let is_worth_it = suggestions <= MOST_SUGGESTIONS && text.len() <= MOST_SEARCHED;
                let nearest = if is_worth_it { nearest_words(text, &evidence.quote) } else { None };
                self.seen.insert(place, DocumentMatch::Document(nearest));
            }
        }
        for &place in self.by_file_name.get(file_name(path)).into_iter().flatten() {
            match self.seen.get(&place) {
                Some(DocumentMatch::Document(_)) => {}
                // The first path by name, so that the order of visits does not matter.
                Some(DocumentMatch::Similar(known)) if known.as_str() <= path => {}
                _ => {
                    self.seen.insert(place, DocumentMatch::Similar(path.to_owned()));
                }
            }
        }
        for &place in &self.unnamed {
            if self.found.get(&place).is_some_and(|(known, _)| known.as_str() <= path) {
                continue;
            }
            let evidence = &self.dataset.questions[place.0].evidence[place.1];
            if let Some(span) = haystack.find(&evidence.quote, evidence.span) {
                self.found.insert(place, (path.to_owned(), span));
            }
        }
    }

    /// Writes the found spans into the dataset, and returns the evidence that was not
    /// found.
    pub fn finish(mut self) -> Vec<AnchorError> {
        let mut unanchored = Vec::new();
        for (i, question) in self.dataset.questions.iter_mut().enumerate() {
            for (j, evidence) in question.evidence.iter_mut().enumerate() {
                if let Some((document, span)) = self.found.remove(&(i, j)) {
                    evidence.document = document;
                    evidence.span = Some(span);
                    continue;
                }
                let was_there = evidence.span.take().is_some();
                let document = evidence.document.clone();
                let reason = match self.seen.remove(&(i, j)) {
                    _ if document.is_empty() => AnchorErrorKind::Nowhere,
                    Some(DocumentMatch::Document(nearest)) => {
                        AnchorErrorKind::Quote { document: document.clone(), was_there, nearest }
                    }
                    Some(DocumentMatch::Similar(path)) => {
                        AnchorErrorKind::Document { document: document.clone(), similar: Some(path) }
                    }
                    None => AnchorErrorKind::Document { document: document.clone(), similar: None },
                };
                let quote = crate::prompt::shorten(&evidence.quote, 80);
                unanchored.push(AnchorError { question: question.id.clone(), document, quote, reason });
            }
        }
        unanchored
    }
}

/// Limits of the search for similar words: quotes per document, and bytes of a
/// document. 100 MB take a second.
const MOST_SUGGESTIONS: usize = 20;
const MOST_SEARCHED: usize = 8 << 20;

/// The part of a text that shares most words with a quote, at least half of them.
/// The quote may have been written from memory.
fn nearest_words(text: &str, quote: &str) -> Option<String> {
    let plain = |word: &str| -> String {
        word.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let mut wanted: HashMap<String, i32> = HashMap::new();
    let mut length = 0;
    for word in quote.split_whitespace().map(plain).filter(|word| !word.is_empty()) {
        *wanted.entry(word).or_default() += 1;
        length += 1;
    }
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let words: Vec<(usize, usize, String)> =
        text.split_whitespace().map(|word| (start(word), start(word) + word.len(), plain(word))).collect();
    let (mut common, mut best) = (0, (0, 0));
    for i in 0..words.len() {
        if let Some(left) = wanted.get_mut(&words[i].2) {
            common += i32::from(*left > 0);
            *left -= 1;
        }
        if let Some(gone) = i.checked_sub(length)
            && let Some(left) = wanted.get_mut(&words[gone].2)
        {
            *left += 1;
            common -= i32::from(*left > 0);
        }
        if common > best.0 {
            best = (common, i);
        }
    }
    let (common, last) = best;
    if length < 2 || usize::try_from(common).unwrap_or(0) * 2 < length {
        return None;
    }
    let first = (last + 1).saturating_sub(length);
    let found = text[words[first].0..words[last].1].split_whitespace().collect::<Vec<_>>().join(" ");
    Some(crate::prompt::shorten(&found, 120))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
