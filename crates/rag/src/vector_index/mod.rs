//! `vector_index`: how the vectors of chunks are indexed and searched.

mod record;

use crate::{AxisValue, Error, component::components, corpus::VectorSearch, database, index::GraphSettings};
use databases::{CollectionSpec, VectorDatabase};
use models::{EndpointAccess, provider::Environment};
use serde_json::{Value, json};
use std::sync::Arc;

pub use record::{VectorPrecision, record_of};

use record::{FilledDatabase, build_settings};

/// What the names of collections begin with that are filled for trials.
const COLLECTION: &str = "reverie_";
/// How many characters of a task's key are in the name of its collection.
const KEY_CHARACTERS: usize = 32;

components! {
    /// Which index of vectors, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum VectorIndexConfig builds VectorSearch, each VectorIndexSettings {
        Flat => flat,
        Hnsw => hnsw,
        Pgvector => pgvector,
        Chroma => chroma,
        Qdrant => qdrant,
        Milvus => milvus,
        Elasticsearch => elasticsearch,
    }
}

/// The settings of an index of vectors. Some decide the index itself, the others how it is searched, so that trials
/// which differ only in the latter share one index.
pub(crate) trait VectorIndexSettings: crate::Component {
    /// The graph that is built over the vectors, if there is one.
    fn graph(&self) -> Option<GraphSettings> {
        None
    }

    /// The database that holds the vectors, if one does.
    fn database(&self) -> Option<&dyn FilledDatabase> {
        None
    }

    /// What changes the hits, apart from the index; none if nothing does.
    fn search_settings(&self) -> Option<Value> {
        None
    }
}

impl AxisValue for VectorIndexConfig {
    fn unlisted() -> Option<Self> {
        Self::nothing()
    }
}

impl VectorIndexConfig {
    /// Whether it is the exact index that every experiment had before there were others.
    pub fn is_flat(&self) -> bool {
        matches!(self, Self::Flat(_))
    }

    /// The graph that is built over the vectors, if there is one.
    pub fn graph(&self) -> Option<GraphSettings> {
        self.settings().graph()
    }

    /// What changes the hits, apart from the index itself; none for `flat`.
    pub fn search_settings(&self) -> Option<Value> {
        self.settings().search_settings()
    }

    /// The database that holds the vectors, if one does. Makes no connection. `environment` gives the values of the
    /// variables that the settings name.
    ///
    /// # Errors
    /// A variable that is not set, or an address that cannot be used.
    pub fn open_database(&self, environment: &Environment) -> Result<Option<Arc<dyn VectorDatabase>>, Error> {
        self.settings().database().map(|settings| database::open(settings, environment)).transpose()
    }

    /// The address of the database that holds the vectors, if one does, and the variables whose values are sent there.
    pub fn endpoint_access(&self) -> Option<EndpointAccess> {
        self.settings().database().map(|settings| database::endpoint_access(settings))
    }

    /// What tells the databases of an experiment apart by their settings alone: the setting `identity`, or the address as
    /// it is written, with the part of the server; none for other indexes.
    pub fn database_name(&self) -> Option<String> {
        self.settings().database().map(|settings| database::name(settings))
    }

    /// A name as the database takes it for a collection or an alias: with the schema, where there is one.
    pub fn name_in_database(&self, name: &str) -> String {
        self.settings().database().map_or_else(|| name.to_owned(), |settings| settings.collection(name))
    }

    /// The database that a text names: `pgvector` with its default settings, an address such as
    /// `pgvector://host/database`, `postgresql://host/database` or `qdrant+https://host:6333`, or name and settings as
    /// they are in an experiment file. No error repeats the text.
    ///
    /// # Errors
    /// A text that names no database, or settings that cannot work.
    pub fn named(text: &str) -> Result<Self, Error> {
        let databases: Vec<Self> =
            Self::defaults().into_iter().filter(|it| it.settings().database().is_some()).collect();
        let names: Vec<&str> = databases.iter().map(Self::name).collect();
        let refuse = |reason: String| Error::Config { component: "database", reason };
        // The text is not repeated, because it may hold a password.
        let unknown = || refuse(format!("name one that Reverie can fill: {}", names.join(", ")));
        let of = |name: &str| databases.iter().find(|it| it.name() == name).ok_or_else(unknown);
        let text = text.trim();
        let value = match text.split_once("://") {
            _ if text.starts_with('{') => {
                let table = toml::from_str::<toml::Table>(&format!("index = {text}"));
                let table = table.map_err(|error| refuse(error.message().to_owned()))?;
                serde_json::to_value(&table["index"]).map_err(|error| refuse(error.to_string()))?
            }
            Some((scheme, rest)) => {
                let (name, has_tls) = match scheme.split_once('+') {
                    Some((name, "https")) => (name, true),
                    _ => (scheme, false),
                };
                let name = if matches!(name, "postgresql" | "postgres") { "pgvector" } else { name };
                let settings = of(name)?.settings().database().ok_or_else(unknown)?;
                let scheme = if has_tls { "https" } else { settings.scheme() };
                json!({ name: { "url": format!("{scheme}://{rest}") } })
            }
            None => json!({ of(text)?.name(): {} }),
        };
        let read: Self = serde_json::from_value(value).map_err(|error| refuse(error.to_string()))?;
        of(read.name())?;
        read.build(&crate::Context::default())?;
        Ok(read)
    }

    /// What decides the records and the search index of a collection of a database; none for other indexes.
    pub fn build_settings(&self) -> Option<Value> {
        self.settings().database().map(build_settings)
    }

    /// The collection of a database that the task with this key fills, and its name; none for other indexes.
    pub fn collection(&self, key: &str, dimensions: usize) -> Option<(String, CollectionSpec)> {
        let settings = self.settings().database()?;
        let name = format!("{COLLECTION}{}", &key[..key.len().min(KEY_CHARACTERS)]);
        let (index, precision) = (settings.search_index(), settings.precision());
        let spec = CollectionSpec { key: key.to_owned(), dimensions, index, precision };
        Some((settings.collection(&name), spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_by_its_name_its_address_or_its_settings() {
        let url = |text: &str| {
            let value = crate::Choice::value(&VectorIndexConfig::named(text).unwrap());
            value.as_object().unwrap().values().next().unwrap()["url"].as_str().unwrap().to_owned()
        };
        assert_eq!(url("pgvector"), "env:DATABASE_URL");
        assert_eq!(url("pgvector://me@host:5433/docs"), "postgresql://me@host:5433/docs");
        assert_eq!(url("chroma://127.0.0.1:8000"), "http://127.0.0.1:8000");
        assert_eq!(url("qdrant+https://host:6333"), "https://host:6333");
        assert_eq!(url("postgresql://host/docs"), "postgresql://host/docs");
        assert_eq!(url("{ pgvector = { url = \"env:OTHER\", ef = 80 } }"), "env:OTHER");
        let refused = |text: &str| VectorIndexConfig::named(text).unwrap_err().to_string();
        for text in ["flat", "{ hnsw = {} }", "mysql://host/docs", "s3://bucket", ""] {
            assert!(refused(text).contains("pgvector"), "{text}: {}", refused(text));
        }
        for text in ["pgvector://me:planted@host/docs", "pgvector://host/docs?user=me&password=planted"] {
            let secret = refused(text);
            assert!(secret.contains("env:DATABASE_URL") && !secret.contains("planted"), "{secret}");
        }
        for text in ["mysql://me:planted@host/docs", "{ pgvector = { url = \"planted\", eff = 1 } }", "{ planted"] {
            assert!(!refused(text).contains("planted"), "{}", refused(text));
        }
        assert!(refused("{ pgvector = { eff = 3 } }").contains("eff"));
        assert!(refused("{ pgvector = { ef = 0 } }").contains("ef is 0"));
        assert!(VectorIndexConfig::named("{ pgvector = ").is_err());
    }
}
