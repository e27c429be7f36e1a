//! Searching and reading indexes.

use super::{
    ElasticsearchDatabase,
    condition::{FilterClauses, id_condition},
    index::{ScoreFormula, SearchIndex, VectorFieldMapping, VectorIndexMapping},
    messages::{FIELDS, ID, SearchHit, TEXT, VECTOR, hits},
    server::SearchProduct,
};
use crate::{
    CollectionPlace, DatabaseProblem, DatabaseQuery, FoundRecord, FoundRecords, IndexedRecord, RecordFilter, RecordId,
    RecordLayout, SearchOptions, VectorMetric, WordQuery, record::rank,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;

/// More records than asked for, so that equal scores at the end are ordered by id and not by the server.
const MORE_RECORDS: usize = 8;
/// Records of one reply, and candidates of one search (`index.max_result_window`).
const MAX_SEARCHED: usize = 10_000;
/// How many times more records are asked for if too few passed.
const GROWTH: usize = 4;
/// Candidates of a search that says nothing about them.
const DEFAULT_CANDIDATES: usize = 100;
/// A search that counts words in all shards, and not in each of them.
const WORDS_OF_ALL_SHARDS: &str = "/_search?search_type=dfs_query_then_fetch";
/// Numbers in the vectors of one reply: about 12 bytes each.
const NUMBERS_IN_REPLY: usize = 1_000_000;
const MAX_PAGE: usize = 1000;

/// How the queries of one call search an index.
#[derive(Debug)]
struct SearchPlan<'a> {
    index: &'a SearchIndex,
    product: SearchProduct,
    place: &'a CollectionPlace,
    vector: VectorFieldMapping,
    options: &'a SearchOptions,
}

/// Where the vector of a record is.
fn vector_of(place: &CollectionPlace) -> &str {
    match &place.layout {
        RecordLayout::Filled => VECTOR,
        RecordLayout::Existing(existing) => &existing.vector,
    }
}

/// Which part of a record a reply has. Its vector is never part of it: some versions leave it out, so it is asked for
/// by itself.
fn source_of(place: &CollectionPlace, with_text: bool, with_fields: bool) -> Value {
    match &place.layout {
        RecordLayout::Filled => {
            let parts: Vec<&str> = [(with_text, TEXT), (with_fields, FIELDS)]
                .iter()
                .filter(|(with, _)| *with)
                .map(|(_, part)| *part)
                .collect();
            if parts.is_empty() { false.into() } else { json!({ "includes": parts }) }
        }
        RecordLayout::Existing(existing) => match (with_text || with_fields, existing.id_field()) {
            (true, _) => json!({ "excludes": [existing.vector] }),
            (false, Some(id)) => json!({ "includes": [id] }),
            (false, None) => false.into(),
        },
    }
}

impl SearchPlan<'_> {
    /// The body of a search for so many records.
    fn body(
        &self,
        vector: &[f32],
        conditions: &FilterClauses,
        wanted: usize,
        index: Option<&VectorIndexMapping>,
    ) -> Value {
        let field = &self.vector.name;
        if index.is_none() {
            return json!({ "size": wanted, "query": self.exact_query(vector, conditions) });
        }
        let candidates = match self.options.ef {
            Some(ef) => ef as usize,
            None => DEFAULT_CANDIDATES.max(wanted + wanted / 2),
        };
        let candidates = candidates.clamp(wanted, MAX_SEARCHED);
        match self.product {
            SearchProduct::Elasticsearch => {
                let mut knn =
                    json!({ "field": field, "query_vector": vector, "k": wanted, "num_candidates": candidates });
                if !conditions.all.is_empty() {
                    knn["filter"] = json!(conditions.all);
                }
                json!({ "size": wanted, "knn": knn })
            }
            SearchProduct::OpenSearch => {
                // `k` is the number of candidates: not every version and engine has a setting for it.
                let mut knn = json!({ "vector": vector, "k": candidates });
                if !conditions.all.is_empty() {
                    knn["filter"] = conditions.query();
                }
                json!({ "size": wanted, "query": { "knn": { field: knn } } })
            }
        }
    }

    /// A query that compares every vector, with scores by [`ScoreFormula::of_exact`].
    fn exact_query(&self, vector: &[f32], conditions: &FilterClauses) -> Value {
        let field = &self.vector.name;
        let name = field.replace('\\', "\\\\").replace('\'', "\\'");
        let compared = match self.product {
            SearchProduct::Elasticsearch => format!("(params.vector, '{name}')"),
            SearchProduct::OpenSearch => format!("(params.vector, doc['{name}'])"),
        };
        let source = match (self.place.metric(), self.product) {
            // Rounding may give less than -1, and no score may be negative.
            (VectorMetric::Cosine, _) => format!("Math.max(0.0, 1.0 + cosineSimilarity{compared})"),
            (VectorMetric::InnerProduct, product) => {
                let name = if product == SearchProduct::Elasticsearch { "dotProduct" } else { "innerProduct" };
                format!(
                    "double product = {name}{compared}; return product < 0 ? 1.0 / (1.0 - product) : 1.0 + product;"
                )
            }
            (VectorMetric::Euclidean, SearchProduct::Elasticsearch) => {
                format!("double distance = l2norm{compared}; return 1.0 / (1.0 + distance * distance);")
            }
            (VectorMetric::Euclidean, SearchProduct::OpenSearch) => format!("1.0 / (1.0 + l2Squared{compared})"),
        };
        let mut all = conditions.all.clone();
        if matches!(self.place.layout, RecordLayout::Existing(_)) {
            // A record without a vector would be an error.
            all.push(json!({ "exists": { "field": field } }));
        }
        let conditions = FilterClauses { all, is_exact: true };
        json!({ "script_score": {
            "query": conditions.query(),
            "script": { "source": source, "params": { "vector": vector } },
        } })
    }
}

impl ElasticsearchDatabase {
    /// Searches an index, once more if what was known about it has changed.
    pub(super) async fn search_index(
        &self,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, DatabaseProblem> {
        loop {
            let (index, is_fresh) = self.index(&place.name).await?;
            let found = self.search_with(&index, place, queries, options).await;
            match found {
                // An index that was known from before, or to which an alias pointed, may be another one now.
                Err(
                    DatabaseProblem::MissingCollection
                    | DatabaseProblem::Dimensions { .. }
                    | DatabaseProblem::Refused { .. },
                ) if !is_fresh || self.has_moved(place, &index).await? => self.forget(),
                found => return found,
            }
        }
    }

    /// Whether the name, an alias, points to another index than before.
    async fn has_moved(&self, place: &CollectionPlace, index: &SearchIndex) -> Result<bool, DatabaseProblem> {
        Ok(index.name != place.name && self.look_up(&place.name).await?.is_some_and(|now| now.name != index.name))
    }

    async fn search_with(
        &self,
        index: &SearchIndex,
        place: &CollectionPlace,
        queries: &[DatabaseQuery<'_>],
        options: &SearchOptions,
    ) -> Result<Vec<FoundRecords>, DatabaseProblem> {
        self.refresh_written(index).await?;
        let server = self.server().await?;
        let vector = index.vector_field(server, vector_of(place))?;
        let plan = SearchPlan { index, product: server.product, place, vector, options };
        let searches: Vec<_> = queries.iter().map(|query| self.search_one(&plan, query)).collect();
        self.at_once(searches).await
    }

    async fn search_one(
        &self,
        plan: &SearchPlan<'_>,
        query: &DatabaseQuery<'_>,
    ) -> Result<FoundRecords, DatabaseProblem> {
        let (place, options) = (plan.place, plan.options);
        if let Some(found) = plan.vector.dimensions.filter(|found| *found != query.vector.len()) {
            return Err(DatabaseProblem::Dimensions { expected: query.vector.len(), found });
        }
        let filter = query.filter.filter(|filter| !filter.is_empty());
        let conditions = FilterClauses::of(plan.index, &place.layout, filter)?;
        // Few records are compared faster without the graph, and none of them is missed.
        let has_ids = filter.is_some_and(|filter| filter.ids.is_some());
        let vector_index = plan.vector.search_index.as_ref().filter(|_| !options.exact && !has_ids);
        let formula = vector_index.map_or_else(|| ScoreFormula::of_exact(place.metric()), |index| index.formula);
        let body = |wanted| plan.body(query.vector, &conditions, wanted, vector_index);
        let mut found = self
            .find(place, filter, conditions.is_exact, (options.top, options.with_content), "/_search", body)
            .await?;
        found.records.iter_mut().for_each(|record| record.score = formula.cosine(f64::from(record.score)) as f32);
        rank(&mut found.records, options.top);
        Ok(FoundRecords { is_exact: vector_index.is_none(), ..found })
    }

    /// Asks for more and more records until enough of them pass the filter. Their scores are the server's.
    async fn find(
        &self,
        place: &CollectionPlace,
        filter: Option<&RecordFilter>,
        is_exact: bool,
        (top, with_content): (usize, bool),
        path: &str,
        body: impl Fn(usize) -> Value,
    ) -> Result<FoundRecords, DatabaseProblem> {
        let mut wanted = (top + MORE_RECORDS).min(MAX_SEARCHED);
        loop {
            let mut body = body(wanted);
            body["_source"] = source_of(place, with_content, with_content || !is_exact);
            body["track_total_hits"] = false.into();
            let hits = self.hits(place, path, body).await?;
            let returned = hits.len();
            let mut records = Vec::with_capacity(returned);
            for hit in hits {
                let Some(id) = hit.record_id(place) else { continue };
                let content = (with_content || !is_exact).then(|| hit.content(place));
                if let (false, Some(filter), Some(content)) = (is_exact, filter, &content)
                    && !filter.passes(&content.fields)
                {
                    continue;
                }
                records.push(FoundRecord { id, score: hit.score as f32, content: content.filter(|_| with_content) });
            }
            let is_cut = records.len() < top && returned >= wanted;
            if is_cut && wanted < MAX_SEARCHED {
                wanted = (wanted * GROWTH).min(MAX_SEARCHED);
                continue;
            }
            return Ok(FoundRecords { records, is_exact: true, is_cut });
        }
    }

    /// Finds the records whose texts have the words of a text, by BM25.
    pub(super) async fn find_text(
        &self,
        place: &CollectionPlace,
        query: &WordQuery<'_>,
    ) -> Result<FoundRecords, DatabaseProblem> {
        let WordQuery { text, filter, top, with_content } = *query;
        let (index, _) = self.index(&place.name).await?;
        self.refresh_written(&index).await?;
        let field = match &place.layout {
            RecordLayout::Filled => TEXT,
            RecordLayout::Existing(existing) => existing.text.as_deref().ok_or(DatabaseProblem::InvalidSettings {
                reason: "no field with the text is named, so there is nothing to search".to_owned(),
            })?,
        };
        index.text_field(field)?;
        let filter = filter.filter(|filter| !filter.is_empty());
        let conditions = FilterClauses::of(&index, &place.layout, filter)?;
        let body = |wanted| {
            let query = json!({ "match": { field: { "query": text } } });
            json!({ "size": wanted, "query": { "bool": { "must": [query], "filter": conditions.all } } })
        };
        let mut found =
            self.find(place, filter, conditions.is_exact, (top, with_content), WORDS_OF_ALL_SHARDS, body).await?;
        rank(&mut found.records, top);
        Ok(found)
    }

    /// The records with one of these ids, a page at a time.
    pub(super) async fn read_records(
        &self,
        place: &CollectionPlace,
        ids: &[RecordId],
    ) -> Result<Vec<Option<IndexedRecord>>, DatabaseProblem> {
        let (index, _) = self.index(&place.name).await?;
        self.refresh_written(&index).await?;
        let vector = index.vector_field(self.server().await?, vector_of(place))?;
        let mut by_id = HashMap::new();
        for part in ids.chunks(page_of(&vector)) {
            let query = id_condition(&index, &place.layout, part)?;
            let body = json!({ "size": part.len(), "query": { "bool": { "filter": [query] } } });
            let hits = self.hits(place, "/_search", with_everything(place, &vector, body)).await?;
            let records = hits.into_iter().filter_map(|hit| hit.record(place, &vector.name));
            by_id.extend(records.map(|record| (record.id.to_string(), record)));
        }
        Ok(ids.iter().map(|id| by_id.get(&id.to_string()).cloned()).collect())
    }

    /// The first records that pass: by id, or in the order in which they were written, one shard after the other.
    pub(super) async fn first(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, DatabaseProblem> {
        let (index, _) = self.index(&place.name).await?;
        self.refresh_written(&index).await?;
        let vector = index.vector_field(self.server().await?, vector_of(place))?;
        let conditions = FilterClauses::of(&index, &place.layout, Some(filter))?;
        let (sort, shards) = match place.layout {
            RecordLayout::Filled => (ID, 1),
            // The numbers of changes are those of one shard.
            RecordLayout::Existing(_) => ("_seq_no", index.shards.unwrap_or(1)),
        };
        let mut records: Vec<IndexedRecord> = Vec::new();
        for shard in 0..shards {
            let path = match shards {
                1 => "/_search".to_owned(),
                _ => format!("/_search?preference=_shards:{shard}"),
            };
            let mut after: Option<Value> = None;
            while records.len() < count {
                let page = match conditions.is_exact {
                    true => page_of(&vector).min(count - records.len()),
                    false => page_of(&vector),
                };
                let mut body = json!({ "size": page, "query": conditions.query(), "sort": [{ sort: "asc" }] });
                if let Some(after) = after {
                    body["search_after"] = after;
                }
                let hits = self.hits(place, &path, with_everything(place, &vector, body)).await?;
                let is_last = hits.len() < page;
                after = hits.last().map(|hit| hit.sort.clone());
                let more = hits.iter().filter_map(|hit: &SearchHit| hit.record(place, &vector.name));
                records.extend(more.filter(|record| conditions.is_exact || filter.passes(&record.fields)));
                if is_last {
                    break;
                }
            }
        }
        records.truncate(count);
        Ok(records)
    }

    /// Searches by the name that was given: the server looks at once where an alias points, so the search is in the
    /// index before a swap or in the one after it.
    async fn hits(&self, place: &CollectionPlace, path: &str, body: Value) -> Result<Vec<SearchHit>, DatabaseProblem> {
        let path = format!("{}{path}", super::segment(&place.name));
        hits(self.ask(Method::POST, &path, Some(body.to_string().into())).await?)
    }
}

/// A search whose reply has text, fields and vector of each record.
fn with_everything(place: &CollectionPlace, vector: &VectorFieldMapping, mut body: Value) -> Value {
    body["_source"] = source_of(place, true, true);
    body["fields"] = json!([vector.name]);
    body["track_total_hits"] = false.into();
    body
}

/// The records of one page of an index whose vectors fit into a reply.
fn page_of(vector: &VectorFieldMapping) -> usize {
    (NUMBERS_IN_REPLY / vector.dimensions.unwrap_or(1).max(1)).clamp(1, MAX_PAGE)
}
