//! The entries that contain each term.

use std::ops::Range;

/// Each term with the entries that contain it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Postings {
    /// All terms, sorted by their bytes.
    pub(super) terms: Vec<String>,
    /// The postings of term `i` are `starts[i]..starts[i + 1]`.
    pub(super) starts: Vec<usize>,
    /// Entries that contain the term, ascending within a term.
    pub(super) entries: Vec<u32>,
    /// How often each of these entries contains the term.
    pub(super) counts: Vec<u32>,
}

impl Postings {
    /// The places of a term's postings among all postings.
    pub(super) fn range(&self, term: usize) -> Range<usize> {
        self.starts[term]..self.starts[term + 1]
    }

    /// The entries that contain a term.
    pub(super) fn entries_of(&self, term: usize) -> &[u32] {
        &self.entries[self.range(term)]
    }
}
