//! Parts become the files of an index. Few parts are in memory at once, whatever the size of the corpus.

use super::{
    super::{
        index_files::{BM25, CHUNKS, DENSE, index_exists},
        stages::failed,
        work::value_error,
    },
    part::IndexPart,
    plan::PartSlice,
    table_file::{ColumnTotals, write_table},
};
use futures::{StreamExt, TryStreamExt, stream};
use pyo3::{PyErr, PyResult, exceptions::PyRuntimeError};
use rag::{
    ChunkTable, ChunkTableWriter,
    analysis::TextAnalysis,
    index::{Bm25Index, DenseWriter},
};
use serde::Serialize;
use std::{
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
};
use store::{ArtifactStore, Key};

/// Parts that are read at once.
const PARTS_AT_ONCE: usize = 8;

/// What a merge wrote.
#[derive(Debug, Clone, Serialize)]
pub(super) struct MergedIndex {
    chunks: usize,
    vectors: usize,
    dimensions: usize,
    files: [&'static str; 3],
}

/// Makes the files in a folder of this machine, and then gives them their names, the chunks last.
pub(super) async fn merge(store: &ArtifactStore, order: Vec<PartSlice>, folder: &Path) -> PyResult<MergedIndex> {
    let read = |slice: PartSlice| read_part(store, slice);
    let mut parts = stream::iter(order).map(read).buffered(PARTS_AT_ONCE);
    let mut draft = IndexDraft::begin(folder)?;
    while let Some(part) = parts.try_next().await? {
        draft = compute(move || draft.push(&part).map(|()| draft)).await?;
    }
    let merged = compute(move || draft.finish()).await?;
    for name in [DENSE, BM25, CHUNKS] {
        publish(store, name, &folder.join(name)).await?;
    }
    Ok(merged)
}

async fn read_part(store: &ArtifactStore, PartSlice { name, rows }: PartSlice) -> PyResult<IndexPart> {
    let bytes = store.get(&name).await.map_err(|error| failed(&error))?;
    let bytes = bytes.ok_or_else(|| {
        PyRuntimeError::new_err(format!("{name} at {} is there no more: start the ingest again", store.location()))
    })?;
    let read = compute(move || {
        let part = IndexPart::from_bytes(&bytes).filter(|part| rows.end as usize <= part.chunks.len());
        Ok(part.map(|part| part.slice(rows.start as usize..rows.end as usize)))
    });
    let Some(part) = read.await? else {
        store.remove(&name).await.map_err(|error| failed(&error))?;
        let reason = format!("{name} at {} was damaged, and is removed: start the ingest again", store.location());
        return Err(PyRuntimeError::new_err(reason));
    };
    Ok(part)
}

/// Files that are being written.
struct IndexDraft {
    folder: PathBuf,
    table: ChunkTableWriter<BufWriter<File>>,
    totals: ColumnTotals,
    dense: Option<DenseWriter>,
    merged: MergedIndex,
}

impl IndexDraft {
    fn begin(folder: &Path) -> PyResult<Self> {
        // Without a name: it is gone when this process ends, however it ends.
        let table = tempfile::tempfile_in(folder).map_err(|error| failed(&error))?;
        Ok(Self {
            folder: folder.to_owned(),
            table: ChunkTableWriter::new(BufWriter::with_capacity(1 << 20, table)),
            totals: ColumnTotals::default(),
            dense: None,
            merged: MergedIndex { chunks: 0, vectors: 0, dimensions: 0, files: [CHUNKS, DENSE, BM25] },
        })
    }

    fn push(&mut self, part: &IndexPart) -> PyResult<()> {
        let IndexPart { chunks, vectors } = part;
        chunks.iter().try_for_each(|chunk| self.table.push(chunk)).map_err(|error| failed(&error))?;
        self.totals.add(chunks)?;
        self.merged.chunks += chunks.len();
        if vectors.rows() == 0 {
            return Ok(());
        }
        let dense = match &mut self.dense {
            Some(dense) => dense,
            none => {
                self.merged.dimensions = vectors.columns;
                let made = DenseWriter::create(&self.folder.join(DENSE), vectors.columns);
                none.insert(made.map_err(|error| failed(&error))?)
            }
        };
        dense.push(vectors).map_err(|error| failed(&error))?;
        self.merged.vectors += vectors.rows();
        Ok(())
    }

    fn finish(self) -> PyResult<MergedIndex> {
        let dense = match self.dense {
            Some(dense) => dense,
            None => DenseWriter::create(&self.folder.join(DENSE), 1).map_err(|error| failed(&error))?,
        };
        dense.finish().map_err(|error| failed(&error))?;
        let file = self.table.finish().map_err(|error| failed(&error))?;
        let file = file.into_inner().map_err(|error| failed(error.error()))?;
        let table = ChunkTable::map(&file).map_err(|error| failed(&error))?;
        write_table(&table, &self.totals, &self.folder.join(CHUNKS))?;
        let segments = self.folder.join("segments");
        let words = Bm25Index::write(&table, &TextAnalysis::default(), &self.folder.join(BM25), &segments);
        words.map_err(|error| failed(&error))?;
        Ok(self.merged)
    }
}

/// Gives a file its name. A merge that was killed may have done so before, with the same bytes.
async fn publish(store: &ArtifactStore, name: &str, file: &Path) -> PyResult<()> {
    let path = file.to_owned();
    let key = compute(move || Key::of_file(&path).map_err(|error| failed(&error))).await?;
    if store.take_file(name, file).await.map_err(|error| failed(&error))? {
        return Ok(());
    }
    let mut found = blake3::Hasher::new();
    store.scan(name, |piece| _ = found.update(piece)).await.map_err(|error| failed(&error))?;
    if found.finalize().as_bytes() == key.bytes() {
        return Ok(());
    }
    if store.exists(CHUNKS).await.map_err(|error| failed(&error))? {
        return Err(index_exists(store));
    }
    Err(value_error(format!(
        "{}: {name} is there already, of another index that was not completed: remove it and start again, or give \
         another address",
        store.location()
    )))
}

async fn compute<T: Send + 'static>(work: impl FnOnce() -> PyResult<T> + Send + 'static) -> PyResult<T> {
    let done: Result<PyResult<T>, _> = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| -> PyErr { failed(&error) })?
}
