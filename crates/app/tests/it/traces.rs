//! `reverie serve --traces`: what a collector of OpenTelemetry receives.

use crate::{
    attacks::eventually,
    endpoint,
    serve::{QUESTION, Service, chat, promoted},
    workspace::Workspace,
};
use futures::StreamExt;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value as Any,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;
use serde_json::json;
use std::{
    collections::{BTreeSet, HashMap},
    io::Read,
    time::Duration,
};
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A collector that takes everything.
pub async fn collector() -> MockServer {
    let server = MockServer::start().await;
    let takes = Mock::given(matchers::method("POST")).and(matchers::path("/v1/traces"));
    takes.respond_with(ResponseTemplate::new(200)).mount(&server).await;
    server
}

/// What a collector received.
struct Received {
    spans: Vec<Span>,
    bodies: Vec<Vec<u8>>,
    service: String,
}

impl Received {
    async fn by(collector: &MockServer) -> Self {
        let requests = collector.received_requests().await.unwrap();
        let mut received = Self { spans: Vec::new(), bodies: Vec::new(), service: String::new() };
        for request in requests {
            assert_eq!(request.headers["content-type"], "application/x-protobuf");
            let batch = ExportTraceServiceRequest::decode(request.body.as_slice()).unwrap();
            for of_resource in batch.resource_spans {
                let attributes = of_resource.resource.unwrap().attributes;
                let name = attributes.into_iter().find(|attribute| attribute.key == "service.name").unwrap();
                received.service = text(name.value.unwrap().value.as_ref());
                received.spans.extend(of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans));
            }
            received.bodies.push(request.body);
        }
        // Getting ready searches too.
        let warm: Vec<Vec<u8>> =
            received.spans.iter().filter(|span| span.name == "warm up").map(|span| span.trace_id.clone()).collect();
        received.spans.retain(|span| !warm.contains(&span.trace_id));
        for span in &received.spans {
            let keys: BTreeSet<&str> = span.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
            assert_eq!(keys.len(), span.attributes.len(), "every attribute stands once: {span:?}");
        }
        received
    }

    /// Whether a text stands anywhere.
    fn holds(&self, text: &str) -> bool {
        let text = text.as_bytes();
        self.bodies.iter().any(|body| body.windows(text.len()).any(|window| window == text))
    }

    fn named(&self, name: &str) -> &Span {
        let mut named = self.spans.iter().filter(|span| span.name == name);
        let first = named.next();
        let names: Vec<&str> = self.spans.iter().map(|span| span.name.as_str()).collect();
        assert!(first.is_some() && named.next().is_none(), "one span is `{name}`: {names:?}");
        first.unwrap()
    }

    /// The spans of a trace, each with the name of its parent.
    fn tree(&self, trace: &[u8]) -> BTreeSet<(&str, &str)> {
        let names: HashMap<&[u8], &str> =
            self.spans.iter().map(|span| (span.span_id.as_slice(), span.name.as_str())).collect();
        let of_trace = self.spans.iter().filter(|span| span.trace_id == trace);
        of_trace.map(|span| (names.get(span.parent_span_id.as_slice()).copied().unwrap_or("-"), &*span.name)).collect()
    }
}

fn text(value: Option<&Any>) -> String {
    match value {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::IntValue(number)) => number.to_string(),
        Some(Any::DoubleValue(number)) => number.to_string(),
        Some(Any::BoolValue(truth)) => truth.to_string(),
        Some(Any::ArrayValue(list)) => {
            let items: Vec<String> = list.values.iter().map(|item| text(item.value.as_ref())).collect();
            format!("[{}]", items.join(","))
        }
        other => format!("{other:?}"),
    }
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    Some(text(found.value.as_ref()?.value.as_ref()))
}

fn is_marked(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ends a service in peace, and gives what it said.
pub fn ended(mut service: Service) -> String {
    service.terminate();
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    service.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

#[tokio::test]
async fn a_request_is_one_trace_with_a_span_for_each_stage_and_call_and_without_its_texts() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let collector = collector().await;
    let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b"), ("OTEL_SERVICE_NAME", "manuals")];
    let service = Service::start_with(&workspace, &["bundle", "--traces", &collector.uri()], &variables);
    let asked = service.client.post(format!("{}/v1/chat/completions", service.url)).json(&chat(QUESTION));
    let asked = asked.header("traceparent", format!("00-{TRACE}-{CALLER}-01")).send().await.unwrap();
    let request = asked.headers()["x-request-id"].to_str().unwrap().to_owned();
    let answer: serde_json::Value = asked.json().await.unwrap();
    let answer = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    service.get("/health/ready").await;
    // The spans of the last request are sent before the end.
    ended(service);

    let received = Received::by(&collector).await;
    let one = &collector.received_requests().await.unwrap()[0];
    assert_eq!((received.service.as_str(), &one.headers["x-tenant"]), ("manuals", &"a b".parse().unwrap()));
    let root = received.named("POST /v1/chat/completions");
    assert_eq!((hex(&root.trace_id), hex(&root.parent_span_id)), (TRACE.to_owned(), CALLER.to_owned()));
    let embeddings = format!("embeddings {}", workspace.file("tiny").display());
    let expected = BTreeSet::from([
        ("-", "POST /v1/chat/completions"),
        ("POST /v1/chat/completions", "invoke_workflow animals"),
        ("invoke_workflow animals", "embed tiny"),
        ("embed tiny", embeddings.as_str()),
        ("invoke_workflow animals", "retrieval hybrid"),
        ("retrieval hybrid", "search dense"),
        ("retrieval hybrid", "search bm25"),
        ("invoke_workflow animals", "generate compact"),
        ("generate compact", "chat m"),
        ("chat m", "attempt"),
    ]);
    assert_eq!(received.tree(&root.trace_id), expected);
    assert!(!received.spans.iter().any(|span| span.name.contains("health")), "nobody looks at probes");

    let told = |span: &str, key: &str| attribute(received.named(span), key).unwrap_or_default();
    assert_eq!(root.kind(), SpanKind::Server);
    assert_eq!(told(&root.name, "http.response.status_code"), "200");
    assert_eq!(told(&root.name, "reverie.request.id"), request);
    let call = received.named("chat m");
    assert_eq!(call.kind(), SpanKind::Client);
    let port = server.uri().rsplit_once(':').unwrap().1.to_owned();
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.response.model", "m"),
        ("gen_ai.response.finish_reasons", "[stop]"),
        ("gen_ai.usage.input_tokens", "50"),
        ("gen_ai.usage.output_tokens", "12"),
        ("gen_ai.request.stream", "true"),
        ("server.address", "127.0.0.1"),
        ("server.port", &port),
        ("reverie.attempts", "1"),
    ] {
        assert_eq!(attribute(call, key).as_deref(), Some(value), "{key}");
    }
    let asked = server.received_requests().await.unwrap();
    let asked = asked.iter().rfind(|request| request.url.path().ends_with("/chat/completions")).unwrap();
    let attempt = hex(&received.named("attempt").span_id);
    assert_eq!(asked.headers["traceparent"], format!("00-{TRACE}-{attempt}-01"), "a gateway's spans hang below ours");
    assert_eq!(told("retrieval hybrid", "gen_ai.retrieval.top_k"), "2");
    assert_eq!(told("retrieval hybrid", "reverie.passages.left"), "2");
    assert!(received.spans.iter().all(|span| !is_marked(span)));
    for text in [QUESTION, "What+do+barn", "swallow mice", answer.trim_end_matches(" [1]")] {
        assert!(!received.holds(text), "`{text}` is nobody's business");
    }
}

/// A chat model behind Anthropic's protocol, whole and streamed.
fn messages(request: &Request) -> ResponseTemplate {
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let message = |content, stop: serde_json::Value| {
        json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop,
                "usage": { "input_tokens": 9, "output_tokens": 5 } })
    };
    if body["stream"] != true {
        return ResponseTemplate::new(200)
            .set_body_json(message(json!([{ "type": "text", "text": "So [1]." }]), json!("end_turn")));
    }
    let events = [
        json!({ "type": "message_start", "message": message(json!([]), json!(null)) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "So [1]." } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ];
    let stream: String =
        events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect();
    ResponseTemplate::new(200).set_body_raw(stream, "text/event-stream")
}

#[tokio::test]
async fn a_provider_with_a_protocol_of_its_own_is_told_to_which_span_its_call_belongs() {
    let server = MockServer::start().await;
    Mock::given(matchers::path_regex("/messages$")).respond_with(messages).mount(&server).await;
    let workspace = Workspace::new();
    let space = "chunker = [\"sentence\"]\nretriever = [{ bm25 = { top_k = 1 } }]\ngenerator = [{ compact = { model = \"claude\" } }]";
    let model = format!("[models.claude]\nchat.anthropic = {{ model = \"m\", base_url = \"{}/v1\" }}\n", server.uri());
    workspace.experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n{model}"));
    let key = ("ANTHROPIC_API_KEY", "sk-none");
    let run = workspace.command(&["run", "--quiet"]).env(key.0, key.1).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    workspace.run(&["promote", "--output", "bundle"]).succeeds();
    let collector = collector().await;
    let uri = collector.uri();
    let service = Service::start_with(&workspace, &["bundle", "--traces", &uri], &[key]);
    let asked = service.client.post(format!("{}/v1/chat/completions", service.url)).json(&chat(QUESTION));
    let asked = asked.header("traceparent", format!("00-{TRACE}-{CALLER}-01")).send().await.unwrap();
    let answer: serde_json::Value = asked.error_for_status().unwrap().json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "So [1].");
    service.terminate();
    let received = loop {
        let received = Received::by(&collector).await;
        if received.spans.iter().any(|span| span.name.starts_with("POST ")) {
            break received;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let asked = server.received_requests().await.unwrap();
    let attempt = hex(&received.named("attempt").span_id);
    assert_eq!(asked.last().unwrap().headers["traceparent"], format!("00-{TRACE}-{attempt}-01"));
    assert!(asked[0].headers.get("traceparent").is_none(), "a run without a collector names no spans");
}

#[tokio::test]
async fn texts_are_told_where_the_standard_variable_says_so() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let collector = collector().await;
    let uri = collector.uri();
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", uri.as_str()), ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")];
    let service = Service::start_with(&workspace, &["bundle"], &variables);
    service.post("/v1/chat/completions", &chat(QUESTION)).await.error_for_status().unwrap();
    ended(service);
    let received = Received::by(&collector).await;
    let call = received.named("chat m");
    assert!(attribute(call, "gen_ai.input.messages").unwrap().contains(QUESTION));
    assert!(attribute(call, "gen_ai.output.messages").unwrap().contains("\"finish_reason\":\"stop\""));
    let searches: Vec<&Span> = received.spans.iter().filter(|span| span.name == "retrieval hybrid").collect();
    let of_question =
        searches.iter().filter(|span| attribute(span, "gen_ai.retrieval.query.text").as_deref() == Some(QUESTION));
    assert_eq!(of_question.count(), 1);
    let documents = attribute(searches[0], "gen_ai.retrieval.documents").unwrap();
    assert!(documents.contains("\"id\"") && documents.contains("\"content\""), "{documents}");
    // What the lists of Phoenix and MLflow show.
    for name in ["POST /v1/chat/completions", "invoke_workflow animals"] {
        let span = received.named(name);
        assert_eq!(attribute(span, "input.value").as_deref(), Some(QUESTION));
        assert!(!attribute(span, "output.value").unwrap().is_empty());
        assert_eq!(attribute(span, "openinference.span.kind").as_deref(), Some("CHAIN"));
    }
}

#[tokio::test]
async fn a_failed_call_marks_its_span_with_one_below_it_for_each_attempt() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let collector = collector().await;
    let service = Service::start_with(&workspace, &["bundle", "--traces", &collector.uri()], &[]);
    server.reset().await;
    let secret = "the question was: Why?";
    let refusal = ResponseTemplate::new(500).set_body_json(json!({ "error": { "message": secret } }));
    Mock::given(matchers::any()).respond_with(refusal).mount(&server).await;
    let failed = service.post("/v1/chat/completions", &chat(QUESTION)).await;
    assert_eq!(failed.status(), 502);
    ended(service);
    let received = Received::by(&collector).await;
    for (name, kind) in [
        ("chat m", "500"),
        ("generate compact", "500"),
        ("invoke_workflow animals", "upstream_error"),
        ("POST /v1/chat/completions", "502"),
    ] {
        let span = received.named(name);
        assert!(is_marked(span) && attribute(span, "error.type").as_deref() == Some(kind), "{span:?}");
    }
    let attempts: Vec<&Span> = received.spans.iter().filter(|span| span.name == "attempt").collect();
    assert_eq!(attempts.len().to_string(), attribute(received.named("chat m"), "reverie.attempts").unwrap());
    assert!(attempts.len() > 1 && attempts.iter().all(|span| is_marked(span)));
    assert!(!received.holds(secret), "what an endpoint says may repeat what it was asked");
}

#[tokio::test]
async fn a_stream_that_fails_after_its_beginning_has_a_failed_span() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let collector = collector().await;
    let service = Service::start_with(&workspace, &["bundle", "--traces", &collector.uri()], &[]);
    server.reset().await;
    Mock::given(matchers::any()).respond_with(ResponseTemplate::new(500)).mount(&server).await;
    let mut request = chat(QUESTION);
    request["stream"] = true.into();
    let response = service.post("/v1/chat/completions", &request).await;
    assert_eq!(response.status(), 200, "the passages were found, and the stream had begun");
    assert!(response.text().await.unwrap().contains("\"error\""));
    ended(service);
    let received = Received::by(&collector).await;
    let root = received.named("POST /v1/chat/completions");
    assert!(is_marked(root) && attribute(root, "error.type").as_deref() == Some("upstream_error"), "{root:?}");
    assert_eq!(root.status.as_ref().unwrap().message, "upstream_error");
}

/// From now on the chat model's answers take longer than any test.
async fn never_answers(server: &MockServer) {
    server.reset().await;
    let late = ResponseTemplate::new(200).set_delay(Duration::from_secs(3600));
    Mock::given(matchers::any()).respond_with(late).mount(server).await;
}

/// Waits until the service has seen that its clients left.
async fn nobody_is_answered(service: &Service) {
    eventually("nobody is answered", async || {
        service.json("/admin/status").await["answers"] == json!({ "worked_on": 0, "waiting": 0 })
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_before_its_answer_begins_is_seen_in_its_span() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let collector = collector().await;
    let service = Service::start_with(&workspace, &["bundle", "--traces", &collector.uri()], &[]);
    never_answers(&server).await;
    let asked = service.client.post(format!("{}/v1/chat/completions", service.url)).json(&chat(QUESTION));
    let is_asked =
        eventually("it is worked on", async || service.json("/admin/status").await["answers"]["worked_on"] == 1);
    tokio::select! {
        answer = asked.send() => panic!("an answer: {answer:?}"),
        () = is_asked => {}
    }
    nobody_is_answered(&service).await;
    ended(service);
    let root = Received::by(&collector).await;
    let root = root.named("POST /v1/chat/completions");
    assert_eq!(attribute(root, "error.type").as_deref(), Some("client_left"));
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_in_its_span_and_in_that_of_the_call() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let collector = collector().await;
    let service = Service::start_with(&workspace, &["bundle", "--traces", &collector.uri()], &[]);
    never_answers(&server).await;
    let mut request = chat(QUESTION);
    request["stream"] = true.into();
    let response = service.post("/v1/chat/completions", &request).await;
    let mut pieces = response.bytes_stream();
    pieces.next().await.unwrap().unwrap();
    eventually("the model is asked", async || !endpoint::asked(&server).await.is_empty()).await;
    drop(pieces);
    nobody_is_answered(&service).await;
    ended(service);
    let received = Received::by(&collector).await;
    assert_eq!(attribute(received.named("POST /v1/chat/completions"), "error.type").as_deref(), Some("client_left"));
    for name in ["chat m", "attempt", "generate compact", "invoke_workflow animals"] {
        assert_eq!(attribute(received.named(name), "error.type").as_deref(), Some("cancelled"), "{name}");
    }
}

#[tokio::test]
async fn searches_of_every_route_are_in_the_trace_of_their_request() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let collector = collector().await;
    let service = Service::start_with(&workspace, &["bundle", "--traces", &collector.uri()], &[]);
    let parameters = json!({ "name": "search", "arguments": { "query": QUESTION } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters });
    let call = service.client.post(format!("{}/mcp", service.url)).json(&call);
    call.header("accept", "application/json, text/event-stream").send().await.unwrap().error_for_status().unwrap();
    service.get(&format!("/rag/retrieve?query={QUESTION}")).await.error_for_status().unwrap();
    service.get("/nowhere").await;
    ended(service);
    let received = Received::by(&collector).await;
    for root in ["POST /mcp", "GET /rag/retrieve"] {
        let tree = received.tree(&received.named(root).trace_id);
        assert!(tree.contains(&(root, "embed tiny")) && tree.contains(&(root, "retrieval hybrid")), "{tree:?}");
    }
    assert_eq!(attribute(received.named("GET"), "http.response.status_code").as_deref(), Some("404"));
    assert_eq!(attribute(received.named("GET"), "url.path"), None, "it could be any text");
    assert_eq!(attribute(received.named("GET /rag/retrieve"), "url.path").as_deref(), Some("/rag/retrieve"));
    let roots = received.spans.iter().filter(|span| span.parent_span_id.is_empty());
    let roots: BTreeSet<&str> = roots.map(|span| span.name.as_str()).collect();
    assert_eq!(roots, BTreeSet::from(["GET", "GET /rag/retrieve", "POST /mcp"]), "no span is lost");
}

#[tokio::test]
async fn a_collector_that_comes_back_is_told_with_what_was_lost() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let variables = [("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let service = Service::start_with(&workspace, &["bundle", "--traces", &format!("http://{address}")], &variables);
    let spans = async |kind: &str| -> u64 {
        service.post("/v1/chat/completions", &chat(QUESTION)).await.error_for_status().unwrap();
        let metrics = service.get("/metrics").await.text().await.unwrap();
        let wanted = format!("reverie_spans{{kind=\"{kind}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&wanted)?.parse().ok()).unwrap_or_default()
    };
    eventually("a batch fails", async || spans("failed").await > 0).await;
    let collector =
        wiremock::MockServer::builder().listener(std::net::TcpListener::bind(address).unwrap()).start().await;
    let taken = wiremock::ResponseTemplate::new(200);
    wiremock::Mock::given(wiremock::matchers::any()).respond_with(taken).mount(&collector).await;
    eventually("a batch is sent", async || spans("sent").await > 0).await;
    let said = ended(service);
    assert_eq!(said.matches("traces can be sent to 127.0.0.1 again; ").count(), 1, "{said}");
}

#[tokio::test]
async fn a_collector_that_is_gone_costs_one_warning_and_no_answer() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{gone}");
    let variables = [("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let service = Service::start_with(&workspace, &["bundle", "--traces", &url], &variables);
    for number in 0..20 {
        let asked = chat(&format!("{QUESTION} ({number})"));
        service.post("/v1/chat/completions", &asked).await.error_for_status().unwrap();
    }
    let number = async |kind: &str| -> u64 {
        let metrics = service.get("/metrics").await.text().await.unwrap();
        let line = metrics.lines().find(|line| line.starts_with(&format!("reverie_spans{{kind=\"{kind}\"}}"))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    eventually("a batch fails", async || number("ended").await >= 200 && number("failed").await > 0).await;
    assert_eq!(number("sent").await, 0);
    // A service that waits for its collector for ever never ends, and so fails the test.
    let said = ended(service);
    assert_eq!(said.matches("traces cannot be sent").count(), 1, "{said}");
    let lost = said.lines().find(|line| line.contains("spans were lost")).unwrap();
    let words: Vec<&str> = lost.split(' ').collect();
    assert!(words.contains(&"of") && words[1] == words[3], "all of them: {lost}");

    workspace
        .run(&["serve", "bundle", "--listen", "127.0.0.1:0", "--traces", "collector"])
        .refused_with(&["is no address"]);
}

#[tokio::test]
async fn refused_requests_have_a_span_with_the_reason() {
    let (workspace, _server) = promoted(Duration::from_millis(500)).await;
    let collector = collector().await;
    let key = workspace.run(&["keys", "new", "alice"]).succeeds().out.trim().to_owned();
    let arguments =
        ["bundle", "--traces", &collector.uri(), "--keys", "keys.toml", "--answers-at-once", "1", "--queue", "0"];
    let service = Service::start_with(&workspace, &arguments, &[]);
    assert_eq!(service.get("/v1/models").await.status(), 401);
    let post = |path: &str| service.client.post(format!("{}{path}", service.url)).bearer_auth(&key);
    let long = chat(&"owl ".repeat(1 << 20));
    assert_eq!(post("/v1/embeddings").json(&long).send().await.unwrap().status(), 413);
    let secret = reqwest::Method::from_bytes(b"SECRET-WORD").unwrap();
    let unknown = service.client.request(secret, format!("{}/v1/models", service.url)).bearer_auth(&key);
    assert_eq!(unknown.send().await.unwrap().status(), 405);
    // One has the only place, the other ones have none.
    let ask = || async { post("/v1/chat/completions").json(&chat(QUESTION)).send().await.unwrap().status().as_u16() };
    let mut statuses = [0; 3];
    while !statuses.contains(&503) {
        let (first, second, third) = tokio::join!(ask(), ask(), ask());
        statuses = [first, second, third];
    }
    ended(service);
    let received = Received::by(&collector).await;
    let told = |status: &str| {
        let with = |span: &&Span| attribute(span, "http.response.status_code").as_deref() == Some(status);
        let span = received.spans.iter().find(with).unwrap_or_else(|| panic!("no span has {status}"));
        (span.name.clone(), attribute(span, "error.type"), is_marked(span))
    };
    // By OpenTelemetry's convention a client's mistake is no error of the server.
    assert_eq!(told("401"), ("GET /v1/models".to_owned(), None, false));
    assert_eq!(told("413"), ("POST /v1/embeddings".to_owned(), None, false));
    assert_eq!(told("503"), ("POST /v1/chat/completions".to_owned(), Some("503".to_owned()), true));
    assert_eq!(told("405").0, "HTTP /v1/models");
    let unknown = received.named("HTTP /v1/models");
    assert_eq!(attribute(unknown, "http.request.method").as_deref(), Some("_OTHER"));
    assert!(!received.holds("SECRET-WORD"), "a method could be any text");
}

#[tokio::test]
async fn headers_of_traces_that_cross_a_network_without_tls_are_told() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let headers = [("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret-word")];
    // Nothing listens there, and it is no address of this machine alone.
    for (address, variables, is_told) in [
        ("http://0.0.0.0:1", &headers[..], true),
        ("http://0.0.0.0:1", &[], false),
        ("http://127.0.0.1:1", &headers, false),
    ] {
        let service = Service::start_with(&workspace, &["bundle", "--traces", address], variables);
        let said = ended(service);
        assert_eq!(said.contains("the headers of traces, which may hold a key, go to"), is_told, "{said}");
        assert!(!said.contains("secret-word"), "{said}");
    }
}

#[tokio::test]
async fn a_sampler_leaves_whole_traces_out_and_heeds_its_caller() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let collector = collector().await;
    let variables = [("OTEL_TRACES_SAMPLER", "parentbased_always_off")];
    let service = Service::start_with(&workspace, &["bundle", "--traces", &collector.uri()], &variables);
    service.get("/rag/retrieve?query=owls").await.error_for_status().unwrap();
    let asked = service.client.get(format!("{}/rag/retrieve?query=mice", service.url));
    let asked = asked.header("traceparent", format!("00-{TRACE}-{CALLER}-01")).send().await.unwrap();
    asked.error_for_status().unwrap();
    ended(service);
    let received = Received::by(&collector).await;
    assert!(received.spans.len() > 3 && received.spans.iter().all(|span| hex(&span.trace_id) == TRACE));
}
