//! What the servers send and take.

use super::{
    condition::{TERMS, id_text, terms},
    server::{SearchProduct, SearchServer},
};
use crate::{
    CollectionPlace, CollectionSpec, DatabaseProblem, ExistingFields, IndexedRecord, RecordContent, RecordId,
    RecordLayout, SearchIndexSpec, StoredPrecision, json_client::HttpReply,
};
use reqwest::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The fields of an index that Reverie fills.
pub(super) const ID: &str = "id";
pub(super) const VECTOR: &str = "vector";
pub(super) const TEXT: &str = "text";
pub(super) const FIELDS: &str = "fields";

/// A record as it is stored.
#[derive(Serialize)]
struct SourceDocument<'a> {
    id: &'a str,
    vector: &'a [f32],
    text: &'a str,
    fields: &'a Map<String, Value>,
    field_terms: Vec<String>,
}

/// The two lines that write a record.
pub(super) fn write_lines(record: &IndexedRecord) -> Result<Vec<u8>, DatabaseProblem> {
    let malformed = |error: serde_json::Error| DatabaseProblem::Malformed { reason: error.to_string() };
    let id = id_text(&RecordLayout::Filled, &record.id);
    let mut lines = json!({ "index": { "_id": id } }).to_string().into_bytes();
    lines.push(b'\n');
    let stored = SourceDocument {
        id: &id,
        vector: &record.vector,
        text: &record.text,
        fields: &record.fields,
        field_terms: terms(&record.fields),
    };
    serde_json::to_writer(&mut lines, &stored).map_err(malformed)?;
    lines.push(b'\n');
    Ok(lines)
}

/// The mapping of an index that Reverie fills, without the manifest, and its settings.
pub(super) fn index_body(server: &SearchServer, spec: &CollectionSpec) -> Result<Value, DatabaseProblem> {
    let refuse = |reason: &str| Err(DatabaseProblem::InvalidSettings { reason: reason.to_owned() });
    if spec.precision != StoredPrecision::F32 {
        return refuse("Reverie stores 32 bits a number in Elasticsearch and OpenSearch");
    }
    let mut vector = json!({ "type": server.product.vector_type() });
    match (server.product, spec.index) {
        (_, SearchIndexSpec::Ivfflat { .. }) => {
            return refuse("in Elasticsearch and OpenSearch Reverie has the index `hnsw` or none");
        }
        (SearchProduct::Elasticsearch, SearchIndexSpec::Exact) => {
            vector["dims"] = spec.dimensions.into();
            vector["index"] = false.into();
        }
        (SearchProduct::Elasticsearch, SearchIndexSpec::Hnsw { m, ef_construction, .. }) => {
            vector["dims"] = spec.dimensions.into();
            vector["index"] = true.into();
            vector["similarity"] = "cosine".into();
            // Without a type the server would round the numbers to 8 bits or 1 bit.
            vector["index_options"] = json!({ "type": "hnsw", "m": m, "ef_construction": ef_construction });
        }
        (SearchProduct::OpenSearch, SearchIndexSpec::Exact) => vector["dimension"] = spec.dimensions.into(),
        (SearchProduct::OpenSearch, SearchIndexSpec::Hnsw { m, ef_construction, .. }) => {
            vector["dimension"] = spec.dimensions.into();
            // Lucene's scores of the cosine are the same in all versions, and it filters during the search.
            vector["method"] = json!({
                "name": "hnsw", "engine": "lucene", "space_type": "cosinesimil",
                "parameters": { "m": m, "ef_construction": ef_construction },
            });
        }
    }
    let mut index = json!({});
    if !server.is_serverless {
        // One shard has one graph for each segment and one BM25 statistic, and holds more records than evaluations need.
        index["number_of_shards"] = 1.into();
    }
    if server.product == SearchProduct::OpenSearch {
        index["knn"] = matches!(spec.index, SearchIndexSpec::Hnsw { .. }).into();
    }
    Ok(json!({
        "settings": { "index": index },
        "mappings": { "dynamic": "strict", "properties": {
            ID: { "type": "keyword" },
            VECTOR: vector,
            TEXT: { "type": "text", "analyzer": "standard" },
            FIELDS: { "type": "object", "enabled": false },
            TERMS: { "type": "keyword", "doc_values": false },
        } },
    }))
}

/// A value of a record; its path has dots if it is within an object.
fn value_at(source: &Map<String, Value>, path: &str) -> Option<Value> {
    fn within(value: &Value, path: &str) -> Option<Value> {
        match value {
            Value::Object(fields) => value_at(fields, path),
            Value::Array(items) => {
                let found: Vec<Value> = items.iter().filter_map(|item| within(item, path)).collect();
                (!found.is_empty()).then_some(Value::Array(found))
            }
            _ => None,
        }
    }
    if let Some(value) = source.get(path) {
        return Some(value.clone());
    }
    path.match_indices('.').find_map(|(dot, _)| within(source.get(&path[..dot])?, &path[dot + 1..]))
}

fn remove_at(source: &mut Map<String, Value>, path: &str) {
    if source.remove(path).is_some() {
        return;
    }
    for (dot, _) in path.match_indices('.') {
        if let Some(Value::Object(inner)) = source.get_mut(&path[..dot]) {
            remove_at(inner, &path[dot + 1..]);
        }
    }
}

/// A record of a reply to `_search`.
#[derive(Debug, Default)]
pub(super) struct SearchHit {
    pub(super) score: f64,
    pub(super) id: String,
    pub(super) source: Map<String, Value>,
    /// Values by which the reply is sorted.
    pub(super) sort: Value,
    fields: Map<String, Value>,
}

/// The records of a reply to `_search`.
pub(super) fn hits(body: Value) -> Result<Vec<SearchHit>, DatabaseProblem> {
    let malformed = |reason: &str| DatabaseProblem::Malformed { reason: reason.to_owned() };
    let Value::Object(mut body) = body else { return Err(malformed("it is no object")) };
    if body.get("timed_out").and_then(Value::as_bool) == Some(true) {
        return Err(DatabaseProblem::Busy { message: "the search timed out".to_owned(), retry_after: None });
    }
    // A shard that fails is left out of the reply.
    if let Some(failed) =
        body.get("_shards").and_then(|shards| shards.get("failed")?.as_u64()).filter(|failed| *failed > 0)
    {
        let message = format!("{failed} shards did not reply");
        return Err(DatabaseProblem::Busy { message, retry_after: None });
    }
    let Some(Value::Object(mut outer)) = body.remove("hits") else { return Err(malformed("it has no `hits`")) };
    let Some(Value::Array(hits)) = outer.remove("hits") else { return Err(malformed("it has no `hits.hits`")) };
    let hits = hits.into_iter().map(|hit| {
        let Value::Object(mut hit) = hit else { return Err(malformed("a hit is no object")) };
        let mut object = |key: &str| match hit.remove(key) {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let (source, fields) = (object("_source"), object("fields"));
        let id = hit.get("_id").and_then(Value::as_str).ok_or_else(|| malformed("a hit has no `_id`"))?.to_owned();
        let score = hit.get("_score").and_then(Value::as_f64).unwrap_or_default();
        Ok(SearchHit { score, id, source, sort: hit.remove("sort").unwrap_or_default(), fields })
    });
    hits.collect()
}

impl SearchHit {
    /// The id of the record; none if a record of the user's own has no value where its id should be.
    pub(super) fn record_id(&self, place: &CollectionPlace) -> Option<RecordId> {
        match &place.layout {
            RecordLayout::Filled => {
                Some(self.id.parse().map_or_else(|_| RecordId::Text(self.id.clone()), RecordId::Number))
            }
            RecordLayout::Existing(existing) => match existing.id_field() {
                None => Some(RecordId::Text(self.id.clone())),
                Some(field) => match value_at(&self.source, field)? {
                    Value::String(text) => Some(RecordId::Text(text)),
                    Value::Number(number) => Some(RecordId::Text(number.to_string())),
                    _ => None,
                },
            },
        }
    }

    /// Its vector, which the source does not have.
    pub(super) fn vector(&self, field: &str) -> Vec<f32> {
        let values = self.fields.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let values = match values {
            [Value::Array(inner)] => inner,
            values => values,
        };
        values.iter().filter_map(Value::as_f64).map(|value| value as f32).collect()
    }

    /// Text and fields.
    pub(super) fn content(&self, place: &CollectionPlace) -> RecordContent {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned).unwrap_or_default();
        match &place.layout {
            RecordLayout::Filled => RecordContent {
                text: text(self.source.get(TEXT)),
                fields: self.source.get(FIELDS).and_then(Value::as_object).cloned().unwrap_or_default(),
            },
            RecordLayout::Existing(existing) => RecordContent {
                text: text(existing.text.as_ref().and_then(|field| value_at(&self.source, field)).as_ref()),
                fields: existing_fields(existing, &self.source),
            },
        }
    }

    pub(super) fn record(&self, place: &CollectionPlace, vector: &str) -> Option<IndexedRecord> {
        let content = self.content(place);
        let id = self.record_id(place)?;
        Some(IndexedRecord { id, vector: self.vector(vector), text: content.text, fields: content.fields })
    }
}

/// The fields of a record of the user's own: those of the object that holds them or, if none is named, all but its id,
/// vector and text.
fn existing_fields(existing: &ExistingFields, source: &Map<String, Value>) -> Map<String, Value> {
    let mut fields = match &existing.metadata {
        Some(metadata) => match value_at(source, metadata) {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        },
        None => {
            let mut rest = source.clone();
            let named = [existing.id_field(), Some(existing.vector.as_str()), existing.text.as_deref()];
            named.into_iter().flatten().for_each(|field| remove_at(&mut rest, field));
            rest
        }
    };
    for (field, path) in &existing.fields {
        match value_at(source, path) {
            Some(value) => fields.insert(field.clone(), value),
            // The name stands for another field, which this record does not have.
            None => fields.remove(field),
        };
    }
    fields
}

/// The type of an error and what the server says about it: the outer reason and the innermost one.
fn error_text(error: &Value) -> (String, String) {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(message) = error.as_str() {
        return (String::new(), message.to_owned());
    }
    let root = error.pointer("/root_cause/0").unwrap_or(error);
    let (mut kind, mut message) = (text(error, "type"), text(root, "reason"));
    if kind == "search_phase_execution_exception" {
        kind = text(root, "type");
    }
    let mut cause = error;
    while let Some(inner) = cause.get("caused_by") {
        cause = inner;
    }
    let innermost = text(cause, "reason");
    if !message.contains(&innermost) {
        message = format!("{message}: {innermost}");
    }
    (kind, message)
}

/// What a reply with an error status means. `shown` makes text of the server fit for an error.
pub(super) fn refusal(reply: &HttpReply, shown: impl Fn(&str) -> String) -> DatabaseProblem {
    let error = reply.body.get("error");
    let (kind, message) = match error {
        Some(error) => error_text(error),
        None => (String::new(), reply.body.as_str().unwrap_or_default().to_owned()),
    };
    let message = shown(&message);
    match reply.status {
        StatusCode::UNAUTHORIZED => DatabaseProblem::Credentials { message },
        StatusCode::FORBIDDEN if kind != "cluster_block_exception" => DatabaseProblem::Permission { message },
        StatusCode::PAYLOAD_TOO_LARGE => DatabaseProblem::TooLarge { reason: format!("the request: {message}") },
        status if error.is_none() => DatabaseProblem::Malformed {
            reason: format!("status {status}, and not an error of Elasticsearch or OpenSearch: {message}"),
        },
        status => problem(status.as_u16(), &kind, message),
    }
}

fn problem(status: u16, kind: &str, message: String) -> DatabaseProblem {
    match (status, kind) {
        (404, "index_not_found_exception") => DatabaseProblem::MissingCollection,
        (429 | 503, _) => DatabaseProblem::Busy { message, retry_after: None },
        (_, "invalid_index_name_exception") => DatabaseProblem::InvalidSettings { reason: message },
        _ if message.contains("No handler for type [knn_vector]") => DatabaseProblem::ExtensionMissing {
            message: "OpenSearch lacks its plugin k-NN: install `opensearch-knn` on each node".to_owned(),
        },
        _ => match dimensions_in(&message) {
            Some(problem) => problem,
            None => DatabaseProblem::Refused { message: format!("{message} ({kind}, status {status})") },
        },
    }
}

/// The lengths in messages such as `different dimension [2] than the index vectors [3]`, `different number of
/// dimensions [4] than defined in the mapping [3]` or `invalid dimension: 2. Dimension should be: 3`.
fn dimensions_in(message: &str) -> Option<DatabaseProblem> {
    let number = |text: &str| {
        let digits = text.trim_start_matches(|character: char| !character.is_ascii_digit());
        digits.split(|character: char| !character.is_ascii_digit()).next()?.parse::<usize>().ok()
    };
    let (expected, found) = if let Some((_, rest)) = message.split_once("different dimension [") {
        rest.split_once("the index vectors [")?
    } else if let Some((_, rest)) = message.split_once("different number of dimensions [") {
        rest.split_once("] than ")?
    } else if let Some((_, rest)) = message.split_once("invalid dimension: ") {
        rest.split_once("Dimension should be: ")?
    } else if let Some((_, rest)) = message.split_once("Vector dimension mismatch. Expected: ") {
        let (found, given) = rest.split_once("Given: ")?;
        (given, found)
    } else {
        return None;
    };
    Some(DatabaseProblem::Dimensions { expected: number(expected)?, found: number(found)? })
}

/// The first problem of a reply to `_bulk`; one that does not pass by itself comes before one that may. `ids` are the
/// ids of the actions.
pub(super) fn bulk_problem(
    body: &Value,
    ids: &[RecordId],
    shown: impl Fn(&str) -> String,
) -> Result<(), DatabaseProblem> {
    let malformed = |reason: String| Err(DatabaseProblem::Malformed { reason });
    let Some(items) = body.get("items").and_then(Value::as_array) else {
        return malformed("it has no `items`".to_owned());
    };
    if items.len() != ids.len() {
        return malformed(format!("it has {} items for {} actions", items.len(), ids.len()));
    }
    let mut passing = None;
    for (item, id) in items.iter().zip(ids) {
        let Some(done) = item.as_object().and_then(|item| item.values().next()) else {
            return malformed("an item is empty".to_owned());
        };
        let status = done.get("status").and_then(Value::as_u64).unwrap_or_default() as u16;
        let Some(error) = done.get("error") else {
            match status {
                200 | 201 => continue,
                // What was to be removed was not there.
                404 if item.get("delete").is_some() => continue,
                status => return malformed(format!("an item has the status {status}")),
            }
        };
        let (kind, message) = error_text(error);
        match problem(status, &kind, shown(&message)) {
            busy @ DatabaseProblem::Busy { .. } => passing = passing.or(Some(busy)),
            DatabaseProblem::Refused { message } if status == 400 => {
                return Err(DatabaseProblem::InvalidRecord { id: id.clone(), reason: message });
            }
            problem => return Err(problem),
        }
    }
    passing.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_reply_is_read_item_by_item() {
        let ids = [1, 2, 3].map(RecordId::Number);
        let read = |items: Value| bulk_problem(&json!({ "errors": false, "items": items }), &ids, str::to_owned).err();
        let done = json!({ "index": { "status": 201 } });
        let failed = |status: u16, kind: &str| json!({ "index": { "status": status, "error": { "type": kind, "reason": kind } } });
        assert_eq!(read(json!([done, done, { "delete": { "status": 404, "result": "not_found" } }])), None);
        let full = failed(429, "es_rejected_execution_exception");
        assert!(matches!(read(json!([done, full, done])), Some(DatabaseProblem::Busy { .. })));
        // What does not pass by itself comes first, wherever it is.
        let refused = read(json!([full, done, failed(400, "document_parsing_exception")]));
        assert!(matches!(refused, Some(DatabaseProblem::InvalidRecord { id: RecordId::Number(3), .. })), "{refused:?}");
        assert!(matches!(
            read(json!([failed(404, "index_not_found_exception")])),
            Some(DatabaseProblem::Malformed { .. })
        ));
        for odd in [
            json!([done, done]),
            json!([done, {}, done]),
            json!([done, { "index": { "status": 404 } }, done]),
            json!(1),
        ] {
            assert!(matches!(read(odd.clone()), Some(DatabaseProblem::Malformed { .. })), "{odd}");
        }
    }

    #[test]
    fn lengths_of_vectors_are_read_from_the_messages_of_both_products() {
        for message in [
            "failed to create query: the query vector has a different dimension [2] than the index vectors [3]",
            "The query vector has a different number of dimensions [2] than the document vectors [3].",
            "field [v] in doc [7] has a different number of dimensions [2] than defined in the mapping [3]",
            "failed to create query: Query vector has invalid dimension: 2. Dimension should be: 3",
            "Vector dimension mismatch. Expected: 3, Given: 2",
        ] {
            let expected = DatabaseProblem::Dimensions { expected: 2, found: 3 };
            assert_eq!(problem(400, "illegal_argument_exception", message.to_owned()), expected, "{message}");
        }
    }

    #[test]
    fn a_reply_without_some_shards_is_not_taken_for_all() {
        let body = json!({ "_shards": { "total": 2, "failed": 1 }, "hits": { "hits": [] } });
        assert!(matches!(hits(body), Err(DatabaseProblem::Busy { .. })));
        assert!(matches!(
            hits(json!({ "timed_out": true, "hits": { "hits": [] } })),
            Err(DatabaseProblem::Busy { .. })
        ));
        assert!(matches!(
            hits(json!({ "hits": { "hits": [{ "_score": 1 }] } })),
            Err(DatabaseProblem::Malformed { .. })
        ));
    }
}
