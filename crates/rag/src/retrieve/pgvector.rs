//! `pgvector`: searches a table of PostgreSQL that you have filled, with the extension pgvector.
//!
//! Use it if your application has its vectors in PostgreSQL: trials differ in how the table is searched, and in all that
//! comes after it. Nothing is written there. The trial's embedder must be the one that filled the table: before a run, the
//! texts of some rows are embedded and compared with their vectors. The right to `select` is enough.
//!
//! `hybrid = true` also searches the texts for any word of the question, and joins both lists by reciprocal rank fusion.
//! PostgreSQL ranks by `ts_rank`, which does not know how rare a word is. A column of words with an index makes it fast:
//! `alter table docs add words tsvector generated always as (to_tsvector('english', text)) stored; create index on docs
//! using gin (words)`.
//!
//! The chunker of such a trial is `none`. Passages are looked for in the corpus by their text, in the document that
//! `document` names, so that evidence can be found in them; a passage that is in no document counts as irrelevant.
//! Source: [pgvector](https://github.com/pgvector/pgvector).

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
    AccessSettings, CollectionPlace, ExistingFields, PgvectorDatabase, SearchOptions, TextSearch, VectorDatabase,
};
use std::{collections::BTreeMap, sync::Arc};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever pgvector";

database_settings! {
    /// Settings of `pgvector`.
    pub struct Config at "env:DATABASE_URL" {
        /// The table or view, as `table` or `schema.table`.
        pub table: String = String::new(),
        /// The column with the id. Default: the primary key.
        pub id: Option<String> = None,
        /// The column with the vector. Default `embedding`.
        pub vector: String = "embedding".to_owned(),
        /// The column with the text. Default `text`.
        pub text: String = "text".to_owned(),
        /// The column with the path of the document in the corpus, its file's name, or the name without its ending.
        /// `meta.source` is the value `source` of a JSON column `meta`. Without it, passages are looked for in all
        /// documents.
        pub document: Option<String> = None,
        /// The column with the page.
        pub page: Option<String> = None,
        /// The column with the title.
        pub title: Option<String> = None,
        /// A JSON column with the other fields that filters may name.
        pub metadata: Option<String> = None,
        /// Columns by the names that filters use, such as `{ year = "published" }`.
        #[schemars(with = "Option<BTreeMap<String, String>>", extend("default" = null))]
        pub fields: BTreeMap<String, String> = BTreeMap::new(),
        /// A condition in SQL that all rows must meet, such as `"lang = 'en'"`.
        pub condition: Option<String> = None,
        /// `cosine`, `inner_product` or `l2`: what the table is indexed for. Default `cosine`.
        pub metric: IndexMetric = IndexMetric::Cosine,
        /// The most passages to return. Default 5.
        pub top_k: usize = 5,
        /// How many near vectors an `hnsw` index keeps during a search. Default: the server's.
        pub ef: Option<u32> = None,
        /// The clusters that an `ivfflat` index looks into. Default: the server's.
        pub probes: Option<u32> = None,
        /// Searches an index over `binary_quantize(vector)`, one bit a number: how many times `top_k` rows it finds, of which
        /// the nearest by their vectors are returned. Default: 1 if the table has such an index alone, else it is not
        /// searched.
        pub oversampling: Option<u32> = None,
        /// Whether to compare every vector, without the index. Default false.
        pub exact: bool = false,
        /// Whether to search by words too, by PostgreSQL's full-text search. Default false.
        pub hybrid: bool = false,
        /// How texts are cut into words: a text search configuration, such as `english` or `simple`. Default `english`; only
        /// with `hybrid`.
        pub language: String = "english".to_owned(),
        /// The column with the words of each text, of the type `tsvector`. Without it, every search reads all texts; only
        /// with `hybrid`.
        pub words: Option<String> = None,
        /// What stands for the content of the table in keys. Default: its number of rows, and PostgreSQL's count of
        /// changes.
        pub version: Option<String> = None,
    }
}

impl Component for Config {
    finds_top_k!();

    fn existing_index(&self) -> Option<&dyn ExistingIndexSettings> {
        Some(self)
    }

    fn settings_outside_key(&self) -> &'static [&'static str] {
        &["url", "identity", "timeout_seconds", "concurrency", "plain", "version"]
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
}

existing_index!(Config);

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        ensure(NAME, !self.table.is_empty(), "table is missing; name the table with the vectors")?;
        let Self { ef, probes, oversampling, exact, .. } = *self;
        let options =
            SearchOptions { ef, probes, oversampling, exact, with_content: true, ..SearchOptions::top(self.top_k) };
        ensure(NAME, self.hybrid || self.words.is_none(), "`words` is used by a search with `hybrid = true` alone")?;
        Ok(Box::new(ExistingIndex::new(self, options, cx)?.with_words(self.hybrid)))
    }

    fn collection(&self) -> CollectionPlace {
        let own = [("path", &self.document), ("page", &self.page), ("title", &self.title)];
        let fields = ExistingFields {
            id: self.id.clone(),
            vector: self.vector.clone(),
            text: Some(self.text.clone()),
            fields: named_fields(own, &self.fields),
            metadata: self.metadata.clone(),
            metric: self.metric.into(),
            condition: self.condition.clone(),
            text_search: self
                .hybrid
                .then(|| TextSearch { words: self.words.clone(), language: Some(self.language.clone()) }),
        };
        CollectionPlace::existing(&self.table, fields)
    }
}
