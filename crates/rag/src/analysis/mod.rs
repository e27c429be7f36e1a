//! `analysis`: splits texts of any language into sentences, grapheme clusters, and the terms that
//! are counted and compared.
//!
//! The BM25 index and the search for the source of an answer use the terms; chunkers and
//! steps that shorten passages use the sentences and clusters. What a term is depends on
//! the language. [`TextAnalysis`] holds the settings; if it names no language, the language
//! of each document is detected.
//!
//! A word is a run of at least two letters, digits, combining marks and connectors
//! (`\w` of Unicode, UTS 18). Unlike in UAX 29, a full stop or an apostrophe ends a
//! word: `sources.list` is found by `sources`, and `l'eau` by `eau`.
//!
//! | texts | terms |
//! |-------|-------|
//! | English | the word's stem, by the English Snowball stemmer |
//! | German, Dutch, Danish, Norwegian, Swedish, Finnish | the word's n-grams |
//! | other languages with a Snowball stemmer | the word's stem |
//! | other languages | the word |
//! | Han and Kana | each character, and each pair of neighbouring characters |
//! | Hangul, Thai, Lao, Khmer, Myanmar | each pair of neighbouring grapheme clusters |
//!
//! N-grams are overlapping runs of four characters of a word that has a border mark at both
//! ends. They find the parts of compounds, which these languages write as one word.
//!
//! Stop words are left out: 33 words for English, and NLTK's lists for the other languages
//! that have one.
//!
//! Every text is first normalized (NFKC, lower case, no invisible characters), so that a
//! word is found in any normal form, in full width, and with a soft hyphen in it. If a
//! word's alphabet is not that of the text's language, the word is cut by the rules of English,
//! Russian, Greek, Arabic or Tamil, depending on its alphabet.
//!
//! With `language = "english"`, texts are only lower-cased. The words are then exactly
//! those of LlamaIndex's BM25 retriever, except for words with combining marks.
//!
//! The rules were measured on manuals in eight languages, see `benches/languages`. Sources: McNamee and
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
pub use language::{Language, LanguageChoice};
pub use marks::ends_sentence;
pub(crate) use recognition::document_language;
pub use recognition::{DocumentLanguages, document_languages, text_language};
pub use rules::{stemmer, stop_words};
pub use sentences::sentences;
pub(crate) use sentences::{starts_by_script, tiles};
pub use words::{has_spaceless_script, words};

use serde::{Deserialize, Serialize};

/// Settings of how texts are cut into terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextAnalysis {
    /// The language of all texts, or `auto`: the language of each document is detected.
    pub language: LanguageChoice,
    /// What counts as a term.
    pub tokens: Tokens,
    /// Whether words are stemmed, if the language has a stemmer.
    pub stemmer: bool,
    /// Whether stop words are left out, if the language has a list of them.
    pub stop_words: bool,
}

impl TextAnalysis {
    /// The language whose words all texts are cut into; none if it is detected, or if runs of characters are counted.
    pub(crate) fn named_language(&self) -> Option<Language> {
        self.language.language().filter(|_| matches!(self.tokens, Tokens::Auto | Tokens::Words))
    }

    /// Whether texts are only lower-cased, as LlamaIndex does: `language = "english"`.
    pub(super) fn is_llama_index(&self) -> bool {
        self.language == LanguageChoice::Named(Language::ENGLISH)
    }
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
    /// Words. In scripts without spaces a whole run of characters is one word.
    Words,
    /// As `auto` in scripts without spaces (mostly pairs of neighbouring characters), words elsewhere.
    Bigrams,
    /// N-grams: overlapping runs of four characters of each word with its border marks. As `auto` in scripts
    /// without spaces.
    Ngrams,
}
