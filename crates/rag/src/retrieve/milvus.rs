//! `milvus`: searches a collection of Milvus that you have filled.
//!
//! Use it if your application has its vectors in Milvus. Nothing is written there. The trial's embedder must be the one
//! that filled the collection: before a run, the texts of some records are embedded and compared with their vectors.
//!
//! `hybrid = true` also searches for the words of the question by BM25, in the field that a function of the collection makes
//! of the text (Milvus 2.5 or newer), and joins both lists by reciprocal rank fusion.
//!
//! The chunker of such a trial is `none`. Passages are looked for in the corpus by their text, in the document that
//! `document` names, so that evidence can be found in them; a passage that is in no document counts as irrelevant.
//! Milvus cannot tell whether records were changed: raise `version` when they were. Fields are those of the schema, or of
//! the dynamic field; `metadata.source` is the value `source` of a JSON field `metadata`.
//!
//! Tried with Milvus Lite 3.2, not with a cluster.
//! Source: [Milvus](https://milvus.io).

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
use databases::{
    AccessSettings, CollectionPlace, ExistingFields, MilvusDatabase, SearchOptions, TextSearch, VectorDatabase,
};
use std::{collections::BTreeMap, sync::Arc};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever milvus";

database_settings! {
    /// Settings of `milvus`.
    pub struct Config at "http://127.0.0.1:19530" {
        /// The name of the collection, or of an alias.
        pub collection: String = String::new(),
        /// The field with the vector. Default `vector`.
        pub vector: String = "vector".to_owned(),
        /// The field with the text. Default `text`.
        pub text: String = "text".to_owned(),
        /// The field with the path of the document in the corpus, its file's name, or the name without its ending. Without
        /// it, passages are looked for in all documents.
        pub document: Option<String> = None,
        /// The field with the page.
        pub page: Option<String> = None,
        /// The field with the title.
        pub title: Option<String> = None,
        /// A JSON field with the other fields that filters may name. Default: the fields of the record.
        pub metadata: Option<String> = None,
        /// Fields by the names that filters use, where they differ.
        #[schemars(with = "Option<BTreeMap<String, String>>", extend("default" = null))]
        pub fields: BTreeMap<String, String> = BTreeMap::new(),
        /// A condition that all records must meet, as an expression of Milvus.
        pub condition: Option<String> = None,
        /// `cosine`, `inner_product` or `l2`: what the collection is indexed for. Default `cosine`.
        pub metric: IndexMetric = IndexMetric::Cosine,
        /// The most passages to return. Default 5.
        pub top_k: usize = 5,
        /// How many near vectors an `HNSW` index keeps during a search. Default 64.
        pub ef: Option<u32> = None,
        /// The clusters that an `IVF` index looks into. Default 16.
        pub probes: Option<u32> = None,
        /// Whether to search by words too. Default false.
        pub hybrid: bool = false,
        /// With `hybrid`: the field that a BM25 function makes of the text.
        pub words: Option<String> = None,
        /// Default `default`.
        pub database: String = "default".to_owned(),
        /// A token, or `user:password`, as `env:NAME`; none if not set.
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
        Ok(Arc::new(MilvusDatabase::open(access, &self.database)?))
    }

    fn part_of_server(&self) -> Option<String> {
        Some(self.database.clone())
    }
}

existing_index!(Config);

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        ensure(NAME, !self.collection.is_empty(), "collection is missing; name the collection with the vectors")?;
        ensure(NAME, !self.database.is_empty(), "database is empty")?;
        let (ef, probes) = (self.ef, self.probes);
        let options = SearchOptions { ef, probes, with_content: true, ..SearchOptions::top(self.top_k) };
        let reason = "`hybrid = true` and `words`, the field that a BM25 function makes, belong together";
        ensure(NAME, self.hybrid == self.words.is_some(), reason)?;
        Ok(Box::new(ExistingIndex::new(self, options, cx)?.with_words(self.hybrid)))
    }

    fn collection(&self) -> CollectionPlace {
        let own = [("path", &self.document), ("page", &self.page), ("title", &self.title)];
        let fields = ExistingFields {
            id: None,
            vector: self.vector.clone(),
            text: Some(self.text.clone()),
            fields: named_fields(own, &self.fields),
            metadata: self.metadata.clone(),
            metric: self.metric.into(),
            condition: self.condition.clone(),
            text_search: self.words.clone().map(|words| TextSearch { words: Some(words), language: None }),
        };
        CollectionPlace::existing(&self.collection, fields)
    }
}
