//! The file of a dense index: 64 bytes of header (magic, version, dimensions,
//! rows, BLAKE3 of the rest), then the rows as little-endian `f32`, each
//! filled up with zeros to a multiple of 64 bytes, so that a mapped file is
//! searched in place.

use super::{VectorWriter, kernel::LANES};
use crate::Error;
use models::Matrix;
use std::{
    fs::File,
    io::{BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

const MAGIC: [u8; 8] = *b"RVDENSE\n";
const FORMAT: u32 = 1;
/// The length of the header.
pub(super) const HEADER_BYTES: usize = 64;
/// How many rows are converted at once when they are written.
const ROWS_AT_ONCE: usize = 256;

/// What stands before the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DenseHeader {
    /// The length of a vector.
    pub(super) dimensions: u32,
    /// How many there are.
    pub(super) rows: u64,
    /// BLAKE3 of all that follows the header.
    pub(super) checksum: [u8; 32],
}

/// Writes a [`DenseIndex`](super::DenseIndex) shard by shard, under another name until it is done.
#[derive(Debug)]
pub struct DenseWriter {
    path: PathBuf,
    partial: PathBuf,
    file: Option<BufWriter<File>>,
    header: DenseHeader,
    hasher: blake3::Hasher,
}

impl DenseWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path, dimensions: usize) -> Result<Self, Error> {
        let origin = path.display().to_string();
        let header = DenseHeader::new(dimensions, &origin)?;
        // Two writers of the same index never use the same name, on any
        // machines; the one that finishes last wins, with the same content.
        let partial = store::staged_path(path);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&partial).map_err(|error| bad(&origin, error))?);
        file.write_all(&[0; HEADER_BYTES]).map_err(|error| bad(&origin, error))?;
        Ok(Self { path: path.to_owned(), partial, file: Some(file), header, hasher: blake3::Hasher::new() })
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
        if shard.columns != self.header.dimensions as usize {
            let (new, old) = (shard.columns, self.header.dimensions);
            return Err(bad(&origin, format!("vectors of {new} dimensions after vectors of {old}")));
        }
        let Some(file) = self.file.as_mut() else {
            return Err(bad(&origin, "already finished"));
        };
        // Hashing and writing are fastest in large pieces.
        let (mut values, mut bytes) = (Vec::new(), Vec::new());
        for rows in shard.data.chunks(ROWS_AT_ONCE * shard.columns) {
            values.clear();
            bytes.clear();
            for row in rows.chunks_exact(shard.columns) {
                append_row(&mut values, row, &origin)?;
                self.header.rows += 1;
            }
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            self.hasher.update(&bytes);
            file.write_all(&bytes).map_err(|error| bad(&origin, error))?;
        }
        if self.header.rows > u64::from(u32::MAX) {
            return Err(bad(&origin, "more rows than entries can number (4,294,967,295)"));
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written or moved.
    pub fn finish(mut self) -> Result<(), Error> {
        let origin = self.path.display().to_string();
        self.header.checksum = *self.hasher.finalize().as_bytes();
        let Some(mut file) = self.file.take() else {
            return Err(bad(&origin, "already finished"));
        };
        let mut complete = || -> std::io::Result<()> {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&self.header.bytes())?;
            file.flush()?;
            // Otherwise a power cut could leave a complete header over missing rows.
            file.get_ref().sync_data()?;
            std::fs::rename(&self.partial, &self.path)
        };
        complete().map_err(|error| bad(&origin, error))
    }
}

impl VectorWriter for DenseWriter {
    fn push(&mut self, shard: &Matrix) -> Result<(), Error> {
        Self::push(self, shard)
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

impl DenseHeader {
    pub(super) fn new(dimensions: usize, origin: &str) -> Result<Self, Error> {
        let dimensions =
            u32::try_from(dimensions).map_err(|_| bad(origin, format!("{dimensions} dimensions are too many")))?;
        Ok(Self { dimensions, rows: 0, checksum: [0; 32] })
    }

    /// The stored length of a row, in numbers.
    pub(super) fn columns(&self) -> usize {
        (self.dimensions as usize).next_multiple_of(LANES)
    }

    fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.dimensions.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.rows.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.checksum);
        bytes
    }

    pub(super) fn read(bytes: &[u8], origin: &str) -> Result<Self, Error> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(bad(origin, "too short for a dense index"));
        };
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != MAGIC {
            return Err(bad(origin, "not a dense index"));
        }
        if number(8) != FORMAT {
            return Err(bad(origin, format!("format {} of a dense index; this version reads {FORMAT}", number(8))));
        }
        let mut checksum = [0; 32];
        checksum.copy_from_slice(&head[24..56]);
        let rows = u64::from(number(16)) | u64::from(number(20)) << 32;
        let header = Self { dimensions: number(12), rows, checksum };
        let expected = rows.checked_mul((header.columns() * size_of::<f32>()) as u64);
        let found = (bytes.len() - HEADER_BYTES) as u64;
        if expected != Some(found) || rows > u64::from(u32::MAX) {
            let dimensions = header.dimensions;
            return Err(bad(
                origin,
                format!(
                    "{found} bytes are not {rows} vectors of {dimensions} dimensions: the file is cut off or damaged"
                ),
            ));
        }
        Ok(header)
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
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::new();
    for values in data.chunks(1 << 14) {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        hasher.update(&bytes);
    }
    *hasher.finalize().as_bytes()
}

pub(super) fn bad(origin: &str, reason: impl ToString) -> Error {
    Error::BadIndex { path: origin.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{DenseIndex, dense::tests::matrix};

    #[test]
    fn a_file_written_in_shards_is_the_index_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors.dense");
        let whole = matrix(50, 20, 9);
        let shard = |from: usize, to: usize| Matrix { columns: 20, data: whole.data[from * 20..to * 20].to_vec() };
        DenseIndex::write(&path, 20, [shard(0, 30), Matrix::default(), shard(30, 50)]).unwrap();
        let index = DenseIndex::open(&path).unwrap();
        index.verify().unwrap();
        assert_eq!((index.len(), index.dimensions()), (50, 20));
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
        DenseIndex::write(&path, 4, [matrix(10, 4, 1)]).unwrap();
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
