//! The terms of a file, sorted by their bytes, each with the place of its list and the number of its entries.
//!
//! A record is where the term's text begins among the texts, where its list begins among the lists (8 bytes each),
//! and how many entries contain it (4 bytes). A text or list ends where the next one begins.

use super::numbers::{long, short};
use std::{cmp::Ordering, ops::Range};

pub(super) const RECORD: usize = 20;

/// The record of a term.
pub(super) fn record(text_start: u64, list_start: u64, frequency: u32) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&text_start.to_le_bytes());
    record[8..16].copy_from_slice(&list_start.to_le_bytes());
    record[16..].copy_from_slice(&frequency.to_le_bytes());
    record
}

/// The dictionary of a file, in its bytes. Where they are damaged, texts and lists are empty or others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dictionary<'a> {
    records: &'a [[u8; RECORD]],
    texts: &'a [u8],
    lists: &'a [u8],
}

impl<'a> Dictionary<'a> {
    pub(super) fn new(records: &'a [u8], texts: &'a [u8], lists: &'a [u8]) -> Self {
        Self { records: records.as_chunks().0, texts, lists }
    }

    /// How many terms it has.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The number of a term; `None` if no entry contains it.
    pub(super) fn find(&self, term: &str) -> Option<usize> {
        let mut among: Range<usize> = 0..self.len();
        while !among.is_empty() {
            let middle = among.start + among.len() / 2;
            match self.text(middle).cmp(term.as_bytes()) {
                Ordering::Less => among.start = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => among.end = middle,
            }
        }
        None
    }

    pub(super) fn text(&self, term: usize) -> &'a [u8] {
        self.part(self.texts, term, 0)
    }

    /// The bytes of a term's list.
    pub(super) fn list(&self, term: usize) -> &'a [u8] {
        self.part(self.lists, term, 8)
    }

    /// How many entries contain a term.
    pub(super) fn frequency(&self, term: usize) -> u32 {
        self.records.get(term).map_or(0, |record| short(record, 16))
    }

    /// Whether the texts and lists follow each other from the first byte to the last.
    pub(super) fn is_whole(&self) -> bool {
        let starts = self.records.first().map_or([0, 0], |record| [long(record, 0), long(record, 8)]);
        let texts: usize = (0..self.len()).map(|term| self.text(term).len()).sum();
        let lists: usize = (0..self.len()).map(|term| self.list(term).len()).sum();
        starts == [0, 0] && texts == self.texts.len() && lists == self.lists.len()
    }

    /// What begins in `all` at the number that is `at` this place of the term's record.
    fn part(&self, all: &'a [u8], term: usize, at: usize) -> &'a [u8] {
        let start = |term: usize| {
            self.records.get(term).map_or(all.len(), |record| usize::try_from(long(record, at)).unwrap_or(usize::MAX))
        };
        all.get(start(term)..start(term + 1)).unwrap_or_default()
    }
}
