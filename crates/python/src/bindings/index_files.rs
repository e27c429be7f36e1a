//! The files of an index at an address, as one process writes them from memory; and files at an address, to which many
//! processes add.

use super::{
    arrow::ArrowBatch,
    remote::runtime,
    stages::{failed, read_chunks, read_vectors},
    work::{to_python, value_error},
};
use lab::artifact::encode;
use pyo3::prelude::*;
use rag::{
    Chunk,
    analysis::TextAnalysis,
    index::{Bm25Index, DenseWriter},
};
use std::sync::{Mutex, PoisonError};
use store::{ArtifactStore, NoLayout};

/// The files of an index. The chunks are written last, so an index with chunks is whole.
pub(crate) const CHUNKS: &str = "chunks.parquet";
pub(crate) const DENSE: &str = "index.dense";
pub(crate) const BM25: &str = "index.bm25";

/// Our index of a corpus at an address: `chunks.parquet`, `index.dense` and
/// `index.bm25`, byte for byte what an engine makes of the same rows. The chunks stay in memory until the end.
#[pyclass(frozen, module = "reverie._core", name = "IndexWriter")]
pub(crate) struct PyIndexWriter {
    store: ArtifactStore,
    /// On a local disk: a dense index is written as it comes.
    folder: tempfile::TempDir,
    state: Mutex<HeldIndex>,
}

#[derive(Default)]
struct HeldIndex {
    chunks: Vec<Chunk>,
    dense: Option<DenseWriter>,
    vectors: usize,
    dimensions: usize,
}

#[pymethods]
impl PyIndexWriter {
    /// A folder, or a URL of an object store.
    #[new]
    fn new(py: Python<'_>, address: &str) -> PyResult<Self> {
        let store = open_store(address)?;
        // The store may be far away.
        let is_there = py.detach(|| runtime()?.block_on(store.exists(CHUNKS)).map_err(|error| failed(&error)))?;
        if is_there {
            return Err(index_exists(&store));
        }
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        Ok(Self { store, folder, state: Mutex::default() })
    }

    /// Adds chunks with their vectors, in the order of the corpus.
    fn push(&self, py: Python<'_>, batch: ArrowBatch) -> PyResult<()> {
        py.detach(|| {
            let batch = batch.0;
            let mut chunks = read_chunks(&batch)?;
            let matrix = read_vectors(&batch, &chunks)?;
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if matrix.rows() > 0 {
                if state.dense.is_none() {
                    let writer = DenseWriter::create(&self.folder.path().join(DENSE), matrix.columns);
                    state.dense = Some(writer.map_err(|error| failed(&error))?);
                    state.dimensions = matrix.columns;
                }
                if let Some(dense) = &mut state.dense {
                    dense.push(&matrix).map_err(|error| failed(&error))?;
                }
                state.vectors += matrix.rows();
            }
            state.chunks.append(&mut chunks);
            Ok(())
        })
    }

    /// Writes the index; an object that is there already is never changed.
    fn finish(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let summary = py.detach(|| {
            let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
            let path = self.folder.path().join(DENSE);
            let dense = match state.dense {
                Some(dense) => dense,
                None => DenseWriter::create(&path, 1).map_err(|error| failed(&error))?,
            };
            dense.finish().map_err(|error| failed(&error))?;
            let table = encode(&state.chunks).map_err(|error| failed(&error))?;
            let searchable: Vec<&Chunk> = state.chunks.iter().filter(|chunk| chunk.searchable).collect();
            let words = Bm25Index::of_chunks(&searchable, &TextAnalysis::default()).to_bytes();
            let written = runtime()?.block_on(async {
                let new = [
                    self.store.put_file(DENSE, &path).await?,
                    self.store.put(BM25, words).await?,
                    self.store.put(CHUNKS, table).await?,
                ];
                Ok::<_, store::Error>(new)
            });
            let new = written.map_err(|error| failed(&error))?;
            if new.contains(&false) {
                return Err(index_exists(&self.store));
            }
            Ok(serde_json::json!({
                "chunks": state.chunks.len(), "vectors": state.vectors, "dimensions": state.dimensions,
                "files": [CHUNKS, DENSE, BM25],
            }))
        });
        to_python(py, &summary?)
    }
}

/// Files at an address, to which many writers add at the same time.
#[pyclass(frozen, module = "reverie._core", name = "Folder")]
pub(crate) struct PyFolder {
    store: ArtifactStore,
}

#[pymethods]
impl PyFolder {
    /// A folder, which is made, or a URL of an object store.
    #[new]
    fn new(address: &str) -> PyResult<Self> {
        Ok(Self { store: open_store(address)? })
    }

    /// The names of the files.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| runtime()?.block_on(self.store.list("")).map_err(|error| failed(&error)))
    }

    /// Writes a file, unless it is there. Returns whether it is new.
    fn put(&self, py: Python<'_>, name: &str, bytes: Vec<u8>) -> PyResult<bool> {
        py.detach(|| runtime()?.block_on(self.store.put(name, bytes)).map_err(|error| failed(&error)))
    }
}

/// The store at an address; a folder is made.
pub(crate) fn open_store(address: &str) -> PyResult<ArtifactStore> {
    let _guard = runtime()?.enter();
    ArtifactStore::open(address, &app::store_options(), &NoLayout).map_err(|error| failed(&error))
}

/// The error if an address has an index.
pub(crate) fn index_exists(store: &ArtifactStore) -> PyErr {
    value_error(format!(
        "{}: there is an index already, which is never changed: give another address",
        store.location()
    ))
}
