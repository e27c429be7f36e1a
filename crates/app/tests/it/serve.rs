//! `reverie promote` and `reverie serve`, over real connections.

use crate::{
    attacks::{PATIENCE, eventually},
    endpoint,
    workspace::Workspace,
};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use wiremock::MockServer;

pub const QUESTION: &str = "What do barn owls swallow?";
const DATASET: &str = "[dataset]\npath = \"golden.jsonl\"\n";

/// A service that ends with its test.
pub struct Service {
    pub process: Child,
    pub url: String,
    pub client: Client,
}

impl Service {
    /// Starts `serve` with these arguments, and waits until it is ready. Without
    /// keys the test is its administrator.
    pub fn start(workspace: &Workspace, arguments: &[&str]) -> Self {
        Self::start_with(workspace, arguments, &[])
    }

    /// The same with these arguments and no others.
    pub fn bare(workspace: &Workspace, arguments: &[&str]) -> Self {
        Self::launch(workspace, arguments, Stdio::piped(), &[])
    }

    /// The same with more variables of the environment.
    pub fn start_with(workspace: &Workspace, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::launch(workspace, &as_admin(arguments), Stdio::piped(), variables)
    }

    /// The same, with what it says of its requests in the file `serve.err`, so
    /// that it never waits for somebody to read it.
    pub fn logging(workspace: &Workspace, arguments: &[&str]) -> Self {
        let said = std::fs::OpenOptions::new().append(true).create(true).open(workspace.file("serve.err"));
        Self::launch(workspace, &as_admin(arguments), said.unwrap().into(), &[])
    }

    fn launch(workspace: &Workspace, arguments: &[&str], said: Stdio, variables: &[(&str, &str)]) -> Self {
        store::choose_cryptography();
        let all = [&["serve", "--listen", "127.0.0.1:0", "--json"], arguments].concat();
        let mut command = workspace.command(&all);
        command.envs(variables.iter().copied());
        let mut process = command.stdout(Stdio::piped()).stderr(said).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let said = told["url"].is_null().then(|| {
            let mut said = String::new();
            process.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said).unwrap());
            said
        });
        assert_eq!(said, None, "it did not start");
        Self { process, url: told["url"].as_str().unwrap().to_owned(), client: Client::new() }
    }

    pub async fn get(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.client.post(format!("{}{path}", self.url)).json(body).send().await.unwrap()
    }

    pub async fn json(&self, path: &str) -> Value {
        self.get(path).await.error_for_status().unwrap().json().await.unwrap()
    }

    pub fn terminate(&self) {
        Command::new("kill").arg(self.process.id().to_string()).status().unwrap();
    }
}

fn as_admin<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let is_public = arguments.contains(&"--keys") || arguments.contains(&"--public-url");
    let more: &[&str] = if is_public { &[] } else { &["--admin-without-key"] };
    [arguments, more].concat()
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A workspace with a finished run whose one trial answers through an endpoint.
async fn finished(delay: Duration) -> (Workspace, MockServer) {
    let server = endpoint::start(delay).await;
    let workspace = Workspace::new();
    let space = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
                 retriever = [{ hybrid = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\" } }]";
    workspace.experiment(space, &format!("{DATASET}{}", endpoint::model(&server)));
    workspace.run(&["run", "--quiet"]).succeeds();
    (workspace, server)
}

/// The same, promoted into the folder `bundle`.
pub async fn promoted(delay: Duration) -> (Workspace, MockServer) {
    let (workspace, server) = finished(delay).await;
    workspace.run(&["promote", "--output", "bundle"]).succeeds();
    (workspace, server)
}

pub fn chat(question: &str) -> Value {
    json!({ "model": "animals", "messages": [{ "role": "user", "content": question }] })
}

/// The chunks of a stream, and whether it ended as it should.
async fn chunks(response: Response) -> (Vec<Value>, bool) {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let is_done = data.last() == Some(&"[DONE]");
    (data.iter().filter(|line| **line != "[DONE]").map(|line| serde_json::from_str(line).unwrap()).collect(), is_done)
}

#[tokio::test]
async fn a_bundle_answers_as_its_run_did_without_store_and_documents() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let queried = workspace.run(&["query", QUESTION, "--json"]).succeeds().json();
    for gone in ["store", "documents", "golden.jsonl", "experiment.toml"] {
        let path = workspace.file(gone);
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }
    let service = Service::start(&workspace, &["bundle"]);
    let answered = service.json(&format!("/rag/answer?query={QUESTION}")).await;
    assert_eq!(answered["answer"], queried["answer"]["text"]);
    let (sources, passages) = (answered["sources"].as_array().unwrap(), queried["passages"].as_array().unwrap());
    assert_eq!(sources.len(), passages.len());
    for (source, passage) in sources.iter().zip(passages) {
        assert_eq!((&source["file"], &source["start"]), (&passage["document"], &passage["span"]["start"]));
        assert_eq!(source["cited"], source["number"] == 1, "the endpoint cites [1]");
        let opened = service.json(&format!("/rag/sources/{}", source["id"].as_str().unwrap())).await;
        assert_eq!(opened["text"], passage["text"]);
        assert_eq!(opened["file"], passage["document"]);
    }
    let found = service.json(&format!("/rag/retrieve?query={QUESTION}&top_k=1")).await;
    assert_eq!(found["passages"].as_array().unwrap().len(), 1);
    assert_eq!(found["passages"][0]["text"], passages[0]["text"]);
}

#[tokio::test]
async fn a_streamed_answer_is_the_whole_one_in_pieces_with_sources_before_its_end() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let whole: Value = service.post("/v1/chat/completions", &chat(QUESTION)).await.json().await.unwrap();
    let message = &whole["choices"][0]["message"];
    let text = message["content"].as_str().unwrap();
    let annotation = &message["annotations"][0]["url_citation"];
    let marker: String = {
        let (start, end) = (annotation["start_index"].as_u64().unwrap(), annotation["end_index"].as_u64().unwrap());
        text.chars().skip(start as usize).take((end - start) as usize).collect()
    };
    assert_eq!(marker, "[1]");
    let page =
        service.client.get(annotation["url"].as_str().unwrap()).header("accept", "text/html").send().await.unwrap();
    assert!(page.text().await.unwrap().contains("<mark"), "the link of a citation leads to a page");

    let mut request = chat(QUESTION);
    (request["stream"], request["stream_options"]) = (true.into(), json!({ "include_usage": true }));
    let (chunks, is_done) = chunks(service.post("/v1/chat/completions", &request).await).await;
    assert!(is_done);
    let deltas = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(deltas.collect::<String>(), text);
    let cited: Vec<&Value> = chunks.iter().filter(|chunk| chunk["citations"].is_array()).collect();
    assert_eq!(cited.len(), 1);
    assert_eq!(cited[0]["sources"], whole["sources"]);
    // Open WebUI numbers the sources of a stream as they come, before the annotations.
    let place = |holds: &dyn Fn(&Value) -> bool| chunks.iter().position(holds).unwrap();
    let annotated = place(&|chunk| chunk["choices"][0]["delta"]["annotations"].is_array());
    let events: Vec<&Value> = chunks[..annotated].iter().filter(|chunk| chunk["event"]["type"] == "source").collect();
    assert_eq!(events.len(), whole["sources"].as_array().unwrap().len());
    for (event, source) in events.iter().zip(whole["sources"].as_array().unwrap()) {
        let (told, metadata) = (&event["event"]["data"], &source["metadata"][0]);
        assert_eq!((&told["document"], &told["source"]), (&source["document"], &source["source"]));
        assert_eq!(told["metadata"][0]["source"], metadata["source_url"], "it is joined by the annotation's address");
        assert_eq!(told["metadata"][0]["external"], true);
        assert_eq!(event["choices"][0]["delta"], json!({}), "for other clients it is a piece without text");
    }
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &whole["usage"]));
    let finish: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["finish_reason"]).collect();
    assert_eq!(finish.iter().filter(|reason| **reason == "stop").count(), 1);
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_in_openais_shape() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let long = "x".repeat(20_000);
    let cases = [
        (
            "/v1/chat/completions",
            json!({ "model": "other", "messages": [{ "role": "user", "content": "a" }] }),
            404,
            "model_not_found",
        ),
        ("/v1/chat/completions", chat("  "), 400, "invalid_request"),
        ("/v1/chat/completions", chat(&long), 400, "invalid_request"),
        ("/v1/chat/completions", json!({ "model": "animals", "messages": [] }), 400, "invalid_request"),
        ("/v1/chat/completions", json!({ "model": "animals", "messages": "a" }), 400, "invalid_request"),
        ("/v1/chat/completions", json!([]), 400, "invalid_request"),
        (
            "/v1/responses",
            json!({ "model": "animals", "input": "a", "previous_response_id": "x" }),
            400,
            "invalid_request",
        ),
        ("/v1/embeddings", json!({ "model": "tiny", "input": [] }), 400, "invalid_request"),
        ("/v1/embeddings", json!({ "model": "tiny", "input": [1, 2] }), 400, "invalid_request"),
        ("/v1/embeddings", json!({ "model": "tiny", "input": "a", "dimensions": 3 }), 400, "invalid_request"),
        ("/v1/rerank", json!({ "model": "animals", "query": "a", "documents": [] }), 400, "invalid_request"),
        ("/rag/feedback", json!({ "request_id": "a", "verdict": "up" }), 404, "no_feedback"),
        ("/nothing", json!({}), 404, "not_found"),
    ];
    for (path, body, status, code) in cases {
        let response = service.post(path, &body).await;
        assert!(response.headers().contains_key("x-request-id"));
        let told = (response.status().as_u16(), response.json::<Value>().await.unwrap());
        assert_eq!((told.0, told.1["error"]["code"].as_str()), (status, Some(code)), "{path} {}", told.1);
        assert!(told.1["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let plain = service.client.post(format!("{}/v1/chat/completions", service.url)).body("{}").send().await.unwrap();
    assert_eq!(plain.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let large = service.post("/v1/chat/completions", &chat(&"x".repeat(3 << 20))).await;
    assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE);
    for path in [
        "/rag/answer",
        "/rag/answer?query=",
        "/rag/answer?query=a&top_k=0",
        "/rag/answer?query=a&include_sources=maybe",
        "/rag/answer?query=a&include_sources=",
    ] {
        assert_eq!(service.get(path).await.status(), StatusCode::BAD_REQUEST, "{path}");
    }
    for id in ["nonsense", "YQ.0-5", "..%2F..%2Fetc%2Fpasswd"] {
        assert_eq!(service.get(&format!("/rag/sources/{id}")).await.status(), StatusCode::NOT_FOUND, "{id}");
    }
    let foreign = service.client.get(format!("{}/rag/retrieve?query=a", service.url)).header("host", "evil.example");
    assert_eq!(foreign.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    assert_eq!(service.get("/health/ready").await.status(), StatusCode::OK, "the service is unharmed");
}

#[tokio::test]
async fn vectors_texts_in_order_and_tools_come_from_the_same_pipeline() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let input = json!({ "model": "tiny", "input": ["owls swallow mice", "thunder"] });
    let floats: Value = service.post("/v1/embeddings", &input).await.json().await.unwrap();
    let mut wanted = input.clone();
    wanted["encoding_format"] = "base64".into();
    let packed: Value = service.post("/v1/embeddings", &wanted).await.json().await.unwrap();
    for (float, packed) in floats["data"].as_array().unwrap().iter().zip(packed["data"].as_array().unwrap()) {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::STANDARD.decode(packed["embedding"].as_str().unwrap()).unwrap();
        let numbers: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!(json!(numbers), float["embedding"]);
    }
    let asked =
        json!({ "model": "animals", "query": "owls", "documents": ["thunder", { "text": "owls" }], "top_n": 1 });
    let ranked: Value = service.post("/v1/rerank", &asked).await.json().await.unwrap();
    assert_eq!((ranked["results"].as_array().unwrap().len(), &ranked["results"][0]["index"]), (1, &json!(1)));

    let call = async |method: &str, params: Value| -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = service.client.post(format!("{}/mcp", service.url)).json(&body);
        request.header("accept", "application/json, text/event-stream").send().await.unwrap().json().await.unwrap()
    };
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    assert_eq!(call("initialize", hello).await["result"]["serverInfo"]["name"], "reverie");
    let tools = call("tools/list", json!({})).await;
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["search", "fetch"]);
    let found = call("tools/call", json!({ "name": "search", "arguments": { "query": QUESTION } })).await;
    let first = &found["result"]["structuredContent"]["results"][0];
    let fetched = call("tools/call", json!({ "name": "fetch", "arguments": { "id": first["id"] } })).await;
    assert_eq!(fetched["result"]["structuredContent"]["id"], first["id"]);
    assert!(fetched["result"]["structuredContent"]["text"].as_str().unwrap().contains("owl"), "{fetched}");
    let unknown = call("tools/call", json!({ "name": "fetch", "arguments": { "id": "nothing" } })).await;
    assert_eq!(unknown["result"]["isError"], true, "nothing found is told as a failure: {unknown}");
}

#[tokio::test]
async fn only_who_has_a_key_with_the_scope_may_ask() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let key = |name: &str, more: &[&str]| {
        let made = workspace.run(&[&["keys", "new", name], more].concat()).succeeds();
        made.out.trim().to_owned()
    };
    let (ask, admin) = (key("alice", &["--requests-per-minute", "2"]), key("root", &["--scope", "admin"]));
    let file = std::fs::read_to_string(workspace.file("keys.toml")).unwrap();
    assert!(!file.contains(&ask) && !file.contains(&admin), "the file holds digests only");
    workspace.run(&["serve", "bundle", "--listen", "0.0.0.0:0"]).refused_with(&["--keys"]);

    let service = Service::start(&workspace, &["bundle", "--keys", "keys.toml"]);
    let status = async |path: &str, key: Option<&str>| {
        let request = service.client.get(format!("{}{path}", service.url));
        let request = key.iter().fold(request, |request, key| request.bearer_auth(key));
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("/v1/models", None).await, 401);
    assert_eq!(status("/v1/models", Some("rv-wrong")).await, 401);
    assert_eq!(status("/v1/models", Some(&admin)).await, 403);
    assert_eq!(status("/metrics", None).await, 401);
    assert_eq!(status("/admin/status", Some(&ask)).await, 403);
    assert_eq!(status("/admin/status", Some(&admin)).await, 200);
    assert_eq!(status("/v1/models", Some(&ask)).await, 200);
    assert_eq!(status("/v1/models", Some(&ask)).await, 200);
    assert_eq!(status("/v1/models", Some(&ask)).await, 429);
    assert_eq!(status("/health/ready", None).await, 200, "a balancer needs no key");
}

#[tokio::test]
async fn a_bundle_that_is_not_what_was_written_is_refused_at_start_by_its_file() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    workspace.run(&["promote", "--output", "bundle"]).fails_with(&["there already"]);
    let bundle = workspace.file("bundle");
    let manifest: Value = serde_json::from_slice(&std::fs::read(bundle.join("manifest.json")).unwrap()).unwrap();
    for file in manifest["files"].as_array().unwrap() {
        let name = file["name"].as_str().unwrap();
        let path = bundle.join(name);
        let good = std::fs::read(&path).unwrap();
        if good.is_empty() {
            continue;
        }
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        workspace.run(&["serve", "bundle", "--listen", "127.0.0.1:0"]).fails_with(&[name, "not what was written"]);
        std::fs::write(&path, good).unwrap();
    }
    std::fs::remove_dir_all(workspace.file("tiny")).unwrap();
    workspace.run(&["serve", "bundle", "--listen", "127.0.0.1:0"]).fails_with(&["tiny"]);
}

#[tokio::test]
async fn another_bundle_takes_over_without_a_dropped_request_and_a_broken_one_does_not() {
    let (workspace, _server) = promoted(Duration::from_millis(300)).await;
    workspace.run(&["promote", "--output", "second"]).succeeds();
    let service = Service::start(&workspace, &["bundle"]);
    let before = service.json("/admin/status").await["serving"]["version"].clone();
    let (body, second) = (chat(QUESTION), workspace.file("second").display().to_string());
    let asked = futures::future::join_all((0..6).map(|_| service.post("/v1/chat/completions", &body)));
    let swapped = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let broken = service.post("/admin/swap", &json!({ "bundle": "/nowhere" })).await;
        assert_eq!(broken.status(), StatusCode::BAD_REQUEST);
        service.post("/admin/swap", &json!({ "bundle": second })).await
    };
    let (asked, swapped) = futures::future::join(asked, swapped).await;
    assert!(asked.iter().all(|response| response.status() == StatusCode::OK), "{asked:?}");
    let swapped: Value = swapped.json().await.unwrap();
    assert_eq!(swapped["before"]["version"], before);
    assert_ne!(service.json("/admin/status").await["serving"]["version"], before);
    assert_eq!(service.post("/v1/chat/completions", &body).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_that_was_begun_ends_before_the_service_does() {
    let (workspace, server) = promoted(Duration::from_millis(1500)).await;
    let mut service = Service::start(&workspace, &["bundle"]);
    let body = chat(QUESTION);
    let asked = service.post("/v1/chat/completions", &body);
    let before = endpoint::asked(&server).await.len();
    let ended = async {
        eventually("the model is asked", async || endpoint::asked(&server).await.len() > before).await;
        service.terminate();
        let live = format!("{}/health/live", service.url);
        eventually("nothing new is taken", async || Client::new().get(&live).send().await.is_err()).await;
    };
    let (asked, ()) = futures::future::join(asked, ended).await;
    assert_eq!(asked.status(), StatusCode::OK);
    let text: Value = asked.json().await.unwrap();
    assert!(text["choices"][0]["message"]["content"].is_string());
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_chat_model_that_is_gone_is_not_waited_for_and_the_fallback_answers() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let good = endpoint::start(Duration::ZERO).await;
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace(&server.uri(), &good.uri()).replace("\"animals\"", "\"spare\""));
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "spare"]).succeeds();
    let alone = Service::start(&workspace, &["bundle", "--deadline", "2"]);
    let safe = Service::start(&workspace, &["bundle", "--fallback", "spare"]);
    server.reset().await;
    let ask = async |service: &Service, number: usize| {
        service.post("/v1/chat/completions", &chat(&format!("{QUESTION} ({number})"))).await
    };
    // A question of its own each, so that none joins another's call. On a busy machine a search may not be done by the
    // deadline, which is no failure of the model, so more than five questions may fail before one is refused.
    let (begun, mut number) = (Instant::now(), 0);
    let refused = loop {
        let failed = ask(&alone, number).await;
        if failed.status() == StatusCode::SERVICE_UNAVAILABLE {
            break failed;
        }
        assert!([502, 504].contains(&failed.status().as_u16()), "{failed:?}");
        assert!(begun.elapsed() < PATIENCE, "none of {number} questions is refused");
        number += 1;
    };
    assert!(number >= 5, "the model failed {number} times");
    assert!(refused.headers().contains_key("retry-after"), "{refused:?}");
    let sent = endpoint::asked(&server).await;
    let is_of_refused = |body: &String| body.contains(&format!("{QUESTION} ({number})"));
    assert!(!sent.is_empty() && !sent.iter().any(is_of_refused), "the model was asked: {sent:?}");
    assert_eq!(alone.get("/rag/retrieve?query=owls").await.status(), StatusCode::OK, "searching needs no chat model");
    let answered: Value = ask(&safe, 6).await.json().await.unwrap();
    assert!(answered["choices"][0]["message"]["content"].is_string(), "{answered}");
}

#[tokio::test]
async fn a_chat_model_that_fails_is_told_soon_and_without_its_address() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let fails = async |status: u16| {
        server.reset().await;
        let refusal = wiremock::ResponseTemplate::new(status).set_body_json(json!({ "error": { "message": "no" } }));
        wiremock::Mock::given(wiremock::matchers::any()).respond_with(refusal).mount(&server).await;
    };
    // What is wrong with questions does not close the service to others.
    fails(400).await;
    for number in 0..7 {
        let refused = service.post("/v1/chat/completions", &chat(&format!("{QUESTION} ({number})"))).await;
        assert_eq!(refused.status(), StatusCode::BAD_GATEWAY);
    }
    fails(500).await;
    let failed = service.post("/v1/chat/completions", &chat(&format!("{QUESTION} (7)"))).await;
    assert_eq!(failed.status(), StatusCode::BAD_GATEWAY);
    let attempts = endpoint::asked(&server).await.len();
    assert_eq!(attempts, 3, "somebody waits: a run would try longer");
    let told: Value = failed.json().await.unwrap();
    assert!(!told.to_string().contains("127.0.0.1"), "{told}");
}

#[tokio::test]
async fn nonsense_in_paths_and_bodies_of_any_route_has_openais_shape() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let found = service.json(&format!("/rag/retrieve?query={QUESTION}")).await;
    let id = found["passages"][0]["id"].as_str().unwrap();
    let (path, _) = id.split_once('.').unwrap();
    for wrong in [format!("{path}.+0-+9"), format!("{path}.00-009"), format!("{path}.0-18446744073709551615")] {
        assert_eq!(service.get(&format!("/rag/sources/{wrong}")).await.status(), StatusCode::NOT_FOUND, "{wrong}");
    }
    for path in ["/rag/sources/%ff", "/v1/models/%ff"] {
        let told = service.get(path).await;
        assert_eq!(told.status(), StatusCode::BAD_REQUEST);
        assert_eq!(told.json::<Value>().await.unwrap()["error"]["type"], "invalid_request_error");
    }
    let large = service.post("/mcp", &json!({ "x": "y".repeat(3 << 20) })).await;
    assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
