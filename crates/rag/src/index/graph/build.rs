//! Builds a graph. Equal vectors and settings give equal bytes with any number of threads: nodes are inserted in
//! batches of fixed sizes in a fixed order, and all nodes of a batch see the graph as it was before the batch.

use super::{
    GraphSettings,
    duplicates::find_duplicates,
    file::{GraphContent, GraphFacts},
    growing::{GrowingGraph, NodeBatch, NodeStrategy},
    walk::{FoundNodes, GraphLinks, ProductDistance},
};
use crate::{
    Error,
    index::{DenseIndex, Index, header::bad},
};
use diskann::{
    ANNError,
    graph::{Config, DiskANNIndex, config, search::Knn},
    neighbor::Neighbor,
    provider::DefaultContext,
};
use futures::FutureExt;
use rayon::prelude::*;
use std::{collections::BTreeMap, num::NonZeroUsize, ops::ControlFlow, path::Path, sync::Arc};

/// A batch is at most this large, and at most this share of the nodes before it.
const BATCH_NODES: usize = 256;
const BATCH_SHARE: usize = 4;
/// A link is left out if another one leads to a node that is nearer to its end by this factor (squared distances).
const PRUNING_FACTOR: f32 = 1.2;
/// The squared length of a vector of length 1 is off by no more than this.
const LENGTH_TOLERANCE: f32 = 0.02;

/// What was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltGraph {
    /// Vectors in the graph, with duplicates.
    pub entries: usize,
    /// Entries whose vector an earlier entry has too. They have no links of their own.
    pub duplicates: usize,
    /// Links between nodes.
    pub links: u64,
    /// Nodes that got an additional link, because no path led to them.
    pub reconnected: usize,
}

/// Called after each batch with the number of vectors that are done. `Break` ends the building.
pub type GraphProgress<'a> = &'a mut (dyn FnMut(usize) -> ControlFlow<()> + Send);

/// Builds a graph and writes its file; none if `progress` ended it, and then there is no file.
///
/// It uses as many threads as the current rayon pool has.
///
/// # Errors
/// Settings of zero, or a file that cannot be written.
pub(super) fn build(
    vectors: &Arc<DenseIndex>,
    settings: GraphSettings,
    path: &Path,
    progress: GraphProgress<'_>,
) -> Result<Option<BuiltGraph>, Error> {
    let origin = path.display().to_string();
    let entries = u32::try_from(vectors.entries()).map_err(|error| bad(&origin, error))?;
    let duplicates = find_duplicates(vectors, entries);
    let start = start_node(vectors)?;
    let threads = rayon::current_num_threads().max(1);
    let distance = distance_of(vectors, entries);
    let config = configure(settings, distance, threads).map_err(|error| bad(&origin, error))?;
    let most_links = config.max_degree().get();
    let graph = GrowingGraph::new(Arc::clone(vectors), start, distance, most_links);
    let graph = Arc::new(DiskANNIndex::new(config, graph, NonZeroUsize::new(threads)));
    let nodes = insertion_order(entries, start, &duplicates);
    if progress(duplicates.len() + usize::from(entries > 0)).is_break()
        || insert_all(&graph, &nodes, threads, duplicates.len() + 1, progress)
            .map_err(|error| bad(&origin, error))?
            .is_break()
    {
        return Ok(None);
    }
    let added = reconnect(&graph, nodes).map_err(|error| bad(&origin, error))?;
    let links = |node: u32, list: &mut Vec<u32>| {
        list.extend(graph.provider().links(node));
        list.extend(added.get(&node).into_iter().flatten());
    };
    let reconnected = added.values().map(Vec::len).sum();
    let known = GraphFacts {
        vectors: vectors.checksum(),
        start,
        settings,
        reconnected: reconnected as u32,
        ..GraphFacts::default()
    };
    let dimensions = vectors.dimensions();
    let content = GraphContent { dimensions, entries, facts: known, links: &links, duplicates: &duplicates };
    let facts = content.write(path)?;
    Ok(Some(BuiltGraph { entries: entries as usize, duplicates: duplicates.len(), links: facts.links, reconnected }))
}

fn configure(
    settings: GraphSettings,
    distance: ProductDistance,
    threads: usize,
) -> Result<Config, config::ConfigError> {
    let degree = settings.degree as usize;
    let pruning = match distance {
        ProductDistance::Angular => config::PruneKind::TriangleInequality,
        ProductDistance::Negated => config::PruneKind::Occluding,
    };
    let most_links = config::MaxDegree::default_slack();
    config::Builder::new_with(degree, most_links, settings.candidates as usize, pruning, |builder| {
        builder
            .alpha(PRUNING_FACTOR)
            .max_minibatch_par(threads)
            // With anything else, `diskann` links the first batches in the order in which its threads finish.
            .intra_batch_candidates(config::IntraBatchCandidates::All);
    })
    .build()
}

/// Angular if all vectors have length 1.
fn distance_of(vectors: &DenseIndex, entries: u32) -> ProductDistance {
    let is_unit = |entry: u32| (vectors.score(entry, vectors.row(entry)) - 1.0).abs() <= LENGTH_TOLERANCE;
    match (0..entries).into_par_iter().all(is_unit) {
        true => ProductDistance::Angular,
        false => ProductDistance::Negated,
    }
}

/// The entry nearest to the mean of all; the first of equal ones, which is a node.
fn start_node(vectors: &DenseIndex) -> Result<u32, Error> {
    let mut sum = vec![0f64; vectors.dimensions()];
    for entry in 0..vectors.entries() {
        sum.iter_mut().zip(vectors.vector(entry as u32)).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let count = vectors.entries().max(1) as f64;
    let mean: Vec<f32> = sum.iter().map(|sum| (sum / count) as f32).collect();
    let best = vectors.search(&[&mean], 1)?;
    Ok(best.first().and_then(|best| best.first()).map_or(0, |(entry, _)| *entry))
}

/// All nodes but the start, shuffled: neighbours in a document are similar, and a graph that grows from one region
/// into the next becomes worse.
fn insertion_order(entries: u32, start: u32, duplicates: &[(u32, u32)]) -> Vec<u32> {
    let mut is_duplicate = vec![false; entries as usize];
    duplicates.iter().for_each(|&(_, entry)| is_duplicate[entry as usize] = true);
    let is_inserted = |node: &u32| *node != start && !is_duplicate[*node as usize];
    let mut nodes: Vec<u32> = (0..entries).filter(is_inserted).collect();
    nodes.sort_by_cached_key(|node| mix(u64::from(*node)));
    nodes
}

/// The finalizer of `SplitMix64`, which maps different numbers to different numbers.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Inserts nodes batch by batch. `done` vectors need no inserting.
fn insert_all(
    graph: &Arc<DiskANNIndex<GrowingGraph>>,
    nodes: &[u32],
    threads: usize,
    done: usize,
    progress: GraphProgress<'_>,
) -> Result<ControlFlow<()>, ANNError> {
    let insert = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build();
        let runtime = runtime.map_err(ANNError::new)?;
        let mut inserted = 0;
        while inserted < nodes.len() {
            let size = ((inserted + 1) / BATCH_SHARE).clamp(1, BATCH_NODES).min(nodes.len() - inserted);
            let batch: Arc<[u32]> = nodes[inserted..inserted + size].into();
            let vectors = Arc::new(NodeBatch(Arc::clone(&batch)));
            runtime.block_on(graph.multi_insert::<NodeStrategy, NodeBatch>(
                NodeStrategy,
                &DefaultContext,
                vectors,
                batch,
            ))?;
            inserted += size;
            if progress(done + inserted).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    // A thread of its own, because the caller's may belong to another runtime, where nothing may block.
    let result = std::thread::scope(|scope| scope.spawn(insert).join());
    result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Links every node to which no path leads from the nearest node that a search finds. Says which links must be added
/// to the links of which nodes.
fn reconnect(graph: &DiskANNIndex<GrowingGraph>, mut nodes: Vec<u32>) -> Result<BTreeMap<u32, Vec<u32>>, ANNError> {
    let links = graph.provider();
    let mut added: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut is_reached = vec![false; links.vectors.entries()];
    if let Some(start) = is_reached.get_mut(links.start() as usize) {
        *start = true;
        reach_from(links, links.start(), &mut is_reached);
    }
    nodes.sort_unstable();
    for node in nodes {
        if is_reached[node as usize] {
            continue;
        }
        let nearest = nearest_node(graph, node)?;
        added.entry(nearest).or_default().push(node);
        is_reached[node as usize] = true;
        reach_from(links, node, &mut is_reached);
    }
    Ok(added)
}

fn reach_from(links: &GrowingGraph, node: u32, is_reached: &mut [bool]) {
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        for link in links.links(node) {
            if !std::mem::replace(&mut is_reached[link as usize], true) {
                waiting.push(link);
            }
        }
    }
}

fn nearest_node(graph: &DiskANNIndex<GrowingGraph>, node: u32) -> Result<u32, ANNError> {
    let knn = Knn::new(graph.config.l_build().get(), None)?;
    let mut found: Vec<Neighbor<u32>> = Vec::new();
    let search = graph.search_with(knn, &NodeStrategy, FoundNodes, &DefaultContext, node, &mut found);
    search.now_or_never().transpose()?;
    Ok(found.first().map_or_else(|| graph.provider().start(), |found| *found.id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_a_path_to_them_are_linked_from_near_ones() {
        let vectors = Arc::new(DenseIndex::from_matrix(&crate::index::dense_tests::matrix(60, 16, 3)).unwrap());
        let config = configure(GraphSettings::default(), ProductDistance::Angular, 1).unwrap();
        let growing = GrowingGraph::new(vectors, 7, ProductDistance::Angular, config.max_degree().get());
        let graph = Arc::new(DiskANNIndex::new(config, growing, None));
        // Half of the nodes were never inserted.
        let nodes: Vec<u32> = (0..60).filter(|node| *node != 7).collect();
        let inserted: Vec<u32> = nodes.iter().copied().filter(|node| node % 2 == 0).collect();
        assert!(insert_all(&graph, &inserted, 2, 0, &mut |_| ControlFlow::Continue(())).unwrap().is_continue());
        let added = reconnect(&graph, nodes).unwrap();
        let linked: Vec<u32> = added.values().flatten().copied().collect();
        assert_eq!(linked.len(), 29, "the odd ones but the start");
        assert!(linked.iter().all(|node| node % 2 == 1));
        assert!(added.keys().all(|node| node % 2 == 0 || *node == 7), "they are linked from nodes with a path");
        assert!(added.len() > 5, "not all from the same node");
    }
}
