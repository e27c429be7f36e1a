//! The Python package's classes for components are those of the Rust source:
//! `python/reverie/{chunkers,retrievers,rerankers,generators,metrics}.py`.
//! `make classes` writes them anew: this test with `REVERIE_WRITE_CLASSES=1`.

mod source;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;
use source::Kind;
use std::{fs, path::Path};

const COMMAND: &str = "make classes";

fn schema<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

fn kinds() -> Vec<Kind> {
    let kind = |module, name, folder, schema| Kind { module, name, folder, schema };
    vec![
        kind("chunkers", "chunker", "rag/src/chunk", schema::<rag::chunk::ChunkerConfig>()),
        kind("retrievers", "retriever", "rag/src/retrieve", schema::<rag::retrieve::RetrieverConfig>()),
        kind("rerankers", "reranker", "rag/src/rerank", schema::<rag::rerank::RerankerConfig>()),
        kind("generators", "generator", "rag/src/generate", schema::<rag::generate::GeneratorConfig>()),
        kind("metrics", "metric", "eval/src/metric", schema::<eval::MetricConfig>()),
    ]
}

#[test]
fn the_classes_in_python_are_those_of_the_source() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for kind in kinds() {
        let text = source::module(&kind, &here.join(".."), COMMAND).unwrap();
        let path = here.join("python/reverie").join(format!("{}.py", kind.module));
        if std::env::var_os("REVERIE_WRITE_CLASSES").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{} is not what the Rust source says: {COMMAND}", path.display());
    }
}
