//! `none`: chunks are searched as they are.
//!
//! The baseline that every other way must beat to be worth its calls.

use super::{EnrichedText, Enricher};
use crate::{Chunk, Component, Context, Document, Error, component::settings};
use async_trait::async_trait;

pub(super) const VERSION: u32 = 1;

settings! {
    /// Settings of `none`: there are none.
    pub struct Config {}
}

impl Component for Config {
    fn is_nothing(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Enricher>, Error> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Enricher for Config {
    async fn enrich(&self, _: &Document, chunks: &[&Chunk]) -> Result<Vec<EnrichedText>, Error> {
        Ok(chunks.iter().map(|chunk| chunk.text.clone().into()).collect())
    }
}
