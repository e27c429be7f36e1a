//! Searching and reading collections.

use super::{
    QdrantCollection, QdrantDatabase,
    condition::{QdrantFilter, translate},
    messages::{MANIFEST_ID, PointId, QdrantFound, QdrantPage, QdrantPoint, content, key_of_field, vector_of},
};
use crate::{
    CollectionPlace, DatabaseProblem, DatabaseQuery, FoundRecord, FoundRecords, IndexedRecord, RecordFilter, RecordId,
    RecordLayout, SearchOptions, VectorMetric, record::rank,
};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;

/// More records than asked for, so that equal scores at the end are ordered by id and not by the server.
const MORE_RECORDS: usize = 8;
/// Records that one search may look at.
const MAX_SEARCHED: usize = 10_000;
/// How many times more records are asked for if too few passed.
const GROWTH: usize = 4;
/// Among so many ids all vectors are compared.
const MAX_COMPARED: usize = 10_000;
/// Numbers in the vectors of one reply: about 20 bytes each.
const NUMBERS_IN_REPLY: usize = 1_000_000;
const MAX_PAGE: usize = 1000;

impl QdrantDatabase {
    /// Searches, and once more if what was known about the collection is out of date.
    pub(super) async fn search_queries(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, DatabaseProblem> {
        match self.search_known(place, queries, options).await {
            Err(DatabaseProblem::Refused { message }) if message.contains("Not existing vector name") => {
                self.forget();
                self.search_known(place, queries, options).await
            }
            found => found,
        }
    }

    async fn search_known(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, DatabaseProblem> {
        let collection = self.collection(&place.name).await?;
        let searches: Vec<_> =
            queries.iter().map(|query| self.search_one(place, &collection, query, options)).collect();
        stream::iter(searches).buffered(self.client.access().settings.concurrency).try_collect().await
    }

    async fn search_one(
        &self,
        place: &CollectionPlace,
        collection: &QdrantCollection,
        query: &DatabaseQuery<'_>,
        options: &SearchOptions,
    ) -> Result<FoundRecords, DatabaseProblem> {
        let (name, vector) = collection.vector(place)?;
        let metric = vector.metric()?;
        let filter = query.filter.filter(|filter| !filter.is_empty());
        let conditions = conditions(place, filter)?;
        if conditions.is_never {
            return Ok(FoundRecords { records: Vec::new(), is_exact: true, is_cut: false });
        }
        let tests = filter.filter(|filter| !filter.tests.is_empty() && !conditions.is_exact);
        let is_among_few = filter.and_then(|filter| filter.ids.as_ref()).is_some_and(|ids| ids.len() <= MAX_COMPARED);
        // An alias may point to another collection by now.
        let has_graph = collection.is_alias || collection.info.has_graph(vector);
        let is_exact = options.exact || is_among_few || !has_graph;
        let mut body = json!({ "query": query.vector, "with_payload": options.with_content || tests.is_some() });
        if !name.is_empty() {
            body["using"] = name.into();
        }
        if !conditions.must.is_empty() {
            body["filter"] = json!({ "must": conditions.must });
        }
        let top = u32::try_from(options.top).unwrap_or(u32::MAX);
        if is_exact {
            body["params"] = json!({ "exact": true });
        } else {
            if let Some(ef) = options.ef {
                body["params"]["hnsw_ef"] = ef.max(top).into();
            }
            if let Some(times) = options.oversampling {
                body["params"]["quantization"] = json!({ "rescore": true, "oversampling": f64::from(times) });
            }
        }
        let mut wanted = options.top + MORE_RECORDS;
        loop {
            body["limit"] = wanted.into();
            let found: QdrantFound =
                self.ask_for(Method::POST, &self.path(&place.name, "/points/query"), Some(&body)).await?;
            let returned = found.points.len();
            let mut records: Vec<FoundRecord> =
                found.points.into_iter().map(|point| found_record(place, metric, point)).collect();
            if let Some(tests) = tests {
                records.retain(|record| record.content.as_ref().is_some_and(|content| tests.passes(&content.fields)));
            }
            let is_cut = tests.is_some() && records.len() < options.top && returned >= wanted;
            if is_cut && wanted < MAX_SEARCHED {
                wanted = (wanted * GROWTH).min(MAX_SEARCHED);
                continue;
            }
            rank(&mut records, options.top);
            if !options.with_content {
                records.iter_mut().for_each(|record| record.content = None);
            }
            return Ok(FoundRecords { records, is_exact, is_cut });
        }
    }

    pub(super) async fn read_records(
        &self,
        place: &CollectionPlace,
        ids: &[RecordId],
    ) -> Result<Vec<Option<IndexedRecord>>, DatabaseProblem> {
        let collection = self.collection(&place.name).await?;
        let (name, _) = collection.vector(place)?;
        let asked: Vec<Option<PointId>> = ids.iter().map(|id| PointId::of(place, id)).collect();
        let known: Vec<&PointId> = asked.iter().flatten().collect();
        let mut by_id = HashMap::new();
        for part in known.chunks(page_of(&collection, place)) {
            let body = json!({ "ids": part, "with_payload": true, "with_vector": with_vector(name) });
            let points: Vec<QdrantPoint> =
                self.ask_for(Method::POST, &self.path(&place.name, "/points"), Some(&body)).await?;
            by_id.extend(points.into_iter().map(|point| (point.id.clone(), record_of(place, name, point))));
        }
        Ok(asked.iter().map(|id| by_id.get(id.as_ref()?).cloned()).collect())
    }

    pub(super) async fn first(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, DatabaseProblem> {
        let collection = self.collection(&place.name).await?;
        let (name, _) = collection.vector(place)?;
        let conditions = conditions(place, Some(filter))?;
        if conditions.is_never {
            return Ok(Vec::new());
        }
        let page = page_of(&collection, place);
        let mut body = json!({
            "filter": without_manifest(conditions.must), "with_payload": true, "with_vector": with_vector(name),
        });
        let mut records = Vec::new();
        while records.len() < count {
            let limit = if conditions.is_exact { page.min(count - records.len()) } else { page };
            body["limit"] = limit.into();
            let found: QdrantPage =
                self.ask_for(Method::POST, &self.path(&place.name, "/points/scroll"), Some(&body)).await?;
            let more = found.points.into_iter().map(|point| record_of(place, name, point));
            records.extend(more.filter(|record| conditions.is_exact || filter.passes(&record.fields)));
            match found.next_page_offset {
                Some(offset) => body["offset"] = json!(offset),
                None => break,
            }
        }
        records.truncate(count);
        Ok(records)
    }
}

/// The points of one page whose vectors fit into a reply.
fn page_of(collection: &QdrantCollection, place: &CollectionPlace) -> usize {
    let dimensions = collection.vector(place).map_or(1, |(_, vector)| vector.size);
    (NUMBERS_IN_REPLY / dimensions.max(1)).clamp(1, MAX_PAGE)
}

fn with_vector(name: &str) -> Value {
    match name {
        "" => json!(true),
        name => json!([name]),
    }
}

/// A filter that the manifest of Reverie does not pass.
pub(super) fn without_manifest(must: Vec<Value>) -> Value {
    json!({ "must": must, "must_not": [{ "has_id": [MANIFEST_ID] }] })
}

/// The filter and the user's own condition, as far as Qdrant can say them.
fn conditions(place: &CollectionPlace, filter: Option<&RecordFilter>) -> Result<QdrantFilter, DatabaseProblem> {
    let nothing = RecordFilter::default();
    let filter = filter.unwrap_or(&nothing);
    let ids: Option<Vec<PointId>> =
        filter.ids.as_ref().map(|ids| ids.iter().filter_map(|id| PointId::of(place, id)).collect());
    let mut conditions = translate(filter, ids.as_deref(), |field| key_of_field(place, field));
    if let RecordLayout::Existing(existing) = &place.layout {
        if let Some(condition) = &existing.condition {
            conditions.must.push(serde_json::from_str(condition).map_err(|error| {
                DatabaseProblem::InvalidSettings {
                    reason: format!("the condition on all records is not JSON: {error}"),
                }
            })?);
        }
        // A field may have another key in the payload, and a payload index may compare values differently.
        conditions.is_exact = filter.tests.is_empty();
    }
    Ok(conditions)
}

fn found_record(place: &CollectionPlace, metric: VectorMetric, point: QdrantPoint) -> FoundRecord {
    let score = match metric {
        VectorMetric::Cosine | VectorMetric::InnerProduct => point.score,
        // Of vectors of length 1.
        VectorMetric::Euclidean => 1.0 - point.score * point.score / 2.0,
    };
    let has_content = point.payload.is_some();
    let content = has_content.then(|| content(place, point.payload));
    FoundRecord { id: point.id.record_id(), score, content }
}

fn record_of(place: &CollectionPlace, name: &str, point: QdrantPoint) -> IndexedRecord {
    let content = content(place, point.payload);
    let vector = vector_of(point.vector, name);
    IndexedRecord { id: point.id.record_id(), vector, text: content.text, fields: content.fields }
}
