//! Approximate search over vectors: our graph index, our exact search, and the peers usearch and `hnsw_rs`, one after
//! the other in one process, on the same vectors and threads.
//!
//!     hnsw-bench [--rows 100000] [--dimensions 384] [--queries 1000] [--threads N] [--vectors FILE] [--folder FOLDER]
//!                [--rounds 2] [--degree 32] [--candidates 128] [--filters 10,50] ENGINE…
//!
//! Engines: `exact`, `graph`, `usearch-f32`, `usearch-f16`, `usearch-i8`, `hnsw_rs`. `--vectors` names a file of
//! little-endian `f32` rows of length 1, whose last rows become the queries; without it, clustered vectors are drawn.
//! `--filters` are shares of the entries, in per cent, among which the graph and the exact search are asked too.
//! Recall counts an entry as found if its score is at least that of the tenth best, because equal scores have no order.

mod data;
mod peers;

use models::Matrix;
use rag::index::{DenseIndex, DenseWriter, GraphIndex, GraphSettings};
use rayon::prelude::*;
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

const CANDIDATES: [usize; 4] = [32, 64, 128, 256];
const K: usize = 10;

struct Options {
    rows: usize,
    dimensions: usize,
    queries: usize,
    threads: usize,
    vectors: Option<PathBuf>,
    folder: PathBuf,
    settings: GraphSettings,
    rounds: usize,
    /// Shares of the entries that pass, in per cent.
    filters: Vec<usize>,
    engines: Vec<String>,
}

impl Options {
    fn read() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        let folder = std::env::temp_dir().join(format!("hnsw-bench-{}", std::process::id()));
        let (rows, dimensions, queries, settings) = (100_000, 384, 1000, GraphSettings::default());
        let (vectors, filters, engines) = (None, Vec::new(), Vec::new());
        let mut options =
            Self { rows, dimensions, queries, threads, vectors, folder, settings, rounds: 2, filters, engines };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
            let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{text} is no number"));
            match word.as_str() {
                "--rows" => options.rows = number(value()),
                "--dimensions" => options.dimensions = number(value()),
                "--queries" => options.queries = number(value()),
                "--threads" => options.threads = number(value()),
                "--rounds" => options.rounds = number(value()),
                "--degree" => options.settings.degree = number(value()) as u32,
                "--candidates" => options.settings.candidates = number(value()) as u32,
                "--vectors" => options.vectors = Some(value().into()),
                "--folder" => options.folder = value().into(),
                "--filters" => options.filters = value().split(',').map(|share| number(share.to_owned())).collect(),
                _ => options.engines.push(word),
            }
        }
        options
    }
}

/// What all engines get.
pub struct Setting {
    pub base: Vec<f32>,
    pub queries: Vec<f32>,
    pub dimensions: usize,
    pub threads: usize,
    pub settings: GraphSettings,
    pub folder: PathBuf,
    rounds: usize,
    exact: Arc<DenseIndex>,
    /// The score of the tenth best entry of each query.
    least: Vec<f32>,
}

impl Setting {
    pub fn rows(&self) -> usize {
        self.base.len() / self.dimensions
    }

    /// Prints recall and queries a second of a search on one thread and on all.
    pub fn report(&self, engine: &str, parameter: &str, search: impl Fn(&[f32]) -> Vec<u32> + Sync) {
        self.report_with_least(engine, parameter, &self.least, search);
    }

    fn report_with_least(
        &self,
        engine: &str,
        parameter: &str,
        least: &[f32],
        search: impl Fn(&[f32]) -> Vec<u32> + Sync,
    ) {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut best = (0f64, 0f64);
            let mut found: Vec<Vec<u32>> = Vec::new();
            for _ in 0..self.rounds {
                let clock = Clock::start();
                found = pool.install(|| match threads {
                    1 => self.queries.chunks(self.dimensions).map(&search).collect(),
                    _ => self.queries.par_chunks(self.dimensions).with_max_len(1).map(&search).collect(),
                });
                let a_second = |seconds: f64| found.len() as f64 / seconds;
                best = (best.0.max(a_second(clock.wall())), best.1.max(a_second(clock.processor())));
            }
            (best, found)
        };
        let ((one, of_processor), found) = run(1);
        let ((all, _), _) = run(self.threads);
        let recall = self.recall(&found, least);
        println!(
            "{engine:12} {parameter:20} recall@{K} {recall:.4}   queries/s {one:7.0} on 1 thread, {all:7.0} on all, \
             {of_processor:7.0} a second of processor time"
        );
    }

    fn recall(&self, found: &[Vec<u32>], least: &[f32]) -> f64 {
        let count = |((query, found), least): ((&[f32], &Vec<u32>), &f32)| {
            let scores = self.exact.scores(query, found).unwrap();
            scores.iter().filter(|score| **score >= least - 1e-6).count().min(K)
        };
        let queries = self.queries.chunks(self.dimensions).zip(found).zip(least);
        let hits: usize = queries.map(count).sum();
        hits as f64 / (K * found.len()) as f64
    }
}

pub fn print_built(engine: &str, clock: &Clock, before: f64, file: u64) {
    let (wall, processor, memory, file) = (clock.wall(), clock.processor(), memory() - before, file as f64 / 1e6);
    println!(
        "{engine:12} built in {wall:.1} s ({processor:.1} s of processor time), {memory:.0} MB of memory more, \
         {file:.0} MB of file"
    );
}

/// Time since a moment: on the wall, and of the processors that this process used. On a busy machine only the second
/// can be compared.
pub struct Clock(Instant, f64);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now(), processor_seconds())
    }

    fn wall(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    fn processor(&self) -> f64 {
        (processor_seconds() - self.1).max(0.01)
    }
}

fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = statistics.rsplit(')').next().unwrap_or_default().split_whitespace();
    // Ticks in user and kernel mode, a hundred a second.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Memory of this process that is not a mapped file, in MB.
pub fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn main() {
    let options = Options::read();
    rayon::ThreadPoolBuilder::new().num_threads(options.threads).build_global().unwrap();
    std::fs::create_dir_all(&options.folder).unwrap();
    let (base, queries) = match &options.vectors {
        Some(file) => data::read(file, options.dimensions, options.rows, options.queries),
        None => data::clustered(options.rows, options.dimensions, options.queries),
    };
    let path = options.folder.join("vectors.dense");
    write_dense(&path, &base, options.dimensions);
    let exact = Arc::new(DenseIndex::open(&path).unwrap());
    let least = least_scores(&exact, &queries, options.dimensions, None);
    let Options { dimensions, threads, settings, folder, rounds, .. } = options;
    let setting = Setting { base, queries, dimensions, threads, settings, folder, rounds, exact, least };
    println!("{} × {dimensions}, {} queries, {threads} threads", setting.rows(), setting.least.len());
    for engine in &options.engines {
        match engine.as_str() {
            "exact" => setting.report("exact", "", |query| numbers(&setting.exact.search(&[query], K).unwrap()[0])),
            "graph" => graph(&setting, &options.filters),
            "hnsw_rs" => peers::hnsw_rs(&setting),
            other => peers::usearch(other, &setting),
        }
    }
    std::fs::remove_dir_all(&setting.folder).unwrap();
}

fn graph(setting: &Setting, filters: &[usize]) {
    let path = setting.folder.join("vectors.hnsw");
    let (before, clock) = (memory(), Clock::start());
    let mut most = 0f64;
    let mut progress = |_| {
        most = most.max(memory() - before);
        ControlFlow::Continue(())
    };
    let built = GraphIndex::build(&setting.exact, setting.settings, &path, &mut progress).unwrap().unwrap();
    print_built("graph", &clock, before, std::fs::metadata(&path).unwrap().len());
    println!("graph        {built:?}, {most:.0} MB while it was built");
    let index = GraphIndex::open(&path).unwrap();
    for ef in CANDIDATES {
        setting.report("graph", &format!("ef {ef}"), |query| {
            numbers(&index.search(&setting.exact, &[query], K, ef).unwrap()[0])
        });
    }
    for percent in filters {
        filtered(setting, &index, *percent);
    }
}

/// A filter whose entries are everywhere, and one that lets only one side of a plane pass.
fn filtered(setting: &Setting, index: &GraphIndex, percent: usize) {
    let all = 0..setting.rows() as u32;
    let scattered: Vec<u32> = all.clone().filter(|entry| (*entry as usize * 37) % 100 < percent).collect();
    let mut along: Vec<(f32, u32)> = all.map(|entry| (setting.exact.vector(entry)[0], entry)).collect();
    along.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut region: Vec<u32> = along[..along.len() * percent / 100].iter().map(|(_, entry)| *entry).collect();
    region.sort_unstable();
    for (kind, entries) in [("scattered", scattered), ("half space", region)] {
        let least = least_scores(&setting.exact, &setting.queries, setting.dimensions, Some(&entries));
        let parameter = |engine: &str| format!("{engine} {percent} % {kind}");
        setting.report_with_least("exact", &parameter(""), &least, |query| {
            numbers(&setting.exact.search_among(query, K, &entries).unwrap())
        });
        setting.report_with_least("graph", &parameter("ef 128"), &least, |query| {
            numbers(&index.search_among(&setting.exact, query, K, 128, &entries).unwrap())
        });
    }
}

fn numbers(found: &[(u32, f32)]) -> Vec<u32> {
    found.iter().map(|(entry, _)| *entry).collect()
}

fn least_scores(exact: &DenseIndex, queries: &[f32], dimensions: usize, among: Option<&[u32]>) -> Vec<f32> {
    let queries: Vec<&[f32]> = queries.chunks(dimensions).collect();
    let found = match among {
        None => exact.search(&queries, K).unwrap(),
        Some(entries) => queries.par_iter().map(|query| exact.search_among(query, K, entries).unwrap()).collect(),
    };
    found.iter().map(|found| found.last().map_or(f32::NEG_INFINITY, |(_, score)| *score)).collect()
}

fn write_dense(path: &Path, base: &[f32], dimensions: usize) {
    let mut writer = DenseWriter::create(path, dimensions).unwrap();
    for rows in base.chunks(dimensions << 12) {
        writer.push(&Matrix { columns: dimensions, data: rows.to_vec() }).unwrap();
    }
    writer.finish().unwrap();
}
