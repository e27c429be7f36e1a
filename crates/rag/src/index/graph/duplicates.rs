//! Entries with the same vector. Only the first of them is a node of the graph: a thousand copies of a page's footer
//! would otherwise link to each other only, and fill every search that comes near them.

use crate::index::DenseIndex;
use foldhash::fast::FixedState;
use rayon::prelude::*;
use std::hash::{BuildHasher, Hasher};

/// Pairs of a node and another entry with the same vector, ascending, as a graph file holds them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Duplicates<'a>(pub(super) &'a [[[u8; 4]; 2]]);

impl<'a> Duplicates<'a> {
    /// The other entries with the vector of a node, ascending.
    pub(super) fn of(self, node: u32) -> impl Iterator<Item = u32> + 'a {
        let first = self.0.partition_point(|[of, _]| u32::from_le_bytes(*of) < node);
        let pairs = self.0[first..].iter().map(|pair| pair.map(u32::from_le_bytes));
        pairs.take_while(move |[of, _]| *of == node).map(|[_, entry]| entry)
    }
}

/// For each entry whose vector an earlier entry has too: the first entry with it, and this one; ascending.
pub(super) fn find_duplicates(vectors: &DenseIndex, entries: u32) -> Vec<(u32, u32)> {
    let hasher = FixedState::default();
    let bits = |entry: u32| vectors.row(entry).iter().map(|value| value.to_bits());
    let hash = |entry: u32| {
        let mut hasher = hasher.build_hasher();
        bits(entry).for_each(|bits| hasher.write_u32(bits));
        hasher.finish()
    };
    let mut hashes: Vec<(u64, u32)> = (0..entries).into_par_iter().map(|entry| (hash(entry), entry)).collect();
    hashes.par_sort_unstable();
    let mut duplicates = Vec::new();
    for run in hashes.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
        // Different vectors may have the same hash.
        let mut firsts: Vec<u32> = Vec::new();
        for &(_, entry) in run {
            match firsts.iter().find(|&&first| bits(first).eq(bits(entry))) {
                Some(&first) => duplicates.push((first, entry)),
                None => firsts.push(entry),
            }
        }
    }
    duplicates.sort_unstable();
    duplicates
}
