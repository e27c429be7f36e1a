//! Checks that every prompt that asks for a text names the language of that text: the language of
//! the question, the passage or the documents. The components come from their registries, so new
//! ones are tested too.

use crate::{
    Component, Context, Hit, PassageStage,
    enrich::{self, EnrichConfig},
    generate::{
        GeneratorConfig,
        tests::{ScriptedChat, passage, reply},
    },
    query::{QueryConfig, asker::holds_free_text},
    refine::{RefineConfig, RefinerConfig},
    rerank::{self, RerankerConfig},
    retrieve,
};
use models::{ChatRequest, Message};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const QUESTION: &str = "Welche der beiden Mühlen ist älter?";
/// The languages that a prompt may ask for. Each prompt for a text must name one.
const LANGUAGES: [&str; 3] = ["language of the question", "language of the passage", "language of the documents"];

/// A reply that fits this schema. Where only some values are allowed, it takes the first one or, with `last`, the
/// last one.
fn instance(schema: &Value, last: bool) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        let value = if last { values.last() } else { values.first() };
        return value.cloned().unwrap_or_default();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let fields: Map<String, Value> =
                properties.map(|(name, schema)| (name.clone(), instance(schema, last))).collect();
            fields.into()
        }
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(1).max(1);
            (0..least).map(|_| instance(&schema["items"], last)).collect()
        }
        Some("string") => "Wann wurde die Mühle in Ode gebaut?".into(),
        Some("boolean") => last.into(),
        _ => 1.into(),
    }
}

/// A model that replies with an instance of the request's schema, or with a sentence if there is no schema.
fn obedient(last: bool) -> Arc<ScriptedChat> {
    ScriptedChat::replying(4096, move |_, request| {
        Ok(match &request.schema {
            Some(schema) => reply(instance(schema, last).to_string()),
            None => reply("Die Mühle in Ode wurde 1712 gebaut [1]."),
        })
    })
}

/// Checks that each of a component's requests for a text names its language. Returns whether there was such a request.
fn check(component: &str, script: &ScriptedChat) -> bool {
    let requests = script.requests();
    assert!(!requests.is_empty(), "{component} asks its model nothing");
    let is_text = |request: &ChatRequest| match &request.schema {
        Some(schema) => holds_free_text(schema),
        None => request.choices.is_empty(),
    };
    for request in requests.iter().filter(|request| is_text(request)) {
        let prompt: String = request.messages.iter().map(|message| message.content.as_str()).collect();
        assert!(
            LANGUAGES.iter().any(|language| prompt.contains(language)),
            "{component} does not say in which language: {prompt}"
        );
    }
    requests.iter().any(is_text)
}

#[tokio::test]
async fn queries_are_asked_for_in_the_language_of_the_question() {
    let history = [Message::user("Es gibt zwei Mühlen."), Message::assistant("Ja, in Ode und in Rye.")];
    let mut writers = 0;
    let fields = json!({ "self_query": { "fields": { "topic": "text", "year": "number" } } });
    let with_fields: QueryConfig = serde_json::from_value(fields).unwrap();
    for config in QueryConfig::defaults().into_iter().filter(|config| !config.models().is_empty()) {
        let config = if config.name() == with_fields.name() { with_fields.clone() } else { config };
        let script = obedient(true);
        config.build(&script.context()).unwrap().write(QUESTION, &history).await.unwrap();
        writers += usize::from(check(config.name(), &script));
    }
    assert!(writers >= 7, "{writers} writers");
}

#[tokio::test]
async fn answers_are_asked_for_in_the_language_of_the_question() {
    let passages = [passage("Die Mühle in Ode wurde 1712 gebaut."), passage("Jene in Rye steht seit 1790.")];
    let mut generators = 0;
    let asks_model = |config: &GeneratorConfig| config.model().is_some() && !config.runs_function();
    for config in GeneratorConfig::defaults().into_iter().filter(asks_model) {
        for last in [false, true] {
            let script = obedient(last);
            config.build(&script.context()).unwrap().generate(QUESTION, &passages).await.unwrap();
            generators += usize::from(check(config.name(), &script));
        }
    }
    assert!(generators >= 10, "{generators} generators, each twice");
}

#[tokio::test]
async fn steps_that_ask_a_model_search_in_the_language_of_the_question() {
    let mut steps = 0;
    for config in RefinerConfig::defaults().into_iter().filter(|config| !config.models().is_empty()) {
        for last in [false, true] {
            let corpus = retrieve::tests::Fixture::new();
            let script = obedient(last);
            let pipeline = json!({ "chunker": { "sentence": {} }, "retriever": { "bm25": { "top_k": 2 } } });
            let pipeline: crate::PipelineConfig = serde_json::from_value(pipeline).unwrap();
            let name = config.name().to_owned();
            let config: RefineConfig = vec![config.clone()].into();
            let step = config.step(&Context { pipeline: Some(&pipeline), ..script.context() }).unwrap();
            let passages = [1, 2].map(|row| corpus.table.passage(Hit { row, score: 1.0 / row as f32 })).to_vec();
            step.run_with_remarks(corpus.query(QUESTION, &[1.0, 0.0]), corpus.corpus(), passages).await.unwrap();
            steps += usize::from(check(&name, &script));
        }
    }
    assert!(steps >= 2, "{steps} steps");
}

#[tokio::test]
async fn what_is_written_beside_a_chunk_is_asked_for_in_its_language() {
    let (document, chunks) = enrich::tests::book();
    let mut enrichers = 0;
    for config in EnrichConfig::defaults().into_iter().filter(|config| !config.models().is_empty()) {
        let script = obedient(true);
        let enricher = config.build(&script.context()).unwrap();
        enricher.enrich(&document, &chunks.iter().collect::<Vec<_>>()).await.unwrap();
        enrichers += usize::from(check(config.name(), &script));
    }
    assert!(enrichers >= 2, "{enrichers} enrichers");
}

#[tokio::test]
async fn rerankers_write_no_text_or_say_in_which_language() {
    for config in RerankerConfig::defaults().into_iter().filter(|config| !config.runs_function()) {
        let mut fixture = rerank::tests::Fixture::new();
        let script = obedient(true);
        fixture.models.chat = script.handle();
        let Ok(reranker) = config.build(&fixture.context()) else { continue };
        let _ = fixture.rerank(&*reranker).await;
        if !script.requests().is_empty() {
            check(config.name(), &script);
        }
    }
}
