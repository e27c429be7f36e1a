//! The token vectors of chunks, which late interaction compares with the words
//! of a question. They are made once for a chunk table and a model; see
//! [`token_file`](super::token_file) for the file.
//!
//! Files are mapped, and only the chunks that are asked for are read. A chunk
//! is compared with its checksum when it is read for the first time. Products
//! are added as integers, so a score has the same bits on every machine.
//!
//! Against the same vectors in float32, with all-MiniLM-L6-v2 and 20
//! candidates, scores differ by 0.015 % in the mean and 0.7 % at most:
//! `examples/late_interaction.rs` measures that, and how often it changes an
//! order.

use super::{
    Index, MadeFrom,
    header::{HEADER_BYTES, IndexHeader, bad},
    kernel::{self, Kernel},
    token_file::{self, QuestionTokens, TokenBlock, checksum},
};
use crate::Error;
use memmap2::Mmap;
use models::Matrix;
use rayon::prelude::*;
use std::{
    fs::File,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Token vectors in a fixed order: entry `i` belongs to the `i`-th searchable
/// chunk. Clones share them.
#[derive(Debug, Clone)]
pub struct TokenIndex {
    shards: Arc<[Shard]>,
    kernel: Kernel,
}

/// The chunks of one file.
#[derive(Debug)]
struct Shard {
    origin: String,
    header: IndexHeader,
    data: TokenData,
    /// The entry of its first chunk in the index.
    first: usize,
    chunks: Vec<StoredChunk>,
}

#[derive(Debug)]
struct StoredChunk {
    /// Its first vector in the file.
    start: usize,
    vectors: usize,
    checksum: [u8; 8],
    /// Whether its checksum was compared.
    is_checked: AtomicBool,
}

#[derive(Debug)]
enum TokenData {
    Mapped(Mmap),
    #[cfg(test)]
    Owned(Vec<u8>),
}

impl TokenData {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            #[cfg(test)]
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Index for TokenIndex {
    const NAME: &'static str = "tokens";
    const TITLE: &'static str = "token vectors of the chunks";
    const VERSION: u32 = 1;
    const MADE_FROM: MadeFrom = MadeFrom::TokenVectors;

    /// Maps the files: together, and in this order, they are the index. Checks
    /// headers and lengths; vectors are checked when they are read.
    ///
    /// # Errors
    /// A file that is missing or is not complete or of this version, or files
    /// of different models.
    fn open_files(files: &[PathBuf]) -> Result<Self, Error> {
        let open = |path: &PathBuf| {
            let origin = path.display().to_string();
            let map = File::open(path).and_then(|file| kernel::map(&file, false));
            Ok((origin.clone(), TokenData::Mapped(map.map_err(|error| bad(&origin, error))?)))
        };
        Self::new(files.iter().map(open).collect::<Result<_, Error>>()?)
    }

    fn verify(&self) -> Result<(), Error> {
        let is_damaged =
            |shard: &&Shard| *blake3::hash(&shard.data.bytes()[HEADER_BYTES..]).as_bytes() != shard.header.checksum;
        self.shards.iter().find(is_damaged).map_or(Ok(()), |shard| Err(shard.damaged("its content")))
    }

    fn verify_bytes(bytes: &[u8]) -> Result<(), Error> {
        TokenBlock::from_bytes(bytes).map(drop)
    }

    fn entries(&self) -> usize {
        self.shards.last().map_or(0, |shard| shard.first + shard.chunks.len())
    }
}

impl TokenIndex {
    /// An index in memory.
    ///
    /// # Errors
    /// Vectors that no file can hold; see [`TokenBlock::push`].
    #[cfg(test)]
    pub(crate) fn from_matrices(chunks: &[Matrix]) -> Result<Self, Error> {
        let mut block = TokenBlock::default();
        block.push(chunks)?;
        Self::new(vec![("token index in memory".to_owned(), TokenData::Owned(block.to_bytes()))])
    }

    fn new(files: Vec<(String, TokenData)>) -> Result<Self, Error> {
        let mut shards: Vec<Shard> = Vec::with_capacity(files.len());
        let (mut first, mut dimensions) = (0, 0);
        for (origin, data) in files {
            let shard = Shard::read(origin, data, first)?;
            first += shard.chunks.len();
            if shard.header.vectors > 0 {
                let new = shard.header.dimensions;
                if dimensions != 0 && dimensions != new {
                    let reason = format!("vectors of {new} dimensions beside vectors of {dimensions}");
                    return Err(bad(&shard.origin, reason));
                }
                dimensions = new;
            }
            shards.push(shard);
        }
        Ok(Self { shards: shards.into(), kernel: Kernel::detect() })
    }

    /// For each list of entries the best of their scores: the sum, over the
    /// rows of the question, of the largest product with any vector of the
    /// chunk. None where no entry has a vector, or the question has none. Uses
    /// the threads of the current rayon pool.
    ///
    /// # Errors
    /// If the question's vectors are of another length, there is no such
    /// entry, or an entry is damaged.
    pub fn best_scores(&self, question: &Matrix, lists: &[Vec<u32>]) -> Result<Vec<Option<f32>>, Error> {
        let tokens = QuestionTokens::new(question)?;
        if tokens.scales.is_empty() {
            return Ok(vec![None; lists.len()]);
        }
        let best = |entries: &Vec<u32>| {
            let scores = entries.iter().map(|entry| self.score(&tokens, *entry)).collect::<Result<Vec<_>, Error>>()?;
            Ok(scores.into_iter().flatten().reduce(f32::max))
        };
        lists.par_iter().map(best).collect()
    }

    fn score(&self, tokens: &QuestionTokens, entry: u32) -> Result<Option<f32>, Error> {
        let entry = entry as usize;
        // Shards without chunks begin at the same entry as the next shard.
        let shard = self.shards.partition_point(|shard| shard.first <= entry).checked_sub(1);
        let shard = shard.and_then(|i| self.shards.get(i));
        let found = shard.and_then(|shard| Some((shard, shard.chunks.get(entry - shard.first)?)));
        let Some((shard, chunk)) = found else {
            let reason = format!("there is no entry {entry} among {}: it was made from other chunks", self.entries());
            return Err(bad("token index", reason));
        };
        if chunk.vectors == 0 {
            return Ok(None);
        }
        if tokens.columns != shard.header.dimensions as usize {
            let (question, index) = (tokens.columns, shard.header.dimensions);
            let reason = format!(
                "a question of {question} dimensions cannot be compared with vectors of {index}: use the embedder \
                 that made the index"
            );
            return Err(bad(&shard.origin, reason));
        }
        let mut best = vec![f32::NEG_INFINITY; tokens.scales.len()];
        let rows = shard.rows(entry - shard.first, chunk)?;
        self.kernel.best_of_tokens(&tokens.values, tokens.columns, rows, &mut best);
        Ok(Some(best.iter().zip(&tokens.scales).map(|(best, scale)| best * scale).sum()))
    }
}

impl Shard {
    fn read(origin: String, data: TokenData, first: usize) -> Result<Self, Error> {
        let header = token_file::read_header(data.bytes(), &origin)?;
        let trailer = HEADER_BYTES + header.vectors as usize * header.stride();
        let mut start = 0;
        let chunk = |(vectors, checksum): (u32, [u8; 8])| {
            let vectors = vectors as usize;
            start += vectors;
            StoredChunk { start: start - vectors, vectors, checksum, is_checked: AtomicBool::new(false) }
        };
        let chunks: Vec<StoredChunk> = token_file::chunks(&data.bytes()[trailer..]).map(chunk).collect();
        let shard = Self { origin, header, data, first, chunks };
        if start as u64 != header.vectors {
            return Err(shard.damaged("the number of its chunks' vectors"));
        }
        Ok(shard)
    }

    /// The vectors of a chunk, checked if that was not done yet.
    fn rows(&self, number: usize, chunk: &StoredChunk) -> Result<&[u8], Error> {
        let at = |vector: usize| HEADER_BYTES + vector * self.header.stride();
        let rows = &self.data.bytes()[at(chunk.start)..at(chunk.start + chunk.vectors)];
        if !chunk.is_checked.load(Ordering::Relaxed) {
            if checksum(rows) != chunk.checksum {
                return Err(self.damaged(&format!("chunk {number}")));
            }
            chunk.is_checked.store(true, Ordering::Relaxed);
        }
        Ok(rows)
    }

    fn damaged(&self, part: &str) -> Error {
        bad(&self.origin, format!("{part} does not match its checksum; delete the file and run again"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::index::{TokenWriter, dense_tests::matrix};
    use std::path::Path;

    fn chunks() -> Vec<Matrix> {
        [3, 1, 0, 40, 7].iter().zip(1..).map(|(rows, seed)| matrix(*rows, 96, seed)).collect()
    }

    /// The score of a question with a chunk's vectors as they were given.
    pub(crate) fn exact_score(question: &Matrix, chunk: &Matrix) -> Option<f32> {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let best = |word: &[f32]| chunk.iter().map(|other| dot(word, other)).fold(f64::NEG_INFINITY, f64::max);
        let any = question.rows() > 0 && chunk.rows() > 0;
        any.then(|| question.iter().map(best).sum::<f64>() as f32)
    }

    fn each(n: u32) -> Vec<Vec<u32>> {
        (0..n).map(|entry| vec![entry]).collect()
    }

    #[test]
    fn stored_scores_agree_with_the_vectors_that_were_given() {
        let chunks = chunks();
        let index = TokenIndex::from_matrices(&chunks).unwrap();
        assert_eq!(index.entries(), 5);
        for seed in 20..40 {
            let question = matrix(12, 96, seed);
            let found = index.best_scores(&question, &each(5)).unwrap();
            for (found, chunk) in found.iter().zip(&chunks) {
                match (found, exact_score(&question, chunk)) {
                    (Some(found), Some(exact)) => {
                        // A hundredth for each word is ten times what was seen.
                        assert!((found - exact).abs() < 0.01 * 12.0, "{found} is not {exact}");
                    }
                    (found, exact) => assert_eq!(*found, exact),
                }
            }
        }
    }

    #[test]
    fn a_passage_has_the_best_score_of_its_chunks_and_none_without_vectors() {
        let index = TokenIndex::from_matrices(&chunks()).unwrap();
        let question = matrix(4, 96, 9);
        let alone = index.best_scores(&question, &each(5)).unwrap();
        let lists = [vec![0, 3, 2], vec![2], vec![]];
        let found = index.best_scores(&question, &lists).unwrap();
        let best = alone[0].into_iter().chain(alone[3]).reduce(f32::max);
        assert_eq!(found, [best, None, None]);
        assert_eq!(index.best_scores(&Matrix { columns: 96, data: vec![] }, &lists).unwrap(), [None; 3]);
    }

    #[test]
    fn files_written_block_by_block_are_the_index_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "none", "b"].map(|name| folder.path().join(format!("{name}.tokens")));
        let chunks = chunks();
        let write = |path: &Path, blocks: &[&[Matrix]]| {
            let mut writer = TokenWriter::create(path).unwrap();
            for matrices in blocks {
                let mut block = TokenBlock::default();
                block.push(matrices).unwrap();
                assert_eq!(TokenBlock::from_bytes(&block.to_bytes()).unwrap(), block);
                writer.push(&block).unwrap();
            }
            writer.finish().unwrap()
        };
        assert_eq!(write(&paths[0], &[&chunks[..1], &chunks[1..3]]), 3);
        assert_eq!(write(&paths[1], &[]), 0);
        assert_eq!(write(&paths[2], &[&chunks[3..]]), 2);
        let index = TokenIndex::open_files(&paths).unwrap();
        index.verify().unwrap();
        let whole = TokenIndex::from_matrices(&chunks).unwrap();
        let question = matrix(5, 96, 77);
        assert_eq!(index.entries(), 5);
        assert_eq!(index.best_scores(&question, &each(5)).unwrap(), whole.best_scores(&question, &each(5)).unwrap());
        assert!(index.best_scores(&question, &[vec![5]]).unwrap_err().to_string().contains("other chunks"));
        let other = matrix(5, 64, 77);
        assert!(index.best_scores(&other, &each(1)).unwrap_err().to_string().contains("the embedder"));
    }

    #[test]
    fn damage_is_found_where_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tokens");
        let mut block = TokenBlock::default();
        block.push(&chunks()).unwrap();
        let good = block.to_bytes();
        let open = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
            TokenIndex::open_files(std::slice::from_ref(&path))
        };
        let reason = |change: &dyn Fn(&mut Vec<u8>)| open(change).unwrap_err().to_string();
        assert!(reason(&|bytes| bytes.truncate(20)).contains("too short"));
        assert!(reason(&|bytes| bytes[0] = b'x').contains("not a token index"));
        assert!(reason(&|bytes| bytes[8] = 9).contains("format 9"));
        assert!(reason(&|bytes| bytes.truncate(100)).contains("cut off"));
        assert!(reason(&|bytes| bytes[15] = 9).contains("cut off"));
        let counts = good.len() - 5 * token_file::CHUNK_BYTES;
        assert!(reason(&|bytes| bytes[counts] ^= 1).contains("checksum"));
        // One byte of chunk 1: the others can still be read.
        let index = open(&|bytes| bytes[HEADER_BYTES + 3 * 100 + 50] ^= 1).unwrap();
        let question = matrix(4, 96, 9);
        assert!(index.best_scores(&question, &[vec![0], vec![3]]).is_ok());
        let error = index.best_scores(&question, &[vec![1]]).unwrap_err().to_string();
        assert!(error.contains("chunk 1 does not match its checksum"), "{error}");
        assert!(index.verify().is_err());
        assert!(TokenBlock::from_bytes(&std::fs::read(&path).unwrap()).is_err());
    }

    #[test]
    fn vectors_that_cannot_be_kept_are_refused() {
        let mut block = TokenBlock::default();
        let wrong = |columns: usize, data: Vec<f32>| Matrix { columns, data };
        assert!(block.push(&[wrong(2, vec![1.0, f32::NAN])]).is_err());
        assert!(block.push(&[wrong(8193, vec![0.0; 8193])]).unwrap_err().to_string().contains("8192"));
        let mut block = TokenBlock::default();
        block.push(&[wrong(2, vec![0.0, 0.0])]).unwrap();
        assert!(block.push(&[wrong(3, vec![1.0; 3])]).unwrap_err().to_string().contains("after vectors of 2"));
        // A vector of zeros is near to nothing.
        let index = TokenIndex::from_matrices(&[wrong(2, vec![0.0, 0.0])]).unwrap();
        assert_eq!(index.best_scores(&wrong(2, vec![1.0, 0.0]), &each(1)).unwrap(), [Some(0.0)]);
    }
}
