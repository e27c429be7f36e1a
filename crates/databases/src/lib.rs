//! Databases that hold vectors: what they have in common ([`VectorDatabase`]) and a client for each. They know
//! records with an id, a vector, a text and fields, and nothing about documents or questions.
//!
//! A collection that Reverie makes holds a manifest from its first moment. Nothing without one is changed or removed.

mod access;
mod chroma;
mod collection;
mod elasticsearch;
mod error;
mod filter;
mod json_client;
mod metric;
mod milvus;
mod pgvector;
mod qdrant;
mod record;
mod record_id;
mod retry;
pub mod testing;
mod vector_database;

pub use access::{AccessSettings, DatabaseAccess};
pub use chroma::ChromaDatabase;
pub use collection::{
    CollectionDescription, CollectionPlace, CollectionSpec, ExistingFields, IndexManifest, RecordLayout,
    SearchIndexDescription, SearchIndexSpec, ServerDescription, StoredPrecision, TextSearch,
};
pub use elasticsearch::ElasticsearchDatabase;
pub use error::{DatabaseProblem, Error};
pub use filter::{FieldBounds, FieldTest, RecordFilter, ScalarValue};
pub use metric::VectorMetric;
pub use milvus::MilvusDatabase;
pub use pgvector::PgvectorDatabase;
pub use qdrant::QdrantDatabase;
pub use record::{FoundRecord, IndexedRecord, RecordContent};
pub use record_id::RecordId;
pub use retry::retrying;
pub use vector_database::{DatabaseQuery, FoundRecords, SearchOptions, VectorDatabase, WordQuery};
