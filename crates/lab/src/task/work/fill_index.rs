//! Writes chunks and their vectors into a database, part by part. The store keeps the number of records written so far:
//! after a kill, another try continues from there, on any machine. Writing a record again replaces it.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error, layout,
    plan::work::FillIndexWork,
    task::{chunk_table, open_indexes},
};
use async_trait::async_trait;
use bytes::Bytes;
use databases::{CollectionPlace, DatabaseProblem, IndexManifest, IndexedRecord, RecordId, VectorDatabase, retrying};
use futures::{StreamExt, TryStreamExt, stream};
use rag::{
    Choice, ChunkTable,
    index::{DenseIndex, FilledCollection, Index, IndexKind},
    vector_index::record_of,
};
use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

/// The bytes of a part, about; and the most records.
const PART_BYTES: usize = 8 << 20;
const PART_RECORDS: usize = 5_000;
/// What a text and its fields are taken to need, in bytes.
const CONTENT_BYTES: usize = 1_500;
/// Parts that are on their way at once.
const PARTS_AT_ONCE: usize = 2;
/// How long a call is tried again while the database cannot be reached or is busy.
const RETRIES: Duration = Duration::from_secs(60);
/// Records that are read back at the end.
const READ_BACK: usize = 16;
/// The least cosine between a vector and what the database returns for it; 16 bits a number lose less.
const LEAST_COSINE: f32 = 0.999;

/// What is written, and where.
struct Filling<'a> {
    database: Arc<dyn VectorDatabase>,
    place: CollectionPlace,
    table: &'a ChunkTable,
    vectors: &'a DenseIndex,
}

#[async_trait]
impl DoWork for FillIndexWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let environment = &run_context.models().model_context().environment;
        let table = chunk_table(run_context, cx.inputs, &self.chunks).await?;
        let dense = [(IndexKind::Dense, self.dense.clone())].into();
        let indexes = open_indexes(run_context, cx.inputs, &dense).await?;
        let vectors = indexes.iter().find_map(|index| index.get::<DenseIndex>());
        let key = cx.task.key.hex();
        let (Some(vectors), Some(database)) = (vectors, self.index.open_database(environment)?) else {
            return Err(Error::table(format!("{} has no vectors or no database", cx.task.label)));
        };
        // A partial corpus has other records than the key stands for.
        let key = match cx.partial {
            true => store::Key::of_bytes(cx.artifact_name().as_bytes()).hex(),
            false => key,
        };
        let (rows, dimensions) = (vectors.entries(), vectors.dimensions());
        let Some((collection, spec)) = self.index.collection(&key, dimensions) else {
            return Err(Error::table(format!("{} fills no database", cx.task.label)));
        };
        if table.searchable().len() != rows {
            let chunks = table.searchable().len();
            return Err(Error::table(format!("{chunks} chunks and {rows} vectors; {} needs as many", cx.task.label)));
        }
        let (address, settings) = (database.address(), self.index.value());
        let filled = FilledCollection { address, collection, key, rows, dimensions, settings };
        let filling = Filling { place: filled.place(), database, table: &table, vectors };
        let started = Instant::now();
        if !filling.is_complete(&filled).await? {
            call(|| filling.database.create(&filling.place, &spec)).await?;
            let done = filling.written(cx).await?;
            cx.report_rows(done);
            filling.write_all(cx, done).await?;
            call(|| filling.database.complete(&filling.place, &spec, &|_| ())).await?;
            filling.check(&filled).await?;
            let facts = serde_json::json!({
                "index": self.index.build_settings(),
                "seconds": started.elapsed().as_secs_f64(),
            });
            let manifest = IndexManifest { rows: Some(rows as u64), facts, ..IndexManifest::of_filling(&spec) };
            call(|| filling.database.write_manifest(&filling.place, &manifest)).await?;
        }
        if let Some(key) = cx.checkpoint_key() {
            run_context.store.remove(&layout::fill_progress(key)).await?;
        }
        Ok(TaskOutput::of(filled.to_bytes(), rows))
    }
}

/// A call that is made again while the database cannot be reached.
async fn call<T, C>(call: impl FnMut() -> C) -> Result<T, Error>
where
    C: Future<Output = Result<T, databases::Error>>,
{
    Ok(retrying(RETRIES, call).await.map_err(rag::Error::from)?)
}

impl Filling<'_> {
    /// Whether an earlier task has filled the collection to its end.
    async fn is_complete(&self, filled: &FilledCollection) -> Result<bool, Error> {
        let found = call(|| self.database.describe(&self.place)).await?;
        Ok(filled.problem(found).is_none())
    }

    /// How many records an interrupted try has written: those that the store knows of, if the database still has them.
    async fn written(&self, cx: &TaskContext<'_>) -> Result<usize, Error> {
        let Some(key) = cx.checkpoint_key() else { return Ok(0) };
        let name = layout::fill_progress(key);
        let noted = match cx.run_context.store.get(&name).await {
            Err(store::Error::Damaged { .. }) => None,
            found => found?,
        };
        let noted = noted.and_then(|bytes| serde_json::from_slice::<usize>(&bytes).ok()).unwrap_or_default();
        let there = call(|| self.database.count(&self.place)).await?;
        Ok(if there >= noted as u64 { noted.min(self.vectors.entries()) } else { 0 })
    }

    /// Writes the records from the entry `from` on.
    async fn write_all(&self, cx: &TaskContext<'_>, from: usize) -> Result<(), Error> {
        let size = PART_BYTES / (size_of::<f32>() * self.vectors.dimensions() + CONTENT_BYTES);
        let size = size.clamp(1, PART_RECORDS);
        let rows = self.vectors.entries();
        let parts = (from..rows).step_by(size).map(|start| start..(start + size).min(rows));
        let mut written = stream::iter(parts).map(|part| self.write(part)).buffered(PARTS_AT_ONCE);
        while let Some(part) = written.try_next().await? {
            cx.report_rows(part.len());
            if let Some(key) = cx.checkpoint_key() {
                let noted = serde_json::to_vec(&part.end).map_err(Error::table)?;
                cx.run_context.store.replace(&layout::fill_progress(key), Bytes::from(noted)).await?;
            }
        }
        Ok(())
    }

    async fn write(&self, entries: Range<usize>) -> Result<Range<usize>, Error> {
        let records: Vec<IndexedRecord> = entries.clone().map(|entry| self.record(entry)).collect();
        call(|| self.database.write(&self.place, &records)).await.map_err(|error| self.of_document(error))?;
        Ok(entries)
    }

    fn record(&self, entry: usize) -> IndexedRecord {
        let chunk = self.table.chunk(self.table.searchable()[entry]);
        record_of(entry as u32, chunk, self.vectors.vector(entry as u32))
    }

    /// An error about a record, with the document of its chunk.
    fn of_document(&self, error: Error) -> Error {
        let Error::Stage(rag::Error::Database(found)) = &error else { return error };
        let DatabaseProblem::InvalidRecord { id: RecordId::Number(entry), reason } = &found.problem else {
            return error;
        };
        let Some(&row) = self.table.searchable().get(*entry as usize) else { return error };
        let chunk = self.table.chunk(row);
        let id = RecordId::Text(format!("of chunk {} of {}", chunk.number, chunk.document));
        let problem = DatabaseProblem::InvalidRecord { id, reason: reason.clone() };
        rag::Error::Database(databases::Error { problem, ..found.clone() }).into()
    }

    /// Fails if the database has another number of records than were written, or returns others.
    async fn check(&self, filled: &FilledCollection) -> Result<(), Error> {
        let there = call(|| self.database.count(&self.place)).await?;
        let of = |reason: String| {
            let problem = DatabaseProblem::Malformed { reason };
            let (server, collection) = (filled.address.clone(), Some(filled.collection.clone()));
            rag::Error::Database(databases::Error { server, collection, problem })
        };
        if there != filled.rows as u64 {
            return Err(of(format!("{} records were written, and {there} are there", filled.rows)).into());
        }
        let entries: Vec<usize> = (0..filled.rows).step_by(filled.rows.div_ceil(READ_BACK).max(1)).collect();
        let ids: Vec<RecordId> = entries.iter().map(|&entry| RecordId::Number(entry as u64)).collect();
        let found = call(|| self.database.read(&self.place, &ids)).await?;
        for (entry, found) in entries.into_iter().zip(found) {
            let written = self.record(entry);
            let is_same = found.is_some_and(|found| {
                let cosine: f32 = found.vector.iter().zip(&written.vector).map(|(a, b)| a * b).sum();
                found.text == written.text && found.vector.len() == written.vector.len() && cosine >= LEAST_COSINE
            });
            if !is_same {
                return Err(of(format!("the record {entry} is not what was written")).into());
            }
        }
        Ok(())
    }
}
