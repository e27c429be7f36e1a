//! A trial: one point of the search space, fully resolved.

use crate::{
    Error,
    spec::{Experiment, Spaces, SystemSpec},
};
use rag::{Axis, Choice, PipelineConfig};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use store::Key;

/// One combination.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// `t01`, `t02`, … in the order of the grid.
    pub id: String,
    /// What answers its questions.
    #[serde(flatten)]
    pub kind: TrialKind,
    /// For each axis, a short label of this trial's value, unique on the axis.
    pub labels: BTreeMap<String, String>,
}

/// What answers the questions of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TrialKind {
    /// A pipeline: its value on each axis.
    Pipeline(Box<PipelineConfig>),
    /// Another system.
    System(SystemTrial),
}

/// Another system than a pipeline of ours, with values of its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemTrial {
    /// Its name under `[systems]`.
    pub system: String,
    /// The value of each parameter.
    pub parameters: BTreeMap<String, Value>,
}

/// A trial that is a pipeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipelineTrial<'a> {
    pub(crate) trial: &'a Trial,
    pub(crate) pipeline: &'a PipelineConfig,
}

impl<'de> Deserialize<'de> for Trial {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            id: String,
            labels: BTreeMap<String, String>,
            #[serde(flatten)]
            kind: Map<String, Value>,
        }
        let Fields { id, labels, kind } = Fields::deserialize(deserializer)?;
        let is_system = kind.contains_key("system");
        let kind = Value::Object(kind);
        let kind = match is_system {
            true => serde_json::from_value(kind).map(TrialKind::System),
            false => serde_json::from_value(kind).map(|pipeline| TrialKind::Pipeline(Box::new(pipeline))),
        };
        Ok(Self { id, kind: kind.map_err(D::Error::custom)?, labels })
    }
}

impl Trial {
    /// The pipeline, if the trial is one.
    pub fn pipeline(&self) -> Option<&PipelineConfig> {
        match &self.kind {
            TrialKind::Pipeline(pipeline) => Some(pipeline),
            TrialKind::System(_) => None,
        }
    }

    /// Whether it is a pipeline that reads the documents of the parser with this number.
    pub(crate) fn reads_by(&self, space: &Spaces, parser: usize) -> bool {
        self.pipeline().is_some_and(|pipeline| space.parser_number(&pipeline.parse) == parser)
    }

    /// The pipeline, to answer questions with.
    ///
    /// # Errors
    /// The trial is another system, which Reverie only asks.
    pub(crate) fn runnable(&self) -> Result<&PipelineConfig, Error> {
        match &self.kind {
            TrialKind::Pipeline(pipeline) => Ok(pipeline),
            TrialKind::System(SystemTrial { system, .. }) => Err(not_run(&self.id, system)),
        }
    }

    /// The trial with its pipeline, if it is one.
    pub(crate) fn as_pipeline(&self) -> Option<PipelineTrial<'_>> {
        Some(PipelineTrial { trial: self, pipeline: self.pipeline()? })
    }

    /// The pipeline of a trial that is one.
    #[cfg(test)]
    pub(crate) fn pipeline_mut(&mut self) -> &mut PipelineConfig {
        match &mut self.kind {
            TrialKind::Pipeline(pipeline) => pipeline,
            TrialKind::System(system) => panic!("{} is no pipeline", system.system),
        }
    }

    /// The names of its embedder and of all models that its components ask.
    pub(crate) fn models(&self) -> impl Iterator<Item = &str> {
        let pipeline = self.pipeline();
        let embedder = pipeline.and_then(|pipeline| pipeline.embedder.as_deref());
        embedder.into_iter().chain(pipeline.into_iter().flat_map(PipelineConfig::models))
    }

    /// Its label on an axis; `none` if it has no value there.
    pub fn label(&self, axis: Axis) -> &str {
        self.label_of(axis.name())
    }

    /// Its label of this name; `none` if it has none.
    pub(crate) fn label_of(&self, name: &str) -> &str {
        self.labels.get(name).map_or(NONE, String::as_str)
    }

    /// All its choices in full: the component on each axis, by the axis' name, and each setting, by
    /// `axis.component.setting`. The parameters of a system are its settings.
    pub(crate) fn choices(&self) -> BTreeMap<String, String> {
        let mut choices = BTreeMap::new();
        let pipeline = match &self.kind {
            TrialKind::Pipeline(pipeline) => pipeline,
            TrialKind::System(SystemTrial { system, parameters }) => {
                choices.insert("system".to_owned(), system.clone());
                choices.extend(parameters.iter().map(|(key, value)| (format!("system.{system}.{key}"), short(value))));
                return choices;
            }
        };
        for (axis, value) in pipeline.values() {
            let (name, settings) = name_and_settings(&value.value());
            let settings = settings.as_object().cloned().unwrap_or_default();
            choices.extend(settings.iter().map(|(key, value)| (format!("{}.{name}.{key}", axis.name()), short(value))));
            choices.insert(axis.name().to_owned(), name);
        }
        choices
    }
}

impl<'a> PipelineTrial<'a> {
    /// Its label on an axis; `none` if it has no value there.
    pub(crate) fn label(self, axis: Axis) -> &'a str {
        self.trial.label(axis)
    }

    /// The name of its embedder, if this component needs it.
    pub(crate) fn embedder_of(self, component: &dyn Choice) -> Option<String> {
        self.pipeline.embedder.as_deref().filter(|_| component.needs_embedder()).map(str::to_owned)
    }
}

impl Experiment {
    /// All combinations of the axes.
    pub fn trials(&self) -> Vec<Trial> {
        crate::plan::trial::grid(self)
    }
}

pub(crate) use crate::spec::NONE;

/// Whether this is the [`identity_name`] of a system, and not the name of a model.
pub(crate) fn is_system(name: &str) -> bool {
    name.starts_with(SYSTEMS)
}

/// Why a trial that is another system cannot be run.
pub(crate) fn not_run(trial: &str, system: &str) -> Error {
    Error::Unusable(format!(
        "trial `{trial}` is the system `{system}`, which Reverie does not run: choose a trial that is a pipeline"
    ))
}

/// The beginning of the name of a system's identity.
const SYSTEMS: &str = "systems.";

/// The label that names the system of a trial.
pub(crate) const SYSTEM: &str = "system";

/// The name under which a run keeps the identity of a system, beside those of models.
pub(crate) fn identity_name(system: &str) -> String {
    format!("{SYSTEMS}{system}")
}

/// The names of the labels of trials: the axes in their order, then the system and its parameters.
pub fn label_names<'a>(labels: impl IntoIterator<Item = &'a BTreeMap<String, String>>) -> Vec<String> {
    let mut others: Vec<&String> = labels.into_iter().flat_map(BTreeMap::keys).collect();
    others.retain(|name| !Axis::NAMES.contains(&name.as_str()));
    others.sort();
    others.dedup();
    Axis::NAMES.iter().map(|name| (*name).to_owned()).chain(others.into_iter().cloned()).collect()
}

/// All trials: the pipelines, then the other systems.
pub(crate) fn grid(experiment: &Experiment) -> Vec<Trial> {
    let mut trials = pipelines(experiment);
    if !experiment.systems.is_empty() {
        let systems: Vec<Trial> = experiment.systems.iter().flat_map(|(name, spec)| of_system(name, spec)).collect();
        let names = label_names(systems.iter().map(|trial| &trial.labels));
        trials.extend(systems);
        // Trials that lack a label have nothing there.
        for trial in &mut trials {
            for name in &names {
                trial.labels.entry(name.clone()).or_insert_with(|| NONE.to_owned());
            }
        }
    }
    let width = trials.len().to_string().len().max(2);
    for (i, trial) in trials.iter_mut().enumerate() {
        trial.id = format!("t{:0width$}", i + 1);
    }
    trials
}

/// A system with each combination of its parameters: the last one varies fastest.
fn of_system(name: &str, spec: &SystemSpec) -> Vec<Trial> {
    let mut combinations = vec![BTreeMap::new()];
    for (parameter, values) in &spec.parameters {
        let with = |chosen: &BTreeMap<String, Value>| {
            let chosen = chosen.clone();
            values.iter().map(move |value| {
                let mut chosen = chosen.clone();
                chosen.insert(parameter.clone(), value.clone());
                chosen
            })
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    let trial = |parameters: BTreeMap<String, Value>| {
        let labels = parameters.iter().map(|(parameter, value)| (format!("{SYSTEM}.{parameter}"), short(value)));
        let labels = labels.chain([(SYSTEM.to_owned(), name.to_owned())]).collect();
        let system = SystemTrial { system: name.to_owned(), parameters };
        Trial { id: String::new(), kind: TrialKind::System(system), labels }
    };
    combinations.into_iter().map(trial).collect()
}

/// The full product of the axes: the last axis varies fastest.
fn pipelines(experiment: &Experiment) -> Vec<Trial> {
    let space = &experiment.space;
    let labels_of = |&axis: &Axis| {
        // An index that misses nothing, and what reads files by default, are named only beside others.
        let is_named = match axis {
            Axis::Index => space.on(axis).into_iter().any(|index| !index.indexes().is_empty()),
            Axis::Parse => space.on(axis).into_iter().any(|parser| !parser.is_nothing()),
            _ => true,
        };
        let values: Vec<Value> = space.on(axis).into_iter().filter(|_| is_named).map(Choice::value).collect();
        let labels = labels(&values);
        (axis, values, labels)
    };
    let axes: Vec<(Axis, Vec<Value>, Vec<String>)> = Axis::ALL.iter().map(labels_of).collect();
    let mut trials: Vec<Trial> = Vec::new();
    for pipeline in space.combinations() {
        let label = |(axis, values, labels): &(Axis, Vec<Value>, Vec<String>)| {
            // An index of vectors does nothing where no vectors are searched.
            let does_something = |_: &&dyn Choice| *axis != Axis::Index || pipeline.compares_vectors();
            let value = pipeline.on(*axis).filter(does_something).map(Choice::value);
            let at = value.and_then(|value| values.iter().position(|listed| *listed == value));
            (axis.name().to_owned(), at.map_or_else(|| NONE.to_owned(), |at| labels[at].clone()))
        };
        let labels = axes.iter().map(label).collect();
        let trial = Trial { id: String::new(), kind: TrialKind::Pipeline(Box::new(pipeline)), labels };
        if !trials.contains(&trial) {
            trials.push(trial);
        }
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
        // Parsers by format, such as `pdf=command default=text`.
        Ok(Value::Object(map)) if map.len() > 1 => {
            // The parser of all other files comes last.
            let (others, files): (Vec<_>, Vec<_>) = map.iter().partition(|(key, _)| *key == "default");
            let named = files.into_iter().chain(others);
            let named = named.map(|(key, value)| format!("{key}={}", name_and_settings(value).0));
            (named.collect::<Vec<_>>().join(" "), Value::Object(map))
        }
        Ok(Value::Object(map)) => map.into_iter().next().unwrap_or_default(),
        Ok(Value::String(name)) => (name, Value::Null),
        Ok(Value::Array(steps)) => names_and_settings(&steps),
        // The value of a system's parameter.
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => (short(&value), Value::Null),
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
            Trial { id: String::new(), kind: TrialKind::Pipeline(pipeline), labels: BTreeMap::new() }.choices()
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
        assert_eq!(labels(&[json!(4), json!(0.5), json!(true)]), ["4", "0.5", "true"]);
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

    #[test]
    fn a_value_of_a_setting_is_told_as_short_as_it_can_be() {
        let long = "def cut(text):\n    return [text]\n";
        let table = [
            (json!("words"), "words".to_owned()),
            (json!(512), "512".to_owned()),
            (json!(0.3_f32), "0.3".to_owned()),
            (json!(0.1), "0.1".to_owned()),
            (json!(-2.5), "-2.5".to_owned()),
            (json!(true), "true".to_owned()),
            (json!(null), "null".to_owned()),
            (json!([2048, 512]), "2048/512".to_owned()),
            (json!([]), String::new()),
            (json!({ "rrf": {} }), "rrf".to_owned()),
            (json!({ "rrf": { "k": 60 } }), "rrf(k=60)".to_owned()),
            (json!({ "rrf": null }), "rrf".to_owned()),
            (json!({ "a": 1, "b": 2 }), "{\"a\":1,\"b\":2}".to_owned()),
            (json!({}), "{}".to_owned()),
            (json!(long), Key::of_bytes(long.as_bytes()).short()),
        ];
        for (value, expected) in table {
            assert_eq!(short(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_label_needs_no_settings_where_its_name_is_alone_or_all_are_equal() {
        let sentence = |size: usize| json!({ "sentence": { "chunk_size": size } });
        assert_eq!(labels(&[sentence(256)]), ["sentence"]);
        assert_eq!(labels(&[sentence(256), sentence(256)]), ["sentence", "sentence"]);
        assert_eq!(labels(&[json!("small"), json!("large")]), ["small", "large"], "embedders are names");
        assert_eq!(labels::<Value>(&[]), Vec::<String>::new());
        // A setting that another of the name leaves out is told.
        let left_out = [json!({ "none": {} }), json!({ "none": { "top_n": 2 } })];
        assert_eq!(labels(&left_out), ["none", "none(top_n=2)"]);
    }

    #[test]
    fn steps_of_one_name_are_told_apart_by_their_numbers() {
        let steps = |first: f64, second: f64| json!([{ "threshold": { "least": first } }, { "threshold": { "least": second } }]);
        assert_eq!(
            labels(&[steps(0.5, 0.25), steps(0.5, 0.75)]),
            ["threshold+threshold(threshold2.least=0.25)", "threshold+threshold(threshold2.least=0.75)"]
        );
    }

    fn experiment(space: &str) -> Experiment {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.small]\nembedding.static = {{ model = \"m\" }}\n\
             [models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"http://127.0.0.1:1/v1\" }}\n[space]\n{space}"
        );
        Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    #[test]
    fn trials_are_numbered_with_equally_many_digits_and_at_least_two() {
        let ids = |n: usize| {
            let retrievers: Vec<String> = (1..=n).map(|k| format!("{{ bm25 = {{ top_k = {k} }} }}")).collect();
            let space = format!("chunker = \"sentence\"\nretriever = [{}]\n", retrievers.join(", "));
            let trials = experiment(&space).trials();
            (trials[0].id.clone(), trials.last().unwrap().id.clone())
        };
        for (n, first, last) in [(1, "t01", "t01"), (99, "t01", "t99"), (100, "t001", "t100")] {
            assert_eq!(ids(n), (first.to_owned(), last.to_owned()));
        }
    }

    #[test]
    fn the_last_axis_varies_fastest_and_equal_pipelines_are_one_trial() {
        let space =
            "chunker = [\"sentence\", \"token\", \"sentence\"]\nretriever = [\"bm25\", { bm25 = { top_k = 3 } }]\n";
        let trials = experiment(space).trials();
        let told: Vec<(&str, &str)> =
            trials.iter().map(|trial| (trial.label(Axis::Chunker), trial.label(Axis::Retriever))).collect();
        let (five, three) = ("bm25(top_k=5)", "bm25(top_k=3)");
        assert_eq!(told, [("sentence", five), ("sentence", three), ("token", five), ("token", three)]);
    }

    #[test]
    fn a_trial_has_a_label_on_every_axis_and_names_the_models_that_it_asks() {
        let space = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = [\"bm25\", \"dense\"]\n\
                     generator = { compact = { model = \"gpt\" } }\n";
        let trials = experiment(space).trials();
        let models = |trial: &Trial| trial.models().map(str::to_owned).collect::<Vec<_>>();
        // BM25 compares no vectors, so that its trial has no embedder.
        assert_eq!((models(&trials[0]), trials[0].label(Axis::Embedder)), (vec!["gpt".to_owned()], NONE));
        assert_eq!(
            (models(&trials[1]), trials[1].label(Axis::Embedder)),
            (vec!["small".to_owned(), "gpt".to_owned()], "small")
        );
        assert_eq!(trials[1].labels.len(), Axis::ALL.len());
        let second = trials[1].as_pipeline().unwrap();
        assert_eq!(second.embedder_of(&second.pipeline.retriever).as_deref(), Some("small"));
        assert_eq!(second.embedder_of(&second.pipeline.chunker), None, "it needs none");
    }
}
