//! Collections of a database: where one is, how it is made, what is known about it, and the manifest that Reverie
//! keeps in those that it fills.

use crate::{DatabaseProblem, VectorMetric};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The format of [`IndexManifest`].
const MANIFEST_FORMAT: u32 = 1;

/// A collection (a table, an index) and where the parts of its records are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CollectionPlace {
    /// Its name in the database. For PostgreSQL `table` or `schema.table`; without a schema it is in `public`.
    pub name: String,
    /// Where the parts of its records are.
    pub layout: RecordLayout,
}

impl CollectionPlace {
    /// A collection that Reverie fills.
    pub fn filled(name: &str) -> Self {
        Self { name: name.to_owned(), layout: RecordLayout::Filled }
    }

    /// A collection of the user's own.
    pub fn existing(name: &str, fields: ExistingFields) -> Self {
        Self { name: name.to_owned(), layout: RecordLayout::Existing(Box::new(fields)) }
    }

    /// By which metric it is searched.
    pub fn metric(&self) -> VectorMetric {
        match &self.layout {
            RecordLayout::Filled => VectorMetric::Cosine,
            RecordLayout::Existing(fields) => fields.metric,
        }
    }
}

/// Where the parts of records are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RecordLayout {
    /// As Reverie writes them; ids are numbers.
    Filled,
    /// Where the user says.
    Existing(Box<ExistingFields>),
}

/// Where the parts of the records of a user's own collection are. Names are columns of PostgreSQL, keys of Chroma's
/// metadata, paths in Qdrant's payload (`metadata.source`; a key with a dot is quoted: `"a.b"`), or fields of Milvus and
/// Elasticsearch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExistingFields {
    /// The id. None: the primary key, or the id that the database itself has.
    pub id: Option<String>,
    /// The vector; not used where a record has only one. In Qdrant its name, which is empty for the unnamed vector.
    pub vector: String,
    /// The text. None: the text that the database itself keeps (Chroma's document).
    pub text: Option<String>,
    /// Fields by the name that filters use.
    pub fields: BTreeMap<String, String>,
    /// A field with a JSON object of all other fields. Where a database keeps them at the top (Chroma), it is not used.
    pub metadata: Option<String>,
    /// By which metric vectors are compared. All metrics give the order of the cosine for vectors of length 1.
    pub metric: VectorMetric,
    /// A condition in the database's own language that all records must meet: SQL, an expression of Milvus, or as JSON
    /// Chroma's `where`, a filter of Qdrant or a query of Elasticsearch.
    pub condition: Option<String>,
    /// Settings of the full-text search. Only PostgreSQL and Milvus have any.
    pub text_search: Option<TextSearch>,
}

/// How the texts of a collection are searched by words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TextSearch {
    /// The field with the words of each text: in PostgreSQL a column of the type `tsvector`, in Milvus the output of a BM25
    /// function. None: PostgreSQL makes them from the text in each search, and Milvus does not search words.
    pub words: Option<String>,
    /// How PostgreSQL cuts texts into words: its text search configuration. None: `english`.
    pub language: Option<String>,
}

impl TextSearch {
    /// PostgreSQL's text search configuration.
    pub(crate) fn configuration(&self) -> &str {
        self.language.as_deref().unwrap_or("english")
    }
}

impl Default for ExistingFields {
    fn default() -> Self {
        Self {
            id: None,
            vector: "embedding".to_owned(),
            text: Some("text".to_owned()),
            fields: BTreeMap::new(),
            metadata: None,
            metric: VectorMetric::Cosine,
            condition: None,
            text_search: None,
        }
    }
}

/// How a collection is made that Reverie fills.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionSpec {
    /// The key of the task that fills it; the manifest holds it.
    pub key: String,
    /// The length of its vectors.
    pub dimensions: usize,
    /// Its search index.
    pub index: SearchIndexSpec,
    /// How precisely vectors are stored.
    pub precision: StoredPrecision,
}

/// The structure that a search uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchIndexSpec {
    /// None: every vector is compared.
    Exact,
    /// A graph.
    Hnsw {
        /// Neighbours of each vector.
        m: u32,
        /// Candidates while a vector is inserted.
        ef_construction: u32,
        /// Candidates of a search, for databases where a collection has one value for all searches (Chroma).
        ef: u32,
    },
    /// Clusters.
    Ivfflat {
        /// Clusters; 0: a thousandth of the rows, above a million rows their square root.
        lists: u32,
    },
}

impl SearchIndexSpec {
    /// The number of clusters for so many rows.
    pub(crate) fn lists_for(lists: u32, rows: u64) -> u64 {
        match (lists, rows) {
            (0, ..=1_000_000) => (rows / 1000).max(1),
            (0, _) => rows.isqrt(),
            (lists, _) => u64::from(lists),
        }
    }
}

/// How precisely vectors are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredPrecision {
    /// 32 bits a number.
    F32,
    /// 16 bits a number.
    F16,
    /// 32 bits a number, and a copy of 8 bits a number that the index searches.
    Int8,
    /// 32 bits a number, and a copy of one bit a number that the index searches.
    Binary,
}

impl StoredPrecision {
    /// Whether the index searches a smaller copy of the vectors.
    pub fn is_quantized(self) -> bool {
        matches!(self, Self::Int8 | Self::Binary)
    }
}

/// What a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDescription {
    /// Its name and version: `PostgreSQL 18.4, pgvector 0.8.5`.
    pub version: String,
    /// Whether the user may create collections.
    pub can_create: bool,
}

/// What is known about a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionDescription {
    /// Its records.
    pub rows: u64,
    /// The length of its vectors, if it is declared or there is a record.
    pub dimensions: Option<usize>,
    /// The names of its fields, and their types where the database declares them.
    pub fields: BTreeMap<String, String>,
    /// The field with the id, if the database knows one.
    pub key: Option<String>,
    /// The index that searches use, if there is one.
    pub search_index: Option<SearchIndexDescription>,
    /// The manifest, if Reverie made the collection.
    pub manifest: Option<IndexManifest>,
    /// Its size in bytes, indexes included; none if the database does not report it.
    pub bytes: Option<u64>,
    /// Changes whenever records change, if the database has such a counter.
    pub change_counter: Option<String>,
}

/// The index that searches of a collection use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchIndexDescription {
    /// Its kind: `hnsw`, `ivfflat`.
    pub kind: String,
    /// By which metric it compares.
    pub metric: VectorMetric,
    /// Whether it is complete.
    pub is_ready: bool,
    /// Its size in bytes; none if the database does not report it.
    pub bytes: Option<u64>,
}

impl CollectionDescription {
    /// Whether the collection can be searched with vectors of so many dimensions; else the first reason why not.
    pub fn check(&self, place: &CollectionPlace, dimensions: usize) -> Result<(), DatabaseProblem> {
        if let RecordLayout::Existing(fields) = &place.layout {
            let named = [fields.id.as_ref(), Some(&fields.vector), fields.text.as_ref(), fields.metadata.as_ref()];
            let known = || self.fields.keys().cloned().collect();
            // A database without declared fields knows only those of the records that it was asked for.
            let is_declared = self.fields.values().any(|kind| !kind.is_empty());
            let named = named.into_iter().flatten().chain(fields.fields.values());
            // `meta.author` is a value in the column `meta`.
            let column =
                |field: &str| field.split_once('.').map_or_else(|| field.to_owned(), |(column, _)| column.to_owned());
            let is_known = |field: &str| self.fields.contains_key(field) || self.fields.contains_key(&column(field));
            if let Some(field) = named.into_iter().find(|field| is_declared && !is_known(field)) {
                return Err(DatabaseProblem::MissingField { field: field.clone(), known: known() });
            }
            if fields.id.is_none() && self.key.is_none() {
                return Err(DatabaseProblem::NoKey);
            }
        }
        if self.rows == 0 {
            return Err(DatabaseProblem::Empty);
        }
        if let Some(found) = self.dimensions.filter(|found| *found != dimensions) {
            return Err(DatabaseProblem::Dimensions { expected: dimensions, found });
        }
        match &self.search_index {
            Some(index) if index.metric != place.metric() => {
                Err(DatabaseProblem::OtherMetric { expected: place.metric(), found: index.metric })
            }
            Some(index) if !index.is_ready => Err(DatabaseProblem::NotReady {
                reason: format!("its {} index is being built or is invalid", index.kind),
            }),
            _ => Ok(()),
        }
    }
}

/// What Reverie keeps in a collection that it fills. From the beginning it marks the collection as Reverie's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexManifest {
    /// The version of this format.
    pub format: u32,
    /// The version of Reverie that wrote it.
    pub reverie: String,
    /// The key of the task that fills the collection.
    pub key: String,
    /// The records, once all of them are there and indexed; none during filling.
    pub rows: Option<u64>,
    /// The length of the vectors.
    pub dimensions: usize,
    /// When a run or a service last used it, in milliseconds since 1970.
    pub used_ms: Option<u64>,
    /// For each alias that points to the collection, the one to which it pointed before, for a rollback.
    #[serde(default)]
    pub previous: BTreeMap<String, String>,
    /// What else the caller keeps: embedder, settings, seconds.
    pub facts: Value,
}

impl IndexManifest {
    /// The manifest of a collection that is still being filled.
    pub fn of_filling(spec: &CollectionSpec) -> Self {
        Self {
            format: MANIFEST_FORMAT,
            reverie: env!("CARGO_PKG_VERSION").to_owned(),
            key: spec.key.clone(),
            rows: None,
            dimensions: spec.dimensions,
            used_ms: None,
            previous: BTreeMap::new(),
            facts: Value::Null,
        }
    }

    /// Whether all records are there and indexed.
    pub fn is_complete(&self) -> bool {
        self.rows.is_some()
    }

    /// Fails if a newer version of Reverie wrote the manifest.
    pub(crate) fn read(text: &str) -> Result<Self, DatabaseProblem> {
        let malformed =
            |reason: String| DatabaseProblem::Malformed { reason: format!("the manifest of Reverie: {reason}") };
        let manifest: Self = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        match manifest.format > MANIFEST_FORMAT {
            true => Err(malformed(format!("format {} is newer than this version of Reverie", manifest.format))),
            false => Ok(manifest),
        }
    }
}
