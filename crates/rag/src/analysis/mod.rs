//! `analysis`: what texts of any language are made of: sentences, graphemes, and the terms that are
//! counted and compared.
//!
//! Everything that counts words goes through here: BM25, the search for an answer's
//! source, the choice of near sentences. What a term is depends on the language, and
//! [`TextAnalysis`] says what is fixed by settings; the rest is detected.
//!
//! A word is a run of at least two letters, digits, marks and connectors
//! (`\w` of Unicode, UTS 18), so combining marks are part of a word. A full stop
//! and an apostrophe end it, other than in UAX 29: `sources.list` is found by
//! `sources`, and `l'eau` by `eau`.
//!
//! | texts | terms |
//! |-------|-------|
//! | English | the word without its ending, by the English Snowball stemmer; 33 frequent words are left out |
//! | German, Dutch, Danish, Norwegian, Swedish, Finnish | overlapping runs of four characters of a word and its two borders, because these languages write compounds as one word |
//! | other languages with a Snowball stemmer | the word without its ending; frequent words are left out |
//! | other languages | the word |
//! | Han and Kana | each character, and each two neighbours |
//! | Hangul, Thai, Lao, Khmer, Myanmar | each two neighbours |
//!
//! Before that a text is brought into one form (NFKC, small letters, no invisible
//! characters), so that the same word in another normal form, in full width or with
//! a soft hyphen is found. Words in another alphabet than that of the text's language are
//! English, Russian, Greek, Arabic or Tamil, by their alphabet.
//!
//! `language = "english"` takes the text as it is, without that form: it is bit by
//! bit what LlamaIndex's BM25 retriever takes for words, except for combining marks.
//!
//! Measured on manuals in eight languages, see `benches/languages`. Sources: McNamee and
//! Mayfield, Character N-Gram Tokenization for European Language Text Retrieval, 2004;
//! Snowball, <https://snowballstem.org>; the stop words of NLTK.

mod abbreviations;
mod analyzer;
mod characters;
mod graphemes;
mod language;
mod marks;
mod recognition;
mod rules;
mod sentences;
#[cfg(test)]
mod sentences_tests;
mod words;

pub use analyzer::{Analyzer, shared_terms};
pub use graphemes::{cluster_starts, cut_before, first_clusters, may_cut};
pub use language::{FEWEST_LETTERS, Language, LanguageChoice};
pub use marks::ends_sentence;
pub use recognition::{document_language, text_language};
pub use rules::document_languages;
pub use sentences::sentences;
pub(crate) use sentences::{starts_by_script, tiles};
pub use words::{has_spaceless_script, words};

use serde::{Deserialize, Serialize};

/// Settings of how texts are cut into terms.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextAnalysis {
    /// The language of all texts, or that it is detected.
    pub language: LanguageChoice,
    /// What is counted.
    pub tokens: Tokens,
    /// Whether endings are cut off, where the language has a stemmer.
    pub stemmer: bool,
    /// Whether frequent words are left out, where there is a list for the language.
    pub stop_words: bool,
}

impl Default for TextAnalysis {
    fn default() -> Self {
        Self { language: LanguageChoice::Auto, tokens: Tokens::Auto, stemmer: true, stop_words: true }
    }
}

/// What is counted as a term.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Tokens {
    /// What fits the language best: the table in [`analysis`](crate::analysis).
    #[default]
    Auto,
    /// Words. A run of Han or Kana is one word.
    Words,
    /// Pairs of neighbouring characters in scripts without spaces, words elsewhere.
    Bigrams,
    /// Runs of four characters of each word and its borders.
    Ngrams,
}
