//! A trial: one point of the search space, fully resolved.

use crate::spec::{Experiment, Space};
use rag::{chunk::ChunkerConfig, generate::GeneratorConfig, rerank::RerankerConfig, retrieve::RetrieverConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use store::Key;

/// One combination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// `t01`, `t02`, … in the order of the grid.
    pub id: String,
    /// The chunker.
    pub chunker: ChunkerConfig,
    /// The embedding model's name, if anything needs vectors.
    pub embedder: Option<String>,
    /// The retriever.
    pub retriever: RetrieverConfig,
    /// The reranker.
    pub reranker: RerankerConfig,
    /// The generator, if answers are wanted.
    pub generator: Option<GeneratorConfig>,
    /// For each axis, what stands for this trial's value: short and unique on the axis.
    pub labels: BTreeMap<String, String>,
}

/// The full product of the axes: the last axis varies fastest.
pub(crate) fn grid(experiment: &Experiment) -> Vec<Trial> {
    let Space { chunker, embedder, retriever, reranker, generator } = &experiment.space;
    let chunker_labels = labels(chunker);
    let retriever_labels = labels(retriever);
    let reranker_labels = labels(reranker);
    let generator_labels = labels(generator);
    let embedders: Vec<Option<&String>> = none_if_empty(embedder);
    let generators: Vec<Option<(usize, &GeneratorConfig)>> = match generator.len() {
        0 => vec![None],
        _ => generator.iter().enumerate().map(Some).collect(),
    };
    let mut trials: Vec<Trial> = Vec::new();
    for (c, chunker) in chunker.iter().enumerate() {
        for embedder in &embedders {
            for (r, retriever) in retriever.iter().enumerate() {
                for (k, reranker) in reranker.iter().enumerate() {
                    for generator in &generators {
                        // Only what needs vectors distinguishes embedders: BM25
                        // alone would run once per embedder for nothing.
                        let searched = retriever.build(()).map(|built| built.needs()).unwrap_or_default();
                        let vectors = searched.and(reranker.needs()).embedder();
                        let embedder = embedder.filter(|_| vectors).cloned();
                        let mut labels = BTreeMap::from([
                            ("chunker".to_owned(), chunker_labels[c].clone()),
                            ("embedder".to_owned(), embedder.clone().unwrap_or_else(|| "none".to_owned())),
                            ("retriever".to_owned(), retriever_labels[r].clone()),
                            ("reranker".to_owned(), reranker_labels[k].clone()),
                        ]);
                        let label = generator.map_or_else(|| "none".to_owned(), |(g, _)| generator_labels[g].clone());
                        labels.insert("generator".to_owned(), label);
                        let trial = Trial {
                            id: String::new(),
                            chunker: chunker.clone(),
                            embedder,
                            retriever: retriever.clone(),
                            reranker: reranker.clone(),
                            generator: generator.map(|(_, generator)| generator.clone()),
                            labels,
                        };
                        if !trials.contains(&trial) {
                            trials.push(trial);
                        }
                    }
                }
            }
        }
    }
    let width = trials.len().to_string().len().max(2);
    for (i, trial) in trials.iter_mut().enumerate() {
        trial.id = format!("t{:0width$}", i + 1);
    }
    trials
}

fn none_if_empty(names: &[String]) -> Vec<Option<&String>> {
    if names.is_empty() { vec![None] } else { names.iter().map(Some).collect() }
}

/// A label per value of an axis: the component's name, with the settings that
/// tell it from others of the same name.
pub(crate) fn labels<T: Serialize>(values: &[T]) -> Vec<String> {
    let values: Vec<(String, Value)> = values.iter().map(tagged).collect();
    values
        .iter()
        .map(|(name, settings)| {
            let same: Vec<&Value> =
                values.iter().filter(|(other, _)| other == name).map(|(_, settings)| settings).collect();
            let Value::Object(map) = settings else { return name.clone() };
            let mut differing: Vec<(&String, &Value)> = map
                .iter()
                .filter(|(key, value)| same.iter().any(|other| other.get(key.as_str()) != Some(*value)))
                .collect();
            // What a file holds is too long for a label, and its name says enough.
            if differing.iter().any(|(_, value)| !is_long(value)) {
                differing.retain(|(_, value)| !is_long(value));
            }
            let differing: Vec<String> =
                differing.into_iter().map(|(key, value)| format!("{key}={}", short(value))).collect();
            if differing.is_empty() { name.clone() } else { format!("{name}({})", differing.join(" ")) }
        })
        .collect()
}

fn tagged(value: &impl Serialize) -> (String, Value) {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map.into_iter().next().unwrap_or_default(),
        Ok(Value::String(name)) => (name, Value::Null),
        _ => (String::new(), Value::Null),
    }
}

fn is_long(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains('\n'))
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) if is_long(value) => Key::of_bytes(text.as_bytes()).short(),
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            // A setting in single precision has more digits in double.
            let exact = number.as_f64().filter(|_| number.is_f64());
            let single = exact.filter(|value| f64::from(*value as f32) == *value);
            single.map_or_else(|| number.to_string(), |value| (value as f32).to_string())
        }
        Value::Array(items) => items.iter().map(short).collect::<Vec<_>>().join("/"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_name_only_what_differs() {
        let values = [
            json!({"sentence": {"chunk_size": 256, "chunk_overlap": 32}}),
            json!({"sentence": {"chunk_size": 512, "chunk_overlap": 32}}),
            json!({"token": {"chunk_size": 512}}),
        ];
        assert_eq!(labels(&values), ["sentence(chunk_size=256)", "sentence(chunk_size=512)", "token"]);
        let weights =
            [json!({"mmr": {"lambda": 0.3_f32}}), json!({"mmr": {"lambda": 0.5}}), json!({"mmr": {"lambda": 0.7}})];
        assert_eq!(labels(&weights), ["mmr(lambda=0.3)", "mmr(lambda=0.5)", "mmr(lambda=0.7)"]);
        let source = |name: &str, text: &str| json!({"python": {"function": name, "source": text}});
        let named = labels(&[source("by_line", "a\n"), source("by_clause", "b\n")]);
        assert_eq!(named, ["python(function=by_line)", "python(function=by_clause)"]);
        let alike = labels(&[source("chunk", "a\n"), source("chunk", "b\n")]);
        assert!(alike[0] != alike[1] && alike[0].len() < 40, "{alike:?}");
    }
}
