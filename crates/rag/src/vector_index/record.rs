//! What is written into a database that is filled with chunks.

use crate::{Error, TableChunk, component::ensure, database::DatabaseSettings};
use databases::{IndexedRecord, RecordId, SearchIndexSpec, StoredPrecision};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The field of a record with the place of its chunk in the document. The other fields are those that filters name.
const PLACE: &str = "reverie";

/// How precisely a database stores vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VectorPrecision {
    /// 32 bits a number.
    F32,
    /// 16 bits a number.
    F16,
    /// 32 bits a number, and a copy of 8 bits a number that the index searches.
    Int8,
    /// 32 bits a number, and a copy of one bit a number that the index searches.
    Binary,
}

impl From<VectorPrecision> for StoredPrecision {
    fn from(precision: VectorPrecision) -> Self {
        match precision {
            VectorPrecision::F32 => Self::F32,
            VectorPrecision::F16 => Self::F16,
            VectorPrecision::Int8 => Self::Int8,
            VectorPrecision::Binary => Self::Binary,
        }
    }
}

/// The settings of a database that is filled.
pub(crate) trait FilledDatabase: DatabaseSettings {
    /// The search index of its collections.
    fn search_index(&self) -> SearchIndexSpec;

    /// How precisely it stores vectors.
    fn precision(&self) -> StoredPrecision {
        StoredPrecision::F32
    }

    /// The name of a collection, where the database wants more than the name alone.
    fn collection(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// Checks the settings of an index over a smaller copy of the vectors.
pub(super) fn check_quantized(
    component: &'static str,
    precision: StoredPrecision,
    oversampling: u32,
    is_exact: bool,
) -> Result<(), Error> {
    let reason = "`kind = \"exact\"` compares the vectors themselves, so `precision` can be `f32` or `f16`";
    ensure(component, !(precision.is_quantized() && is_exact), reason)?;
    let reason = format!("oversampling is {oversampling}, but must be from 1 to 100");
    ensure(component, (1..=100).contains(&oversampling), reason)
}

/// What decides the records and the search index of a collection, and where the collection is within the database.
pub(super) fn build_settings(settings: &dyn FilledDatabase) -> Value {
    let (index, precision) = (settings.search_index(), settings.precision());
    json!({ "index": index, "precision": precision, "within": settings.collection("") })
}

/// The record of a searchable chunk, the entry of an index, with its vector. Its fields are those that a
/// [`Filter`](crate::Filter) names (`path`, `title`, `page`, `heading` and the metadata of the document), and `reverie`
/// with the chunk's place in its document.
pub fn record_of(entry: u32, chunk: &TableChunk<'_>, vector: &[f32]) -> IndexedRecord {
    let mut fields: Map<String, Value> = chunk.metadata().into_iter().collect();
    let mut place = json!({ "number": chunk.number, "start": chunk.span.start, "end": chunk.span.end });
    if let Some(place) = place.as_object_mut() {
        let links = [("parent", chunk.parent), ("previous", chunk.previous), ("next", chunk.next)];
        place.extend(links.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?.into()))));
    }
    fields.insert(PLACE.to_owned(), place);
    for field in ["path", "title", "page", "heading"] {
        match chunk.field(field) {
            Some(value) => _ = fields.insert(field.to_owned(), value),
            None => _ = fields.remove(field),
        }
    }
    let id = RecordId::Number(entry.into());
    IndexedRecord { id, vector: vector.to_vec(), text: chunk.text.to_owned(), fields }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, ChunkTable};

    #[test]
    fn the_fields_of_a_record_are_those_that_filters_name() {
        let mut chunk = crate::retrieve::tests::Fixture::new().table.chunk(0).to_chunk();
        chunk.metadata.insert("year".to_owned(), json!(2024));
        chunk.metadata.insert("path".to_owned(), json!("not the document"));
        chunk.page = None;
        chunk.metadata.insert("page".to_owned(), json!(99));
        let table = ChunkTable::new(vec![Chunk { number: 0, ..chunk }]);
        let chunk = table.chunk(0);
        let record = record_of(7, &chunk, &[1.0]);
        assert_eq!((record.id, record.fields["year"].clone()), (RecordId::Number(7), json!(2024)));
        assert_eq!(record.fields["path"], json!(chunk.document), "a chunk's own fields come first, as in filters");
        assert!(!record.fields.contains_key("page"), "a chunk without a page meets no condition on it");
        assert_eq!(record.fields["reverie"]["number"], json!(chunk.number));
    }
}
