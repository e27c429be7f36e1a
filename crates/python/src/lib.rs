//! The module `reverie._core`: what the Python package `reverie` does in Rust.
//!
//! - [`scheduler`]: which task is next, and what an attempt's end means for it.
//! - [`aimd`]: how many attempts may run, by Phoenix's rule.
//! - [`adaptive`]: the same, as the limiter of the crate `executor` learns it.
//! - `run` (feature `python`): the scheduler as Python sees it, with outputs,
//!   inputs and the concurrency controller.
//! - `run::attempt` (feature `python`): one attempt at a task, as an awaitable.
//! - `windows`, `learned` (feature `python`): `aimd` and `adaptive` as Python sees them.
//! - `remote`, `limits` (feature `python`): the engine of a Ray cluster.
//! - `process` (feature `python`): what the package knows of its own process.
//! - `arrow` (feature `python`): batches as other programs make them.
//! - `experiment`, `results`, `stages`, `index`, `corpus` (feature `python`): experiments, pipelines, what a run found, and
//!   stages for Python programs.
//! - `events` (feature `python`): an answer while it is written.
//! - `golden`, `judging` (feature `python`): golden questions; what judges are asked, and whether they can tell right
//!   from wrong.
//! - `scoring`, `rows`, `stop` (feature `python`): scoring of answers, data that Python holds, and the end of work that
//!   nobody waits for.
//! - `work` (feature `python`): waiting for work with the GIL released, Ctrl-C, and errors as Python raises them.
//! - `service` (feature `python`): the HTTP service inside a server of Python.
//! - `graph`, `elsewhere` (feature `python`): the parts of a bundle in several processes, and the way between them.
//! - `settings` (feature `python`): dictionaries and objects of classes as settings.
//!
//! Executors run no event loop of their own: the user's `asyncio` loop calls
//! their code, which holds no thread and never waits.

pub mod adaptive;
pub mod aimd;
pub mod scheduler;

#[cfg(feature = "python")]
mod arrow;
#[cfg(feature = "python")]
mod corpus;
#[cfg(feature = "python")]
mod elsewhere;
#[cfg(feature = "python")]
mod events;
#[cfg(feature = "python")]
mod experiment;
#[cfg(feature = "python")]
mod golden;
#[cfg(feature = "python")]
mod graph;
#[cfg(feature = "python")]
mod index;
#[cfg(feature = "python")]
mod judging;
#[cfg(feature = "python")]
mod learned;
#[cfg(feature = "python")]
mod limits;
#[cfg(feature = "python")]
mod process;
#[cfg(feature = "python")]
mod remote;
#[cfg(feature = "python")]
mod results;
#[cfg(feature = "python")]
mod rows;
#[cfg(feature = "python")]
mod run;
#[cfg(feature = "python")]
mod scoring;
#[cfg(feature = "python")]
mod service;
#[cfg(feature = "python")]
mod settings;
#[cfg(feature = "python")]
mod stages;
#[cfg(feature = "python")]
mod stop;
#[cfg(feature = "python")]
mod windows;
#[cfg(feature = "python")]
mod work;

/// `reverie._core`.
#[cfg(feature = "python")]
#[pyo3::pymodule]
mod _core {
    /// Functions of the user's own run where this runs.
    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        app::install_advice();
        crate::process::prepare(module.py())
    }

    #[pymodule_export]
    use crate::{
        corpus::{PyBlock, PyCorpus, axes, rejection, store_variables},
        elsewhere::PyReplies,
        events::PyEvents,
        experiment::{PyExperiment, PyPipeline, experiment_names},
        golden::{PyQuestions, golden_estimate, golden_generate},
        graph::{PyPart, parts},
        index::PyIndex,
        judging::{explain, qualify},
        learned::PyAdaptive,
        limits::PyLimits,
        process::{PyServedFunction, function_place},
        remote::{PyDone, RayWorker, home, main},
        results::{PyResults, runs},
        run::{PyAttempt, PyScheduler},
        scoring::{compare_scores, score},
        service::{PyReply, PyService},
        settings::settings,
        stages::{PyChunker, PyEmbedding, PyFolder, PyIndexWriter, PyParser},
        stop::PyStop,
        windows::PyWindows,
    };
}
