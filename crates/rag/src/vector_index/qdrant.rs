//! `qdrant`: the chunks are written into a collection of a Qdrant server, and searched there.
//!
//! Use it to see what your own database finds before you move there. The collection is made for the trial, and `reverie
//! store gc` removes it. The server needs version 1.10 or newer.
//!
//! Qdrant builds a graph where a segment has 10 MB of vectors or more, and compares all vectors of smaller ones.
//! `kind = "exact"` compares all of them everywhere.
//!
//! Tried with a stub of Qdrant's REST API over Qdrant's own engine, never with a server.
//! Source: [Qdrant](https://qdrant.tech).

use super::{
    VectorIndexSettings,
    record::{FilledDatabase, VectorPrecision, check_quantized},
};
use crate::{
    Component, Context, Error,
    component::{database_settings, ensure},
    corpus::{DatabaseSearch, VectorSearch},
    database::{DatabaseConnection, DatabaseSettings},
    index::{IndexKind, Indexes},
};
use databases::{AccessSettings, QdrantDatabase, SearchIndexSpec, StoredPrecision, VectorDatabase};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "index qdrant";

/// How Qdrant indexes vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QdrantKind {
    /// A graph is walked.
    Hnsw,
    /// Every vector is compared.
    Exact,
}

database_settings! {
    /// Settings of `qdrant`.
    pub struct Config at "http://127.0.0.1:6333" {
        /// `hnsw` or `exact`. Default `hnsw`.
        pub kind: QdrantKind = QdrantKind::Hnsw,
        /// Of `hnsw`: the links of a vector. Default 16.
        pub m: u32 = 16,
        /// Of `hnsw`: how many near vectors are kept while links are chosen. Default 100.
        pub ef_construction: u32 = 100,
        /// Of `hnsw`: how many near vectors are kept during a search. Trials that differ in this alone share one
        /// collection. Default 100.
        pub ef: u32 = 100,
        /// `f32`; `f16` for half of the memory; `int8` or `binary` for an index over a copy of 8 bits or of one bit a
        /// number, which is a quarter or a 32nd of the memory. Default `f32`.
        pub precision: VectorPrecision = VectorPrecision::F32,
        /// Of `precision` `int8` and `binary`: how many times as many chunks as are returned the index finds; the nearest of
        /// them by their 32-bit vectors are returned. Trials that differ in this alone share one collection. Default 4.
        pub oversampling: u32 = 4,
        /// The key of the server, as `env:NAME`; none if not set.
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
        Ok(Arc::new(QdrantDatabase::open(access)?))
    }
}

impl FilledDatabase for Config {
    fn search_index(&self) -> SearchIndexSpec {
        match self.kind {
            // A search has its own number of candidates, so that of the collection is not used.
            QdrantKind::Hnsw => SearchIndexSpec::Hnsw { m: self.m, ef_construction: self.ef_construction, ef: 0 },
            QdrantKind::Exact => SearchIndexSpec::Exact,
        }
    }

    fn precision(&self) -> StoredPrecision {
        self.precision.into()
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<VectorSearch, Error> {
        self.connection().check(NAME)?;
        for (name, value) in [("m", self.m), ("ef_construction", self.ef_construction), ("ef", self.ef)] {
            ensure(NAME, (4..=4096).contains(&value), format!("{name} is {value}, but must be from 4 to 4096"))?;
        }
        check_quantized(NAME, self.precision(), self.oversampling, self.kind == QdrantKind::Exact)?;
        Ok(VectorSearch::Database(self.search()))
    }

    fn search(&self) -> DatabaseSearch {
        let ef = (self.kind == QdrantKind::Hnsw).then_some(self.ef);
        let oversampling = self.precision().is_quantized().then_some(self.oversampling);
        DatabaseSearch { ef, oversampling, ..DatabaseSearch::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector_index::record::build_settings;

    #[test]
    fn what_is_searched_more_thoroughly_is_the_same_collection() {
        let (one, other) = (Config::default(), Config { ef: 400, ..Config::default() });
        assert_eq!(one.search_index(), other.search_index());
        assert_ne!(one.search_settings(), other.search_settings());
        assert_ne!(one.search_index(), Config { kind: QdrantKind::Exact, ..Config::default() }.search_index());
        let quantized = |oversampling| Config { precision: VectorPrecision::Int8, oversampling, ..Config::default() };
        assert_eq!(build_settings(&quantized(2)), build_settings(&quantized(8)));
        assert_ne!(build_settings(&quantized(2)), build_settings(&one));
        assert_ne!(quantized(2).search_settings(), quantized(8).search_settings());
        assert_eq!(one.search_settings(), Config { oversampling: 8, ..one }.search_settings(), "there is no copy");
    }

    #[test]
    fn impossible_settings_are_refused() {
        for config in [
            Config { ef: 0, ..Config::default() },
            Config { m: 5000, ..Config::default() },
            Config { precision: VectorPrecision::Int8, oversampling: 0, ..Config::default() },
            Config { precision: VectorPrecision::Binary, kind: QdrantKind::Exact, ..Config::default() },
            Config { api_key: Some("secret".to_owned()), ..Config::default() },
        ] {
            assert!(config.build(&Context::default()).is_err(), "{config:?}");
        }
        assert!(Config::default().build(&Context::default()).is_ok());
    }
}
