//! All that Python sees of this crate.
//!
//! - `run`: the scheduler as Python sees it, with outputs, inputs and the concurrency
//!   controller; `run::attempt`: one attempt at a task, as an awaitable.
//! - `controllers`: `aimd` and `adaptive` as Python sees them.
//! - `remote`, `limits`: the engine of a Ray cluster.
//! - `process`: what the package knows of its own process.
//! - `arrow`: batches as other programs make them; `nested`: their lists and structures as the JSON texts of the
//!   store's tables.
//! - `experiment`, `results`, `stages`, `index`, `corpus`: experiments, pipelines, what a
//!   run found, and stages for Python programs.
//! - `index_files`, `index_parts`: the files of an index at an address, written by one process, or by the workers of a
//!   cluster in parts.
//! - `events`: an answer while it is written.
//! - `golden`, `judging`: golden questions; what judges are asked, and whether they can
//!   tell right from wrong.
//! - `scoring`, `rows`, `stop`: scoring of answers, data that Python holds, and the end of
//!   work that nobody waits for.
//! - `work`: waiting for work with the GIL released, Ctrl-C, and errors as Python raises
//!   them.
//! - `service`: the HTTP service inside a server of Python.
//! - `graph`, `part_transport`: the parts of a bundle in several processes, and the way between
//!   them.
//! - `settings`: dictionaries and objects of classes as settings.

#![expect(clippy::too_many_arguments, reason = "Python names each argument")]

pub(crate) mod arrow;
pub(crate) mod controllers;
pub(crate) mod corpus;
pub(crate) mod events;
pub(crate) mod experiment;
pub(crate) mod golden;
pub(crate) mod graph;
pub(crate) mod index;
pub(crate) mod index_files;
pub(crate) mod index_parts;
pub(crate) mod judging;
pub(crate) mod limits;
pub(crate) mod nested;
pub(crate) mod page_view;
pub(crate) mod part_transport;
pub(crate) mod process;
pub(crate) mod remote;
pub(crate) mod results;
pub(crate) mod rows;
pub(crate) mod run;
pub(crate) mod scoring;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod stages;
pub(crate) mod stop;
pub(crate) mod work;
