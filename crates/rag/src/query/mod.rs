//! `query`: a question becomes what is searched for it.

use crate::{Error, Listed, component::components};
use async_trait::async_trait;
use models::Message;

components! {
    /// Which way to write queries, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum QueryConfig builds Box<dyn QueryWriter> {
        None => none,
    }
}

impl Listed for QueryConfig {
    fn unlisted() -> Option<Self> {
        Self::nothing()
    }
}

/// Writes the queries that are searched for a question.
#[async_trait]
pub trait QueryWriter: Send + Sync {
    /// At least one query. `history` is what was said before the question,
    /// oldest first; empty where a question stands alone.
    ///
    /// # Errors
    /// If its model fails.
    async fn write(&self, question: &str, history: &[Message]) -> Result<Vec<String>, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;

    #[tokio::test]
    async fn every_query_writer_gives_at_least_one_query_and_the_same_again() {
        for config in QueryConfig::defaults() {
            let writer = config.build(&Context::default()).unwrap();
            let queries = writer.write("Who built the mill?", &[]).await.unwrap();
            assert!(!queries.is_empty(), "{}", config.name());
            assert_eq!(queries, writer.write("Who built the mill?", &[]).await.unwrap(), "{}", config.name());
        }
    }
}
