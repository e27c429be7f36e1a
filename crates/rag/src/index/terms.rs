//! What BM25 (and the search for an answer's source, `generate/citation.rs`) takes
//! for a word: the choice of LlamaIndex's BM25 retriever for English, so that the
//! scores of the two agree.
//!
//! Difference: combining marks (vowel signs of Hindi and Thai, accents that are
//! characters of their own) are part of a word, where Python's `\w` ends it. In a
//! corpus that has any, the mean length differs, and so all scores a little.
//!
//! Lower-cased runs of two or more Unicode word characters; 33 frequent words
//! are left out; what remains is reduced to its stem (Porter's second
//! algorithm, <https://snowballstem.org/algorithms/english/stemmer.html>).

use regex::Regex;
use rust_stemmers::{Algorithm, Stemmer};
use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

/// The words that nearly every English text holds.
const FREQUENT: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
];

#[expect(clippy::expect_used, reason = "a constant pattern; the tests below compile it")]
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w{2,}").expect("the pattern is valid"));

/// Cuts texts into terms; remembers the stems of words it has seen.
pub(crate) struct Tokenizer {
    stemmer: Stemmer,
    stems: HashMap<String, Option<String>>,
}

impl Tokenizer {
    pub(crate) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), stems: HashMap::new() }
    }

    /// Calls `each` with every term of a text, in order, repetitions included.
    pub(crate) fn terms(&mut self, text: &str, mut each: impl FnMut(&str)) {
        let lower = text.to_lowercase();
        for found in WORD.find_iter(&lower) {
            let found = found.as_str();
            if !self.stems.contains_key(found) {
                let stem = (FREQUENT.binary_search(&found).is_err()).then(|| self.stemmer.stem(found).into_owned());
                self.stems.insert(found.to_owned(), stem);
            }
            if let Some(Some(stem)) = self.stems.get(found) {
                each(stem);
            }
        }
    }
}

/// The terms that a question and a text share, as the BM25 index cuts them: in the order of the question, each once.
pub fn shared_terms(question: &str, text: &str) -> Vec<String> {
    let mut tokenizer = Tokenizer::new();
    let mut held = HashSet::new();
    tokenizer.terms(text, |term| _ = held.insert(term.to_owned()));
    let mut shared = Vec::new();
    // A term that was taken is not taken again.
    tokenizer.terms(question, |term| shared.extend(held.take(term)));
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        Tokenizer::new().terms(text, |term| terms.push(term.to_owned()));
        terms
    }

    #[test]
    fn words_are_lowered_stemmed_and_the_frequent_ones_left_out() {
        assert_eq!(terms("The CATS and the running dogs, they chased!"), ["cat", "run", "dog", "chase"]);
    }

    #[test]
    fn single_characters_are_no_words_but_digits_and_underscores_are_word_characters() {
        assert_eq!(terms("x ab 7 42 my_var c++ e-mail"), ["ab", "42", "my_var", "mail"]);
    }

    #[test]
    fn words_of_any_script_are_found() {
        assert_eq!(terms("Größe, naïve 東京タワー ελλάδα"), ["größe", "naïv", "東京タワー", "ελλάδα"]);
    }

    #[test]
    fn shared_terms_stand_in_the_order_of_the_question_once_each() {
        let shared = shared_terms("Do cats, cats and dogs run?", "The dog ran. A cat is running; the CAT purrs.");
        assert_eq!(shared, ["cat", "dog", "run"]);
        assert!(shared_terms("Who is it?", "It is the owl.").is_empty(), "frequent words do not count");
        assert!(shared_terms("", "owl").is_empty() && shared_terms("owl", "").is_empty());
    }

    #[test]
    fn frequent_words_are_in_order_for_the_search() {
        assert!(FREQUENT.is_sorted());
    }
}
