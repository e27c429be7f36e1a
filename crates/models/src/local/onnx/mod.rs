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

pub(super) use bert::Head;
pub(super) use files::{Located, Quantization, Settings};
pub(crate) use runtime::library;
pub(super) use runtime::{Output, SessionPool, ShapeError, ready};
pub(super) use tokens::{Batch, TextTokenizer, Tokenized, jobs};
pub(super) use weights::{Tensor, Weights, WeightsError};
pub(super) use windows::{LongText, Stretch};
