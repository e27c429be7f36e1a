//! What the files of dense and token indexes share: a header of 64 bytes, and how a file is begun and completed.
//!
//! The header is the magic, version of the format, dimensions, number of vectors, BLAKE3 of all that follows, and
//! number of chunks. Numbers are little-endian.

use crate::Error;
use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::Path,
};

pub(super) const HEADER_BYTES: usize = 64;

pub(super) struct FileKind {
    pub(super) magic: [u8; 8],
    pub(super) format: u32,
    /// Such as `dense index`.
    pub(super) title: &'static str,
}

/// What stands before the vectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct IndexHeader {
    /// The length of a vector; 0 if there are none.
    pub(super) dimensions: u32,
    /// How many there are.
    pub(super) vectors: u64,
    /// BLAKE3 of all that follows the header.
    pub(super) checksum: [u8; 32],
    /// The number of chunks of a token index; 0 in a dense index, which has one vector for each.
    pub(super) chunks: u64,
}

impl IndexHeader {
    pub(super) fn bytes(&self, kind: &FileKind) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&kind.magic);
        bytes[8..12].copy_from_slice(&kind.format.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.dimensions.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.vectors.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.checksum);
        bytes[56..].copy_from_slice(&self.chunks.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8], kind: &FileKind, origin: &str) -> Result<Self, Error> {
        let FileKind { magic, format, title } = kind;
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(bad(origin, format!("too short for a {title}")));
        };
        if head[..8] != *magic {
            return Err(bad(origin, format!("not a {title}")));
        }
        let found = number(head, 8);
        if found != *format {
            return Err(bad(origin, format!("format {found} of a {title}; this version reads {format}")));
        }
        let mut checksum = [0; 32];
        checksum.copy_from_slice(&head[24..56]);
        let long = |at: usize| u64::from(number(head, at)) | u64::from(number(head, at + 4)) << 32;
        Ok(Self { dimensions: number(head, 12), vectors: long(16), checksum, chunks: long(56) })
    }
}

/// The four bytes at a place as a number.
pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<4>());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Begins a file with room for its header.
pub(super) fn begin(path: &Path) -> io::Result<BufWriter<File>> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&[0; HEADER_BYTES])?;
    Ok(file)
}

/// Writes the header of a file that is complete apart from it.
pub(super) fn complete(file: &mut BufWriter<File>, kind: &FileKind, header: &IndexHeader) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&header.bytes(kind))?;
    file.flush()?;
    // Otherwise a power cut could leave a complete header over missing vectors.
    file.get_ref().sync_data()
}

/// The error of a file that is not what was written.
pub(super) fn bad(origin: &str, reason: impl ToString) -> Error {
    Error::BadIndex { path: origin.to_owned(), reason: reason.to_string() }
}
