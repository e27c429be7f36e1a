//! `none`: the retriever's order stands; at most cut short.
//!
//! The baseline that every other reranker must beat to be worth its time.

use super::{Corpus, PassageReranker, Query, check_top_n};
use crate::{
    Component, Context, Error, InputSize, Passage,
    component::{limited_by, settings},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;

settings! {
    /// Settings of `none`.
    pub struct Config {
        /// The most passages to keep. Default: all.
        pub top_n: Option<usize> = None,
    }
}

impl Component for Config {
    fn estimate_output(&self, item: InputSize) -> InputSize {
        self.top_n.map_or(item, |top_n| item.limit_passages(top_n))
    }

    limited_by!(top_n);

    fn reads_chunks(&self) -> bool {
        false
    }

    fn is_nothing(&self) -> bool {
        self.top_n.is_none()
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageReranker>, Error> {
        check_top_n("reranker none", self.top_n.unwrap_or(1), None)?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageReranker for Config {
    async fn rerank(&self, _: Query<'_>, _: Corpus<'_>, mut passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        passages.truncate(self.top_n.unwrap_or(usize::MAX));
        Ok(passages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rerank::tests::{Fixture, texts};

    #[tokio::test]
    async fn the_order_stands() {
        let fixture = Fixture::new();
        for (top_n, expected) in [(None, vec!["mat", "chased", "running"]), (Some(1), vec!["mat"])] {
            let reranker = Config { top_n }.build(&Context::default()).unwrap();
            assert_eq!(texts(&fixture.rerank(&*reranker).await.unwrap()), expected);
        }
        assert!(Config { top_n: Some(0) }.build(&Context::default()).is_err());
    }
}
