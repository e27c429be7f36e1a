//! Making and filling collections, and building their index.

use super::{
    MilvusDatabase,
    condition::{FieldsKind, has_id},
    field_data::{
        FieldData, IntArray, JsonArray, ListArray, LongArray, ScalarField, ScalarValues, StringArray, data_type,
    },
    messages::{
        CollectionSchema, CreateCollection, CreateIndex, Delete, FieldSchema, Flush, FlushReply, FlushStateReply,
        GetFlushState, GetLoadState, KeyValue, LoadCollection, LoadStateReply, MutationReply, OfCollection, OfIndex,
        Status, UpsertRows,
    },
    schema::{MANIFEST, filled},
};
use crate::{
    CollectionPlace, CollectionSpec, DatabaseProblem, IndexManifest, IndexedRecord, RecordId, SearchIndexSpec,
    StoredPrecision, record::check_records,
};
use prost::Message;
use serde_json::{Value, json};
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// The server refuses requests of 64 MB.
const MAX_REQUEST: usize = 16 << 20;
/// Bytes of a record in a request besides its values.
const RECORD_OVERHEAD: usize = 64;
/// The longest text of a field, and the longest JSON, in bytes.
const MAX_TEXT: usize = 65_535;
/// The most pieces of a text after the first one.
const MAX_PIECES: usize = 4096;
/// Records that one request removes.
const MAX_REMOVED: usize = 10_000;
/// How often the server is asked whether it is done.
const POLL: Duration = Duration::from_millis(200);
/// What builds an index may take as long as it takes.
const NO_LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Tries to make a collection or an index that another process makes at the same time.
const MAX_TRIES: u64 = 20;

/// An index as it should be.
struct WantedIndex {
    kind: &'static str,
    params: Value,
}

impl WantedIndex {
    fn of(index: SearchIndexSpec, rows: u64) -> Self {
        match index {
            SearchIndexSpec::Exact => Self { kind: "FLAT", params: json!({}) },
            SearchIndexSpec::Hnsw { m, ef_construction, .. } => {
                Self { kind: "HNSW", params: json!({ "M": m, "efConstruction": ef_construction }) }
            }
            SearchIndexSpec::Ivfflat { lists } => {
                Self { kind: "IVF_FLAT", params: json!({ "nlist": SearchIndexSpec::lists_for(lists, rows) }) }
            }
        }
    }
}

pub(super) fn manifest_text(manifest: &IndexManifest) -> Result<String, DatabaseProblem> {
    serde_json::to_string(manifest).map_err(|error| DatabaseProblem::Malformed { reason: error.to_string() })
}

/// The schema of a collection that Reverie fills.
fn filled_schema(name: &str, dimensions: usize) -> CollectionSchema {
    let field = |name: &str, data_type, type_params: &[(&str, usize)]| FieldSchema {
        name: name.to_owned(),
        data_type,
        type_params: type_params.iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
        ..FieldSchema::default()
    };
    let rest = field(filled::TEXT_REST, data_type::ARRAY, &[("max_capacity", MAX_PIECES), ("max_length", MAX_TEXT)]);
    CollectionSchema {
        name: name.to_owned(),
        description: "Filled by Reverie".to_owned(),
        fields: vec![
            FieldSchema { is_primary_key: true, ..field(filled::ID, data_type::INT64, &[]) },
            field(filled::VECTOR, data_type::FLOAT_VECTOR, &[("dim", dimensions)]),
            field(filled::TEXT, data_type::VARCHAR, &[("max_length", MAX_TEXT)]),
            FieldSchema { element_type: data_type::VARCHAR, ..rest },
            field(filled::FIELDS, data_type::JSON, &[]),
            field(filled::FIELDS_KIND, data_type::INT8, &[]),
        ],
        enable_dynamic_field: false,
    }
}

/// An id as Milvus stores it.
fn number(id: &RecordId) -> Option<i64> {
    match id {
        RecordId::Number(number) => i64::try_from(*number).ok(),
        RecordId::Text(_) => None,
    }
}

/// A text in pieces that a field can hold. At least one.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while rest.len() > MAX_TEXT {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_TEXT));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// The fields of a record as JSON. Fails if Milvus cannot store it.
fn fields_json(record: &IndexedRecord) -> Result<Vec<u8>, DatabaseProblem> {
    let refuse = |reason: String| DatabaseProblem::InvalidRecord { id: record.id.clone(), reason };
    let json = serde_json::to_vec(&record.fields).map_err(|error| refuse(error.to_string()))?;
    match json.len() > MAX_TEXT {
        true => {
            Err(refuse(format!("its fields are {} bytes of JSON, and Milvus stores at most {MAX_TEXT}", json.len())))
        }
        false => Ok(json),
    }
}

/// Records as columns.
fn columns(
    records: &[IndexedRecord],
    fields: Vec<Vec<u8>>,
    dimensions: usize,
) -> Result<Vec<FieldData>, DatabaseProblem> {
    let (mut ids, mut numbers) = (Vec::with_capacity(records.len()), Vec::with_capacity(records.len() * dimensions));
    let (mut texts, mut rests, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for record in records {
        let refuse = |reason: String| DatabaseProblem::InvalidRecord { id: record.id.clone(), reason };
        ids.push(number(&record.id).ok_or_else(|| refuse("its id is no number of 63 bits".to_owned()))?);
        numbers.extend_from_slice(&record.vector);
        let pieces = pieces(&record.text);
        if pieces.len() > MAX_PIECES {
            return Err(refuse(format!("its text has {} bytes", record.text.len())));
        }
        texts.push(pieces[0].to_owned());
        let data = pieces[1..].iter().map(|piece| (*piece).to_owned()).collect();
        let values = Some(ScalarValues::Texts(StringArray { data }));
        rests.push(ScalarField { values, valid_data: Vec::new() });
        kinds.push(FieldsKind::of(&record.fields) as i32);
    }
    let rests = ScalarValues::Lists(ListArray { data: rests, element_type: data_type::VARCHAR });
    Ok(vec![
        FieldData::scalars(filled::ID, data_type::INT64, ScalarValues::Longs(LongArray { data: ids })),
        FieldData::vectors(filled::VECTOR, dimensions, numbers),
        FieldData::scalars(filled::TEXT, data_type::VARCHAR, ScalarValues::Texts(StringArray { data: texts })),
        FieldData::scalars(filled::TEXT_REST, data_type::ARRAY, rests),
        FieldData::scalars(filled::FIELDS, data_type::JSON, ScalarValues::Json(JsonArray { data: fields })),
        FieldData::scalars(filled::FIELDS_KIND, data_type::INT8, ScalarValues::Ints(IntArray { data: kinds })),
    ])
}

impl MilvusDatabase {
    fn of_collection(&self, name: &str) -> OfCollection {
        OfCollection { db_name: self.database.clone(), collection_name: name.to_owned() }
    }

    pub(super) async fn create_collection(
        &self,
        place: &CollectionPlace,
        spec: &CollectionSpec,
    ) -> Result<(), DatabaseProblem> {
        if spec.precision != StoredPrecision::F32 {
            let reason = "vectors in Milvus are stored with 32 bits a number: Milvus Lite has no others";
            return Err(DatabaseProblem::InvalidSettings { reason: reason.to_owned() });
        }
        if self.own(&place.name).await?.is_none() {
            let manifest = manifest_text(&IndexManifest::of_filling(spec))?;
            let request = CreateCollection {
                db_name: self.database.clone(),
                collection_name: place.name.clone(),
                schema: filled_schema(&place.name, spec.dimensions).encode_to_vec(),
                properties: vec![KeyValue::new(MANIFEST, manifest)],
            };
            let made = self.call::<Status>("CreateCollection", &request).await;
            // Another process may have made it just now.
            if self.own(&place.name).await?.is_none() {
                made?;
            }
        }
        match self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?.1.key == spec.key {
            true => self.make_readable(&place.name).await,
            false => Err(DatabaseProblem::ForeignCollection),
        }
    }

    /// Without an index, a collection cannot be read. Until it is filled, an index that compares all is enough.
    async fn make_readable(&self, name: &str) -> Result<(), DatabaseProblem> {
        if self.index(name, filled::VECTOR).await?.is_none() {
            let made = self.create_index(name, &WantedIndex::of(SearchIndexSpec::Exact, 0)).await;
            if self.index(name, filled::VECTOR).await?.is_none() {
                made?;
            }
        }
        self.load(name, self.timeout()).await
    }

    async fn create_index(&self, name: &str, wanted: &WantedIndex) -> Result<(), DatabaseProblem> {
        let request = CreateIndex {
            db_name: self.database.clone(),
            collection_name: name.to_owned(),
            field_name: filled::VECTOR.to_owned(),
            extra_params: vec![
                KeyValue::new("index_type", wanted.kind),
                KeyValue::new("metric_type", "COSINE"),
                KeyValue::new("params", &wanted.params),
            ],
            index_name: filled::VECTOR.to_owned(),
        };
        self.client.call::<Status>("CreateIndex", &request, NO_LIMIT).await.map(drop)
    }

    pub(super) async fn write_records(
        &self,
        place: &CollectionPlace,
        records: &[IndexedRecord],
    ) -> Result<(), DatabaseProblem> {
        let shape = self.shape(&CollectionPlace::filled(&place.name)).await?;
        check_records(records, shape.dimensions)?;
        let mut json: VecDeque<Vec<u8>> = records.iter().map(fields_json).collect::<Result<_, _>>()?;
        let mut rest = records;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().zip(&json).take_while(|(record, json)| {
                bytes += record.vector.len() * 4 + record.text.len() + json.len() + RECORD_OVERHEAD;
                bytes <= MAX_REQUEST
            });
            let (part, after) = rest.split_at(fits.count().max(1));
            let fields = json.drain(..part.len()).collect();
            let request = UpsertRows {
                db_name: self.database.clone(),
                collection_name: shape.collection.name.clone(),
                fields_data: columns(part, fields, shape.dimensions)?,
                num_rows: part.len() as u32,
            };
            let turn = self.write_turn().await?;
            let reply: MutationReply = self.call("Upsert", &request).await?;
            drop(turn);
            if let Some(record) = reply.err_index.first().and_then(|row| part.get(*row as usize)) {
                let reason = "the server refused it without a reason".to_owned();
                return Err(DatabaseProblem::InvalidRecord { id: record.id.clone(), reason });
            }
            rest = after;
        }
        Ok(())
    }

    pub(super) async fn delete_records(
        &self,
        place: &CollectionPlace,
        ids: &[RecordId],
    ) -> Result<(), DatabaseProblem> {
        let (collection, _) = self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?;
        let key = collection.primary_key().ok_or(DatabaseProblem::NoKey)?;
        // Others are those of no record.
        let ids: Vec<RecordId> = ids.iter().filter(|id| number(id).is_some()).cloned().collect();
        for part in ids.chunks(MAX_REMOVED) {
            let request = Delete {
                db_name: self.database.clone(),
                collection_name: collection.name.clone(),
                expr: has_id(key, part),
            };
            let turn = self.write_turn().await?;
            self.call::<MutationReply>("Delete", &request).await?;
            drop(turn);
        }
        Ok(())
    }

    pub(super) async fn build_index(
        &self,
        place: &CollectionPlace,
        spec: &CollectionSpec,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), DatabaseProblem> {
        let name = self.own(&place.name).await?.ok_or(DatabaseProblem::MissingCollection)?.0.name;
        self.flush(&name).await?;
        let rows = match spec.index {
            SearchIndexSpec::Ivfflat { lists: 0 } => {
                self.count_all(&*self.shape(&CollectionPlace::filled(&name)).await?, "").await?
            }
            _ => 0,
        };
        self.replace_index(&name, &WantedIndex::of(spec.index, rows)).await?;
        self.forget();
        loop {
            let index = self.index_description(&name, filled::VECTOR).await?;
            let index = index.ok_or_else(|| DatabaseProblem::NotReady { reason: "it has no index".to_owned() })?;
            match index.state {
                3 if index.pending_rows == 0 => break,
                4 => {
                    let message =
                        format!("the index cannot be built: {}", self.client.access().shown(&index.fail_reason));
                    return Err(DatabaseProblem::Refused { message });
                }
                _ if index.total_rows > 0 => {
                    progress((index.indexed_rows as f64 / index.total_rows as f64).clamp(0.0, 1.0));
                }
                _ => {}
            }
            tokio::time::sleep(POLL).await;
        }
        self.load(&name, NO_LIMIT).await?;
        progress(1.0);
        Ok(())
    }

    /// Puts the index in the place of another one, unless it is there. An index that is in use cannot be removed, so
    /// the collection is released before. Another process may do the same at the same time.
    async fn replace_index(&self, name: &str, wanted: &WantedIndex) -> Result<(), DatabaseProblem> {
        let mut last = Ok(());
        for _ in 0..MAX_TRIES {
            let step = match self.index(name, filled::VECTOR).await? {
                Some(found)
                    if found.kind == wanted.kind
                        && wanted.params.as_object().into_iter().flatten().all(|(param, value)| {
                            found.param(param).is_none_or(|found| Some(found) == value.as_u64())
                        }) =>
                {
                    return Ok(());
                }
                Some(found) => self.drop_index(name, &found.name).await,
                None => self.create_index(name, wanted).await,
            };
            match step {
                Ok(()) => {}
                Err(problem @ (DatabaseProblem::Refused { .. } | DatabaseProblem::NotReady { .. })) => {
                    last = Err(problem);
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(20..200))).await;
                }
                Err(problem) => return Err(problem),
            }
        }
        last
    }

    async fn drop_index(&self, name: &str, index_name: &str) -> Result<(), DatabaseProblem> {
        self.client.call::<Status>("ReleaseCollection", &self.of_collection(name), NO_LIMIT).await?;
        let request = OfIndex {
            db_name: self.database.clone(),
            collection_name: name.to_owned(),
            field_name: filled::VECTOR.to_owned(),
            index_name: index_name.to_owned(),
        };
        self.client.call::<Status>("DropIndex", &request, NO_LIMIT).await.map(drop)
    }

    /// Closes the segments that are being written, so that their index is built.
    async fn flush(&self, name: &str) -> Result<(), DatabaseProblem> {
        let request = Flush { db_name: self.database.clone(), collection_names: vec![name.to_owned()] };
        let reply: FlushReply = self.client.call("Flush", &request, NO_LIMIT).await?;
        let request = GetFlushState {
            segments: reply.segments.get(name).map(|segments| segments.data.clone()).unwrap_or_default(),
            timestamp: reply.timestamps.get(name).copied().unwrap_or_default(),
            db_name: self.database.clone(),
            collection_name: name.to_owned(),
        };
        loop {
            let state: FlushStateReply = self.call("GetFlushState", &request).await?;
            if state.flushed {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Loads a collection into the memory of the server, without which it cannot be read.
    pub(super) async fn load(&self, name: &str, limit: Duration) -> Result<(), DatabaseProblem> {
        let started = Instant::now();
        let request =
            LoadCollection { db_name: self.database.clone(), collection_name: name.to_owned(), replica_number: 1 };
        self.client.call::<Status>("LoadCollection", &request, limit).await?;
        let request = GetLoadState { db_name: self.database.clone(), collection_name: name.to_owned() };
        loop {
            let reply: LoadStateReply = self.call("GetLoadState", &request).await?;
            match reply.state {
                3 => return Ok(()),
                _ if started.elapsed() >= limit => {
                    let reason = "it is being loaded into the memory of the server; try again later".to_owned();
                    return Err(DatabaseProblem::NotReady { reason });
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    pub(super) async fn drop_own(&self, place: &CollectionPlace, key: &str) -> Result<(), DatabaseProblem> {
        let Some((collection, manifest)) = self.own(&place.name).await? else { return Ok(()) };
        if manifest.key != key {
            return Err(DatabaseProblem::ForeignCollection);
        }
        if let Some(alias) = self.aliases_of(&collection.name).await?.first() {
            return Err(DatabaseProblem::Refused { message: format!("the alias `{alias}` points to it") });
        }
        self.call::<Status>("DropCollection", &self.of_collection(&collection.name)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_and_lose_nothing() {
        for text in ["", "short", &"ä🜁".repeat(50_000), &"x".repeat(MAX_TEXT), &"x".repeat(MAX_TEXT + 1)] {
            let pieces = pieces(text);
            assert!(pieces.iter().all(|piece| piece.len() <= MAX_TEXT) && pieces.concat() == text);
        }
    }
}
