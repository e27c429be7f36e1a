//! Making, filling and removing indexes, and pointing aliases to them.

use super::{
    ElasticsearchDatabase,
    index::{MANIFEST, SearchIndex, WRITE_ALIAS, write_alias},
    messages::{bulk_problem, index_body, refusal, write_lines},
    segment,
};
use crate::{
    CollectionPlace, CollectionSpec, DatabaseProblem, IndexManifest, IndexedRecord, RecordId, RecordLayout,
    record::check_records,
};
use bytes::Bytes;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The longest body of a request with several records. Servers take 100 MB, those of some services 10 MiB.
const MAX_BODY: usize = 8 << 20;
/// Tries of what another process may do at the same time.
const MAX_TRIES: usize = 10;
/// How often `complete` waits once more for a server that is still building graphs.
const MAX_WAITS: usize = 240;

fn busy(message: &str) -> DatabaseProblem {
    DatabaseProblem::Busy { message: message.to_owned(), retry_after: None }
}

fn meta(manifest: &IndexManifest) -> Result<Value, DatabaseProblem> {
    let text = serde_json::to_string(manifest);
    let text = text.map_err(|error| DatabaseProblem::Malformed { reason: error.to_string() })?;
    Ok(json!({ MANIFEST: text }))
}

impl ElasticsearchDatabase {
    /// An index and its manifest; none if there is none of this name. Fails if Reverie did not make it, or if the name
    /// is an alias.
    pub(super) async fn own(&self, name: &str) -> Result<Option<(SearchIndex, IndexManifest)>, DatabaseProblem> {
        let Some(index) = self.look_up(name).await? else { return Ok(None) };
        let manifest = index.manifest()?.filter(|_| index.name == name).ok_or(DatabaseProblem::ForeignCollection)?;
        Ok(Some((index, manifest)))
    }

    pub(super) async fn create_index(
        &self,
        place: &CollectionPlace,
        spec: &CollectionSpec,
    ) -> Result<(), DatabaseProblem> {
        if place.name.ends_with(WRITE_ALIAS) {
            let reason = format!("names that end in `{WRITE_ALIAS}` are aliases through which Reverie writes");
            return Err(DatabaseProblem::InvalidSettings { reason });
        }
        let mut body = index_body(self.server().await?, spec)?;
        body["mappings"]["_meta"] = meta(&IndexManifest::of_filling(spec))?;
        body["aliases"] = json!({ write_alias(&place.name): {} });
        let body = Bytes::from(body.to_string());
        for _ in 0..MAX_TRIES {
            if let Some((_, manifest)) = self.own(&place.name).await? {
                return match manifest.key == spec.key {
                    true => {
                        // Another process may have written to it, and ended before a refresh.
                        self.mark_written(&place.name);
                        Ok(())
                    }
                    false => Err(DatabaseProblem::ForeignCollection),
                };
            }
            let reply = self.client.send(Method::PUT, &segment(&place.name), Some(body.clone())).await?;
            let kind = reply.body.pointer("/error/type").and_then(Value::as_str).unwrap_or_default();
            // Another process made it just now, or this one did, and the reply was lost.
            if !reply.status.is_success() && kind != "resource_already_exists_exception" {
                return Err(refusal(&reply, |text| self.client.access().shown(text)));
            }
        }
        Err(busy("the index is made and removed again and again"))
    }

    pub(super) async fn write_records(
        &self,
        place: &CollectionPlace,
        records: &[IndexedRecord],
    ) -> Result<(), DatabaseProblem> {
        let (index, _) = self.index(&place.name).await?;
        let manifest =
            index.manifest()?.filter(|_| index.name == place.name).ok_or(DatabaseProblem::ForeignCollection)?;
        check_records(records, manifest.dimensions)?;
        let path = format!("{}/_bulk?require_alias=true", segment(&write_alias(&index.name)));
        let (mut body, mut ids) = (Vec::new(), Vec::new());
        for record in records {
            let lines = write_lines(record)?;
            if !body.is_empty() && body.len() + lines.len() > MAX_BODY {
                self.bulk(&index, &path, std::mem::take(&mut body), std::mem::take(&mut ids)).await?;
            }
            body.extend_from_slice(&lines);
            ids.push(record.id.clone());
        }
        self.bulk(&index, &path, body, ids).await
    }

    async fn bulk(
        &self,
        index: &SearchIndex,
        path: &str,
        body: Vec<u8>,
        ids: Vec<RecordId>,
    ) -> Result<(), DatabaseProblem> {
        if ids.is_empty() {
            return Ok(());
        }
        // Also if it fails: some of the records may have been written.
        self.mark_written(&index.name);
        let reply = self.ask(Method::POST, path, Some(body.into())).await?;
        bulk_problem(&reply, &ids, |text| self.client.access().shown(text))
    }

    pub(super) async fn delete_records(
        &self,
        place: &CollectionPlace,
        ids: &[RecordId],
    ) -> Result<(), DatabaseProblem> {
        let (index, _) = self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let path = format!("{}/_bulk?refresh=true", segment(&index.name));
        let line_of = |id: &RecordId| {
            json!({ "delete": { "_id": super::condition::id_text(&RecordLayout::Filled, id) } }).to_string() + "\n"
        };
        for part in ids.chunks(10_000) {
            let body: String = part.iter().map(line_of).collect();
            self.bulk(&index, &path, body.into_bytes(), part.to_vec()).await?;
        }
        Ok(())
    }

    /// Makes everything that was written searchable, and waits until the graphs are built.
    pub(super) async fn complete_index(&self, place: &CollectionPlace) -> Result<(), DatabaseProblem> {
        let (index, _) = self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        for _ in 0..MAX_WAITS {
            match self.refresh(&index.name).await {
                // The server goes on, and the next call waits for it.
                Err(DatabaseProblem::TimedOut { .. }) => {}
                done => return done,
            }
        }
        self.refresh(&index.name).await
    }

    pub(super) async fn put_manifest(
        &self,
        place: &CollectionPlace,
        manifest: &IndexManifest,
    ) -> Result<(), DatabaseProblem> {
        self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let body = json!({ "_meta": meta(manifest)? }).to_string();
        self.ask(Method::PUT, &format!("{}/_mapping", segment(&place.name)), Some(body.into())).await.map(drop)
    }

    pub(super) async fn remove(&self, place: &CollectionPlace, key: &str) -> Result<(), DatabaseProblem> {
        let Some((index, manifest)) = self.own(&place.name).await? else { return Ok(()) };
        if manifest.key != key {
            return Err(DatabaseProblem::ForeignCollection);
        }
        if let Some(alias) = index.users_aliases().next() {
            return Err(DatabaseProblem::Refused { message: format!("the alias `{alias}` points to it") });
        }
        match self.ask(Method::DELETE, &segment(&index.name), None).await {
            Err(DatabaseProblem::MissingCollection) => Ok(()),
            removed => removed.map(drop),
        }
    }

    pub(super) async fn point_alias(
        &self,
        alias: &str,
        to: &CollectionPlace,
    ) -> Result<Option<String>, DatabaseProblem> {
        super::check_name(alias)?;
        self.own(&to.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let mut previous: Option<Option<String>> = None;
        for _ in 0..MAX_TRIES {
            let targets = self.targets(alias).await?;
            // Two processes that made the alias at the same time have both their indexes in it, until one looks again.
            if let (Some(previous), [target]) = (&previous, &targets[..])
                && *target == to.name
            {
                return Ok(previous.clone());
            }
            let previous = previous.get_or_insert_with(|| targets.first().cloned());
            let removed = targets
                .iter()
                .map(|target| json!({ "remove": { "index": target, "alias": alias, "must_exist": true } }));
            let added = json!({ "add": { "index": to.name, "alias": alias } });
            // All actions of one request are done at once.
            let actions: Vec<Value> = removed.filter(|_| targets != [to.name.clone()]).chain([added]).collect();
            let body = json!({ "actions": actions }).to_string();
            let reply = self.client.send(Method::POST, "_aliases", Some(body.into())).await?;
            match reply.status {
                status if status.is_success() && !targets.is_empty() => return Ok(previous.clone()),
                status if status.is_success() => {}
                // The alias was changed at the same time.
                StatusCode::NOT_FOUND => {
                    self.own(&to.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
                }
                _ => return Err(refusal(&reply, |text| self.client.access().shown(text))),
            }
        }
        Err(busy("the alias is changed again and again at the same time"))
    }

    /// The indexes to which an alias points. Fails if one of them is not Reverie's, or if the name is that of an index.
    async fn targets(&self, alias: &str) -> Result<Vec<String>, DatabaseProblem> {
        let reply = self.client.send(Method::GET, &segment(alias), None).await?;
        if reply.status == StatusCode::NOT_FOUND && reply.body.get("error").is_some() {
            return Ok(Vec::new());
        }
        if !reply.status.is_success() {
            return Err(refusal(&reply, |text| self.client.access().shown(text)));
        }
        let indexes = reply.body.as_object().cloned().unwrap_or_default();
        let mut targets = Vec::new();
        for (name, described) in indexes {
            let one = Value::Object(Map::from_iter([(name.clone(), described)]));
            let index = SearchIndex::of_reply(&one)?;
            if name == alias || write_alias(&name) == alias || index.manifest()?.is_none() {
                return Err(DatabaseProblem::ForeignCollection);
            }
            targets.push(name);
        }
        Ok(targets)
    }

    /// The indexes that Reverie made. One that a newer version of Reverie wrote is left alone.
    pub(super) async fn all_own(&self) -> Result<BTreeMap<String, IndexManifest>, DatabaseProblem> {
        let path = format!("_mapping?filter_path=*.mappings._meta.{MANIFEST}");
        let reply = self.ask(Method::GET, &path, None).await?;
        let indexes = reply.as_object().cloned().unwrap_or_default().into_iter();
        let own = indexes.filter_map(|(name, index)| {
            let text = index.pointer(&format!("/mappings/_meta/{MANIFEST}"))?.as_str()?;
            Some((name, IndexManifest::read(text).ok()?))
        });
        Ok(own.collect())
    }

    pub(super) async fn all_aliases(&self) -> Result<BTreeMap<String, String>, DatabaseProblem> {
        let own: BTreeSet<String> = self.all_own().await?.into_keys().collect();
        let reply = self.ask(Method::GET, "_alias", None).await?;
        let mut all = BTreeMap::new();
        for (name, index) in reply.as_object().into_iter().flatten().filter(|(name, _)| own.contains(*name)) {
            let aliases = index.get("aliases").and_then(Value::as_object).into_iter().flatten();
            all.extend(
                aliases
                    .filter(|(alias, _)| **alias != write_alias(name))
                    .map(|(alias, _)| (alias.clone(), name.clone())),
            );
        }
        Ok(all)
    }
}
