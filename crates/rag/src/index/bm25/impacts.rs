//! Impacts: what says how much a term can add to the score of any entry of a block.
//!
//! The weight of a term rises with its count in an entry, and falls with the entry's length. So the largest weight of
//! a block is that of one of the pairs of count and length that no other pair of the block dominates, whatever the
//! weights' parameters are. A block stores these pairs, not a weight.
//!
//! Source: Ding and Suel, Faster Top-k Document Retrieval Using PostingBlock-Max Indexes, 2011; the pairs are those of
//! Lucene's impacts: Grand, Muir, Ferenczi and Lin, From MaxScore to PostingBlock-Max WAND: The Story of How Lucene
//! Significantly Improved Query Evaluation Performance, 2020.

use super::numbers::{NumberReader, write_number};

/// The most impacts of a block. It bounds their bytes; blocks of texts have one to six.
const MOST: usize = 12;

/// How often an entry contains a term, and the entry's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Impact {
    pub(super) count: u32,
    pub(super) length: u32,
}

/// Adds an impact to some that do not dominate each other. Counts and lengths ascend.
fn add(front: &mut Vec<Impact>, new: Impact) {
    let place = front.partition_point(|known| known.count < new.count);
    let as_frequent = front.get(place);
    if as_frequent.is_some_and(|known| known.length <= new.length) {
        return;
    }
    let end = place + usize::from(as_frequent.is_some_and(|known| known.count == new.count));
    let start = front[..place].partition_point(|known| known.length < new.length);
    front.splice(start..end, [new]);
}

/// Puts the impacts that no other dominates into `front`. If there are too many, the ones with the lowest counts
/// become one that dominates them.
pub(super) fn collect(impacts: impl IntoIterator<Item = Impact>, front: &mut Vec<Impact>) {
    front.clear();
    impacts.into_iter().for_each(|impact| add(front, impact));
    if let Some(last) = front.len().checked_sub(MOST).filter(|&last| last > 0) {
        let dominating = Impact { count: front[last].count, length: front[0].length };
        front.splice(..=last, [dominating]);
    }
}

/// Writes impacts that [`collect`] found.
pub(super) fn write(bytes: &mut Vec<u8>, front: &[Impact]) {
    write_number(bytes, front.len() as u64);
    let (mut count, mut length) = (0, 0);
    for impact in front {
        write_number(bytes, u64::from(impact.count - count));
        write_number(bytes, u64::from(impact.length - length));
        (count, length) = (impact.count, impact.length);
    }
}

/// Reads what [`write`] wrote.
pub(super) fn read(bytes: &[u8]) -> impl Iterator<Item = Impact> {
    let mut reader = NumberReader(bytes);
    let n = reader.small().unwrap_or(0);
    let mut last = Impact { count: 0, length: 0 };
    (0..n).map_while(move |_| {
        let (count, length) = (last.count.wrapping_add(reader.small()?), last.length.wrapping_add(reader.small()?));
        last = Impact { count, length };
        Some(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn impacts(pairs: &[(u32, u32)]) -> Vec<Impact> {
        pairs.iter().map(|&(count, length)| Impact { count, length }).collect()
    }

    #[test]
    fn what_another_dominates_is_left_out() {
        let mut front = Vec::new();
        collect(impacts(&[(1, 9), (2, 9), (1, 5), (3, 20), (3, 21), (2, 9), (3, 12), (1, 5), (2, 30)]), &mut front);
        assert_eq!(front, impacts(&[(1, 5), (2, 9), (3, 12)]));
        let mut bytes = Vec::new();
        write(&mut bytes, &front);
        assert_eq!(read(&bytes).collect::<Vec<_>>(), front);
    }

    #[test]
    fn too_many_are_bounded_by_fewer() {
        let all: Vec<Impact> = (1..100).map(|i| Impact { count: i, length: 10 * i }).collect();
        let mut front = Vec::new();
        collect(all.iter().copied(), &mut front);
        assert_eq!(front.len(), MOST);
        let bounds = |one: &Impact| front.iter().any(|known| known.count >= one.count && known.length <= one.length);
        assert!(all.iter().all(bounds));
    }

    #[test]
    fn cut_off_impacts_end() {
        assert_eq!(read(&[]).count(), 0);
        assert_eq!(read(&[3, 1, 1, 255]).count(), 1);
    }
}
