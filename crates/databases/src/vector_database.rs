//! What every database can do.

use crate::{
    CollectionDescription, CollectionPlace, CollectionSpec, DatabaseProblem, Error, FoundRecord, IndexManifest,
    IndexedRecord, RecordFilter, RecordId, ServerDescription,
};
use async_trait::async_trait;
use std::{collections::BTreeMap, fmt};

/// A database that stores vectors and finds the most similar ones. Opening one makes no connection; the first call
/// does. Calls may be made from many tasks at once.
#[async_trait]
pub trait VectorDatabase: Send + Sync + fmt::Debug {
    /// The address without secrets, or the setting `identity`: what stands for the database in keys.
    fn address(&self) -> String;

    /// The server's version and rights. Fails if it cannot be reached, refuses the login, or lacks its extension.
    async fn describe_server(&self) -> Result<ServerDescription, Error>;

    /// A collection as it is; none if there is none of this name.
    async fn describe(&self, place: &CollectionPlace) -> Result<Option<CollectionDescription>, Error>;

    /// Makes an empty collection with the manifest of one that is being filled. If it is there already and its
    /// manifest has the same key, this does nothing. Fails if Reverie did not make the collection.
    async fn create(&self, place: &CollectionPlace, spec: &CollectionSpec) -> Result<(), Error>;

    /// Writes records; those with the ids of earlier ones replace them. Ends when they are durable. If it fails, all,
    /// none or some of the records may be there, and writing them again is right.
    async fn write(&self, place: &CollectionPlace, records: &[IndexedRecord]) -> Result<(), Error>;

    /// Builds the search index after the last record was written, and waits until it is ready. Does nothing if there is
    /// one. Calls `progress` with the finished share, from 0 to 1, if the database reports it.
    async fn complete(
        &self,
        place: &CollectionPlace,
        spec: &CollectionSpec,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), Error>;

    /// Replaces the manifest of a collection that Reverie made.
    async fn write_manifest(&self, place: &CollectionPlace, manifest: &IndexManifest) -> Result<(), Error>;

    /// The most similar records for each query, at most `concurrency` queries at once.
    async fn search(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, Error>;

    /// The records whose texts match the words of a text best (full-text search); all pass the filter.
    /// Scores are BM25 or what else the database ranks words by: they have no upper limit, and only those of one call
    /// can be compared. Fails with [`DatabaseProblem::Unsupported`] if the database has no such search.
    async fn search_text(&self, place: &CollectionPlace, _query: &WordQuery<'_>) -> Result<FoundRecords, Error> {
        let problem = DatabaseProblem::Unsupported { what: "full-text search" };
        Err(Error { server: self.address(), collection: Some(place.name.clone()), problem })
    }

    /// The records with these ids, with text, vector and fields; none where there is no such record.
    async fn read(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<Vec<Option<IndexedRecord>>, Error>;

    /// The first records that pass, at most `count`, in an order that stays the same: by id, or in Chroma and in indexes
    /// of Elasticsearch that are the user's own by insertion.
    async fn first_records(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, Error>;

    /// The number of records.
    async fn count(&self, place: &CollectionPlace) -> Result<u64, Error>;

    /// Removes records of a collection that Reverie made.
    async fn delete(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<(), Error>;

    /// Removes a collection whose manifest has this key; one that is not there is no error. Fails for any other
    /// collection, and while an alias points to it.
    async fn drop_collection(&self, place: &CollectionPlace, key: &str) -> Result<(), Error>;

    /// Points an alias to a collection that Reverie made, and returns the name of the collection to which it pointed
    /// before. A search through the alias never sees a state in between. Fails if the alias is the name of a
    /// collection.
    async fn swap(&self, alias: &str, to: &CollectionPlace) -> Result<Option<String>, Error>;

    /// The aliases that [`VectorDatabase::swap`] made, with the names of their collections.
    async fn aliases(&self) -> Result<BTreeMap<String, String>, Error>;

    /// All collections that Reverie made, also those that are still being filled.
    async fn list(&self) -> Result<Vec<(CollectionPlace, IndexManifest)>, Error>;
}

/// One query.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseQuery<'a> {
    /// Its vector, of length 1.
    pub vector: &'a [f32],
    /// Which records it may find.
    pub filter: Option<&'a RecordFilter>,
}

/// One search by words.
#[derive(Debug, Clone, Copy)]
pub struct WordQuery<'a> {
    /// The text whose words are searched.
    pub text: &'a str,
    /// Which records it may find.
    pub filter: Option<&'a RecordFilter>,
    /// Records at most.
    pub top: usize,
    /// Whether to return text and fields.
    pub with_content: bool,
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchOptions {
    /// Records for each query, at most.
    pub top: usize,
    /// Candidates of a graph; raised to `top`. None: the database's default.
    pub ef: Option<u32>,
    /// Clusters to look into. None: the database's default.
    pub probes: Option<u32>,
    /// Of an index over a smaller copy of the vectors: how many times `top` records it finds, of which the nearest by the
    /// vectors themselves are returned. None: the database's default, and in PostgreSQL the index over the vectors
    /// themselves, if the table has one.
    pub oversampling: Option<u32>,
    /// Compares every vector, without the search index, where the database can ([`FoundRecords::is_exact`]).
    pub exact: bool,
    /// Whether to return text and fields.
    pub with_content: bool,
}

impl SearchOptions {
    /// The best records, with the database's defaults, without their content.
    pub fn top(top: usize) -> Self {
        Self { top, ef: None, probes: None, oversampling: None, exact: false, with_content: false }
    }
}

/// What one query found, the best first; equal scores are ordered by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundRecords {
    /// The records.
    pub records: Vec<FoundRecord>,
    /// Whether every vector was compared.
    pub is_exact: bool,
    /// There may be more records that pass the filter, although fewer than asked for were found.
    pub is_cut: bool,
}
