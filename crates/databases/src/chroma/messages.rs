//! What Chroma sends and takes.

use super::condition::metadata;
use crate::{
    CollectionPlace, DatabaseProblem, IndexManifest, IndexedRecord, RecordContent, RecordId, RecordLayout,
    VectorMetric, json_client::HttpReply,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The key of a collection's metadata with the manifest.
pub(super) const MANIFEST: &str = "reverie_manifest";
/// The key of a collection's metadata that makes it an alias, with the name of its collection.
pub(super) const ALIAS: &str = "reverie_alias_of";
/// The key of a record's metadata with all fields as JSON text.
const FIELDS: &str = "reverie_fields";

/// A collection as the server describes it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ChromaCollection {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    pub(super) dimension: Option<usize>,
    #[serde(default)]
    configuration_json: Value,
}

impl ChromaCollection {
    fn text(&self, key: &str) -> Option<&str> {
        self.metadata.as_ref()?.get(key)?.as_str()
    }

    /// The manifest, if Reverie fills the collection.
    pub(super) fn manifest(&self) -> Result<Option<IndexManifest>, DatabaseProblem> {
        self.text(MANIFEST).map(IndexManifest::read).transpose()
    }

    /// The collection to which it points, if it is an alias.
    pub(super) fn alias_of(&self) -> Option<&str> {
        self.text(ALIAS)
    }

    /// How it compares vectors.
    pub(super) fn metric(&self) -> Option<VectorMetric> {
        let of = |kind: &str| self.configuration_json.get(kind)?.get("space")?.as_str();
        match of("hnsw").or_else(|| of("spann"))? {
            "cosine" => Some(VectorMetric::Cosine),
            "ip" => Some(VectorMetric::InnerProduct),
            "l2" => Some(VectorMetric::Euclidean),
            _ => None,
        }
    }
}

/// The metadata of records.
type RecordMetadata = Vec<Option<Map<String, Value>>>;

/// Records of a reply to `get`; lists that were not asked for are missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChromaGetReply {
    pub(super) ids: Vec<String>,
    pub(super) embeddings: Option<Vec<Option<Vec<f32>>>>,
    pub(super) documents: Option<Vec<Option<String>>>,
    pub(super) metadatas: Option<RecordMetadata>,
}

/// Records of a reply to `query`: one list for each query.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChromaQueryReply {
    ids: Vec<Vec<String>>,
    documents: Option<Vec<Vec<Option<String>>>>,
    metadatas: Option<Vec<RecordMetadata>>,
    distances: Option<Vec<Vec<Option<f64>>>>,
}

impl ChromaQueryReply {
    /// The records of the only query, and their distances.
    pub(super) fn only(self) -> (ChromaGetReply, Vec<Option<f64>>) {
        fn first<T>(lists: Vec<Vec<T>>) -> Vec<T> {
            lists.into_iter().next().unwrap_or_default()
        }
        let records = ChromaGetReply {
            ids: first(self.ids),
            embeddings: None,
            documents: self.documents.map(first),
            metadatas: self.metadatas.map(first),
        };
        (records, self.distances.map(first).unwrap_or_default())
    }
}

/// The body of an `upsert`.
#[derive(Serialize)]
struct Upsert<'a> {
    ids: Vec<String>,
    embeddings: Vec<EncodedVector<'a>>,
    documents: Vec<&'a str>,
    metadatas: Vec<Map<String, Value>>,
}

/// A vector as base64 of little-endian numbers, which is shorter and faster, or as a list.
#[derive(Serialize)]
#[serde(untagged)]
enum EncodedVector<'a> {
    Base64(String),
    Numbers(&'a [f32]),
}

/// The body that writes these records.
pub(super) fn upsert_body(records: &[IndexedRecord], is_base64: bool) -> Result<Bytes, serde_json::Error> {
    let encode = |vector: &'_ [f32]| {
        let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        BASE64_STANDARD.encode(bytes)
    };
    let embeddings = records.iter().map(|record| match is_base64 {
        true => EncodedVector::Base64(encode(&record.vector)),
        false => EncodedVector::Numbers(&record.vector),
    });
    let mut metadatas = Vec::with_capacity(records.len());
    for record in records {
        let mut all = metadata(&record.fields);
        all.insert(FIELDS.to_owned(), serde_json::to_string(&record.fields)?.into());
        metadatas.push(all);
    }
    let body = Upsert {
        ids: records.iter().map(|record| id_text(&record.id)).collect(),
        embeddings: embeddings.collect(),
        documents: records.iter().map(|record| record.text.as_str()).collect(),
        metadatas,
    };
    serde_json::to_vec(&body).map(Bytes::from)
}

/// An id as Chroma has it. Numbers have leading zeros, so that their texts have the same order.
pub(super) fn id_text(id: &RecordId) -> String {
    match id {
        RecordId::Number(number) => format!("{number:020}"),
        RecordId::Text(text) => text.clone(),
    }
}

pub(super) fn id_of(place: &CollectionPlace, text: String) -> RecordId {
    match (&place.layout, text.parse()) {
        (RecordLayout::Filled, Ok(number)) => RecordId::Number(number),
        _ => RecordId::Text(text),
    }
}

/// Text and fields of a record.
pub(super) fn content(
    place: &CollectionPlace,
    document: Option<String>,
    metadata: Option<Map<String, Value>>,
) -> RecordContent {
    let mut metadata = metadata.unwrap_or_default();
    let fields = match &place.layout {
        RecordLayout::Filled => {
            let text = metadata.get(FIELDS).and_then(Value::as_str).unwrap_or("{}");
            let fields = serde_json::from_str(text).unwrap_or_default();
            return RecordContent { text: document.unwrap_or_default(), fields };
        }
        RecordLayout::Existing(fields) => fields,
    };
    let text = match &fields.text {
        None => document,
        Some(key) => metadata.get(key).and_then(Value::as_str).map(str::to_owned),
    };
    for (field, key) in &fields.fields {
        match metadata.get(key).cloned() {
            Some(value) => metadata.insert(field.clone(), value),
            // The name stands for another key, which this record does not have.
            None => metadata.remove(field),
        };
    }
    RecordContent { text: text.unwrap_or_default(), fields: metadata }
}

/// What a reply with an error status means. `shown` makes text of the server fit for an error.
pub(super) fn refusal(reply: &HttpReply, shown: impl Fn(&str) -> String) -> DatabaseProblem {
    let text = |key: &str| reply.body.get(key).and_then(Value::as_str);
    let is_chroma = text("error").is_some();
    let message = shown(text("message").or_else(|| reply.body.as_str()).unwrap_or_default());
    match reply.status {
        StatusCode::UNAUTHORIZED => DatabaseProblem::Credentials { message },
        StatusCode::FORBIDDEN => DatabaseProblem::Permission { message },
        StatusCode::PAYLOAD_TOO_LARGE => DatabaseProblem::TooLarge { reason: format!("the request: {message}") },
        StatusCode::NOT_FOUND if is_chroma && message.starts_with("Collection") => DatabaseProblem::MissingCollection,
        StatusCode::NOT_FOUND if is_chroma => DatabaseProblem::InvalidSettings { reason: message },
        status if !is_chroma => DatabaseProblem::Malformed {
            reason: format!("status {status}, and not an error of Chroma 1.0 or newer: {message}"),
        },
        status => match dimensions_in(&message) {
            Some(problem) => problem,
            None => DatabaseProblem::Refused { message: format!("{message} (status {status})") },
        },
    }
}

fn dimensions_in(message: &str) -> Option<DatabaseProblem> {
    let (_, rest) = message.split_once("expecting embedding with dimension of ")?;
    let (found, rest) = rest.split_once(", got ")?;
    Some(DatabaseProblem::Dimensions { found: found.parse().ok()?, expected: rest.trim().parse().ok()? })
}
