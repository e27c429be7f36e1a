//! What is known about a collection: its fields, its index, and how records are read from it.

use super::{
    field_data::{FieldData, column, data_type},
    messages::{CollectionSchema, DescribeCollectionReply, FieldSchema, IndexDescription, KeyValue},
};
use crate::{
    CollectionPlace, DatabaseProblem, ExistingFields, IndexManifest, RecordContent, RecordLayout,
    SearchIndexDescription, VectorMetric,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The property of a collection with the manifest.
pub(super) const MANIFEST: &str = "reverie_manifest";
/// The field of all fields that a collection's schema does not declare.
pub(super) const DYNAMIC: &str = "$meta";

/// The fields of a collection that Reverie fills.
pub(super) mod filled {
    pub(in crate::milvus) const ID: &str = "id";
    pub(in crate::milvus) const VECTOR: &str = "vector";
    pub(in crate::milvus) const TEXT: &str = "text";
    /// Pieces of a text after the first one, which `text` holds.
    pub(in crate::milvus) const TEXT_REST: &str = "text_rest";
    pub(in crate::milvus) const FIELDS: &str = "fields";
    /// How exactly Milvus can compare a record's fields: a `FieldsKind`.
    pub(in crate::milvus) const FIELDS_KIND: &str = "fields_kind";
}

/// A collection as the server describes it.
#[derive(Debug)]
pub(super) struct MilvusCollection {
    /// Its own name, also where it was found by an alias.
    pub(super) name: String,
    schema: CollectionSchema,
    properties: Vec<KeyValue>,
}

fn value_of<'a>(pairs: &'a [KeyValue], key: &str) -> Option<&'a str> {
    pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
}

impl MilvusCollection {
    pub(super) fn new(reply: DescribeCollectionReply) -> Self {
        let schema = reply.schema.unwrap_or_default();
        let name = if reply.collection_name.is_empty() { schema.name.clone() } else { reply.collection_name };
        Self { name, schema, properties: reply.properties }
    }

    /// The manifest, if Reverie fills the collection.
    pub(super) fn manifest(&self) -> Result<Option<IndexManifest>, DatabaseProblem> {
        value_of(&self.properties, MANIFEST).map(IndexManifest::read).transpose()
    }

    pub(super) fn field(&self, name: &str) -> Option<&FieldSchema> {
        self.schema.fields.iter().find(|field| field.name == name)
    }

    pub(super) fn primary_key(&self) -> Option<&FieldSchema> {
        self.schema.fields.iter().find(|field| field.is_primary_key)
    }

    pub(super) fn has_dynamic_field(&self) -> bool {
        self.schema.enable_dynamic_field
    }

    /// The length of the vectors of a field.
    pub(super) fn dimensions(&self, vector: &str) -> Option<usize> {
        value_of(&self.field(vector)?.type_params, "dim")?.parse().ok()
    }

    /// The names and types of the fields of the schema.
    pub(super) fn types(&self) -> BTreeMap<String, String> {
        let dynamic = self.has_dynamic_field().then(|| (DYNAMIC.to_owned(), "JSON".to_owned()));
        let declared = self.schema.fields.iter().filter(|field| field.name != DYNAMIC);
        declared.map(|field| (field.name.clone(), data_type::name(field.data_type))).chain(dynamic).collect()
    }

    fn missing(&self, field: &str) -> DatabaseProblem {
        DatabaseProblem::MissingField { field: field.to_owned(), known: self.types().into_keys().collect() }
    }
}

/// The index of a vector field.
#[derive(Debug)]
pub(super) struct MilvusIndex {
    pub(super) name: String,
    /// Its kind in Milvus' words: `HNSW`.
    pub(super) kind: String,
    pub(super) metric: Option<VectorMetric>,
    pub(super) is_ready: bool,
    params: Vec<KeyValue>,
}

impl MilvusIndex {
    pub(super) fn new(description: IndexDescription) -> Self {
        let metric = match value_of(&description.params, "metric_type").unwrap_or_default() {
            "COSINE" => Some(VectorMetric::Cosine),
            "IP" => Some(VectorMetric::InnerProduct),
            "L2" => Some(VectorMetric::Euclidean),
            _ => None,
        };
        let kind = value_of(&description.params, "index_type").unwrap_or_default().to_owned();
        let is_ready = description.state == 3 && description.pending_rows == 0;
        Self { name: description.index_name, kind, metric, is_ready, params: description.params }
    }

    /// Whether every vector is compared.
    pub(super) fn is_exact(&self) -> bool {
        matches!(self.kind.as_str(), "FLAT" | "BRUTE_FORCE")
    }

    /// A parameter with which it was built. Servers return them as a JSON object, or one by one.
    pub(super) fn param(&self, name: &str) -> Option<u64> {
        let all = value_of(&self.params, "params").and_then(|text| serde_json::from_str::<Value>(text).ok());
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let among = all.as_ref().and_then(|all| all.get(name)).and_then(number);
        among.or_else(|| value_of(&self.params, name)?.parse().ok())
    }

    pub(super) fn description(&self) -> Option<SearchIndexDescription> {
        let kind = match self.kind.as_str() {
            "IVF_FLAT" => "ivfflat".to_owned(),
            kind => kind.to_lowercase(),
        };
        self.metric.map(|metric| SearchIndexDescription { kind, metric, is_ready: self.is_ready, bytes: None })
    }
}

/// How records of a collection are read.
#[derive(Debug)]
pub(super) struct RecordShape {
    pub(super) collection: MilvusCollection,
    pub(super) layout: RecordLayout,
    pub(super) metric: VectorMetric,
    /// The field with the vector, and its length.
    pub(super) vector: String,
    pub(super) dimensions: usize,
    /// The primary key, by which records are ordered, and the field that identifies records to the caller.
    pub(super) key: FieldSchema,
    pub(super) id: FieldSchema,
    /// Fields with text and fields.
    pub(super) content: Vec<String>,
    /// The field with the words of each text.
    pub(super) words: Option<String>,
    pub(super) index: Option<MilvusIndex>,
}

impl RecordShape {
    /// Fails if a field is missing or has a type that cannot be used.
    pub(super) fn new(
        collection: MilvusCollection,
        place: &CollectionPlace,
        index: Option<MilvusIndex>,
    ) -> Result<Self, DatabaseProblem> {
        let key = collection.primary_key().cloned().ok_or(DatabaseProblem::NoKey)?;
        let (vector, id, content) = match &place.layout {
            RecordLayout::Filled if collection.manifest()?.is_none() => {
                return Err(DatabaseProblem::ForeignCollection);
            }
            RecordLayout::Filled => {
                let content = [filled::TEXT, filled::TEXT_REST, filled::FIELDS].map(str::to_owned).to_vec();
                (filled::VECTOR.to_owned(), key.clone(), content)
            }
            RecordLayout::Existing(fields) => {
                let id = match &fields.id {
                    None => key.clone(),
                    Some(id) => collection.field(id).cloned().ok_or_else(|| collection.missing(id))?,
                };
                (fields.vector.clone(), id, existing_content(&collection, fields, &key)?)
            }
        };
        let field = collection.field(&vector).ok_or_else(|| collection.missing(&vector))?;
        let Some(dimensions) = collection.dimensions(&vector).filter(|_| field.data_type == data_type::FLOAT_VECTOR)
        else {
            let reason = format!(
                "the field `{vector}` is of the type {}; it must be a FloatVector",
                data_type::name(field.data_type)
            );
            return Err(DatabaseProblem::InvalidSettings { reason });
        };
        if let Some(found) = index.as_ref().and_then(|index| index.metric).filter(|found| *found != place.metric()) {
            return Err(DatabaseProblem::OtherMetric { expected: place.metric(), found });
        }
        let words = match &place.layout {
            RecordLayout::Filled => None,
            RecordLayout::Existing(fields) => fields.text_search.as_ref().and_then(|search| search.words.clone()),
        };
        if let Some(words) = &words {
            let field = collection.field(words).ok_or_else(|| collection.missing(words))?;
            if field.data_type != data_type::SPARSE_VECTOR {
                let kind = data_type::name(field.data_type);
                let reason =
                    format!("the field `{words}` is of the type {kind}; a field of words is a SparseFloatVector");
                return Err(DatabaseProblem::InvalidSettings { reason });
            }
        }
        let (layout, metric) = (place.layout.clone(), place.metric());
        Ok(Self { collection, layout, metric, vector, dimensions, key, id, content, words, index })
    }

    /// Whether every vector is compared in a search.
    pub(super) fn is_exact(&self) -> bool {
        self.index.as_ref().is_some_and(MilvusIndex::is_exact)
    }

    /// The fields of the schema that filters look at.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        let is_text = |name: &str| self.layout == RecordLayout::Filled && name != filled::FIELDS;
        self.content.iter().map(String::as_str).filter(move |name| !is_text(name))
    }

    /// Text and fields of a row.
    pub(super) fn content_of(&self, columns: &[FieldData], row: usize) -> RecordContent {
        let text =
            |name: &str| column(columns, name).and_then(|column| column.text(row)).unwrap_or_default().to_owned();
        let value = |name: &str| column(columns, name).map_or(Value::Null, |column| column.value(row));
        let fields = match &self.layout {
            RecordLayout::Filled => {
                let mut text = text(filled::TEXT);
                if let Value::Array(pieces) = value(filled::TEXT_REST) {
                    pieces.iter().filter_map(Value::as_str).for_each(|piece| text.push_str(piece));
                }
                return RecordContent { text, fields: object(value(filled::FIELDS)) };
            }
            RecordLayout::Existing(fields) => fields,
        };
        let dynamic = object(value(DYNAMIC));
        let at = |path: &str| match self.source(path) {
            FieldSource::Declared(field) => Some(value(&field.name)).filter(|value| !value.is_null()),
            FieldSource::Key { field, key } if field == DYNAMIC => dynamic.get(key).cloned(),
            FieldSource::Key { field, key } => object(value(field)).remove(key),
            FieldSource::Absent => None,
        };
        let mut all = match fields.metadata.as_deref() {
            Some(DYNAMIC) => dynamic.clone(),
            Some(metadata) => object(value(metadata)),
            None => {
                let declared =
                    self.content.iter().filter(|name| *name != DYNAMIC && Some(*name) != fields.text.as_ref());
                let mut all: Map<String, Value> = declared.map(|name| (name.clone(), value(name))).collect();
                all.retain(|_, value| !value.is_null());
                all.extend(dynamic.clone());
                all
            }
        };
        for (name, path) in &fields.fields {
            match at(path) {
                Some(value) => all.insert(name.clone(), value),
                // The name stands for another field, which this record does not have.
                None => all.remove(name),
            };
        }
        let text = fields.text.as_deref().and_then(|path| match at(path)? {
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        });
        RecordContent { text: text.unwrap_or_default(), fields: all }
    }

    /// Where the values of a field that a filter names are.
    pub(super) fn filtered<'a>(&'a self, field: &'a str) -> FieldSource<'a> {
        let fields = match &self.layout {
            RecordLayout::Filled => return FieldSource::Key { field: filled::FIELDS, key: field },
            RecordLayout::Existing(fields) => fields,
        };
        match (fields.fields.get(field), &fields.metadata) {
            (Some(path), _) => self.source(path),
            (None, Some(metadata)) => FieldSource::Key { field: metadata, key: field },
            // Here a dot is part of the name.
            (None, None) => match self.collection.field(field) {
                Some(declared) => FieldSource::Declared(declared),
                None if self.collection.has_dynamic_field() => FieldSource::Key { field: DYNAMIC, key: field },
                None => FieldSource::Absent,
            },
        }
    }

    fn source<'a>(&'a self, path: &'a str) -> FieldSource<'a> {
        source(&self.collection, path)
    }
}

/// Where the values of a field are.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldSource<'a> {
    /// In a field of the schema.
    Declared(&'a FieldSchema),
    /// In an object that a field of the schema or the dynamic field holds.
    Key { field: &'a str, key: &'a str },
    /// Nowhere.
    Absent,
}

/// `meta.author` is a key of the field `meta`; what the schema does not declare is in the dynamic field.
fn source<'a>(collection: &'a MilvusCollection, path: &'a str) -> FieldSource<'a> {
    if let Some(field) = collection.field(path).filter(|_| path != DYNAMIC) {
        return FieldSource::Declared(field);
    }
    let is_object = |field: &str| match field {
        DYNAMIC => collection.has_dynamic_field(),
        field => collection.field(field).is_some_and(|field| field.data_type == data_type::JSON),
    };
    match path.split_once('.') {
        Some((field, key)) if is_object(field) => FieldSource::Key { field, key },
        _ if collection.has_dynamic_field() => FieldSource::Key { field: DYNAMIC, key: path },
        _ => FieldSource::Absent,
    }
}

fn existing_content(
    collection: &MilvusCollection,
    fields: &ExistingFields,
    key: &FieldSchema,
) -> Result<Vec<String>, DatabaseProblem> {
    let mut content: Vec<String> = Vec::new();
    for path in fields.text.iter().chain(fields.fields.values()) {
        match source(collection, path) {
            FieldSource::Declared(field) => content.push(field.name.clone()),
            FieldSource::Key { field, .. } => content.push(field.to_owned()),
            FieldSource::Absent => return Err(collection.missing(path)),
        }
    }
    match fields.metadata.as_deref() {
        Some(DYNAMIC) if collection.has_dynamic_field() => content.push(DYNAMIC.to_owned()),
        Some(metadata) if collection.field(metadata).is_none() => return Err(collection.missing(metadata)),
        Some(metadata) => content.push(metadata.to_owned()),
        None => {
            let named = |field: &&FieldSchema| field.name != key.name && Some(&field.name) != fields.id.as_ref();
            let declared = collection.schema.fields.iter().filter(|field| !data_type::is_vector(field.data_type));
            content.extend(declared.filter(named).map(|field| field.name.clone()));
            if collection.has_dynamic_field() {
                content.push(DYNAMIC.to_owned());
            }
        }
    }
    content.sort();
    content.dedup();
    Ok(content)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
