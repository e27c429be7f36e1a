//! An index of chunks in memory and what retrievers find in it, for programs
//! that use the stages by themselves.

use super::{
    arrow::{ArrowBatch, column, truths},
    settings,
    stages::{PyEmbedding, VECTOR, add_vectors, failed, read_chunks, read_vectors},
    stop::PyStop,
    work::{to_python, value_error, wait},
};
use arrow_array::{RecordBatch, cast::AsArray, types::UInt64Type};
use arrow_pyarrow::PyArrowType;
use models::{Embedder, InputKind, Matrix};
use pyo3::prelude::*;
use rag::{
    ChunkTable, Filter, NamedModels, Passage, PipelineConfig, VectorSearch,
    analysis::TextAnalysis,
    index::{Bm25Index, DenseIndex, IndexKind, IndexedTexts, MadeFrom, OpenIndex, document_starts},
    pipeline::{OpenCorpus, Pipeline},
    query::SearchQuery,
};
use serde_json::{Value, json as value};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// What the embedder is called in the pipeline.
const EMBEDDER: &str = "embedder";

/// Two vectors of one text by one model have at least this cosine.
const LEAST_COSINE: f32 = 0.98;

/// An index of chunks, and of their vectors if there is an embedder.
#[pyclass(frozen, module = "reverie._core", name = "Index")]
pub(crate) struct PyIndex {
    corpus: OpenCorpus,
    models: NamedModels,
    /// Joins hits with their surroundings, such as the sentences around a hit.
    chunker: Value,
    /// The characters at which chunks start and end, by document and byte.
    characters: HashMap<(String, usize), u64>,
    /// BM25 indexes of other settings than the default, each made when it is first searched.
    made: Mutex<BTreeMap<TextAnalysis, Arc<OpenIndex>>>,
    /// Files of indexes that are read from a disk.
    _folder: tempfile::TempDir,
}

#[pymethods]
impl PyIndex {
    /// Indexes the chunks that `Chunker.chunk` returned with these settings. If they have a column `vector`, nothing
    /// is embedded, and the vectors must be those of the embedding.
    #[new]
    #[pyo3(signature = (chunks, chunker, embedding=None))]
    fn new(
        py: Python<'_>,
        chunks: ArrowBatch,
        chunker: &Bound<'_, PyAny>,
        embedding: Option<&PyEmbedding>,
    ) -> PyResult<Self> {
        let batch = chunks.0;
        let chunker = settings::component(chunker)?;
        let rows = read_chunks(&batch)?;
        let mut characters = HashMap::new();
        for (name, end) in [("start", false), ("end", true)] {
            if let Some(counted) = column(&batch, name)?.as_primitive_opt::<UInt64Type>() {
                let places = rows.iter().map(|row| if end { row.span.end } else { row.span.start });
                let documents = rows.iter().map(|row| row.document.clone());
                characters.extend(documents.zip(places).zip(counted.values().iter().copied()));
            }
        }
        let vectors = batch.column_by_name(VECTOR).map(|_| read_vectors(&batch, &rows)).transpose()?;
        let embedder = embedding.map(|embedding| embedding.embedder.clone());
        if let (Some(vectors), None) = (&vectors, &embedder) {
            return Err(value_error(format!(
                "the chunks have vectors of {} numbers: name the embedder that made them, because questions are \
                 compared with them; or drop the column `{VECTOR}` to search words only",
                vectors.columns
            )));
        }
        let table = Arc::new(ChunkTable::new(rows));
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let (path, model, chunks) = (folder.path().to_owned(), embedder.clone(), table.clone());
        let build = || async move { indexes(&path, &chunks, model.as_ref(), vectors).await };
        let indexes = wait(py, &CancellationToken::new(), build, |_| Ok(()))?;
        let embedders = embedder.into_iter().map(|embedder| (EMBEDDER.to_owned(), embedder)).collect();
        let models = NamedModels { embedders, ..NamedModels::default() };
        Ok(Self {
            corpus: OpenCorpus { table, indexes, vector_search: VectorSearch::Exact },
            models,
            chunker,
            characters,
            made: Mutex::default(),
            _folder: folder,
        })
    }

    /// How many chunks can be found.
    fn __len__(&self) -> usize {
        self.corpus.table.searchable().len()
    }

    /// Whether there are vectors.
    #[getter]
    fn embedded(&self) -> bool {
        !self.models.embedders.is_empty()
    }

    /// The chunks of which the index was made, with their vectors in a column `vector`.
    fn with_vectors(&self, py: Python<'_>, chunks: ArrowBatch) -> PyResult<PyArrowType<RecordBatch>> {
        py.detach(|| {
            let Some(dense) = self.corpus.indexes.iter().find_map(|index| index.get::<DenseIndex>()) else {
                return Ok(PyArrowType(chunks.0));
            };
            let searchable = truths(&chunks.0, "searchable")?;
            let vectors = (0..self.corpus.table.searchable().len() as u32).map(|entry| dense.vector(entry));
            add_vectors(&chunks.0, &searchable, dense.dimensions(), vectors).map(PyArrowType)
        })
    }

    /// What a retriever finds for each question, best first. Only chunks that pass the filter are found.
    #[pyo3(signature = (questions, retriever=None, top_k=None, filter=None, stop=None))]
    fn search(
        &self,
        py: Python<'_>,
        questions: Vec<String>,
        retriever: Option<&Bound<'_, PyAny>>,
        top_k: Option<usize>,
        filter: Option<&Bound<'_, PyAny>>,
        stop: Option<&PyStop>,
    ) -> PyResult<Py<PyAny>> {
        let filter: Option<Filter> =
            filter.map(|filter| settings::read("filter", settings::value(filter)?)).transpose()?;
        if let Some(filter) = &filter {
            self.corpus.table.check_filter(filter).map_err(|error| value_error(lab::error_chain(&error)))?;
        }
        let default = if self.embedded() { "hybrid" } else { "bm25" };
        let mut retriever = retriever.map_or_else(|| Ok(value!({ default: {} })), settings::component)?;
        let settings = retriever.as_object_mut().and_then(|named| named.values_mut().next());
        if let (Some(top_k), Some(settings)) = (top_k, settings) {
            settings["top_k"] = top_k.into();
        }
        let mut config = value!({ "chunker": self.chunker, "retriever": retriever });
        if self.embedded() {
            config["embedder"] = EMBEDDER.into();
        }
        let config: PipelineConfig = settings::read("retriever", config)?;
        let needed = config.indexes().into_iter().find(|kind| kind.embeds() && !self.embedded());
        if let Some(kind) = needed {
            return Err(value_error(format!(
                "retriever: it searches the {}, and this index has words only: give `embedder` to `reverie.index`, or \
                 search with `reverie.retriever.Bm25()`",
                kind.title()
            )));
        }
        let pipeline = Pipeline::new(&config, self.corpus_for(&config), &self.models);
        let pipeline = pipeline.map_err(|error| value_error(lab::error_chain(&error)))?;
        if questions.is_empty() {
            return to_python(py, &Vec::<Value>::new());
        }
        let searches: Vec<SearchQuery> =
            questions.into_iter().map(|text| SearchQuery { filter: filter.clone(), ..text.into() }).collect();
        let work = || async move {
            let vectors = pipeline.query_vectors(&searches).await?;
            let each = searches.into_iter().map(|search| vec![search]).collect();
            Ok(pipeline.find_each(each, vectors).await?)
        };
        let found = wait(py, &PyStop::token(stop), work, |_| Ok(()))?;
        let rows = found.iter().map(|found| found.passages.iter().map(|passage| self.passage_row(passage)).collect());
        to_python(py, &rows.collect::<Vec<Vec<Value>>>())
    }
}

impl PyIndex {
    /// The corpus with the BM25 index that this pipeline needs. If the retriever cuts texts into terms
    /// by other settings than the default, that index is made now and kept for the next search.
    fn corpus_for(&self, config: &PipelineConfig) -> OpenCorpus {
        let analysis = config.text_analysis();
        let is_cut_so = |index: &Arc<OpenIndex>| index.get::<Bm25Index>().is_none_or(|bm25| bm25.fits(&analysis));
        if !config.indexes().contains(&IndexKind::Bm25) || self.corpus.indexes.iter().all(is_cut_so) {
            return self.corpus.clone();
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let chunks = || self.corpus.table.searchable_chunks();
            let texts: Vec<&str> = chunks().map(|chunk| chunk.text).collect();
            let documents = document_starts(chunks().map(|chunk| chunk.document));
            let given = IndexedTexts { texts: &texts, documents: &documents, analysis: &analysis, languages: None };
            Arc::new(OpenIndex::new(Bm25Index::of(&given)))
        };
        let index = made.entry(analysis).or_insert_with(make).clone();
        let others = self.corpus.indexes.iter().filter(|index| index.get::<Bm25Index>().is_none()).cloned();
        OpenCorpus { indexes: others.chain([index]).collect(), ..self.corpus.clone() }
    }

    fn passage_row(&self, passage: &Passage) -> Value {
        let character = |byte: usize| self.characters.get(&(passage.document.clone(), byte));
        let Passage { document, span, text, score, page, book, heading, rows, .. } = passage;
        let chunk = rows.first().map(|&row| self.corpus.table.chunk(row));
        value!({
            "number": chunk.map(|chunk| chunk.number), "metadata": chunk.map(|chunk| chunk.metadata()),
            "document": document, "start": character(span.start), "end": character(span.end),
            "start_byte": span.start, "end_byte": span.end, "text": text, "score": score, "page": page, "book": book,
            "heading": heading,
        })
    }
}

/// An index of each kind that can be made of texts, and of their vectors where
/// there is an embedder.
async fn indexes(
    folder: &std::path::Path,
    table: &ChunkTable,
    embedder: Option<&Embedder>,
    vectors: Option<Matrix>,
) -> Result<Vec<Arc<OpenIndex>>, lab::Error> {
    let texts: Vec<&str> = table.searchable_chunks().map(|chunk| chunk.text).collect();
    let vectors = match (embedder, vectors) {
        (Some(embedder), Some(vectors)) => {
            check_vectors(embedder, &vectors, texts.first().copied()).await?;
            Some(vectors)
        }
        (Some(embedder), None) => {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            Some(embedder.embed(&texts, InputKind::Document).await.map_err(rag::Error::from)?)
        }
        (None, _) => None,
    };
    let mut made = Vec::new();
    for &kind in IndexKind::ALL {
        let path = folder.join(kind.name());
        match (kind.made_from(), &vectors) {
            (MadeFrom::Texts(write), _) => {
                let parts = folder.join("index-parts");
                write(table, &TextAnalysis::default(), &path, &parts)?;
                // The folder of an index is made once, so its parts are of no more use.
                drop(std::fs::remove_dir_all(parts));
            }
            (MadeFrom::Vectors(create), Some(matrix)) => {
                let mut writer = create(&path, matrix.columns.max(1))?;
                writer.push(matrix)?;
                writer.finish()?;
            }
            _ => continue,
        }
        made.push(Arc::new(kind.open(&[path])?));
    }
    Ok(made)
}

/// Checks that vectors from elsewhere are those of this embedder: it embeds the first text once more, and the two
/// vectors must be nearly equal.
async fn check_vectors(embedder: &Embedder, vectors: &Matrix, text: Option<&str>) -> Result<(), lab::Error> {
    let Some(text) = text else { return Ok(()) };
    let refuse = |reason: String| {
        let reason =
            format!("the vectors of the chunks are not those of the embedder: {reason}; embed the chunks anew");
        Err(lab::Error::Refused(vec![reason]))
    };
    let own = embedder.embed(&[text.to_owned()], InputKind::Document).await.map_err(rag::Error::from)?;
    if own.columns != vectors.columns {
        return refuse(format!("they have {} numbers, and its vectors have {}", vectors.columns, own.columns));
    }
    let cosine = rag::embed::cosine(own.row(0), vectors.row(0));
    // Vectors in another precision differ a little.
    if cosine >= LEAST_COSINE {
        Ok(())
    } else {
        refuse(format!("the cosine of the first one with its own is {cosine:.3}"))
    }
}
