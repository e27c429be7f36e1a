//! Search by words with BM25, in the variant of Lucene: good at names, codes
//! and rare words, where vectors are weak.
//!
//! A term adds `idf · tf / (tf + k1 (1 − b + b · length / mean length))` with
//! `idf = ln(1 + (N − df + ½) / (df + ½))`, k1 = 1.5, b = 0.75. The module
//! [`terms`](super::terms) cuts texts into terms; a term that occurs twice in the
//! query counts twice. Scores agree with LlamaIndex's `BM25Retriever` (bm25s). Unlike it,
//! the search returns only what shares a term with the query, instead of
//! filling up with scores of zero.
//!
//! Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25
//! and Beyond, 2009; Kamphuis et al., Which BM25 Do You Mean?, 2020.

use super::{Index, MadeFrom, kind::only, terms::Tokenizer, top::Top};
use crate::Error;
use rayon::prelude::*;
use std::{collections::HashMap, path::PathBuf};

const K1: f64 = 1.5;
const B: f64 = 0.75;

const MAGIC: [u8; 8] = *b"RVBM25\0\n";
const FORMAT: u32 = 1;
const CHECKSUM: usize = 32;
/// How many texts a thread cuts into terms in one batch.
const BATCH_TEXTS: usize = 512;

/// The words of texts in a fixed order: entry `i` is the `i`-th searchable chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Bm25Index {
    /// In the order of their bytes.
    terms: Vec<String>,
    /// The postings of term `i` are `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    /// Entries that hold the term, ascending within a term.
    entries: Vec<u32>,
    /// How often they hold it.
    counts: Vec<u32>,
    /// What each occurrence of the term in the query adds to the entry's score.
    weights: Vec<f32>,
    lengths: Vec<u32>,
}

impl Index for Bm25Index {
    const NAME: &'static str = "bm25";
    const TITLE: &'static str = "BM25 index";
    const VERSION: u32 = 1;
    const MADE_FROM: MadeFrom = MadeFrom::Texts(|texts| Self::build(texts).to_bytes());

    fn open_files(files: &[PathBuf]) -> Result<Self, Error> {
        let file = only(files)?;
        let bytes = std::fs::read(file).map_err(|error| bad(format!("{}: {error}", file.display())))?;
        Self::from_bytes(&bytes)
    }

    /// Its file was compared with its checksum when it was opened.
    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }

    fn verify_bytes(bytes: &[u8]) -> Result<(), Error> {
        Self::from_bytes(bytes).map(drop)
    }

    fn entries(&self) -> usize {
        self.lengths.len()
    }
}

impl Bm25Index {
    /// Reads all texts, with the threads of the current rayon pool. Equal
    /// texts give an equal index.
    pub fn build<T: AsRef<str> + Sync>(texts: &[T]) -> Self {
        let parts: Vec<PartialIndex> = texts.par_chunks(BATCH_TEXTS).map(PartialIndex::read).collect();
        let mut postings: HashMap<String, Vec<(u32, u32)>> = HashMap::new();
        let mut lengths = Vec::with_capacity(texts.len());
        for part in parts {
            let first = lengths.len() as u32;
            for (term, found) in part.postings {
                let found = found.into_iter().map(|(entry, count)| (first + entry, count));
                postings.entry(term).or_default().extend(found);
            }
            lengths.extend(part.lengths);
        }
        let mut postings: Vec<(String, Vec<(u32, u32)>)> = postings.into_iter().collect();
        postings.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Self::assemble(postings, lengths)
    }

    /// At most `k` entries that share a term with the text, with their scores,
    /// best first, equal ones by entry.
    pub fn search(&self, text: &str, k: usize) -> Vec<(u32, f32)> {
        self.search_where(text, k, |_| true)
    }

    /// [`search`](Self::search) among the entries that pass.
    pub(crate) fn search_where(&self, text: &str, k: usize, passes: impl Fn(u32) -> bool) -> Vec<(u32, f32)> {
        let mut scores = vec![0.0f32; self.lengths.len()];
        let mut touched = Vec::new();
        for range in self.query(text) {
            for (&entry, &weight) in self.entries[range.clone()].iter().zip(&self.weights[range]) {
                let score = &mut scores[entry as usize];
                if *score == 0.0 {
                    touched.push(entry);
                }
                *score += weight;
            }
        }
        let mut top = Top::new(k);
        for entry in touched.into_iter().filter(|&entry| passes(entry)) {
            top.push(entry, scores[entry as usize]);
        }
        top.into_sorted()
    }

    /// The scores of some entries, 0 where no term is shared.
    pub fn scores(&self, text: &str, entries: &[u32]) -> Vec<f32> {
        let mut scores = vec![0.0f32; entries.len()];
        for range in self.query(text) {
            for (&entry, score) in entries.iter().zip(&mut scores) {
                if let Ok(at) = self.entries[range.clone()].binary_search(&entry) {
                    *score += self.weights[range.start + at];
                }
            }
        }
        scores
    }

    /// The ranges of postings of the query's terms; terms that no entry holds have none.
    fn query(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        let mut ranges = Vec::new();
        Tokenizer::new().terms(text, |term| {
            if let Ok(i) = self.terms.binary_search_by(|known| known.as_str().cmp(term)) {
                ranges.push(self.starts[i]..self.starts[i + 1]);
            }
        });
        ranges
    }

    fn assemble(postings: Vec<(String, Vec<(u32, u32)>)>, lengths: Vec<u32>) -> Self {
        let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        let mean = total as f64 / lengths.len().max(1) as f64;
        let mut index = Self {
            terms: Vec::new(),
            starts: vec![0],
            entries: Vec::new(),
            counts: Vec::new(),
            weights: Vec::new(),
            lengths,
        };
        for (term, found) in postings {
            let texts = index.lengths.len() as f64;
            let holding = found.len() as f64;
            let idf = (1.0 + (texts - holding + 0.5) / (holding + 0.5)).ln();
            for (entry, count) in found {
                let length = f64::from(index.lengths[entry as usize]);
                let count_part = f64::from(count);
                let weight = idf * count_part / (count_part + K1 * (1.0 - B + B * length / mean));
                index.entries.push(entry);
                index.counts.push(count);
                index.weights.push(weight as f32);
            }
            index.terms.push(term);
            index.starts.push(index.entries.len());
        }
        index
    }

    /// The index as bytes: equal indexes are equal bytes, and nothing that can
    /// be computed again is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        write_number(&mut bytes, self.lengths.len() as u64);
        self.lengths.iter().for_each(|&length| write_number(&mut bytes, u64::from(length)));
        write_number(&mut bytes, self.terms.len() as u64);
        for (term, range) in self.terms.iter().zip(self.starts.windows(2)) {
            write_number(&mut bytes, term.len() as u64);
            bytes.extend(term.as_bytes());
            write_number(&mut bytes, (range[1] - range[0]) as u64);
            let mut next = 0;
            for at in range[0]..range[1] {
                // Entries ascend, so the gap to the last one is a small number.
                write_number(&mut bytes, u64::from(self.entries[at] - next));
                write_number(&mut bytes, u64::from(self.counts[at]));
                next = self.entries[at] + 1;
            }
        }
        bytes.extend(blake3::hash(&bytes).as_bytes());
        bytes
    }

    /// Reads [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// Bytes that are not a complete, undamaged index of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let Some(body) = bytes.strip_prefix(&MAGIC) else { return Err(bad("not a BM25 index")) };
        let (Some(format), Some(checksum)) = (body.first_chunk::<4>(), bytes.last_chunk::<CHECKSUM>()) else {
            return Err(bad("too short for a BM25 index"));
        };
        let format = u32::from_le_bytes(*format);
        if format != FORMAT {
            return Err(bad(format!("format {format} of a BM25 index; this version reads {FORMAT}")));
        }
        let end = bytes.len() - CHECKSUM;
        if end < MAGIC.len() + 4 || blake3::hash(&bytes[..end]).as_bytes() != checksum {
            return Err(bad("its content does not match its checksum; delete it and run again"));
        }
        let mut reader = NumberReader(&bytes[MAGIC.len() + 4..end]);
        reader.index().ok_or_else(|| bad("its content makes no sense; delete it and run again"))
    }
}

/// The postings of the texts of one batch.
struct PartialIndex {
    postings: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
}

impl PartialIndex {
    fn read<T: AsRef<str>>(texts: &[T]) -> Self {
        let mut part = Self { postings: HashMap::new(), lengths: Vec::with_capacity(texts.len()) };
        let mut tokenizer = Tokenizer::new();
        for (entry, text) in (0u32..).zip(texts) {
            let mut length = 0;
            tokenizer.terms(text.as_ref(), |term| {
                length += 1;
                if !part.postings.contains_key(term) {
                    part.postings.insert(term.to_owned(), Vec::new());
                }
                let Some(found) = part.postings.get_mut(term) else { return };
                match found.last_mut() {
                    Some((last, count)) if *last == entry => *count += 1,
                    _ => found.push((entry, 1)),
                }
            });
            part.lengths.push(length);
        }
        part
    }
}

/// Seven bits at a time, the lowest first; the top bit says that more follow.
fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct NumberReader<'a>(&'a [u8]);

impl NumberReader<'_> {
    fn index(&mut self) -> Option<Bm25Index> {
        let n_texts = self.number()?;
        let lengths = (0..n_texts).map(|_| self.small()).collect::<Option<Vec<u32>>>()?;
        let n_terms = self.number()?;
        let mut postings = Vec::new();
        for _ in 0..n_terms {
            let length = usize::try_from(self.number()?).ok()?;
            let (term, rest) = self.0.split_at_checked(length)?;
            self.0 = rest;
            let term = str::from_utf8(term).ok()?.to_owned();
            let mut found = Vec::new();
            let mut next = 0u32;
            for _ in 0..self.number()? {
                let entry = next.checked_add(self.small()?)?;
                if entry as usize >= lengths.len() {
                    return None;
                }
                found.push((entry, self.small()?));
                next = entry.checked_add(1)?;
            }
            postings.push((term, found));
        }
        self.0.is_empty().then(|| Bm25Index::assemble(postings, lengths))
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

fn bad(reason: impl Into<String>) -> Error {
    Error::BadIndex { path: "BM25 index".to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 4] =
        ["the cat sat on the mat", "the dog chased the cat", "dogs and cats running", "a quick brown fox"];

    #[test]
    fn scores_agree_with_the_reference() {
        let index = Bm25Index::build(&TEXTS);
        let found = index.search("cats running", 4);
        let expected = [(2, 0.62426), (0, 0.14267), (1, 0.14267)];
        assert_eq!(found.len(), expected.len(), "what shares no word is not found");
        for ((entry, score), (expected_entry, expected_score)) in found.into_iter().zip(expected) {
            assert_eq!(entry, expected_entry);
            assert!((score - expected_score).abs() < 5e-6, "{score} is not {expected_score}");
        }
    }

    #[test]
    fn scores_of_chosen_entries_are_those_of_the_search() {
        let index = Bm25Index::build(&TEXTS);
        let found = index.search("the running dog of a cat", 9);
        let entries: Vec<u32> = found.iter().map(|hit| hit.0).collect();
        assert_eq!(
            index.scores("the running dog of a cat", &entries),
            found.iter().map(|hit| hit.1).collect::<Vec<_>>()
        );
        assert_eq!(index.scores("cats", &[3]), [0.0]);
    }

    #[test]
    fn a_repeated_term_counts_twice() {
        let index = Bm25Index::build(&TEXTS);
        assert_eq!(index.search("cat cat", 1)[0].1, 2.0 * index.search("cat", 1)[0].1);
    }

    #[test]
    fn a_query_of_unknown_or_frequent_words_finds_nothing() {
        let index = Bm25Index::build(&TEXTS);
        assert_eq!(index.search("the and zebra", 5), []);
        assert_eq!(index.search("", 5), []);
        assert_eq!(Bm25Index::build::<&str>(&[]).search("cat", 5), []);
        assert_eq!(Bm25Index::build(&["", "the"]).search("cat", 5), []);
    }

    #[test]
    fn bytes_are_the_same_for_every_number_of_threads_and_read_back_equal() {
        let texts: Vec<String> =
            (0..3000).map(|i| format!("word{} thing{} words the {}", i % 17, i % 401, TEXTS[i % 4])).collect();
        let index = Bm25Index::build(&texts);
        let bytes = index.to_bytes();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(pool.install(|| Bm25Index::build(&texts)).to_bytes(), bytes);
        assert_eq!(Bm25Index::from_bytes(&bytes).unwrap(), index);
    }

    #[test]
    fn damage_is_found() {
        let bytes = Bm25Index::build(&TEXTS).to_bytes();
        let reason = |bytes: &[u8]| Bm25Index::from_bytes(bytes).unwrap_err().to_string();
        assert!(reason(b"hello").contains("not a BM25 index"));
        assert!(reason(&bytes[..10]).contains("too short"));
        assert!(reason(&bytes[..bytes.len() - 1]).contains("checksum"));
        let mut flipped = bytes.clone();
        flipped[30] ^= 1;
        assert!(reason(&flipped).contains("checksum"));
        let mut newer = bytes;
        newer[8] = 2;
        assert!(reason(&newer).contains("format 2"));
    }
}
