//! Models that compute in this process, within one budget of cores: ONNX
//! Runtime (`onnx`) for embedding and reranking, llama.cpp (`llama`) for chat,
//! and static embeddings.

use crate::provider::{every_provider, modules};

mod llama;
mod onnx;

every_provider!(modules local);

pub(crate) use onnx::{library as onnx_library, small_bert::write as write_small_bert};

/// Where the models of this folder compute.
pub(crate) const PLACE: crate::ModelPlace = crate::ModelPlace::Here;

#[cfg(test)]
/// Helper functions that tests of other modules use.
pub(crate) mod testing {
    pub(crate) use super::{llama::tiny::write as write_tiny_chat, onnx::small_bert::write_small_bert};
}
