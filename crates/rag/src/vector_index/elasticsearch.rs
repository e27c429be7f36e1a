//! `elasticsearch`: the chunks are written into an index of Elasticsearch or OpenSearch, and searched there.
//!
//! Use it to see what your own cluster finds before you move there. The index is made for the trial, and `reverie store
//! gc` removes it. Elasticsearch needs version 8.4 or newer, OpenSearch 2.4 and its plugin k-NN. Vectors are stored as
//! they are, in an `hnsw` graph, not rounded to 8 bits or fewer, as Elasticsearch does by default.
//!
//! Tried with a stub of the published interface of both, never with a server.
//! Source: [Elasticsearch](https://www.elastic.co/elasticsearch), [OpenSearch](https://opensearch.org).

use super::{VectorIndexSettings, record::FilledDatabase};
use crate::{
    Component, Context, Error,
    component::{database_settings, ensure},
    corpus::{DatabaseSearch, VectorSearch},
    database::{DatabaseConnection, DatabaseSettings},
    index::{IndexKind, Indexes},
};
use databases::{AccessSettings, ElasticsearchDatabase, SearchIndexSpec, VectorDatabase};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "index elasticsearch";

/// How Elasticsearch indexes vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElasticsearchKind {
    /// A graph is walked.
    Hnsw,
    /// Every vector is compared.
    Exact,
}

database_settings! {
    /// Settings of `elasticsearch`.
    pub struct Config at "http://127.0.0.1:9200" {
        /// `hnsw` or `exact`. Default `hnsw`.
        pub kind: ElasticsearchKind = ElasticsearchKind::Hnsw,
        /// Of `hnsw`: the links of a vector. Default 16.
        pub m: u32 = 16,
        /// Of `hnsw`: how many near vectors are kept while links are chosen. Default 100.
        pub ef_construction: u32 = 100,
        /// Of `hnsw`: how many near vectors are kept during a search (`num_candidates`). Trials that differ in this alone
        /// share one index. Default 100.
        pub ef: u32 = 100,
        /// The encoded API key, as `env:NAME`; none if not set.
        pub api_key: Option<String> = None,
    }
}

impl Component for Config {
    fn indexes(&self) -> Indexes {
        [IndexKind::Database].into()
    }
}

impl VectorIndexSettings for Config {
    fn database(&self) -> Option<&dyn FilledDatabase> {
        Some(self)
    }

    fn search_settings(&self) -> Option<Value> {
        self.search().key_settings()
    }
}

impl DatabaseSettings for Config {
    fn connection(&self) -> DatabaseConnection<'_> {
        DatabaseConnection { api_key: self.api_key.as_deref(), ..self.address() }
    }

    fn component(&self) -> &'static str {
        NAME
    }

    fn open(&self, access: AccessSettings) -> Result<Arc<dyn VectorDatabase>, databases::Error> {
        Ok(Arc::new(ElasticsearchDatabase::open(access)?))
    }
}

impl FilledDatabase for Config {
    fn search_index(&self) -> SearchIndexSpec {
        match self.kind {
            // A search has its own number of candidates, so that of the index is not used.
            ElasticsearchKind::Hnsw => {
                SearchIndexSpec::Hnsw { m: self.m, ef_construction: self.ef_construction, ef: 0 }
            }
            ElasticsearchKind::Exact => SearchIndexSpec::Exact,
        }
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<VectorSearch, Error> {
        self.connection().check(NAME)?;
        let settings = [("m", self.m, 512), ("ef_construction", self.ef_construction, 3200), ("ef", self.ef, 10_000)];
        for (name, value, most) in settings {
            ensure(NAME, (2..=most).contains(&value), format!("{name} is {value}, but must be from 2 to {most}"))?;
        }
        Ok(VectorSearch::Database(self.search()))
    }

    fn search(&self) -> DatabaseSearch {
        let ef = (self.kind == ElasticsearchKind::Hnsw).then_some(self.ef);
        DatabaseSearch { ef, ..DatabaseSearch::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_searched_more_thoroughly_is_the_same_index() {
        let (one, other) = (Config::default(), Config { ef: 400, ..Config::default() });
        assert_eq!(one.search_index(), other.search_index());
        assert_ne!(one.search_settings(), other.search_settings());
    }

    #[test]
    fn impossible_settings_are_refused() {
        for config in [
            Config { ef: 20_000, ..Config::default() },
            Config { m: 1, ..Config::default() },
            Config { api_key: Some("secret".to_owned()), ..Config::default() },
        ] {
            assert!(config.build(&Context::default()).is_err(), "{config:?}");
        }
        assert!(Config::default().build(&Context::default()).is_ok());
    }
}
