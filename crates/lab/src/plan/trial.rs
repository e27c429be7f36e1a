//! A trial: one point of the search space, fully resolved.

use crate::spec::Experiment;
use rag::{Axis, Choice, PipelineConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use store::Key;

/// One combination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// `t01`, `t02`, … in the order of the grid.
    pub id: String,
    /// Its value on each axis.
    #[serde(flatten)]
    pub pipeline: PipelineConfig,
    /// For each axis, a short label of this trial's value, unique on the axis.
    pub labels: BTreeMap<String, String>,
}

impl Trial {
    /// The names of its embedder and of all models that its components ask.
    pub(crate) fn models(&self) -> impl Iterator<Item = &str> {
        self.pipeline.embedder.as_deref().into_iter().chain(self.pipeline.models())
    }

    /// Its label on an axis; `none` if it has no value there.
    pub fn label(&self, axis: Axis) -> &str {
        self.labels.get(axis.name()).map_or(NONE, String::as_str)
    }

    /// All its choices, which labels shorten: the component on each axis, by the axis' name, and
    /// each setting, by `axis.component.setting`.
    pub(crate) fn choices(&self) -> BTreeMap<String, String> {
        let mut choices = BTreeMap::new();
        for (axis, value) in self.pipeline.values() {
            let (name, settings) = name_and_settings(&value.value());
            let settings = settings.as_object().cloned().unwrap_or_default();
            choices.extend(settings.iter().map(|(key, value)| (format!("{}.{name}.{key}", axis.name()), short(value))));
            choices.insert(axis.name().to_owned(), name);
        }
        choices
    }

    /// The name of its embedder, if this component needs it.
    pub(crate) fn embedder_of(&self, component: &dyn Choice) -> Option<String> {
        self.pipeline.embedder.as_deref().filter(|_| component.embedder()).map(str::to_owned)
    }
}

impl Experiment {
    /// All combinations of the axes.
    pub fn trials(&self) -> Vec<Trial> {
        crate::plan::trial::grid(self)
    }
}

/// The label of a trial that has nothing on an axis.
pub(crate) const NONE: &str = "none";

/// The full product of the axes: the last axis varies fastest.
pub(crate) fn grid(experiment: &Experiment) -> Vec<Trial> {
    let space = &experiment.space;
    let labels_of = |&axis: &Axis| {
        let values: Vec<Value> = space.on(axis).into_iter().map(Choice::value).collect();
        let labels = labels(&values);
        (axis, values, labels)
    };
    let axes: Vec<(Axis, Vec<Value>, Vec<String>)> = Axis::ALL.iter().map(labels_of).collect();
    let mut trials: Vec<Trial> = Vec::new();
    for pipeline in space.combinations() {
        let label = |(axis, values, labels): &(Axis, Vec<Value>, Vec<String>)| {
            let value = pipeline.on(*axis).map(Choice::value);
            let at = value.and_then(|value| values.iter().position(|listed| *listed == value));
            (axis.name().to_owned(), at.map_or_else(|| NONE.to_owned(), |at| labels[at].clone()))
        };
        let labels = axes.iter().map(label).collect();
        let trial = Trial { id: String::new(), pipeline, labels };
        if !trials.contains(&trial) {
            trials.push(trial);
        }
    }
    let width = trials.len().to_string().len().max(2);
    for (i, trial) in trials.iter_mut().enumerate() {
        trial.id = format!("t{:0width$}", i + 1);
    }
    trials
}

/// A label for each value of an axis: the component's name, with the settings
/// that distinguish it from other values of the same name.
pub(crate) fn labels<T: Serialize>(values: &[T]) -> Vec<String> {
    let values: Vec<(String, Value)> = values.iter().map(name_and_settings).collect();
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
            // The content of a file is too long for a label, and its name is enough.
            if differing.iter().any(|(_, value)| !is_long(value)) {
                differing.retain(|(_, value)| !is_long(value));
            }
            let differing: Vec<String> =
                differing.into_iter().map(|(key, value)| format!("{key}={}", short(value))).collect();
            if differing.is_empty() { name.clone() } else { format!("{name}({})", differing.join(" ")) }
        })
        .collect()
}

fn name_and_settings(value: &impl Serialize) -> (String, Value) {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map.into_iter().next().unwrap_or_default(),
        Ok(Value::String(name)) => (name, Value::Null),
        Ok(Value::Array(steps)) => names_and_settings(&steps),
        _ => (String::new(), Value::Null),
    }
}

/// The names of steps joined by `+`, and their settings, each prefixed with the name of its step.
fn names_and_settings(steps: &[Value]) -> (String, Value) {
    let steps: Vec<(String, Value)> = steps.iter().map(name_and_settings).collect();
    let names: Vec<&str> = steps.iter().map(|(name, _)| name.as_str()).collect();
    let of_step = |(i, (name, settings)): (usize, &(String, Value))| {
        // Steps with the same name are distinguished by their number.
        let step = if names.iter().filter(|other| *other == name).count() > 1 {
            format!("{name}{}", i + 1)
        } else {
            name.clone()
        };
        let settings = settings.as_object().cloned().unwrap_or_default();
        settings.into_iter().map(move |(key, value)| (format!("{step}.{key}"), value)).collect::<Vec<_>>()
    };
    (names.join("+"), Value::Object(steps.iter().enumerate().flat_map(of_step).collect()))
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
        // A choice with settings of its own, such as a way to join two lists.
        Value::Object(fields) if fields.len() == 1 => {
            let settings = |settings: &Value| {
                let settings = settings.as_object()?.iter();
                let settings: Vec<String> = settings.map(|(key, value)| format!("{key}={}", short(value))).collect();
                (!settings.is_empty()).then(|| format!("({})", settings.join(" ")))
            };
            fields.iter().map(|(name, value)| name.clone() + &settings(value).unwrap_or_default()).collect()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_setting_is_a_choice_only_of_trials_whose_components_have_it() {
        let trial = |retriever: Value| {
            let pipeline = json!({ "chunker": { "sentence": {} }, "retriever": retriever });
            let pipeline = serde_json::from_value(pipeline).unwrap();
            Trial { id: String::new(), pipeline, labels: BTreeMap::new() }.choices()
        };
        let (words, both) = (trial(json!({ "bm25": { "top_k": 3 } })), trial(json!({ "hybrid": {} })));
        assert_eq!((words["retriever"].as_str(), words["retriever.bm25.top_k"].as_str()), ("bm25", "3"));
        assert!(both["retriever"] == "hybrid" && both["retriever.hybrid.fusion"].starts_with("rrf"));
        assert!(!both.contains_key("retriever.bm25.top_k"));
        assert_eq!(both["refine"], "none");
    }

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
        let steps = |least: f64| json!([{"dedupe": {}}, {"threshold": {"least": least, "keep": 1}}]);
        assert_eq!(
            labels(&[steps(0.25), steps(0.5), json!({"none": {}})]),
            ["dedupe+threshold(threshold.least=0.25)", "dedupe+threshold(threshold.least=0.5)", "none"]
        );
        let fusions = [
            json!({"hybrid": {"fusion": {"rrf": {"k": 60}}}}),
            json!({"hybrid": {"fusion": {"weighted": {"dense_weight": 0.3_f32}}}}),
        ];
        assert_eq!(labels(&fusions), ["hybrid(fusion=rrf(k=60))", "hybrid(fusion=weighted(dense_weight=0.3))"]);
        let source = |name: &str, text: &str| json!({"python": {"function": name, "source": text}});
        let named = labels(&[source("by_line", "a\n"), source("by_clause", "b\n")]);
        assert_eq!(named, ["python(function=by_line)", "python(function=by_clause)"]);
        let alike = labels(&[source("chunk", "a\n"), source("chunk", "b\n")]);
        assert!(alike[0] != alike[1] && alike[0].len() < 40, "{alike:?}");
    }
}
