//! What Qdrant sends and takes.

use super::payload_path::{key_of_path, path_of_key, value_at};
use crate::{
    CollectionPlace, CollectionSpec, DatabaseProblem, IndexManifest, IndexedRecord, RecordContent, RecordId,
    RecordLayout, SearchIndexSpec, StoredPrecision, VectorMetric, json_client::HttpReply,
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The vector of records of collections that Reverie fills.
pub(super) const VECTOR: &str = "embedding";
/// The id of the point with the manifest; records have numbers.
pub(super) const MANIFEST_ID: &str = "72657665-7269-4500-8000-6d616e696665";
/// The key of that point's payload with the manifest as JSON text.
pub(super) const MANIFEST: &str = "reverie_manifest";
/// The beginning of the name of an empty sparse vector that ends with the key of the task.
const MARK: &str = "reverie_key_";
/// The longest name of a vector, in bytes.
const MAX_NAME: usize = 200;
/// Keys of the payload of records of collections that Reverie fills.
const TEXT: &str = "text";
const FIELDS: &str = "fields";
/// All fields as JSON text, where Qdrant would round numbers.
const EXACT_FIELDS: &str = "exact_fields";

/// The body of a reply.
#[derive(Debug, Deserialize)]
pub(super) struct QdrantReply<T> {
    pub(super) result: T,
}

/// The name and version of a server.
#[derive(Debug, Deserialize)]
pub(super) struct QdrantVersion {
    pub(super) title: String,
    pub(super) version: String,
}

/// The names of all collections.
#[derive(Debug, Deserialize)]
pub(super) struct QdrantNames {
    pub(super) collections: Vec<QdrantName>,
}

#[derive(Debug, Deserialize)]
pub(super) struct QdrantName {
    pub(super) name: String,
}

/// All aliases.
#[derive(Debug, Deserialize)]
pub(super) struct QdrantAliases {
    pub(super) aliases: Vec<QdrantAlias>,
}

#[derive(Debug, Deserialize)]
pub(super) struct QdrantAlias {
    pub(super) alias_name: String,
    pub(super) collection_name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct QdrantCount {
    pub(super) count: u64,
}

/// What came of a write.
#[derive(Debug, Deserialize)]
pub(super) struct QdrantUpdate {
    pub(super) status: String,
}

/// Points of a `scroll`.
#[derive(Debug, Deserialize)]
pub(super) struct QdrantPage {
    pub(super) points: Vec<QdrantPoint>,
    #[serde(default)]
    pub(super) next_page_offset: Option<PointId>,
}

/// Points of a `query`.
#[derive(Debug, Deserialize)]
pub(super) struct QdrantFound {
    pub(super) points: Vec<QdrantPoint>,
}

#[derive(Debug, Deserialize)]
pub(super) struct QdrantPoint {
    pub(super) id: PointId,
    #[serde(default)]
    pub(super) score: f32,
    #[serde(default)]
    pub(super) payload: Option<Map<String, Value>>,
    #[serde(default)]
    pub(super) vector: Value,
}

/// The id of a point: a number, or a UUID in lower case with hyphens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum PointId {
    Number(u64),
    Uuid(String),
}

impl PointId {
    /// The id of a record; none if Qdrant can have no such id.
    pub(super) fn of(place: &CollectionPlace, id: &RecordId) -> Option<Self> {
        match (id, &place.layout) {
            (RecordId::Number(number), _) => Some(Self::Number(*number)),
            (RecordId::Text(_), RecordLayout::Filled) => None,
            (RecordId::Text(text), RecordLayout::Existing(_)) => {
                let number = text.parse().ok().filter(|number: &u64| number.to_string() == *text);
                number.map(Self::Number).or_else(|| uuid(text).map(Self::Uuid))
            }
        }
    }

    pub(super) fn record_id(self) -> RecordId {
        match self {
            Self::Number(number) => RecordId::Number(number),
            Self::Uuid(text) => RecordId::Text(text),
        }
    }
}

/// A UUID as Qdrant returns it; none if the text is not one in a form that Qdrant takes.
fn uuid(text: &str) -> Option<String> {
    let bare = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let bare = bare.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(bare);
    let hyphens: Vec<usize> = bare.match_indices('-').map(|(place, _)| place).collect();
    let digits: String = bare.chars().filter(|character| *character != '-').collect();
    let is_uuid = (hyphens.is_empty() || hyphens == [8, 13, 18, 23])
        && digits.len() == 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = digits.to_ascii_lowercase();
    is_uuid.then(|| {
        format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
    })
}

/// A collection as the server describes it.
#[derive(Debug, Deserialize)]
pub(super) struct QdrantInfo {
    pub(super) status: String,
    #[serde(default)]
    pub(super) optimizer_status: Value,
    #[serde(default)]
    pub(super) indexed_vectors_count: Option<u64>,
    #[serde(default)]
    pub(super) points_count: Option<u64>,
    config: QdrantConfig,
    #[serde(default)]
    pub(super) payload_schema: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct QdrantConfig {
    params: QdrantParams,
    hnsw_config: HnswSettings,
    optimizer_config: OptimizerSettings,
}

#[derive(Debug, Deserialize)]
struct QdrantParams {
    #[serde(default)]
    vectors: Value,
    #[serde(default)]
    sparse_vectors: Option<Map<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
struct HnswSettings {
    #[serde(default)]
    m: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct OptimizerSettings {
    #[serde(default)]
    indexing_threshold: Option<u64>,
}

/// A vector that all points of a collection may have.
#[derive(Debug, Deserialize)]
pub(super) struct VectorSettings {
    pub(super) size: usize,
    distance: String,
    #[serde(default)]
    hnsw_config: Option<HnswSettings>,
    #[serde(default)]
    multivector_config: Option<Value>,
}

impl VectorSettings {
    /// How it is compared.
    pub(super) fn metric(&self) -> Result<VectorMetric, DatabaseProblem> {
        match self.distance.as_str() {
            "Cosine" => Ok(VectorMetric::Cosine),
            "Dot" => Ok(VectorMetric::InnerProduct),
            "Euclid" => Ok(VectorMetric::Euclidean),
            other => Err(DatabaseProblem::InvalidSettings {
                reason: format!(
                    "its vectors are compared by the distance {}, and only those with Cosine, Dot or Euclid can be searched",
                    other.chars().take(40).collect::<String>()
                ),
            }),
        }
    }
}

impl QdrantInfo {
    /// Its vectors by name; the unnamed one has an empty name. Points with several vectors of one name are left out.
    pub(super) fn vectors(&self) -> Result<BTreeMap<String, VectorSettings>, DatabaseProblem> {
        let vectors = match &self.config.params.vectors {
            Value::Object(vectors) => vectors,
            _ => return Ok(BTreeMap::new()),
        };
        let read = |value: &Value| {
            VectorSettings::deserialize(value).map_err(|error| DatabaseProblem::Malformed { reason: error.to_string() })
        };
        let mut all = BTreeMap::new();
        match vectors.get("size").is_some_and(Value::is_number) {
            true => drop(all.insert(String::new(), read(&self.config.params.vectors)?)),
            false => {
                for (name, value) in vectors {
                    all.insert(name.clone(), read(value)?);
                }
            }
        }
        all.retain(|_, vector| vector.multivector_config.is_none());
        Ok(all)
    }

    /// Whether the server may build a graph for this vector.
    pub(super) fn has_graph(&self, vector: &VectorSettings) -> bool {
        let own = vector.hnsw_config.as_ref().and_then(|settings| settings.m);
        own.or(self.config.hnsw_config.m) != Some(0)
    }

    /// The key of the task that fills it, if Reverie made it.
    pub(super) fn key(&self) -> Option<String> {
        let names = self.config.params.sparse_vectors.as_ref()?;
        let encoded = names.keys().find_map(|name| name.strip_prefix(MARK))?;
        Some(percent_decode_str(encoded).decode_utf8().ok()?.into_owned())
    }

    /// Whether graphs of large parts are built.
    pub(super) fn is_indexing(&self) -> bool {
        self.config.optimizer_config.indexing_threshold != Some(0)
    }
}

/// The body that makes a collection.
pub(super) fn creation(spec: &CollectionSpec) -> Result<Value, DatabaseProblem> {
    let refuse = |reason: String| DatabaseProblem::InvalidSettings { reason };
    let graph = match spec.index {
        SearchIndexSpec::Exact => json!({ "m": 0 }),
        SearchIndexSpec::Hnsw { m, ef_construction, .. } => json!({ "m": m, "ef_construct": ef_construction }),
        SearchIndexSpec::Ivfflat { .. } => return Err(refuse("Qdrant has the index `hnsw` or none".to_owned())),
    };
    let mark = format!("{MARK}{}", utf8_percent_encode(&spec.key, NON_ALPHANUMERIC));
    if mark.len() > MAX_NAME {
        return Err(refuse(format!("the key of the task is longer than {} bytes", MAX_NAME - MARK.len())));
    }
    let (datatype, quantization) = match spec.precision {
        StoredPrecision::F32 => ("float32", None),
        StoredPrecision::F16 => ("float16", None),
        StoredPrecision::Int8 => ("float32", Some(json!({ "scalar": { "type": "int8", "always_ram": true } }))),
        StoredPrecision::Binary => ("float32", Some(json!({ "binary": { "always_ram": true } }))),
    };
    let mut vectors = Map::new();
    let vector = json!({ "size": spec.dimensions, "distance": "Cosine", "datatype": datatype });
    vectors.insert(VECTOR.to_owned(), vector);
    let mut sparse_vectors = Map::new();
    sparse_vectors.insert(mark, json!({}));
    Ok(json!({
        "vectors": vectors,
        "sparse_vectors": sparse_vectors,
        "hnsw_config": graph,
        "quantization_config": quantization,
        // A graph that grows with each part is built several times.
        "optimizers_config": { "indexing_threshold": 0 },
        // Qdrant's cloud refuses filters on fields without an index of their own, unless this is off.
        "strict_mode_config": { "enabled": false },
    }))
}

/// A record as Qdrant takes it.
pub(super) fn point_body(record: &IndexedRecord) -> Result<Vec<u8>, DatabaseProblem> {
    let RecordId::Number(id) = &record.id else {
        let reason = "its id is not a number, and records of collections that Reverie fills have numbers";
        return Err(DatabaseProblem::InvalidRecord { id: record.id.clone(), reason: reason.to_owned() });
    };
    #[derive(Serialize)]
    struct Point<'a> {
        id: u64,
        vector: Vectors<'a>,
        payload: Payload<'a>,
    }
    #[derive(Serialize)]
    struct Vectors<'a> {
        embedding: &'a [f32],
    }
    #[derive(Serialize)]
    struct Payload<'a> {
        text: &'a str,
        fields: &'a Map<String, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        exact_fields: Option<String>,
    }
    let malformed = |error: serde_json::Error| DatabaseProblem::Malformed { reason: error.to_string() };
    let exact = record.fields.values().any(has_fraction).then(|| serde_json::to_string(&record.fields)).transpose();
    let payload = Payload { text: &record.text, fields: &record.fields, exact_fields: exact.map_err(malformed)? };
    let point = Point { id: *id, vector: Vectors { embedding: &record.vector }, payload };
    serde_json::to_vec(&point).map_err(malformed)
}

/// Whether there is a number that is no integer: Qdrant may read it with an error of the last bit.
fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(values) => values.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// The point with the manifest. It has no vector, so that no search finds it.
pub(super) fn manifest_body(manifest: &IndexManifest) -> Result<Vec<u8>, DatabaseProblem> {
    let malformed = |error: serde_json::Error| DatabaseProblem::Malformed { reason: error.to_string() };
    let text = serde_json::to_string(manifest).map_err(malformed)?;
    serde_json::to_vec(&json!({ "id": MANIFEST_ID, "vector": {}, "payload": { MANIFEST: text } })).map_err(malformed)
}

/// Qdrant's path of a field that a filter names, if it has one.
pub(super) fn key_of_field(place: &CollectionPlace, field: &str) -> Option<String> {
    let existing = match &place.layout {
        RecordLayout::Filled => return key_of_path(&[FIELDS.to_owned(), field.to_owned()]),
        RecordLayout::Existing(existing) => existing,
    };
    let path = match (existing.fields.get(field), &existing.metadata) {
        (Some(key), _) => path_of_key(key),
        (None, Some(metadata)) => [path_of_key(metadata), vec![field.to_owned()]].concat(),
        (None, None) => vec![field.to_owned()],
    };
    key_of_path(&path)
}

/// Text and fields of a record.
pub(super) fn content(place: &CollectionPlace, payload: Option<Map<String, Value>>) -> RecordContent {
    let mut payload = payload.unwrap_or_default();
    let text_of = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let existing = match &place.layout {
        RecordLayout::Filled => {
            let text = text_of(payload.get(TEXT));
            let exact = payload.get(EXACT_FIELDS).and_then(Value::as_str);
            let fields = match (exact.and_then(|exact| serde_json::from_str(exact).ok()), payload.remove(FIELDS)) {
                (Some(exact), _) => exact,
                (None, Some(Value::Object(fields))) => fields,
                (None, _) => Map::new(),
            };
            return RecordContent { text, fields };
        }
        RecordLayout::Existing(existing) => existing,
    };
    let text_path = existing.text.as_deref().map(path_of_key).unwrap_or_default();
    let text = text_of(value_at(&payload, &text_path));
    let named: Vec<(&String, Option<Value>)> =
        existing.fields.iter().map(|(field, key)| (field, value_at(&payload, &path_of_key(key)).cloned())).collect();
    let mut fields = match &existing.metadata {
        Some(key) => value_at(&payload, &path_of_key(key)).and_then(Value::as_object).cloned().unwrap_or_default(),
        None => {
            if let [key] = &text_path[..] {
                payload.remove(key);
            }
            payload
        }
    };
    for (field, value) in named {
        match value {
            Some(value) => fields.insert(field.clone(), value),
            // The name stands for another key, which this record does not have.
            None => fields.remove(field),
        };
    }
    RecordContent { text, fields }
}

/// The numbers of a point's vector.
pub(super) fn vector_of(value: Value, name: &str) -> Vec<f32> {
    let value = match value {
        Value::Object(mut vectors) => vectors.remove(name).unwrap_or_default(),
        value => value,
    };
    serde_json::from_value(value).unwrap_or_default()
}

/// What a reply with an error status means. `shown` makes text of the server fit for an error.
pub(super) fn refusal(reply: &HttpReply, shown: impl Fn(&str) -> String) -> DatabaseProblem {
    let text = reply.body.get("status").and_then(|status| status.get("error")).and_then(Value::as_str);
    let message = shown(text.or_else(|| reply.body.as_str()).unwrap_or_default());
    let is_too_large = message.contains("is larger than allowed") || message.contains("has exceeded limit");
    match reply.status {
        StatusCode::UNAUTHORIZED => DatabaseProblem::Credentials { message },
        StatusCode::FORBIDDEN => DatabaseProblem::Permission { message },
        StatusCode::PAYLOAD_TOO_LARGE => DatabaseProblem::TooLarge { reason: format!("the request: {message}") },
        status if text.is_none() => {
            DatabaseProblem::Malformed { reason: format!("status {status}, and not an error of Qdrant: {message}") }
        }
        StatusCode::NOT_FOUND if message.contains("Collection") => DatabaseProblem::MissingCollection,
        StatusCode::REQUEST_TIMEOUT => DatabaseProblem::Busy { message, retry_after: None },
        StatusCode::BAD_REQUEST if is_too_large => DatabaseProblem::TooLarge { reason: message },
        _ if message.contains("already exists") => DatabaseProblem::ForeignCollection,
        status => match dimensions_in(&message) {
            Some(problem) => problem,
            None => DatabaseProblem::Refused { message: format!("{message} (status {status})") },
        },
    }
}

fn dimensions_in(message: &str) -> Option<DatabaseProblem> {
    let (_, rest) = message.split_once("Vector dimension error: expected dim: ")?;
    let (found, rest) = rest.split_once(", got ")?;
    let expected = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    Some(DatabaseProblem::Dimensions { found: found.parse().ok()?, expected: expected.parse().ok()? })
}
