//! What a run measures is what is served: every component of every stage
//! answers a question alike in a run and in a pipeline that is asked.
//!
//! Components are taken from the registries, so a new one is tried without
//! being named here. Each query component is combined with each step after the
//! search, because these share the question that both see. Four questions: with
//! and without earlier messages, with and without a filter.
//!
//! The prompts are equal, byte for byte: the journal of the run answers each
//! call of the pipeline, so the model's server is not asked again.

use crate::{endpoint, workspace::Workspace};
use lab::{Experiment, RunPipeline, Session, latest_record};
use rag::{
    Axis, Data, InputSize, PipelineConfig,
    pipeline::{AskedQuestion, PipelineEvent},
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio_util::sync::CancellationToken;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::path_regex};

/// Components with a test of their own: `late_chunking` needs an embedder whose library may not be there, the others a
/// server.
const TESTED_ALONE: [&str; 7] = ["late_chunking", "pgvector", "chroma", "qdrant", "milvus", "elasticsearch", "http"];

/// Functions for the components `python`.
const FUNCTIONS: [(&str, &str); 4] = [
    ("chunker", "def chunk(text):\n    return [part for part in text.split('\\n\\n') if part.strip()]\n"),
    (
        "retriever",
        "def retrieve(questions, chunks):\n    shared = lambda one, other: len(set(one.lower().split()) & set(other.lower().split()))\n    \
         return [[(i, shared(q, chunk)) for i, chunk in enumerate(chunks)] for q in questions]\n",
    ),
    (
        "reranker",
        "def rerank(question, passages):\n    return [sum(word in p for word in question.split()) for p in passages]\n",
    ),
    ("generator", "def write(question, passages):\n    return ' '.join(passages) + ' [1] ' + question\n"),
];

/// A chat model that replies in the words of its prompt, in the form that it is asked for.
struct Parrot;

impl Parrot {
    /// A value of this schema, made of these words.
    fn value(schema: &Value, words: &[&str], at: &mut usize) -> Value {
        if let Some(first) = schema["enum"].get(0).or(schema.get("const")) {
            return first.clone();
        }
        match schema["type"].as_str() {
            Some("object") => {
                let properties = schema["properties"].as_object().cloned().unwrap_or_default();
                let fields = properties.iter().map(|(name, inner)| (name.clone(), Self::value(inner, words, at)));
                Value::Object(fields.collect())
            }
            Some("array") => {
                let n = schema["minItems"].as_u64().unwrap_or(1).max(2).min(schema["maxItems"].as_u64().unwrap_or(9));
                (0..n).map(|_| Self::value(&schema["items"], words, at)).collect()
            }
            Some("integer" | "number") => {
                *at += 1;
                let (least, most) = (schema["minimum"].as_i64().unwrap_or(1), schema["maximum"].as_i64().unwrap_or(3));
                json!((least + *at as i64 % 3).min(most))
            }
            Some("boolean") => json!(true),
            Some("string") => {
                *at += 5;
                let taken = (0..5).map(|i| words[(*at + 3 * i) % words.len()]);
                json!(taken.collect::<Vec<_>>().join(" "))
            }
            _ => Value::Null,
        }
    }
}

impl Respond for Parrot {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let prompt = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let words: Vec<&str> = prompt.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).collect();
        let mut at = prompt.len();
        let schema = &body["response_format"]["json_schema"]["schema"];
        let text = match (schema, body["logprobs"].as_bool()) {
            (Value::Object(_), _) => Self::value(schema, &words, &mut at).to_string(),
            (_, Some(true)) => "Yes".to_owned(),
            _ => format!("{} [1]", Self::value(&json!({ "type": "string" }), &words, &mut at).as_str().unwrap()),
        };
        let yes = f64::from(at as u32 % 90 + 5) / 100.0;
        let token = |token: &str, share: f64| json!({ "token": token, "logprob": share.ln(), "bytes": null });
        let mut first = token("Yes", yes);
        first["top_logprobs"] = json!([token("Yes", yes), token("No", 1.0 - yes)]);
        let logprobs = if body["logprobs"] == true { json!({ "content": [first] }) } else { Value::Null };
        ResponseTemplate::new(200).set_body_json(json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{
                "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop", "logprobs": logprobs,
            }],
            "usage": { "prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62 },
        }))
    }
}

/// A rerank model that counts the letters that a passage shares with the query.
struct Letters;

impl Respond for Letters {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let query: BTreeSet<char> = body["query"].as_str().unwrap().chars().collect();
        let shared = |text: &Value| text.as_str().unwrap().chars().filter(|c| query.contains(c)).count();
        let documents = body["documents"].as_array().unwrap().iter().enumerate();
        let results: Vec<Value> = documents
            .map(|(index, text)| json!({ "index": index, "relevance_score": shared(text) as f64 / 100.0 }))
            .collect();
        ResponseTemplate::new(200).set_body_json(json!({ "results": results, "usage": { "total_tokens": 9 } }))
    }
}

/// The pipeline in which one component after the other is tried.
fn base() -> Map<String, Value> {
    let base = json!({
        "chunker": { "sentence": { "chunk_size": 24, "chunk_overlap": 0 } }, "embedder": "tiny",
        "retriever": { "hybrid": { "top_k": 4 } }, "generator": { "compact": { "model": "gpt" } },
    });
    base.as_object().unwrap().clone()
}

/// What is written for a component on an axis: its name with the settings that it must have.
fn written(axis: Axis, name: &str) -> Option<Value> {
    let pipeline = |value: &Value| {
        let mut pipeline = base();
        let value = if axis == Axis::Refine { json!([value]) } else { value.clone() };
        pipeline.insert(axis.name().to_owned(), value);
        serde_json::from_value::<PipelineConfig>(pipeline.into()).ok()
    };
    if axis == Axis::Prompt {
        // `file` is a prompt of one's own.
        return Some(if pipeline(&json!(name)).is_some() { json!(name) } else { json!("own.toml") });
    }
    let function = FUNCTIONS.iter().find(|(of, _)| *of == axis.name()).map(|(_, source)| json!(source));
    let candidates = [
        ("model", json!("gpt")),
        ("fields", json!({ "author": "text" })),
        ("source", function.unwrap_or_default()),
        ("settings", json!({ "model": "gpt" })),
    ];
    let mut settings = Map::new();
    for (key, value) in candidates {
        let more = Map::from_iter(settings.clone().into_iter().chain([(key.to_owned(), value)]));
        if pipeline(&json!({ name: more })).is_some()
            && (key != "settings" || axis == Axis::Generator && name == "python")
        {
            settings = more;
        }
    }
    let config = pipeline(&json!({ name: settings }))?;
    let on = config.on(axis)?;
    if on.estimate_calls(InputSize::default()).iter().any(|ask| ask.kind == models::ModelKind::Rerank) {
        settings.insert("model".to_owned(), json!("ranker"));
    }
    Some(json!({ name: settings }))
}

/// All components of an axis.
fn all(axis: Axis) -> Vec<Value> {
    let names = axis.docs().into_iter().map(|(name, _)| name).filter(|name| !TESTED_ALONE.contains(name));
    // Without chunks, only an index of the user's own can be searched.
    let names = names.filter(|name| (axis, *name) != (Axis::Chunker, "none"));
    names
        .map(|name| written(axis, name).ok_or(format!("{}.{name} needs more settings", axis.name())).unwrap())
        .collect()
}

/// A JSON value as TOML writes it in a line.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A part of the search space: the base with these lists in place of its values.
fn space(lists: &[(Axis, Vec<Value>)]) -> String {
    let mut space = base();
    space.values_mut().for_each(|value| *value = json!([value]));
    for (axis, values) in lists {
        let values = values.iter().map(|value| if *axis == Axis::Refine { json!([value]) } else { value.clone() });
        space.insert(axis.name().to_owned(), values.collect());
    }
    let lines: Vec<String> = space.iter().map(|(axis, values)| format!("{axis} = {}", toml(values))).collect();
    format!("[[space]]\n{}\n", lines.join("\n"))
}

const QUESTIONS: [(&str, &str, bool, bool); 4] = [
    ("plain", "By how many degrees does an owl turn its head?", false, false),
    ("after", "And what do barn owls swallow?", true, false),
    ("within", "How long do songs of humpback whales last?", false, true),
    ("both", "And where do they sleep?", true, true),
];

fn golden() -> String {
    let line = |(id, question, turns, filter): &(&str, &str, bool, bool)| {
        let mut line = json!({ "id": id, "question": question, "reference": "Yes." });
        if *turns {
            line["turns"] = json!([
                { "role": "user", "content": "Which animals live along rivers and hold hands?" },
                { "role": "assistant", "content": "Sea otters do, while beavers build dams." },
            ]);
        }
        if *filter {
            line["filter"] = json!({ "path": { "glob": "*.md" } });
        }
        line.to_string()
    };
    QUESTIONS.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Every component but those of [`TESTED_ALONE`].
fn all_spaces() -> Vec<String> {
    let changes_passages = |axis: &Axis| axis.input() == Data::Passages && axis.output() == Data::Passages;
    let steps = Axis::ALL.iter().copied().filter(changes_passages).map(|axis| (axis, all(axis)));
    let (queries, filter) = (all(Axis::Query), json!({ "filter": { "where": { "author": ["Ann", "Ben"] } } }));
    let queries: Vec<Value> = queries.into_iter().chain([filter]).collect();
    let mut spaces: Vec<String> = steps.map(|step| space(&[(Axis::Query, queries.clone()), step])).collect();
    spaces.push(space(&[(Axis::Chunker, all(Axis::Chunker)), (Axis::Retriever, all(Axis::Retriever))]));
    spaces.push(space(&[(Axis::Index, all(Axis::Index)), (Axis::Retriever, all(Axis::Retriever))]));
    spaces.push(space(&[(Axis::Enrich, all(Axis::Enrich)), (Axis::Generator, all(Axis::Generator))]));
    spaces.push(space(&[(Axis::Query, queries), (Axis::Prompt, all(Axis::Prompt))]));
    spaces
}

/// An experiment with these parts of the search space and more `models`.
fn experiment(workspace: &Workspace, server: &MockServer, spaces: &[String], models: &str) -> String {
    let tiny = Value::String(workspace.file("tiny").display().to_string());
    let url = server.uri();
    format!(
        "name = \"paths\"\nstore = \"store\"\n\n[corpus]\nsource = \"documents\"\n\n[dataset]\npath = \"golden.jsonl\"\n\n\
         [evaluate]\nmetrics = [\"token_f1\"]\n\n[models]\ntiny.embedding.static = {{ model = {tiny} }}\n\
         gpt.chat.openai = {{ model = \"m\", base_url = \"{url}/v1\" }}\n\
         ranker.rerank.openai = {{ model = \"r\", base_url = \"{url}/v1\" }}\n{models}\n{}",
        spaces.join("\n")
    )
}

/// What a question finds, and its answer, as they are told to a service.
async fn streamed(pipeline: &RunPipeline, question: &eval::Question) -> (Vec<rag::Passage>, Option<rag::Answer>) {
    let found = std::sync::Mutex::new((Vec::new(), None));
    let on_event = |event| match event {
        PipelineEvent::PassagesFound(passages) => found.lock().unwrap().0 = passages,
        PipelineEvent::Answered(answer) => found.lock().unwrap().1 = Some(answer),
        _ => {}
    };
    pipeline.ask(&question.question, &question.turns, usize::MAX, on_event).await.unwrap();
    found.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_component_answers_alike_in_a_run_and_in_a_pipeline_that_is_asked() {
    let rewritten = compare(&Workspace::new(), &all_spaces(), "").await;
    assert!(rewritten > 50, "{rewritten} questions were rewritten");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_chunking_answers_alike_in_a_run_and_in_a_pipeline_that_is_asked() {
    if std::env::var_os("REVERIE_TEST_LIBRARIES").is_none() {
        return skips::skip("REVERIE_TEST_LIBRARIES is not set");
    }
    let workspace = Workspace::new();
    models::testing::write_small_bert(&workspace.file("bert"), &crate::corpus::words()).unwrap();
    let model = Value::String(workspace.file("bert").display().to_string());
    let space = "[[space]]\nchunker = [{ sentence = { chunk_size = 16, chunk_overlap = 0 } }]\nembedder = [\"bert\"]\n\
                 enrich = [{ late_chunking = { overlap = 8, least_window = 16 } }]\n\
                 retriever = [{ dense = { top_k = 4 } }, { hybrid = { top_k = 4 } }]\n\
                 generator = [{ compact = { model = \"gpt\" } }]\n";
    compare(&workspace, &[space.to_owned()], &format!("bert.embedding.local = {{ model = {model} }}\n")).await;
}

/// Compares what a run measured with the answers of pipelines that are asked, and returns how many questions were
/// rewritten.
#[expect(clippy::print_stderr, reason = "the counts are what the test has to show")]
async fn compare(workspace: &Workspace, spaces: &[String], models: &str) -> usize {
    let server = endpoint::start_with(Parrot).await;
    Mock::given(path_regex("/rerank$")).respond_with(Letters).mount(&server).await;
    let front = |author: &str, date: &str, text: &str| format!("---\nauthor: {author}\ndate: {date}\n---\n\n{text}");
    workspace.write("documents/otters.md", front("Ann", "2024-05-01", crate::corpus::OTTERS));
    workspace.write("documents/owls.md", front("Ben", "2019-02-01", crate::corpus::OWLS));
    workspace.write("own.toml", "system = 'Answer from the sources.'\nuser = '{sources} {question}'\n");
    workspace.write("golden.jsonl", golden());
    let text = experiment(workspace, &server, spaces, models);
    workspace.write("experiment.toml", &text);
    workspace.run(&["run", "--quiet"]).succeeds();
    let asked = server.received_requests().await.unwrap().len();

    let parsed = Experiment::parse(&text, workspace.path()).unwrap();
    let mut setup = app::setup(CancellationToken::new());
    if let Some(libraries) = std::env::var_os("REVERIE_TEST_LIBRARIES") {
        let libraries = std::env::split_paths(&libraries).collect();
        setup.directory = models::ModelDirectory::new(workspace.file("home/models"), libraries);
    }
    let session = Session::open(parsed, setup).unwrap();
    let record = latest_record(&session).await.unwrap();
    let results = record.results(&session).await.unwrap();
    let mut different: BTreeMap<String, usize> = BTreeMap::new();
    let (mut compared, mut rewritten, mut fallbacks) = (0, 0, 0);
    for found in &results.trials {
        let pipeline = RunPipeline::open(&session, &record, &found.trial.id).await.unwrap();
        for (question, measured) in results.questions.iter().zip(&found.questions) {
            let at =
                AskedQuestion { text: &question.question, history: &question.turns, filter: question.filter.as_ref() };
            let served = pipeline.query_with(at, None).await.unwrap();
            let searched = served.remarks.first().filter(|remark| remark.starts_with("the question is searched as: "));
            let remarks = &served.remarks[usize::from(searched.is_some())..];
            // Every digit of the scores counts.
            let text = |passages: &Vec<rag::Passage>| serde_json::to_string(passages).unwrap();
            let (one, other) = (&measured.answer, &served.answer);
            let answers = |answer: &Option<rag::Answer>| {
                answer.as_ref().map(|answer| (answer.text.clone(), answer.citations.clone(), answer.dropped_passages))
            };
            // As a service asks: whatever happens is told on the way. A request has no filter.
            let streamed = match question.filter {
                None => Some(streamed(&pipeline, question).await),
                Some(_) => None,
            };
            let is_streamed_alike = streamed.is_none_or(|(passages, answer)| {
                text(&measured.passages) == text(&passages) && answers(&measured.answer) == answers(&answer)
            });
            let equal = text(&measured.passages) == text(&served.passages)
                && is_streamed_alike
                && measured.remarks == remarks
                && measured.query_fallback == served.query_fallback
                && answers(one) == answers(other);
            compared += 1;
            rewritten += usize::from(searched.is_some());
            fallbacks += usize::from(served.query_fallback.is_some());
            if !equal {
                let trial: Vec<&str> = found.trial.labels.values().map(String::as_str).collect();
                *different.entry(format!("{} ({})", trial.join(" · "), question.id)).or_default() += 1;
            }
        }
    }
    let again = server.received_requests().await.unwrap().len() - asked;
    eprintln!(
        "{} trials, {compared} answers compared, {rewritten} of rewritten questions, {fallbacks} fallbacks, {again} new calls",
        results.trials.len()
    );
    assert!(different.is_empty(), "{} of {compared} answers differ: {different:#?}", different.len());
    assert_eq!(again, 0, "the pipeline wrote prompts that the run did not write");
    assert!(compared >= QUESTIONS.len(), "{compared} answers were compared");
    rewritten
}
