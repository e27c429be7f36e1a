//! Counts tokens as OpenAI's `cl100k_base` does, fast enough to size every
//! sentence of a corpus.
//!
//! Chunk sizes are given in these tokens because LlamaIndex counts in them.
//! The vocabulary comes from `tiktoken-rs`; cutting text into words and merging
//! byte pairs is done here, since only the number is wanted: no backtracking
//! regex, no list of ids, and counting stops as soon as a limit is passed.
//! Source: the published `cl100k_base` pattern and ranks (OpenAI tiktoken).

use super::classes::{ASCII, Kind, kind};
use std::{cmp::Reverse, collections::BinaryHeap, sync::OnceLock};

/// How many ordinary tokens `cl100k_base` has; they are numbered without gaps.
const N_TOKENS: u32 = 100_256;
/// Slots of the hash table: a power of two, at most 40 % full.
const SLOT_BITS: u32 = 18;
/// Tokens that stand for a whole marker and are never cut.
const MARKERS: [&str; 5] =
    ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>"];

/// Counts tokens of `cl100k_base`.
pub struct TokenCounter {
    /// The bytes of all tokens, one after another.
    bytes: Vec<u8>,
    /// Where each token starts in `bytes`, and the end of the last.
    starts: Vec<u32>,
    /// An open hash table of token numbers plus one; 0 is a free slot.
    slots: Vec<u32>,
    /// The longest token, in bytes.
    longest: usize,
}

impl TokenCounter {
    /// The one counter of the process, loaded at first use.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TokenCounter> = OnceLock::new();
        SHARED.get_or_init(Self::load)
    }

    /// How many tokens the text has.
    pub fn count(&self, text: &str) -> usize {
        self.at_most(text, usize::MAX).unwrap_or(usize::MAX)
    }

    /// How many tokens the text has, or nothing if it has more than `limit`.
    /// Stops as soon as the limit is passed.
    pub fn at_most(&self, text: &str, limit: usize) -> Option<usize> {
        // No token is longer than the longest, so a very long text needs no
        // look, nor does a word of a megabyte.
        if text.len() / self.longest > limit {
            return None;
        }
        let mut count = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let (plain, marker) = next_marker(rest);
            let mut at = 0;
            while at < plain.len() {
                let end = word_end(plain, at);
                count += self.count_word(&plain.as_bytes()[at..end]);
                if count > limit {
                    return None;
                }
                at = end;
            }
            count += usize::from(marker > 0);
            rest = &rest[plain.len() + marker..];
        }
        (count <= limit).then_some(count)
    }

    fn load() -> Self {
        let mut counter =
            Self { bytes: Vec::new(), starts: vec![0], slots: vec![0; 1 << SLOT_BITS], longest: 1 };
        // The vocabulary is compiled in, so loading it cannot fail. If it did,
        // every byte would count as a token: chunks too small, never too large.
        let Ok(vocabulary) = tiktoken_rs::cl100k_base() else { return counter };
        for number in 0..N_TOKENS {
            let token = vocabulary.decode_bytes(&[number]).unwrap_or_default();
            counter.insert(number, &token);
        }
        counter
    }

    fn insert(&mut self, number: u32, token: &[u8]) {
        self.bytes.extend_from_slice(token);
        self.starts.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        self.longest = self.longest.max(token.len());
        let mut slot = slot_of(token);
        while self.slots[slot] != 0 {
            slot = (slot + 1) % self.slots.len();
        }
        self.slots[slot] = number + 1;
    }

    /// The number of the token with exactly these bytes. A smaller number is
    /// merged earlier.
    fn rank(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let mut slot = slot_of(bytes);
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return None;
            }
            let number = entry as usize - 1;
            if &self.bytes[self.starts[number] as usize..self.starts[number + 1] as usize] == bytes {
                return Some(entry - 1);
            }
            slot = (slot + 1) % self.slots.len();
        }
    }

    fn count_word(&self, word: &[u8]) -> usize {
        if word.len() < 2 || self.rank(word).is_some() { 1 } else { self.merge(word) }
    }

    /// Merges the pair with the smallest rank, leftmost first, until none is
    /// left. A heap keeps this quick for words of a megabyte.
    fn merge(&self, word: &[u8]) -> usize {
        let n = word.len();
        // Parts are named by their first byte: `ends[i]` is where part `i`
        // ends, 0 once it was merged away, `before[i]` the part before it.
        let mut ends: Vec<usize> = (1..=n).collect();
        let mut before: Vec<usize> = (0..n).map(|i| i.saturating_sub(1)).collect();
        let mut heap: BinaryHeap<Reverse<(u32, usize, usize)>> = (0..n - 1)
            .filter_map(|start| self.rank(&word[start..start + 2]).map(|rank| Reverse((rank, start, start + 2))))
            .collect();
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
                if let Some(rank) = self.rank(&word[start..after]) {
                    heap.push(Reverse((rank, start, after)));
                }
            }
            if start > 0 && let Some(rank) = self.rank(&word[before[start]..end]) {
                heap.push(Reverse((rank, before[start], end)));
            }
        }
        count
    }
}

impl std::fmt::Debug for TokenCounter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TokenCounter").field("tokens", &(self.starts.len() - 1)).finish()
    }
}

fn slot_of(bytes: &[u8]) -> usize {
    let mut hash = bytes.len() as u64;
    for part in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    (hash >> (64 - SLOT_BITS)) as usize
}

/// The text before the next marker, and the marker's length (0 at the end).
fn next_marker(text: &str) -> (&str, usize) {
    let mut from = 0;
    while let Some(found) = text[from..].find('<') {
        let at = from + found;
        if let Some(marker) = MARKERS.iter().find(|marker| text[at..].starts_with(**marker)) {
            return (&text[..at], marker.len());
        }
        from = at + 1;
    }
    (text, 0)
}

/// Where the word that starts at `at` ends, by the rules of `cl100k_base`: a
/// contraction's ending; letters with at most one other character before them;
/// up to three digits; punctuation with a space before and line ends after it;
/// white space up to its last line end, or up to the space that belongs to the
/// next word.
fn word_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let Some((first, length)) = kind_at(text, at) else { return bytes.len() };
    if bytes[at] == b'\'' && let Some(end) = contraction_end(text, at) {
        return end;
    }
    let next = at + length;
    match first {
        Kind::Letter => run_end(text, next, Kind::Letter),
        Kind::Number => {
            let mut end = next;
            for _ in 0..2 {
                match kind_at(text, end) {
                    Some((Kind::Number, length)) => end += length,
                    _ => break,
                }
            }
            end
        }
        Kind::Space | Kind::Other => match kind_at(text, next) {
            Some((Kind::Letter, length)) if !matches!(bytes[at], b'\r' | b'\n') => {
                run_end(text, next + length, Kind::Letter)
            }
            Some((Kind::Other, length)) if bytes[at] == b' ' => punctuation_end(text, next + length),
            _ if first == Kind::Other => punctuation_end(text, next),
            _ => space_end(text, at),
        },
    }
}

/// The end of `'s`, `'ll` and their like. The long s folds to s as well.
fn contraction_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text.as_bytes()[at + 1..];
    if text[at + 1..].starts_with('ſ') {
        return Some(at + 1 + 'ſ'.len_utf8());
    }
    match rest {
        [b's' | b'S' | b'd' | b'D' | b'm' | b'M' | b't' | b'T', ..] => Some(at + 2),
        [b'l' | b'L', b'l' | b'L', ..] | [b'v' | b'V' | b'r' | b'R', b'e' | b'E', ..] => Some(at + 3),
        _ => None,
    }
}

fn punctuation_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = run_end(text, at, Kind::Other);
    while matches!(bytes.get(end), Some(b'\r' | b'\n')) {
        end += 1;
    }
    end
}

fn space_end(text: &str, at: usize) -> usize {
    let end = run_end(text, at, Kind::Space);
    let run = &text[at..end];
    if end == text.len() {
        return end;
    }
    if let Some(line_end) = run.rfind(['\r', '\n']) {
        return at + line_end + 1;
    }
    match run.char_indices().next_back() {
        Some((last, _)) if last > 0 => at + last,
        _ => end,
    }
}

/// The end of the run of one kind that goes on at `at`.
fn run_end(text: &str, mut at: usize, wanted: Kind) -> usize {
    while let Some((found, length)) = kind_at(text, at) {
        if found != wanted {
            break;
        }
        at += length;
    }
    at
}

/// The kind and the length in bytes of the character at a byte.
fn kind_at(text: &str, at: usize) -> Option<(Kind, usize)> {
    let byte = *text.as_bytes().get(at)?;
    match ASCII.get(usize::from(byte)) {
        Some(kind) => Some((*kind, 1)),
        None => text[at..].chars().next().map(|character| (kind(character), character.len_utf8())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Small generator of repeatable pseudo-random numbers (an LCG).
    fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        }
    }

    #[test]
    fn counts_equal_tiktoken_on_random_mixtures() {
        let tiktoken = tiktoken_rs::cl100k_base().unwrap();
        let all: HashSet<&str> = tiktoken.special_tokens();
        let pieces = [
            "a", "the", "Word", "é", "naïve", "中文", "日本語", "🦀", "👩‍👩‍👧", "\u{301}", " ", "  ", "\n", "\r\n", "\t",
            "\u{a0}", "\u{3000}", "1", "12", "1234567", "½", "Ⅳ", "٣", "'s", "'LL", "'ſ", "'x", "'", ".", "...", "?!",
            "--", "(", "<", "<|", "<|endoftext|>", "<|fim_prefix|>", "|>", "_", "supercalifragilistic", "qzxv",
            "http://example.org/a?b=c", "\u{85}", "\u{1c}", "ﬁ", "ß", "АБВ", "привет", "नमस्ते", "مرحبا", "한국어",
        ];
        let mut next = numbers(7);
        for _ in 0..4000 {
            let text: String = (0..next(12)).map(|_| pieces[next(pieces.len())]).collect();
            let expected = tiktoken.encode(&text, &all).unwrap().0.len();
            assert_eq!(TokenCounter::shared().count(&text), expected, "{text:?}");
            assert_eq!(TokenCounter::shared().at_most(&text, expected), Some(expected));
            if expected > 0 {
                assert_eq!(TokenCounter::shared().at_most(&text, expected - 1), None);
            }
        }
    }

    #[test]
    fn counts_equal_tiktoken_on_long_words_without_meaning() {
        let tiktoken = tiktoken_rs::cl100k_base().unwrap();
        let mut next = numbers(11);
        for length in [1, 2, 3, 50, 99, 100, 101, 5000] {
            for letters in ["ab", "aAbBeErRsStT", "xyz", "=-~^"] {
                let letters: Vec<char> = letters.chars().collect();
                let text: String = (0..length).map(|_| letters[next(letters.len())]).collect();
                assert_eq!(TokenCounter::shared().count(&text), tiktoken.count_ordinary(&text), "{text:?}");
            }
        }
    }

    #[test]
    fn a_megabyte_without_a_space_is_counted() {
        assert!(TokenCounter::shared().count(&"a".repeat(1 << 20)) > 1000);
        assert!(TokenCounter::shared().count(&"^".repeat(1 << 20)) > 1000);
        assert_eq!(TokenCounter::shared().at_most("", 0), Some(0));
    }
}
