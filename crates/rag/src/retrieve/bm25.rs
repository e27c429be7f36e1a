//! `bm25`: the chunks that share the most telling words with the question.
//!
//! Use it for names, codes, error messages and rare words, and where no
//! embedding model is available; it does not find synonyms. A question that shares no word
//! with any chunk has no hits.
//!
//! What counts as a word depends on the language of the document. Words in English and 11 other
//! languages are stemmed. Words in German, Dutch, Danish, Norwegian, Swedish and Finnish are
//! cut into runs of four characters, because these languages write compounds as one word.
//! Chinese and Japanese are searched by single characters and pairs of characters, Korean,
//! Thai, Lao, Khmer and Burmese by pairs. The setting `tokens` overrides this.
//!
//! A term adds `idf · tf / (tf + k1 (1 − b + b · length / mean length))` to a chunk's score,
//! with `idf = ln(1 + (N − df + ½) / (df + ½))`. Source: Robertson and Zaragoza, The
//! Probabilistic Relevance Framework: BM25 and Beyond, 2009, in the variant of Lucene.

use super::{Retriever, bm25_search, check_top_k, check_word_search, finds_top_k, word_search};
use crate::{
    Component, Context, Error, Hit,
    analysis::{LanguageChoice, TextAnalysis, Tokens},
    component::settings,
    corpus::{Corpus, Query},
    index::{IndexKind, Indexes},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "retriever bm25";

settings! {
    /// Settings of `bm25`.
    pub struct Config {
        /// The most chunks to return. Default 5.
        pub top_k: usize = 5,
        /// The language of the texts: `auto`, or the English name of a language in lower case, such
        /// as `german`. `auto` detects the language of each document and each question. A
        /// question in an unclear language, such as one of a few words, is cut by the rules of
        /// all frequent languages of the corpus. `english` cuts texts exactly as LlamaIndex does:
        /// they are only lower-cased, not normalized (NFKC). Default `auto`.
        pub language: LanguageChoice = LanguageChoice::Auto,
        /// What counts as a term: `auto` (what fits the language), `words`, `bigrams` (pairs of
        /// characters in scripts without spaces, words elsewhere) or `ngrams` (runs of four
        /// characters of each word). Default `auto`.
        pub tokens: Tokens = Tokens::Auto,
        /// Whether words are stemmed (their endings are cut off), if the language has a Snowball
        /// stemmer. Default true.
        pub stemmer: bool = true,
        /// Whether stop words (words that nearly every text contains) are left out, if there is a
        /// list of them for the language. Default true.
        pub stop_words: bool = true,
        /// How much further occurrences of a term add to the score, from 0 (nothing) to 1000.
        /// Default 1.5.
        pub k1: f32 = 1.5,
        /// How strongly long chunks are penalised, from 0 (not at all) to 1. Default 0.75.
        pub b: f32 = 0.75,
    }
}

impl Component for Config {
    finds_top_k!();

    fn indexes(&self) -> Indexes {
        [IndexKind::Bm25].into()
    }

    fn text_analysis(&self) -> Option<TextAnalysis> {
        Some(word_search!(self).analysis)
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        check_top_k(NAME, self.top_k)?;
        check_word_search(NAME, &word_search!(self))?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Retriever for Config {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        self.retrieve_deeper(queries, corpus, self.top_k).await
    }

    async fn retrieve_deeper(
        &self,
        queries: &[Query<'_>],
        corpus: &Corpus<'_>,
        depth: usize,
    ) -> Result<Vec<Vec<Hit>>, Error> {
        bm25_search(NAME, queries, corpus, depth, &word_search!(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analysis::Language,
        retrieve::tests::{Fixture, rows},
    };

    #[test]
    fn shared_words_are_found_and_nothing_else() {
        let fixture = Fixture::new();
        let bm25 = Config::default().build(&Context::default()).unwrap();
        let queries = [fixture.query("cats running", &[]), fixture.query("zebra", &[])];
        let found = bm25.retrieve_now(&queries, &fixture.corpus()).unwrap();
        assert_eq!(rows(&found[0]), [3, 1, 2]);
        assert!(found[1].is_empty());
    }

    #[test]
    fn a_missing_index_is_named() {
        let fixture = Fixture::new();
        let corpus = Corpus { indexes: &[], ..fixture.corpus() };
        let bm25 = Config::default().build(&Context::default()).unwrap();
        let error = bm25.retrieve_now(&[fixture.query("cat", &[])], &corpus).unwrap_err();
        assert_eq!(error.to_string(), "retriever bm25 needs the BM25 index");
        assert!(Config { top_k: 0, ..Config::default() }.build(&Context::default()).is_err());
    }

    #[test]
    fn impossible_weights_of_terms_are_refused() {
        let refused = |config: Config| config.build(&Context::default()).err().unwrap().to_string();
        assert!(refused(Config { k1: -0.5, ..Config::default() }).contains("k1 is -0.5"));
        assert!(refused(Config { k1: f32::NAN, ..Config::default() }).contains("k1"));
        assert!(refused(Config { b: 1.5, ..Config::default() }).contains("b is 1.5"));
    }

    #[test]
    fn an_index_whose_texts_were_cut_otherwise_is_refused() {
        let fixture = Fixture::new();
        let language = LanguageChoice::Named(Language::named("german").unwrap());
        let bm25 = Config { language, ..Config::default() }.build(&Context::default()).unwrap();
        let error = bm25.retrieve_now(&[fixture.query("cat", &[])], &fixture.corpus()).unwrap_err();
        assert!(error.to_string().contains("`language`"), "{error}");
    }

    #[test]
    fn weights_of_terms_change_scores() {
        let fixture = Fixture::new();
        let score = |config: Config| {
            let bm25 = config.build(&Context::default()).unwrap();
            bm25.retrieve_now(&[fixture.query("cats running", &[])], &fixture.corpus()).unwrap()[0][0].score
        };
        let usual = score(Config::default());
        assert_ne!(score(Config { k1: 0.9, ..Config::default() }), usual);
        // All chunks have the same number of terms, so `b` makes no difference.
        assert_eq!(score(Config { b: 0.4, ..Config::default() }), usual);
    }
}
