//! The peers, with the same number of links at a node and of candidates as our graph.

use crate::{CANDIDATES, Clock, K, Setting, memory, print_built};
use rayon::prelude::*;
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

pub fn usearch(engine: &str, setting: &Setting) {
    let quantization = match engine {
        "usearch-f32" => ScalarKind::F32,
        "usearch-f16" => ScalarKind::F16,
        "usearch-i8" => ScalarKind::I8,
        _ => panic!("there is no engine {engine}"),
    };
    let (before, clock) = (memory(), Clock::start());
    let options = IndexOptions {
        dimensions: setting.dimensions,
        metric: MetricKind::IP,
        quantization,
        // Half of the links of the lowest layer.
        connectivity: setting.settings.degree as usize / 2,
        expansion_add: setting.settings.candidates as usize,
        expansion_search: 64,
        multi: false,
        ..Default::default()
    };
    let index = Index::new(&options).unwrap();
    index.reserve_capacity_and_threads(setting.rows(), setting.threads).unwrap();
    let rows = setting.base.par_chunks(setting.dimensions).enumerate();
    rows.for_each(|(entry, vector)| index.add(entry as u64, vector).unwrap());
    print_built(engine, &clock, before, index.serialized_length() as u64);
    for ef in CANDIDATES {
        index.change_expansion_search(ef);
        setting.report(engine, &format!("ef {ef}"), |query| {
            index.search(query, K).unwrap().keys.iter().map(|key| *key as u32).collect()
        });
    }
}

pub fn hnsw_rs(setting: &Setting) {
    use hnsw_rs::prelude::{AnnT, DistDot, Hnsw};
    let (before, clock) = (memory(), Clock::start());
    let (links, candidates) = (setting.settings.degree as usize / 2, setting.settings.candidates as usize);
    let mut index = Hnsw::<f32, DistDot>::new(links, setting.rows(), 16, candidates, DistDot {});
    let rows: Vec<(&[f32], usize)> =
        setting.base.chunks(setting.dimensions).enumerate().map(|(entry, vector)| (vector, entry)).collect();
    index.parallel_insert_slice(&rows);
    index.set_searching_mode(true);
    print_built("hnsw_rs", &clock, before, 0);
    let name = index.file_dump(&setting.folder, "hnsw_rs").unwrap();
    let length = |ending: &str| std::fs::metadata(setting.folder.join(format!("{name}.hnsw.{ending}"))).unwrap().len();
    println!("hnsw_rs      {:.0} MB of file", (length("graph") + length("data")) as f64 / 1e6);
    for ef in CANDIDATES {
        setting.report("hnsw_rs", &format!("ef {ef}"), |query| {
            index.search(query, K, ef).iter().map(|found| found.d_id as u32).collect()
        });
    }
}
