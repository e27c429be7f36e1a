//! `none`: the question is searched as it was asked.
//!
//! The baseline that every other way must beat to be worth its calls.

use super::{QueryWriter, WrittenQueries};
use crate::{Component, Context, Error};
use async_trait::async_trait;
use models::Message;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;

/// Settings of `none`: there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

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
