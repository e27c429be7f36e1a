//! A graph while it is built, as `diskann` sees it.

use super::walk::{GraphLinks, GraphWalk, ProductDistance};
use crate::index::DenseIndex;
use diskann::{
    ANNError, ANNResult,
    graph::{
        AdjacencyList,
        glue::{Batch, InsertStrategy, MultiInsertStrategy, PruneAccessor, PruneStrategy, SearchStrategy},
        workingset::View,
    },
    provider::{
        DataProvider, DefaultContext, HasId, NeighborAccessor, NeighborAccessorMut, Neighbors, NoopGuard, SetElement,
    },
};
use diskann_vector::DistanceFunction;
use std::{
    convert::Infallible,
    future::{Future, ready},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// The nodes linked so far.
///
/// A row for each node: the number of its links, then the links. `diskann` never writes a row that another thread
/// reads or writes at the same time, so that every thread sees whole rows.
#[derive(Debug)]
pub(super) struct GrowingGraph {
    pub(super) vectors: Arc<DenseIndex>,
    start: u32,
    distance: ProductDistance,
    width: usize,
    rows: Vec<AtomicU32>,
}

impl GrowingGraph {
    /// A graph without links. `most_links` is the largest number of links that a node can have.
    pub(super) fn new(vectors: Arc<DenseIndex>, start: u32, distance: ProductDistance, most_links: usize) -> Self {
        let width = most_links + 1;
        let mut rows = Vec::new();
        rows.resize_with(crate::index::Index::entries(&*vectors) * width, AtomicU32::default);
        Self { vectors, start, distance, width, rows }
    }

    /// The links of a node.
    pub(super) fn links(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let row = self.row(node);
        let count = row[0].load(Ordering::Relaxed) as usize;
        row[1..=count].iter().map(|link| link.load(Ordering::Relaxed))
    }

    fn row(&self, node: u32) -> &[AtomicU32] {
        let first = node as usize * self.width;
        &self.rows[first..first + self.width]
    }

    /// Writes links into a row from a place on. Those for which there is no room are left out.
    fn write(&self, node: u32, place: usize, links: &[u32]) {
        let row = self.row(node);
        let mut count = place;
        for (slot, link) in row[1 + place..].iter().zip(links) {
            slot.store(*link, Ordering::Relaxed);
            count += 1;
        }
        row[0].store(count as u32, Ordering::Relaxed);
    }
}

impl GraphLinks for GrowingGraph {
    fn start(&self) -> u32 {
        self.start
    }

    fn read_links(&self, node: u32, list: &mut AdjacencyList<u32>) -> Result<(), ANNError> {
        let mut count = 0;
        let mut places = list.resize(self.width);
        for (place, link) in places.iter_mut().zip(self.links(node)) {
            *place = link;
            count += 1;
        }
        places.finish(count);
        Ok(())
    }
}

impl DataProvider for GrowingGraph {
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

/// The vector of a node is there before the node is inserted.
impl SetElement<u32> for GrowingGraph {
    type SetError = ANNError;

    fn set_element(
        &self,
        _context: &DefaultContext,
        _id: &u32,
        element: u32,
    ) -> impl Future<Output = Result<NoopGuard<u32>, ANNError>> + Send {
        ready(Ok(NoopGuard::new(element)))
    }
}

/// Nodes that are inserted together.
#[derive(Debug)]
pub(super) struct NodeBatch(pub(super) Arc<[u32]>);

impl Batch for NodeBatch {
    type Element<'a> = u32;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, i: usize) -> u32 {
        self.0[i]
    }
}

/// How nodes are searched and linked: by the exact vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeStrategy;

impl<'a> SearchStrategy<'a, GrowingGraph, u32> for NodeStrategy {
    type SearchAccessorError = Infallible;
    type SearchAccessor = GraphWalk<'a, GrowingGraph>;

    fn search_accessor(
        &'a self,
        provider: &'a GrowingGraph,
        _context: &'a DefaultContext,
        node: u32,
    ) -> Result<Self::SearchAccessor, Infallible> {
        Ok(GraphWalk::new(provider, &provider.vectors, provider.vectors.row(node), provider.distance))
    }
}

impl<'a> InsertStrategy<'a, GrowingGraph, u32> for NodeStrategy {
    type SearchAccessor = GraphWalk<'a, GrowingGraph>;
    type SearchAccessorError = Infallible;
    type PruneStrategy = Self;

    fn insert_search_accessor(
        &'a self,
        provider: &'a GrowingGraph,
        context: &'a DefaultContext,
        node: u32,
    ) -> Result<Self::SearchAccessor, Infallible> {
        self.search_accessor(provider, context, node)
    }

    fn prune_strategy(&self) -> Self {
        *self
    }
}

impl PruneStrategy<GrowingGraph> for NodeStrategy {
    type PruneAccessor<'a> = LinkPruner<'a>;
    type PruneAccessorError = Infallible;

    fn prune_accessor<'a>(
        &'a self,
        provider: &'a GrowingGraph,
        _context: &'a DefaultContext,
        _capacity: usize,
    ) -> Result<LinkPruner<'a>, Infallible> {
        Ok(LinkPruner(provider))
    }
}

impl MultiInsertStrategy<GrowingGraph, NodeBatch> for NodeStrategy {
    type Seed = ();
    type FinishError = ANNError;
    type PruneStrategy = Self;
    type InsertStrategy = Self;

    fn insert_strategy(&self) -> Self {
        *self
    }

    fn finish<Itr>(
        &self,
        _provider: &GrowingGraph,
        _context: &DefaultContext,
        _batch: &Arc<NodeBatch>,
        _ids: Itr,
    ) -> impl Future<Output = Result<(), ANNError>> + Send
    where
        Itr: ExactSizeIterator<Item = u32> + Send,
    {
        ready(Ok(()))
    }

    fn seeded_prune_accessor<'a>(
        &'a self,
        provider: &'a GrowingGraph,
        _context: &'a DefaultContext,
        _seed: &'a (),
        _capacity: usize,
    ) -> ANNResult<LinkPruner<'a>> {
        Ok(LinkPruner(provider))
    }
}

/// Reads and writes links, and gives the vectors that decide which of them stay.
#[derive(Debug)]
pub(super) struct LinkPruner<'a>(&'a GrowingGraph);

impl HasId for LinkPruner<'_> {
    type Id = u32;
}

impl PruneAccessor for LinkPruner<'_> {
    type Neighbors<'a>
        = Neighbors<'a, Self>
    where
        Self: 'a;
    type ElementRef<'a> = &'a [f32];
    type View<'a>
        = NodeVectors<'a>
    where
        Self: 'a;
    type Distance<'a>
        = NodeVectors<'a>
    where
        Self: 'a;

    fn neighbors(&mut self) -> Neighbors<'_, Self> {
        Neighbors(self)
    }

    fn fill<Itr>(&mut self, _itr: Itr) -> impl Future<Output = ANNResult<(NodeVectors<'_>, NodeVectors<'_>)>> + Send
    where
        Itr: ExactSizeIterator<Item = u32> + Clone + Send + Sync,
    {
        ready(Ok((NodeVectors(self.0), NodeVectors(self.0))))
    }
}

impl NeighborAccessor for LinkPruner<'_> {
    fn get_neighbors(
        &mut self,
        id: u32,
        neighbors: &mut AdjacencyList<u32>,
    ) -> impl Future<Output = ANNResult<()>> + Send {
        ready(self.0.read_links(id, neighbors))
    }
}

impl NeighborAccessorMut for LinkPruner<'_> {
    fn set_neighbors(&mut self, id: u32, neighbors: &[u32]) -> impl Future<Output = ANNResult<()>> + Send {
        self.0.write(id, 0, neighbors);
        ready(Ok(()))
    }

    fn append_vector(&mut self, id: u32, neighbors: &[u32]) -> impl Future<Output = ANNResult<()>> + Send {
        let count = self.0.row(id)[0].load(Ordering::Relaxed);
        self.0.write(id, count as usize, neighbors);
        ready(Ok(()))
    }
}

/// The vectors of all nodes, and the distances between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeVectors<'a>(&'a GrowingGraph);

impl View<u32> for NodeVectors<'_> {
    type ElementRef<'a> = &'a [f32];
    type Element<'a>
        = &'a [f32]
    where
        Self: 'a;

    fn get(&self, id: u32) -> Option<&[f32]> {
        Some(self.0.vectors.row(id))
    }
}

impl DistanceFunction<&[f32], &[f32]> for NodeVectors<'_> {
    fn evaluate_similarity(&self, x: &[f32], y: &[f32]) -> f32 {
        self.0.distance.of(self.0.vectors.row_product(x, y))
    }
}
