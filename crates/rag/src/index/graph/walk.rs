//! How `diskann` walks over a graph: it asks for the links of a node, and for the distances of the linked nodes from
//! a query. Nothing here ever waits, so every future is ready when it is polled first.

use super::duplicates::Duplicates;
use crate::index::{DenseIndex, kernel};
use diskann::{
    ANNError, ANNResult,
    graph::{
        AdjacencyList, SearchOutputBuffer,
        glue::{HybridPredicate, SearchAccessor, SearchPostProcess},
    },
    neighbor::Neighbor,
    provider::HasId,
};
use std::future::{Future, ready};

/// How many vectors ahead of the one that is scored memory is asked for.
const VECTORS_AHEAD: usize = 4;

/// Directed links between nodes. Node `i` is entry `i` of a dense index.
pub(super) trait GraphLinks: Send + Sync + 'static {
    /// The node at which every walk begins.
    fn start(&self) -> u32;

    /// Replaces the list by the links of a node.
    fn read_links(&self, node: u32, list: &mut AdjacencyList<u32>) -> Result<(), ANNError>;
}

/// How the inner product of two vectors becomes a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProductDistance {
    /// One minus the product: half of the squared distance of vectors of length 1.
    Angular,
    /// The negated product.
    Negated,
}

impl ProductDistance {
    pub(super) fn of(self, product: f32) -> f32 {
        match self {
            Self::Angular => {
                let distance = 1.0 - product;
                // Below this it is rounding, and distances are divided by each other.
                if distance < 1e-6 { 0.0 } else { distance }
            }
            Self::Negated => -product,
        }
    }
}

/// The entries that a search may find.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassingEntries<'a> {
    /// Ascending.
    pub(super) entries: &'a [u32],
    pub(super) duplicates: Duplicates<'a>,
}

impl PassingEntries<'_> {
    pub(super) fn contains(&self, entry: u32) -> bool {
        self.entries.binary_search(&entry).is_ok()
    }

    /// Whether a node or one of its duplicates passes.
    fn has_node(&self, node: u32) -> bool {
        self.contains(node) || self.duplicates.of(node).any(|entry| self.contains(entry))
    }
}

/// One walk.
#[derive(Debug)]
pub(super) struct GraphWalk<'a, L> {
    links: &'a L,
    vectors: &'a DenseIndex,
    /// Filled up with zeros like a row.
    query: &'a [f32],
    distance: ProductDistance,
    list: AdjacencyList<u32>,
    among: Option<PassingEntries<'a>>,
    /// All scored nodes that pass, if there is a filter.
    passing: Vec<Neighbor<u32>>,
}

impl<'a, L: GraphLinks> GraphWalk<'a, L> {
    pub(super) fn new(links: &'a L, vectors: &'a DenseIndex, query: &'a [f32], distance: ProductDistance) -> Self {
        Self { links, vectors, query, distance, list: AdjacencyList::new(), among: None, passing: Vec::new() }
    }

    /// The walk goes everywhere, and finds only what passes.
    pub(super) fn among(self, among: Option<PassingEntries<'a>>) -> Self {
        Self { among, ..self }
    }

    fn score(&mut self, node: u32) -> f32 {
        let distance = self.distance.of(self.vectors.score(node, self.query));
        if self.among.is_some_and(|among| among.has_node(node)) {
            self.passing.push(Neighbor::new(node, distance));
        }
        distance
    }

    fn expand(
        &mut self,
        nodes: impl Iterator<Item = u32>,
        predicate: &mut impl HybridPredicate<u32>,
        on_neighbors: &mut impl FnMut(u32, f32),
    ) -> ANNResult<()> {
        let mut list = std::mem::take(&mut self.list);
        for node in nodes {
            self.links.read_links(node, &mut list)?;
            list.retain(|linked| predicate.eval_mut(linked));
            list.iter().take(VECTORS_AHEAD).for_each(|&linked| kernel::prefetch(self.vectors.row(linked)));
            for (at, &linked) in list.iter().enumerate() {
                if let Some(&next) = list.get(at + VECTORS_AHEAD) {
                    kernel::prefetch(self.vectors.row(next));
                }
                on_neighbors(linked, self.score(linked));
            }
        }
        self.list = list;
        Ok(())
    }
}

impl<L> HasId for GraphWalk<'_, L> {
    type Id = u32;
}

impl<L: GraphLinks> SearchAccessor for GraphWalk<'_, L> {
    fn starting_points(&self) -> impl Future<Output = ANNResult<Vec<u32>>> + Send {
        ready(Ok(vec![self.links.start()]))
    }

    fn start_point_distances<F>(&mut self, mut f: F) -> impl Future<Output = ANNResult<()>> + Send
    where
        F: FnMut(u32, f32) + Send,
    {
        let start = self.links.start();
        f(start, self.score(start));
        ready(Ok(()))
    }

    fn expand_beam<Itr, P, F>(
        &mut self,
        ids: Itr,
        mut pred: P,
        mut on_neighbors: F,
    ) -> impl Future<Output = ANNResult<()>> + Send
    where
        Itr: Iterator<Item = u32> + Send,
        P: HybridPredicate<u32> + Send + Sync,
        F: FnMut(u32, f32) + Send,
    {
        ready(self.expand(ids, &mut pred, &mut on_neighbors))
    }
}

/// What a walk found: the best nodes, or with a filter all nodes that passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundNodes;

impl<L: GraphLinks, T> SearchPostProcess<GraphWalk<'_, L>, T> for FoundNodes {
    type Error = std::convert::Infallible;

    fn post_process<I, B>(
        &self,
        accessor: &mut GraphWalk<'_, L>,
        _query: T,
        candidates: I,
        output: &mut B,
    ) -> impl Future<Output = Result<usize, Self::Error>> + Send
    where
        I: Iterator<Item = Neighbor<u32>> + Send,
        B: SearchOutputBuffer<u32> + Send + ?Sized,
    {
        let count = match accessor.among {
            None => output.extend(candidates),
            Some(_) => output.extend(accessor.passing.drain(..)),
        };
        ready(Ok(count))
    }
}
