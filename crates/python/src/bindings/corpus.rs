//! The files of a corpus for Ray Data: listed once, divided into the same
//! blocks as by an engine, and read where a block's task runs.

use super::{process, remote::runtime, settings, work::value_error};
use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow_pyarrow::PyArrowType;
use arrow_schema::{DataType, Field, Schema};
use pyo3::prelude::*;
use rag::load::{LoadError, ParseLimits, Source, SourceFile};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A corpus that was listed.
#[pyclass(frozen, module = "reverie._core", name = "Corpus")]
pub(crate) struct PyCorpus {
    blocks: Vec<PyBlock>,
    /// Links that leave the corpus or lead nowhere, unusable names, and what cannot be
    /// read, each with the reason.
    #[pyo3(get)]
    rejected: Vec<(String, String)>,
}

#[pymethods]
impl PyCorpus {
    /// Lists a folder, a file, a pattern or an object store; patterns and
    /// limits are those of `[corpus]`.
    #[new]
    #[pyo3(signature = (source, include=Vec::new(), exclude=Vec::new(), limits=None))]
    fn new(
        py: Python<'_>,
        source: String,
        include: Vec<String>,
        exclude: Vec<String>,
        limits: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let limits: ParseLimits = settings::read("limits", settings::table(limits)?)?;
        // Workers have other working folders.
        let source = match store::is_url(&source) {
            true => source,
            false => std::path::absolute(&source).map_err(value_error)?.display().to_string(),
        };
        let listing = py.detach(|| {
            let parsed = Source::parse(&source, &include, &exclude, &app::store_options());
            let parsed = parsed.map_err(|error| value_error(lab::error_chain(&error)))?;
            runtime()?.block_on(parsed.survey()).map_err(|error| value_error(lab::error_chain(&error)))
        })?;
        let blocks = lab::file_blocks(listing.files.iter().map(|file| (file.path.as_str(), file.bytes)));
        let block = |places: Vec<usize>| PyBlock {
            source: source.clone(),
            limits: limits.clone(),
            files: places.into_iter().filter_map(|place| listing.files.get(place).cloned()).collect(),
        };
        let rejected = listing.rejected.iter().map(|file| (file.path.clone(), lab::error_chain(&file.reason)));
        let unread = listing
            .unread
            .iter()
            .map(|file| (file.path.clone(), LoadError::Unreadable(file.reason.clone()).to_string()));
        Ok(Self { blocks: blocks.into_iter().map(block).collect(), rejected: rejected.chain(unread).collect() })
    }

    /// The blocks, in the order of their first files.
    #[getter]
    pub(crate) fn blocks(&self) -> Vec<PyBlock> {
        self.blocks.clone()
    }

    /// How many files the blocks have.
    fn __len__(&self) -> usize {
        self.blocks.iter().map(|block| block.files.len()).sum()
    }
}

/// Files that one task reads; can be pickled.
#[pyclass(frozen, skip_from_py_object, module = "reverie._core", name = "Block")]
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PyBlock {
    source: String,
    limits: ParseLimits,
    files: Vec<SourceFile>,
}

#[pymethods]
impl PyBlock {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map_err(value_error)
    }

    fn __getnewargs__(&self) -> PyResult<(String,)> {
        serde_json::to_string(self).map(|text| (text,)).map_err(value_error)
    }

    fn __len__(&self) -> usize {
        self.files.len()
    }

    /// The names of the files.
    #[getter]
    pub(crate) fn paths(&self) -> Vec<&str> {
        self.files.iter().map(|file| file.path.as_str()).collect()
    }

    /// Their sizes together, when they were listed.
    #[getter]
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Reads the files: `path`, `bytes`, and in `failure` why there are none.
    fn read(&self, py: Python<'_>) -> PyResult<PyArrowType<RecordBatch>> {
        process::check()?;
        py.detach(|| {
            let (mut contents, mut failures) = (Vec::new(), Vec::new());
            for read in runtime()?.block_on(self.contents())? {
                let (content, failure) = match read {
                    Ok(content) => (content, None),
                    Err(reason) => (Vec::new(), Some(reason.to_string())),
                };
                contents.push(content);
                failures.push(failure);
            }
            let field = |name, kind, nullable| Field::new(name, kind, nullable);
            let schema = Schema::new(vec![
                field("path", DataType::Utf8, false),
                field("bytes", DataType::Binary, false),
                field("failure", DataType::Utf8, true),
            ]);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from(self.paths())),
                Arc::new(BinaryArray::from_iter_values(contents)),
                Arc::new(StringArray::from(failures)),
            ];
            RecordBatch::try_new(Arc::new(schema), columns).map(PyArrowType).map_err(value_error)
        })
    }
}

impl PyBlock {
    /// The content of each file, or why it could not be read.
    pub(crate) async fn contents(&self) -> PyResult<Vec<Result<Vec<u8>, LoadError>>> {
        let source = Source::parse(&self.source, &[], &[], &app::store_options());
        let source = source.map_err(|error| value_error(lab::error_chain(&error)))?;
        let mut contents = Vec::with_capacity(self.files.len());
        for file in &self.files {
            contents.push(match lab::read_file(&source, file, &self.limits).await {
                Ok(read) => read.map(Into::into),
                Err(unread) => Err(LoadError::Unreadable(unread.reason)),
            });
        }
        Ok(contents)
    }
}

/// Why a file gave no document, as text, from its value in the column `rejected` of
/// `Parser.parse`; nothing if it gave one.
#[pyfunction]
pub(crate) fn rejection(rejected: &str) -> PyResult<Option<String>> {
    let reason: Option<LoadError> = serde_json::from_str(rejected).map_err(value_error)?;
    Ok(reason.map(|reason| lab::error_chain(&reason)))
}

/// The names of the axes of an experiment, in the order of the stages.
#[pyfunction]
pub(crate) fn axes() -> &'static [&'static str] {
    lab::Axis::NAMES
}

/// The prefixes of environment variables for access to object stores.
#[pyfunction]
pub(crate) fn store_variable_prefixes() -> Vec<&'static str> {
    store::VARIABLE_PREFIXES.to_vec()
}
