//! `elasticsearch`: searches an index of Elasticsearch or OpenSearch that you have filled.
//!
//! Use it if your application has its vectors there. Nothing is written. The trial's embedder must be the one that filled
//! the index: before a run, the texts of some records are embedded and compared with their vectors.
//!
//! `hybrid = true` also searches the field of the text for the words of the question (BM25), and joins both lists by
//! reciprocal rank fusion.
//!
//! The chunker of such a trial is `none`. Passages are looked for in the corpus by their text, in the document that
//! `document` names, so that evidence can be found in them; a passage that is in no document counts as irrelevant.
//! `metadata.source` is the value `source` of the object `metadata`.
//!
//! Tried with a stub of the published interface of both, never with a server.
//! Source: [Elasticsearch](https://www.elastic.co/elasticsearch), [OpenSearch](https://opensearch.org).

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
    AccessSettings, CollectionPlace, ElasticsearchDatabase, ExistingFields, SearchOptions, VectorDatabase,
};
use std::{collections::BTreeMap, sync::Arc};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever elasticsearch";

database_settings! {
    /// Settings of `elasticsearch`.
    pub struct Config at "http://127.0.0.1:9200" {
        /// The name of the index, or of an alias.
        pub index: String = String::new(),
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
        /// An object with the other fields that filters may name, such as `metadata`. Default: the fields of the record.
        pub metadata: Option<String> = None,
        /// Fields by the names that filters use, where they differ.
        #[schemars(with = "Option<BTreeMap<String, String>>", extend("default" = null))]
        pub fields: BTreeMap<String, String> = BTreeMap::new(),
        /// A condition that all records must meet, as a query in JSON.
        pub condition: Option<String> = None,
        /// `cosine`, `inner_product` or `l2`: what the field is indexed for. Default `cosine`.
        pub metric: IndexMetric = IndexMetric::Cosine,
        /// The most passages to return. Default 5.
        pub top_k: usize = 5,
        /// How many near vectors the graph keeps during a search (`num_candidates`). Default: 100, or more if `top_k` is
        /// larger.
        pub ef: Option<u32> = None,
        /// Whether to compare every vector, without the graph. Default false.
        pub exact: bool = false,
        /// Whether to search by words too. Default false.
        pub hybrid: bool = false,
        /// The encoded API key, as `env:NAME`; none if not set.
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
        Ok(Arc::new(ElasticsearchDatabase::open(access)?))
    }
}

existing_index!(Config);

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        ensure(NAME, !self.index.is_empty(), "index is missing; name the index with the vectors")?;
        let (ef, exact) = (self.ef, self.exact);
        let options = SearchOptions { ef, exact, with_content: true, ..SearchOptions::top(self.top_k) };
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
            ..ExistingFields::default()
        };
        CollectionPlace::existing(&self.index, fields)
    }
}
