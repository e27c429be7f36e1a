//! `filter`: the question is searched as it was asked, but only in chunks
//! whose fields meet a condition.
//!
//! ```toml
//! query = ["none", { filter = { where = { language = "en", year = { ge = 2020 } } } }]
//! ```
//!
//! It pays where documents of several kinds, languages or versions lie side by
//! side and questions mean one of them; the experiment shows what it gains and
//! which questions get worse. Fields are `path`, `title`, `page`, `heading`,
//! what the files say (`author`, `date`, `language`, front matter) and the
//! columns of the table `corpus.metadata`. A golden question can have a filter
//! of its own, which holds whatever this axis says.

use super::{QueryWriter, SearchQuery, WrittenQueries};
use crate::{Component, Context, Error, Filter, component::settings};
use async_trait::async_trait;
use models::Message;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const VERSION: u32 = 1;

settings! {
    /// Settings of `filter`.
    pub struct Config {
        /// The conditions by field; all must hold. A condition is a value, a list
        /// of values, or tests: `gt`, `ge`, `lt`, `le`, `ne`, `glob`.
        #[serde(rename = "where")]
        #[schemars(with = "Option<BTreeMap<String, Value>>", extend("default" = null))]
        pub conditions: Filter = Filter::default(),
    }
}

impl Component for Config {
    fn fields(&self) -> Vec<&str> {
        self.conditions.fields().collect()
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
        let filter = Some(self.conditions.clone()).filter(|filter| !filter.is_empty());
        Ok(WrittenQueries::of(vec![SearchQuery { filter, ..question.into() }]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::QueryConfig;
    use serde_json::json;

    #[tokio::test]
    async fn the_question_is_searched_with_the_filter() {
        let config: QueryConfig =
            serde_json::from_value(json!({ "filter": { "where": { "year": { "ge": 2020 } } } })).unwrap();
        let written = config.build(&Context::default()).unwrap().write("Who?", &[]).await.unwrap();
        assert_eq!(written.queries[0].text, "Who?");
        assert_eq!(written.queries[0].filter.as_ref().unwrap().to_string(), r#"{"year":{"ge":2020}}"#);
    }
}
