//! `bm25`: the chunks that share the most telling words with the question.
//!
//! Use it for names, codes, error messages and rare words, and where no
//! embedding model is to be had; it sees no synonyms. The scores are described
//! at [`Bm25Index`](crate::index::Bm25Index). A question that shares no word
//! with any chunk has no hits.

use super::{Retriever, bm25_search, check_top_k, finds_top_k};
use crate::{
    Component, Context, Error, Hit,
    component::settings,
    corpus::{Corpus, Query},
    index::{IndexKind, Indexes},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever bm25";

settings! {
    /// Settings of `bm25`.
    pub struct Config {
        /// The most chunks to return. Default 5.
        pub top_k: usize = 5,
    }
}

impl Component for Config {
    finds_top_k!();

    fn indexes(&self) -> Indexes {
        [IndexKind::Bm25].into()
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        check_top_k(NAME, self.top_k)?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Retriever for Config {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        bm25_search(NAME, queries, corpus, self.top_k)
    }

    async fn retrieve_deeper(
        &self,
        queries: &[Query<'_>],
        corpus: &Corpus<'_>,
        depth: usize,
    ) -> Result<Vec<Vec<Hit>>, Error> {
        bm25_search(NAME, queries, corpus, depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieve::tests::{Fixture, rows};

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
        assert!(Config { top_k: 0 }.build(&Context::default()).is_err());
    }
}
