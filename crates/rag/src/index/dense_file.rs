//! The file of a dense index: 64 bytes of header (magic, version, dimensions,
//! rows, BLAKE3 of the rest), then the rows as little-endian `f32`, each
//! filled up with zeros to a multiple of 64 bytes, so that a mapped file is
//! searched in place.

use super::{
    DenseIndex, VectorWriter,
    header::{self, FileKind, HEADER_BYTES, IndexHeader, bad},
    kernel::{self, LANES},
};
use crate::Error;
use models::Matrix;
use std::{
    fs::File,
    io::{BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
};

const KIND: FileKind = FileKind { magic: *b"RVDENSE\n", format: 1, title: "dense index" };
/// How many rows are converted at once when they are written.
const ROWS_AT_ONCE: usize = 256;

/// Writes a [`DenseIndex`](super::DenseIndex) shard by shard, under another name until it is done.
#[derive(Debug)]
pub struct DenseWriter {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
    header: IndexHeader,
    hasher: blake3::Hasher,
}

impl DenseWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path, dimensions: usize) -> Result<Self, Error> {
        let origin = path.display().to_string();
        let header = new_header(dimensions, &origin)?;
        // Two writers of the same index never use the same name, on any
        // machines; the one that finishes last wins, with the same content.
        let partial = store::staged_path(path);
        let file = header::begin(&partial).map_err(|error| bad(&origin, error))?;
        Ok(Self { path: path.to_owned(), partial, file, header, hasher: blake3::Hasher::new() })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Rows of another length, numbers that are not finite, or a full disk.
    pub fn push(&mut self, shard: &Matrix) -> Result<(), Error> {
        let origin = self.path.display().to_string();
        if shard.rows() == 0 {
            return Ok(());
        }
        self.check_dimensions(shard.columns)?;
        // Hashing and writing are fastest in large pieces.
        let mut values = Vec::new();
        for rows in shard.data.chunks(ROWS_AT_ONCE * shard.columns) {
            values.clear();
            for row in rows.chunks_exact(shard.columns) {
                append_row(&mut values, row, &origin)?;
                self.header.vectors += 1;
            }
            let bytes = kernel::bytes(&values);
            self.hasher.update(bytes);
            self.file.write_all(bytes).map_err(|error| bad(&origin, error))?;
        }
        self.check_count()
    }

    /// Adds vectors of another index.
    ///
    /// # Errors
    /// Vectors of another length, or a full disk.
    ///
    /// # Panics
    /// If there are no such entries.
    pub fn push_from(&mut self, index: &DenseIndex, entries: Range<u32>) -> Result<(), Error> {
        self.check_dimensions(index.dimensions())?;
        for rows in index.stored_rows(entries) {
            self.hasher.update(rows);
            self.file.write_all(rows).map_err(|error| bad(&self.path.display().to_string(), error))?;
            self.header.vectors += (rows.len() / (self.header.columns() * size_of::<f32>())) as u64;
        }
        self.check_count()
    }

    fn check_dimensions(&self, new: usize) -> Result<(), Error> {
        let dimensions = self.header.dimensions as usize;
        let origin = || self.path.display().to_string();
        match new == dimensions {
            true => Ok(()),
            false => Err(bad(&origin(), format!("vectors of {new} dimensions after vectors of {dimensions}"))),
        }
    }

    fn check_count(&self) -> Result<(), Error> {
        let origin = || self.path.display().to_string();
        match self.header.vectors > u64::from(u32::MAX) {
            true => Err(bad(&origin(), "more rows than entries can number (4,294,967,295)")),
            false => Ok(()),
        }
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written or moved.
    pub fn finish(mut self) -> Result<(), Error> {
        let origin = self.path.display().to_string();
        self.header.checksum = *self.hasher.finalize().as_bytes();
        let completed = header::complete(&mut self.file, &KIND, &self.header);
        completed.and_then(|()| std::fs::rename(&self.partial, &self.path)).map_err(|error| bad(&origin, error))
    }
}

impl VectorWriter for DenseWriter {
    fn push(&mut self, shard: &Matrix) -> Result<(), Error> {
        Self::push(self, shard)
    }

    fn push_from(&mut self, index: &DenseIndex, entries: Range<u32>) -> Result<(), Error> {
        Self::push_from(self, index, entries)
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        Self::finish(*self)
    }
}

impl Drop for DenseWriter {
    fn drop(&mut self) {
        // After the rename there is nothing left to remove, and a partial file
        // that cannot be removed does no harm.
        drop(std::fs::remove_file(&self.partial));
    }
}

/// The header of a file with vectors of this length, and none so far.
pub(super) fn new_header(dimensions: usize, origin: &str) -> Result<IndexHeader, Error> {
    let dimensions =
        u32::try_from(dimensions).map_err(|_| bad(origin, format!("{dimensions} dimensions are too many")))?;
    Ok(IndexHeader { dimensions, ..IndexHeader::default() })
}

/// The header of a file, if the length of the file fits it.
pub(super) fn read_header(bytes: &[u8], origin: &str) -> Result<IndexHeader, Error> {
    let header = IndexHeader::read(bytes, &KIND, origin)?;
    let IndexHeader { dimensions, vectors, .. } = header;
    let expected = vectors.checked_mul((header.columns() * size_of::<f32>()) as u64);
    let found = (bytes.len() - HEADER_BYTES) as u64;
    if expected != Some(found) || vectors > u64::from(u32::MAX) {
        let reason = format!(
            "{found} bytes are not {vectors} vectors of {dimensions} dimensions: the file is cut off or damaged"
        );
        return Err(bad(origin, reason));
    }
    Ok(header)
}

impl IndexHeader {
    /// The stored length of a vector, in numbers.
    pub(super) fn columns(&self) -> usize {
        (self.dimensions as usize).next_multiple_of(LANES)
    }
}

/// Adds a row and the zeros that fill it up.
pub(super) fn append_row(data: &mut Vec<f32>, row: &[f32], origin: &str) -> Result<(), Error> {
    if !row.iter().all(|value| value.is_finite()) {
        return Err(bad(origin, "a vector holds a number that is not finite"));
    }
    data.extend_from_slice(row);
    data.resize(data.len().next_multiple_of(LANES), 0.0);
    Ok(())
}

pub(super) fn checksum(data: &[f32]) -> [u8; 32] {
    *blake3::Hasher::new().update_rayon(kernel::bytes(data)).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{
        DenseIndex, Index,
        dense_part::tests::{matrix, write},
    };

    #[test]
    fn a_file_written_in_shards_is_the_index_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors.dense");
        let whole = matrix(50, 20, 9);
        let shard = |from: usize, to: usize| Matrix { columns: 20, data: whole.data[from * 20..to * 20].to_vec() };
        write(&path, 20, [shard(0, 30), Matrix::default(), shard(30, 50)]);
        let index = DenseIndex::open(&path).unwrap();
        index.verify().unwrap();
        assert_eq!((index.entries(), index.dimensions()), (50, 20));
        assert_eq!(index.vector(31), whole.row(31));
        let query = whole.row(42);
        let in_memory = DenseIndex::from_matrix(&whole).unwrap();
        let from_bytes = DenseIndex::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(index.search(&[query], 5).unwrap(), in_memory.search(&[query], 5).unwrap());
        assert_eq!(index.search(&[query], 5).unwrap(), from_bytes.search(&[query], 5).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file is left");
    }

    #[test]
    fn a_writer_that_is_dropped_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = DenseWriter::create(&folder.path().join("x.dense"), 2).unwrap();
        writer.push(&Matrix { columns: 2, data: vec![1.0, 0.0] }).unwrap();
        drop(writer);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.dense");
        write(&path, 4, [matrix(10, 4, 1)]);
        let good = std::fs::read(&path).unwrap();
        let reason = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            DenseIndex::from_bytes(&bytes).unwrap_err().to_string()
        };
        assert!(reason(&|bytes| bytes.truncate(20)).contains("too short"));
        assert!(reason(&|bytes| bytes[0] = b'x').contains("not a dense index"));
        assert!(reason(&|bytes| bytes[8] = 9).contains("format 9"));
        assert!(reason(&|bytes| bytes.truncate(100)).contains("cut off"));
        assert!(reason(&|bytes| bytes[70] ^= 1).contains("checksum"));
        let mut flipped = good;
        flipped[70] ^= 1;
        std::fs::write(&path, flipped).unwrap();
        assert!(DenseIndex::open(&path).unwrap().verify().is_err());
        assert!(DenseIndex::open(&folder.path().join("absent")).is_err());
    }
}
