//! A file of a BM25 index, in memory or mapped, and what it says.
//!
//! Format 3 is a header of 96 bytes; the settings and languages; the number of terms of each entry; the
//! [lists](super::blocks); the records and texts of the [dictionary](super::dictionary). The header is the magic, the
//! format, the length of the longest entry, the numbers of entries and of their terms, the bytes of the settings, lists,
//! records and texts, and BLAKE3 of the header up to here and of BLAKE3 of all that follows it. Numbers are
//! little-endian. Equal texts give equal bytes.

use super::{
    blocks::List,
    dictionary::{self, Dictionary},
    numbers::{NumberReader, long, short, write_number, write_text},
};
use crate::{
    Error,
    analysis::{Language, TextAnalysis},
};
use memmap2::Mmap;
use std::{fmt, ops::Range};

pub(super) const MAGIC: [u8; 8] = *b"RVBM25\0\n";
pub(super) const FORMAT: u32 = 3;
pub(super) const HEADER: usize = 96;
/// The part of the header before the checksum.
const FACTS: usize = HEADER - CHECKSUM;
pub(super) const CHECKSUM: usize = 32;

/// How the texts of an index were cut.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) analysis: TextAnalysis,
    /// The languages of its texts, each with the number of its texts, the most frequent first.
    pub(super) languages: Vec<(Language, u32)>,
}

impl Settings {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_text(&mut bytes, &serde_json::to_string(&self.analysis).unwrap_or_default());
        write_number(&mut bytes, self.languages.len() as u64);
        for (language, texts) in &self.languages {
            write_text(&mut bytes, language.name());
            write_number(&mut bytes, u64::from(*texts));
        }
        bytes
    }

    pub(super) fn read(reader: &mut NumberReader<'_>) -> Option<Self> {
        let analysis = serde_json::from_str(reader.text()?).ok()?;
        let n_languages = reader.number()?;
        let mut languages = Vec::new();
        for _ in 0..n_languages {
            languages.push((Language::named(reader.text()?)?, reader.small()?));
        }
        Some(Self { analysis, languages })
    }
}

/// What the header says, apart from the checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SegmentFacts {
    /// The largest number of terms of an entry.
    pub(super) longest: u32,
    pub(super) entries: u64,
    /// The number of terms of all entries.
    pub(super) total_length: u64,
    /// The bytes of the settings, lists, records and texts.
    pub(super) bytes: [u64; 4],
}

impl SegmentFacts {
    /// The header's bytes, for the BLAKE3 of what follows it.
    pub(super) fn header(&self, rest: &blake3::Hash) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        header[12..16].copy_from_slice(&self.longest.to_le_bytes());
        let numbers = [self.entries, self.total_length].into_iter().chain(self.bytes);
        for (place, number) in header[16..FACTS].as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        let checksum = checksum(&header[..FACTS], rest);
        header[FACTS..].copy_from_slice(checksum.as_bytes());
        header
    }

    /// Where the parts of the file are; none if no file is so long.
    fn parts(&self) -> Option<[Range<usize>; 5]> {
        let [settings, lists, records, texts] = self.bytes;
        let mut parts = [const { 0..0 }; 5];
        let mut end = HEADER;
        for (part, size) in parts.iter_mut().zip([settings, self.entries.checked_mul(4)?, lists, records, texts]) {
            let start = end;
            end = start.checked_add(usize::try_from(size).ok()?)?;
            *part = start..end;
        }
        (records % dictionary::RECORD as u64 == 0).then_some(parts)
    }

    fn read(header: &[u8; HEADER]) -> Self {
        let bytes = [32, 40, 48, 56].map(|at| long(header, at));
        Self { longest: short(header, 12), entries: long(header, 16), total_length: long(header, 24), bytes }
    }
}

fn checksum(facts: &[u8], rest: &blake3::Hash) -> blake3::Hash {
    blake3::Hasher::new().update(facts).update(rest.as_bytes()).finalize()
}

/// The bytes of a file.
pub(super) enum SegmentBytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl SegmentBytes {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// A file of format 3. Where it is damaged, searches find something else.
pub(super) struct Segment {
    data: SegmentBytes,
    pub(super) facts: SegmentFacts,
    pub(super) settings: Settings,
    /// Where its settings, lengths, lists, records and texts are.
    parts: [Range<usize>; 5],
}

impl fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Segment").field("facts", &self.facts).field("settings", &self.settings).finish()
    }
}

impl Segment {
    /// Reads the header and the settings, and compares the length of the file with them.
    pub(super) fn new(data: SegmentBytes) -> Result<Self, Error> {
        let bytes = data.bytes();
        let Some(header) = bytes.first_chunk::<HEADER>() else { return Err(bad("too short for a BM25 index")) };
        let facts = SegmentFacts::read(header);
        let parts = facts.parts().filter(|parts| parts[4].end == bytes.len() && facts.entries <= u64::from(u32::MAX));
        let Some(parts) = parts else {
            return Err(bad("its parts do not have the lengths that it says: the file is cut off or damaged"));
        };
        let mut reader = NumberReader(&bytes[parts[0].clone()]);
        let settings = Settings::read(&mut reader).filter(|_| reader.0.is_empty());
        let settings = settings.ok_or_else(|| bad("its content makes no sense; delete it and run again"))?;
        Ok(Self { data, facts, settings, parts })
    }

    /// What was just written.
    pub(super) fn written(bytes: Vec<u8>, facts: SegmentFacts, settings: Settings) -> Self {
        let parts = facts.parts().filter(|parts| parts[4].end == bytes.len()).unwrap_or_default();
        Self { data: SegmentBytes::Owned(bytes), facts, settings, parts }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }

    /// The number of entries. A file has fewer than an `u32` can count.
    pub(super) fn entries(&self) -> u32 {
        self.facts.entries as u32
    }

    /// The number of terms of each entry, as little-endian numbers.
    pub(super) fn lengths(&self) -> &[[u8; 4]] {
        self.part(1).as_chunks().0
    }

    pub(super) fn dictionary(&self) -> Dictionary<'_> {
        Dictionary::new(self.part(3), self.part(4), self.part(2))
    }

    fn part(&self, part: usize) -> &[u8] {
        &self.bytes()[self.parts[part].clone()]
    }

    /// The list of a term.
    pub(super) fn list(&self, term: usize) -> List<'_> {
        let dictionary = self.dictionary();
        List::new(dictionary.list(term), dictionary.frequency(term) as usize)
    }
}

/// Compares the bytes of a file with their checksum.
pub(super) fn verify_checksum(bytes: &[u8]) -> Result<(), Error> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(bad("too short for a BM25 index"));
    };
    let rest = blake3::Hasher::new().update_rayon(rest).finalize();
    if checksum(&header[..FACTS], &rest).as_bytes() != &header[FACTS..] {
        return Err(bad("its content does not match its checksum; delete it and run again"));
    }
    Ok(())
}

pub(super) fn bad(reason: impl Into<String>) -> Error {
    Error::BadIndex { path: "BM25 index".to_owned(), reason: reason.into() }
}
