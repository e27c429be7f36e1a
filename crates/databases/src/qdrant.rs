//! [Qdrant](https://qdrant.tech), 1.10 or newer, over its REST API.
//!
//! Tried only with a stub on top of Qdrant's own engine (`tests/it/qdrant_stub.py`), which follows the published
//! interface of Qdrant 1.19; never with a server.
//!
//! A collection that Reverie fills has the vector `embedding`, and a payload with `text` and `fields`; where fields have
//! fractions, all fields are also there as JSON text, because Qdrant may round the last bit. It is Reverie's by an empty
//! sparse vector whose name holds the key of its task: every version has that from the collection's first moment, and it
//! ends with the collection. The rest of the manifest is a point without a vector, which no search finds; other
//! programs count one point more. Aliases are Qdrant's own; those that point to the user's collections are left alone.
//!
//! While a collection is filled, Qdrant builds no graph; [`VectorDatabase::complete`] lets it, from 10 MB of vectors in
//! a segment on, and waits. Smaller segments are compared one by one, as Qdrant does by itself.
//!
//! Filters are exact: Qdrant checks equality, and ranges of numbers and booleans; the order of texts and "is not" are
//! looked at here. If too few records pass, more are asked for, up to 10,000 ([`crate::FoundRecords::is_cut`]). In
//! collections of the user's own a payload index of one type finds no values of other types.

mod condition;
mod messages;
mod payload_path;
mod reading;
mod writing;

use crate::{
    AccessSettings, CollectionDescription, CollectionPlace, CollectionSpec, DatabaseAccess, DatabaseProblem,
    DatabaseQuery, Error, FoundRecords, IndexManifest, IndexedRecord, RecordFilter, RecordId, RecordLayout,
    SearchIndexDescription, SearchOptions, ServerDescription, VectorDatabase, json_client::JsonClient,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use messages::{
    QdrantAliases, QdrantCount, QdrantInfo, QdrantNames, QdrantPage, QdrantReply, QdrantVersion, VECTOR,
    VectorSettings, content, refusal,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reading::without_manifest;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize},
};

/// Bytes of the records in one request; a server takes 32 MB by default.
const MAX_BODY: usize = 8 << 20;
/// Records of which the names of fields are taken.
const SAMPLED: usize = 32;
/// What the id of a point is called.
const ID: &str = "id";
/// The header with the API key.
const KEY_HEADER: &str = "api-key";
/// The oldest version that works: it has the universal query API.
const OLDEST: (&str, [u32; 2]) = ("1.10", [1, 10]);

/// A Qdrant server.
#[derive(Debug)]
pub struct QdrantDatabase {
    client: JsonClient,
    /// Bytes of the records in one request; less than [`MAX_BODY`] once the server refused that.
    body_limit: AtomicUsize,
    /// Collections by name or alias.
    collections: Mutex<HashMap<String, Arc<QdrantCollection>>>,
}

/// What is known about a collection.
#[derive(Debug)]
struct QdrantCollection {
    info: QdrantInfo,
    vectors: BTreeMap<String, VectorSettings>,
    is_alias: bool,
}

impl QdrantCollection {
    /// The vector that is searched, with its name.
    fn vector(&self, place: &CollectionPlace) -> Result<(&str, &VectorSettings), DatabaseProblem> {
        let wanted = match &place.layout {
            RecordLayout::Filled => VECTOR,
            RecordLayout::Existing(existing) if existing.id.as_deref().is_some_and(|id| id != ID) => {
                let reason = "points of Qdrant have ids of their own, so leave out the field `id`; if the payload has another id, make it one of `fields`";
                return Err(DatabaseProblem::InvalidSettings { reason: reason.to_owned() });
            }
            RecordLayout::Existing(existing) => &existing.vector,
        };
        let named = self.vectors.get_key_value(wanted);
        let only = self.vectors.first_key_value().filter(|_| self.vectors.len() == 1);
        named.or(only).map(|(name, vector)| (name.as_str(), vector)).ok_or_else(|| DatabaseProblem::MissingField {
            field: wanted.to_owned(),
            known: self.vectors.keys().cloned().collect(),
        })
    }
}

impl QdrantDatabase {
    /// Opens a server at an address such as `http://host:6333`. An API key is sent as `api-key`. Makes no connection.
    /// Fails if the address cannot be used, or a key would go to another machine without TLS.
    pub fn open(settings: AccessSettings) -> Result<Self, Error> {
        let access = DatabaseAccess::new(settings, &[("http", 80), ("https", 443)])?;
        let client = JsonClient::new(access.clone(), KEY_HEADER).map_err(|problem| access.error(None, problem))?;
        Ok(Self { client, body_limit: AtomicUsize::new(MAX_BODY), collections: Mutex::default() })
    }

    fn error(&self, collection: Option<&str>, problem: DatabaseProblem) -> Error {
        self.forget();
        self.client.access().error(collection, problem)
    }

    /// Clears the cache of collections, because a stale entry may have caused the error.
    fn forget(&self) {
        self.collections.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn path(&self, name: &str, action: &str) -> String {
        format!("collections/{}{action}", utf8_percent_encode(name, NON_ALPHANUMERIC))
    }

    /// Sends a request, and reads the result in its reply.
    async fn ask_bytes<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<T, DatabaseProblem> {
        let reply = self.client.send(method, path, body).await?;
        if !reply.status.is_success() {
            return Err(refusal(&reply, |text| self.client.access().shown(text)));
        }
        let read = serde_json::from_value::<QdrantReply<T>>(reply.body);
        read.map(|reply| reply.result)
            .map_err(|error| DatabaseProblem::Malformed { reason: self.client.access().shown(&error.to_string()) })
    }

    async fn ask_for<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, DatabaseProblem> {
        self.ask_bytes(method, path, body.map(|body| body.to_string().into())).await
    }

    /// A collection as it is now, by its name or an alias; none if there is none.
    async fn look_up(&self, name: &str) -> Result<Option<QdrantInfo>, DatabaseProblem> {
        match self.ask_for(Method::GET, &self.path(name, ""), None).await {
            Ok(info) => Ok(Some(info)),
            Err(DatabaseProblem::MissingCollection) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// A collection by its name or an alias, as it was when it was first used.
    async fn collection(&self, name: &str) -> Result<Arc<QdrantCollection>, DatabaseProblem> {
        let known = self.collections.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let info = self.look_up(name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let is_alias = self.all_aliases().await?.contains_key(name);
        let found = Arc::new(QdrantCollection { vectors: info.vectors()?, info, is_alias });
        self.collections.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// A collection that Reverie made, by its own name, and the key of its task; none if there is none of this name.
    async fn own(&self, name: &str) -> Result<Option<(QdrantInfo, String)>, DatabaseProblem> {
        if self.all_aliases().await?.contains_key(name) {
            return Err(DatabaseProblem::ForeignCollection);
        }
        let Some(info) = self.look_up(name).await? else { return Ok(None) };
        let key = info.key().ok_or(DatabaseProblem::ForeignCollection)?;
        Ok(Some((info, key)))
    }

    /// All aliases, also the user's own, with their collections.
    async fn all_aliases(&self) -> Result<BTreeMap<String, String>, DatabaseProblem> {
        let found: QdrantAliases = self.ask_for(Method::GET, "aliases", None).await?;
        Ok(found.aliases.into_iter().map(|alias| (alias.alias_name, alias.collection_name)).collect())
    }

    async fn change_aliases(&self, actions: Value) -> Result<(), DatabaseProblem> {
        let body = json!({ "actions": actions });
        self.ask_for::<bool>(Method::POST, "collections/aliases", Some(&body)).await.map(drop)
    }

    async fn count_records(&self, name: &str) -> Result<u64, DatabaseProblem> {
        let body = json!({ "exact": true, "filter": without_manifest(Vec::new()) });
        let counted: QdrantCount = self.ask_for(Method::POST, &self.path(name, "/points/count"), Some(&body)).await?;
        Ok(counted.count)
    }

    async fn describe_version(&self) -> Result<ServerDescription, DatabaseProblem> {
        let reply = self.client.send(Method::GET, "", None).await?;
        let named = serde_json::from_value::<QdrantVersion>(reply.body.clone());
        let named = named.ok().filter(|named| named.title.to_lowercase().contains("qdrant"));
        let Some(named) = named else {
            let reason =
                "it has no name and version of Qdrant; is the address that of its REST API, by default port 6333?";
            return Err(match reply.status.is_success() {
                true => DatabaseProblem::Malformed { reason: reason.to_owned() },
                false => refusal(&reply, |text| self.client.access().shown(text)),
            });
        };
        let version = self.client.access().shown(&named.version);
        let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).take(2).collect();
        if numbers.len() == 2 && numbers[..] < OLDEST.1[..] {
            return Err(DatabaseProblem::TooOld { name: "Qdrant", found: version, needed: OLDEST.0 });
        }
        // This needs the right to create collections, and does nothing.
        let can_create = match self.change_aliases(json!([])).await {
            Ok(()) => true,
            Err(DatabaseProblem::Permission { .. }) => false,
            Err(problem) => return Err(problem),
        };
        Ok(ServerDescription { version: format!("Qdrant {version}"), can_create })
    }

    async fn describe_collection(
        &self,
        place: &CollectionPlace,
    ) -> Result<Option<CollectionDescription>, DatabaseProblem> {
        self.forget();
        let collection = match self.collection(&place.name).await {
            Err(DatabaseProblem::MissingCollection) => return Ok(None),
            collection => collection?,
        };
        let info = &collection.info;
        let vector = match (&place.layout, collection.vector(place)) {
            (RecordLayout::Filled, vector) => vector.ok().map(|(_, vector)| vector),
            (RecordLayout::Existing(_), vector) => Some(vector?.1),
        };
        let manifest = match (info.key(), vector) {
            (Some(key), Some(vector)) => Some(self.manifest(&place.name, &key, vector.size).await?),
            _ => None,
        };
        let index = |vector: &VectorSettings| -> Result<SearchIndexDescription, DatabaseProblem> {
            Ok(SearchIndexDescription {
                kind: if info.has_graph(vector) { "hnsw" } else { "exact" }.to_owned(),
                metric: vector.metric()?,
                // Grey is one that the server has not begun with since its start; it can be searched.
                is_ready: matches!(info.status.as_str(), "green" | "grey"),
                bytes: None,
            })
        };
        Ok(Some(CollectionDescription {
            rows: self.count_records(&place.name).await?,
            dimensions: vector.map(|vector| vector.size),
            fields: self.field_names(place, info).await?.into_iter().map(|name| (name, String::new())).collect(),
            key: Some(ID.to_owned()),
            search_index: vector.map(index).transpose()?,
            manifest,
            bytes: None,
            change_counter: None,
        }))
    }

    /// The fields of some records and those with an index. Fails if none of the records has the field with the text.
    async fn field_names(
        &self,
        place: &CollectionPlace,
        info: &QdrantInfo,
    ) -> Result<BTreeSet<String>, DatabaseProblem> {
        let body = json!({ "limit": SAMPLED, "with_payload": true, "filter": without_manifest(Vec::new()) });
        let sample: QdrantPage =
            self.ask_for(Method::POST, &self.path(&place.name, "/points/scroll"), Some(&body)).await?;
        let payloads: Vec<_> = sample.points.into_iter().filter_map(|point| point.payload).collect();
        let existing = match &place.layout {
            RecordLayout::Filled => None,
            RecordLayout::Existing(existing) => Some(existing),
        };
        let mut names: BTreeSet<String> = match existing {
            None => BTreeSet::new(),
            Some(_) => payloads.iter().flat_map(|payload| payload.keys().cloned()).collect(),
        };
        if let Some(text) = existing.and_then(|existing| existing.text.as_ref())
            && !payloads.is_empty()
        {
            let path = payload_path::path_of_key(text);
            if payloads.iter().all(|payload| payload_path::value_at(payload, &path).is_none()) {
                return Err(DatabaseProblem::MissingField { field: text.clone(), known: names.into_iter().collect() });
            }
        }
        names.extend(
            payloads.into_iter().flat_map(|payload| content(place, Some(payload)).fields).map(|(name, _)| name),
        );
        if existing.is_some() {
            names.extend(info.payload_schema.keys().cloned());
        }
        Ok(names)
    }

    async fn point_alias(&self, alias: &str, to: &CollectionPlace) -> Result<Option<String>, DatabaseProblem> {
        self.own(&to.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let previous = self.all_aliases().await?.remove(alias);
        if let Some(previous) = &previous
            && self.look_up(previous).await?.is_some_and(|info| info.key().is_none())
        {
            return Err(DatabaseProblem::ForeignCollection);
        }
        // It replaces the alias; taking it away first would leave none if the server is killed in between.
        let action = json!({ "create_alias": { "alias_name": alias, "collection_name": to.name } });
        self.change_aliases(json!([action])).await?;
        Ok(previous)
    }

    /// Aliases that point to collections of Reverie.
    async fn own_aliases(&self) -> Result<BTreeMap<String, String>, DatabaseProblem> {
        let all = self.all_aliases().await?;
        let targets: BTreeSet<&String> = all.values().collect();
        let lookups: Vec<_> = targets
            .into_iter()
            .map(|target| async move { Ok((target.clone(), self.look_up(target).await?)) })
            .collect();
        let found = stream::iter(lookups).buffered(self.client.access().settings.concurrency);
        let infos: Vec<(String, Option<QdrantInfo>)> = found.try_collect().await?;
        let own: BTreeSet<String> =
            infos.into_iter().filter_map(|(name, info)| info.and_then(|info| info.key()).map(|_| name)).collect();
        Ok(all.into_iter().filter(|(_, target)| own.contains(target)).collect())
    }

    async fn remove(&self, place: &CollectionPlace, key: &str) -> Result<(), DatabaseProblem> {
        let Some((_, found)) = self.own(&place.name).await? else { return Ok(()) };
        if found != key {
            return Err(DatabaseProblem::ForeignCollection);
        }
        // Qdrant would remove the aliases with their collection.
        if let Some((alias, _)) = self.all_aliases().await?.iter().find(|(_, target)| **target == place.name) {
            return Err(DatabaseProblem::Refused { message: format!("the alias `{alias}` points to it") });
        }
        self.ask_for::<bool>(Method::DELETE, &self.path(&place.name, ""), None).await.map(drop)
    }

    /// The manifest of a collection, if Reverie made it and this version can read it.
    async fn listed(&self, name: String) -> Result<Option<(CollectionPlace, IndexManifest)>, DatabaseProblem> {
        let Some(info) = self.look_up(&name).await? else { return Ok(None) };
        let (Some(key), vectors) = (info.key(), info.vectors()?) else { return Ok(None) };
        let Some(vector) = vectors.get(VECTOR) else { return Ok(None) };
        match self.manifest(&name, &key, vector.size).await {
            Ok(manifest) => Ok(Some((CollectionPlace::filled(&name), manifest))),
            Err(DatabaseProblem::MissingCollection | DatabaseProblem::Malformed { .. }) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    async fn list_own(&self) -> Result<Vec<(CollectionPlace, IndexManifest)>, DatabaseProblem> {
        let names: QdrantNames = self.ask_for(Method::GET, "collections", None).await?;
        let lookups: Vec<_> = names.collections.into_iter().map(|collection| self.listed(collection.name)).collect();
        let found = stream::iter(lookups).buffered(self.client.access().settings.concurrency);
        let found: Vec<Option<_>> = found.try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

#[async_trait]
impl VectorDatabase for QdrantDatabase {
    fn address(&self) -> String {
        self.client.access().address_for_key().to_owned()
    }

    async fn describe_server(&self) -> Result<ServerDescription, Error> {
        self.describe_version().await.map_err(|problem| self.error(None, problem))
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
        _: &CollectionSpec,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), Error> {
        self.build(place, progress).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn write_manifest(&self, place: &CollectionPlace, manifest: &IndexManifest) -> Result<(), Error> {
        self.store_manifest(place, manifest).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn search(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, Error> {
        let found = self.search_queries(place, queries, options).await;
        found.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn read(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<Vec<Option<IndexedRecord>>, Error> {
        self.read_records(place, ids).await.map_err(|problem| self.error(Some(&place.name), problem))
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
        self.count_records(&place.name).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn delete(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<(), Error> {
        self.delete_records(place, ids).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn drop_collection(&self, place: &CollectionPlace, key: &str) -> Result<(), Error> {
        let removed = self.remove(place, key).await.map_err(|problem| self.error(Some(&place.name), problem));
        self.forget();
        removed
    }

    async fn swap(&self, alias: &str, to: &CollectionPlace) -> Result<Option<String>, Error> {
        let swapped = self.point_alias(alias, to).await.map_err(|problem| self.error(Some(alias), problem));
        self.forget();
        swapped
    }

    async fn aliases(&self) -> Result<BTreeMap<String, String>, Error> {
        self.own_aliases().await.map_err(|problem| self.error(None, problem))
    }

    async fn list(&self) -> Result<Vec<(CollectionPlace, IndexManifest)>, Error> {
        self.list_own().await.map_err(|problem| self.error(None, problem))
    }
}
