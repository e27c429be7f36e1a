//! `none`: nothing is searched, and nothing is found.
//!
//! What comes before a generator that reads no passages, such as
//! `no_retrieval`: such a generator makes one trial, whatever else is listed.

use super::Retriever;
use crate::{
    Component, Context, Error, Hit, InputSize,
    component::settings,
    corpus::{Corpus, Query},
};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;

settings! {
    /// Settings of `none`: there are none.
    pub struct Config {}
}

impl Component for Config {
    fn estimate_output(&self, item: InputSize) -> InputSize {
        item.with_passages(0)
    }

    fn is_nothing(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Retriever for Config {
    async fn retrieve(&self, queries: &[Query<'_>], _: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        Ok(vec![Vec::new(); queries.len()])
    }
}
