//! The parts of a bundle, each opened alone and connected to the others: their
//! answers are those of the whole pipeline. Ray Serve connects the same parts
//! (`crates/python/tests/cluster/test_graph.py`).

use crate::{attacks::eventually, endpoint, workspace::Workspace};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use lab::{Part, PartTransport, PartUnavailable};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use serve::{HttpService, ServedPipeline, ServiceSettings, StopSignals};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use wiremock::{MockServer, ResponseTemplate};

/// Brings requests to parts of this process, and knows what was asked.
#[derive(Default)]
struct Wires {
    parts: Mutex<HashMap<Part, Arc<ServedPipeline>>>,
    asked: Mutex<Vec<Part>>,
    /// Parts whose process has ended, so many times.
    dead: Mutex<HashMap<Part, usize>>,
    /// One for each call that was begun and not dropped.
    calls: Arc<()>,
}

impl PartTransport for Wires {
    fn call(&self, part: Part, _: bool, request: Vec<u8>) -> BoxStream<'static, Result<Vec<u8>, PartUnavailable>> {
        self.asked.lock().unwrap().push(part);
        if let Some(times) = self.dead.lock().unwrap().get_mut(&part).filter(|times| **times > 0) {
            *times -= 1;
            return stream::iter([Err(PartUnavailable::Died("it was killed".into()))]).boxed();
        }
        match self.parts.lock().unwrap().get(&part) {
            Some(served) => {
                let call = self.calls.clone();
                let reply = move |reply| {
                    let _ = &call;
                    Ok(reply)
                };
                served.reply(&request).map(reply).boxed()
            }
            None => stream::iter([Err(PartUnavailable::Failed("there is none".into()))]).boxed(),
        }
    }
}

/// A service that ends with its test.
struct Running {
    url: String,
    client: Client,
    _stop: tokio_util::sync::DropGuard,
}

impl Running {
    async fn of(served: ServedPipeline) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let settings = ServiceSettings {
            public_url: Some("http://manuals.example.com".into()),
            any_host: true,
            failures_to_break: 2,
            ..ServiceSettings::default()
        };
        let (stop, ready) = (CancellationToken::new(), tokio::sync::oneshot::channel());
        let service = HttpService::new(served, settings);
        let on_ready = move || {
            let _ = ready.0.send(());
        };
        tokio::spawn(service.run(
            listener,
            None,
            on_ready,
            StopSignals { now: stop.clone(), ..StopSignals::default() },
        ));
        ready.1.await.unwrap();
        Self { url, client: Client::new(), _stop: stop.drop_guard() }
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let response = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        (response.status(), without_id(response.json().await.unwrap()))
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let response = self.client.post(format!("{}{path}", self.url)).json(body).send().await.unwrap();
        (response.status(), without_id(response.json().await.unwrap()))
    }

    /// The data of a stream, without ids and times.
    async fn streamed(&self, body: &Value) -> Vec<String> {
        let response = self.client.post(format!("{}/v1/chat/completions", self.url)).json(body).send().await.unwrap();
        let text = response.text().await.unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|line| match serde_json::from_str(line) {
            Ok(value) => without_id(value).to_string(),
            Err(_) => line.to_owned(),
        })
        .collect()
    }
}

fn without_id(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        for name in ["id", "created"] {
            fields.remove(name);
        }
    }
    value
}

async fn opened(workspace: &Workspace, part: Option<(Part, Arc<Wires>)>) -> ServedPipeline {
    let (setup, bundle) = (app::setup(CancellationToken::new()), workspace.file("bundle").display().to_string());
    let (cache, scratch) = (workspace.file("cache"), workspace.file("scratch"));
    match part {
        Some((part, others)) => {
            ServedPipeline::open_bundle_part(&bundle, setup, &cache, &scratch, part, others).await.unwrap()
        }
        None => ServedPipeline::open_bundle(&bundle, setup, &cache, &scratch).await.unwrap(),
    }
}

/// A bundle of a pipeline, served whole and as a graph.
async fn both(space: &str, server: &MockServer) -> (Workspace, Running, Running, Arc<Wires>) {
    store::choose_cryptography();
    let workspace = Workspace::new();
    workspace.experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n{}", endpoint::model(server)));
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "bundle"]).succeeds();
    let wires = Arc::new(Wires::default());
    let (bundle, setup) = (workspace.file("bundle").display().to_string(), app::setup(CancellationToken::new()));
    for part in Part::of_bundle(&bundle, &setup).await.unwrap() {
        let served = opened(&workspace, Some((part, wires.clone()))).await;
        served.warm().await.unwrap();
        if part != Part::Gateway {
            wires.parts.lock().unwrap().insert(part, Arc::new(served));
        }
    }
    assert_eq!(*wires.asked.lock().unwrap(), [], "a part asks nobody to become ready");
    let whole = Running::of(opened(&workspace, None).await).await;
    let graph = Running::of(opened(&workspace, Some((Part::Gateway, wires.clone()))).await).await;
    (workspace, whole, graph, wires)
}

fn questions(workspace: &Workspace) -> Vec<String> {
    let golden = std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    let question = |line: &str| serde_json::from_str::<Value>(line).unwrap()["question"].as_str().unwrap().to_owned();
    golden.lines().map(question).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_answers_every_question_as_the_whole_pipeline_does() {
    let server = endpoint::start(Duration::ZERO).await;
    let spaces = [
        "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
         retriever = [{ hybrid = { top_k = 4 } }]\nrefine = [[\"dedupe\"]]\ngenerator = [{ compact = { model = \"gpt\" } }]",
        // Steps that look at chunks, steps that do not, and models in every part.
        "chunker = [{ hierarchical = { chunk_sizes = [64, 32], chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
         query = [{ hyde = { model = \"gpt\" } }]\nretriever = [{ dense = { top_k = 4 } }]\n\
         reranker = [{ listwise = { model = \"gpt\", top_n = 3 } }]\n\
         refine = [[\"neighbours\", \"parents\", \"sentences\"]]\ngenerator = [{ refine = { model = \"gpt\" } }]",
        "chunker = [{ sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nquery = [{ condense = { model = \"gpt\" } }]\n\
         retriever = [{ bm25 = { top_k = 3 } }]\nrefine = [[{ corrective = { model = \"gpt\" } }]]\n\
         generator = [{ compact = { model = \"gpt\" } }]",
    ];
    for space in spaces {
        let (workspace, whole, graph, wires) = both(space, &server).await;
        for question in questions(&workspace) {
            let path = format!("/rag/answer?query={question}");
            let (status, answered) = whole.get(&path).await;
            assert_eq!(status, StatusCode::OK, "{answered}");
            assert_eq!(graph.get(&path).await, (status, answered.clone()), "{space}: {question}");
            let path = format!("/rag/retrieve?query={question}&top_k=2");
            assert_eq!(graph.get(&path).await, whole.get(&path).await, "{space}: {question}");
            let conversation = json!([
                { "role": "user", "content": "What do barn owls swallow?" }, { "role": "assistant", "content": "Mice." },
                { "role": "user", "content": question },
            ]);
            let asked = json!({ "model": "animals", "messages": conversation });
            assert_eq!(
                graph.post("/v1/chat/completions", &asked).await,
                whole.post("/v1/chat/completions", &asked).await,
                "{space}: {question}"
            );
            let asked = json!({ "model": "animals", "messages": conversation, "stream": true });
            assert_eq!(graph.streamed(&asked).await.last().unwrap(), "[DONE]");
            assert_eq!(text(&graph.streamed(&asked).await), text(&whole.streamed(&asked).await), "{space}: {question}");
            let source = answered["sources"][0]["id"].as_str().unwrap();
            let path = format!("/rag/sources/{source}");
            assert_eq!(graph.get(&path).await, whole.get(&path).await);
        }
        let ranked = json!({ "model": "animals", "query": "owls", "documents": ["a cat", "barn owls swallow mice"] });
        assert_eq!(graph.post("/v1/rerank", &ranked).await, whole.post("/v1/rerank", &ranked).await, "{space}");
        let vectors = json!({ "model": "animals", "input": ["a cat", "barn owls"] });
        assert_eq!(
            graph.post("/v1/embeddings", &vectors).await,
            whole.post("/v1/embeddings", &vectors).await,
            "{space}"
        );
        let asked = wires.asked.lock().unwrap().clone();
        for part in [Part::Qa, Part::Retriever, Part::VectorStore, Part::Llm] {
            assert!(asked.contains(&part), "{space}: nobody asked the {}", part.name());
        }
    }
}

/// What a stream says, and its sources.
fn text(data: &[String]) -> (String, Value) {
    let values: Vec<Value> = data.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let pieces = values.iter().filter_map(|value| value["choices"][0]["delta"]["content"].as_str());
    let sources = values.iter().find(|value| value["sources"].is_array()).map(|value| value["sources"].clone());
    (pieces.collect(), sources.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_in_a_part_is_told_as_in_the_whole_and_opens_the_breaker() {
    let server = endpoint::start(Duration::ZERO).await;
    let (_workspace, whole, graph, _) = both(SIMPLE, &server).await;
    server.reset().await;
    wiremock::Mock::given(wiremock::matchers::path_regex("/chat/completions$"))
        .respond_with(ResponseTemplate::new(401).set_body_json(json!({ "error": { "message": "who are you?" } })))
        .mount(&server)
        .await;
    let path = "/rag/answer?query=What+do+otters+hold%3F";
    let (status, error) = graph.get(path).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{error}");
    assert_eq!((status, error), whole.get(path).await);
    graph.get(path).await;
    let (status, error) = graph.get(path).await;
    assert_eq!((status, &error["error"]["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("overloaded")), "{error}");
}

const SIMPLE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
                      retriever = [{ hybrid = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\" } }]";

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_dies_is_asked_once_more_and_then_the_client_is_told_when_to_come_back() {
    let server = endpoint::start(Duration::ZERO).await;
    let (_workspace, _, graph, wires) = both(SIMPLE, &server).await;
    let path = "/rag/answer?query=What+do+otters+hold%3F";
    wires.dead.lock().unwrap().insert(Part::VectorStore, 1);
    assert_eq!(graph.get(path).await.0, StatusCode::OK);
    wires.dead.lock().unwrap().insert(Part::Retriever, 2);
    let (status, error) = graph.get(path).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{error}");
    let response = graph.client.get(format!("{}{path}", graph.url)).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "that was no failure of the model");
    wires.dead.lock().unwrap().insert(Part::Retriever, 2);
    let response = graph.client.get(format!("{}{path}", graph.url)).send().await.unwrap();
    assert_eq!(response.headers()["retry-after"], "1");
    // Of the model, it is a failure as of any endpoint.
    wires.dead.lock().unwrap().insert(Part::Llm, 1);
    assert_eq!(graph.get("/rag/answer?query=What+do+moles+dig%3F").await.0, StatusCode::BAD_GATEWAY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_the_call_of_the_part_that_writes() {
    let server = endpoint::start(Duration::ZERO).await;
    let (_workspace, _, graph, wires) = both(SIMPLE, &server).await;
    server.reset().await;
    let late = ResponseTemplate::new(200).set_delay(Duration::from_secs(600));
    wiremock::Mock::given(wiremock::matchers::any()).respond_with(late).mount(&server).await;
    let asked = graph.client.get(format!("{}/rag/answer?query=What+do+otters+hold%3F", graph.url));
    let is_asked = eventually("the model is asked", async || !endpoint::asked(&server).await.is_empty());
    tokio::select! {
        answer = asked.send() => panic!("an answer: {answer:?}"),
        () = is_asked => {}
    }
    // The endpoint answers long after that.
    eventually("no part works for a client that has left", async || Arc::strong_count(&wires.calls) == 1).await;
}

#[tokio::test]
async fn a_step_that_says_it_reads_no_chunks_does_the_same_where_there_are_none() {
    use rag::{Axis, Chunk, ChunkTable, Context, Data, Hit, Span};
    use rag::{Corpus, PipelineConfig, Query};

    let text = "Barn owls swallow mice. They hunt at night over open fields.";
    let chunk = |number: u32| Chunk {
        document: "owls.md".to_owned(),
        number,
        span: Span { start: 100 * number as usize, end: 100 * number as usize + text.len() },
        text: text.to_owned(),
        searchable: true,
        previous: number.checked_sub(1),
        next: (number < 3).then_some(number + 1),
        ..Chunk::default()
    };
    let (table, nothing) = (Arc::new(ChunkTable::new((0..4).map(chunk).collect())), Arc::<ChunkTable>::default());
    let passages: Vec<_> = [2, 0].map(|row| table.passage(Hit { row, score: 1.0 / (row + 1) as f32 })).to_vec();
    let changes_passages = |axis: &&Axis| axis.input() == Data::Passages && axis.output() == Data::Passages;
    let components =
        Axis::ALL.iter().filter(changes_passages).flat_map(|axis| axis.docs().into_iter().zip(std::iter::repeat(axis)));
    let steps = components.flat_map(|((name, _), axis)| {
        [json!({}), json!({ "top_n": 1 })].map(|settings| json!({ axis.name(): { name: settings } }))
    });
    let mut compared = Vec::new();
    for mut config in steps {
        let stages = json!({ "chunker": { "sentence": {} }, "retriever": { "bm25": {} } });
        config.as_object_mut().unwrap().extend(stages.as_object().unwrap().clone());
        let Ok(config) = serde_json::from_value::<PipelineConfig>(config) else { continue };
        for (_, stage) in config.passage_stages() {
            // Those that ask a model do not even name the corpus.
            let Ok(step) = stage.step(&Context::default()) else { continue };
            if stage.reads_chunks() {
                continue;
            }
            let query = Query { text: "What do barn owls swallow?", embedding: None, tokens: None, filter: None };
            let there = step.run_with_remarks(query, Corpus::exact(&table, &[]), passages.clone()).await.unwrap();
            let here = step.run_with_remarks(query, Corpus::exact(&nothing, &[]), passages.clone()).await.unwrap();
            assert_eq!(here, there, "{}", stage.name());
            compared.push(stage.name().to_owned());
        }
    }
    for name in ["budget", "dedupe", "long_context_reorder", "score_gap", "threshold", "none"] {
        assert!(compared.iter().any(|compared| compared == name), "{name} was not compared: {compared:?}");
    }
}
