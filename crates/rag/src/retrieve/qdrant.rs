//! `qdrant`: searches a collection of a Qdrant server that you have filled.
//!
//! Use it if your application has its vectors in Qdrant. Nothing is written there. The trial's embedder must be the one
//! that filled the collection: before a run, the texts of some points are embedded and compared with their vectors.
//!
//! The chunker of such a trial is `none`. Passages are looked for in the corpus by their text, in the document that
//! `document` names, so that evidence can be found in them; a passage that is in no document counts as irrelevant.
//! Qdrant cannot tell whether points were changed: raise `version` when they were. Places in the payload are paths:
//! `metadata.source` is the value `source` of the object `metadata`; a key with a dot is quoted, `"a.b"`.
//!
//! Tried with a stub of Qdrant's REST API over Qdrant's own engine, never with a server.
//! Source: [Qdrant](https://qdrant.tech).

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
use databases::{AccessSettings, CollectionPlace, ExistingFields, QdrantDatabase, SearchOptions, VectorDatabase};
use std::{collections::BTreeMap, sync::Arc};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever qdrant";

database_settings! {
    /// Settings of `qdrant`.
    pub struct Config at "http://127.0.0.1:6333" {
        /// The name of the collection, or of an alias.
        pub collection: String = String::new(),
        /// The name of the vector, where points have several. Default: the vector without a name.
        pub vector: Option<String> = None,
        /// The place of the text in the payload. LangChain writes it to `page_content`. Default `text`.
        pub text: String = "text".to_owned(),
        /// The place of the path of the document in the corpus, its file's name, or the name without its ending. Without
        /// it, passages are looked for in all documents.
        pub document: Option<String> = None,
        /// The place of the page.
        pub page: Option<String> = None,
        /// The place of the title.
        pub title: Option<String> = None,
        /// An object in the payload with the other fields that filters may name, such as `metadata`. Default: the payload
        /// itself.
        pub metadata: Option<String> = None,
        /// Places in the payload by the names that filters use, where they differ.
        #[schemars(with = "Option<BTreeMap<String, String>>", extend("default" = null))]
        pub fields: BTreeMap<String, String> = BTreeMap::new(),
        /// A condition that all points must meet, as a filter of Qdrant in JSON.
        pub condition: Option<String> = None,
        /// `cosine`, `inner_product` or `l2`: the distance of the collection. Default `cosine`.
        pub metric: IndexMetric = IndexMetric::Cosine,
        /// The most passages to return. Default 5.
        pub top_k: usize = 5,
        /// How many near vectors the graph keeps during a search. Default: the collection's.
        pub ef: Option<u32> = None,
        /// In a collection with quantization: how many times `top_k` points are found by the smaller vectors, of which the
        /// nearest by their own vectors are returned. Default: the server's.
        pub oversampling: Option<u32> = None,
        /// Whether to compare every vector, without the graph. Default false.
        pub exact: bool = false,
        /// The key of the server, as `env:NAME`; none if not set.
        pub api_key: Option<String> = None,
        /// What stands for the content of the collection in keys. Default: its number of points.
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
        Ok(Arc::new(QdrantDatabase::open(access)?))
    }
}

existing_index!(Config);

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        ensure(NAME, !self.collection.is_empty(), "collection is missing; name the collection with the vectors")?;
        let Self { ef, exact, oversampling, .. } = *self;
        let options = SearchOptions { ef, exact, oversampling, with_content: true, ..SearchOptions::top(self.top_k) };
        Ok(Box::new(ExistingIndex::new(self, options, cx)?))
    }

    fn collection(&self) -> CollectionPlace {
        let own = [("path", &self.document), ("page", &self.page), ("title", &self.title)];
        let fields = ExistingFields {
            id: None,
            vector: self.vector.clone().unwrap_or_default(),
            text: Some(self.text.clone()),
            fields: named_fields(own, &self.fields),
            metadata: self.metadata.clone(),
            metric: self.metric.into(),
            condition: self.condition.clone(),
            ..ExistingFields::default()
        };
        CollectionPlace::existing(&self.collection, fields)
    }
}
