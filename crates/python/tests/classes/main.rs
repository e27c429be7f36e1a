//! The Python package's classes for components are those of the Rust source:
//! a module of `python/reverie` for each stage, such as `chunkers.py`, and `metrics.py`; `_kinds.py` lists these modules.
//! `make classes` writes them anew: this test with `REVERIE_WRITE_CLASSES=1`.

mod source;

use eval::MetricConfig;
use rag::Axis;
use source::Kind;
use std::{fs, path::Path};

const COMMAND: &str = "make classes";

/// The stages whose components have settings, and the metrics.
fn kinds() -> Vec<Kind> {
    let stages = Axis::ALL.iter().filter_map(|axis| {
        // `reverie.index` and `reverie.parse` are functions: they make an index of chunks, and documents of files.
        let name = match axis {
            Axis::Index => axis.stage(),
            Axis::Parse => "parser",
            _ => axis.name(),
        };
        Some(Kind { module: plural(name), name, docs: axis.docs(), schema: axis.schema()? })
    });
    let docs = MetricConfig::NAMES.iter().copied().zip(MetricConfig::docs()).collect();
    let metrics = Kind { module: plural("metric"), name: "metric", docs, schema: MetricConfig::schema() };
    stages.chain([metrics]).collect()
}

fn plural(name: &str) -> String {
    // Axes that are named for what is done have modules that are named for what does it.
    match name {
        "enrich" => return "enrichers".to_owned(),
        "refine" => return "refiners".to_owned(),
        "vector_index" => return "vector_indexes".to_owned(),
        _ => {}
    }
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{name}s"),
    }
}

#[test]
fn the_classes_in_python_are_those_of_the_source() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kinds = kinds();
    let modules = kinds.iter().map(|kind| (kind.module.as_str(), source::module(kind, COMMAND)));
    for (module, text) in modules.chain([("_kinds", source::kinds(&kinds, COMMAND))]) {
        let path = here.join("python/reverie").join(format!("{module}.py"));
        if std::env::var_os("REVERIE_WRITE_CLASSES").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{} is not what the Rust source says: {COMMAND}", path.display());
    }
}
