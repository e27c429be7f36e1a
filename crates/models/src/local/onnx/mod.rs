//! ONNX Runtime in this process: what the local embedding and rerank models
//! share. `files` decides which file to run and converts weights if needed,
//! `tokens` makes batches of texts, `runtime` runs them within the CPU budget.

mod bert;
mod files;
pub(super) mod graph;
mod runtime;
pub(super) mod small_bert;
mod tokens;
mod weights;
mod windows;

pub(super) use bert::ModelHead;
pub(super) use files::{OnnxSettings, Quantization, RunnableModel};
pub(crate) use runtime::library;
pub(super) use runtime::{BatchOutput, SessionPool, ShapeError, ready};
pub(super) use tokens::{TextTokenizer, TokenBatch, TokenSequence, jobs};
pub(super) use weights::{Tensor, WeightFile, WeightsError};
pub(super) use windows::{LongText, TokenRange};
