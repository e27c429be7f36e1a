//! The entries that contain a term, in blocks of 128 packed into as few bits as the largest number of a block needs.
//!
//! A list of fewer than 128 entries is only their numbers one after the other: the gap to the entry before, whose
//! lowest bit says whether the count is 1, and the count if it is not. A longer list is where its own impacts begin
//! among all impacts, and how many bytes these are; a record for each block; the impacts of each block and of the list;
//! the blocks. The last block, if it is not full, is written as a short list. A record is the last entry of its block,
//! the start of the block in units of 16 bytes, the start of its impacts, the bits of a gap and of a count, and two
//! bytes that are 0.
//!
//! Source: Lemire and Boytsov, Decoding Billions of Integers per Second Through Vectorization, 2015.

use super::{
    impacts::{self, Impact},
    numbers::{NumberReader, short, write_number},
};
use bitpacking::{BitPacker, BitPacker4x};
use std::ops::Range;

/// The entries of a full block.
pub(super) const BLOCK: usize = BitPacker4x::BLOCK_LEN;
const RECORD: usize = 16;
/// A full block whose numbers have one bit each has this many bytes, so full blocks begin at multiples of it.
const UNIT: usize = BLOCK / 8;

/// The postings of one term, as they are written.
#[derive(Debug, Default)]
pub(super) struct TermPostings {
    /// Entries that contain the term, ascending.
    pub(super) entries: Vec<u32>,
    /// How often each of them contains it, at least once.
    pub(super) counts: Vec<u32>,
    /// The number of terms of each of them.
    pub(super) lengths: Vec<u32>,
}

/// Entries of a file that follow each other, and the number of the first one in another file.
#[derive(Debug, Clone)]
pub(super) struct MovedEntries {
    pub(super) entries: Range<u32>,
    pub(super) first: u32,
}

impl MovedEntries {
    /// All entries of a file. In the other file, this number of entries comes before them.
    pub(super) fn all_behind(others: u32) -> [Self; 1] {
        [Self { entries: 0..u32::MAX, first: others }]
    }

    /// Whether `entries` come right after these in both files. `first` is the number of the first of them in the other file.
    pub(super) fn is_continued_by(&self, entries: &Range<u32>, first: u32) -> bool {
        self.entries.end == entries.start && self.first + (self.entries.end - self.entries.start) == first
    }
}

impl TermPostings {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.counts.clear();
        self.lengths.clear();
    }

    /// Merges the postings from `place` on with those before it. Both are sorted by their entries.
    pub(super) fn merge_from(&mut self, place: usize) {
        let is_behind = |last: &u32| self.entries.get(place).is_none_or(|first| last < first);
        if self.entries[..place].last().is_none_or(is_behind) {
            return;
        }
        let new = TermPostings {
            entries: self.entries.split_off(place),
            counts: self.counts.split_off(place),
            lengths: self.lengths.split_off(place),
        };
        // Where each of the new ones belongs among the others.
        let mut from = 0;
        let places: Vec<usize> = (new.entries.iter())
            .map(|entry| {
                from += self.entries[from..].partition_point(|before| before < entry);
                from
            })
            .collect();
        for (all, new) in
            [(&mut self.entries, &new.entries), (&mut self.counts, &new.counts), (&mut self.lengths, &new.lengths)]
        {
            insert_at(all, &places, new);
        }
    }

    /// Writes them as a list.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        if self.entries.len() < BLOCK {
            write_gaps(bytes, &self.entries, &self.counts, 0);
            return;
        }
        let (mut records, mut packed) = (Vec::new(), Vec::new());
        let (mut front, mut of_all, mut of_blocks) = (Vec::new(), Vec::new(), Vec::new());
        let mut before = None;
        for ((entries, counts), lengths) in
            self.entries.chunks(BLOCK).zip(self.counts.chunks(BLOCK)).zip(self.lengths.chunks(BLOCK))
        {
            let last = entries.last().copied().unwrap_or_default();
            let impact = |(&count, &length)| Impact { count, length };
            impacts::collect(counts.iter().zip(lengths).map(impact), &mut front);
            of_all.extend_from_slice(&front);
            for number in [last, (packed.len() / UNIT) as u32, of_blocks.len() as u32] {
                records.extend(number.to_le_bytes());
            }
            let bits = if entries.len() == BLOCK {
                write_packed(&mut packed, entries, counts, before)
            } else {
                write_gaps(&mut packed, entries, counts, before.map_or(0, |before: u32| before + 1));
                [0, 0]
            };
            records.extend([bits[0], bits[1], 0, 0]);
            impacts::write(&mut of_blocks, &front);
            before = Some(last);
        }
        impacts::collect(of_all, &mut front);
        let of_list = of_blocks.len() as u32;
        impacts::write(&mut of_blocks, &front);
        bytes.extend(of_list.to_le_bytes());
        bytes.extend((of_blocks.len() as u32).to_le_bytes());
        bytes.extend(records);
        bytes.extend(of_blocks);
        bytes.extend(packed);
    }
}

/// Inserts numbers into others. For each new number, in order, `places` says how many of the old ones come before it.
fn insert_at(all: &mut Vec<u32>, places: &[usize], new: &[u32]) {
    let mut end = all.len();
    all.resize(end + new.len(), 0);
    // From the back, so that each number moves once.
    for (before, (&place, &number)) in places.iter().zip(new).enumerate().rev() {
        all.copy_within(place..end, place + before + 1);
        all[place + before] = number;
        end = place;
    }
}

/// Writes a full block; returns the bits of a gap and of a count.
fn write_packed(packed: &mut Vec<u8>, entries: &[u32], counts: &[u32], before: Option<u32>) -> [u8; 2] {
    let packer = BitPacker4x::new();
    let mut less_one = [0; BLOCK];
    less_one.iter_mut().zip(counts).for_each(|(less, count)| *less = count - 1);
    let bits = [packer.num_bits_strictly_sorted(before, entries), packer.num_bits(&less_one)];
    let start = packed.len();
    let middle = start + UNIT * usize::from(bits[0]);
    packed.resize(middle + UNIT * usize::from(bits[1]), 0);
    packer.compress_strictly_sorted(before, entries, &mut packed[start..middle], bits[0]);
    packer.compress(&less_one, &mut packed[middle..], bits[1]);
    bits
}

fn write_gaps(bytes: &mut Vec<u8>, entries: &[u32], counts: &[u32], mut next: u32) {
    for (&entry, &count) in entries.iter().zip(counts) {
        write_number(bytes, u64::from(entry - next) << 1 | u64::from(count == 1));
        if count != 1 {
            write_number(bytes, u64::from(count));
        }
        next = entry.saturating_add(1);
    }
}

/// The postings of a block.
#[derive(Debug, Clone)]
pub(super) struct PostingBlock {
    entries: [u32; BLOCK],
    counts: [u32; BLOCK],
    n: usize,
}

impl PostingBlock {
    pub(super) const EMPTY: Self = Self { entries: [0; BLOCK], counts: [0; BLOCK], n: 0 };

    pub(super) fn entries(&self) -> &[u32] {
        &self.entries[..self.n]
    }

    pub(super) fn counts(&self) -> &[u32] {
        &self.counts[..self.n]
    }
}

/// The list of a term in a file. Damaged bytes give other postings or fewer, in any order.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    /// How many postings it has.
    pub(super) postings: usize,
    records: &'a [[u8; RECORD]],
    impacts: &'a [u8],
    of_all: &'a [u8],
    blocks: &'a [u8],
}

impl<'a> List<'a> {
    /// A list with this number of postings, without decoding them.
    pub(super) fn new(bytes: &'a [u8], postings: usize) -> Self {
        if postings < BLOCK {
            return Self { postings, records: &[], impacts: &[], of_all: &[], blocks: bytes };
        }
        Self::of_blocks(bytes, postings).unwrap_or(Self {
            postings: 0,
            records: &[],
            impacts: &[],
            of_all: &[],
            blocks: &[],
        })
    }

    fn of_blocks(bytes: &'a [u8], postings: usize) -> Option<Self> {
        let (head, bytes) = bytes.split_first_chunk::<8>()?;
        let (records, bytes) = bytes.split_at_checked(postings.div_ceil(BLOCK).checked_mul(RECORD)?)?;
        let (impacts, blocks) = bytes.split_at_checked(short(head, 4) as usize)?;
        let of_all = impacts.get(short(head, 0) as usize..)?;
        Some(Self { postings, records: records.as_chunks().0, impacts, of_all, blocks })
    }

    /// Whether it has no records: its one block has to be decoded to know anything of it.
    pub(super) fn is_short(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn n_blocks(&self) -> usize {
        self.postings.div_ceil(BLOCK)
    }

    /// The last entry of a block.
    pub(super) fn last(&self, block: usize) -> u32 {
        self.records.get(block).map_or(u32::MAX, |record| short(record, 0))
    }

    /// An entry that none of a block is before.
    pub(super) fn start(&self, block: usize) -> u32 {
        block.checked_sub(1).map_or(0, |before| self.last(before).saturating_add(1))
    }

    /// The first block whose last entry is not before `entry`; one is likely `near` it.
    pub(super) fn block_of(&self, entry: u32, near: usize) -> usize {
        let is_before = |record: &[u8; RECORD]| short(record, 0) < entry;
        let near = near.min(self.records.len());
        if near > 0 && !is_before(&self.records[near - 1]) {
            return self.records[..near - 1].partition_point(is_before);
        }
        // Steps of doubled length find an end that is not far behind it.
        let rest = &self.records[near..];
        let mut step = 1;
        while rest.get(step - 1).is_some_and(is_before) {
            step *= 2;
        }
        let from = step / 2;
        near + from + rest[from..step.min(rest.len())].partition_point(is_before)
    }

    /// The impacts of a block.
    pub(super) fn impacts(&self, block: usize) -> impl Iterator<Item = Impact> + use<'a> {
        let start = self.records.get(block).map_or(0, |record| short(record, 8) as usize);
        impacts::read(self.impacts.get(start..).unwrap_or_default())
    }

    /// The impacts of all blocks together.
    pub(super) fn all_impacts(&self) -> impl Iterator<Item = Impact> + use<'a> {
        impacts::read(self.of_all)
    }

    /// Decodes a block.
    pub(super) fn decode(&self, block: usize, decoded: &mut PostingBlock) {
        let full = self.postings / BLOCK;
        if block < full {
            decoded.n = self.unpack(block, decoded).map_or(0, |()| BLOCK);
        } else {
            let start = self.records.get(block).map_or(0, |record| short(record, 4) as usize * UNIT);
            let bytes = self.blocks.get(start..).unwrap_or_default();
            decoded.n = read_gaps(bytes, self.start(block), self.postings % BLOCK, decoded);
        }
    }

    /// Adds the postings of some entries, in ascending order; `None` if the list is not as it was written. `lengths` has
    /// the length of each entry of the file.
    pub(super) fn append_to(
        &self,
        all: &mut TermPostings,
        entries: &[MovedEntries],
        lengths: &[[u8; 4]],
    ) -> Option<()> {
        if self.postings == 0 {
            return None;
        }
        let (mut next, mut decoded) = (0, PostingBlock::EMPTY);
        let mut moved = entries;
        for block in 0..self.n_blocks() {
            self.decode(block, &mut decoded);
            if decoded.n != BLOCK.min(self.postings - block * BLOCK) {
                return None;
            }
            for (&entry, &count) in decoded.entries().iter().zip(decoded.counts()) {
                if entry < next || count == 0 {
                    return None;
                }
                next = entry.saturating_add(1);
            }
            let (Some(&first), Some(&last)) = (decoded.entries().first(), decoded.entries().last()) else { continue };
            let last = lengths.get(last as usize).map(|_| last)?;
            moved = &moved[moved.partition_point(|moved| moved.entries.end <= first)..];
            let Some(here) = moved.first() else { continue };
            // Mostly, all entries of a block move alike.
            if here.entries.start <= first && last < here.entries.end {
                // Without checks for overflow, which the comparisons make superfluous, this is one instruction for several
                // entries.
                let shift = here.first.wrapping_sub(here.entries.start);
                all.entries.extend(decoded.entries().iter().map(|entry| entry.wrapping_add(shift)));
                all.counts.extend_from_slice(decoded.counts());
                all.lengths.extend(decoded.entries().iter().map(|entry| u32::from_le_bytes(lengths[*entry as usize])));
                continue;
            }
            for (&entry, &count) in decoded.entries().iter().zip(decoded.counts()) {
                if moved.first().is_some_and(|moved| moved.entries.end <= entry) {
                    moved = &moved[moved.partition_point(|moved| moved.entries.end <= entry)..];
                }
                if let Some(moved) = moved.first().filter(|moved| moved.entries.start <= entry) {
                    all.entries.push(moved.first + (entry - moved.entries.start));
                    all.counts.push(count);
                    all.lengths.push(u32::from_le_bytes(lengths[entry as usize]));
                }
            }
        }
        Some(())
    }

    fn unpack(&self, block: usize, decoded: &mut PostingBlock) -> Option<()> {
        let record = self.records.get(block)?;
        let [gap_bits, count_bits] = [record[12], record[13]];
        if gap_bits > 32 || count_bits > 32 {
            return None;
        }
        let bytes = self.blocks.get(short(record, 4) as usize * UNIT..)?;
        let (gaps, bytes) = bytes.split_at_checked(UNIT * usize::from(gap_bits))?;
        let counts = bytes.get(..UNIT * usize::from(count_bits))?;
        let packer = BitPacker4x::new();
        let before = block.checked_sub(1).map(|before| self.last(before));
        packer.decompress_strictly_sorted(before, gaps, &mut decoded.entries, gap_bits);
        packer.decompress(counts, &mut decoded.counts, count_bits);
        decoded.counts.iter_mut().for_each(|count| *count = count.wrapping_add(1));
        Some(())
    }
}

/// Reads at most `n` postings that [`write_gaps`] wrote; returns how many there were.
fn read_gaps(bytes: &[u8], mut next: u32, n: usize, decoded: &mut PostingBlock) -> usize {
    let mut reader = NumberReader(bytes);
    let places = decoded.entries.iter_mut().zip(&mut decoded.counts).take(n);
    let mut read = 0;
    for (entry, count) in places {
        let Some(gap) = reader.number() else { break };
        let Some(found) = u32::try_from(gap >> 1).ok().and_then(|gap| next.checked_add(gap)) else { break };
        let Some(counted) = (if gap & 1 == 1 { Some(1) } else { reader.small() }) else { break };
        (*entry, *count) = (found, counted);
        next = found.saturating_add(1);
        read += 1;
    }
    read
}
