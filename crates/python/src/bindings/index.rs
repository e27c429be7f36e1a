//! An index of chunks in memory and what retrievers find in it, for programs
//! that use the stages by themselves.

use super::{
    arrow::{ArrowBatch, column},
    settings,
    stages::{PyEmbedding, failed, read_chunks},
    work::{to_python, value_error, wait},
};
use arrow_array::{cast::AsArray, types::UInt64Type};
use models::{Embedder, InputKind};
use pyo3::prelude::*;
use rag::{
    Chunk, ChunkTable, NamedModels, Passage, PipelineConfig,
    analysis::TextAnalysis,
    index::{Bm25Index, IndexKind, IndexedTexts, MadeFrom, OpenIndex, document_starts},
    pipeline::{OpenCorpus, Pipeline},
};
use serde_json::{Value, json as value};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// What the embedder is called in the pipeline.
const EMBEDDER: &str = "embedder";

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
    /// Indexes the chunks that `Chunker.chunk` returned with these settings.
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
        let table = Arc::new(ChunkTable::new(rows));
        let embedder = embedding.map(|embedding| embedding.embedder.clone());
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let (path, model, chunks) = (folder.path().to_owned(), embedder.clone(), table.clone());
        let build = || async move { indexes(&path, &chunks, model.as_ref()).await };
        let indexes = wait(py, &CancellationToken::new(), build, |_| Ok(()))?;
        let embedders = embedder.into_iter().map(|embedder| (EMBEDDER.to_owned(), embedder)).collect();
        let models = NamedModels { embedders, ..NamedModels::default() };
        Ok(Self {
            corpus: OpenCorpus { table, indexes },
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

    /// What a retriever finds for a question, best first.
    #[pyo3(signature = (question, retriever=None, top_k=None))]
    fn search(
        &self,
        py: Python<'_>,
        question: String,
        retriever: Option<&Bound<'_, PyAny>>,
        top_k: Option<usize>,
    ) -> PyResult<Py<PyAny>> {
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
        let work = || async move { Ok(pipeline.retrieve(&question, &[]).await?) };
        let found = wait(py, &CancellationToken::new(), work, |_| Ok(()))?;
        to_python(py, &found.iter().map(|passage| self.passage_row(passage)).collect::<Vec<_>>())
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
            let table = &self.corpus.table;
            let chunks: Vec<&Chunk> = table.searchable().iter().map(|&row| table.chunk(row)).collect();
            Arc::new(OpenIndex::new(Bm25Index::of_chunks(&chunks, &analysis)))
        };
        let index = made.entry(analysis).or_insert_with(make).clone();
        let others = self.corpus.indexes.iter().filter(|index| index.get::<Bm25Index>().is_none()).cloned();
        OpenCorpus { table: self.corpus.table.clone(), indexes: others.chain([index]).collect() }
    }

    fn passage_row(&self, passage: &Passage) -> Value {
        let character = |byte: usize| self.characters.get(&(passage.document.clone(), byte));
        let Passage { document, span, text, score, page, book, heading, .. } = passage;
        value!({
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
) -> Result<Vec<Arc<OpenIndex>>, lab::Error> {
    let chunks: Vec<&Chunk> = table.searchable().iter().map(|&row| table.chunk(row)).collect();
    let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
    let documents = document_starts(chunks.iter().map(|chunk| chunk.document.as_str()));
    let analysis = TextAnalysis::default();
    let given = IndexedTexts { texts: &texts, documents: &documents, analysis: &analysis };
    let mut made = Vec::new();
    for &kind in IndexKind::ALL {
        let path = folder.join(kind.name());
        match (kind.made_from(), embedder) {
            (MadeFrom::Texts(bytes), _) => lab::write_new(&path, &bytes(&given))?,
            (MadeFrom::Vectors(create), Some(embedder)) => {
                let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
                let matrix = embedder.embed(&texts, InputKind::Document).await.map_err(rag::Error::from)?;
                let mut writer = create(&path, matrix.columns.max(1))?;
                writer.push(&matrix)?;
                writer.finish()?;
            }
            _ => continue,
        }
        made.push(Arc::new(kind.open(&[path])?));
    }
    Ok(made)
}
