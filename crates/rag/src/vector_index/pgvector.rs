//! `pgvector`: the chunks are written into a table of PostgreSQL with the extension pgvector, and searched there.
//!
//! Use it to see what your own database finds before you move there. The table is made for the trial, in the schema that
//! you name, and `reverie store gc` removes it. PostgreSQL needs pgvector 0.8 or newer.
//!
//! `kind = "hnsw"` walks a graph and takes minutes to build for 100,000 chunks; `"ivfflat"` looks into some clusters, is
//! built faster and misses more; `"exact"` compares every vector.
//! Source: [pgvector](https://github.com/pgvector/pgvector).

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
use databases::{AccessSettings, PgvectorDatabase, SearchIndexSpec, StoredPrecision, VectorDatabase};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "index pgvector";
/// The schema of a table whose name has none.
const DEFAULT_SCHEMA: &str = "public";
/// pgvector's largest number of candidates of a search.
const MOST_CANDIDATES: u32 = 1000;

/// How pgvector indexes vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PgvectorKind {
    /// A graph is walked.
    Hnsw,
    /// Some of many clusters are searched.
    Ivfflat,
    /// Every vector is compared.
    Exact,
}

database_settings! {
    /// Settings of `pgvector`.
    pub struct Config at "env:DATABASE_URL" {
        /// `hnsw`, `ivfflat` or `exact`. Default `hnsw`.
        pub kind: PgvectorKind = PgvectorKind::Hnsw,
        /// Of `hnsw`: the links of a vector. Default 16.
        pub m: u32 = 16,
        /// Of `hnsw`: how many near vectors are kept while links are chosen. Default 64.
        pub ef_construction: u32 = 64,
        /// Of `hnsw`: how many near vectors are kept during a search. Trials that differ in this alone share one table.
        /// Default 40.
        pub ef: u32 = 40,
        /// Of `ivfflat`: the clusters; 0 is a thousandth of the chunks, and their square root above a million. Default 0.
        pub lists: u32 = 0,
        /// Of `ivfflat`: the clusters that a search looks into. Trials that differ in this alone share one table.
        /// Default 10.
        pub probes: u32 = 10,
        /// `f32`; `f16` for half of the memory; `binary` for an index over one bit a number, which is much smaller. With an
        /// index, `f32` takes at most 2,000 dimensions, `f16` 4,000, `binary` 16,000. Default `f32`.
        pub precision: VectorPrecision = VectorPrecision::F32,
        /// Of `precision = "binary"`: how many times as many chunks as are returned the index finds; the nearest of them by
        /// their 32-bit vectors are returned. Trials that differ in this alone share one table. Default 4.
        pub oversampling: u32 = 4,
        /// The schema of the table. Default `public`.
        pub schema: String = DEFAULT_SCHEMA.to_owned(),
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
        self.address()
    }

    fn component(&self) -> &'static str {
        NAME
    }

    fn open(&self, access: AccessSettings) -> Result<Arc<dyn VectorDatabase>, databases::Error> {
        Ok(Arc::new(PgvectorDatabase::open(access)?))
    }

    fn scheme(&self) -> &'static str {
        "postgresql"
    }
}

impl FilledDatabase for Config {
    fn search_index(&self) -> SearchIndexSpec {
        match self.kind {
            // A search has its own number of candidates, so that of the collection is not used.
            PgvectorKind::Hnsw => SearchIndexSpec::Hnsw { m: self.m, ef_construction: self.ef_construction, ef: 0 },
            PgvectorKind::Ivfflat => SearchIndexSpec::Ivfflat { lists: self.lists },
            PgvectorKind::Exact => SearchIndexSpec::Exact,
        }
    }

    fn precision(&self) -> StoredPrecision {
        self.precision.into()
    }

    fn collection(&self, name: &str) -> String {
        match self.schema == DEFAULT_SCHEMA {
            true => name.to_owned(),
            false => format!("{}.{name}", self.schema),
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
        within("m", self.m, 2, 100)?;
        within("ef_construction", self.ef_construction, 4, MOST_CANDIDATES)?;
        within("ef", self.ef, 1, MOST_CANDIDATES)?;
        within("lists", self.lists, 0, 32_768)?;
        within("probes", self.probes, 1, 32_768)?;
        let reason = format!("ef_construction is {}, but must be at least twice m ({})", self.ef_construction, self.m);
        ensure(NAME, self.kind != PgvectorKind::Hnsw || self.ef_construction >= 2 * self.m, reason)?;
        ensure(NAME, !self.schema.is_empty() && !self.schema.contains('.'), "schema must be the name of a schema")?;
        let reason = "pgvector has no index over 8 bits a number: take `f16` or `binary`";
        ensure(NAME, self.precision != VectorPrecision::Int8, reason)?;
        check_quantized(NAME, self.precision(), self.oversampling, self.kind == PgvectorKind::Exact)?;
        Ok(VectorSearch::Database(self.search()))
    }

    fn search(&self) -> DatabaseSearch {
        DatabaseSearch {
            ef: (self.kind == PgvectorKind::Hnsw).then_some(self.ef),
            probes: (self.kind == PgvectorKind::Ivfflat).then_some(self.probes),
            oversampling: self.precision().is_quantized().then_some(self.oversampling),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector_index::record::build_settings;

    #[test]
    fn what_is_searched_more_thoroughly_is_the_same_table() {
        let (one, other) = (Config::default(), Config { ef: 400, ..Config::default() });
        assert_eq!(one.search_index(), other.search_index());
        assert_ne!(one.search_settings(), other.search_settings());
        let elsewhere = Config { schema: "other".to_owned(), ..Config::default() };
        assert_ne!(build_settings(&one), build_settings(&elsewhere), "a table of another schema is another one");
        let clusters = Config { kind: PgvectorKind::Ivfflat, ..Config::default() };
        assert_ne!(one.search_index(), clusters.search_index());
    }

    #[test]
    fn impossible_settings_are_refused() {
        for config in [
            Config { ef: 1001, ..Config::default() },
            Config { m: 40, ..Config::default() },
            Config { precision: VectorPrecision::Int8, ..Config::default() },
            Config { precision: VectorPrecision::Binary, kind: PgvectorKind::Exact, ..Config::default() },
            Config { probes: 0, ..Config::default() },
            Config { schema: String::new(), ..Config::default() },
            Config { url: "postgresql://me:secret@host/db".to_owned(), ..Config::default() },
        ] {
            assert!(config.build(&Context::default()).is_err(), "{config:?}");
        }
        assert!(Config::default().build(&Context::default()).is_ok());
    }
}
