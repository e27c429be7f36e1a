//! Records of a collection: an id, a vector, a text and fields.

use crate::{DatabaseProblem, RecordId};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// How far the length of a vector may be from 1.
const UNIT_TOLERANCE: f32 = 0.01;

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedRecord {
    /// Its id.
    pub id: RecordId,
    /// Its vector; of length 1 where Reverie fills the collection.
    pub vector: Vec<f32>,
    /// Its text.
    pub text: String,
    /// What else is known about it, by name.
    pub fields: Map<String, Value>,
}

/// A record that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundRecord {
    /// Its id.
    pub id: RecordId,
    /// The cosine of the angle between its vector and that of the query: -1 to 1. Of a full-text search: the database's
    /// own score.
    pub score: f32,
    /// Text and fields, if the search asked for them.
    pub content: Option<RecordContent>,
}

/// Text and fields of a record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordContent {
    /// Its text.
    pub text: String,
    /// What else is known about it, by name.
    pub fields: Map<String, Value>,
}

/// Orders by score, the best first, and equal scores by id, because databases order those as they like. Keeps `top`.
pub(crate) fn rank(found: &mut Vec<FoundRecord>, top: usize) {
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
    found.truncate(top);
}

/// Checks records that are to be stored: `dimensions` numbers of length 1 each, and no id twice.
pub(crate) fn check_records(records: &[IndexedRecord], dimensions: usize) -> Result<(), DatabaseProblem> {
    let mut ids = HashSet::with_capacity(records.len());
    for record in records {
        let refuse = |reason: String| Err(DatabaseProblem::InvalidRecord { id: record.id.clone(), reason });
        if record.vector.len() != dimensions {
            return Err(DatabaseProblem::Dimensions { expected: record.vector.len(), found: dimensions });
        }
        let norm = record.vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        if norm.is_nan() || (norm - 1.0).abs() > UNIT_TOLERANCE {
            return refuse(format!("its vector has the length {norm}, and only vectors of length 1 can be compared"));
        }
        if !ids.insert(&record.id) {
            return refuse("another record of the same part has this id".to_owned());
        }
    }
    Ok(())
}

/// The first text of a record with a null character, which some databases cannot store.
pub(crate) fn null_character(record: &IndexedRecord) -> Option<String> {
    let has_null = |text: &str| text.contains('\0');
    if has_null(&record.text) {
        return Some("its text".to_owned());
    }
    fn anywhere(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains('\0'),
            Value::Array(values) => values.iter().any(anywhere),
            Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || anywhere(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    let (name, _) = record.fields.iter().find(|(name, value)| has_null(name) || anywhere(value))?;
    Some(format!("its field `{}`", name.replace('\0', "\\0")))
}
