//! A part: some consecutive chunks of a block with their vectors, in one object.
//!
//! Magic, BLAKE3 of what follows, length of the table of chunks, length of a vector, the table in Parquet, and the
//! vectors of the searchable chunks as little-endian `f32`.

use bytes::Bytes;
use lab::artifact::{decode, encode};
use models::Matrix;
use rag::Chunk;
use std::ops::Range;
use store::Key;

/// Raise when the bytes of a part change.
pub(super) const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"RVPART1\n";
const CHECKSUM: Range<usize> = 8..40;
const HEADER: usize = 52;

/// Chunks, and a vector for each searchable one.
pub(super) struct IndexPart {
    pub(super) chunks: Vec<Chunk>,
    pub(super) vectors: Matrix,
}

impl IndexPart {
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, lab::Error> {
        let table = encode(&self.chunks)?;
        let mut bytes = Vec::with_capacity(HEADER + table.len() + self.vectors.data.len() * size_of::<f32>());
        bytes.extend(MAGIC);
        bytes.extend([0; 32]);
        bytes.extend((table.len() as u64).to_le_bytes());
        bytes.extend((self.vectors.columns as u32).to_le_bytes());
        bytes.extend_from_slice(&table);
        bytes.extend(self.vectors.data.iter().flat_map(|number| number.to_le_bytes()));
        let checksum = Key::of_bytes(&bytes[CHECKSUM.end..]);
        bytes[CHECKSUM].copy_from_slice(checksum.bytes());
        Ok(bytes)
    }

    /// The part that these bytes hold; none if they are damaged.
    pub(super) fn from_bytes(bytes: &Bytes) -> Option<Self> {
        let (header, content) = bytes.split_at_checked(HEADER)?;
        let is_whole = header.starts_with(MAGIC) && header[CHECKSUM] == *Key::of_bytes(&bytes[CHECKSUM.end..]).bytes();
        if !is_whole {
            return None;
        }
        let length = u64::from_le_bytes(header[40..48].try_into().ok()?);
        let columns = u32::from_le_bytes(header[48..].try_into().ok()?) as usize;
        let (table, vectors) = content.split_at_checked(usize::try_from(length).ok()?)?;
        let chunks: Vec<Chunk> = decode(bytes.slice_ref(table)).ok()?;
        let data: Vec<f32> = vectors.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
        let searchable = chunks.iter().filter(|chunk| chunk.searchable).count();
        let part = Self { chunks, vectors: Matrix { columns, data } };
        (part.vectors.data.len() == searchable * columns).then_some(part)
    }

    /// Some of its chunks.
    pub(super) fn slice(mut self, rows: Range<usize>) -> Self {
        let searchable = |chunks: &[Chunk]| chunks.iter().filter(|chunk| chunk.searchable).count();
        let before = searchable(&self.chunks[..rows.start]) * self.vectors.columns;
        let inside = searchable(&self.chunks[rows.clone()]) * self.vectors.columns;
        self.vectors.data.truncate(before + inside);
        self.vectors.data.drain(..before);
        self.chunks.truncate(rows.end);
        self.chunks.drain(..rows.start);
        self
    }
}
