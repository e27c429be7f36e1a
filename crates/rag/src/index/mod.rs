//! `index`: the indexes that retrievers and rerankers search.
//!
//! A kind of index is one file that implements [`Index`], and one line in the
//! list below. Plan, keys, artifacts and their checks follow from that line. A
//! component that searches the index names its kind in `Component::indexes`,
//! and takes the opened index from the [`Corpus`](crate::corpus::Corpus).

mod coarse;
mod dense_file;
mod dense_part;
mod header;
mod kernel;
mod kind;
mod share;
mod token_file;
mod top;
mod vector_writer;

pub use bm25::Saturation;
pub use database::{FilledCollection, SEARCH_RETRIES};
pub use dense_file::DenseWriter;
pub use graph::{BuiltGraph, GraphProgress, GraphSettings};
pub use kind::{CreateVectors, EntryTexts, Index, IndexedTexts, MadeFrom, OpenIndex, WriteTexts, document_starts};
pub use token_file::{TokenBlock, TokenWriter};
pub use vector_writer::VectorWriter;

pub(crate) use kernel::map_file;
#[cfg(test)]
pub(crate) use {dense_part::tests as dense_tests, token_index::tests as token_index_tests};

use std::collections::BTreeSet;

kind::kinds! {
    /// Exact search over vectors.
    Dense => dense::DenseIndex,
    /// Search by words.
    Bm25 => bm25::Bm25Index,
    /// A vector for each token of each chunk.
    Tokens => token_index::TokenIndex,
    /// A graph over the vectors of the dense index.
    Hnsw => graph::GraphIndex,
    /// A collection of a database.
    Database => database::DatabaseIndex,
}

/// The kinds of index that a component searches.
pub type Indexes = BTreeSet<IndexKind>;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::analysis::TextAnalysis;
    use std::sync::Arc;

    /// An opened index of each kind that is made from texts.
    pub(crate) fn open_text_indexes(texts: &[&str]) -> Vec<Arc<OpenIndex>> {
        let folder = tempfile::tempdir().unwrap();
        let open = |&kind: &IndexKind| {
            let MadeFrom::Texts(write) = kind.made_from() else { return None };
            let file = folder.path().join(kind.name());
            write(&texts, &TextAnalysis::default(), &file, folder.path()).unwrap();
            Some(Arc::new(kind.open(&[file]).unwrap()))
        };
        IndexKind::ALL.iter().filter_map(open).collect()
    }
}
