//! [Milvus](https://milvus.io), 2.4 or newer, and Milvus Lite, over gRPC: Milvus Lite has no other interface. Tried with
//! Milvus Lite 3.2.2; a cluster speaks the same protocol and was not tried.
//!
//! A collection that Reverie fills has the fields `id`, `vector`, `text`, `fields` (JSON), `text_rest` (what does not
//! fit into the 65,535 bytes of `text`) and `fields_kind` (how exactly Milvus can compare the fields). Its manifest is
//! a property of the collection. Aliases are Milvus' own.
//!
//! Until it is complete, a collection has the index `FLAT`, which compares all vectors; then the one that was asked
//! for: `FLAT`, `HNSW` or `IVF_FLAT`. Milvus Lite has all three, and refuses kinds that it does not have. Each closed
//! segment has an index of its own; records that are not in one yet are compared. A search cannot leave the index out:
//! only with `FLAT` is every search exact.
//!
//! Filters are exact: Milvus narrows the search down as far as it can say the filter, and the rest is looked at here.
//! If an index finds too few records, and for a search among ids, the records that pass are read and compared here, up
//! to four million numbers; beyond it a search may be cut ([`FoundRecords::is_cut`]).
//!
//! Milvus Lite does not lock a collection that is written to several times at once, and if it is killed then, it loses
//! most of what was written. So one client writes one part after the other; for several clients, start it with
//! `--max-workers 1`. It has no logins, and does not check them.

mod condition;
mod field_data;
mod grpc;
mod messages;
mod reading;
mod schema;
mod status;
mod writing;

use crate::{
    AccessSettings, CollectionDescription, CollectionPlace, CollectionSpec, DatabaseAccess, DatabaseProblem,
    DatabaseQuery, Error, FoundRecords, IndexManifest, IndexedRecord, RecordFilter, RecordId, RecordLayout,
    SearchOptions, ServerDescription, VectorDatabase, WordQuery,
};
use async_trait::async_trait;
use condition::{all, conditions};
use field_data::column;
use futures::{StreamExt, TryStreamExt, stream};
use grpc::GrpcClient;
use messages::{
    AlterCollection, DescribeCollectionReply, DescribeIndexReply, GetVersion, IndexDescription, KeyValue,
    ListAliasesReply, OfCollection, OfIndex, PointAlias, QueryRows, Reply, RowsReply, ShowCollections,
    ShowCollectionsReply, Status, VersionReply,
};
use prost::Message;
use schema::{DYNAMIC, MANIFEST, MilvusCollection, MilvusIndex, RecordShape, filled};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::OnceCell;
use writing::manifest_text;

/// The oldest version with JSON fields, upsert and aliases as they are used here.
const OLDEST: (u32, u32) = (2, 4);
/// The beginning of the version of Milvus Lite.
const LITE: &str = "milvus_lite-";
/// Records of which the names of dynamic fields are taken.
const SAMPLED: usize = 32;
/// Collections that are looked up at the same time.
const LOOK_UPS: usize = 8;

/// A database of a Milvus server.
#[derive(Debug)]
pub struct MilvusDatabase {
    client: GrpcClient,
    database: String,
    address: String,
    /// How collections are read, by their own name; aliases are not remembered, because they change.
    shapes: Mutex<HashMap<CollectionPlace, Arc<RecordShape>>>,
    is_lite: OnceCell<bool>,
    /// Held while something is written to Milvus Lite.
    writing: tokio::sync::Mutex<()>,
}

impl MilvusDatabase {
    /// Opens a database of a server at an address `http://host:19530`; Milvus' own default is `default`. The API key is
    /// a token or `user:password`, which may also stand in the address. Makes no connection. Fails if the address
    /// cannot be used, or a secret would go to another machine without TLS.
    pub fn open(settings: AccessSettings, database: &str) -> Result<Self, Error> {
        let access = DatabaseAccess::new(settings, &[("http", 80), ("https", 443)])?;
        let address = match access.settings.identity.is_some() {
            true => access.address_for_key().to_owned(),
            false => format!("{}/{database}", access.address_for_key()),
        };
        let client = GrpcClient::new(access.clone()).map_err(|problem| access.error(None, problem))?;
        Ok(Self {
            client,
            database: database.to_owned(),
            address,
            shapes: Mutex::default(),
            is_lite: OnceCell::new(),
            writing: tokio::sync::Mutex::default(),
        })
    }

    fn error(&self, collection: Option<&str>, problem: DatabaseProblem) -> Error {
        self.forget();
        self.client.access().error(collection, problem)
    }

    /// Clears the cache of collections, because a stale entry may have caused the error.
    fn forget(&self) {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn timeout(&self) -> Duration {
        self.client.access().settings.timeout
    }

    async fn call<T: Reply>(&self, method: &str, request: &impl Message) -> Result<T, DatabaseProblem> {
        self.client.call(method, request, self.timeout()).await
    }

    /// Makes a call that needs a collection in the server's memory. Loads the collection if the server has been restarted
    /// or another client has released it.
    async fn loaded<T, C>(&self, collection: &str, call: impl Fn() -> C) -> Result<T, DatabaseProblem>
    where
        C: Future<Output = Result<T, DatabaseProblem>>,
    {
        match call().await {
            Err(DatabaseProblem::NotReady { .. }) => {
                self.load(collection, self.timeout()).await?;
                call().await
            }
            done => done,
        }
    }

    /// Waits until this may write: Milvus Lite loses what is written several times at once.
    async fn write_turn(&self) -> Result<Option<tokio::sync::MutexGuard<'_, ()>>, DatabaseProblem> {
        let ask = async || {
            let reply: VersionReply = self.call("GetVersion", &GetVersion {}).await?;
            Ok(reply.version.starts_with(LITE))
        };
        Ok(match self.is_lite.get_or_try_init(ask).await? {
            true => Some(self.writing.lock().await),
            false => None,
        })
    }

    /// A collection as it is now, by its own name or an alias; none if there is none.
    async fn look_up(&self, name: &str) -> Result<Option<MilvusCollection>, DatabaseProblem> {
        let request = OfCollection { db_name: self.database.clone(), collection_name: name.to_owned() };
        match self.call::<DescribeCollectionReply>("DescribeCollection", &request).await {
            Ok(reply) => Ok(Some(MilvusCollection::new(reply))),
            Err(DatabaseProblem::MissingCollection) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// A collection, by its own name, and its manifest; none if there is none. Fails if Reverie did not make it.
    async fn own(&self, name: &str) -> Result<Option<(MilvusCollection, IndexManifest)>, DatabaseProblem> {
        let Some(collection) = self.look_up(name).await? else { return Ok(None) };
        let manifest = collection.manifest()?.filter(|_| collection.name == name);
        Ok(Some((collection, manifest.ok_or(DatabaseProblem::ForeignCollection)?)))
    }

    /// How a collection is read, by its own name or an alias.
    async fn shape(&self, place: &CollectionPlace) -> Result<Arc<RecordShape>, DatabaseProblem> {
        let known = |place| self.shapes.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned();
        if let Some(shape) = known(place) {
            return Ok(shape);
        }
        let collection = self.look_up(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let own_place = CollectionPlace { name: collection.name.clone(), layout: place.layout.clone() };
        if let Some(shape) = known(&own_place) {
            return Ok(shape);
        }
        let vector = vector_field(place);
        let index = self.index(&collection.name, vector).await?;
        let shape = Arc::new(RecordShape::new(collection, place, index)?);
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).insert(own_place, shape.clone());
        Ok(shape)
    }

    async fn index_description(&self, name: &str, vector: &str) -> Result<Option<IndexDescription>, DatabaseProblem> {
        let request = OfIndex {
            db_name: self.database.clone(),
            collection_name: name.to_owned(),
            field_name: vector.to_owned(),
            index_name: String::new(),
        };
        match self.call::<DescribeIndexReply>("DescribeIndex", &request).await {
            Ok(reply) => Ok(reply.indexes.into_iter().find(|index| index.field_name == vector)),
            // It has no index.
            Err(DatabaseProblem::NotReady { .. }) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    async fn index(&self, name: &str, vector: &str) -> Result<Option<MilvusIndex>, DatabaseProblem> {
        Ok(self.index_description(name, vector).await?.map(MilvusIndex::new))
    }

    async fn show_collections(&self) -> Result<Vec<String>, DatabaseProblem> {
        let request = ShowCollections { db_name: self.database.clone() };
        Ok(self.call::<ShowCollectionsReply>("ShowCollections", &request).await?.collection_names)
    }

    /// The aliases of a collection; with an empty name, those of all.
    async fn aliases_of(&self, name: &str) -> Result<Vec<String>, DatabaseProblem> {
        let request = OfCollection { db_name: self.database.clone(), collection_name: name.to_owned() };
        Ok(self.call::<ListAliasesReply>("ListAliases", &request).await?.aliases)
    }

    /// The collections to which these names lead, without those that are not there.
    async fn look_up_all(&self, names: Vec<String>) -> Result<Vec<(String, MilvusCollection)>, DatabaseProblem> {
        let found = names.into_iter().map(|name| async move { Ok((self.look_up(&name).await?, name)) });
        let found: Vec<_> = stream::iter(found.collect::<Vec<_>>()).buffered(LOOK_UPS).try_collect().await?;
        Ok(found.into_iter().filter_map(|(collection, name)| Some((name, collection?))).collect())
    }

    async fn point_alias(&self, alias: &str, to: &CollectionPlace) -> Result<Option<String>, DatabaseProblem> {
        self.own(&to.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let request =
            PointAlias { db_name: self.database.clone(), collection_name: to.name.clone(), alias: alias.to_owned() };
        match self.look_up(alias).await? {
            None => {
                let made = self.call::<Status>("CreateAlias", &request).await;
                // A call that was repeated finds the alias that it made before.
                match self.look_up(alias).await? {
                    Some(found) if found.name == to.name => Ok(None),
                    Some(_) => Err(DatabaseProblem::Busy {
                        message: "the alias was changed at the same time".to_owned(),
                        retry_after: None,
                    }),
                    None => made.and(Err(DatabaseProblem::MissingCollection)),
                }
            }
            Some(collection) if collection.name == alias => Err(DatabaseProblem::ForeignCollection),
            Some(collection) => {
                self.call::<Status>("AlterAlias", &request).await?;
                Ok(Some(collection.name))
            }
        }
    }

    async fn describe_collection(
        &self,
        place: &CollectionPlace,
    ) -> Result<Option<CollectionDescription>, DatabaseProblem> {
        self.forget();
        let Some(collection) = self.look_up(&place.name).await? else { return Ok(None) };
        let vector = vector_field(place);
        let index = self.index(&collection.name, vector).await?;
        let request = |output: &str, limit: Option<usize>| QueryRows {
            db_name: self.database.clone(),
            collection_name: collection.name.clone(),
            expr: String::new(),
            output_fields: vec![output.to_owned()],
            query_params: limit.map(|limit| KeyValue::new("limit", limit)).into_iter().collect(),
        };
        let ask = async |request: QueryRows| {
            self.loaded(&collection.name, || self.call::<RowsReply>("Query", &request)).await
        };
        let count = ask(request("count(*)", None)).await?;
        let rows = count.fields_data.first().and_then(|column| column.value(0).as_u64()).unwrap_or_default();
        let mut fields = collection.types();
        if collection.has_dynamic_field() {
            let sample = ask(request(DYNAMIC, Some(SAMPLED))).await?;
            let dynamic = column(&sample.fields_data, DYNAMIC);
            let objects = dynamic.into_iter().flat_map(|column| (0..column.rows()).map(|row| column.value(row)));
            for object in objects {
                for (name, _) in object.as_object().into_iter().flatten() {
                    fields.entry(name.clone()).or_insert_with(|| "dynamic".to_owned());
                }
            }
        }
        Ok(Some(CollectionDescription {
            rows,
            dimensions: collection.dimensions(vector),
            fields,
            key: collection.primary_key().map(|key| key.name.clone()),
            search_index: index.and_then(|index| index.description()),
            manifest: collection.manifest()?,
            bytes: None,
            change_counter: None,
        }))
    }
}

fn vector_field(place: &CollectionPlace) -> &str {
    match &place.layout {
        RecordLayout::Filled => filled::VECTOR,
        RecordLayout::Existing(fields) => &fields.vector,
    }
}

/// The version of a server for people. Fails if it is too old.
fn version(text: &str) -> Result<String, DatabaseProblem> {
    if let Some(lite) = text.strip_prefix(LITE) {
        return Ok(format!("Milvus Lite {lite}"));
    }
    let number = text.trim_start_matches('v');
    let mut numbers = number.split('.').map(|number| number.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < OLDEST => {
            Err(DatabaseProblem::TooOld { name: "Milvus", found: number.to_owned(), needed: "2.4" })
        }
        _ => Ok(format!("Milvus {number}")),
    }
}

#[async_trait]
impl VectorDatabase for MilvusDatabase {
    fn address(&self) -> String {
        self.address.clone()
    }

    async fn describe_server(&self) -> Result<ServerDescription, Error> {
        let describe = async {
            let reply: VersionReply = self.call("GetVersion", &GetVersion {}).await?;
            // Fails if there is no such database.
            self.show_collections().await?;
            Ok(ServerDescription { version: version(&self.client.access().shown(&reply.version))?, can_create: true })
        };
        describe.await.map_err(|problem| self.error(None, problem))
    }

    async fn describe(&self, place: &CollectionPlace) -> Result<Option<CollectionDescription>, Error> {
        self.describe_collection(place).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn create(&self, place: &CollectionPlace, spec: &CollectionSpec) -> Result<(), Error> {
        self.create_collection(place, spec).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn write(&self, place: &CollectionPlace, records: &[IndexedRecord]) -> Result<(), Error> {
        self.write_records(place, records).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn complete(
        &self,
        place: &CollectionPlace,
        spec: &CollectionSpec,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), Error> {
        self.build_index(place, spec, progress).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn write_manifest(&self, place: &CollectionPlace, manifest: &IndexManifest) -> Result<(), Error> {
        let write = async {
            let (collection, _) = self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
            let request = AlterCollection {
                db_name: self.database.clone(),
                collection_name: collection.name,
                properties: vec![KeyValue::new(MANIFEST, manifest_text(manifest)?)],
            };
            self.call::<Status>("AlterCollection", &request).await
        };
        write.await.map(drop).map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn search(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, Error> {
        let searches: Vec<_> = queries.iter().map(|query| self.search_one(place, query, options)).collect();
        let found = stream::iter(searches).buffered(self.client.access().settings.concurrency).try_collect().await;
        found.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn search_text(&self, place: &CollectionPlace, query: &WordQuery<'_>) -> Result<FoundRecords, Error> {
        let found = self.find_text(place, query).await;
        found.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn read(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<Vec<Option<IndexedRecord>>, Error> {
        let records = self.with_ids(place, ids).await.map_err(|problem| self.error(Some(&place.name), problem))?;
        let by_id: HashMap<String, IndexedRecord> =
            records.into_iter().map(|record| (record.id.to_string(), record)).collect();
        Ok(ids.iter().map(|id| by_id.get(&id.to_string()).cloned()).collect())
    }

    async fn first_records(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, Error> {
        self.first(place, filter, count).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn count(&self, place: &CollectionPlace) -> Result<u64, Error> {
        let count = async {
            let shape = self.shape(place).await?;
            self.count_all(&shape, &all(&conditions(&shape, None))).await
        };
        count.await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn delete(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<(), Error> {
        self.delete_records(place, ids).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn drop_collection(&self, place: &CollectionPlace, key: &str) -> Result<(), Error> {
        let dropped = self.drop_own(place, key).await.map_err(|problem| self.error(Some(&place.name), problem));
        self.forget();
        dropped
    }

    async fn swap(&self, alias: &str, to: &CollectionPlace) -> Result<Option<String>, Error> {
        let swapped = self.point_alias(alias, to).await.map_err(|problem| self.error(Some(alias), problem));
        self.forget();
        swapped
    }

    async fn aliases(&self) -> Result<BTreeMap<String, String>, Error> {
        let find = async { self.look_up_all(self.aliases_of("").await?).await };
        let found = find.await.map_err(|problem| self.error(None, problem))?;
        // Others are the user's.
        let own = found.into_iter().filter(|(_, collection)| matches!(collection.manifest(), Ok(Some(_))));
        Ok(own.map(|(alias, collection)| (alias, collection.name)).collect())
    }

    async fn list(&self) -> Result<Vec<(CollectionPlace, IndexManifest)>, Error> {
        let find = async { self.look_up_all(self.show_collections().await?).await };
        let found = find.await.map_err(|problem| self.error(None, problem))?;
        // One that a newer version of Reverie wrote is left alone.
        let own = found
            .into_iter()
            .filter_map(|(name, collection)| Some((CollectionPlace::filled(&name), collection.manifest().ok()??)));
        Ok(own.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused() {
        assert_eq!(version("milvus_lite-3.2.2").unwrap(), "Milvus Lite 3.2.2");
        assert_eq!(version("v2.6.1-dev").unwrap(), "Milvus 2.6.1-dev");
        let problem = version("v2.3.22").unwrap_err();
        assert_eq!(problem, DatabaseProblem::TooOld { name: "Milvus", found: "2.3.22".to_owned(), needed: "2.4" });
    }
}
