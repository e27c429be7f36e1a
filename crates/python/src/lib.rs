//! The module `reverie._core`: what the Python package `reverie` does in Rust.
//!
//! For `reverie.executors`, where a run is one call of an executor, and a task
//! is one of its inputs:
//!
//! - [`scheduler`]: which task is next, and what an attempt's end means for it.
//! - [`aimd`]: how many attempts may run, by the rule of Phoenix (`phoenix.evals.executors`).
//! - [`adaptive`]: the same, as the limiter of the crate `executor` learns it.
//!
//! And `bindings` (feature `python`): all that Python sees.
//!
//! Executors run no event loop of their own: the user's `asyncio` loop calls
//! their code, which holds no thread and never waits.

pub mod adaptive;
pub mod aimd;
pub mod scheduler;

#[cfg(feature = "python")]
mod bindings;

/// `reverie._core`.
#[cfg(feature = "python")]
#[pyo3::pymodule]
mod _core {
    /// From now on errors name commands of `reverie`, and user functions run in processes of `sys.executable`.
    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        app::install_advice();
        crate::bindings::process::prepare(module.py())
    }

    #[pymodule_export]
    use crate::bindings::{
        controllers::{PyAdaptive, PyAimd},
        corpus::{PyBlock, PyCorpus, axes, rejection, store_variable_prefixes},
        events::PyEvents,
        experiment::{PyExperiment, PyPipeline, experiment_names},
        golden::{PyQuestions, golden_estimate, golden_generate},
        graph::{PyPart, parts},
        index::PyIndex,
        index_files::{PyFolder, PyIndexWriter},
        index_parts::{PyIndexParts, index_settings},
        judging::{explain, qualify},
        limits::PyLimits,
        page_view::view_page,
        part_transport::PyReplySink,
        process::{PyServedFunction, register_function_place, system_code},
        remote::{PyDone, RayWorker, home, main},
        results::{PyResults, runs},
        run::{PyAttempt, PyScheduler},
        scoring::{compare_scores, score},
        service::{PyReply, PyService},
        settings::settings,
        stages::{PyChunker, PyEmbedding, PyParser},
        stop::PyStop,
    };
}
