//! The files of a corpus for Ray Data: listed once, divided into the same
//! blocks as by an engine, and read where a block's task runs.

use super::{process, remote::runtime, settings, work::value_error};
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, RecordBatch, StringArray};
use arrow_pyarrow::PyArrowType;
use arrow_schema::{DataType, Field, Schema};
use pyo3::prelude::*;
use rag::load::{LoadError, ParseLimits, Source, SourceFile};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Write,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

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
        let listed_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
        let listing = py.detach(|| {
            let parsed = Source::parse(&source, &include, &exclude, &app::store_options());
            let parsed = parsed.map_err(|error| value_error(lab::error_chain(&error)))?;
            runtime()?.block_on(parsed.survey()).map_err(|error| value_error(lab::error_chain(&error)))
        })?;
        let blocks = lab::file_blocks(listing.files.iter().map(|file| (file.path.as_str(), file.bytes)));
        let unknown = format!("of {}", store::unique_token());
        let block = |places: Vec<usize>| {
            let files: Vec<SourceFile> =
                places.into_iter().filter_map(|place| listing.files.get(place).cloned()).collect();
            let states = files.iter().map(|file| state_name(file, listed_ms).unwrap_or_else(|| unknown.clone()));
            PyBlock { source: source.clone(), limits: limits.clone(), states: states.collect(), files }
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

/// The state of a file as text; none if the file could change without changing its state.
fn state_name(file: &SourceFile, listed_ms: i64) -> Option<String> {
    let state = file.state.filter(|state| state.is_settled(listed_ms))?;
    Some(state.bytes().iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    }))
}

/// Files that one task reads; can be pickled.
#[pyclass(frozen, skip_from_py_object, module = "reverie._core", name = "Block")]
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PyBlock {
    source: String,
    limits: ParseLimits,
    files: Vec<SourceFile>,
    /// The state of each file when it was listed. A file that may have changed without changing its state has one that
    /// no other listing gives it.
    states: Vec<String>,
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

    /// Reads the files: `path`, `bytes`, and in `failure` why there are none. `unread` says that a file could not be read
    /// now, and may be later; `state` is the state of the file when it was listed.
    fn read(&self, py: Python<'_>) -> PyResult<PyArrowType<RecordBatch>> {
        process::check()?;
        py.detach(|| {
            let (mut contents, mut failures, mut unread) = (Vec::new(), Vec::new(), Vec::new());
            for read in runtime()?.block_on(self.contents())? {
                let (content, failure) = match read {
                    Ok(content) => (content, None),
                    Err(reason) => (Vec::new(), Some(reason)),
                };
                contents.push(content);
                unread.push(matches!(failure, Some(LoadError::Unreadable(_))));
                failures.push(failure.map(|reason| reason.to_string()));
            }
            let field = |name, kind, nullable| Field::new(name, kind, nullable);
            let schema = Schema::new(vec![
                field("path", DataType::Utf8, false),
                field("bytes", DataType::Binary, false),
                field("failure", DataType::Utf8, true),
                field("unread", DataType::Boolean, false),
                field("state", DataType::Utf8, false),
            ]);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from(self.paths())),
                Arc::new(BinaryArray::from_iter_values(contents)),
                Arc::new(StringArray::from(failures)),
                Arc::new(BooleanArray::from(unread)),
                Arc::new(StringArray::from_iter_values(&self.states)),
            ];
            RecordBatch::try_new(Arc::new(schema), columns).map(PyArrowType).map_err(value_error)
        })
    }
}

impl PyBlock {
    /// The path and the state of each file.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().zip(&self.states).map(|(file, state)| (file.path.as_str(), state.as_str()))
    }

    /// The block with those of its files that pass; `keeps` has a value for each.
    pub(crate) fn with_files(&self, keeps: &[bool]) -> Self {
        let kept = || keeps.iter().copied();
        let files = self.files.iter().zip(kept()).filter(|(_, keep)| *keep).map(|(file, _)| file.clone());
        let states = self.states.iter().zip(kept()).filter(|(_, keep)| *keep).map(|(state, _)| state.clone());
        Self {
            source: self.source.clone(),
            limits: self.limits.clone(),
            files: files.collect(),
            states: states.collect(),
        }
    }

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
