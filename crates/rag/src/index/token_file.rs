//! The file of a token index: 64 bytes of header, then the vectors of all
//! chunks in order, then for each chunk the number of its vectors (`u32`) and
//! the first eight bytes of the BLAKE3 of these. Numbers are little-endian.
//!
//! A vector is a scale (`f32`) and a signed byte for each dimension: the number
//! at a place is byte times scale.
//!
//! One byte instead of four: a chunk of 128 tokens and 384 dimensions takes
//! 50 kB. The largest number of a vector becomes 127, so each is off by at
//! most 1/254 of the largest.

use super::{
    header::{self, FileKind, HEADER_BYTES, IndexHeader, bad, number},
    kernel::{TOKEN_COLUMNS, TOKEN_LIMIT},
};
use crate::Error;
use models::Matrix;
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

const KIND: FileKind = FileKind { magic: *b"RVTOKEN\n", format: 1, title: "token index" };
/// The bytes at the end of the file for each chunk.
pub(super) const CHUNK_BYTES: usize = 4 + CHECK_BYTES;
const CHECK_BYTES: usize = 8;
/// A vector's largest number is stored as this.
const BYTE_LIMIT: f32 = 127.0;

/// Reads the header of a file. Fails unless the file is as long as its header says.
pub(super) fn read_header(bytes: &[u8], origin: &str) -> Result<IndexHeader, Error> {
    let header = IndexHeader::read(bytes, &KIND, origin)?;
    let IndexHeader { dimensions, vectors, chunks, .. } = header;
    let of_vectors = vectors.checked_mul(header.stride() as u64);
    let of_chunks = chunks.checked_mul(CHUNK_BYTES as u64);
    let expected = of_vectors.zip(of_chunks).and_then(|(one, other)| one.checked_add(other));
    let found = (bytes.len() - HEADER_BYTES) as u64;
    if expected != Some(found) || chunks > u64::from(u32::MAX) || dimensions as usize > TOKEN_COLUMNS {
        let reason = format!(
            "{found} bytes are not {vectors} vectors of {dimensions} dimensions for {chunks} chunks: the file is cut \
             off or damaged"
        );
        return Err(bad(origin, reason));
    }
    Ok(header)
}

impl IndexHeader {
    /// The stored length of a vector in a token index, in bytes.
    pub(super) fn stride(&self) -> usize {
        self.dimensions as usize + size_of::<f32>()
    }
}

/// The number of vectors and the checksum of each chunk, from the end of a file.
pub(super) fn chunks(trailer: &[u8]) -> impl Iterator<Item = (u32, [u8; CHECK_BYTES])> {
    trailer.as_chunks::<CHUNK_BYTES>().0.iter().map(|entry| {
        let mut checksum = [0; CHECK_BYTES];
        checksum.copy_from_slice(&entry[4..]);
        (number(entry, 0), checksum)
    })
}

/// The checksum of a chunk's vectors.
pub(super) fn checksum(vectors: &[u8]) -> [u8; CHECK_BYTES] {
    let mut checksum = [0; CHECK_BYTES];
    checksum.copy_from_slice(&blake3::hash(vectors).as_bytes()[..CHECK_BYTES]);
    checksum
}

/// The token vectors of some chunks, as a file holds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenBlock {
    dimensions: u32,
    vectors: u64,
    rows: Vec<u8>,
    trailer: Vec<u8>,
}

impl TokenBlock {
    /// Adds chunks: for each a matrix with a row per token.
    ///
    /// # Errors
    /// Rows of another length or of more than 8192 numbers, or numbers that
    /// are not finite.
    pub fn push(&mut self, chunks: &[Matrix]) -> Result<(), Error> {
        let origin = "token index in memory";
        for chunk in chunks {
            if chunk.rows() > 0 {
                self.dimensions = check_dimensions(self.dimensions, chunk.columns, origin)?;
            }
            let start = self.rows.len();
            for row in chunk.iter() {
                append_row(&mut self.rows, row, origin)?;
            }
            self.vectors += chunk.rows() as u64;
            let rows = u32::try_from(chunk.rows()).map_err(|_| bad(origin, "a chunk has too many vectors"))?;
            self.trailer.extend(rows.to_le_bytes());
            self.trailer.extend(checksum(&self.rows[start..]));
        }
        Ok(())
    }

    /// How many chunks it holds.
    pub fn chunks(&self) -> usize {
        self.trailer.len() / CHUNK_BYTES
    }

    /// How many bytes their vectors take.
    pub fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// A whole file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.rows).update(&self.trailer);
        let header = self.header(*hasher.finalize().as_bytes());
        [header.bytes(&KIND).as_slice(), &self.rows, &self.trailer].concat()
    }

    /// Reads a whole file, and verifies it.
    ///
    /// # Errors
    /// Bytes that are not a complete, undamaged index of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let origin = "part of a token index";
        let header = read_header(bytes, origin)?;
        let content = &bytes[HEADER_BYTES..];
        if *blake3::hash(content).as_bytes() != header.checksum {
            return Err(bad(origin, "its content does not match its checksum"));
        }
        let (rows, trailer) = content.split_at(header.vectors as usize * header.stride());
        let IndexHeader { dimensions, vectors, .. } = header;
        Ok(Self { dimensions, vectors, rows: rows.to_vec(), trailer: trailer.to_vec() })
    }

    fn header(&self, checksum: [u8; 32]) -> IndexHeader {
        let Self { dimensions, vectors, .. } = *self;
        IndexHeader { dimensions, vectors, checksum, chunks: self.chunks() as u64 }
    }
}

/// Writes a token index block by block: the whole is never in memory.
#[derive(Debug)]
pub struct TokenWriter {
    path: PathBuf,
    file: BufWriter<File>,
    hasher: blake3::Hasher,
    /// Everything that was written, without the vectors.
    written: TokenBlock,
}

impl TokenWriter {
    /// Begins a file. It is incomplete until [`finish`](Self::finish): create it
    /// under another name, and rename it then.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = header::begin(path).map_err(|error| bad(&path.display().to_string(), error))?;
        Ok(Self { path: path.to_owned(), file, hasher: blake3::Hasher::new(), written: TokenBlock::default() })
    }

    /// Adds chunks.
    ///
    /// # Errors
    /// Vectors of another length, or a full disk.
    pub fn push(&mut self, block: &TokenBlock) -> Result<(), Error> {
        let origin = self.path.display().to_string();
        if block.vectors > 0 {
            self.written.dimensions = check_dimensions(self.written.dimensions, block.dimensions as usize, &origin)?;
        }
        self.written.vectors += block.vectors;
        self.written.trailer.extend_from_slice(&block.trailer);
        self.hasher.update(&block.rows);
        self.file.write_all(&block.rows).map_err(|error| bad(&origin, error))
    }

    /// Completes the file, and says how many chunks it holds.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<usize, Error> {
        self.hasher.update(&self.written.trailer);
        let header = self.written.header(*self.hasher.finalize().as_bytes());
        let written = self.file.write_all(&self.written.trailer);
        let completed = written.and_then(|()| header::complete(&mut self.file, &KIND, &header));
        completed.map_err(|error| bad(&self.path.display().to_string(), error))?;
        Ok(self.written.chunks())
    }
}

/// The dimensions of a file after a vector of `new` dimensions. `known` is 0 if
/// the file had no vector before.
fn check_dimensions(known: u32, new: usize, origin: &str) -> Result<u32, Error> {
    let fits = u32::try_from(new).ok().filter(|new| *new as usize <= TOKEN_COLUMNS);
    let new =
        fits.ok_or_else(|| bad(origin, format!("vectors of {new} dimensions; at most {TOKEN_COLUMNS} can be kept")))?;
    if known != 0 && known != new {
        return Err(bad(origin, format!("vectors of {new} dimensions after vectors of {known}")));
    }
    Ok(new)
}

fn append_row(rows: &mut Vec<u8>, row: &[f32], origin: &str) -> Result<(), Error> {
    let scale = scale(row, BYTE_LIMIT, origin)?;
    rows.extend(scale.to_le_bytes());
    rows.extend(row.iter().map(|value| (scaled(*value, scale) as i8).cast_unsigned()));
    Ok(())
}

/// The vectors of a question's tokens, as they are compared with stored vectors.
#[derive(Debug)]
pub(super) struct QuestionTokens {
    pub(super) columns: usize,
    /// The vectors one after the other, each of `columns` values.
    pub(super) values: Vec<i16>,
    /// The factor of each vector's values.
    pub(super) scales: Vec<f32>,
}

impl QuestionTokens {
    pub(super) fn new(question: &Matrix) -> Result<Self, Error> {
        let origin = "token vectors of a question";
        let mut words = Self { columns: question.columns, values: Vec::new(), scales: Vec::new() };
        for row in question.iter() {
            let scale = scale(row, f32::from(TOKEN_LIMIT), origin)?;
            words.values.extend(row.iter().map(|value| scaled(*value, scale) as i16));
            words.scales.push(scale);
        }
        Ok(words)
    }
}

/// The scale with which the largest number of a vector becomes `limit`; 0 for a vector of zeros.
fn scale(row: &[f32], limit: f32, origin: &str) -> Result<f32, Error> {
    if !row.iter().all(|value| value.is_finite()) {
        return Err(bad(origin, "a vector holds a number that is not finite"));
    }
    Ok(row.iter().fold(0.0f32, |largest, value| largest.max(value.abs())) / limit)
}

/// A value divided by its scale and rounded, so that it fits the stored integer.
fn scaled(value: f32, scale: f32) -> f32 {
    if scale > 0.0 { (value / scale).round() } else { 0.0 }
}
