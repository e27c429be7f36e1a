//! A place in the list of one term, and what the term adds to the scores of entries.

use super::{
    blocks::{List, PostingBlock},
    decoded::DecodedList,
    impacts::Impact,
    weight::{Scratch, Weights},
};

/// The entries of a window. Each of its 64 groups of sums has a bit of a number.
pub(super) const WINDOW: usize = 64 * GROUP;
pub(super) const GROUP: usize = 64;

/// A sum of weights for each entry of a window.
#[derive(Debug)]
pub(super) struct ScoreSums {
    sums: [f32; WINDOW],
    /// The bits of the groups that may have changed.
    changed: u64,
    scratch: Scratch,
}

impl ScoreSums {
    pub(super) const ZERO: Self = Self { sums: [0.0; WINDOW], changed: 0, scratch: Scratch::EMPTY };

    /// The sum at a place of the window.
    pub(super) fn at(&self, place: u32) -> f32 {
        self.sums[place as usize % WINDOW]
    }

    /// Shows the groups that may have changed, each with the place of its first sum, and makes all sums zero.
    pub(super) fn take(&mut self, mut show: impl FnMut(u32, &[f32])) {
        while self.changed > 0 {
            let place = self.changed.trailing_zeros() as usize * GROUP;
            let group = &mut self.sums[place..place + GROUP];
            show(place as u32, group);
            group.fill(0.0);
            self.changed &= self.changed - 1;
        }
    }
}

/// No block.
const NONE: usize = usize::MAX;

/// Walks through the list of a term. Entries that are asked for ascend, apart from those of [`Cursor::find`].
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    list: List<'a>,
    weights: Weights<'a>,
    /// The number of terms of each entry of the file.
    lengths: &'a [[u8; 4]],
    /// The block of the next posting; the number of blocks after the last posting.
    block: usize,
    /// The place of the next posting in its block, if that was decoded before.
    at: usize,
    /// All of the list, if that is in memory.
    ready: Option<&'a DecodedList>,
    /// The block that was decoded last.
    decoded: usize,
    postings: PostingBlock,
    /// The block that [`Cursor::find`] saw last.
    seen: usize,
    /// The block whose bound was computed last, and its bound.
    bounded: (usize, f64),
    /// The largest weight of all postings, not rounded.
    pub(super) bound: f64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(
        list: List<'a>,
        ready: Option<&'a DecodedList>,
        weights: Weights<'a>,
        lengths: &'a [[u8; 4]],
    ) -> Self {
        let mut cursor = Self {
            list,
            weights,
            lengths,
            block: 0,
            at: 0,
            ready,
            decoded: NONE,
            postings: PostingBlock::EMPTY,
            seen: 0,
            bounded: (NONE, 0.0),
            bound: 0.0,
        };
        if list.is_short() {
            cursor.load(0);
            let weight = |(&entry, &count)| cursor.weights.exact(count, cursor.length(entry));
            let block = &cursor.postings;
            cursor.bound = block.entries().iter().zip(block.counts()).map(weight).fold(0.0, f64::max);
            cursor.bounded = (0, cursor.bound);
        } else {
            let weight = |impact: Impact| cursor.weights.exact(impact.count, impact.length);
            cursor.bound = list.all_impacts().map(weight).fold(0.0, f64::max);
        }
        cursor
    }

    fn length(&self, entry: u32) -> u32 {
        self.lengths.get(entry as usize).map_or(0, |length| u32::from_le_bytes(*length))
    }

    fn load(&mut self, block: usize) {
        if self.decoded != block && self.ready.is_none() {
            self.list.decode(block, &mut self.postings);
            self.decoded = block;
        }
    }

    /// The entries of a block, if it is decoded.
    fn entries(&self, block: usize) -> Option<&[u32]> {
        match self.ready {
            Some(ready) => Some(ready.entries(block)),
            None => (self.decoded == block).then(|| self.postings.entries()),
        }
    }

    /// An entry that is not after the next posting from `from` on; `None` if there is no such posting.
    pub(super) fn next(&mut self, from: u32) -> Option<u32> {
        if self.block < self.list.n_blocks() && self.list.last(self.block) < from {
            (self.block, self.at) = (self.list.block_of(from, self.block + 1), 0);
        }
        while self.block < self.list.n_blocks() {
            let Some(entries) = self.entries(self.block) else {
                return Some(self.list.start(self.block).max(from));
            };
            let rest = entries.get(self.at..).unwrap_or_default();
            // Often it is the first.
            let passed = match rest.first() {
                Some(&first) if first >= from => 0,
                _ => rest.partition_point(|&entry| entry < from),
            };
            if let Some(&entry) = rest.get(passed) {
                self.at += passed;
                return Some(entry.max(from));
            }
            (self.block, self.at) = (self.block + 1, 0);
        }
        None
    }

    /// The largest weight of the blocks that may have entries from `start` to before `end`, not rounded.
    pub(super) fn bound_in(&mut self, start: u32, end: u32) -> f64 {
        let mut bound = 0.0f64;
        if self.next(start).is_none_or(|next| next >= end) {
            return bound;
        }
        for block in self.block..self.list.n_blocks() {
            if self.bounded.0 != block {
                let weight = |impact: Impact| self.weights.exact(impact.count, impact.length);
                self.bounded = (block, self.list.impacts(block).map(weight).fold(0.0, f64::max));
            }
            bound = bound.max(self.bounded.1);
            if self.list.last(block) >= end - 1 {
                break;
            }
        }
        bound
    }

    /// Whether adding up all of the list takes less time than avoiding it.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.is_some() || self.list.is_short()
    }

    /// Where the walk is.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.block, self.at)
    }

    /// Goes back to a place where it was.
    pub(super) fn go_to(&mut self, (block, at): (usize, usize)) {
        (self.block, self.at) = (block, at);
    }

    /// About how many postings it has among `width` of `entries` entries.
    pub(super) fn expected(&self, width: u32, entries: u32) -> u64 {
        self.list.postings as u64 * u64::from(width) / u64::from(entries.max(1))
    }

    /// Adds the weights of the entries from `start` to before `end` to their sums.
    pub(super) fn add_to(&mut self, start: u32, end: u32, all: &mut ScoreSums) {
        let ScoreSums { sums, changed, scratch } = all;
        let lengths = self.lengths.get(start as usize..end as usize).unwrap_or_default();
        while self.next(start).is_some_and(|next| next < end) {
            self.load(self.block);
            let mut entries = self.ready.map_or_else(|| self.postings.entries(), |ready| ready.entries(self.block));
            // The first time that the block is seen, entries before `start` may be in it.
            if entries.get(self.at).is_some_and(|&entry| entry < start) {
                self.at += entries[self.at..].partition_point(|&entry| entry < start);
            }
            let is_last = entries.last().is_some_and(|&last| last >= end);
            let n = if is_last { entries.partition_point(|&entry| entry < end) } else { entries.len() };
            let from = self.at.min(n);
            entries = &entries[from..n];
            let place = |entry: u32| entry.wrapping_sub(start) as usize % WINDOW;
            let length = |&entry: &u32| lengths.get(place(entry)).map_or(0, |length| u32::from_le_bytes(*length));
            let weights = if let Some(ready) = self.ready {
                ready.weights(self.block).get(from..).unwrap_or_default()
            } else {
                self.weights.of_all(&self.postings.counts()[from..n], entries.iter().map(length), scratch);
                &scratch.weights
            };
            // Entries that are close together are in few groups.
            if entries.len() >= 32
                && let [first, .., last] = entries
            {
                let group = |entry: &u32| (place(*entry) / GROUP) as u32;
                *changed |= (u64::MAX << group(first)) & (u64::MAX >> (63 - group(last)));
                entries.iter().zip(weights).for_each(|(&entry, weight)| sums[place(entry)] += weight);
            } else {
                for (&entry, weight) in entries.iter().zip(weights) {
                    sums[place(entry)] += weight;
                    *changed |= 1 << (place(entry) / GROUP);
                }
            }
            self.at = n;
            if is_last {
                break;
            }
            (self.block, self.at) = (self.block + 1, 0);
        }
    }

    /// What the term adds to the score of an entry; `None` if the entry does not contain it.
    pub(super) fn find(&mut self, entry: u32) -> Option<f32> {
        self.seen = self.list.block_of(entry, self.seen);
        if self.list.is_short() {
            self.seen = 0;
        }
        if self.seen >= self.list.n_blocks() {
            return None;
        }
        self.load(self.seen);
        let place = self.entries(self.seen)?.binary_search(&entry).ok()?;
        if let Some(ready) = self.ready {
            return ready.weights(self.seen).get(place).copied();
        }
        Some(self.weights.exact(self.postings.counts()[place], self.length(entry)) as f32)
    }
}
