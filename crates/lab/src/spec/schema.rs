//! The JSON Schema of the experiment file, for editors: which keys there are,
//! what they take, their defaults and what they do. What depends on several
//! keys at once is only checked when the file is read.

use super::{
    BudgetSpec, CorpusSpec, DatasetSpec, LocalEngineSpec, RayEngineSpec, SystemSpec, TrackerConfig, WarningSpec,
};
use crate::search::SearchConfig;
use eval::MetricConfig;
use models::ModelConfig;
use rag::{Axis, schema_of};
use serde_json::{Map, Value, json};
use store::registry;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The JSON Schema (draft 2020-12) of an experiment file.
pub(super) fn schema() -> Value {
    let mut definitions = Definitions::default();
    let space = space_schema(&mut definitions);
    let corpus = definitions.add("corpus", schema_of::<CorpusSpec>());
    let dataset = definitions.add("dataset", schema_of::<DatasetSpec>());
    let model = definitions.add("model", schema_of::<ModelConfig>());
    let system = definitions.add("system", schema_of::<SystemSpec>());
    let strategies = SearchConfig::NAMES.iter().copied().zip(SearchConfig::docs()).collect();
    let search = definitions.component("search", strategies, Some(schema_of::<SearchConfig>()));
    let evaluate = evaluate_schema(&mut definitions);
    let local = definitions.add("local", schema_of::<LocalEngineSpec>());
    let ray = definitions.add("ray", schema_of::<RayEngineSpec>());
    let warnings = definitions.add("warnings", schema_of::<WarningSpec>());
    let sections = json!({
        "name": {
            "type": "string", "pattern": "^[A-Za-z0-9_-]+$",
            "description": "The name of the experiment, and of the folders of its runs.",
        },
        "store": {
            "type": "string",
            "description": "Where results are kept: a folder, relative to this file, or the URL of an object store.",
        },
        "corpus": corpus,
        "dataset": dataset,
        "models": {
            "type": "object", "additionalProperties": model,
            "description": "Models, by the names that the rest of the file uses.",
        },
        "space": one_or_several(&space, "What is compared: every combination of the lists. With several tables, the combinations of each."),
        "systems": {
            "type": "object", "additionalProperties": system,
            "description": "RAG pipelines that are not ours, by name: each is asked the same questions, and is a trial beside those of `space`.",
        },
        "search": { "description": "How trials are chosen from the space; all of them if it is left out.", "anyOf": [search] },
        "evaluate": evaluate,
        "engine": {
            "type": "object", "properties": { "local": local, "ray": ray }, "additionalProperties": false,
            "description": "What executes the run: this machine, or a Ray cluster.",
        },
        "track": track_schema(&mut definitions),
        "warnings": warnings,
    });
    json!({
        "$schema": DIALECT,
        "title": "A Reverie experiment",
        "type": "object",
        "properties": sections,
        "required": ["name", "corpus"],
        "anyOf": [{ "required": ["space"] }, { "required": ["systems"] }],
        "additionalProperties": false,
        "$defs": definitions.0,
    })
}

/// Schemas that others refer to, by name.
#[derive(Default)]
struct Definitions(Map<String, Value>);

impl Definitions {
    /// Adds a schema, and its own definitions under names that begin with its
    /// name; gives a reference to it.
    fn add(&mut self, name: &str, mut schema: Value) -> Value {
        refer_within(&mut schema, name);
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("$schema");
            let own = fields.remove("$defs");
            let own = own.as_ref().and_then(Value::as_object).into_iter().flatten();
            self.0.extend(own.map(|(inner, definition)| (format!("{name}.{inner}"), definition.clone())));
        }
        self.0.insert(name.to_owned(), schema);
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    /// A component: its name alone, for the default settings, or a table of its
    /// name and its settings.
    fn component(&mut self, name: &str, docs: Vec<(&str, String)>, schema: Option<Value>) -> Value {
        let Some(schema) = schema else { return json!({ "type": "string" }) };
        let names: Vec<Value> = docs
            .iter()
            .map(|(name, docs)| json!({ "const": name, "description": registry::first_paragraph(docs) }))
            .collect();
        let table = self.add(&format!("{name}.table"), schema);
        self.0.insert(name.to_owned(), json!({ "anyOf": [{ "oneOf": names }, table] }));
        json!({ "$ref": format!("#/$defs/{name}") })
    }
}

/// Lets references lead to the definitions that begin with `name`.
fn refer_within(schema: &mut Value, name: &str) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(to) if key == "$ref" => {
                        if let Some(inner) = to.strip_prefix("#/$defs/") {
                            *to = format!("#/$defs/{name}.{inner}");
                        }
                    }
                    value => refer_within(value, name),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer_within(item, name)),
        _ => {}
    }
}

fn one_or_several(one: &Value, description: &str) -> Value {
    json!({ "description": description, "anyOf": [one, { "type": "array", "items": one }] })
}

fn space_schema(definitions: &mut Definitions) -> Value {
    let mut axes = Map::new();
    for &axis in Axis::ALL {
        let component = definitions.component(axis.name(), axis.docs(), axis.schema());
        // Steps between retrieval and answer are listed alone, or several in their order.
        let value = match axis {
            Axis::Refine => json!({ "anyOf": [component, { "type": "array", "items": component }] }),
            _ => component,
        };
        axes.insert(
            axis.name().to_owned(),
            one_or_several(&value, &format!("{} A value, or a list of values to compare.", axis.about())),
        );
    }
    // Where an index that exists is searched, there is no chunker.
    let required = Axis::ALL.iter().filter(|axis| axis.is_required() && **axis != Axis::Chunker);
    let required: Vec<&str> = required.map(|axis| axis.name()).collect();
    json!({ "type": "object", "properties": axes, "required": required, "additionalProperties": false })
}

fn evaluate_schema(definitions: &mut Definitions) -> Value {
    let metrics = MetricConfig::NAMES.iter().copied().zip(MetricConfig::docs()).collect();
    let metric = definitions.component("metric", metrics, Some(MetricConfig::schema()));
    let budget = definitions.add("budget", schema_of::<BudgetSpec>());
    let word = json!({ "type": "string" });
    let count = |description: &str| json!({ "type": "integer", "minimum": 1, "description": description });
    let keys = json!({
        "metrics": one_or_several(&metric, "What is measured, in the order of the leaderboard."),
        "judge": one_or_several(&word, "The chat model that judges; of several, the majority decides."),
        "embedder": { "type": "string", "description": "The embedding model for similarities: one for all trials." },
        "answered": count("Only this many questions, in file order, are answered. Default all."),
        "judged": count("Only this many of the answered questions are judged. Default all."),
        "objective": one_or_several(
            &word,
            "The metrics whose mean chooses the winner. Default: `ndcg` for retrieval, `answer_similarity` and `token_f1` \
             for answers; for a kind with none of these, all its metrics that need no judge.",
        ),
        "budget": budget,
    });
    json!({
        "type": "object", "properties": keys, "additionalProperties": false,
        "description": "What is measured, who judges, and what a run may cost.",
    })
}

fn track_schema(definitions: &mut Definitions) -> Value {
    // Each tracker is a key with its settings: the variants of the registry, side by side.
    let mut schema = schema_of::<TrackerConfig>();
    let variants = schema["oneOf"].take();
    let trackers: Map<String, Value> = variants
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|variant| variant["properties"].as_object())
        .flat_map(|properties| properties.clone())
        .collect();
    let schema = json!({
        "type": "object", "properties": trackers, "additionalProperties": false, "$defs": schema["$defs"].take(),
        "description": "Where runs are shown, besides their folders.",
    });
    definitions.add("track", schema)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Experiment, evaluate},
        *,
    };

    /// Every `$ref` of a schema.
    fn references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
        match schema {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let schema = schema();
        let mut found = Vec::new();
        references(&schema, &mut found);
        assert!(found.len() > 50);
        for reference in found {
            let name = reference.strip_prefix("#/$defs/").unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{reference} leads nowhere");
        }
    }

    #[test]
    fn every_section_axis_component_and_provider_is_there() {
        let schema = schema();
        for section in Experiment::SECTIONS {
            assert!(schema["properties"].get(section).is_some(), "{section}");
        }
        for key in evaluate::KEYS {
            assert!(schema["properties"]["evaluate"]["properties"].get(key).is_some(), "{key}");
        }
        let text = schema.to_string();
        for name in ["late_interaction", "faithfulness", "anthropic", "successive_halving", "mlflow", "max_attempts"] {
            assert!(text.contains(&format!("\"{name}\"")), "{name}");
        }
        assert_eq!(schema["$defs"]["retriever.table.Config"]["additionalProperties"], json!(false));
    }
}
