//! [Chroma](https://www.trychroma.com), 1.0 or newer, over its HTTP API.
//!
//! A collection that Reverie fills has the records' fields twice: plain values as metadata, and all of them as JSON
//! text, because Chroma stores neither nested values nor lists of several types. Its manifest is the collection's
//! metadata. Chroma has no aliases: an alias is an empty collection with the name of another one in its metadata.
//!
//! Filters are exact: Chroma narrows the search down as far as it can (its `$ne` also finds records without the field,
//! and it has no order of texts), and the rest is looked at here. If too few records pass, more are asked for, up to
//! 10,000 ([`crate::FoundRecords::is_cut`]). The number of candidates of a search (`ef`) belongs to the collection.

mod condition;
mod messages;
mod reading;

use crate::{
    AccessSettings, CollectionDescription, CollectionPlace, CollectionSpec, DatabaseAccess, DatabaseProblem,
    DatabaseQuery, Error, FoundRecords, IndexManifest, IndexedRecord, RecordFilter, RecordId, SearchIndexDescription,
    SearchIndexSpec, SearchOptions, ServerDescription, StoredPrecision, VectorDatabase,
    json_client::{HttpReply, JsonClient},
    record::check_records,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use messages::{ALIAS, ChromaCollection, ChromaGetReply, MANIFEST, id_text, refusal, upsert_body};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reading::page_of;
use reqwest::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OnceCell;

/// The server refuses bodies of about 40 MB.
const MAX_BODY: usize = 16 << 20;
/// Records of which the names of fields are taken.
const SAMPLED: usize = 32;
/// The header with the API key.
const KEY_HEADER: &str = "x-chroma-token";
/// Chroma's own number of candidates is not raised by Reverie, so this is only what a new collection gets at least.
const LEAST_EF: u32 = 10;

/// A database of a Chroma server.
#[derive(Debug)]
pub struct ChromaDatabase {
    client: JsonClient,
    /// The part of paths that names tenant and database.
    root: String,
    address: String,
    limits: OnceCell<ServerLimits>,
    /// Collections by name; aliases are not remembered, because they change.
    collections: Mutex<HashMap<String, Arc<ChromaCollection>>>,
}

/// What the server takes.
#[derive(Debug, Deserialize)]
struct ServerLimits {
    max_batch_size: usize,
    #[serde(default)]
    supports_base64_encoding: bool,
}

fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

impl ChromaDatabase {
    /// Opens a database of a tenant at an address `http://host:8000`; the defaults of Chroma are `default_tenant` and
    /// `default_database`. An API key is sent as `x-chroma-token`. Makes no connection. Fails if the address cannot
    /// be used, or a key would go to another machine without TLS.
    pub fn open(settings: AccessSettings, tenant: &str, database: &str) -> Result<Self, Error> {
        let access = DatabaseAccess::new(settings, &[("http", 80), ("https", 443)])?;
        let address = match access.settings.identity.is_some() {
            true => access.address_for_key().to_owned(),
            false => format!("{}/{tenant}/{database}", access.address_for_key()),
        };
        let client = JsonClient::new(access.clone(), KEY_HEADER).map_err(|problem| access.error(None, problem))?;
        let root = format!("api/v2/tenants/{}/databases/{}", segment(tenant), segment(database));
        Ok(Self { client, root, address, limits: OnceCell::new(), collections: Mutex::default() })
    }

    fn error(&self, collection: Option<&str>, problem: DatabaseProblem) -> Error {
        self.forget();
        self.client.access().error(collection, problem)
    }

    /// Clears the cache of collections, because a stale entry may have caused the error.
    fn forget(&self) {
        self.collections.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<HttpReply, DatabaseProblem> {
        let reply = self.client.send(method, path, body).await?;
        match reply.status.is_success() {
            true => Ok(reply),
            false => Err(refusal(&reply, |text| self.client.access().shown(text))),
        }
    }

    async fn read_as<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<T, DatabaseProblem> {
        let reply = self.ask(method, path, body).await?;
        serde_json::from_value(reply.body)
            .map_err(|error| DatabaseProblem::Malformed { reason: self.client.access().shown(&error.to_string()) })
    }

    async fn limits(&self) -> Result<&ServerLimits, DatabaseProblem> {
        self.limits.get_or_try_init(|| self.read_as(Method::GET, "api/v2/pre-flight-checks", None)).await
    }

    /// A collection as it is now, by its own name; none if there is none.
    async fn look_up(&self, name: &str) -> Result<Option<ChromaCollection>, DatabaseProblem> {
        let path = format!("{}/collections/{}", self.root, segment(name));
        match self.read_as(Method::GET, &path, None).await {
            Ok(collection) => Ok(Some(collection)),
            Err(DatabaseProblem::MissingCollection) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// A collection by its name or an alias.
    async fn collection(&self, name: &str) -> Result<Arc<ChromaCollection>, DatabaseProblem> {
        let known = self.collections.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut found = self.look_up(name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        if let Some(target) = found.alias_of() {
            found = self.look_up(target).await?.ok_or(DatabaseProblem::MissingCollection)?;
            return Ok(Arc::new(found));
        }
        let found = Arc::new(found);
        self.collections.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// A collection and its manifest; none if there is none of this name. Fails if Reverie did not make it.
    async fn own(&self, name: &str) -> Result<Option<(ChromaCollection, IndexManifest)>, DatabaseProblem> {
        let Some(collection) = self.look_up(name).await? else { return Ok(None) };
        let manifest = collection.manifest()?.ok_or(DatabaseProblem::ForeignCollection)?;
        Ok(Some((collection, manifest)))
    }

    fn path(&self, collection: &ChromaCollection, action: &str) -> String {
        format!("{}/collections/{}{action}", self.root, collection.id)
    }

    /// All collections of the database.
    async fn all(&self) -> Result<Vec<ChromaCollection>, DatabaseProblem> {
        const PAGE: usize = 100;
        let mut all: Vec<ChromaCollection> = Vec::new();
        loop {
            let path = format!("{}/collections?limit={PAGE}&offset={}", self.root, all.len());
            let page: Vec<ChromaCollection> = self.read_as(Method::GET, &path, None).await?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Makes a collection, or finds that another process made one just now.
    async fn make(&self, body: &Value) -> Result<(), DatabaseProblem> {
        let path = format!("{}/collections", self.root);
        let reply = self.client.send(Method::POST, &path, Some(body.to_string().into())).await?;
        match reply.status.is_success() || reply.status == reqwest::StatusCode::CONFLICT {
            true => Ok(()),
            false => Err(refusal(&reply, |text| self.client.access().shown(text))),
        }
    }

    async fn create_collection(&self, place: &CollectionPlace, spec: &CollectionSpec) -> Result<(), DatabaseProblem> {
        let refuse = |reason: &str| Err(DatabaseProblem::InvalidSettings { reason: reason.to_owned() });
        let SearchIndexSpec::Hnsw { m, ef_construction, ef } = spec.index else {
            return refuse("Chroma has only the index `hnsw`");
        };
        if spec.precision != StoredPrecision::F32 {
            return refuse("Chroma stores 32 bits a number");
        }
        loop {
            if let Some((_, manifest)) = self.own(&place.name).await? {
                return match manifest.key == spec.key {
                    true => Ok(()),
                    false => Err(DatabaseProblem::ForeignCollection),
                };
            }
            let body = json!({
                "name": place.name,
                "metadata": { MANIFEST: manifest_text(&IndexManifest::of_filling(spec))? },
                "configuration": { "hnsw": {
                    "space": "cosine", "max_neighbors": m, "ef_construction": ef_construction, "ef_search": ef.max(LEAST_EF),
                } },
            });
            self.make(&body).await?;
        }
    }

    async fn write_records(&self, place: &CollectionPlace, records: &[IndexedRecord]) -> Result<(), DatabaseProblem> {
        let collection = self.collection(&place.name).await?;
        let manifest = collection.manifest()?.ok_or(DatabaseProblem::ForeignCollection)?;
        check_records(records, manifest.dimensions)?;
        let limits = self.limits().await?;
        // Base64 has 4 bytes for 3; everything else is small or as long as the text.
        let size = |record: &IndexedRecord| record.vector.len() * 6 + record.text.len() * 2 + 2048;
        let mut rest = records;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(limits.max_batch_size.max(1)).take_while(|record| {
                bytes += size(record);
                bytes <= MAX_BODY
            });
            let (part, after) = rest.split_at(fits.count().max(1));
            let body = upsert_body(part, limits.supports_base64_encoding);
            let body = body.map_err(|error| DatabaseProblem::Malformed { reason: error.to_string() })?;
            self.ask(Method::POST, &self.path(&collection, "/upsert"), Some(body)).await?;
            rest = after;
        }
        Ok(())
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
        let rows = self.read_as(Method::GET, &self.path(&collection, "/count"), None).await?;
        let body = json!({ "limit": SAMPLED, "include": ["metadatas"] });
        let sample: ChromaGetReply =
            self.read_as(Method::POST, &self.path(&collection, "/get"), Some(body.to_string().into())).await?;
        let metadatas = sample.metadatas.unwrap_or_default();
        let names = metadatas.into_iter().flatten().flat_map(|metadata| metadata.into_iter().map(|(name, _)| name));
        let index = |metric| SearchIndexDescription { kind: "hnsw".to_owned(), metric, is_ready: true, bytes: None };
        Ok(Some(CollectionDescription {
            rows,
            dimensions: collection.dimension,
            fields: names.map(|name| (name, String::new())).collect(),
            key: Some("id".to_owned()),
            search_index: collection.metric().map(index),
            manifest: collection.manifest()?,
            bytes: None,
            change_counter: None,
        }))
    }

    async fn point_alias(&self, alias: &str, to: &CollectionPlace) -> Result<Option<String>, DatabaseProblem> {
        self.own(&to.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let metadata = json!({ ALIAS: to.name });
        match self.look_up(alias).await? {
            None => {
                self.make(&json!({ "name": alias, "metadata": metadata })).await?;
                let made = self.look_up(alias).await?.ok_or(DatabaseProblem::MissingCollection)?;
                match made.alias_of() {
                    Some(target) if target == to.name => Ok(None),
                    // Another process made it just now.
                    Some(_) => Err(DatabaseProblem::Busy {
                        message: "the alias was changed at the same time".to_owned(),
                        retry_after: None,
                    }),
                    None => Err(DatabaseProblem::ForeignCollection),
                }
            }
            Some(collection) => {
                let previous = collection.alias_of().ok_or(DatabaseProblem::ForeignCollection)?.to_owned();
                let body = json!({ "new_metadata": metadata });
                self.ask(Method::PUT, &self.path(&collection, ""), Some(body.to_string().into())).await?;
                Ok(Some(previous))
            }
        }
    }

    async fn remove(&self, place: &CollectionPlace, key: &str) -> Result<(), DatabaseProblem> {
        let Some((collection, manifest)) = self.own(&place.name).await? else { return Ok(()) };
        if manifest.key != key {
            return Err(DatabaseProblem::ForeignCollection);
        }
        if let Some(alias) = self.all().await?.iter().find(|other| other.alias_of() == Some(&collection.name)) {
            return Err(DatabaseProblem::Refused { message: format!("the alias `{}` points to it", alias.name) });
        }
        self.ask(Method::DELETE, &format!("{}/collections/{}", self.root, segment(&collection.name)), None).await?;
        Ok(())
    }
}

fn manifest_text(manifest: &IndexManifest) -> Result<String, DatabaseProblem> {
    serde_json::to_string(manifest).map_err(|error| DatabaseProblem::Malformed { reason: error.to_string() })
}

#[async_trait]
impl VectorDatabase for ChromaDatabase {
    fn address(&self) -> String {
        self.address.clone()
    }

    async fn describe_server(&self) -> Result<ServerDescription, Error> {
        let describe = async {
            let version: String = self.read_as(Method::GET, "api/v2/version", None).await?;
            self.limits().await?;
            self.ask(Method::GET, &self.root, None).await?;
            Ok(ServerDescription {
                version: format!("Chroma {}", self.client.access().shown(&version)),
                can_create: true,
            })
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
        _: &CollectionSpec,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), Error> {
        // Chroma builds its index with each record.
        let own = self.own(&place.name).await.and_then(|own| own.ok_or(DatabaseProblem::MissingCollection));
        own.map_err(|problem| self.error(Some(&place.name), problem))?;
        progress(1.0);
        Ok(())
    }

    async fn write_manifest(&self, place: &CollectionPlace, manifest: &IndexManifest) -> Result<(), Error> {
        let write = async {
            let (collection, _) = self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
            let body = json!({ "new_metadata": { MANIFEST: manifest_text(manifest)? } });
            self.ask(Method::PUT, &self.path(&collection, ""), Some(body.to_string().into())).await
        };
        let written = write.await.map_err(|problem| self.error(Some(&place.name), problem));
        self.forget();
        written.map(drop)
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

    async fn read(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<Vec<Option<IndexedRecord>>, Error> {
        let read = async {
            let collection = self.collection(&place.name).await?;
            let mut by_id = HashMap::new();
            for part in ids.chunks(page_of(&collection)) {
                let body = json!({ "ids": part.iter().map(id_text).collect::<Vec<_>>() });
                let records = self.get(place, &collection, body).await?;
                by_id.extend(records.into_iter().map(|record| (id_text(&record.id), record)));
            }
            Ok(ids.iter().map(|id| by_id.get(&id_text(id)).cloned()).collect())
        };
        read.await.map_err(|problem| self.error(Some(&place.name), problem))
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
            let collection = self.collection(&place.name).await?;
            self.read_as(Method::GET, &self.path(&collection, "/count"), None).await
        };
        count.await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn delete(&self, place: &CollectionPlace, ids: &[RecordId]) -> Result<(), Error> {
        let delete = async {
            let (collection, _) = self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
            // Without ids, Chroma would look for a condition.
            let ids = self.existing(&collection, ids).await?;
            if !ids.is_empty() {
                let body = json!({ "ids": ids });
                self.ask(Method::POST, &self.path(&collection, "/delete"), Some(body.to_string().into())).await?;
            }
            Ok(())
        };
        delete.await.map_err(|problem| self.error(Some(&place.name), problem))
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
        let all = self.all().await.map_err(|problem| self.error(None, problem))?;
        Ok(all.into_iter().filter_map(|alias| Some((alias.name.clone(), alias.alias_of()?.to_owned()))).collect())
    }

    async fn list(&self) -> Result<Vec<(CollectionPlace, IndexManifest)>, Error> {
        let all = self.all().await.map_err(|problem| self.error(None, problem))?;
        // One that a newer version of Reverie wrote is left alone.
        let own = all
            .into_iter()
            .filter_map(|collection| Some((CollectionPlace::filled(&collection.name), collection.manifest().ok()??)));
        Ok(own.collect())
    }
}
