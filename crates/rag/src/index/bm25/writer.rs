//! Writes a file of a BM25 index from front to back.

use super::{
    dictionary::record,
    segment::{HEADER, SegmentFacts, Settings},
    spool::Spool,
};
use std::io::{self, Write};

/// Writes a file: first the lengths of all entries, then each term in order.
pub(super) struct SegmentWriter<W> {
    to: W,
    hasher: blake3::Hasher,
    facts: SegmentFacts,
    records: Spool,
    texts: Spool,
}

impl<W: Write> SegmentWriter<W> {
    /// Begins a file, with room for its header. The dictionary waits in `records` and `texts`.
    pub(super) fn begin(mut to: W, settings: &Settings, [records, texts]: [Spool; 2]) -> io::Result<Self> {
        to.write_all(&[0; HEADER])?;
        let mut writer = Self { to, hasher: blake3::Hasher::new(), facts: SegmentFacts::default(), records, texts };
        let settings = settings.bytes();
        writer.facts.bytes[0] = settings.len() as u64;
        writer.write_all(&settings)?;
        Ok(writer)
    }

    /// Adds the lengths of entries.
    pub(super) fn lengths(&mut self, lengths: impl Iterator<Item = u32>) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(1 << 16);
        for length in lengths {
            self.facts.entries += 1;
            self.facts.total_length += u64::from(length);
            self.facts.longest = self.facts.longest.max(length);
            bytes.extend(length.to_le_bytes());
            if bytes.len() >= 1 << 16 {
                self.write_all(&bytes)?;
                bytes.clear();
            }
        }
        self.write_all(&bytes)
    }

    /// Adds a term with its list.
    pub(super) fn term(&mut self, text: &[u8], frequency: u32, list: &[u8]) -> io::Result<()> {
        self.records.push(&record(self.texts.bytes, self.facts.bytes[1], frequency))?;
        self.texts.push(text)?;
        self.facts.bytes[1] += list.len() as u64;
        self.write_all(list)
    }

    /// Writes the dictionary. Returns the writer, the facts of the header, and the header itself: the caller writes it at the
    /// start of the file.
    pub(super) fn finish(mut self) -> io::Result<(W, SegmentFacts, [u8; HEADER])> {
        let (records, texts) = (std::mem::take(&mut self.records), std::mem::take(&mut self.texts));
        (self.facts.bytes[2], self.facts.bytes[3]) = (records.bytes, texts.bytes);
        records.copy_to(&mut self)?;
        texts.copy_to(&mut self)?;
        let header = self.facts.header(&self.hasher.finalize());
        Ok((self.to, self.facts, header))
    }
}

impl<W: Write> Write for SegmentWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.to.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
