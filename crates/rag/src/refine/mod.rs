//! `refine`: what was found is filtered, joined, shortened or put into another
//! order before the answer is written. A value of the axis is a list of steps,
//! which run in their order.

mod pieces;

use crate::{
    AxisValue, Choice, Component, Context, Error, Passage, PassageStage, PassageStep, PassagesWithRemarks,
    component::components,
    corpus::{Corpus, Query},
    trace,
};
use async_trait::async_trait;
use models::trace::in_span;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, json};
use std::{borrow::Cow, fmt};
use tracing::Span;

components! {
    /// One step, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum RefinerConfig builds Box<dyn PassageStep>, each crate::Component {
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
        SelfRoute => self_route,
        Corrective => corrective,
        Agentic => agentic,
        Recency => recency,
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
    /// The steps other than `none`, in order, each as a configuration of its own.
    pub fn single_steps(&self) -> Vec<Self> {
        self.steps().map(|step| vec![step.clone()].into()).collect()
    }

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
        deserializer.deserialize_any(StepsVisitor)
    }
}

struct StepsVisitor;

impl<'de> Visitor<'de> for StepsVisitor {
    type Value = RefineConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step such as \"dedupe\", or a list of steps")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<RefineConfig, E> {
        StepVisitor.visit_str(name).map(|step| vec![step].into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RefineConfig, A::Error> {
        StepVisitor.visit_map(map).map(|step| vec![step].into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RefineConfig, A::Error> {
        let mut steps = Vec::new();
        while let Some(OneStep(step)) = list.next_element()? {
            steps.push(step);
        }
        Ok(steps.into())
    }
}

struct StepVisitor;

impl<'de> Visitor<'de> for StepVisitor {
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
        deserializer.deserialize_any(StepVisitor).map(Self)
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
    fn parts(&self) -> Vec<&dyn Component> {
        self.steps.iter().map(|step| step as &dyn Component).collect()
    }
    fn parts_mut(&mut self) -> Vec<&mut dyn Component> {
        self.steps.iter_mut().map(|step| step as &mut dyn Component).collect()
    }
    fn is_nothing(&self) -> bool {
        self.steps().next().is_none()
    }
}

impl Choice for RefineConfig {
    fn name(&self) -> &str {
        &self.name
    }
    /// The version of the list; the versions of the steps are part of [`Choice::settings_for_key`].
    fn version(&self) -> u32 {
        1
    }
    fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
    fn settings_for_key(&self) -> Value {
        self.steps().map(|step| json!({ "version": step.version(), "step": step.settings_for_key() })).collect()
    }
    fn docs() -> Vec<(&'static str, String)> {
        <RefinerConfig as Choice>::docs()
    }
    fn check(&self) -> Result<(), Error> {
        self.steps.iter().try_for_each(Choice::check)
    }
}

impl AxisValue for RefineConfig {
    fn unlisted() -> Option<Self> {
        RefinerConfig::nothing().map(|step| vec![step].into())
    }
    fn as_passage_stage(&self) -> Option<&dyn PassageStage> {
        Some(self)
    }
}

impl PassageStage for RefineConfig {
    fn step(&self, cx: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        let steps = self.steps().map(|step| Ok((step.name().to_owned(), step.build(cx)?)));
        Ok(Box::new(StepSequence(steps.collect::<Result<_, Error>>()?)))
    }
}

struct StepSequence(Vec<(String, Box<dyn PassageStep>)>);

#[async_trait]
impl PassageStep for StepSequence {
    async fn run_with_remarks(
        &self,
        query: Query<'_>,
        corpus: Corpus<'_>,
        passages: Vec<Passage>,
    ) -> Result<PassagesWithRemarks, Error> {
        let mut all = PassagesWithRemarks::from(passages);
        for (name, step) in &self.0 {
            // Where there is one step, its span is that of the stage.
            let span = if self.0.len() > 1 { trace::stage("refine", name) } else { Span::none() };
            trace::record_input(&span, &all.passages);
            let refined = in_span(span.clone(), step.run_with_remarks(query, corpus, all.passages)).await?;
            trace::record_output(&span, &refined.passages);
            let PassagesWithRemarks { passages, remarks, failed } = refined;
            all.passages = passages;
            all.remarks.extend(remarks);
            all.failed |= failed;
        }
        Ok(all)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        axes::ReadSpace,
        generate::tests::{ScriptedChat, reply},
        rerank::tests::Fixture,
    };

    /// The passages that a step makes of the fixture's.
    pub(crate) async fn refined(config: Value) -> Vec<Passage> {
        let fixture = Fixture::new();
        let config: RefineConfig = serde_json::from_value(config).unwrap();
        let step = config.step(&fixture.context()).unwrap();
        step.run(fixture.query(), fixture.corpus(), fixture.passages.clone()).await.unwrap()
    }

    /// What a step that asks a model and searches again made.
    pub(crate) struct StepOutcome {
        pub(crate) refined: PassagesWithRemarks,
        /// The texts of the passages that it was given.
        pub(crate) given: Vec<String>,
        /// The last messages of its calls.
        pub(crate) prompts: Vec<String>,
    }

    /// What a step makes of "the cat sat on the mat" and "the dog chased the
    /// cat", with BM25 to search again and a model that replies so, one after the
    /// other, and fails behind the last.
    pub(crate) async fn again(config: Value, question: &str, replies: &[&str]) -> Result<StepOutcome, Error> {
        let corpus = crate::retrieve::tests::Fixture::new();
        let replies: Vec<String> = replies.iter().map(|&reply| reply.to_owned()).collect();
        let script = ScriptedChat::replying(4096, move |call, _| match replies.get(call) {
            Some(text) => Ok(reply(text.as_str())),
            None => Err(models::Error::Config("it is down".to_owned())),
        });
        let pipeline = json!({ "chunker": { "sentence": {} }, "retriever": { "bm25": { "top_k": 2 } } });
        let pipeline: crate::PipelineConfig = serde_json::from_value(pipeline).unwrap();
        let config: RefineConfig = serde_json::from_value(config).unwrap();
        let step = config.step(&Context { pipeline: Some(&pipeline), ..script.context() })?;
        let passages: Vec<Passage> =
            [1, 2].map(|row| corpus.table.passage(crate::Hit { row, score: 1.0 / row as f32 })).to_vec();
        let given = passages.iter().map(|passage| passage.text.clone()).collect();
        let refined = step.run_with_remarks(corpus.query(question, &[1.0, 0.0]), corpus.corpus(), passages).await?;
        Ok(StepOutcome { refined, given, prompts: script.prompts() })
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
        let keyed = |value| read(value).unwrap().settings_for_key();
        assert_eq!(keyed(json!(["none", "threshold", "none"])), keyed(json!("threshold")));
        assert_ne!(keyed(json!(["threshold", "threshold"])), keyed(json!("threshold")));
    }

    #[test]
    fn an_axis_that_is_not_listed_refines_nothing() {
        struct Nothing;
        impl ReadSpace for Nothing {
            fn read<T: AxisValue>(&mut self, _: crate::Axis) -> Vec<T> {
                Vec::new()
            }
        }
        let space = crate::Space::read(&mut Nothing);
        assert!(space.refine.len() == 1 && space.refine[0].is_nothing());
    }

    #[tokio::test]
    async fn every_step_that_asks_no_model_gives_the_same_again_and_nothing_for_nothing() {
        let fixture = Fixture::new();
        // A step that looks at a field is refused where no document has it.
        let runs = |config: &RefinerConfig| config.models().is_empty() && config.fields().is_empty();
        for config in RefinerConfig::defaults().into_iter().filter(runs) {
            let Ok(step) = config.build(&fixture.context()) else { continue };
            let run =
                async |passages: Vec<Passage>| step.run(fixture.query(), fixture.corpus(), passages).await.unwrap();
            let found = run(fixture.passages.clone()).await;
            assert_eq!(found, run(fixture.passages.clone()).await, "{}", config.name());
            assert!(!found.is_empty(), "{}", config.name());
            assert!(run(Vec::new()).await.is_empty(), "{}", config.name());
        }
    }

    /// A number below `n`, the same again for the same state (xorshift).
    fn below(state: &mut u64, n: usize) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state % n as u64) as usize
    }

    #[tokio::test]
    async fn every_step_gives_only_text_of_the_documents_and_no_byte_twice() {
        use pieces::tests::{assert_true, chunks, hits};
        let prose = "Der Müller mahlt. Cats run; dogs sleep! 中文句子。第二句话！ Is it old? Yes, it is.\n\n";
        let texts = [
            prose.repeat(3),
            format!("# Mühle\n\n{}\n\n# Barn\n\n{}", prose.repeat(2), prose.repeat(4)),
            "One sentence only".to_owned(),
        ];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let fixture = Fixture::new();
        let mut state = 88_172_645_463_325_252;
        for chunker in [
            json!({ "sentence": { "chunk_size": 16, "chunk_overlap": 8 } }),
            json!({ "sentence_window": { "window_size": 1 } }),
            json!({ "hierarchical": { "chunk_sizes": [64, 16], "chunk_overlap": 4 } }),
            json!({ "token": { "chunk_size": 12, "chunk_overlap": 3 } }),
        ] {
            let table = chunks(chunker.clone(), &texts);
            let corpus = Corpus::exact(&table, &[]);
            for round in 0..20 {
                let n = below(&mut state, table.searchable().len());
                let mut rows: Vec<u32> = Vec::new();
                for _ in 0..n {
                    let row = table.searchable()[below(&mut state, table.searchable().len())];
                    if !rows.contains(&row) {
                        rows.push(row);
                    }
                }
                let given = hits(&table, &rows);
                for steps in [
                    json!("threshold"),
                    json!("score_gap"),
                    json!("dedupe"),
                    json!({ "dedupe": { "similarity": 0.5 } }),
                    json!({ "neighbours": { "chunks": 1 + round % 3 } }),
                    json!("parents"),
                    json!({ "budget": { "tokens": 16 + below(&mut state, 200) } }),
                    json!("long_context_reorder"),
                    json!("long_context"),
                    json!({ "long_context": { "tokens": 16 + below(&mut state, 100) } }),
                    json!({ "sentences": { "least": 0.8, "neighbours": round % 2 } }),
                    json!([{ "sentences": { "least": 0.8, "neighbours": 0 } }, "neighbours", { "budget": { "tokens": 60 } }]),
                    json!([{ "sentences": { "least": 0.8 } }, "parents", { "sentences": {} }, "dedupe"]),
                ] {
                    let config = read(steps).unwrap();
                    let step = config.step(&fixture.context()).unwrap();
                    let query = Query { text: "Cats run?", embedding: None, tokens: None, filter: None };
                    let made = step.run(query, corpus, given.clone()).await.unwrap();
                    let name = format!("{} after {chunker} with {rows:?}", config.value());
                    assert!(made.len() <= given.len(), "{name}");
                    assert!(!made.is_empty() || given.is_empty(), "{name}");
                    for passage in &made {
                        let number: usize = passage.document.trim_end_matches(".md").parse().unwrap();
                        assert_true(passage, texts[number]);
                        assert!(passage.rows.iter().all(|row| rows.contains(row)), "{name}");
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn steps_run_in_their_order() {
        let kept = refined(json!([{ "threshold": { "least": 0.4 } }, { "threshold": { "least": 0.9 } }])).await;
        assert_eq!(kept.len(), 1);
    }
}
