//! Making, filling and completing collections.

use super::{
    QdrantDatabase,
    messages::{
        MANIFEST, MANIFEST_ID, PointId, QdrantPoint, QdrantUpdate, creation, manifest_body, point_body, refusal,
    },
};
use crate::{
    CollectionPlace, CollectionSpec, DatabaseProblem, IndexManifest, IndexedRecord, RecordId, SearchIndexSpec,
    StoredPrecision, record::check_records,
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};

/// Ids in one request.
const MAX_IDS: usize = 10_000;
/// Kilobytes of vectors in a segment from which a graph is built for it: Qdrant's own default. Smaller ones are faster
/// to compare one by one.
const INDEXING_THRESHOLD: u64 = 10_000;
/// How often the server must say that nothing is left to be done: it begins a moment after its settings changed.
const CALM_REPLIES: usize = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl QdrantDatabase {
    pub(super) async fn create_collection(
        &self,
        place: &CollectionPlace,
        spec: &CollectionSpec,
    ) -> Result<(), DatabaseProblem> {
        let body = creation(spec)?;
        loop {
            if let Some((info, key)) = self.own(&place.name).await? {
                let has_dimensions = info.vectors()?.values().any(|vector| vector.size == spec.dimensions);
                return match key == spec.key && has_dimensions {
                    true => Ok(()),
                    false => Err(DatabaseProblem::ForeignCollection),
                };
            }
            let path = self.path(&place.name, "");
            let reply = self.client.send(Method::PUT, &path, Some(body.to_string().into())).await?;
            // Another process made it just now, or a repeated request did.
            let is_there = reply.status == StatusCode::CONFLICT;
            if !reply.status.is_success() && !is_there {
                return Err(refusal(&reply, |text| self.client.access().shown(text)));
            }
        }
    }

    pub(super) async fn write_records(
        &self,
        place: &CollectionPlace,
        records: &[IndexedRecord],
    ) -> Result<(), DatabaseProblem> {
        let collection = self.collection(&place.name).await?;
        if collection.info.key().is_none() {
            return Err(DatabaseProblem::ForeignCollection);
        }
        let (_, vector) = collection.vector(place)?;
        check_records(records, vector.size)?;
        let points = records.iter().map(point_body).collect::<Result<Vec<_>, _>>()?;
        let mut waiting = vec![&points[..]];
        while let Some(part) = waiting.pop() {
            let mut bytes = 0;
            let fits = part.iter().take_while(|point| {
                bytes += point.len() + 1;
                bytes <= self.body_limit.load(Ordering::Relaxed)
            });
            let (part, rest) = part.split_at(fits.count().max(1).min(part.len()));
            if !rest.is_empty() {
                waiting.push(rest);
            }
            if part.is_empty() {
                continue;
            }
            match self.put_points(&place.name, part).await {
                // The server or a proxy takes less.
                Err(DatabaseProblem::TooLarge { .. }) if part.len() > 1 => {
                    let bytes: usize = part.iter().map(Vec::len).sum();
                    self.body_limit.fetch_min(bytes / 2, Ordering::Relaxed);
                    waiting.push(part);
                }
                done => done?,
            }
        }
        Ok(())
    }

    async fn put_points(&self, name: &str, points: &[Vec<u8>]) -> Result<(), DatabaseProblem> {
        let body = [b"{\"points\":[", &points.join(&b","[..])[..], b"]}"].concat();
        let path = self.path(name, "/points?wait=true");
        self.finished(self.ask_bytes(Method::PUT, &path, Some(body.into())).await?)
    }

    /// Fails if the server says that a write is not done yet.
    fn finished(&self, update: QdrantUpdate) -> Result<(), DatabaseProblem> {
        match update.status.as_str() {
            "completed" => Ok(()),
            status => Err(DatabaseProblem::Busy {
                message: format!("the write is not done: {}", self.client.access().shown(status)),
                retry_after: None,
            }),
        }
    }

    pub(super) async fn delete_records(
        &self,
        place: &CollectionPlace,
        ids: &[RecordId],
    ) -> Result<(), DatabaseProblem> {
        self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let ids: Vec<PointId> = ids.iter().filter_map(|id| PointId::of(place, id)).collect();
        for part in ids.chunks(MAX_IDS) {
            let path = self.path(&place.name, "/points/delete?wait=true");
            self.finished(self.ask_for(Method::POST, &path, Some(&json!({ "points": part }))).await?)?;
        }
        Ok(())
    }

    /// The manifest of a collection with this mark.
    pub(super) async fn manifest(
        &self,
        name: &str,
        key: &str,
        dimensions: usize,
    ) -> Result<IndexManifest, DatabaseProblem> {
        let body = json!({ "ids": [MANIFEST_ID], "with_payload": true });
        let points: Vec<QdrantPoint> = self.ask_for(Method::POST, &self.path(name, "/points"), Some(&body)).await?;
        let payload = points.into_iter().next().and_then(|point| point.payload);
        match payload.as_ref().and_then(|payload| payload.get(MANIFEST)).and_then(Value::as_str) {
            Some(text) => IndexManifest::read(text),
            None => Ok(IndexManifest::of_filling(&CollectionSpec {
                key: key.to_owned(),
                dimensions,
                index: SearchIndexSpec::Exact,
                precision: StoredPrecision::F32,
            })),
        }
    }

    pub(super) async fn store_manifest(
        &self,
        place: &CollectionPlace,
        manifest: &IndexManifest,
    ) -> Result<(), DatabaseProblem> {
        self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        self.put_points(&place.name, &[manifest_body(manifest)?]).await
    }

    /// Lets the server build graphs, and waits until it has done so.
    pub(super) async fn build(
        &self,
        place: &CollectionPlace,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), DatabaseProblem> {
        let (info, _) = self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let has_graph = info.vectors()?.values().any(|vector| info.has_graph(vector));
        if has_graph && !info.is_indexing() {
            self.start_optimizers(&place.name).await?;
        }
        let (mut calm, mut pause) = (0, FIRST_PAUSE);
        loop {
            let info = self.look_up(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
            match info.status.as_str() {
                "green" => calm += 1,
                "red" => {
                    let status = self.client.access().shown(&info.optimizer_status.to_string());
                    let message = format!("the server could not build the search index: {status}");
                    return Err(DatabaseProblem::Refused { message });
                }
                // After a restart the server waits for a reason to go on.
                "grey" => {
                    calm = 0;
                    self.start_optimizers(&place.name).await?;
                }
                _ => calm = 0,
            }
            if calm >= CALM_REPLIES {
                progress(1.0);
                return Ok(());
            }
            if calm == 0 {
                let all = info.points_count.unwrap_or_default().max(1);
                progress((info.indexed_vectors_count.unwrap_or_default() as f64 / all as f64).min(1.0));
                pause = (pause * 2).min(LONGEST_PAUSE);
            } else {
                pause = FIRST_PAUSE;
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn start_optimizers(&self, name: &str) -> Result<(), DatabaseProblem> {
        let body = json!({ "optimizers_config": { "indexing_threshold": INDEXING_THRESHOLD } });
        self.ask_for::<bool>(Method::PATCH, &self.path(name, ""), Some(&body)).await.map(drop)
    }
}
