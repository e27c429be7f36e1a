//! The module `reverie._core`: what the Python package `reverie` does in Rust.
//!
//! - [`scheduler`]: which task is next, and what an attempt's end means for it.
//! - `run` (feature `python`): the scheduler as Python sees it, with outputs,
//!   inputs and the concurrency controller.
//! - `attempt` (feature `python`): one attempt at a task, as an awaitable.
//! - `windows` (feature `python`): Phoenix's AIMD rule.
//!
//! Nothing here runs an event loop: the user's own `asyncio` loop does, and
//! the code here is called by it, holds no thread, and never waits.

pub mod scheduler;

#[cfg(feature = "python")]
mod attempt;
#[cfg(feature = "python")]
mod run;
#[cfg(feature = "python")]
mod windows;

/// `reverie._core`.
#[cfg(feature = "python")]
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::{attempt::Attempt, run::Scheduler, windows::Windows};
}
