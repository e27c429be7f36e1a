//! How the file of an index of vectors is written.

use super::DenseIndex;
use crate::Error;
use models::Matrix;
use std::ops::Range;

/// Writes an index of vectors, shard by shard.
pub trait VectorWriter: Send {
    /// Adds the vectors of the next chunks.
    ///
    /// # Errors
    /// Rows of another length, numbers that are not finite, or a full disk.
    fn push(&mut self, shard: &Matrix) -> Result<(), Error>;

    /// Adds vectors of a dense index.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    ///
    /// # Panics
    /// If there are no such entries.
    fn push_from(&mut self, index: &DenseIndex, entries: Range<u32>) -> Result<(), Error>;

    /// Completes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    fn finish(self: Box<Self>) -> Result<(), Error>;
}
