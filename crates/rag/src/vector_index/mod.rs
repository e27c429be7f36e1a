//! `vector_index`: how the vectors of chunks are indexed and searched.

mod record;

use crate::{AxisValue, Error, component::components, corpus::VectorSearch, database, index::GraphSettings};
use databases::{CollectionSpec, VectorDatabase};
use models::{EndpointAccess, provider::Environment};
use serde_json::Value;
use std::sync::Arc;

pub use record::record_of;

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
