//! Exact search over the vectors of one file. One query reads the whole matrix once at the speed of memory, or, once a
//! large file has been asked a few times, a [copy](super::coarse) of a sixth of the size that says which rows have to be
//! read; many queries at once are a blocked matrix product that reads it once for all of them.
//!
//! The file is described in [`dense_file`](super::dense_file).

use super::{
    coarse::Coarse,
    dense_file::{append_row, checksum, new_header, read_header},
    header::{HEADER_BYTES, IndexHeader, bad},
    kernel::{self, Kernel, QUERIES, ROWS},
    share::share,
    top::Top,
};
use crate::Error;
use memmap2::Mmap;
use models::Matrix;
use rayon::prelude::*;
use std::{
    fs::File,
    ops::Range,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A batch of the search scores about this many bytes of rows: half of a small
/// second-level cache, so that they stay there for the next queries.
const BATCH_BYTES: usize = 512 << 10;
/// How many queries are scored against a batch's rows before the next group of queries.
const QUERY_BLOCK: usize = 64;
/// Below this size the rows stay in the caches, and a copy would not help.
const COARSE_BYTES: usize = 64 << 20;
/// An index that is opened for one question works without the copy: making it takes as long as about four scans.
const COARSE_AFTER: usize = 1;
/// If more than one in this many entries are candidates, reading all rows in order is faster.
const CANDIDATE_SHARE: usize = 8;

/// The vectors of one file of a [`DenseIndex`](super::DenseIndex). Entries are numbered from 0.
#[derive(Debug)]
pub(super) struct DensePart {
    origin: String,
    header: IndexHeader,
    data: VectorData,
    kernel: Kernel,
    /// Searches with a single query so far.
    n_searches: AtomicUsize,
    coarse: OnceLock<Coarse>,
}

#[derive(Debug)]
enum VectorData {
    Mapped(Mmap),
    Owned(Vec<f32>),
}

impl DensePart {
    /// Maps a file into memory. Checks the header and the length;
    /// [`verify`](Self::verify) reads all of it.
    ///
    /// # Errors
    /// A file that is missing or is not a complete index of this version.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let origin = path.display().to_string();
        let file = File::open(path).map_err(|error| bad(&origin, error))?;
        let map = kernel::map(&file, true).map_err(|error| bad(&origin, error))?;
        let header = read_header(&map, &origin)?;
        Ok(Self::new(origin, header, VectorData::Mapped(map)))
    }

    /// Reads the bytes of a file that is not on this machine's disk, and
    /// verifies them.
    ///
    /// # Errors
    /// Bytes that are not a complete, undamaged index of this version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let origin = "dense index".to_owned();
        let header = read_header(bytes, &origin)?;
        let data = bytes[HEADER_BYTES..].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let index = Self::new(origin, header, VectorData::Owned(data));
        index.verify()?;
        Ok(index)
    }

    /// An index in memory.
    ///
    /// # Errors
    /// Numbers that are not finite.
    pub(super) fn from_matrix(matrix: &Matrix) -> Result<Self, Error> {
        let origin = "dense index in memory";
        let mut data = Vec::new();
        for row in matrix.iter() {
            append_row(&mut data, row, origin)?;
        }
        let (vectors, checksum) = (matrix.rows() as u64, checksum(&data));
        let header = IndexHeader { vectors, checksum, ..new_header(matrix.columns, origin)? };
        Ok(Self::new(origin.to_owned(), header, VectorData::Owned(data)))
    }

    fn new(origin: String, header: IndexHeader, data: VectorData) -> Self {
        let kernel = Kernel::detect();
        Self { origin, header, data, kernel, n_searches: AtomicUsize::new(0), coarse: OnceLock::new() }
    }

    /// Compares its rows with the checksum of its header.
    pub(super) fn verify(&self) -> Result<(), Error> {
        if checksum(self.data()) != self.header.checksum {
            return Err(bad(&self.origin, "its content does not match its checksum; delete it and run again"));
        }
        Ok(())
    }

    /// Its file, for messages.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    pub(super) fn entries(&self) -> usize {
        self.header.vectors as usize
    }

    /// The length of a vector.
    pub(super) fn dimensions(&self) -> usize {
        self.header.dimensions as usize
    }

    /// One vector.
    ///
    /// # Panics
    /// If there is no such entry.
    pub(super) fn vector(&self, entry: u32) -> &[f32] {
        let start = entry as usize * self.header.columns();
        &self.data()[start..start + self.dimensions()]
    }

    /// The bytes of these vectors in the file, with the zeros that fill up each row.
    ///
    /// # Panics
    /// If there are no such entries.
    pub(super) fn stored_rows(&self, entries: Range<u32>) -> &[u8] {
        let columns = self.header.columns();
        kernel::bytes(&self.data()[entries.start as usize * columns..entries.end as usize * columns])
    }

    /// For each query the best `k` entries with their inner products, best
    /// first, equal ones by entry. Uses the threads of the current rayon pool.
    ///
    /// # Errors
    /// If a query's length is not that of the vectors.
    pub(super) fn search(&self, queries: &[&[f32]], k: usize) -> Result<Vec<Vec<(u32, f32)>>, Error> {
        let columns = self.header.columns();
        let padded = queries.iter().map(|query| self.padded(query)).collect::<Result<Vec<_>, _>>()?;
        let queries: Vec<&[f32]> = padded.iter().map(Vec::as_slice).collect();
        if self.entries() == 0 || k == 0 || columns == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        if let [query] = queries[..]
            && let Some(coarse) = self.coarse()
            && let Some(found) = self.search_coarse(coarse, query, k, None)
        {
            return Ok(vec![found]);
        }
        let batch_rows = (BATCH_BYTES / (columns * size_of::<f32>())).next_multiple_of(ROWS);
        let none = || vec![Top::new(k); queries.len()];
        let tops = self
            .data()
            .par_chunks(batch_rows * columns)
            .enumerate()
            .fold(none, |mut tops, (batch, rows)| {
                for (queries, tops) in queries.chunks(QUERY_BLOCK).zip(tops.chunks_mut(QUERY_BLOCK)) {
                    self.scan(batch * batch_rows, rows, queries, tops);
                }
                tops
            })
            .reduce(none, |left, right| left.into_iter().zip(right).map(|(left, right)| left.merge(right)).collect());
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
    pub(super) fn search_among(&self, query: &[f32], k: usize, entries: &[u32]) -> Result<Vec<(u32, f32)>, Error> {
        let query = self.padded(query)?;
        if let Some(coarse) = self.coarse()
            && let Some(found) = self.search_coarse(coarse, &query, k, Some(entries))
        {
            return Ok(found);
        }
        Ok(self.best_of(entries, &query, k, 1024))
    }

    /// The inner products of one query with some entries.
    ///
    /// # Errors
    /// If the query's length is not that of the vectors.
    ///
    /// # Panics
    /// If there is no such entry.
    pub(super) fn scores(&self, query: &[f32], entries: &[u32]) -> Result<Vec<f32>, Error> {
        let query = self.padded(query)?;
        Ok(entries.iter().map(|&entry| self.score(entry, &query)).collect())
    }

    /// The coarse copy, which is made when it begins to pay off. A search that
    /// comes while the copy is being made runs without it: waiting here inside
    /// a rayon task could wait for the very thread that makes the copy.
    fn coarse(&self) -> Option<&Coarse> {
        if let Some(coarse) = self.coarse.get() {
            return Some(coarse);
        }
        let bytes = self.entries() * self.header.columns() * size_of::<f32>();
        let is_time = bytes >= COARSE_BYTES && self.n_searches.fetch_add(1, Ordering::Relaxed) == COARSE_AFTER;
        if !is_time || !Coarse::is_fast_here() {
            return None;
        }
        // If there is no memory for a copy, the plain scan is used.
        drop(self.coarse.set(Coarse::new(self.data(), self.header.columns()).ok()?));
        self.coarse.get()
    }

    /// The same result as the plain scan of all entries, or of some; none if
    /// the copy does not help, because too many rows could be among the best.
    fn search_coarse(
        &self,
        coarse: &Coarse,
        query: &[f32],
        k: usize,
        among: Option<&[u32]>,
    ) -> Option<Vec<(u32, f32)>> {
        let bounds = coarse.bounds(query, k, among);
        // The k-th best score is at least the worst of any k exact scores.
        let known = bounds.likely.iter().map(|&entry| self.score(entry, query));
        let least = if bounds.likely.len() < k { f32::NEG_INFINITY } else { known.fold(f32::INFINITY, f32::min) };
        // A bound that is not a number, from numbers too large to add, excludes nothing.
        let possible = |upper: f32| upper >= least || upper.is_nan();
        let upper = (0u32..).zip(&bounds.upper).filter(|(_, upper)| possible(**upper));
        let candidates: Vec<u32> = upper.map(|(at, _)| among.map_or(at, |entries| entries[at as usize])).collect();
        let n_bounds = bounds.upper.len();
        coarse.recycle(bounds);
        if candidates.len() > n_bounds / CANDIDATE_SHARE {
            return None;
        }
        Some(self.best_of(&candidates, query, k, 256))
    }

    /// The best of some entries by their exact rows, in batches of `batch_entries`.
    fn best_of(&self, entries: &[u32], query: &[f32], k: usize, batch_entries: usize) -> Vec<(u32, f32)> {
        let columns = self.header.columns();
        let ahead = (kernel::AHEAD / (columns * size_of::<f32>()).max(1)).max(1);
        let push = |mut top: Top, at: usize| {
            if let Some(next) = entries.get(at + ahead) {
                kernel::prefetch(&self.data()[*next as usize * columns..][..columns]);
            }
            top.push(entries[at], self.score(entries[at], query));
            top
        };
        let batches = (0..entries.len()).step_by(batch_entries);
        let score = |top: Top, first: usize| (first..entries.len().min(first + batch_entries)).fold(top, push);
        share(batches, || Top::new(k), score, Top::merge).into_sorted()
    }

    pub(super) fn score(&self, entry: u32, query: &[f32]) -> f32 {
        let columns = self.header.columns();
        let start = entry as usize * columns;
        self.kernel.score(&self.data()[start..start + columns], query)
    }

    /// One row as it is stored: the vector, filled up with zeros.
    pub(super) fn row(&self, entry: u32) -> &[f32] {
        let columns = self.header.columns();
        let start = entry as usize * columns;
        &self.data()[start..start + columns]
    }

    /// The inner product of two stored rows.
    pub(super) fn row_product(&self, one: &[f32], other: &[f32]) -> f32 {
        self.kernel.score(one, other)
    }

    /// BLAKE3 of all rows, as the file's header states it.
    pub(super) fn checksum(&self) -> [u8; 32] {
        self.header.checksum
    }

    fn scan(&self, first: usize, rows: &[f32], queries: &[&[f32]], tops: &mut [Top]) {
        let columns = self.header.columns();
        let mut scores = [[0.0; ROWS]; QUERIES];
        for (block, rows) in rows.chunks(ROWS * columns).enumerate() {
            let first = first + block * ROWS;
            for (queries, tops) in queries.chunks(QUERIES).zip(tops.chunks_mut(QUERIES)) {
                self.kernel.scores(rows, columns, queries, &mut scores);
                for (scores, top) in scores.iter().zip(tops) {
                    // Nearly no block holds anything for the top; one
                    // comparison of all 16 scores at once says so.
                    let threshold = top.threshold();
                    if scores.iter().fold(false, |any, &score| any | (score >= threshold)) {
                        let entries = (first as u32..).take(rows.len() / columns);
                        entries.zip(scores).for_each(|(entry, &score)| top.push(entry, score));
                    }
                }
            }
        }
    }

    pub(super) fn padded(&self, query: &[f32]) -> Result<Vec<f32>, Error> {
        if query.len() != self.dimensions() {
            let (query, index) = (query.len(), self.dimensions());
            let reason = format!(
                "a query of {query} dimensions cannot search vectors of {index}: use the embedder that made the index"
            );
            return Err(bad(&self.origin, reason));
        }
        let mut padded = query.to_vec();
        padded.resize(self.header.columns(), 0.0);
        Ok(padded)
    }

    fn data(&self) -> &[f32] {
        match &self.data {
            VectorData::Owned(data) => data,
            // A map begins at a page, so the numbers after the header are
            // aligned; `read_header` checked that they are whole.
            VectorData::Mapped(map) => kernel::floats(&map[HEADER_BYTES..]).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::index::DenseWriter;

    pub(crate) fn matrix(rows: usize, columns: usize, mut seed: u64) -> Matrix {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let mut matrix = Matrix { columns, data: (0..rows * columns).map(|_| next()).collect() };
        matrix.normalize();
        matrix
    }

    /// Writes an index shard by shard.
    pub(crate) fn write(path: &Path, dimensions: usize, shards: impl IntoIterator<Item = Matrix>) {
        let mut writer = DenseWriter::create(path, dimensions).unwrap();
        shards.into_iter().for_each(|shard| writer.push(&shard).unwrap());
        writer.finish().unwrap();
    }

    /// What a plain loop in double precision finds.
    fn naive(matrix: &Matrix, query: &[f32], k: usize) -> Vec<u32> {
        let score = |row: &[f32]| row.iter().zip(query).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
        let mut scored: Vec<(u32, f64)> = (0u32..).zip(matrix.iter().map(score)).collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        scored.into_iter().take(k).map(|(entry, _)| entry).collect()
    }

    #[test]
    fn recall_is_one_for_any_shape_and_number_of_queries() {
        for (rows, columns) in [(1, 1), (15, 16), (17, 20), (3000, 384), (1000, 100)] {
            let matrix = matrix(rows, columns, 5);
            let index = DensePart::from_matrix(&matrix).unwrap();
            for n_queries in [1, 2, 4, 67] {
                let queries = self::matrix(n_queries, columns, 6);
                let queries: Vec<&[f32]> = queries.iter().collect();
                let found = index.search(&queries, 10).unwrap();
                for (query, found) in queries.iter().zip(found) {
                    let found: Vec<u32> = found.into_iter().map(|(entry, _)| entry).collect();
                    assert_eq!(found, naive(&matrix, query, 10), "{rows}×{columns}, {n_queries} queries");
                }
            }
        }
    }

    #[test]
    fn a_batch_and_any_number_of_threads_give_the_same_bits_as_one_query_alone() {
        let index = DensePart::from_matrix(&matrix(5000, 96, 7)).unwrap();
        let queries = matrix(9, 96, 8);
        let queries: Vec<&[f32]> = queries.iter().collect();
        let batch = index.search(&queries, 20).unwrap();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for (query, expected) in queries.iter().zip(&batch) {
                assert_eq!(&pool.install(|| index.search(&[query], 20)).unwrap()[0], expected);
                let entries: Vec<u32> = expected.iter().map(|hit| hit.0).collect();
                let scores: Vec<f32> = expected.iter().map(|hit| hit.1).collect();
                assert_eq!(index.scores(query, &entries).unwrap(), scores);
            }
        }
    }

    #[test]
    fn the_coarse_copy_changes_no_bit_of_the_result() {
        for (rows, columns) in [(5000, 384), (5000, 40), (7, 20)] {
            let matrix = matrix(rows, columns, 13);
            let index = DensePart::from_matrix(&matrix).unwrap();
            let coarse = Coarse::new(index.data(), index.header.columns()).unwrap();
            let others = self::matrix(5, columns, 14);
            let mut used = 0;
            for query in others.iter().chain([matrix.row(3)]) {
                let expected = index.search(&[query], 5).unwrap().remove(0);
                if let Some(found) = index.search_coarse(&coarse, &index.padded(query).unwrap(), 5, None) {
                    assert_eq!(found, expected, "{rows}×{columns}");
                    used += 1;
                }
                for step in [1, 3, 50] {
                    let some: Vec<u32> = (0..rows as u32).step_by(step).collect();
                    let expected = index.search_among(query, 5, &some).unwrap();
                    if let Some(found) = index.search_coarse(&coarse, &index.padded(query).unwrap(), 5, Some(&some)) {
                        assert_eq!(found, expected, "{rows}×{columns}, one in {step}");
                    }
                }
            }
            assert!(used > 0 || rows < 100, "{rows}×{columns}: the copy was never of use");
        }
    }

    #[test]
    fn a_large_index_makes_the_copy_when_it_has_been_asked_a_few_times() {
        let matrix = matrix(180_000, 96, 15);
        let index = DensePart::from_matrix(&matrix).unwrap();
        let first = index.search(&[matrix.row(5)], 10).unwrap();
        for _ in 0..=COARSE_AFTER {
            assert_eq!(index.search(&[matrix.row(5)], 10).unwrap(), first);
        }
        assert_eq!(index.coarse.get().is_some(), Coarse::is_fast_here());
    }

    #[test]
    fn equal_scores_are_ordered_by_entry() {
        let same = Matrix { columns: 2, data: [1.0, 0.0].repeat(4000) };
        let found = DensePart::from_matrix(&same).unwrap().search(&[&[1.0, 0.0]], 3).unwrap();
        assert_eq!(found, [[(0, 1.0), (1, 1.0), (2, 1.0)]]);
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.dense");
        write(&path, 3, []);
        let index = DensePart::open(&path).unwrap();
        assert_eq!(index.entries(), 0);
        assert_eq!(index.search(&[&[1.0, 0.0, 0.0]], 5).unwrap(), [[]]);
    }

    #[test]
    fn wrong_lengths_and_numbers_that_are_not_finite_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = DenseWriter::create(&folder.path().join("x"), 2).unwrap();
        assert!(writer.push(&Matrix { columns: 3, data: vec![0.0; 3] }).is_err());
        assert!(writer.push(&Matrix { columns: 2, data: vec![f32::NAN, 0.0] }).is_err());
        let index = DensePart::from_matrix(&matrix(3, 2, 1)).unwrap();
        assert!(index.search(&[&[1.0]], 1).unwrap_err().to_string().contains("embedder"));
    }
}
