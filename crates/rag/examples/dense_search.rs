//! How fast the dense index is, next to the speed of memory.
//!
//! `cargo run --release -p rag --example dense_search [ROWS] [DIMENSIONS]`
//! writes random vectors of length 1 to a temporary file, maps it, and prints
//! the time of a single query and of a batch of 64, next to the time that it
//! takes the same threads to read the same memory and do nothing with it, and
//! the time of a query with a filter next to the share of rows that pass it.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a measurement for people, not part of the product")]

use models::Matrix;
use rag::index::{DenseIndex, DenseWriter, Index};
use rayon::prelude::*;
use std::{hint::black_box, time::Instant};

const BATCH: usize = 64;
const REPEATS: usize = 9;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().expect("a number"));
    let rows = arguments.next().unwrap_or(500_000);
    let dimensions = arguments.next().unwrap_or(384);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("vectors.dense");

    let start = Instant::now();
    let mut writer = DenseWriter::create(&path, dimensions).expect("the file can be created");
    for (shard, first) in (0..rows).step_by(10_000).enumerate() {
        writer.push(&random(10_000.min(rows - first), dimensions, shard as u64)).expect("the file can be written");
    }
    writer.finish().expect("the file can be finished");
    println!("{rows} × {dimensions} written in {:.1} s", start.elapsed().as_secs_f64());

    let index = DenseIndex::open(&path).expect("the file can be opened");
    let bytes = (rows * dimensions.next_multiple_of(16) * 4) as f64;
    let start = Instant::now();
    index.verify().expect("the file is whole");
    println!("verified in {:.2} s", start.elapsed().as_secs_f64());

    let queries = random(BATCH, dimensions, u64::MAX);
    let queries: Vec<&[f32]> = queries.iter().collect();
    let read = best(|| {
        let part =
            |first: u32| (first..(first + 256).min(rows as u32)).fold(0, |sum, row| sum ^ xor(index.vector(row)));
        black_box(
            (0..(rows as u32).div_ceil(256))
                .into_par_iter()
                .map(|part_number| part(part_number * 256))
                .reduce(|| 0, |a, b| a ^ b),
        );
    });
    let single = best(|| {
        black_box(index.search(&queries[..1], 10).expect("the query fits"));
    });
    let batch = best(|| {
        black_box(index.search(&queries, 10).expect("the queries fit"));
    });
    let gigabytes = |seconds: f64| bytes / seconds / 1e9;
    println!("threads                     {:>8}", rayon::current_num_threads());
    println!("reading the memory          {:>8.2} ms  {:>6.1} GB/s", read * 1e3, gigabytes(read));
    println!(
        "one query                   {:>8.2} ms  {:>6.1} GB/s  {:.2} of reading",
        single * 1e3,
        gigabytes(single),
        read / single
    );
    let per_second = BATCH as f64 / batch;
    let operations = 2.0 * BATCH as f64 * bytes / 4.0 / batch / 1e9;
    println!(
        "{BATCH} queries                  {:>8.2} ms  {per_second:>6.0} queries/s  {operations:.0} GFLOP/s",
        batch * 1e3
    );
    println!("a query of the batch costs {:.3} of one alone", batch / BATCH as f64 / single);
    let all: Vec<u32> = (0..rows as u32).collect();
    let among = |entries: &[u32]| {
        best(|| {
            black_box(index.search_among(queries[0], 10, entries).expect("the query fits"));
        })
    };
    let whole = among(&all);
    println!("a filter that all pass      {:>8.2} ms  {:.2} of one query", whole * 1e3, whole / single);
    for step in [2usize, 10, 100] {
        let beside: Vec<u32> = all.iter().copied().take(rows / step).collect();
        let spread: Vec<u32> = all.iter().copied().step_by(step).collect();
        for (entries, words) in [(beside, "side by side"), (spread, "spread")] {
            let seconds = among(&entries);
            let share = entries.len() as f64 / rows as f64;
            println!(
                "  {share:>5.2} pass, {words:<13} {:>7.2} ms  {:.2} of their share of that, {:.2} of one query",
                seconds * 1e3,
                seconds / whole / share,
                seconds / single / share
            );
        }
    }
}

/// The shortest of several runs, in seconds: what else the machine does can
/// only make a run longer.
fn best(mut run: impl FnMut()) -> f64 {
    let time = |()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    std::iter::repeat_n((), REPEATS).map(time).fold(f64::INFINITY, f64::min)
}

/// Touches every value, with sums that do not wait for each other.
fn xor(values: &[f32]) -> u32 {
    let mut sums = [0u32; 32];
    for values in values.as_chunks::<32>().0 {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum ^= value.to_bits();
        }
    }
    sums.into_iter().fold(0, |a, b| a ^ b)
}

fn random(rows: usize, columns: usize, shard: u64) -> Matrix {
    let row = |row: usize| {
        let mut state = (shard << 32 | row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..columns).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        })
    };
    let mut matrix = Matrix { columns, data: (0..rows).into_par_iter().flat_map_iter(row).collect() };
    matrix.normalize();
    matrix
}
