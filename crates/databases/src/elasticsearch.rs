//! [Elasticsearch](https://www.elastic.co/elasticsearch), 8.4 or newer, and [OpenSearch](https://opensearch.org) with
//! its plugin k-NN, 2.4 or newer, over their REST interface. Which of them answers is asked once.
//!
//! This was tried only with a stub that speaks the published interface of both (`tests/it/elasticsearch_stub.py`),
//! never with a server.
//!
//! An index that Reverie fills has one shard, the fields of each record as an object that is not indexed, and all
//! values of these fields once more as terms, so that filters are exact and every filter is a part of the search. Its
//! manifest is in the mapping's `_meta`. Its alias `{name}.write` lets a write fail if the index was removed; any other
//! write would make a new index. Segments are not merged at the end: that takes as long as building all graphs again.
//!
//! In an index of the user's own, filters on keywords, integers and booleans narrow the search down, and records are
//! looked at again. If too few pass, more are asked for, up to the 10,000 that a server returns at once
//! ([`FoundRecords::is_cut`]). A search with ids compares all vectors of these records.
//!
//! What was written can be found after a refresh. Reverie asks for one at the end of a fill, and before it reads an
//! index to which it wrote itself.

mod condition;
mod index;
mod messages;
mod reading;
mod server;
mod writing;

use crate::{
    AccessSettings, CollectionDescription, CollectionPlace, CollectionSpec, DatabaseAccess, DatabaseProblem,
    DatabaseQuery, Error, FoundRecords, IndexManifest, IndexedRecord, RecordFilter, RecordId, RecordLayout,
    SearchOptions, ServerDescription, VectorDatabase, WordQuery, json_client::JsonClient,
};
use async_trait::async_trait;
use bytes::Bytes;
use condition::FilterClauses;
use futures::{StreamExt, TryStreamExt, stream};
use index::SearchIndex;
use messages::{VECTOR, refusal};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};
use server::SearchServer;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OnceCell;

/// The header with the API key, and what stands before the key.
const KEY_HEADER: &str = "authorization";
const KEY_SCHEME: &str = "ApiKey ";

/// A cluster of Elasticsearch or OpenSearch.
#[derive(Debug)]
pub struct ElasticsearchDatabase {
    client: JsonClient,
    server: OnceCell<SearchServer>,
    /// Indexes by their own names; those to which aliases point are not remembered, because they change.
    indexes: Mutex<HashMap<String, Arc<SearchIndex>>>,
    /// Indexes to which this client wrote since their last refresh.
    written: Mutex<HashSet<String>>,
}

fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// Refuses names with wildcards, which match several indexes, and names that are paths of the REST interface. The server
/// refuses all other invalid names.
fn check_name(name: &str) -> Result<(), DatabaseProblem> {
    let is_other = |character: char| character.is_control() || "\\/*?\"<>| ,#:".contains(character);
    match name.is_empty() || name.starts_with(['_', '-', '+']) || name.contains(is_other) || matches!(name, "." | "..") {
        true => Err(DatabaseProblem::InvalidSettings {
            reason: "the name cannot be that of an index: it must not be empty, begin with `_`, `-` or `+`, or have spaces or any of \\ / * ? \" < > | , # :"
                .to_owned(),
        }),
        false => Ok(()),
    }
}

impl ElasticsearchDatabase {
    /// Opens a cluster at an address `http://host:9200` or `https://user:password@host:9200`. An API key is the encoded
    /// one that the server gives (base64 of id and key). Makes no connection. Fails if the address cannot be used, if
    /// there are both a key and a password, or if one of them would go to another machine without TLS.
    pub fn open(mut settings: AccessSettings) -> Result<Self, Error> {
        if let Some(key) = &mut settings.api_key {
            let bare = key.trim();
            *key = bare.strip_prefix(KEY_SCHEME).unwrap_or(bare).trim().to_owned();
        }
        let access = DatabaseAccess::new(settings, &[("http", 80), ("https", 443)])?;
        if access.settings.api_key.is_some() && access.url.password().is_some() {
            let reason = "there are an API key and a password in the address; leave one of them out".to_owned();
            return Err(access.error(None, DatabaseProblem::InvalidSettings { reason }));
        }
        let client = JsonClient::with_scheme(access.clone(), KEY_HEADER, KEY_SCHEME)
            .map_err(|problem| access.error(None, problem))?;
        Ok(Self { client, server: OnceCell::new(), indexes: Mutex::default(), written: Mutex::default() })
    }

    fn error(&self, collection: Option<&str>, problem: DatabaseProblem) -> Error {
        self.forget();
        self.client.access().error(collection, problem)
    }

    /// Clears the cache of indexes, because a stale entry may have caused the error.
    fn forget(&self) {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Value, DatabaseProblem> {
        let reply = self.client.send(method, path, body).await?;
        match reply.status.is_success() {
            true => Ok(reply.body),
            false => Err(refusal(&reply, |text| self.client.access().shown(text))),
        }
    }

    async fn server(&self) -> Result<&SearchServer, DatabaseProblem> {
        self.server.get_or_try_init(|| async { SearchServer::of_reply(&self.ask(Method::GET, "", None).await?) }).await
    }

    /// An index as it is now, by its name or an alias; none if there is none.
    async fn look_up(&self, name: &str) -> Result<Option<SearchIndex>, DatabaseProblem> {
        check_name(name)?;
        match self.ask(Method::GET, &segment(name), None).await {
            Ok(reply) => SearchIndex::of_reply(&reply).map(Some),
            Err(DatabaseProblem::MissingCollection) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// An index by its name or an alias, and whether it was looked up just now.
    async fn index(&self, name: &str) -> Result<(Arc<SearchIndex>, bool), DatabaseProblem> {
        let known = self.indexes.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(known) = known {
            return Ok((known, false));
        }
        let found = Arc::new(self.look_up(name).await?.ok_or(DatabaseProblem::MissingCollection)?);
        if found.name == name {
            self.indexes.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), found.clone());
        }
        Ok((found, true))
    }

    fn mark_written(&self, name: &str) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    /// Lets reads find what this client wrote.
    async fn refresh_written(&self, index: &SearchIndex) -> Result<(), DatabaseProblem> {
        let is_written = self.written.lock().unwrap_or_else(PoisonError::into_inner).contains(&index.name);
        if is_written { self.refresh(&index.name).await } else { Ok(()) }
    }

    async fn refresh(&self, name: &str) -> Result<(), DatabaseProblem> {
        // Before the call: what is written during it needs another one.
        self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let refreshed = self.ask(Method::POST, &format!("{}/_refresh", segment(name)), None).await;
        if refreshed.is_err() {
            self.mark_written(name);
        }
        refreshed.map(drop)
    }

    /// The results of calls in their order, with no more calls at once than the settings allow.
    async fn at_once<T>(
        &self,
        calls: Vec<impl Future<Output = Result<T, DatabaseProblem>>>,
    ) -> Result<Vec<T>, DatabaseProblem> {
        stream::iter(calls).buffered(self.client.access().settings.concurrency).try_collect().await
    }

    async fn count_records(&self, index: &SearchIndex, place: &CollectionPlace) -> Result<u64, DatabaseProblem> {
        self.refresh_written(index).await?;
        let body = json!({ "query": FilterClauses::of(index, &place.layout, None)?.query() }).to_string();
        let reply = self.ask(Method::POST, &format!("{}/_count", segment(&place.name)), Some(body.into())).await?;
        let count = reply.get("count").and_then(Value::as_u64);
        count.ok_or_else(|| DatabaseProblem::Malformed { reason: "it has no `count`".to_owned() })
    }

    /// The bytes of an index and a counter of its changes, if the server and the user's rights have them.
    async fn statistics(&self, index: &SearchIndex) -> Result<(Option<u64>, Option<String>), DatabaseProblem> {
        let path = format!("{}/_stats/store?level=shards", segment(&index.name));
        let reply = match self.ask(Method::GET, &path, None).await {
            Ok(reply) => reply,
            Err(DatabaseProblem::Permission { .. } | DatabaseProblem::Refused { .. }) => return Ok((None, None)),
            Err(problem) => return Err(problem),
        };
        let bytes = reply.pointer("/_all/primaries/store/size_in_bytes").and_then(Value::as_u64);
        let Some(described) = reply.get("indices").and_then(|indexes| indexes.get(&index.name)) else {
            return Ok((bytes, None));
        };
        let uuid = described.get("uuid").and_then(Value::as_str).unwrap_or_default();
        let shards = described.get("shards").and_then(Value::as_object).into_iter().flatten();
        let changes = shards.map(|(shard, copies)| {
            let copies = copies.as_array().into_iter().flatten();
            let change = copies.filter_map(|copy| copy.pointer("/seq_no/max_seq_no")?.as_i64()).max()?;
            Some(format!("{shard}:{change}"))
        });
        let changes: Option<Vec<String>> = changes.collect();
        let changes = changes.filter(|changes| !changes.is_empty());
        Ok((bytes, changes.map(|changes| format!("{uuid} {}", changes.join(" ")))))
    }

    async fn describe_index(&self, place: &CollectionPlace) -> Result<Option<CollectionDescription>, DatabaseProblem> {
        self.forget();
        let server = self.server().await?;
        let Some(index) = self.look_up(&place.name).await? else { return Ok(None) };
        let field = match &place.layout {
            RecordLayout::Filled => VECTOR,
            RecordLayout::Existing(existing) => &existing.vector,
        };
        let vector = match index.vector_field(server, field) {
            // The check of the description names the field, and says which ones there are.
            Err(DatabaseProblem::MissingField { .. }) => None,
            vector => Some(vector?),
        };
        let rows = self.count_records(&index, place).await?;
        let (bytes, change_counter) = self.statistics(&index).await?;
        let search_index = vector.as_ref().and_then(|vector| vector.search_index.as_ref());
        Ok(Some(CollectionDescription {
            rows,
            dimensions: vector.as_ref().and_then(|vector| vector.dimensions),
            fields: index.fields(),
            key: Some("_id".to_owned()),
            search_index: search_index.map(index::VectorIndexMapping::describe),
            manifest: index.manifest()?,
            bytes,
            change_counter,
        }))
    }
}

#[async_trait]
impl VectorDatabase for ElasticsearchDatabase {
    fn address(&self) -> String {
        self.client.access().address_for_key().to_owned()
    }

    async fn describe_server(&self) -> Result<ServerDescription, Error> {
        let server = self.server().await.map_err(|problem| self.error(None, problem))?;
        Ok(ServerDescription { version: self.client.access().shown(&server.name), can_create: true })
    }

    async fn describe(&self, place: &CollectionPlace) -> Result<Option<CollectionDescription>, Error> {
        self.describe_index(place).await.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn create(&self, place: &CollectionPlace, spec: &CollectionSpec) -> Result<(), Error> {
        self.create_index(place, spec).await.map_err(|problem| self.error(Some(&place.name), problem))
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
        self.complete_index(place).await.map_err(|problem| self.error(Some(&place.name), problem))?;
        progress(1.0);
        Ok(())
    }

    async fn write_manifest(&self, place: &CollectionPlace, manifest: &IndexManifest) -> Result<(), Error> {
        let written =
            self.put_manifest(place, manifest).await.map_err(|problem| self.error(Some(&place.name), problem));
        self.forget();
        written
    }

    async fn search(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, Error> {
        let found = self.search_index(place, queries, options).await;
        found.map_err(|problem| self.error(Some(&place.name), problem))
    }

    async fn search_text(&self, place: &CollectionPlace, query: &WordQuery<'_>) -> Result<FoundRecords, Error> {
        let found = self.find_text(place, query).await;
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
        let count = async {
            let (index, _) = self.index(&place.name).await?;
            self.count_records(&index, place).await
        };
        count.await.map_err(|problem| self.error(Some(&place.name), problem))
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
        self.point_alias(alias, to).await.map_err(|problem| self.error(Some(alias), problem))
    }

    async fn aliases(&self) -> Result<BTreeMap<String, String>, Error> {
        self.all_aliases().await.map_err(|problem| self.error(None, problem))
    }

    async fn list(&self) -> Result<Vec<(CollectionPlace, IndexManifest)>, Error> {
        let own = self.all_own().await.map_err(|problem| self.error(None, problem))?;
        Ok(own.into_iter().map(|(name, manifest)| (CollectionPlace::filled(&name), manifest)).collect())
    }
}
