//! `milvus`: the chunks are written into a collection of Milvus, and searched there.
//!
//! Use it to see what your own database finds before you move there. The collection is made for the trial, and `reverie
//! store gc` removes it. The server needs version 2.4 or newer, or is Milvus Lite.
//!
//! `kind = "hnsw"` walks a graph, `"ivfflat"` looks into some clusters, `"exact"` compares every vector. Milvus builds an
//! index for each segment, so a small collection is compared whole.
//!
//! Tried with Milvus Lite 3.2, not with a cluster.
//! Source: [Milvus](https://milvus.io).

use super::{VectorIndexSettings, record::FilledDatabase};
use crate::{
    Component, Context, Error,
    component::{database_settings, ensure},
    corpus::{DatabaseSearch, VectorSearch},
    database::{DatabaseConnection, DatabaseSettings},
    index::{IndexKind, Indexes},
};
use databases::{AccessSettings, MilvusDatabase, SearchIndexSpec, VectorDatabase};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "index milvus";

/// How Milvus indexes vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MilvusKind {
    /// A graph is walked.
    Hnsw,
    /// Some of many clusters are searched.
    Ivfflat,
    /// Every vector is compared.
    Exact,
}

database_settings! {
    /// Settings of `milvus`.
    pub struct Config at "http://127.0.0.1:19530" {
        /// `hnsw`, `ivfflat` or `exact`. Default `hnsw`.
        pub kind: MilvusKind = MilvusKind::Hnsw,
        /// Of `hnsw`: the links of a vector. Default 16.
        pub m: u32 = 16,
        /// Of `hnsw`: how many near vectors are kept while links are chosen. Default 100.
        pub ef_construction: u32 = 100,
        /// Of `hnsw`: how many near vectors are kept during a search. Trials that differ in this alone share one
        /// collection. Default 64.
        pub ef: u32 = 64,
        /// Of `ivfflat`: the clusters; 0 is a thousandth of the chunks, and their square root above a million. Default 0.
        pub lists: u32 = 0,
        /// Of `ivfflat`: the clusters that a search looks into. Trials that differ in this alone share one collection.
        /// Default 16.
        pub probes: u32 = 16,
        /// Default `default`.
        pub database: String = "default".to_owned(),
        /// A token, or `user:password`, as `env:NAME`; none if not set.
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
        Ok(Arc::new(MilvusDatabase::open(access, &self.database)?))
    }

    fn part_of_server(&self) -> Option<String> {
        Some(self.database.clone())
    }
}

impl FilledDatabase for Config {
    fn search_index(&self) -> SearchIndexSpec {
        match self.kind {
            // A search has its own number of candidates, so that of the collection is not used.
            MilvusKind::Hnsw => SearchIndexSpec::Hnsw { m: self.m, ef_construction: self.ef_construction, ef: 0 },
            MilvusKind::Ivfflat => SearchIndexSpec::Ivfflat { lists: self.lists },
            MilvusKind::Exact => SearchIndexSpec::Exact,
        }
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<VectorSearch, Error> {
        self.connection().check(NAME)?;
        let within = |name: &str, value: u32, least: u32, most: u32| {
            ensure(
                NAME,
                (least..=most).contains(&value),
                format!("{name} is {value}, but must be from {least} to {most}"),
            )
        };
        within("m", self.m, 2, 2048)?;
        within("ef_construction", self.ef_construction, 2, 4096)?;
        within("ef", self.ef, 1, 32_768)?;
        within("lists", self.lists, 0, 65_536)?;
        within("probes", self.probes, 1, 65_536)?;
        ensure(NAME, !self.database.is_empty(), "database is empty")?;
        Ok(VectorSearch::Database(self.search()))
    }

    fn search(&self) -> DatabaseSearch {
        DatabaseSearch {
            ef: (self.kind == MilvusKind::Hnsw).then_some(self.ef),
            probes: (self.kind == MilvusKind::Ivfflat).then_some(self.probes),
            oversampling: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector_index::VectorIndexConfig;

    #[test]
    fn what_is_searched_more_thoroughly_is_the_same_collection() {
        let (one, other) = (Config::default(), Config { ef: 400, ..Config::default() });
        assert_eq!(one.search_index(), other.search_index());
        assert_ne!(one.search_settings(), other.search_settings());
        let clusters = Config { kind: MilvusKind::Ivfflat, ..Config::default() };
        assert_ne!(one.search_index(), clusters.search_index());
    }

    #[test]
    fn databases_of_one_server_are_told_apart() {
        let named = |config: Config| VectorIndexConfig::Milvus(config).database_name();
        assert_ne!(named(Config::default()), named(Config { database: "other".to_owned(), ..Config::default() }));
    }

    #[test]
    fn impossible_settings_are_refused() {
        for config in [
            Config { ef: 0, ..Config::default() },
            Config { probes: 0, ..Config::default() },
            Config { database: String::new(), ..Config::default() },
            Config { api_key: Some("secret".to_owned()), ..Config::default() },
        ] {
            assert!(config.build(&Context::default()).is_err(), "{config:?}");
        }
        assert!(Config::default().build(&Context::default()).is_ok());
    }
}
