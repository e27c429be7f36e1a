//! Approximate search over vectors: a graph that links every vector with near ones, and is searched by walking from
//! link to link towards the query.
//!
//! When to use it: for hundreds of thousands of vectors, or many questions a second. Where the exact search of
//! [`DenseIndex`] takes no longer, it is used instead, and misses nothing.
//!
//! The graph is that of DiskANN (one layer, unlike HNSW; Subramanya et al., NeurIPS 2019), built by the crate
//! `diskann`. Its file holds links only, and is described in [`file`]. The vectors are read from the dense index it was
//! made from, so scores are exact: only which entries are found is approximate.

mod build;
mod duplicates;
mod file;
mod growing;
mod walk;

pub use build::{BuiltGraph, GraphProgress};

use super::{DenseIndex, Index, MadeFrom, header::bad, kernel, kind::only, top::Top};
use crate::Error;
use diskann::{
    ANNError,
    graph::{AdjacencyList, DiskANNIndex, config, glue::SearchStrategy, search::Knn},
    neighbor::Neighbor,
    provider::{DataProvider, DefaultContext, NoopGuard},
};
use duplicates::Duplicates;
use file::{FileBytes, GraphFile};
use futures::FutureExt;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    convert::Infallible,
    fs::File,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};
use walk::{FoundNodes, GraphLinks, GraphWalk, PassingEntries, ProductDistance};

/// To read this many vectors in order takes about as long as a walk takes for each of its `ef` candidates, and misses
/// nothing. Measured with 384 dimensions and 100,000 vectors.
const VECTORS_PER_CANDIDATE: usize = 100;
/// With a filter that lets less than this share of the entries pass, they are all scored.
const PASSING_SHARE: f64 = 0.1;
/// A filter raises `ef` at most by this factor.
const MOST_CANDIDATES: f64 = 5.0;
/// The share of the nodes near a query that pass must be at least this part of the share of all entries. Otherwise the
/// best may be where the walk did not go.
const PASSING_NEARBY: f64 = 0.8;

/// How a graph is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphSettings {
    /// About how many links a node has; the `M` of HNSW is half of it. More links find more, and take more memory
    /// (about 4.3 bytes each) and time. Default 32.
    pub degree: u32,
    /// How many near nodes are kept while the links of a new node are searched; the `ef_construction` of HNSW.
    /// Default 128.
    pub candidates: u32,
}

impl Default for GraphSettings {
    fn default() -> Self {
        Self { degree: 32, candidates: 128 }
    }
}

/// A graph over the vectors of a dense index.
#[derive(Debug)]
pub struct GraphIndex {
    graph: DiskANNIndex<StoredGraph>,
}

impl Index for GraphIndex {
    const NAME: &'static str = "hnsw";
    const TITLE: &'static str = "graph index";
    const VERSION: u32 = 1;
    const MADE_FROM: MadeFrom = MadeFrom::DenseIndex;

    fn open_files(files: &[PathBuf]) -> Result<Self, Error> {
        Self::open(only(files)?)
    }

    fn verify(&self) -> Result<(), Error> {
        self.file().verify()
    }

    fn verify_bytes(bytes: &[u8]) -> Result<(), Error> {
        Self::from_bytes(bytes.to_vec()).map(drop)
    }

    fn entries(&self) -> usize {
        self.file().entries()
    }
}

impl GraphIndex {
    /// Builds the graph of a dense index and writes its file; none if `progress` ended it, and then there is no file.
    /// Equal vectors and settings give equal bytes. Uses as many threads as the current rayon pool has.
    ///
    /// # Errors
    /// Settings of zero, or a file that cannot be written.
    pub fn build(
        vectors: &Arc<DenseIndex>,
        settings: GraphSettings,
        path: &Path,
        progress: GraphProgress<'_>,
    ) -> Result<Option<BuiltGraph>, Error> {
        build::build(vectors, settings, path, progress)
    }

    /// Maps a file into memory. Checks the header and the length; [`verify`](Index::verify) reads all of it.
    ///
    /// # Errors
    /// A file that is missing or is not a complete graph index of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let origin = path.display().to_string();
        let file = File::open(path).map_err(|error| bad(&origin, error))?;
        let map = kernel::map(&file, true).map_err(|error| bad(&origin, error))?;
        Self::new(GraphFile::new(origin, FileBytes::Mapped(map))?)
    }

    /// Reads the bytes of a file that is not on this machine's disk, and verifies them.
    ///
    /// # Errors
    /// Bytes that are not a complete, undamaged graph index of this version.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        let index = Self::new(GraphFile::new("graph index".to_owned(), FileBytes::Owned(bytes))?)?;
        index.verify()?;
        Ok(index)
    }

    fn new(file: GraphFile) -> Result<Self, Error> {
        let origin = file.origin.clone();
        // A search needs no settings, but room for the lists of links.
        let degree = file.facts.settings.degree as usize;
        let most_links = config::MaxDegree::default_slack();
        let config = config::Builder::new(degree, most_links, 1, config::PruneKind::TriangleInequality).build();
        let config = config.map_err(|error| bad(&origin, error))?;
        let threads = NonZeroUsize::new(rayon::current_num_threads());
        Ok(Self { graph: DiskANNIndex::new(config, StoredGraph(file), threads) })
    }

    /// The length of a vector.
    pub fn dimensions(&self) -> usize {
        self.file().header.dimensions as usize
    }

    /// How it was built.
    pub fn settings(&self) -> GraphSettings {
        self.file().facts.settings
    }

    /// Fails unless these are the vectors that it was made from.
    ///
    /// # Errors
    /// If they are not.
    pub fn check_vectors(&self, vectors: &DenseIndex) -> Result<(), Error> {
        if self.file().facts.vectors != vectors.checksum() {
            let reason = "it was made from other vectors than those of this dense index; delete it and run again";
            return Err(bad(&self.file().origin, reason));
        }
        Ok(())
    }

    /// For each query about the best `k` entries with their exact inner products, best first, equal ones by entry.
    /// More candidates `ef` find more, and take longer; at least `k` are used. Several queries are shared among the
    /// threads of the current rayon pool.
    ///
    /// # Errors
    /// Vectors that it was not made from, a query of another length, or a damaged file.
    pub fn search(
        &self,
        vectors: &DenseIndex,
        queries: &[&[f32]],
        k: usize,
        ef: usize,
    ) -> Result<Vec<Vec<(u32, f32)>>, Error> {
        self.check_vectors(vectors)?;
        let ef = ef.max(k);
        if is_read_as_fast(ef, self.entries()) {
            return vectors.search(queries, k);
        }
        self.walk_for_each(vectors, queries, k, ef)
    }

    /// About the best `k` of some entries, in ascending order, with their exact inner products, best first, equal
    /// ones by entry. If few pass, or those that pass are far from the query, all of them are scored.
    ///
    /// # Errors
    /// Vectors that it was not made from, a query of another length, or a damaged file.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn search_among(
        &self,
        vectors: &DenseIndex,
        query: &[f32],
        k: usize,
        ef: usize,
        entries: &[u32],
    ) -> Result<Vec<(u32, f32)>, Error> {
        self.check_vectors(vectors)?;
        let share = entries.len() as f64 / self.entries().max(1) as f64;
        let ef = (ef.max(k) as f64 * (1.0 / share).clamp(1.0, MOST_CANDIDATES)) as usize;
        if share >= PASSING_SHARE
            && !is_read_as_fast(ef, entries.len())
            && let Some(found) = self.walk_among(vectors, query, k, ef, entries)?
        {
            return Ok(found);
        }
        vectors.search_among(query, k, entries)
    }

    fn walk_for_each(
        &self,
        vectors: &DenseIndex,
        queries: &[&[f32]],
        k: usize,
        ef: usize,
    ) -> Result<Vec<Vec<(u32, f32)>>, Error> {
        let walk = |query: &[f32]| Ok(self.walk(vectors, query, k, ef, None)?.entries);
        match queries {
            [query] => Ok(vec![walk(query)?]),
            _ => queries.par_iter().map(|query| walk(query)).collect(),
        }
    }

    /// None if too few of the entries near the query pass.
    fn walk_among(
        &self,
        vectors: &DenseIndex,
        query: &[f32],
        k: usize,
        ef: usize,
        entries: &[u32],
    ) -> Result<Option<Vec<(u32, f32)>>, Error> {
        let among = PassingEntries { entries, duplicates: self.duplicates() };
        let found = self.walk(vectors, query, k, ef, Some(among))?;
        let share = entries.len() as f64 / self.entries().max(1) as f64;
        let is_enough = found.passing_nodes as f64 >= PASSING_NEARBY * share * found.scored as f64;
        Ok((is_enough && found.entries.len() == k.min(entries.len())).then_some(found.entries))
    }

    fn walk(
        &self,
        vectors: &DenseIndex,
        query: &[f32],
        k: usize,
        ef: usize,
        among: Option<PassingEntries<'_>>,
    ) -> Result<FoundEntries, Error> {
        let origin = &self.file().origin;
        let query = vectors.padded(query)?;
        if k == 0 || self.entries() == 0 {
            return Ok(FoundEntries::default());
        }
        let knn = Knn::new(ef.min(self.entries()), None).map_err(|error| bad(origin, error))?;
        let strategy = QueryStrategy { vectors, among };
        let mut found: Vec<Neighbor<u32>> = Vec::new();
        let query = query.as_slice();
        let search = self.graph.search_with(knn, &strategy, FoundNodes, &DefaultContext, query, &mut found);
        let scored = match search.now_or_never() {
            Some(Ok(statistics)) => statistics.cmps as usize,
            Some(Err(error)) => return Err(bad(origin, error)),
            None => return Err(bad(origin, "the walk over its links did not end")),
        };
        let mut top = Top::new(k);
        let duplicates = self.duplicates();
        for (node, distance) in found.iter().map(|found| found.as_tuple()) {
            let same = duplicates.of(node);
            let entries = std::iter::once(node).chain(same);
            let passing = entries.filter(|entry| among.is_none_or(|among| among.contains(*entry)));
            // Only a damaged file has others.
            let passing = passing.filter(|entry| (*entry as usize) < self.entries());
            passing.for_each(|entry| top.push(entry, -distance));
        }
        Ok(FoundEntries { entries: top.into_sorted(), scored, passing_nodes: found.len() })
    }

    fn duplicates(&self) -> Duplicates<'_> {
        Duplicates(self.file().duplicates())
    }

    fn file(&self) -> &GraphFile {
        &self.graph.provider().0
    }
}

/// Whether to score vectors in order takes no longer than a walk.
fn is_read_as_fast(ef: usize, vectors: usize) -> bool {
    vectors <= ef.saturating_mul(VECTORS_PER_CANDIDATE)
}

/// What a walk found.
#[derive(Debug, Default)]
struct FoundEntries {
    entries: Vec<(u32, f32)>,
    /// How many nodes were compared with the query, and how many of them passed the filter.
    scored: usize,
    passing_nodes: usize,
}

/// The links of a file, as `diskann` reads them.
#[derive(Debug)]
struct StoredGraph(GraphFile);

impl GraphLinks for StoredGraph {
    fn start(&self) -> u32 {
        self.0.facts.start
    }

    fn read_links(&self, node: u32, list: &mut AdjacencyList<u32>) -> Result<(), ANNError> {
        let damaged = || ANNError::message("a link leads to a node that does not exist: delete it and run again");
        let links = self.0.links(node).ok_or_else(damaged)?;
        let entries = self.0.header.vectors as u32;
        let mut places = list.resize(links.len());
        let mut is_sound = true;
        for (place, link) in places.iter_mut().zip(links) {
            *place = u32::from_le_bytes(*link);
            is_sound &= *place < entries;
        }
        places.finish(links.len());
        if is_sound { Ok(()) } else { Err(damaged()) }
    }
}

impl DataProvider for StoredGraph {
    type Context = DefaultContext;
    type InternalId = u32;
    type ExternalId = u32;
    type Error = ANNError;
    type Guard = NoopGuard<u32>;

    fn to_internal_id(&self, _context: &DefaultContext, gid: &u32) -> Result<u32, ANNError> {
        Ok(*gid)
    }

    fn to_external_id(&self, _context: &DefaultContext, id: u32) -> Result<u32, ANNError> {
        Ok(id)
    }
}

/// Searches the vectors of a dense index.
#[derive(Debug)]
struct QueryStrategy<'v> {
    vectors: &'v DenseIndex,
    among: Option<PassingEntries<'v>>,
}

impl<'a> SearchStrategy<'a, StoredGraph, &'a [f32]> for QueryStrategy<'_> {
    type SearchAccessorError = Infallible;
    type SearchAccessor = GraphWalk<'a, StoredGraph>;

    fn search_accessor(
        &'a self,
        provider: &'a StoredGraph,
        _context: &'a DefaultContext,
        query: &'a [f32],
    ) -> Result<Self::SearchAccessor, Infallible> {
        let walk = GraphWalk::new(provider, self.vectors, query, ProductDistance::Negated);
        Ok(walk.among(self.among))
    }
}

#[cfg(test)]
mod tests;
