//! The graph: what it finds, its file, filters, and vectors that are equal.

use super::*;
use models::Matrix;
use std::ops::ControlFlow;

/// Vectors of length 1 around some centres.
fn clustered(rows: usize, columns: usize, seed: u64) -> Matrix {
    let centres = crate::index::dense_tests::matrix(rows.isqrt().max(1), columns, 3);
    let mut matrix = crate::index::dense_tests::matrix(rows, columns, seed);
    for (row, values) in matrix.data.chunks_mut(columns).enumerate() {
        let centre = centres.row((row * 7 + seed as usize) % centres.rows());
        values.iter_mut().zip(centre).for_each(|(value, centre)| *value = centre + 0.8 * *value);
    }
    matrix.normalize();
    matrix
}

struct Built {
    vectors: Arc<DenseIndex>,
    graph: GraphIndex,
    report: BuiltGraph,
    bytes: Vec<u8>,
}

fn build(matrix: &Matrix, settings: GraphSettings) -> Built {
    let vectors = Arc::new(DenseIndex::from_matrix(matrix).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.hnsw");
    let report = GraphIndex::build(&vectors, settings, &path, &mut |_| ControlFlow::Continue(())).unwrap().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file is left");
    let graph = GraphIndex::open(&path).unwrap();
    graph.verify().unwrap();
    Built { vectors, graph, report, bytes: std::fs::read(&path).unwrap() }
}

fn small() -> GraphSettings {
    GraphSettings { degree: 12, candidates: 40 }
}

impl Built {
    fn walk(&self, query: &[f32], k: usize, ef: usize) -> Vec<(u32, f32)> {
        self.graph.walk(&self.vectors, query, k, ef, None).unwrap().entries
    }

    fn exact(&self, query: &[f32], k: usize) -> Vec<(u32, f32)> {
        self.vectors.search(&[query], k).unwrap().remove(0)
    }

    /// How many nodes links lead to.
    fn reachable(&self) -> usize {
        let mut is_reached = vec![false; self.graph.entries()];
        let mut waiting = vec![self.graph.file().facts.start];
        is_reached[waiting[0] as usize] = true;
        while let Some(node) = waiting.pop() {
            for link in self.graph.file().links(node).unwrap() {
                let link = u32::from_le_bytes(*link);
                if !std::mem::replace(&mut is_reached[link as usize], true) {
                    waiting.push(link);
                }
            }
        }
        is_reached.iter().filter(|is_reached| **is_reached).count()
    }
}

#[test]
fn nearly_all_of_the_best_are_found_and_their_scores_have_the_bits_of_the_exact_search() {
    let built = build(&clustered(3000, 48, 5), GraphSettings::default());
    let queries = clustered(50, 48, 6);
    let mut hits = 0;
    for query in queries.iter() {
        let (exact, found) = (built.exact(query, 10), built.walk(query, 10, 64));
        assert_eq!(found.len(), 10);
        assert!(found.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)));
        let scores = built.vectors.scores(query, &found.iter().map(|hit| hit.0).collect::<Vec<_>>()).unwrap();
        assert_eq!(scores, found.iter().map(|hit| hit.1).collect::<Vec<_>>());
        hits += found.iter().filter(|hit| exact.contains(hit)).count();
    }
    assert!(hits >= 480, "{hits} of 500");
    assert_eq!(built.reachable(), 3000);
}

#[test]
fn equal_input_gives_equal_bytes_with_any_number_of_threads() {
    let matrix = clustered(1500, 32, 7);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| build(&matrix, small()).bytes)
    };
    let one = with(1);
    for threads in [2, 5] {
        assert!(with(threads) == one, "{threads} threads");
    }
}

#[test]
fn none_one_and_two_vectors_are_an_index() {
    for rows in 0..=2 {
        let matrix = crate::index::dense_tests::matrix(rows, 16, 1);
        let built = build(&Matrix { columns: 16, ..matrix }, small());
        let query = clustered(1, 16, 2);
        assert_eq!((built.graph.entries(), built.graph.dimensions()), (rows, 16));
        for k in [0, 1, 2, 7, usize::MAX] {
            let found = built.graph.search(&built.vectors, &[query.row(0)], k, 1).unwrap().remove(0);
            assert_eq!(found, built.exact(query.row(0), k), "{rows} rows, k {k}");
            assert_eq!(
                built.walk(query.row(0), k.min(9), 9),
                built.exact(query.row(0), k.min(9)),
                "{rows} rows, k {k}"
            );
        }
    }
}

#[test]
fn more_than_there_is_can_be_asked_for() {
    let built = build(&clustered(300, 16, 3), small());
    let query = clustered(1, 16, 4);
    assert_eq!(built.walk(query.row(0), 1000, 1000).len(), 300, "every vector is found");
    let found = built.graph.search(&built.vectors, &[query.row(0)], 1000, 10).unwrap();
    assert_eq!(found, [built.exact(query.row(0), 1000)]);
}

#[test]
fn duplicates_are_all_found_in_the_order_of_the_exact_search() {
    let (some, one) = (clustered(400, 16, 5), clustered(1, 16, 9));
    let mut matrix = Matrix { columns: 16, data: Vec::new() };
    for row in 0..400 {
        matrix.data.extend_from_slice(some.row(row));
        // Every second vector is the same, and some others come twice.
        matrix.data.extend_from_slice(one.row(0));
        if row % 5 == 0 {
            matrix.data.extend_from_slice(some.row(row));
        }
    }
    let built = build(&matrix, small());
    assert_eq!((built.report.entries, built.report.duplicates), (880, 479));
    assert_eq!(built.reachable(), 401);
    assert_eq!(built.walk(one.row(0), 400, 20), built.exact(one.row(0), 400));
    assert_eq!(built.walk(some.row(10), 2, 20), built.exact(some.row(10), 2));
    let all_the_same = build(&Matrix { columns: 2, data: [1.0, 0.0].repeat(500) }, small());
    assert_eq!(all_the_same.walk(&[1.0, 0.0], 3, 3), [(0, 1.0), (1, 1.0), (2, 1.0)]);
}

#[test]
fn vectors_of_other_lengths_and_zeros_are_linked_too() {
    let mut matrix = clustered(500, 16, 6);
    for (row, values) in matrix.data.chunks_mut(16).enumerate() {
        values.iter_mut().for_each(|value| *value *= (row % 4) as f32);
    }
    let built = build(&matrix, small());
    assert_eq!(built.reachable(), 500 - built.report.duplicates);
    let query = clustered(1, 16, 8);
    let (found, exact) = (built.walk(query.row(0), 10, 100), built.exact(query.row(0), 10));
    assert!(exact.iter().filter(|hit| found.contains(hit)).count() >= 8, "{found:?} {exact:?}");
}

#[test]
fn a_filter_lets_only_what_passes_through_for_every_share() {
    let built = build(&clustered(4000, 32, 7), GraphSettings::default());
    let queries = clustered(20, 32, 8);
    for (step, least) in [(10, 180), (5, 190), (2, 190), (1, 190)] {
        let entries: Vec<u32> = (0..4000).step_by(step).collect();
        let (mut walked, mut hits) = (0, 0);
        for query in queries.iter() {
            let exact = built.vectors.search_among(query, 10, &entries).unwrap();
            let found = built.graph.search_among(&built.vectors, query, 10, 40, &entries).unwrap();
            assert_eq!(found, exact, "few enough to score all");
            let found = built.graph.walk_among(&built.vectors, query, 10, 40 * step.min(5), &entries).unwrap();
            walked += usize::from(found.is_some());
            let found = found.unwrap_or_else(|| exact.clone());
            assert!(found.len() == 10 && found.iter().all(|hit| entries.contains(&hit.0)));
            hits += found.iter().filter(|hit| exact.contains(hit)).count();
        }
        assert!(walked >= 5 && hits >= least, "one in {step}: {hits} of 200, {walked} of 20 by the graph");
    }
    for few in [vec![], vec![17], vec![3, 3999]] {
        let exact = built.vectors.search_among(queries.row(0), 10, &few).unwrap();
        assert_eq!(built.graph.search_among(&built.vectors, queries.row(0), 10, 40, &few).unwrap(), exact);
    }
}

#[test]
fn a_walk_gives_up_if_the_filter_leaves_the_region_of_the_query_out() {
    let matrix = clustered(4000, 32, 7);
    let built = build(&matrix, GraphSettings::default());
    let query = matrix.row(17);
    // The half that is farther from the query, and the nearer one.
    let all = built.exact(query, 4000);
    for (half, is_found) in [(&all[2000..], false), (&all[..2000], true)] {
        let mut entries: Vec<u32> = half.iter().map(|hit| hit.0).collect();
        entries.sort_unstable();
        let found = built.graph.walk_among(&built.vectors, query, 10, 40, &entries).unwrap();
        assert_eq!(found.is_some(), is_found);
    }
}

#[test]
fn a_filter_sees_the_duplicates_of_a_node() {
    let some = clustered(3000, 16, 5);
    let matrix = Matrix { columns: 16, data: [some.data.clone(), some.data.clone()].concat() };
    let built = build(&matrix, small());
    // Only entries that are no nodes pass.
    let entries: Vec<u32> = (3000..6000).collect();
    let among = PassingEntries { entries: &entries, duplicates: built.graph.duplicates() };
    let found = built.graph.walk(&built.vectors, some.row(8), 1, 40, Some(among)).unwrap();
    assert_eq!(found.entries, built.vectors.search_among(some.row(8), 1, &entries).unwrap());
}

#[test]
fn many_threads_search_at_once_and_find_what_one_finds() {
    let built = build(&clustered(3000, 32, 5), small());
    let queries = clustered(64, 32, 6);
    let queries: Vec<&[f32]> = queries.iter().collect();
    let expected: Vec<_> = queries.iter().map(|query| built.walk(query, 5, 30)).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let found = built.graph.walk_for_each(&built.vectors, &queries, 5, 30).unwrap();
                assert_eq!(found, expected);
            });
        }
    });
}

#[test]
fn progress_tells_how_many_vectors_are_done_and_can_end_the_building() {
    let vectors = Arc::new(DenseIndex::from_matrix(&clustered(700, 16, 5)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.hnsw");
    let mut seen = Vec::new();
    let whole = GraphIndex::build(&vectors, small(), &path, &mut |done| {
        seen.push(done);
        ControlFlow::Continue(())
    });
    assert!(whole.unwrap().is_some());
    assert!(seen.is_sorted() && seen.last() == Some(&700));
    std::fs::remove_file(&path).unwrap();
    let ended = GraphIndex::build(&vectors, small(), &path, &mut |done| match done {
        ..300 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    assert_eq!(ended.unwrap(), None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn it_can_be_built_on_a_thread_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let built = runtime.block_on(async { tokio::spawn(async { build(&clustered(50, 16, 5), small()).report }).await });
    assert_eq!(built.unwrap().entries, 50);
}

#[test]
fn damage_is_found_and_never_ends_the_process() {
    let built = build(&clustered(300, 16, 5), small());
    let good = &built.bytes;
    let reason = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        GraphIndex::from_bytes(bytes).unwrap_err().to_string()
    };
    assert!(reason(&|bytes| bytes.truncate(20)).contains("too short"));
    assert!(reason(&|bytes| bytes[0] = b'x').contains("not a graph index"));
    assert!(reason(&|bytes| bytes[8] = 9).contains("format 9"));
    assert!(reason(&|bytes| bytes.truncate(100)).contains("cut off"));
    assert!(reason(&|bytes| bytes.truncate(good.len() - 4)).contains("cut off"));
    assert!(reason(&|bytes| bytes[good.len() - 1] ^= 1).contains("checksum"));
    assert!(reason(&|bytes| bytes[16] ^= 1).contains("cut off"));
    // Opened without reading all of it, a damaged file gives errors or other results.
    let query = clustered(1, 16, 6);
    for place in (64..good.len()).step_by(97) {
        let mut bytes = good.clone();
        bytes[place] ^= 0xFF;
        if let Ok(file) = GraphFile::new("x".to_owned(), FileBytes::Owned(bytes))
            && let Ok(graph) = GraphIndex::new(file)
        {
            drop(graph.walk_for_each(&built.vectors, &[query.row(0)], 5, 8));
            drop(graph.walk_among(&built.vectors, query.row(0), 5, 8, &[1, 2, 299]));
            assert!(graph.verify().is_err(), "byte {place}");
        }
    }
}

#[test]
fn other_vectors_and_queries_of_another_length_are_refused() {
    let built = build(&clustered(100, 16, 5), small());
    let others = DenseIndex::from_matrix(&clustered(100, 16, 6)).unwrap();
    let query = clustered(1, 16, 6);
    assert!(built.graph.search(&others, &[query.row(0)], 5, 8).unwrap_err().to_string().contains("other vectors"));
    assert!(built.graph.search_among(&others, query.row(0), 5, 8, &[1]).is_err());
    assert!(built.graph.search(&built.vectors, &[&[1.0]], 5, 8).unwrap_err().to_string().contains("embedder"));
}

#[test]
fn settings_of_zero_are_refused() {
    let vectors = Arc::new(DenseIndex::from_matrix(&clustered(10, 16, 5)).unwrap());
    for settings in [GraphSettings { degree: 0, candidates: 9 }, GraphSettings { degree: 9, candidates: 0 }] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(GraphIndex::build(&vectors, settings, &path, &mut |_| ControlFlow::Continue(())).is_err());
    }
}
