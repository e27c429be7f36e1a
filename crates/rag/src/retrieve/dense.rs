//! `dense`: the chunks whose vectors are nearest to the question's.
//!
//! Use it when questions are worded differently from the documents. It is weak
//! at names, codes and rare words; `hybrid` is strong at both.
//! Source: Karpukhin et al., Dense Passage Retrieval, 2020.
//!
//! It needs an embedder: the experiment lists one under `embedder`.

use super::{Retriever, check_top_k, dense_search, finds_top_k};
use crate::{
    Component, Context, Error, Hit,
    component::{ensure, settings},
    corpus::{Corpus, Query},
    index::{IndexKind, Indexes},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever dense";

settings! {
    /// Settings of `dense`.
    pub struct Config {
        /// The most chunks to return. Default 5.
        pub top_k: usize = 5,
        /// Chunks with a lower cosine than this, from -1 to 1, are left out; none is
        /// left out if not set.
        pub cutoff: Option<f32> = None,
    }
}

impl Component for Config {
    finds_top_k!();

    fn indexes(&self) -> Indexes {
        [IndexKind::Dense].into()
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        check_top_k(NAME, self.top_k)?;
        if let Some(cutoff) = self.cutoff {
            let reason = format!("cutoff is {cutoff}, but a cosine is between -1 and 1");
            ensure(NAME, (-1.0..=1.0).contains(&cutoff), reason)?;
        }
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Retriever for Config {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        let mut found = dense_search(NAME, queries, corpus, self.top_k).await?;
        if let Some(cutoff) = self.cutoff {
            found.iter_mut().for_each(|hits| hits.retain(|hit| hit.score >= cutoff));
        }
        Ok(found)
    }

    async fn retrieve_deeper(
        &self,
        queries: &[Query<'_>],
        corpus: &Corpus<'_>,
        depth: usize,
    ) -> Result<Vec<Vec<Hit>>, Error> {
        dense_search(NAME, queries, corpus, depth).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieve::tests::{Fixture, rows};

    #[test]
    fn the_nearest_chunks_are_found_and_the_cutoff_is_kept() {
        let fixture = Fixture::new();
        let all = Config { top_k: 3, cutoff: None }.build(&Context::default()).unwrap();
        let found = all.retrieve_now(&[fixture.query("", &[1.0, 0.0])], &fixture.corpus()).unwrap();
        assert_eq!(rows(&found[0]), [1, 2, 3]);
        assert_eq!(found[0][1].score, 0.8);
        let near = Config { top_k: 3, cutoff: Some(0.8) }.build(&Context::default()).unwrap();
        let found = near.retrieve_now(&[fixture.query("", &[1.0, 0.0])], &fixture.corpus()).unwrap();
        assert_eq!(rows(&found[0]), [1, 2], "the cutoff itself is in");
    }

    #[test]
    fn missing_parts_are_named() {
        let fixture = Fixture::new();
        let dense = Config::default().build(&Context::default()).unwrap();
        let no_vector = Query { text: "cat", embedding: None, tokens: None, filter: None };
        assert!(
            dense
                .retrieve_now(&[no_vector], &fixture.corpus())
                .unwrap_err()
                .to_string()
                .contains("vector of the question")
        );
        let no_index = Corpus { indexes: &[], ..fixture.corpus() };
        let error = dense.retrieve_now(&[fixture.query("", &[1.0, 0.0])], &no_index).unwrap_err();
        assert_eq!(error.to_string(), "retriever dense needs the dense index");
    }

    #[test]
    fn impossible_settings_are_refused() {
        assert!(Config { top_k: 0, cutoff: None }.build(&Context::default()).is_err());
        assert!(Config { top_k: 1, cutoff: Some(1.5) }.build(&Context::default()).is_err());
        assert!(Config { top_k: 1, cutoff: Some(f32::NAN) }.build(&Context::default()).is_err());
    }
}
