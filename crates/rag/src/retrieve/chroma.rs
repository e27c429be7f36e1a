//! `chroma`: searches a collection of a Chroma server that you have filled.
//!
//! Use it if your application has its vectors in Chroma. Nothing is written there. The trial's embedder must be the one
//! that filled the collection: before a run, the texts of some records are embedded and compared with their vectors.
//!
//! The chunker of such a trial is `none`. Passages are looked for in the corpus by their text, in the document that
//! `document` names, so that evidence can be found in them; a passage that is in no document counts as irrelevant.
//! Chroma cannot tell whether records were changed: raise `version` when they were.
//! Source: [Chroma](https://www.trychroma.com).

use super::{
    Retriever,
    existing::{ExistingIndex, IndexMetric, existing_index, named_fields},
    finds_top_k,
};
use crate::{
    Component, Context, Error, ExistingIndexSettings,
    component::{database_settings, ensure},
    database::{DatabaseConnection, DatabaseSettings},
};
use databases::{AccessSettings, ChromaDatabase, CollectionPlace, ExistingFields, SearchOptions, VectorDatabase};
use std::{collections::BTreeMap, sync::Arc};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever chroma";

database_settings! {
    /// Settings of `chroma`.
    pub struct Config at "http://127.0.0.1:8000" {
        /// The name of the collection.
        pub collection: String = String::new(),
        /// The key of the metadata with the path of the document in the corpus, its file's name, or the name without its
        /// ending. Without it, passages are looked for in all documents.
        pub document: Option<String> = None,
        /// The key of the metadata with the page.
        pub page: Option<String> = None,
        /// The key of the metadata with the title.
        pub title: Option<String> = None,
        /// Keys of the metadata by the names that filters use, where they differ.
        #[schemars(with = "Option<BTreeMap<String, String>>", extend("default" = null))]
        pub fields: BTreeMap<String, String> = BTreeMap::new(),
        /// A condition that all records must meet, as Chroma's `where` in JSON.
        pub condition: Option<String> = None,
        /// `cosine`, `inner_product` or `l2`: what the collection is indexed for. Chroma's own default is `l2`. Default
        /// `cosine`.
        pub metric: IndexMetric = IndexMetric::Cosine,
        /// The most passages to return. Default 5.
        pub top_k: usize = 5,
        /// Default `default_tenant`.
        pub tenant: String = "default_tenant".to_owned(),
        /// Default `default_database`.
        pub database: String = "default_database".to_owned(),
        /// The key of the server, as `env:NAME`; none if not set.
        pub api_key: Option<String> = None,
        /// What stands for the content of the collection in keys. Default: its number of records.
        pub version: Option<String> = None,
    }
}

impl Component for Config {
    finds_top_k!();

    fn existing_index(&self) -> Option<&dyn ExistingIndexSettings> {
        Some(self)
    }

    fn settings_outside_key(&self) -> &'static [&'static str] {
        &["url", "identity", "api_key", "timeout_seconds", "concurrency", "plain", "version"]
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

existing_index!(Config);

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        ensure(NAME, !self.collection.is_empty(), "collection is missing; name the collection with the vectors")?;
        let options = SearchOptions { with_content: true, ..SearchOptions::top(self.top_k) };
        Ok(Box::new(ExistingIndex::new(self, options, cx)?))
    }

    fn collection(&self) -> CollectionPlace {
        let own = [("path", &self.document), ("page", &self.page), ("title", &self.title)];
        let fields = ExistingFields {
            text: None,
            fields: named_fields(own, &self.fields),
            metric: self.metric.into(),
            condition: self.condition.clone(),
            ..ExistingFields::default()
        };
        CollectionPlace::existing(&self.collection, fields)
    }
}
