//! The lists of a small file, decoded when they are first searched.
//!
//! A list that is decoded is added up in half of the time. An index whose lists have few bytes is decoded as far as it
//! is searched, with the weights of the default [`Saturation`](super::Saturation): 8 bytes for each posting. A larger
//! index is searched as it is.

use super::{
    blocks::{BLOCK, List, MovedEntries, TermPostings},
    weight::Weights,
};
use std::sync::OnceLock;

/// An index whose lists have more bytes is not decoded. A posting has one to three, so the decoded lists are at most
/// about 64 to 128 MB.
pub(super) const MOST: u64 = 16 << 20;

/// The decoded lists of a file, by the numbers of their terms.
#[derive(Debug, Clone, Default)]
pub(super) struct DecodedLists(OnceLock<Vec<OnceLock<Option<DecodedList>>>>);

impl DecodedLists {
    /// The list of a term of a file with so many terms; none if it is damaged or has only one block, which is decoded
    /// anyway.
    pub(super) fn of(
        &self,
        term: usize,
        terms: usize,
        list: &List<'_>,
        weights: Weights<'_>,
        lengths: &[[u8; 4]],
    ) -> Option<&DecodedList> {
        if list.is_short() {
            return None;
        }
        let lists = self.0.get_or_init(|| std::iter::repeat_with(OnceLock::new).take(terms).collect());
        lists.get(term)?.get_or_init(|| DecodedList::new(list, weights, lengths)).as_ref()
    }
}

/// A list and the weight of each posting.
#[derive(Debug, Clone)]
pub(super) struct DecodedList {
    entries: Vec<u32>,
    weights: Vec<f32>,
}

impl DecodedList {
    fn new(list: &List<'_>, weights: Weights<'_>, lengths: &[[u8; 4]]) -> Option<Self> {
        let mut postings = TermPostings::default();
        list.append_to(&mut postings, &MovedEntries::all_behind(0), lengths)?;
        let impacts = postings.counts.iter().zip(&postings.lengths);
        let weights = impacts.map(|(&count, &length)| weights.exact(count, length) as f32).collect();
        postings.entries.shrink_to_fit();
        Some(Self { entries: postings.entries, weights })
    }

    pub(super) fn entries(&self, block: usize) -> &[u32] {
        let end = self.entries.len().min((block + 1) * BLOCK);
        self.entries.get(block * BLOCK..end).unwrap_or_default()
    }

    pub(super) fn weights(&self, block: usize) -> &[f32] {
        let end = self.weights.len().min((block + 1) * BLOCK);
        self.weights.get(block * BLOCK..end).unwrap_or_default()
    }
}
