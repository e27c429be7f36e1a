//! Exact search over vectors: every row is scored against the query, so the
//! recall is 1.0 and there is nothing to tune or to train.
//!
//! Use it up to about a million rows; beyond that a query takes longer than
//! people wait. An index of very many vectors is in several files, its parts, which are
//! [searched](super::dense_part) one by one and give the same bits as one file of all vectors.

use super::{Index, MadeFrom, VectorWriter, dense_file::DenseWriter, dense_part::DensePart, header::bad, top::Top};
use crate::Error;
use models::Matrix;
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

/// Vectors in a fixed order: entry `i` belongs to the `i`-th searchable chunk.
///
/// Scores are inner products, which for vectors of length 1 are cosines.
#[derive(Debug)]
pub struct DenseIndex {
    /// At least one, each with the number of its first entry.
    parts: Vec<(u32, DensePart)>,
    entries: usize,
}

impl Index for DenseIndex {
    const NAME: &'static str = "dense";
    const TITLE: &'static str = "dense index";
    const VERSION: u32 = 1;
    const MADE_FROM: MadeFrom = MadeFrom::Vectors(|path, dimensions| {
        let writer = DenseWriter::create(path, dimensions)?;
        Ok(Box::new(writer) as Box<dyn VectorWriter>)
    });

    fn open_files(files: &[PathBuf]) -> Result<Self, Error> {
        Self::of_parts(files.iter().map(|file| DensePart::open(file)).collect::<Result<_, _>>()?)
    }

    fn verify(&self) -> Result<(), Error> {
        self.parts.iter().try_for_each(|(_, part)| part.verify())
    }

    fn verify_bytes(bytes: &[u8]) -> Result<(), Error> {
        Self::from_bytes(bytes).map(drop)
    }

    fn entries(&self) -> usize {
        self.entries
    }
}

impl DenseIndex {
    /// Maps its only file into memory. Checks the header and the length;
    /// [`verify`](Index::verify) reads all of it.
    ///
    /// # Errors
    /// A file that is missing or is not a complete index of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::of_parts(vec![DensePart::open(path)?])
    }

    /// Reads the bytes of a file that is not on this machine's disk, and
    /// verifies them.
    ///
    /// # Errors
    /// Bytes that are not a complete, undamaged index of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::of_parts(vec![DensePart::from_bytes(bytes)?])
    }

    /// An index in memory.
    ///
    /// # Errors
    /// Numbers that are not finite.
    pub fn from_matrix(matrix: &Matrix) -> Result<Self, Error> {
        Self::of_parts(vec![DensePart::from_matrix(matrix)?])
    }

    /// An index of parts whose entries follow each other. A part without vectors may have any number of dimensions.
    fn of_parts(parts: Vec<DensePart>) -> Result<Self, Error> {
        let mut of_parts = Self { parts: Vec::with_capacity(parts.len()), entries: 0 };
        let dimensions = parts.iter().find(|part| part.entries() > 0).map(DensePart::dimensions);
        let mut empty = None;
        for part in parts {
            if part.entries() == 0 {
                empty = Some(part);
                continue;
            }
            if dimensions.is_some_and(|dimensions| part.dimensions() != dimensions) {
                return Err(bad(part.origin(), "its vectors are of another length than those of the other parts"));
            }
            let first = u32::try_from(of_parts.entries).map_err(|error| bad(part.origin(), error))?;
            of_parts.entries += part.entries();
            of_parts.parts.push((first, part));
        }
        if of_parts.parts.is_empty() {
            of_parts.parts.push((0, empty.ok_or_else(|| bad("dense index", "it has no files"))?));
        }
        Ok(of_parts)
    }

    /// The part that holds an entry, and the entry's number in it.
    fn part(&self, entry: u32) -> (&DensePart, u32) {
        let place = self.parts.partition_point(|(first, _)| *first <= entry).saturating_sub(1);
        let (first, part) = &self.parts[place];
        (part, entry - first)
    }

    /// The first part. All have the same dimensions.
    fn first(&self) -> &DensePart {
        &self.parts[0].1
    }

    /// The length of a vector.
    pub fn dimensions(&self) -> usize {
        self.first().dimensions()
    }

    /// One vector.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn vector(&self, entry: u32) -> &[f32] {
        let (part, entry) = self.part(entry);
        part.vector(entry)
    }

    /// The bytes of these vectors in their files, with the zeros that fill up each row. Each part of the index gives a piece.
    ///
    /// # Panics
    /// If there are no such entries.
    pub(super) fn stored_rows(&self, entries: Range<u32>) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().filter_map(move |(first, part)| {
            let last = first + part.entries() as u32;
            let (from, to) = (entries.start.clamp(*first, last), entries.end.clamp(*first, last));
            (from < to).then(|| part.stored_rows(from - first..to - first))
        })
    }

    /// For each query the best `k` entries with their inner products, best
    /// first, equal ones by entry. Uses the threads of the current rayon pool.
    ///
    /// # Errors
    /// If a query's length is not that of the vectors.
    pub fn search(&self, queries: &[&[f32]], k: usize) -> Result<Vec<Vec<(u32, f32)>>, Error> {
        if let [(_, part)] = self.parts.as_slice() {
            return part.search(queries, k);
        }
        let mut tops = vec![Top::new(k); queries.len()];
        for (first, part) in &self.parts {
            for (top, found) in tops.iter_mut().zip(part.search(queries, k)?) {
                found.into_iter().for_each(|(entry, score)| top.push(first + entry, score));
            }
        }
        Ok(tops.into_iter().map(Top::into_sorted).collect())
    }

    /// The best `k` of some entries, in ascending order, with their inner
    /// products, best first, equal ones by entry.
    ///
    /// # Errors
    /// If the query's length is not that of the vectors.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn search_among(&self, query: &[f32], k: usize, entries: &[u32]) -> Result<Vec<(u32, f32)>, Error> {
        if let [(_, part)] = self.parts.as_slice() {
            return part.search_among(query, k, entries);
        }
        let (mut top, mut left) = (Top::new(k), entries);
        for (first, part) in &self.parts {
            let end = left.partition_point(|&entry| (entry - first) < part.entries() as u32);
            let (here, rest) = left.split_at(end);
            left = rest;
            let here: Vec<u32> = here.iter().map(|entry| entry - first).collect();
            let found = part.search_among(query, k, &here)?;
            found.into_iter().for_each(|(entry, score)| top.push(first + entry, score));
        }
        Ok(top.into_sorted())
    }

    /// The inner products of one query with some entries.
    ///
    /// # Errors
    /// If the query's length is not that of the vectors.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn scores(&self, query: &[f32], entries: &[u32]) -> Result<Vec<f32>, Error> {
        if let [(_, part)] = self.parts.as_slice() {
            return part.scores(query, entries);
        }
        let query = self.padded(query)?;
        Ok(entries.iter().map(|&entry| self.score(entry, &query)).collect())
    }

    pub(super) fn score(&self, entry: u32, query: &[f32]) -> f32 {
        let (part, entry) = self.part(entry);
        part.score(entry, query)
    }

    /// One row as it is stored: the vector, filled up with zeros.
    pub(super) fn row(&self, entry: u32) -> &[f32] {
        let (part, entry) = self.part(entry);
        part.row(entry)
    }

    /// The inner product of two stored rows.
    pub(super) fn row_product(&self, one: &[f32], other: &[f32]) -> f32 {
        self.first().row_product(one, other)
    }

    /// BLAKE3 of all rows, as the file's header states it; of several parts, BLAKE3 of theirs.
    pub(super) fn checksum(&self) -> [u8; 32] {
        if let [(_, part)] = self.parts.as_slice() {
            return part.checksum();
        }
        let mut hasher = blake3::Hasher::new();
        for (_, part) in &self.parts {
            hasher.update(&part.checksum());
        }
        *hasher.finalize().as_bytes()
    }

    pub(super) fn padded(&self, query: &[f32]) -> Result<Vec<f32>, Error> {
        self.first().padded(query)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::dense_part::tests::{matrix, write},
        *,
    };

    /// The same vectors in one file, and in parts of these many.
    fn in_parts(folder: &Path, whole: &Matrix, parts: &[usize]) -> (DenseIndex, DenseIndex) {
        let (mut first, mut files) = (0, Vec::new());
        for (number, &rows) in parts.iter().enumerate() {
            let data = whole.data[first * whole.columns..(first + rows) * whole.columns].to_vec();
            files.push(folder.join(number.to_string()));
            // A part without vectors does not know how long they are.
            let columns = if rows == 0 { 1 } else { whole.columns };
            write(&files[number], columns, [Matrix { columns, data }]);
            first += rows;
        }
        assert_eq!(first, whole.rows());
        (DenseIndex::from_matrix(whole).unwrap(), DenseIndex::open_files(&files).unwrap())
    }

    #[test]
    fn parts_find_the_same_bits_as_one_file() {
        let folder = tempfile::tempdir().unwrap();
        // Every tenth vector is the same, so that equal scores lie in several parts.
        let mut whole = matrix(3_000, 40, 21);
        let same = whole.row(7).to_vec();
        whole.data.chunks_mut(40).step_by(10).for_each(|row| row.copy_from_slice(&same));
        let (one, parts) = in_parts(folder.path(), &whole, &[0, 1, 1_200, 0, 799, 1_000]);
        assert_eq!((one.entries(), one.dimensions()), (parts.entries(), parts.dimensions()));
        parts.verify().unwrap();
        let queries = matrix(5, 40, 22);
        let mut queries: Vec<&[f32]> = queries.iter().collect();
        queries.push(&same);
        for k in [0, 1, 20, 400, 5_000] {
            assert_eq!(one.search(&queries, k).unwrap(), parts.search(&queries, k).unwrap(), "{k}");
            for step in [1, 7, 1_500] {
                let some: Vec<u32> = (0..3_000).step_by(step).collect();
                let among = |index: &DenseIndex| index.search_among(queries[5], k, &some).unwrap();
                assert_eq!(among(&one), among(&parts), "{k} of one in {step}");
                assert_eq!(one.scores(queries[0], &some).unwrap(), parts.scores(queries[0], &some).unwrap());
            }
        }
        assert!((0..3_000).all(|entry| one.vector(entry) == parts.vector(entry)));
        assert_ne!(one.checksum(), parts.checksum());
    }

    #[test]
    fn parts_of_other_lengths_are_refused_and_parts_without_vectors_are_an_empty_index() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, columns: usize, rows: usize| {
            let path = folder.path().join(name);
            write(&path, columns, [matrix(rows, columns, 3)]);
            path
        };
        let files = [file("a", 16, 2), file("b", 20, 2), file("c", 1, 0), file("d", 1, 0)];
        let message = DenseIndex::open_files(&files).unwrap_err().to_string();
        assert!(message.contains("another length") && message.contains('b'), "{message}");
        let empty = DenseIndex::open_files(&files[2..]).unwrap();
        assert_eq!((empty.entries(), empty.search(&[&[0.5]], 3).unwrap()), (0, vec![Vec::new()]));
        assert!(DenseIndex::open_files(&[]).is_err());
    }
}
