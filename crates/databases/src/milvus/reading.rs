//! Searching and reading collections.

use super::{
    MilvusDatabase,
    condition::{all, conditions, has_id, is_after, is_never},
    field_data::{FieldData, ScalarValues, column, data_type},
    messages::{
        FoundRowsReply, IdValues, KeyValue, PlaceholderGroup, PlaceholderValue, QueryRows, RowsReply, SearchRows,
    },
    schema::RecordShape,
};
use crate::{
    CollectionPlace, DatabaseProblem, DatabaseQuery, FoundRecord, FoundRecords, IndexedRecord, RecordContent,
    RecordFilter, RecordId, RecordLayout, SearchOptions, VectorMetric, WordQuery, record::rank, testing::cosine,
};
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// More records than asked for, so that equal scores at the end are ordered by id and not by the server.
const MORE_RECORDS: usize = 8;
/// Records that one search returns at most.
const MAX_SEARCHED: usize = 16_384;
/// How many times more records are asked for if too few passed.
const GROWTH: usize = 4;
/// Numbers of the vectors that are read to be compared here.
const MAX_COMPARED: usize = 4_000_000;
/// Numbers in the vectors of one reply.
const NUMBERS_IN_REPLY: usize = 1_000_000;
const LEAST_PAGE: usize = 64;
const MAX_PAGE: usize = 1000;
/// Candidates of a graph, and clusters to look into, where the caller has no preference: Milvus itself has no default
/// for the first in older versions.
const DEFAULT_EF: usize = 64;
const DEFAULT_PROBES: u32 = 16;
/// The largest number of candidates.
const MAX_EF: usize = 32_768;

/// What the server compares with a field of all records.
struct Near<'a> {
    field: &'a str,
    /// The type of the value, and its bytes.
    kind: i32,
    value: Vec<u8>,
    metric: &'static str,
    params: Value,
}

/// The row of a reply.
struct Row<'a> {
    shape: &'a RecordShape,
    columns: &'a [FieldData],
    row: usize,
}

impl Row<'_> {
    fn content(&self) -> RecordContent {
        self.shape.content_of(self.columns, self.row)
    }

    fn id(&self) -> RecordId {
        let value = column(self.columns, &self.shape.id.name).map_or(Value::Null, |column| column.value(self.row));
        match (value, &self.shape.layout) {
            (Value::String(text), _) => RecordId::Text(text),
            (value, RecordLayout::Filled) => RecordId::Number(value.as_u64().unwrap_or_default()),
            (value, RecordLayout::Existing(_)) => RecordId::Text(value.to_string()),
        }
    }

    fn vector(&self) -> Option<&[f32]> {
        column(self.columns, &self.shape.vector)?.vector(self.row)
    }

    fn record(&self) -> IndexedRecord {
        let (content, vector) = (self.content(), self.vector().map(<[f32]>::to_vec).unwrap_or_default());
        IndexedRecord { id: self.id(), vector, text: content.text, fields: content.fields }
    }

    /// The primary key as text.
    fn key(&self) -> String {
        match column(self.columns, &self.shape.key.name).map(|column| column.value(self.row)) {
            Some(Value::String(text)) => text,
            value => value.unwrap_or_default().to_string(),
        }
    }
}

/// The records of one reply with vectors.
fn page(shape: &RecordShape) -> usize {
    (NUMBERS_IN_REPLY / shape.dimensions.max(1)).clamp(1, MAX_PAGE)
}

/// How similar two vectors are by a metric.
fn score(metric: VectorMetric, a: &[f32], b: &[f32]) -> f32 {
    let sum = |term: fn(f64, f64) -> f64| a.iter().zip(b).map(|(a, b)| term((*a).into(), (*b).into())).sum::<f64>();
    match metric {
        VectorMetric::Cosine => cosine(a, b),
        VectorMetric::InnerProduct => sum(|a, b| a * b) as f32,
        VectorMetric::Euclidean => from_square(sum(|a, b| (a - b) * (a - b))) as f32,
    }
}

/// The cosine of vectors of length 1 with this square of their distance.
fn from_square(square: f64) -> f64 {
    1.0 - square / 2.0
}

impl MilvusDatabase {
    pub(super) async fn search_one(
        &self,
        place: &CollectionPlace,
        query: &DatabaseQuery<'_>,
        options: &SearchOptions,
    ) -> Result<FoundRecords, DatabaseProblem> {
        let shape = &*self.shape(place).await?;
        if query.vector.len() != shape.dimensions {
            return Err(DatabaseProblem::Dimensions { expected: query.vector.len(), found: shape.dimensions });
        }
        if options.top > MAX_SEARCHED {
            let reason = format!("{} records of one search; Milvus returns at most {MAX_SEARCHED}", options.top);
            return Err(DatabaseProblem::TooLarge { reason });
        }
        let filter = query.filter.filter(|filter| !filter.is_empty());
        if filter.is_some_and(is_never) {
            return Ok(FoundRecords { records: Vec::new(), is_exact: true, is_cut: false });
        }
        let mut conditions = conditions(shape, filter);
        if let Some(ids) = filter.and_then(|filter| filter.ids.as_ref()) {
            // A graph finds few of the records that a narrow condition lets through.
            if !shape.is_exact() && ids.len() * shape.dimensions <= MAX_COMPARED {
                return self.compare(shape, query, filter, &conditions, options).await;
            }
            conditions.push(has_id(&shape.id, ids));
        }
        let tests = filter.filter(|filter| !filter.tests.is_empty());
        let (mut wanted, mut fewer) = ((options.top + MORE_RECORDS).min(MAX_SEARCHED), None);
        loop {
            let asked = self.ask(shape, query.vector, &all(&conditions), wanted, options, tests.is_some()).await;
            let mut is_all = false;
            let records: Vec<FoundRecord> = match (asked, fewer.take()) {
                // So many records with long texts do not fit into a reply.
                (Err(DatabaseProblem::TooLarge { .. }), Some(fewer)) => {
                    wanted = MAX_SEARCHED;
                    fewer
                }
                (asked, _) => {
                    let mut records = asked?;
                    is_all = records.len() < wanted;
                    if let Some(tests) = tests {
                        records
                            .retain(|found| found.content.as_ref().is_none_or(|content| tests.passes(&content.fields)));
                    }
                    records
                }
            };
            let is_short = records.len() < options.top;
            if is_short && !is_all && tests.is_some() && wanted < MAX_SEARCHED {
                (wanted, fewer) = ((wanted * GROWTH).min(MAX_SEARCHED), Some(records));
                continue;
            }
            // There are too few records, or the index does not find those that there are.
            let is_cut = is_short && !(is_all && shape.is_exact());
            if is_cut {
                let candidates = self.count_all(shape, &all(&conditions)).await? as usize;
                if candidates * shape.dimensions <= MAX_COMPARED {
                    return self.compare(shape, query, filter, &conditions, options).await;
                }
            }
            return Ok(ranked(records, options, shape.is_exact(), is_cut));
        }
    }

    /// Compares all records here that pass; `conditions` are of no use if the filter names ids.
    async fn compare(
        &self,
        shape: &RecordShape,
        query: &DatabaseQuery<'_>,
        filter: Option<&RecordFilter>,
        conditions: &[String],
        options: &SearchOptions,
    ) -> Result<FoundRecords, DatabaseProblem> {
        let mut records = Vec::new();
        let compare = |row: &Row<'_>| {
            let content = row.content();
            if let Some(vector) = row.vector().filter(|vector| vector.len() == query.vector.len())
                && filter.is_none_or(|filter| filter.passes(&content.fields))
            {
                let score = score(shape.metric, vector, query.vector);
                records.push(FoundRecord { id: row.id(), score, content: Some(content) });
            }
            true
        };
        match filter.and_then(|filter| filter.ids.as_ref()) {
            Some(ids) => self.each_of(shape, ids, compare).await?,
            None => self.each(shape, &all(conditions), usize::MAX, compare).await?,
        }
        Ok(ranked(records, options, true, false))
    }

    /// One search by the server.
    async fn ask(
        &self,
        shape: &RecordShape,
        vector: &[f32],
        condition: &str,
        wanted: usize,
        options: &SearchOptions,
        has_tests: bool,
    ) -> Result<Vec<FoundRecord>, DatabaseProblem> {
        let kind = shape.index.as_ref().map_or("", |index| &index.kind);
        let params = match kind {
            kind if kind.starts_with("HNSW") => {
                let ef = options.ef.map_or(DEFAULT_EF, |ef| ef as usize).max(wanted).min(MAX_EF);
                json!({ "ef": ef })
            }
            kind if kind.starts_with("IVF") => json!({ "nprobe": options.probes.unwrap_or(DEFAULT_PROBES).max(1) }),
            _ => json!({}),
        };
        let metric = match shape.metric {
            VectorMetric::Cosine => "COSINE",
            VectorMetric::InnerProduct => "IP",
            VectorMetric::Euclidean => "L2",
        };
        let value = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        let near = Near { field: &shape.vector, kind: data_type::FLOAT_VECTOR, value, metric, params };
        let mut records = self.nearest(shape, near, condition, wanted, (options.with_content, has_tests)).await?;
        if shape.metric == VectorMetric::Euclidean {
            records.iter_mut().for_each(|record| record.score = from_square(f64::from(record.score)) as f32);
        }
        Ok(records)
    }

    /// The records whose texts hold words of a text, by BM25. All are compared.
    pub(super) async fn find_text(
        &self,
        place: &CollectionPlace,
        query: &WordQuery<'_>,
    ) -> Result<FoundRecords, DatabaseProblem> {
        let shape = &*self.shape(place).await?;
        let WordQuery { text, filter, top, with_content } = *query;
        let unsupported = DatabaseProblem::Unsupported { what: "full-text search without a field of words" };
        let words = shape.words.as_deref().ok_or(unsupported)?;
        let filter = filter.filter(|filter| !filter.is_empty());
        if filter.is_some_and(is_never) {
            return Ok(FoundRecords { records: Vec::new(), is_exact: true, is_cut: false });
        }
        let mut conditions = conditions(shape, filter);
        if let Some(ids) = filter.and_then(|filter| filter.ids.as_ref()) {
            conditions.push(has_id(&shape.id, ids));
        }
        let tests = filter.filter(|filter| !filter.tests.is_empty());
        let content = (with_content, tests.is_some());
        let mut wanted = (top + MORE_RECORDS).min(MAX_SEARCHED);
        loop {
            let value = text.as_bytes().to_vec();
            let near = Near { field: words, kind: data_type::VARCHAR, value, metric: "BM25", params: json!({}) };
            let mut records = self.nearest(shape, near, &all(&conditions), wanted, content).await?;
            let is_all = records.len() < wanted;
            // Milvus Lite gives scores with a minus.
            records.iter_mut().for_each(|record| record.score = record.score.abs());
            if let Some(tests) = tests {
                records.retain(|found| found.content.as_ref().is_none_or(|content| tests.passes(&content.fields)));
            }
            if records.len() < top && !is_all && wanted < MAX_SEARCHED {
                wanted = (wanted * GROWTH).min(MAX_SEARCHED);
                continue;
            }
            rank(&mut records, top);
            if !with_content {
                records.iter_mut().for_each(|record| record.content = None);
            }
            return Ok(FoundRecords { records, is_exact: true, is_cut: false });
        }
    }

    /// One search by the server, with its own scores. `content`: whether the records are to have their texts and fields,
    /// and whether fields are needed for tests.
    async fn nearest(
        &self,
        shape: &RecordShape,
        near: Near<'_>,
        condition: &str,
        wanted: usize,
        content: (bool, bool),
    ) -> Result<Vec<FoundRecord>, DatabaseProblem> {
        let (with_content, has_tests) = content;
        let placeholder = PlaceholderValue { tag: "$0".to_owned(), kind: near.kind, values: vec![near.value] };
        // Without any, Milvus Lite returns all fields.
        let mut output_fields = vec![shape.id.name.clone()];
        match (with_content, has_tests) {
            (true, _) => output_fields.extend(shape.content.iter().cloned()),
            (false, true) => output_fields.extend(shape.fields().map(str::to_owned)),
            (false, false) => {}
        }
        let request = SearchRows {
            db_name: self.database.clone(),
            collection_name: shape.collection.name.clone(),
            dsl: condition.to_owned(),
            placeholder_group: PlaceholderGroup { placeholders: vec![placeholder] }.encode_to_vec(),
            dsl_type: 1,
            output_fields,
            search_params: vec![
                KeyValue::new("anns_field", near.field),
                KeyValue::new("topk", wanted),
                KeyValue::new("metric_type", near.metric),
                KeyValue::new("params", near.params),
                KeyValue::new("round_decimal", -1),
            ],
            nq: 1,
        };
        let reply: FoundRowsReply = self.loaded(&shape.collection.name, || self.call("Search", &request)).await?;
        let mut results = reply.results.unwrap_or_default();
        if let Some(keys) = results.ids.take().and_then(|ids| ids.values)
            && column(&results.fields_data, &shape.key.name).is_none()
        {
            let (kind, values) = match keys {
                IdValues::Numbers(numbers) => (data_type::INT64, ScalarValues::Longs(numbers)),
                IdValues::Texts(texts) => (data_type::VARCHAR, ScalarValues::Texts(texts)),
            };
            results.fields_data.push(FieldData::scalars(&shape.key.name, kind, values));
        }
        let rows = results.scores.iter().enumerate().map(|(row, score)| {
            let row = Row { shape, columns: &results.fields_data, row };
            FoundRecord { id: row.id(), score: *score, content: (with_content || has_tests).then(|| row.content()) }
        });
        Ok(rows.collect())
    }

    /// Calls `visit` with the rows that meet a condition, ordered by the primary key, until it returns false. So many
    /// are `expected`.
    async fn each(
        &self,
        shape: &RecordShape,
        condition: &str,
        expected: usize,
        mut visit: impl FnMut(&Row<'_>) -> bool,
    ) -> Result<(), DatabaseProblem> {
        let mut limit = page(shape).min(expected.max(LEAST_PAGE));
        let mut last: Option<String> = None;
        loop {
            let after = last.as_ref().map(|last| is_after(&shape.key, last));
            let own = (!condition.is_empty()).then(|| condition.to_owned());
            let condition = all(&own.into_iter().chain(after).collect::<Vec<_>>());
            // As an iterator, so that records are ordered by their key.
            let params =
                [("limit", limit.to_string()), ("iterator", "True".into()), ("reduce_stop_for_best", "True".into())];
            let columns = match self.rows(shape, condition, &params).await {
                // Long texts.
                Err(DatabaseProblem::TooLarge { .. }) if limit > 1 => {
                    limit = (limit / GROWTH).max(1);
                    continue;
                }
                columns => columns?,
            };
            let rows = column(&columns, &shape.key.name).map_or(0, FieldData::rows);
            for row in 0..rows {
                if !visit(&Row { shape, columns: &columns, row }) {
                    return Ok(());
                }
            }
            if rows < limit {
                return Ok(());
            }
            last = Some(Row { shape, columns: &columns, row: rows - 1 }.key());
        }
    }

    /// Calls `visit` with the rows that have one of these ids and meet the user's own condition.
    async fn each_of(
        &self,
        shape: &RecordShape,
        ids: &[RecordId],
        mut visit: impl FnMut(&Row<'_>) -> bool,
    ) -> Result<(), DatabaseProblem> {
        // Milvus Lite returns a record as often as its id is asked for.
        let ids: Vec<RecordId> = ids.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect();
        let mut parts: Vec<&[RecordId]> = ids.chunks(page(shape)).collect();
        while let Some(part) = parts.pop() {
            // Alone, a condition on the primary key is found without looking at all records.
            let mut conditions = conditions(shape, None);
            conditions.push(has_id(&shape.id, part));
            let columns = match self.rows(shape, all(&conditions), &[]).await {
                // Long texts.
                Err(DatabaseProblem::TooLarge { .. }) if part.len() > 1 => {
                    parts.extend(<[_; 2]>::from(part.split_at(part.len() / 2)));
                    continue;
                }
                columns => columns?,
            };
            for row in 0..column(&columns, &shape.key.name).map_or(0, FieldData::rows) {
                visit(&Row { shape, columns: &columns, row });
            }
        }
        Ok(())
    }

    /// Rows with key, id, vector and content.
    async fn rows(
        &self,
        shape: &RecordShape,
        expr: String,
        params: &[(&str, String)],
    ) -> Result<Vec<FieldData>, DatabaseProblem> {
        let mut output_fields = vec![shape.key.name.clone(), shape.id.name.clone(), shape.vector.clone()];
        output_fields.extend(shape.content.iter().cloned());
        output_fields.sort();
        output_fields.dedup();
        let request = QueryRows {
            db_name: self.database.clone(),
            collection_name: shape.collection.name.clone(),
            expr,
            output_fields,
            query_params: params.iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
        };
        let reply: RowsReply = self.loaded(&shape.collection.name, || self.call("Query", &request)).await?;
        Ok(reply.fields_data)
    }

    /// The first records that meet a condition and pass a filter.
    async fn some(
        &self,
        shape: &RecordShape,
        conditions: &[String],
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, DatabaseProblem> {
        let mut records = Vec::new();
        if count == 0 {
            return Ok(records);
        }
        self.each(shape, &all(conditions), count, |row| {
            records.extend(Some(row.record()).filter(|record| filter.passes(&record.fields)));
            records.len() < count
        })
        .await?;
        Ok(records)
    }

    pub(super) async fn first(
        &self,
        place: &CollectionPlace,
        filter: &RecordFilter,
        count: usize,
    ) -> Result<Vec<IndexedRecord>, DatabaseProblem> {
        let shape = self.shape(place).await?;
        if is_never(filter) {
            return Ok(Vec::new());
        }
        let mut conditions = conditions(&shape, Some(filter));
        conditions.extend(filter.ids.as_ref().map(|ids| has_id(&shape.id, ids)));
        self.some(&shape, &conditions, filter, count).await
    }

    /// The records with these ids, in any order.
    pub(super) async fn with_ids(
        &self,
        place: &CollectionPlace,
        ids: &[RecordId],
    ) -> Result<Vec<IndexedRecord>, DatabaseProblem> {
        let shape = self.shape(place).await?;
        let mut records = Vec::new();
        self.each_of(&shape, ids, |row| {
            records.push(row.record());
            true
        })
        .await?;
        Ok(records)
    }

    /// The number of records that meet a condition.
    pub(super) async fn count_all(&self, shape: &RecordShape, condition: &str) -> Result<u64, DatabaseProblem> {
        let request = QueryRows {
            db_name: self.database.clone(),
            collection_name: shape.collection.name.clone(),
            expr: condition.to_owned(),
            output_fields: vec!["count(*)".to_owned()],
            query_params: Vec::new(),
        };
        let reply: RowsReply = self.loaded(&shape.collection.name, || self.call("Query", &request)).await?;
        let count = reply.fields_data.first().map(|column| column.value(0)).and_then(|value| value.as_u64());
        count.ok_or_else(|| DatabaseProblem::Malformed { reason: "there is no number of records".to_owned() })
    }
}

fn ranked(mut records: Vec<FoundRecord>, options: &SearchOptions, is_exact: bool, is_cut: bool) -> FoundRecords {
    rank(&mut records, options.top);
    if !options.with_content {
        records.iter_mut().for_each(|record| record.content = None);
    }
    FoundRecords { records, is_exact, is_cut }
}
