//! `index`: the indexes that retrievers search.

mod bm25;
mod coarse;
mod dense;
mod dense_file;
mod kernel;
mod token_file;
mod token_index;
mod tokens;
mod top;

pub use bm25::Bm25Index;
pub use dense::DenseIndex;
pub use dense_file::DenseWriter;
pub use token_file::{TokenBlock, TokenWriter};
pub use token_index::TokenIndex;
pub(crate) use tokens::Tokenizer;
#[cfg(test)]
pub(crate) use {dense::tests as dense_tests, token_index::tests as token_index_tests};

/// Raise when the dense index' file or scores change.
pub const DENSE_VERSION: u32 = 1;
/// Raise when the BM25 index' tokens or scores change.
pub const BM25_VERSION: u32 = 1;
/// Raise when the token index' file or scores change.
pub const TOKENS_VERSION: u32 = 1;
