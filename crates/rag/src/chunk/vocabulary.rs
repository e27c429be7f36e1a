//! The tokens of `cl100k_base` and the merging of byte pairs, arranged for
//! counting: how many tokens a word is, not which.
//!
//! Nearly every word is one token or was seen a moment ago, so both are answered
//! from one small table each; only the rest is merged.
//! Source: the published ranks (OpenAI tiktoken), carried by `tiktoken-rs`;
//! Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with
//! Subword Units", 2016.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

/// How many ordinary tokens there are; they are numbered without gaps, and a
/// smaller number is merged earlier.
const N_TOKENS: u32 = 100_256;
/// Slots of the hash table: a power of two, at most 40 % full.
const SLOT_BITS: u32 = 18;
/// The bits of a slot that hold a token's number plus one; the others hold a
/// piece of its hash, so that most misses are seen without another look.
const NUMBER_BITS: u32 = 17;
/// The bytes that fit a key beside their length.
const KEY_BYTES: usize = 15;
/// Up to this length, looking through all parts beats a heap.
const SHORT_WORD: usize = 96;
/// Words that are remembered per thread: a power of two.
const REMEMBERED: usize = 1 << 13;
const NONE: u32 = u32::MAX;

thread_local! {
    /// Keys and counts of words that had to be merged; a new word replaces the one in its slot.
    static SEEN: RefCell<Vec<(u128, u32)>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct TokenVocabulary {
    /// The number of each token of two bytes.
    pairs: Vec<u32>,
    /// An open hash table over the tokens that fit a key.
    slots: Vec<u32>,
    /// The key of each token, 0 if it does not fit.
    keys: Vec<u128>,
    /// The tokens that do not fit a key.
    long: HashMap<Vec<u8>, u32>,
    pub(super) longest: usize,
}

impl TokenVocabulary {
    pub(super) fn load() -> Self {
        let mut vocabulary = Self {
            pairs: vec![NONE; 1 << 16],
            slots: vec![0; 1 << SLOT_BITS],
            keys: Vec::with_capacity(N_TOKENS as usize),
            long: HashMap::new(),
            longest: 1,
        };
        // The ranks are compiled in, so loading them cannot fail. If it did,
        // every byte would count as a token: chunks too small, never too large.
        let Ok(ranks) = tiktoken_rs::cl100k_base() else { return vocabulary };
        for number in 0..N_TOKENS {
            vocabulary.insert(number, ranks.decode_bytes(&[number]).unwrap_or_default());
        }
        vocabulary
    }

    fn insert(&mut self, number: u32, token: Vec<u8>) {
        self.longest = self.longest.max(token.len());
        if let [first, second] = token[..] {
            self.pairs[pair(first, second)] = number;
        }
        let key = key(&token, 0, token.len());
        self.keys.push(key.unwrap_or(0));
        match key {
            Some(key) => {
                let (mut slot, tag) = place(key);
                while self.slots[slot] != 0 {
                    slot = (slot + 1) % self.slots.len();
                }
                self.slots[slot] = tag | (number + 1);
            }
            None => {
                self.long.insert(token, number);
            }
        }
    }

    /// How many tokens the word `text[start..end]` is.
    pub(super) fn count(&self, text: &[u8], start: usize, end: usize) -> usize {
        if end - start < 2 || self.rank(text, start, end) != NONE {
            return 1;
        }
        let word = &text[start..end];
        let Some(key) = key(text, start, end) else {
            return if word.len() > SHORT_WORD { self.merge_long(word) } else { self.merge_short(word) };
        };
        SEEN.with_borrow_mut(|seen| {
            if seen.is_empty() {
                seen.resize(REMEMBERED, (0, 0));
            }
            let entry = &mut seen[place(key).0 % REMEMBERED];
            if entry.0 != key {
                *entry = (key, self.merge_short(word) as u32);
            }
            entry.1 as usize
        })
    }

    /// The number of the token `text[start..end]`, or [`NONE`].
    fn rank(&self, text: &[u8], start: usize, end: usize) -> u32 {
        if end - start == 2 {
            return self.pairs[pair(text[start], text[start + 1])];
        }
        let Some(key) = key(text, start, end) else {
            if end - start > self.longest {
                return NONE;
            }
            return self.long.get(&text[start..end]).copied().unwrap_or(NONE);
        };
        let (mut slot, tag) = place(key);
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return NONE;
            }
            let number = (entry & ((1 << NUMBER_BITS) - 1)) - 1;
            if entry >> NUMBER_BITS == tag >> NUMBER_BITS && self.keys[number as usize] == key {
                return number;
            }
            slot = (slot + 1) % self.slots.len();
        }
    }

    /// Merges the pair with the smallest number, leftmost first, until none is
    /// left; looks through all parts each time.
    fn merge_short(&self, word: &[u8]) -> usize {
        // Part `i` starts at `starts[i]`; `ranks[i]` is its rank when
        // merged with the next part.
        let mut starts: [usize; SHORT_WORD + 1] = std::array::from_fn(|i| i);
        let mut ranks = [NONE; SHORT_WORD];
        let mut n = word.len();
        for i in 0..n - 1 {
            ranks[i] = self.pairs[pair(word[i], word[i + 1])];
        }
        loop {
            let Some((i, rank)) = ranks[..n - 1].iter().copied().enumerate().min_by_key(|(_, rank)| *rank) else {
                return n;
            };
            if rank == NONE {
                return n;
            }
            starts.copy_within(i + 2..=n, i + 1);
            ranks.copy_within(i + 1..n, i);
            n -= 1;
            let rank = |from: usize| if from + 1 < n { self.rank(word, starts[from], starts[from + 2]) } else { NONE };
            ranks[i] = rank(i);
            if i > 0 {
                ranks[i - 1] = rank(i - 1);
            }
        }
    }

    /// The same with a heap, quick even for words of a megabyte.
    fn merge_long(&self, word: &[u8]) -> usize {
        let n = word.len();
        // Parts are named by their first byte: `ends[i]` is where part `i`
        // ends, 0 once it was merged away, `before[i]` the part before it.
        let mut ends: Vec<usize> = (1..=n).collect();
        let mut before: Vec<usize> = (0..n).map(|i| i.saturating_sub(1)).collect();
        let entry = |start, end| Some((self.rank(word, start, end), start, end)).filter(|(rank, ..)| *rank != NONE);
        let mut heap: BinaryHeap<_> = (0..n - 1).filter_map(|start| entry(start, start + 2).map(Reverse)).collect();
        let mut count = n;
        while let Some(Reverse((_, start, end))) = heap.pop() {
            // An entry is stale if its left part is gone, or if either part
            // has grown since: then the two do not end where they did.
            let middle = ends[start];
            if middle == 0 || middle >= n || ends[middle] != end {
                continue;
            }
            ends[start] = end;
            ends[middle] = 0;
            count -= 1;
            if let Some(after) = ends.get(end).copied() {
                before[end] = start;
                heap.extend(entry(start, after).map(Reverse));
            }
            if start > 0 {
                heap.extend(entry(before[start], end).map(Reverse));
            }
        }
        count
    }
}

fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// Up to 15 bytes and their length as one number.
fn key(text: &[u8], start: usize, end: usize) -> Option<u128> {
    let length = end - start;
    if length > KEY_BYTES {
        return None;
    }
    let bytes = match text.get(start..start + 16).and_then(|window| <[u8; 16]>::try_from(window).ok()) {
        // A copy of fixed size and a mask cost less than one of any size.
        Some(window) => u128::from_le_bytes(window) & ((1 << (8 * length)) - 1),
        None => {
            let mut window = [0; 16];
            window[..length].copy_from_slice(&text[start..end]);
            u128::from_le_bytes(window)
        }
    };
    Some(bytes | (length as u128) << 120)
}

/// The first slot to look into, and the piece of the hash that slots keep.
fn place(key: u128) -> (usize, u32) {
    let low = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let high = ((key >> 64) as u64 ^ 0x2545_F491_4F6C_DD1D).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let mixed = (low ^ high.rotate_left(29)).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    let hash = mixed ^ mixed >> 32;
    ((hash >> 32) as usize >> (32 - SLOT_BITS), (hash as u32) & !((1 << NUMBER_BITS) - 1))
}
