//! Writes the chunks of a corpus, with their vectors, into a collection of a database, part by part. The store keeps the
//! number of records written so far: after a kill, another try continues from there, on any machine. Writing a record
//! again replaces it.

use crate::{Error, layout};
use bytes::Bytes;
use databases::{
    CollectionPlace, CollectionSpec, DatabaseProblem, IndexManifest, IndexedRecord, RecordId, VectorDatabase, retrying,
};
use futures::{StreamExt, TryStreamExt, stream};
use rag::{
    ChunkTable,
    index::{DenseIndex, FilledCollection},
    vector_index::record_of,
};
use serde_json::Value;
use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{ArtifactStore, Key};

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
pub(crate) struct Filling<'a> {
    pub(crate) database: Arc<dyn VectorDatabase>,
    pub(crate) filled: &'a FilledCollection,
    pub(crate) place: CollectionPlace,
    pub(crate) spec: CollectionSpec,
    pub(crate) table: &'a ChunkTable,
    pub(crate) vectors: &'a DenseIndex,
    /// Whether a collection that is whole is read back, and written again if a record differs.
    pub(crate) reads_back_all: bool,
}

/// How far a filling is: where that is kept, and who is told.
pub(crate) struct FillProgress<'a> {
    /// The store that keeps the number of written records, and the key of the work; none: a filling that was interrupted
    /// begins again.
    pub(crate) kept: Option<(&'a ArtifactStore, &'a Key)>,
    /// Is told how many more records were written.
    pub(crate) report: &'a (dyn Fn(usize) + Sync),
}

impl FillProgress<'_> {
    async fn read(&self) -> Result<usize, Error> {
        let Some((store, key)) = self.kept else { return Ok(0) };
        let noted = match store.get(&layout::fill_progress(key)).await {
            Err(store::Error::Damaged { .. }) => None,
            found => found?,
        };
        Ok(noted.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    async fn write(&self, written: usize) -> Result<(), Error> {
        let Some((store, key)) = self.kept else { return Ok(()) };
        let written = serde_json::to_vec(&written).map_err(Error::table)?;
        Ok(store.replace(&layout::fill_progress(key), Bytes::from(written)).await?)
    }

    async fn remove(&self) -> Result<(), Error> {
        let Some((store, key)) = self.kept else { return Ok(()) };
        store.remove(&layout::fill_progress(key)).await?;
        Ok(())
    }
}

/// A call that is made again while the database cannot be reached.
pub(crate) async fn call<T, C>(call: impl FnMut() -> C) -> Result<T, Error>
where
    C: Future<Output = Result<T, databases::Error>>,
{
    Ok(retrying(RETRIES, call).await.map_err(rag::Error::from)?)
}

impl Filling<'_> {
    /// Fills the collection and checks it; does nothing if it is whole already. The manifest holds `facts`, and the
    /// seconds that it took. Returns how many records had been written before.
    pub(crate) async fn fill(&self, progress: &FillProgress<'_>, mut facts: Value) -> Result<usize, Error> {
        let started = Instant::now();
        let found = call(|| self.database.describe(&self.place)).await?;
        let previous =
            found.as_ref().and_then(|found| found.manifest.as_ref()).map(|manifest| manifest.previous.clone());
        let is_complete = self.filled.problem(found).is_none();
        let is_as_written = is_complete && (!self.reads_back_all || self.holds(0..self.filled.rows).await?);
        let mut written = self.filled.rows;
        if !is_as_written {
            call(|| self.database.create(&self.place, &self.spec)).await?;
            written = if is_complete { 0 } else { self.written(progress).await? };
            (progress.report)(written);
            self.write_all(progress, written).await?;
            call(|| self.database.complete(&self.place, &self.spec, &|_| ())).await?;
            self.check().await?;
            facts["seconds"] = started.elapsed().as_secs_f64().into();
            let rows = Some(self.filled.rows as u64);
            let previous = previous.unwrap_or_default();
            let manifest = IndexManifest { rows, facts, previous, ..IndexManifest::of_filling(&self.spec) };
            call(|| self.database.write_manifest(&self.place, &manifest)).await?;
        }
        progress.remove().await?;
        Ok(written)
    }

    /// How many records an interrupted try has written: those that the store knows of, if the database still has them.
    async fn written(&self, progress: &FillProgress<'_>) -> Result<usize, Error> {
        let noted = progress.read().await?;
        let there = call(|| self.database.count(&self.place)).await?;
        Ok(if there >= noted as u64 { noted.min(self.filled.rows) } else { 0 })
    }

    /// Writes the records from the entry `from` on.
    async fn write_all(&self, progress: &FillProgress<'_>, from: usize) -> Result<(), Error> {
        let size = PART_BYTES / (size_of::<f32>() * self.filled.dimensions + CONTENT_BYTES);
        let size = size.clamp(1, PART_RECORDS);
        let rows = self.filled.rows;
        let parts = (from..rows).step_by(size).map(|start| start..(start + size).min(rows));
        let mut written = stream::iter(parts).map(|part| self.write(part)).buffered(PARTS_AT_ONCE);
        while let Some(part) = written.try_next().await? {
            (progress.report)(part.len());
            progress.write(part.end).await?;
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
        record_of(entry as u32, &chunk, self.vectors.vector(entry as u32))
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
    async fn check(&self) -> Result<(), Error> {
        let rows = self.filled.rows;
        let there = call(|| self.database.count(&self.place)).await?;
        let of = |reason: String| {
            let problem = DatabaseProblem::Malformed { reason };
            let (server, collection) = (self.filled.address.clone(), Some(self.filled.collection.clone()));
            rag::Error::Database(databases::Error { server, collection, problem })
        };
        if there != rows as u64 {
            let reason = format!(
                "{rows} records were written, and {there} are there; if another program writes into the collection, remove \
                 what it has added"
            );
            return Err(of(reason).into());
        }
        match self.holds((0..rows).step_by(rows.div_ceil(READ_BACK).max(1))).await? {
            true => Ok(()),
            false => Err(of("records that are read back are not what was written".to_owned()).into()),
        }
    }

    /// Whether the database has these entries as they were written.
    async fn holds(&self, entries: impl Iterator<Item = usize>) -> Result<bool, Error> {
        let entries: Vec<usize> = entries.collect();
        for entries in entries.chunks(PART_RECORDS) {
            let ids: Vec<RecordId> = entries.iter().map(|&entry| RecordId::Number(entry as u64)).collect();
            let found = call(|| self.database.read(&self.place, &ids)).await?;
            let is_same = |(&entry, found): (&usize, Option<IndexedRecord>)| {
                let written = self.record(entry);
                found.is_some_and(|found| {
                    let cosine: f32 = found.vector.iter().zip(&written.vector).map(|(a, b)| a * b).sum();
                    found.text == written.text && found.vector.len() == written.vector.len() && cosine >= LEAST_COSINE
                })
            };
            if !entries.iter().zip(found).all(is_same) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
