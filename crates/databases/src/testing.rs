//! For the tests of all crates: a database in memory that keeps the promises of [`VectorDatabase`]. Not for users.

use crate::{
    CollectionDescription, CollectionPlace, CollectionSpec, DatabaseProblem, DatabaseQuery, Error, FoundRecord,
    FoundRecords, IndexManifest, IndexedRecord, RecordContent, RecordFilter, RecordId, RecordLayout,
    SearchIndexDescription, SearchOptions, ServerDescription, VectorDatabase, VectorMetric,
    record::{check_records, rank},
};
use async_trait::async_trait;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A database in memory. Every search is exact.
#[derive(Debug)]
pub struct MemoryDatabase {
    name: String,
    state: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    collections: BTreeMap<String, MemoryCollection>,
    aliases: BTreeMap<String, String>,
    /// Writes that succeed before the connection is lost; none: it is never lost.
    writes_left: Option<usize>,
    writes: usize,
}

#[derive(Debug, Default)]
struct MemoryCollection {
    manifest: Option<IndexManifest>,
    records: BTreeMap<RecordId, IndexedRecord>,
}

impl MemoryDatabase {
    /// An empty database.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), state: Mutex::default() }
    }

    /// Lets so many more writes succeed; all later calls fail as if the server were gone, until [`Self::reconnect`].
    pub fn lose_connection_after(&self, writes: usize) {
        self.lock().writes_left = Some(writes);
    }

    /// Ends what [`Self::lose_connection_after`] began.
    pub fn reconnect(&self) {
        self.lock().writes_left = None;
    }

    /// How many writes succeeded.
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// Makes a collection that is not Reverie's.
    pub fn insert_existing(&self, name: &str, records: Vec<IndexedRecord>) {
        let records = records.into_iter().map(|record| (record.id.clone(), record)).collect();
        self.lock().collections.insert(name.to_owned(), MemoryCollection { manifest: None, records });
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, collection: &str, problem: DatabaseProblem) -> Error {
        let collection = Some(collection.to_owned()).filter(|name| !name.is_empty());
        Error { server: self.address(), collection, problem }
    }

    /// The state, unless the connection is lost.
    fn connected(&self) -> Result<MutexGuard<'_, MemoryState>, Error> {
        let state = self.lock();
        match state.writes_left {
            Some(0) => {
                Err(self.error("", DatabaseProblem::Unreachable { reason: "the connection was taken away".to_owned() }))
            }
            _ => Ok(state),
        }
    }

    /// Does something with a collection, by its name or an alias.
    fn with<T>(
        &self,
        name: &str,
        f: impl FnOnce(&mut MemoryCollection) -> Result<T, DatabaseProblem>,
    ) -> Result<T, Error> {
        let mut state = self.connected()?;
        let target = state.aliases.get(name).cloned().unwrap_or_else(|| name.to_owned());
        let collection = state.collections.get_mut(&target).ok_or(DatabaseProblem::MissingCollection);
        collection.and_then(f).map_err(|problem| self.error(name, problem))
    }
}

impl MemoryCollection {
    fn own(&self) -> Result<&IndexManifest, DatabaseProblem> {
        self.manifest.as_ref().ok_or(DatabaseProblem::ForeignCollection)
    }

    fn dimensions(&self) -> Option<usize> {
        let declared = self.manifest.as_ref().map(|manifest| manifest.dimensions);
        declared.or_else(|| self.records.values().next().map(|record| record.vector.len()))
    }

    fn search(&self, query: &DatabaseQuery<'_>, options: &SearchOptions) -> Result<FoundRecords, DatabaseProblem> {
        if let Some(found) = self.dimensions().filter(|found| *found != query.vector.len()) {
            return Err(DatabaseProblem::Dimensions { expected: query.vector.len(), found });
        }
        let passing = self
            .records
            .values()
            .filter(|record| query.filter.is_none_or(|filter| filter.passes_record(&record.id, &record.fields)));
        let mut records: Vec<FoundRecord> = passing
            .map(|record| {
                let content = RecordContent { text: record.text.clone(), fields: record.fields.clone() };
                let score = cosine(&record.vector, query.vector);
                FoundRecord { id: record.id.clone(), score, content: options.with_content.then_some(content) }
            })
            .collect();
        rank(&mut records, options.top);
        Ok(FoundRecords { records, is_exact: true, is_cut: false })
    }
}

/// The cosine of the angle between two vectors.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    (dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()) as f32
}

#[async_trait]
impl VectorDatabase for MemoryDatabase {
    fn address(&self) -> String {
        format!("memory://{}", self.name)
    }

    async fn describe_server(&self) -> Result<ServerDescription, Error> {
        drop(self.connected()?);
        Ok(ServerDescription { version: "memory".to_owned(), can_create: true })
    }

    async fn describe(&self, place: &CollectionPlace) -> Result<Option<CollectionDescription>, Error> {
        let described = self.with(&place.name, |collection| {
            let fields = collection.records.values().flat_map(|record| record.fields.keys());
            Ok(CollectionDescription {
                rows: collection.records.len() as u64,
                dimensions: collection.dimensions(),
                fields: fields.map(|name| (name.clone(), String::new())).collect(),
                key: Some("id".to_owned()),
                search_index: Some(SearchIndexDescription {
                    kind: "exact".to_owned(),
                    metric: VectorMetric::Cosine,
                    is_ready: true,
                    bytes: None,
                }),
                manifest: collection.manifest.clone(),
                bytes: None,
                change_counter: None,
            })
        });
        match described {
            Err(Error { problem: DatabaseProblem::MissingCollection, .. }) => Ok(None),
            described => described.map(Some),
        }
    }

    async fn create(&self, place: &CollectionPlace, spec: &CollectionSpec) -> Result<(), Error> {
        let mut state = self.connected()?;
        let new = || MemoryCollection { manifest: Some(IndexManifest::of_filling(spec)), records: BTreeMap::new() };
        let collection = state.collections.entry(place.name.clone()).or_insert_with(new);
        match collection.own() {
            Ok(manifest) if manifest.key == spec.key => Ok(()),
            _ => Err(self.error(&place.name, DatabaseProblem::ForeignCollection)),
        }
    }

    async fn write(&self, place: &CollectionPlace, records: &[IndexedRecord]) -> Result<(), Error> {
        self.with(&place.name, |collection| {
            check_records(records, collection.own()?.dimensions)?;
            collection.records.extend(records.iter().map(|record| (record.id.clone(), record.clone())));
            Ok(())
        })?;
        let mut state = self.lock();
        state.writes += 1;
        state.writes_left = state.writes_left.map(|left| left - 1);
        Ok(())
    }

    async fn complete(
        &self,
        place: &CollectionPlace,
        _: &CollectionSpec,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), Error> {
        self.with(&place.name, |collection| collection.own().map(drop))?;
        progress(1.0);
        Ok(())
    }

    async fn write_manifest(&self, place: &CollectionPlace, manifest: &IndexManifest) -> Result<(), Error> {
        self.with(&place.name, |collection| {
            collection.own()?;
            collection.manifest = Some(manifest.clone());
            Ok(())
        })
    }

    async fn search(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, Error> {
        self.with(&place.name, |collection| queries.iter().map(|query| collection.search(query, options)).collect())
    }

    async fn read(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<Vec<Option<IndexedRecord>>, Error> {
        self.with(&place.name, |collection| Ok(ids.iter().map(|id| collection.records.get(id).cloned()).collect()))
    }

    async fn first_records(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, Error> {
        self.with(&place.name, |collection| {
            let passing = collection.records.values().filter(|record| filter.passes_record(&record.id, &record.fields));
            Ok(passing.take(count).cloned().collect())
        })
    }

    async fn count(&self, place: &CollectionPlace) -> Result<u64, Error> {
        self.with(&place.name, |collection| Ok(collection.records.len() as u64))
    }

    async fn delete(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<(), Error> {
        self.with(&place.name, |collection| {
            collection.own()?;
            ids.iter().for_each(|id| drop(collection.records.remove(id)));
            Ok(())
        })
    }

    async fn drop_collection(&self, place: &CollectionPlace, key: &str) -> Result<(), Error> {
        let mut state = self.connected()?;
        let Some(collection) = state.collections.get(&place.name) else { return Ok(()) };
        if !collection.own().is_ok_and(|manifest| manifest.key == key) {
            return Err(self.error(&place.name, DatabaseProblem::ForeignCollection));
        }
        if let Some((alias, _)) = state.aliases.iter().find(|(_, target)| **target == place.name) {
            let message = format!("the alias `{alias}` points to it");
            return Err(self.error(&place.name, DatabaseProblem::Refused { message }));
        }
        state.collections.remove(&place.name);
        Ok(())
    }

    async fn swap(&self, alias: &str, to: &CollectionPlace) -> Result<Option<String>, Error> {
        let mut state = self.connected()?;
        let target = state.collections.get(&to.name).ok_or(DatabaseProblem::MissingCollection);
        target.and_then(MemoryCollection::own).map_err(|problem| self.error(&to.name, problem))?;
        match state.collections.contains_key(alias) || to.layout != RecordLayout::Filled {
            true => Err(self.error(alias, DatabaseProblem::ForeignCollection)),
            false => Ok(state.aliases.insert(alias.to_owned(), to.name.clone())),
        }
    }

    async fn aliases(&self) -> Result<BTreeMap<String, String>, Error> {
        Ok(self.connected()?.aliases.clone())
    }

    async fn list(&self) -> Result<Vec<(CollectionPlace, IndexManifest)>, Error> {
        let state = self.connected()?;
        let own = state
            .collections
            .iter()
            .filter_map(|(name, collection)| Some((CollectionPlace::filled(name), collection.manifest.clone()?)));
        Ok(own.collect())
    }
}
