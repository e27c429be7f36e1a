//! The index of a corpus that many processes write: each writes parts, beside the index that they become.
//!
//! - `part`: the bytes of a part; `record`: the names of parts, and what is known of their files.
//! - `plan`: which files are in parts already, and the order of the parts.
//! - `merge`: parts become the index; `table_file`: its chunks, row group by row group.
//!
//! A part is written once and complete, so a process that is killed loses only the parts that it was writing.

mod merge;
mod part;
mod plan;
mod record;
mod table_file;

use super::{
    arrow::{ArrowBatch, column, texts, truths},
    corpus::{PyBlock, PyCorpus},
    index_files::{CHUNKS, index_exists, open_store},
    process,
    remote::runtime,
    settings,
    stages::{failed, read_chunks, read_vectors},
    work::{to_python, value_error},
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, cast::AsArray, types::UInt32Type,
};
use arrow_pyarrow::PyArrowType;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::filter::filter_record_batch;
use futures::{StreamExt, TryStreamExt, stream};
use models::{CpuBudget, Library, ModelConfig, provider::ModelContext};
use part::IndexPart;
use plan::{KnownParts, PartSlice};
use pyo3::prelude::*;
use rag::{
    Choice,
    chunk::ChunkerConfig,
    index::{Bm25Index, DenseIndex, Index},
    load::{self, ParseLimits},
};
use record::{BlockRecord, FOLDER, ObjectName, RecordedFile};
use std::{collections::HashMap, ops::Range, sync::Arc};
use store::{ArtifactStore, Key, KeyBuilder};

/// The columns that say of a chunk which row of which block it is.
const BLOCK: &str = "block";
const ROW: &str = "row";
/// Objects that are removed at once.
const REMOVED_AT_ONCE: usize = 32;

/// What decides the contents of parts, apart from the files: as a name, equal for equal settings. The PDF library and the
/// embedder's files are those of this machine.
#[pyfunction]
pub(crate) fn index_settings(
    py: Python<'_>,
    limits: Option<&Bound<'_, PyAny>>,
    chunker: &Bound<'_, PyAny>,
    embedder: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let limits: ParseLimits = settings::read("limits", settings::table(limits)?)?;
    let chunker: ChunkerConfig = settings::read("chunker", settings::component(chunker)?)?;
    let embedder: ModelConfig = settings::read("embedder", settings::embedder(embedder)?)?;
    py.detach(|| {
        let context = ModelContext {
            directory: app::model_directory(),
            cpu: CpuBudget::machine(),
            environment: Arc::new(app::environment_variable),
        };
        let pdf = match context.directory.library(Library::Pdfium) {
            Ok(path) => Key::of_file(&path).map_err(|error| failed(&error))?.hex(),
            Err(_) => "none".to_owned(),
        };
        let identity = embedder.identity(&context).map_err(|error| failed(&error))?;
        let settings = KeyBuilder::new("index parts")
            .field("formats", &[part::VERSION, record::VERSION, lab::artifact::VERSION])
            .field("indexes", &[DenseIndex::VERSION, Bm25Index::VERSION])
            .field("load", &load::VERSION)
            .field("pdf", &pdf)
            .field("limits", &limits)
            .field("chunker", &(chunker.version(), chunker.settings_for_key()))
            .field("embedder", &identity);
        Ok(settings.finish().hex())
    })
}

/// Blocks of files that are in no part, the number of documents in parts, files without a document and why, and the order
/// of the parts.
type LeftToDo = (Vec<PyBlock>, usize, Vec<(String, String)>, String);

/// The parts at an address that were made by the same settings.
#[pyclass(frozen, module = "reverie._core", name = "IndexParts")]
pub(crate) struct PyIndexParts {
    store: ArtifactStore,
    settings: String,
}

#[pymethods]
impl PyIndexParts {
    /// A folder, or a URL of an object store; what `index_settings` says.
    #[new]
    fn new(address: &str, settings: String) -> PyResult<Self> {
        process::check()?;
        Ok(Self { store: open_store(address)?, settings })
    }

    /// Checks that an address has no index yet. If there is one, what is left of its parts is removed.
    #[staticmethod]
    fn check(py: Python<'_>, address: &str) -> PyResult<()> {
        let store = open_store(address)?;
        py.detach(|| {
            runtime()?.block_on(async {
                if !store.exists(CHUNKS).await.map_err(|error| failed(&error))? {
                    return Ok(());
                }
                remove_parts(&store).await?;
                Err(index_exists(&store))
            })
        })
    }

    /// What is left to do for a corpus: the files that are in no part, in blocks; how many documents are in parts; which
    /// files gave none, with the reasons; and what `merge` needs. At the start of an ingest, files that could not be read
    /// the last time are to do; at its end, they are rejected.
    fn plan(&self, py: Python<'_>, corpus: &PyCorpus, is_start: bool) -> PyResult<LeftToDo> {
        let plan = py.detach(|| {
            let prefix = format!("{FOLDER}/{}", self.settings);
            let known = runtime()?.block_on(KnownParts::read(&self.store, &prefix))?;
            PyResult::Ok(known.plan(&corpus.blocks(), is_start))
        })?;
        let order = serde_json::to_string(&plan.order).map_err(value_error)?;
        Ok((plan.missing, plan.documents, plan.rejected, order))
    }

    /// Records what became of the files of a block. `documents` are their `path`, `content`, the `file` that they are or are
    /// in, its `state`, why they gave no document (`reason`), and whether they could not be read (`unread`). Returns those of the chunks that are in no part,
    /// with the columns `block` and `row`, and how many documents have all of their chunks in parts.
    fn begin(
        &self,
        py: Python<'_>,
        documents: ArrowBatch,
        chunks: ArrowBatch,
    ) -> PyResult<(PyArrowType<RecordBatch>, usize)> {
        py.detach(|| {
            let (documents, chunks) = (documents.0, chunks.0);
            let (record, block) = self.record(&documents, &chunks)?;
            let parts = runtime()?.block_on(async {
                let text = serde_json::to_vec(&record).map_err(value_error)?;
                let name = format!("{block}/{}", record.name());
                self.store.put(&name, text).await.map_err(|error| failed(&error))?;
                let names = self.store.list(&block).await.map_err(|error| failed(&error))?;
                let parts = names.iter().filter_map(|name| match ObjectName::parse(name) {
                    Some(ObjectName::Part(_, rows)) => Some(rows),
                    _ => None,
                });
                PyResult::Ok(parts.collect::<Vec<Range<u32>>>())
            })?;
            let missing = record::uncovered(&parts, record.rows());
            let is_held = |rows: Range<u32>| !rows.is_empty() && !rows.into_iter().any(|row| missing[row as usize]);
            let held = record.rows_of_files().filter(|(_, rows)| is_held(rows.clone()));
            let held = held.map(|(file, _)| file.documents as usize).sum();
            let numbered = with_rows(&chunks, &block)?;
            let left = filter_record_batch(&numbered, &BooleanArray::from(missing)).map_err(value_error)?;
            Ok((PyArrowType(left), held))
        })
    }

    /// Writes chunks of `begin` with their vectors, as a part for each sequence of rows. Returns the names and lengths.
    fn write(&self, py: Python<'_>, batch: ArrowBatch) -> PyResult<Vec<(String, usize)>> {
        py.detach(|| {
            let batch = batch.0;
            let (blocks, rows) = (texts(&batch, BLOCK)?, rows_of(&batch)?);
            let mut written = Vec::new();
            let mut first = 0;
            while first < batch.num_rows() {
                let follows =
                    |i: usize| blocks.value(i) == blocks.value(i - 1) && rows.value(i) == rows.value(i - 1) + 1;
                let end = (first + 1..batch.num_rows()).find(|i| !follows(*i)).unwrap_or(batch.num_rows());
                let part = batch.slice(first, end - first);
                let chunks = read_chunks(&part)?;
                let vectors = read_vectors(&part, &chunks)?;
                let name = record::part_name(blocks.value(first), &(rows.value(first)..rows.value(end - 1) + 1));
                let bytes = IndexPart { chunks, vectors }.to_bytes().map_err(|error| failed(&error))?;
                runtime()?.block_on(self.store.put(&name, bytes)).map_err(|error| failed(&error))?;
                written.push((name, end - first));
                first = end;
            }
            Ok(written)
        })
    }

    /// Makes the index of parts, in the order that `plan` gives. Its files appear when they are whole, the chunks last.
    fn merge(&self, py: Python<'_>, order: &str) -> PyResult<Py<PyAny>> {
        process::check()?;
        let merged = py.detach(|| {
            let order: Vec<PartSlice> = serde_json::from_str(order).map_err(value_error)?;
            // On the disk where the index will be, so that its files are only moved.
            let folder = match self.store.local_path(FOLDER) {
                Some(folder) => {
                    std::fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
                    tempfile::Builder::new().prefix("merge-").tempdir_in(folder)
                }
                None => tempfile::tempdir(),
            };
            let folder = folder.map_err(|error| failed(&error))?;
            runtime()?.block_on(merge::merge(&self.store, order, folder.path()))
        })?;
        to_python(py, &merged)
    }

    /// Removes the parts at the address, of all settings.
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| runtime()?.block_on(remove_parts(&self.store)))
    }
}

impl PyIndexParts {
    /// What became of the files of a block, and the name of the block.
    fn record(&self, documents: &RecordBatch, chunks: &RecordBatch) -> PyResult<(BlockRecord, String)> {
        let [paths, files, contents, states, reasons] =
            ["path", "file", "content", "state", "reason"].map(|name| texts(documents, name));
        let (paths, files, contents, states, reasons) = (paths?, files?, contents?, states?, reasons?);
        let unread = truths(documents, "unread")?;
        let mut counts: HashMap<&str, u32> = HashMap::new();
        let of_chunks = texts(chunks, "document")?;
        for document in of_chunks.iter().flatten() {
            *counts.entry(document).or_default() += 1;
        }
        let mut record = BlockRecord { files: Vec::new() };
        for i in 0..documents.num_rows() {
            // The documents of a file follow each other.
            if record.files.last().is_none_or(|file| file.path != files.value(i)) {
                record.files.push(RecordedFile {
                    path: files.value(i).to_owned(),
                    state: states.value(i).to_owned(),
                    chunks: 0,
                    documents: 0,
                    rejected: Vec::new(),
                    is_unread: false,
                });
            }
            let Some(file) = record.files.last_mut() else { continue };
            file.chunks += counts.get(paths.value(i)).copied().unwrap_or_default();
            file.is_unread |= unread.value(i);
            match reasons.is_valid(i) {
                true => file.rejected.push((paths.value(i).to_owned(), reasons.value(i).to_owned())),
                false => file.documents += 1,
            }
        }
        if record.rows() as usize != chunks.num_rows() {
            return Err(value_error("there are chunks of documents that are not in this block"));
        }
        let identities = (0..documents.num_rows()).map(|i| {
            let content = if reasons.is_valid(i) { reasons.value(i) } else { contents.value(i) };
            (paths.value(i), content)
        });
        let name = record::block_name(&self.settings, identities);
        Ok((record, name))
    }
}

/// The chunks of a block with the columns `block` and `row`.
fn with_rows(chunks: &RecordBatch, block: &str) -> PyResult<RecordBatch> {
    let rows = chunks.num_rows();
    let added = [Field::new(BLOCK, DataType::Utf8, false), Field::new(ROW, DataType::UInt32, false)];
    let fields: Vec<Field> = chunks.schema().fields().iter().map(|field| field.as_ref().clone()).chain(added).collect();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(block, rows)));
    let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..rows as u32));
    let columns = chunks.columns().iter().cloned().chain([names, numbers]).collect();
    let schema = Schema::new_with_metadata(fields, chunks.schema().metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns).map_err(value_error)
}

fn rows_of(batch: &RecordBatch) -> PyResult<UInt32Array> {
    let rows = column(batch, ROW)?.as_primitive_opt::<UInt32Type>();
    rows.cloned().ok_or_else(|| value_error(format!("the column `{ROW}` is not what `begin` gave")))
}

async fn remove_parts(store: &ArtifactStore) -> PyResult<()> {
    let Some(folder) = store.local_path(FOLDER) else {
        let names = store.list(FOLDER).await.map_err(|error| failed(&error))?;
        let remove = async |name: String| store.remove(&name).await;
        let removed = stream::iter(names).map(remove).buffer_unordered(REMOVED_AT_ONCE).try_collect::<Vec<()>>();
        return removed.await.map(drop).map_err(|error| failed(&error));
    };
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&error)),
        _ => Ok(()),
    }
}
