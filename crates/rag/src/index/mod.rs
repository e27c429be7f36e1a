//! `index`: what retrievers search.

mod bm25;
mod coarse;
mod dense;
mod dense_file;
mod kernel;
mod tokens;
mod top;

pub use bm25::Bm25Index;
pub use dense::DenseIndex;
pub use dense_file::DenseWriter;
pub(crate) use tokens::Tokenizer;

/// Raise when the dense index' file or scores change.
pub const DENSE_VERSION: u32 = 1;
/// Raise when the BM25 index' tokens or scores change.
pub const BM25_VERSION: u32 = 1;
