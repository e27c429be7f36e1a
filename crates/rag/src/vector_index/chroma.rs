//! `chroma`: the chunks are written into a collection of a Chroma server, and searched there.
//!
//! Use it to see what your own database finds before you move there. The collection is made for the trial, and `reverie
//! store gc` removes it. The server needs version 1.0 or newer. `ef` belongs to a collection, so trials with another `ef`
//! have a collection of their own.
//! Source: [Chroma](https://www.trychroma.com).

use super::{VectorIndexSettings, record::FilledDatabase};
use crate::{
    Component, Context, Error,
    component::{database_settings, ensure},
    corpus::{DatabaseSearch, VectorSearch},
    database::{DatabaseConnection, DatabaseSettings},
    index::{IndexKind, Indexes},
};
use databases::{AccessSettings, ChromaDatabase, SearchIndexSpec, VectorDatabase};
use std::sync::Arc;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "index chroma";

database_settings! {
    /// Settings of `chroma`.
    pub struct Config at "http://127.0.0.1:8000" {
        /// The links of a vector. Default 16.
        pub m: u32 = 16,
        /// How many near vectors are kept while links are chosen. Default 100.
        pub ef_construction: u32 = 100,
        /// How many near vectors are kept during a search. Default 100.
        pub ef: u32 = 100,
        /// Default `default_tenant`.
        pub tenant: String = "default_tenant".to_owned(),
        /// Default `default_database`.
        pub database: String = "default_database".to_owned(),
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
}

impl DatabaseSettings for Config {
    fn connection(&self) -> DatabaseConnection<'_> {
        DatabaseConnection { api_key: self.api_key.as_deref(), ..self.address() }
    }

    fn component(&self) -> &'static str {
        NAME
    }

    fn open(&self, access: AccessSettings) -> Result<Arc<dyn VectorDatabase>, databases::Error> {
        Ok(Arc::new(ChromaDatabase::open(access, &self.tenant, &self.database)?))
    }

    fn part_of_server(&self) -> Option<String> {
        Some(format!("{}/{}", self.tenant, self.database))
    }
}

impl FilledDatabase for Config {
    fn search_index(&self) -> SearchIndexSpec {
        SearchIndexSpec::Hnsw { m: self.m, ef_construction: self.ef_construction, ef: self.ef }
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<VectorSearch, Error> {
        self.connection().check(NAME)?;
        for (name, value) in [("m", self.m), ("ef_construction", self.ef_construction), ("ef", self.ef)] {
            ensure(NAME, (2..=4096).contains(&value), format!("{name} is {value}, but must be from 2 to 4096"))?;
        }
        for (name, value) in [("tenant", &self.tenant), ("database", &self.database)] {
            ensure(NAME, !value.is_empty(), format!("{name} is empty"))?;
        }
        Ok(VectorSearch::Database(DatabaseSearch::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector_index::VectorIndexConfig;

    #[test]
    fn another_ef_is_another_collection() {
        assert_ne!(Config::default().search_index(), Config { ef: 400, ..Config::default() }.search_index());
    }

    #[test]
    fn databases_of_one_server_are_told_apart() {
        let named = |config: Config| VectorIndexConfig::Chroma(config).database_name();
        let other = Config { tenant: "other".to_owned(), ..Config::default() };
        assert_ne!(named(Config::default()), named(other));
        let prod = |url: &str| Config { url: url.to_owned(), identity: Some("prod".to_owned()), ..Config::default() };
        assert_eq!(named(prod("http://a:8000")), named(prod("http://b:8000")));
    }

    #[test]
    fn impossible_settings_are_refused() {
        for config in [
            Config { ef: 0, ..Config::default() },
            Config { tenant: String::new(), ..Config::default() },
            Config { api_key: Some("secret".to_owned()), ..Config::default() },
        ] {
            assert!(config.build(&Context::default()).is_err(), "{config:?}");
        }
        assert!(Config::default().build(&Context::default()).is_ok());
    }
}
