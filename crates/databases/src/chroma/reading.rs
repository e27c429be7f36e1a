//! Searching and reading collections.

use super::{
    ChromaDatabase,
    condition::{all, condition},
    messages::{ChromaCollection, ChromaGetReply, ChromaQueryReply, content, id_of, id_text},
};
use crate::{
    CollectionPlace, DatabaseProblem, DatabaseQuery, FoundRecord, FoundRecords, IndexedRecord, RecordFilter, RecordId,
    RecordLayout, SearchOptions, VectorMetric, record::rank,
};
use reqwest::Method;
use serde_json::{Value, json};

/// More records than asked for, so that equal scores at the end are ordered by id and not by the server.
const MORE_RECORDS: usize = 8;
/// Records that one search may look at.
const MAX_SEARCHED: usize = 10_000;
/// How many times more records are asked for if too few passed.
const GROWTH: usize = 4;
/// Numbers in the vectors of one reply: about 20 bytes each.
const NUMBERS_IN_REPLY: usize = 1_000_000;
const MAX_PAGE: usize = 1000;

impl ChromaDatabase {
    pub(super) async fn search_one(
        &self,
        place: &CollectionPlace,
        query: &DatabaseQuery<'_>,
        options: &SearchOptions,
    ) -> Result<FoundRecords, DatabaseProblem> {
        let collection = self.collection(&place.name).await?;
        let filter = query.filter.filter(|filter| !filter.is_empty());
        let has_tests = filter.is_some_and(|filter| !filter.tests.is_empty());
        let mut include = vec!["distances"];
        if options.with_content || has_tests {
            include.push("metadatas");
        }
        if options.with_content {
            include.push("documents");
        }
        let mut body = json!({ "query_embeddings": [query.vector], "include": include });
        if let Some(condition) = conditions(place, filter)? {
            body["where"] = condition;
        }
        let ids = filter.and_then(|filter| filter.ids.as_ref());
        if let Some(ids) = ids {
            let existing = self.existing(&collection, ids).await?;
            if existing.is_empty() {
                return Ok(FoundRecords { records: Vec::new(), is_exact: true, is_cut: false });
            }
            body["ids"] = existing.into();
        }
        let mut wanted = options.top + MORE_RECORDS;
        loop {
            body["n_results"] = wanted.into();
            let reply: ChromaQueryReply =
                self.read_as(Method::POST, &self.path(&collection, "/query"), Some(body.to_string().into())).await?;
            let (records, distances) = reply.only();
            let returned = records.ids.len();
            let mut records = found_records(place, records, distances);
            if let Some(filter) = filter {
                records.retain(|record| record.content.as_ref().is_none_or(|content| filter.passes(&content.fields)));
            }
            let is_cut = records.len() < options.top && returned >= wanted && has_tests;
            if is_cut && wanted < MAX_SEARCHED {
                wanted = (wanted * GROWTH).min(MAX_SEARCHED);
                continue;
            }
            rank(&mut records, options.top);
            if !options.with_content {
                records.iter_mut().for_each(|record| record.content = None);
            }
            return Ok(FoundRecords { records, is_exact: false, is_cut });
        }
    }

    /// Those of the ids that there are: a query that names another one fails.
    pub(super) async fn existing(
        &self,
        collection: &ChromaCollection,
        ids: &[RecordId],
    ) -> Result<Vec<String>, DatabaseProblem> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = ids.iter().map(id_text).collect();
        let body = json!({ "ids": ids, "include": [] });
        let reply: ChromaGetReply =
            self.read_as(Method::POST, &self.path(collection, "/get"), Some(body.to_string().into())).await?;
        Ok(reply.ids)
    }

    pub(super) async fn get(
        &self,
        place: &CollectionPlace,
        collection: &ChromaCollection,
        mut body: Value,
    ) -> Result<Vec<IndexedRecord>, DatabaseProblem> {
        body["include"] = json!(["embeddings", "documents", "metadatas"]);
        let reply: ChromaGetReply =
            self.read_as(Method::POST, &self.path(collection, "/get"), Some(body.to_string().into())).await?;
        let mut vectors = reply.embeddings.unwrap_or_default().into_iter();
        let (mut documents, mut metadatas) =
            (reply.documents.unwrap_or_default().into_iter(), reply.metadatas.unwrap_or_default().into_iter());
        let records = reply.ids.into_iter().map(|id| {
            let content = content(place, documents.next().flatten(), metadatas.next().flatten());
            let vector = vectors.next().flatten().unwrap_or_default();
            IndexedRecord { id: id_of(place, id), vector, text: content.text, fields: content.fields }
        });
        Ok(records.collect())
    }

    pub(super) async fn first(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, DatabaseProblem> {
        let collection = self.collection(&place.name).await?;
        let page = page_of(&collection);
        let mut body = json!({});
        if let Some(condition) = conditions(place, Some(filter))? {
            body["where"] = condition;
        }
        if let Some(ids) = &filter.ids {
            body["ids"] = ids.iter().map(id_text).collect::<Vec<_>>().into();
        }
        let (mut records, mut offset) = (Vec::new(), 0);
        while records.len() < count {
            (body["limit"], body["offset"]) = (page.into(), offset.into());
            let more = self.get(place, &collection, body.clone()).await?;
            offset += more.len();
            let is_last = more.len() < page;
            records.extend(more.into_iter().filter(|record| filter.passes(&record.fields)));
            if is_last {
                break;
            }
        }
        records.truncate(count);
        Ok(records)
    }
}

/// The records of one page of a collection whose vectors fit into a reply.
pub(super) fn page_of(collection: &ChromaCollection) -> usize {
    (NUMBERS_IN_REPLY / collection.dimension.unwrap_or(1).max(1)).clamp(1, MAX_PAGE)
}

/// The filter and the user's own condition, as far as Chroma can say them.
fn conditions(place: &CollectionPlace, filter: Option<&RecordFilter>) -> Result<Option<Value>, DatabaseProblem> {
    let (is_filled, fields, own) = match &place.layout {
        RecordLayout::Filled => (true, None, None),
        RecordLayout::Existing(existing) => (false, Some(&existing.fields), existing.condition.as_deref()),
    };
    let key_of = |field: &str| fields.and_then(|fields| fields.get(field)).map_or(field, String::as_str).to_owned();
    let own = own.map(serde_json::from_str).transpose().map_err(|error| DatabaseProblem::InvalidSettings {
        reason: format!("the condition on all records is not JSON: {error}"),
    })?;
    Ok(all(own.into_iter().chain(filter.and_then(|filter| condition(filter, is_filled, key_of))).collect()))
}

fn found_records(place: &CollectionPlace, records: ChromaGetReply, distances: Vec<Option<f64>>) -> Vec<FoundRecord> {
    let has_content = records.metadatas.is_some();
    let (mut documents, mut metadatas) =
        (records.documents.unwrap_or_default().into_iter(), records.metadatas.unwrap_or_default().into_iter());
    let records = records.ids.into_iter().zip(distances).map(|(id, distance)| {
        let content = content(place, documents.next().flatten(), metadatas.next().flatten());
        let distance = distance.unwrap_or(f64::MAX);
        let score = match place.metric() {
            VectorMetric::Cosine | VectorMetric::InnerProduct => 1.0 - distance,
            // Chroma gives the square.
            VectorMetric::Euclidean => 1.0 - distance / 2.0,
        };
        FoundRecord { id: id_of(place, id), score: score as f32, content: has_content.then_some(content) }
    });
    records.collect()
}
