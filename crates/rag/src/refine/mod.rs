//! `refine`: what was found is filtered, joined, shortened or put into another
//! order before the answer is written. A value of the axis is a list of steps,
//! which run in their order.

mod pieces;

use crate::{
    Ask, Choice, Component, Context, Error, Item, Listed, Passage, PassageStage, PassageStep,
    component::components,
    index::Indexes,
    retrieve::{Corpus, Query},
};
use async_trait::async_trait;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, json};
use std::{borrow::Cow, fmt};
use store::registry::Read;

components! {
    /// One step, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum RefinerConfig builds Box<dyn PassageStep> {
        None => none,
        Threshold => threshold,
        ScoreGap => score_gap,
        Dedupe => dedupe,
        Neighbours => neighbours,
        Parents => parents,
        Sentences => sentences,
        Extract => extract,
        Budget => budget,
        LongContextReorder => long_context_reorder,
        LongContext => long_context,
    }
}

/// Steps in their order. In a file: the name of a step, a step with its
/// settings, or a list of both.
#[derive(Debug, Clone, PartialEq)]
pub struct RefineConfig {
    steps: Vec<RefinerConfig>,
    /// The names of the steps, joined by `+`.
    name: String,
}

impl From<Vec<RefinerConfig>> for RefineConfig {
    fn from(steps: Vec<RefinerConfig>) -> Self {
        let names: Vec<&str> = steps.iter().map(RefinerConfig::name).collect();
        let name = if names.is_empty() { "none".to_owned() } else { names.join("+") };
        Self { steps, name }
    }
}

impl RefineConfig {
    /// The steps that do something.
    fn steps(&self) -> impl Iterator<Item = &RefinerConfig> {
        self.steps.iter().filter(|step| !step.is_nothing())
    }
}

impl Serialize for RefineConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.steps.as_slice() {
            [one] => one.serialize(serializer),
            steps => steps.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RefineConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Steps)
    }
}

/// Reads one step or several.
struct Steps;

impl<'de> Visitor<'de> for Steps {
    type Value = RefineConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step such as \"dedupe\", or a list of steps")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<RefineConfig, E> {
        Step.visit_str(name).map(|step| vec![step].into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RefineConfig, A::Error> {
        Step.visit_map(map).map(|step| vec![step].into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RefineConfig, A::Error> {
        let mut steps = Vec::new();
        while let Some(OneStep(step)) = list.next_element()? {
            steps.push(step);
        }
        Ok(steps.into())
    }
}

/// Reads one step.
struct Step;

impl<'de> Visitor<'de> for Step {
    type Value = RefinerConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step such as \"dedupe\" or { dedupe = {} }")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<RefinerConfig, E> {
        // `"dedupe"` stands for `{ dedupe = {} }`.
        serde_json::from_value(json!({ name: {} })).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RefinerConfig, A::Error> {
        RefinerConfig::deserialize(MapAccessDeserializer::new(map))
    }
}

struct OneStep(RefinerConfig);

impl<'de> Deserialize<'de> for OneStep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Step).map(Self)
    }
}

impl JsonSchema for RefineConfig {
    fn schema_name() -> Cow<'static, str> {
        RefinerConfig::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RefinerConfig::json_schema(generator)
    }
}

impl Component for RefineConfig {
    fn asks(&self, item: Item) -> Vec<Ask<'_>> {
        self.steps.iter().flat_map(|step| step.asks(item)).collect()
    }
    fn indexes(&self) -> Indexes {
        self.steps.iter().flat_map(Component::indexes).collect()
    }
    fn embedder(&self) -> bool {
        self.steps.iter().any(Component::embedder)
    }
    fn runs_function(&self) -> bool {
        self.steps.iter().any(Component::runs_function)
    }
    fn is_nothing(&self) -> bool {
        self.steps().next().is_none()
    }
    fn read_files(&mut self, read: Read<'_>) -> Result<(), String> {
        self.steps.iter_mut().try_for_each(|step| step.read_files(read))
    }
}

impl Choice for RefineConfig {
    fn name(&self) -> &str {
        &self.name
    }
    /// That of the list; the versions of the steps are part of [`Choice::keyed`].
    fn version(&self) -> u32 {
        1
    }
    fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
    fn keyed(&self) -> Value {
        self.steps().map(|step| json!({ "version": step.version(), "step": step.keyed() })).collect()
    }
    fn docs() -> Vec<(&'static str, String)> {
        <RefinerConfig as Choice>::docs()
    }
    fn check(&self) -> Result<(), Error> {
        self.steps.iter().try_for_each(Choice::check)
    }
}

impl Listed for RefineConfig {
    fn unlisted() -> Option<Self> {
        RefinerConfig::nothing().map(|step| vec![step].into())
    }
    fn passages(&self) -> Option<&dyn PassageStage> {
        Some(self)
    }
}

impl PassageStage for RefineConfig {
    fn step(&self, cx: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        let steps = self.steps().map(|step| step.build(cx)).collect::<Result<_, _>>()?;
        Ok(Box::new(InOrder(steps)))
    }
}

struct InOrder(Vec<Box<dyn PassageStep>>);

#[async_trait]
impl PassageStep for InOrder {
    async fn run(&self, query: Query<'_>, corpus: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let mut passages = passages;
        for step in &self.0 {
            passages = step.run(query, corpus, passages).await?;
        }
        Ok(passages)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{rerank::tests::Fixture, stage::ReadSpace};

    /// The passages that a step makes of the fixture's.
    pub(crate) async fn refined(config: Value) -> Vec<Passage> {
        let fixture = Fixture::new();
        let config: RefineConfig = serde_json::from_value(config).unwrap();
        let step = config.step(&fixture.context()).unwrap();
        step.run(fixture.query(), fixture.corpus(), fixture.passages.clone()).await.unwrap()
    }

    fn read(value: Value) -> Result<RefineConfig, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_a_name_a_step_or_a_list_and_is_written_as_it_was_read() {
        let one = read(json!("threshold")).unwrap();
        assert_eq!(one, read(json!({ "threshold": {} })).unwrap());
        assert_eq!(one, read(json!(["threshold"])).unwrap());
        assert_eq!(read(one.value()).unwrap(), one);
        let two = read(json!(["threshold", { "threshold": { "keep": 2 } }])).unwrap();
        assert_eq!((two.name(), read(two.value()).unwrap() == two), ("threshold+threshold", true));
        assert!(read(json!([])).unwrap().is_nothing() && read(json!("none")).unwrap().is_nothing());
        assert!(!read(json!(["none", "threshold"])).unwrap().is_nothing());
        assert!(read(json!(["thresh"])).unwrap_err().contains("unknown variant `thresh`"));
        assert!(read(json!([{ "threshold": { "most": 1 } }])).unwrap_err().contains("unknown field `most`"));
        assert!(read(json!(3)).unwrap_err().contains("a list of steps"));
    }

    #[test]
    fn steps_that_do_nothing_are_no_part_of_keys() {
        let keyed = |value| read(value).unwrap().keyed();
        assert_eq!(keyed(json!(["none", "threshold", "none"])), keyed(json!("threshold")));
        assert_ne!(keyed(json!(["threshold", "threshold"])), keyed(json!("threshold")));
    }

    #[test]
    fn an_axis_that_is_not_listed_refines_nothing() {
        struct Nothing;
        impl ReadSpace for Nothing {
            fn read<T: Listed>(&mut self, _: crate::Axis) -> Vec<T> {
                Vec::new()
            }
        }
        let space = crate::Space::read(&mut Nothing);
        assert!(space.refine.len() == 1 && space.refine[0].is_nothing());
    }

    #[tokio::test]
    async fn every_step_that_asks_no_model_gives_the_same_again_and_nothing_for_nothing() {
        let fixture = Fixture::new();
        for config in RefinerConfig::defaults().into_iter().filter(|config| config.models().is_empty()) {
            let Ok(step) = config.build(&fixture.context()) else { continue };
            let run =
                async |passages: Vec<Passage>| step.run(fixture.query(), fixture.corpus(), passages).await.unwrap();
            let found = run(fixture.passages.clone()).await;
            assert_eq!(found, run(fixture.passages.clone()).await, "{}", config.name());
            assert!(!found.is_empty(), "{}", config.name());
            assert!(run(Vec::new()).await.is_empty(), "{}", config.name());
        }
    }

    #[tokio::test]
    async fn steps_run_in_their_order() {
        let kept = refined(json!([{ "threshold": { "least": 0.4 } }, { "threshold": { "least": 0.9 } }])).await;
        assert_eq!(kept.len(), 1);
    }
}
