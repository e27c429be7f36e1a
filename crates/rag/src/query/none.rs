//! `none`: the question is searched as it was asked.
//!
//! The baseline that every other way must beat to be worth its calls.

use super::{QueryWriter, WrittenQueries};
use crate::{Component, Context, Error, component::settings};
use async_trait::async_trait;
use models::Message;

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
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn QueryWriter>, Error> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl QueryWriter for Config {
    async fn write(&self, question: &str, _: &[Message]) -> Result<WrittenQueries, Error> {
        Ok(WrittenQueries::of(vec![question.into()]))
    }
}
