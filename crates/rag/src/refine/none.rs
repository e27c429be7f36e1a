//! `none`: passages stay as they are.
//!
//! The baseline that every other step must beat.

use crate::{
    Component, Context, Error, Passage, PassageStep,
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
    fn reads_chunks(&self) -> bool {
        false
    }

    fn is_nothing(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, _: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        Ok(passages)
    }
}
