//! Sessions of the networks, whose memory is bounded.

use super::MODEL;
use crate::{Error, local::onnx};
use ort::{
    environment::Environment,
    ep,
    session::{RunOptions, Session},
    value::TensorRef,
};
use std::{fmt::Display, path::Path};

/// The error for what ONNX Runtime says.
pub(super) fn failed(reason: impl Display) -> Error {
    Error::runtime(MODEL, reason.to_string())
}

/// Opens a network, whose bytes come from a file. Without an arena, detection takes half as long again. Memory patterns are
/// for inputs of one size.
pub(super) fn open(environment: &Environment, file: &Path, network: &[u8], threads: usize) -> Result<Session, Error> {
    let built = || -> ort::Result<Session> {
        let mut builder = onnx::session_builder(environment, threads)?
            .with_memory_pattern(false)?
            .with_execution_providers([ep::CPU::default().with_arena_allocator(true).build()])?;
        builder.commit_from_memory(network)
    };
    built().map_err(|error| Error::bad_file(file, error))
}

/// Runs a network with one input and one output, and gives the shape and the values of the output to `read`. With
/// `gives_memory_back`, the session frees its memory after the run; otherwise it keeps it for the next run.
pub(super) fn run<T>(
    session: &mut Session,
    shape: [usize; 4],
    values: &[f32],
    gives_memory_back: bool,
    read: impl FnOnce(&[i64], &[f32]) -> T,
) -> Result<T, Error> {
    let ran = || -> ort::Result<T> {
        let input = TensorRef::from_array_view((shape, values))?;
        let mut options = RunOptions::new()?;
        if gives_memory_back {
            options.set("memory.enable_memory_arena_shrinkage", "cpu:0")?;
        }
        let outputs = session.run_with_options(ort::inputs![input], &options)?;
        let (shape, values) = outputs[0].try_extract_tensor::<f32>()?;
        Ok(read(shape, values))
    };
    ran().map_err(failed)
}
