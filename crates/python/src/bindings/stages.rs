//! Stages as functions from Arrow batch to Arrow batch, for Ray Data and
//! notebooks. Batches pass between Rust and Python through the Arrow C data
//! interface without a copy; the GIL is released while a stage works.

use super::{
    arrow::{ArrowBatch, bytes, select_columns, texts, truths, vectors},
    corpus::{PyBlock, PyCorpus},
    nested, process,
    remote::runtime,
    settings,
    work::{to_json, value_error, wait},
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, RecordBatch, StringArray, UInt8Array, UInt64Array,
    cast::AsArray, types::Float32Type,
};
use arrow_pyarrow::PyArrowType;
use arrow_schema::{Field, Schema};
use lab::artifact::{DocumentRow, from_batch, schema, to_batch};
use models::{Client, CpuBudget, InputKind, Matrix, ModelConfig, provider};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use rag::{
    Chunk, Document,
    chunk::ChunkerConfig,
    load::{self, LoadError, ParseLimits, Rejected},
};
use std::{
    collections::{BTreeMap, HashMap},
    num::NonZero,
    sync::Arc,
};
use store::Key;
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

type PyBatch = PyArrowType<RecordBatch>;

pub(crate) fn failed(error: &(dyn std::error::Error + 'static)) -> PyErr {
    PyRuntimeError::new_err(lab::error_chain(error))
}

/// The documents of a batch: the output of `Parser.parse`, or texts with their
/// paths from anywhere.
fn documents(batch: &RecordBatch) -> PyResult<Vec<DocumentRow>> {
    let rows = batch.num_rows();
    let same = |text: &str| Arc::new(StringArray::from(vec![text; rows])) as ArrayRef;
    let schema = schema::<DocumentRow>().map_err(|error| failed(&error))?;
    let batch = nested::with_own_metadata(nested::with_json_texts(batch.clone())?, &schema)?;
    let batch = nested::with_quoted_format(batch)?;
    let batch = select_columns(&batch, &schema, |name| match name {
        "format" => Some(same("\"text\"")),
        "pages" | "headings" | "tables" | "problems" => Some(same("[]")),
        "metadata" | "rejected" => Some(same("null")),
        _ => None,
    })?;
    // A document is identified by its content; texts from elsewhere have no file.
    let keyed = {
        let (content, text) = (column_of(&batch, "content"), column_of(&batch, "text"));
        let key = |i: usize| match content.is_null(i) {
            true => Key::of_bytes(text.value(i).as_bytes()).hex(),
            false => content.value(i).to_owned(),
        };
        let keys: StringArray = (0..rows).map(|i| Some(key(i))).collect();
        let columns = schema.fields().iter().zip(batch.columns()).map(|(field, array)| {
            if field.name() == "content" { Arc::new(keys.clone()) as ArrayRef } else { array.clone() }
        });
        let columns = columns.collect();
        RecordBatch::try_new(schema, columns).map_err(value_error)?
    };
    from_batch(&keyed).map_err(|error| failed(&error))
}

/// The documents that a program holds: what `Parser.parse` gave, or texts with
/// their paths. Files that gave no document are left out.
pub(crate) fn read_documents(given: &Bound<'_, PyAny>) -> PyResult<Vec<Document>> {
    let rows = documents(&given.extract::<ArrowBatch>()?.0)?;
    Ok(rows
        .into_iter()
        .filter_map(|row| match row {
            DocumentRow::Document(document) => Some(document),
            DocumentRow::Rejected(_) => None,
        })
        .collect())
}

fn column_of<'a>(batch: &'a RecordBatch, name: &str) -> &'a StringArray {
    batch.column(batch.schema().index_of(name).unwrap_or_default()).as_string()
}

/// Files to documents.
#[pyclass(frozen, module = "reverie._core", name = "Parser")]
pub(crate) struct PyParser {
    limits: ParseLimits,
}

#[pymethods]
impl PyParser {
    #[new]
    #[pyo3(signature = (limits=None))]
    fn new(limits: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if let Ok(path) = app::model_directory().library(models::Library::Pdfium) {
            load::bind_pdfium(&path).map_err(|error| failed(&error))?;
        }
        Ok(Self { limits: settings::read("limits", settings::table(limits)?)? })
    }

    fn __getnewargs__(&self) -> PyResult<(String,)> {
        serde_json::to_string(&self.limits).map(|text| (text,)).map_err(value_error)
    }

    /// A row for each file, and for each file in a mail or mailbox: its document, or why it gave none.
    fn parse(&self, py: Python<'_>, batch: ArrowBatch) -> PyResult<PyBatch> {
        self.parse_files(py, batch).map(|(rows, _)| rows)
    }

    /// The same, and for each row the number of the file in the batch.
    fn parse_files(&self, py: Python<'_>, batch: ArrowBatch) -> PyResult<(PyBatch, Vec<usize>)> {
        process::check()?;
        py.detach(|| {
            let batch = batch.0;
            let (paths, bytes) = (texts(&batch, "path")?, bytes(&batch, "bytes")?);
            let (mut rows, mut files) = (Vec::new(), Vec::new());
            for (number, (path, bytes)) in paths.iter().zip(bytes.iter()).enumerate() {
                rows.extend(document_rows(path.unwrap_or_default(), Ok(bytes.unwrap_or_default()), &self.limits));
                files.resize(rows.len(), number);
            }
            let made = to_batch(&rows).map_err(|error| failed(&error))?;
            Ok((PyArrowType(made), files))
        })
    }

    /// The same for all files of a corpus, in their order; as many at once as
    /// the machine has cores.
    fn parse_corpus(&self, py: Python<'_>, corpus: &PyCorpus) -> PyResult<PyBatch> {
        let blocks = corpus.blocks();
        let limits = self.limits.clone();
        let work = || async move {
            let at_once = Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)));
            let mut tasks = JoinSet::new();
            for (number, block) in blocks.into_iter().enumerate() {
                let (at_once, limits) = (at_once.clone(), limits.clone());
                tasks.spawn(async move {
                    let _room = at_once.acquire_owned().await;
                    let contents = block.contents().await?;
                    let rows = tokio::task::spawn_blocking(move || parse_block(&block, contents, &limits)).await;
                    Ok::<_, PyErr>((number, rows.map_err(|error| failed(&error))?))
                });
            }
            let mut parts = BTreeMap::new();
            while let Some(task) = tasks.join_next().await {
                match task.map_err(|error| failed(&error)).and_then(|part| part) {
                    Ok((number, rows)) => _ = parts.insert(number, rows),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(Ok(parts.into_values().flatten().collect::<Vec<_>>()))
        };
        let rows = wait(py, &CancellationToken::new(), work, |_| Ok(()))??;
        to_batch(&rows).map(PyArrowType).map_err(|error| failed(&error))
    }
}

fn parse_block(block: &PyBlock, contents: Vec<Result<Vec<u8>, LoadError>>, limits: &ParseLimits) -> Vec<DocumentRow> {
    let rows = |(path, content): (&str, Result<Vec<u8>, LoadError>)| {
        document_rows(path, content.as_deref().map_err(Clone::clone), limits)
    };
    block.paths().into_iter().zip(contents).flat_map(rows).collect()
}

/// What a file gave, and the files in it.
fn document_rows(path: &str, content: Result<&[u8], LoadError>, limits: &ParseLimits) -> Vec<DocumentRow> {
    let mut rows = Vec::new();
    load::parse_files(path, content, limits, &mut |path, parsed| {
        rows.push(match parsed {
            Ok(document) => DocumentRow::Document(document),
            Err(reason) => DocumentRow::Rejected(Rejected { path: path.to_owned(), reason }),
        });
    });
    rows
}

/// Documents to chunks.
#[pyclass(frozen, module = "reverie._core", name = "Chunker")]
pub(crate) struct PyChunker {
    config: ChunkerConfig,
}

#[pymethods]
impl PyChunker {
    #[new]
    fn new(config: &Bound<'_, PyAny>) -> PyResult<Self> {
        let config: ChunkerConfig = settings::read("chunker", settings::component(config)?)?;
        config.build(&rag::Context::default()).map_err(|error| value_error(lab::error_chain(&error)))?;
        Ok(Self { config })
    }

    fn __getnewargs__(&self) -> PyResult<(String,)> {
        serde_json::to_string(&self.config).map(|text| (text,)).map_err(value_error)
    }

    /// The chunks of all documents, in order. `start` and `end` count
    /// characters, as Python does; `start_byte` and `end_byte` count bytes.
    fn chunk(&self, py: Python<'_>, batch: ArrowBatch) -> PyResult<PyBatch> {
        process::check()?;
        py.detach(|| {
            let chunker = self.config.build(&rag::Context::default()).map_err(|error| failed(&error))?;
            let documents = documents(&batch.0)?;
            let (mut chunks, mut places): (Vec<Chunk>, Vec<(u64, u64)>) = Default::default();
            for row in &documents {
                if let DocumentRow::Document(document) = row {
                    let more = chunker.chunk_now(document).map_err(|error| failed(&lab::Error::from(error)))?;
                    places.extend(characters(&document.text, &more));
                    chunks.extend(more);
                }
            }
            let batch = to_batch(&chunks).map_err(|error| failed(&error))?;
            add_characters(&batch, &places).map(PyArrowType)
        })
    }
}

/// Columns with the bytes where a chunk begins and ends: names in Python, and in the store.
const BYTE_COLUMNS: [(&str, &str); 2] = [("start_byte", "start"), ("end_byte", "end")];

/// Where chunks begin and end, in characters of the document's text.
fn characters(text: &str, chunks: &[Chunk]) -> Vec<(u64, u64)> {
    let mut wanted: Vec<usize> = chunks.iter().flat_map(|chunk| [chunk.span.start, chunk.span.end]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let (mut counted, mut last, mut at) = (0, 0, HashMap::with_capacity(wanted.len()));
    for byte in wanted {
        counted += text.get(last..byte).map_or(0, |part| part.chars().count() as u64);
        last = byte;
        at.insert(byte, counted);
    }
    let of = |byte: usize| at.get(&byte).copied().unwrap_or_default();
    chunks.iter().map(|chunk| (of(chunk.span.start), of(chunk.span.end))).collect()
}

/// Rows of chunks as Python sees them: the store's `start` and `end` are renamed, and
/// columns of these names count characters.
fn add_characters(batch: &RecordBatch, places: &[(u64, u64)]) -> PyResult<RecordBatch> {
    let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = Default::default();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let place = BYTE_COLUMNS.iter().find(|(_, stored)| stored == field.name());
        if let Some((_, name)) = place {
            let numbers = places.iter().map(|(start, end)| if *name == "start" { *start } else { *end });
            fields.push(field.as_ref().clone());
            columns.push(Arc::new(numbers.collect::<UInt64Array>()));
        }
        fields.push(place.map_or_else(|| field.as_ref().clone(), |(byte, _)| field.as_ref().clone().with_name(*byte)));
        columns.push(column.clone());
    }
    let schema = Schema::new_with_metadata(fields, batch.schema().metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns).map_err(value_error)
}

/// The chunks of a batch that `Chunker.chunk` gave.
pub(crate) fn read_chunks(batch: &RecordBatch) -> PyResult<Vec<Chunk>> {
    let named = batch.schema();
    if let Some((byte, stored)) = BYTE_COLUMNS.iter().find(|(byte, _)| batch.column_by_name(byte).is_none()) {
        return Err(value_error(format!(
            "the column `{byte}` is missing: `{stored}` counts characters; give what `chunk` gave, with all its columns"
        )));
    }
    let renamed = named.fields().iter().map(|field| {
        let byte = BYTE_COLUMNS.iter().find(|(byte, _)| byte == field.name());
        let characters = BYTE_COLUMNS.iter().find(|(_, stored)| stored == field.name());
        match (byte, characters) {
            (Some((_, stored)), _) => field.as_ref().clone().with_name(*stored),
            (None, Some((_, stored))) => field.as_ref().clone().with_name(format!("{stored}_character")),
            (None, None) => field.as_ref().clone(),
        }
    });
    let columns = Schema::new(renamed.collect::<Vec<_>>());
    let batch = RecordBatch::try_new(Arc::new(columns), batch.columns().to_vec()).map_err(value_error)?;
    let batch = nested::with_json_texts(batch)?;
    let schema = schema::<Chunk>().map_err(|error| failed(&error))?;
    let table = select_columns(&batch, &schema, |name| match name {
        "searchable" => Some(Arc::new(BooleanArray::from(vec![true; batch.num_rows()])) as ArrayRef),
        "level" => Some(Arc::new(UInt8Array::from(vec![0; batch.num_rows()])) as ArrayRef),
        _ => None,
    })?;
    from_batch(&table).map_err(|error| failed(&error))
}

/// The column of vectors.
pub(crate) const VECTOR: &str = "vector";

/// The vectors of the searchable chunks of a batch, a row for each.
pub(crate) fn read_vectors(batch: &RecordBatch, chunks: &[Chunk]) -> PyResult<Matrix> {
    let (columns, vectors) = vectors(batch, VECTOR)?;
    let mut matrix = Matrix { columns, data: Vec::new() };
    for (chunk, vector) in chunks.iter().zip(vectors).filter(|(chunk, _)| chunk.searchable) {
        let Some(vector) = vector else {
            return Err(value_error(format!("chunk {} of {} has no vector", chunk.number, chunk.document)));
        };
        matrix.data.extend_from_slice(vector.as_primitive::<Float32Type>().values());
    }
    Ok(matrix)
}

/// Chunks to vectors.
#[pyclass(frozen, module = "reverie._core", name = "Embedding")]
pub(crate) struct PyEmbedding {
    pub(crate) embedder: models::Embedder,
}

#[pymethods]
impl PyEmbedding {
    /// A name is that of a local model. `cores` are the threads that it may use;
    /// all of the machine's if left out.
    #[new]
    #[pyo3(signature = (config, cores=None))]
    fn new(py: Python<'_>, config: &Bound<'_, PyAny>, cores: Option<usize>) -> PyResult<Self> {
        let config: ModelConfig = settings::read("embedder", settings::embedder(config)?)?;
        let ModelConfig::Embedding(config) = config else { return Err(value_error("this is no embedding model")) };
        let cpu = cores.map_or_else(CpuBudget::machine, |cores| CpuBudget::new(cores.max(1)));
        let context = provider::ModelContext {
            directory: app::model_directory(),
            cpu,
            environment: Arc::new(app::environment_variable),
        };
        let _guard = runtime()?.enter();
        let model = py.detach(|| config.build(&context)).map_err(|error| failed(&error))?;
        Ok(Self { embedder: Client::new(None).embedder(model) })
    }

    /// The length of a vector; 0 until a remote model has answered.
    #[getter]
    fn dimensions(&self) -> usize {
        self.embedder.dimensions()
    }

    /// What decides the vectors, as JSON: provider, model, revision and parameters.
    #[getter]
    fn identity(&self) -> PyResult<String> {
        to_json(self.embedder.identity())
    }

    /// The vectors of texts, as questions or as documents: some models embed these in different ways.
    fn vectors(&self, py: Python<'_>, texts: Vec<String>, are_questions: bool) -> PyResult<Vec<Vec<f32>>> {
        let kind = if are_questions { InputKind::Query } else { InputKind::Document };
        let embed = || async { Ok(self.embedder.embed(&texts, kind).await?) };
        let matrix = wait(py, &CancellationToken::new(), embed, |_| Ok(()))?;
        Ok((0..matrix.rows()).map(|row| matrix.row(row).to_vec()).collect())
    }

    /// The batch with a column `vector`, null where a chunk is not searched.
    fn embed(&self, py: Python<'_>, batch: ArrowBatch) -> PyResult<PyBatch> {
        py.detach(|| {
            let batch = batch.0;
            let (texts, searchable) = (texts(&batch, "text")?, truths(&batch, "searchable")?);
            let is_searched = |i: &usize| searchable.value(*i);
            let wanted: Vec<String> =
                (0..batch.num_rows()).filter(is_searched).map(|i| texts.value(i).to_owned()).collect();
            let embedded = runtime()?.block_on(self.embedder.embed(&wanted, InputKind::Document));
            let matrix = embedded.map_err(|error| failed(&error))?;
            let columns = if matrix.columns == 0 { self.dimensions() } else { matrix.columns }.max(1);
            let rows = (0..matrix.rows()).map(|row| matrix.row(row));
            add_vectors(&batch, &searchable, columns, rows).map(PyArrowType)
        })
    }
}

/// The batch with a column of vectors of this length, null where a chunk is not searched. `rows` are those of the
/// searchable chunks, in order.
pub(crate) fn add_vectors<'a>(
    batch: &RecordBatch,
    searchable: &BooleanArray,
    columns: usize,
    mut rows: impl Iterator<Item = &'a [f32]>,
) -> PyResult<RecordBatch> {
    let mut data = Vec::with_capacity(batch.num_rows() * columns);
    for i in 0..batch.num_rows() {
        match searchable.value(i).then(|| rows.next()).flatten() {
            Some(row) => data.extend_from_slice(row),
            None => data.resize(data.len() + columns, 0.0),
        }
    }
    let item = Arc::new(Field::new("item", arrow_schema::DataType::Float32, false));
    let nulls = Some(searchable.values().clone().into());
    let width = i32::try_from(columns).map_err(value_error)?;
    let list =
        FixedSizeListArray::try_new(item, width, Arc::new(Float32Array::from(data)), nulls).map_err(value_error)?;
    let field = Field::new(VECTOR, list.data_type().clone(), true);
    let fields = batch.schema().fields().iter().cloned().chain([Arc::new(field)]).collect::<Vec<_>>();
    let schema = Schema::new_with_metadata(fields, batch.schema().metadata().clone());
    let arrays = batch.columns().iter().cloned().chain([Arc::new(list) as _]).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(value_error)
}
