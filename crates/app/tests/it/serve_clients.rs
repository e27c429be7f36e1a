//! What clients of other authors send to `reverie serve`, and what they read.

use crate::{
    endpoint,
    serve::{QUESTION, Service, chat, promoted},
    workspace::Workspace,
};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use wiremock::{MockServer, Request, Respond, ResponseTemplate};

/// A chat model that says what it is told to say next.
#[derive(Clone, Default)]
struct ScriptedModel(Arc<Mutex<Option<(u16, Value)>>>);

impl ScriptedModel {
    /// From now on every answer is this one.
    fn says(&self, status: u16, body: Value) {
        *self.0.lock().unwrap() = Some((status, body));
    }

    /// The same as an answer of a chat model.
    fn writes(&self, content: &Value, finish: &str) {
        let message = json!({ "role": "assistant", "content": content });
        self.says(200, json!({ "choices": [{ "index": 0, "message": message, "finish_reason": finish }] }));
    }
}

impl Respond for ScriptedModel {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        let (status, body) = self.0.lock().unwrap().clone().unwrap();
        let response = ResponseTemplate::new(status).set_body_json(body);
        if status == 429 { response.insert_header("retry-after", "7") } else { response }
    }
}

/// A service whose chat model is scripted; it writes `Owls [1].` at first.
async fn scripted(arguments: &[&str]) -> (Workspace, MockServer, ScriptedModel, Service) {
    let script = ScriptedModel::default();
    script.writes(&json!("Owls [1]."), "stop");
    let server = endpoint::start_with(script.clone()).await;
    let workspace = Workspace::new();
    let space = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
                 retriever = [{ hybrid = { top_k = 3 } }]\ngenerator = [\"compact\"]";
    let models = endpoint::model(&server);
    workspace.experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n{models}"));
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "bundle"]).succeeds();
    let service = Service::start(&workspace, &[&["bundle"], arguments].concat());
    (workspace, server, script, service)
}

async fn told(response: Response) -> (u16, Value) {
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The objects of a stream's events.
async fn events(response: Response) -> Vec<Value> {
    assert_eq!(response.status(), StatusCode::OK);
    let text = response.text().await.unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = true.into();
    body
}

#[tokio::test]
async fn the_output_of_a_response_is_taken_as_input_and_references_are_refused_in_words() {
    let (_workspace, server, _script, service) = scripted(&[]).await;
    let ask = |input: Value| json!({ "model": "animals", "input": input, "include": ["file_search_call.results"] });
    let (status, first) = told(service.post("/v1/responses", &ask(json!(QUESTION))).await).await;
    assert_eq!((status, &first["status"]), (200, &json!("completed")));
    let mut input = vec![json!({ "role": "user", "content": QUESTION })];
    input.extend(first["output"].as_array().unwrap().clone());
    input.push(json!({ "role": "user", "content": "And what else?" }));
    let (status, second) = told(service.post("/v1/responses", &ask(json!(input))).await).await;
    assert_eq!((status, &second["output"][1]["content"][0]["text"]), (200, &json!("Owls [1].")), "{second}");
    let before = endpoint::asked(&server).await.len();
    let reference = json!([{ "type": "item_reference", "id": "msg_1" }, { "role": "user", "content": "And?" }]);
    let mut followed = ask(json!("And?"));
    followed["previous_response_id"] = first["id"].clone();
    for (body, param) in [
        (ask(reference), "input[0]"),
        (followed, "previous_response_id"),
        (ask(json!([{ "role": "user", "content": [{ "type": "input_image" }] }])), "input[0].content[0]"),
        (ask(json!([{ "role": "user", "content": 7 }])), "input[0].content"),
        (ask(json!({})), "input"),
    ] {
        let (status, refused) = told(service.post("/v1/responses", &body).await).await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert_eq!((status, &refused["error"]["param"]), (400, &json!(param)), "{refused}");
        assert!(!message.contains("variant") && !message.contains("struct"), "{message}");
    }
    assert_eq!(endpoint::asked(&server).await.len(), before, "nothing was paid");
}

#[tokio::test]
async fn an_answer_that_was_cut_says_so_everywhere() {
    let (workspace, _server, script, service) = scripted(&[]).await;
    script.writes(&json!("Because the"), "length");
    let (_, whole) = told(service.post("/v1/chat/completions", &chat(QUESTION)).await).await;
    assert_eq!(whole["choices"][0]["finish_reason"], "length", "{whole}");
    let chunks = events(service.post("/v1/chat/completions", &streamed(chat(QUESTION))).await).await;
    let finish: Vec<&str> = chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(finish, ["length"]);
    let body = json!({ "model": "animals", "input": QUESTION });
    let (_, response) = told(service.post("/v1/responses", &body).await).await;
    let ended = (&response["status"], &response["incomplete_details"]["reason"], &response["output"][1]["status"]);
    assert_eq!(ended, (&json!("incomplete"), &json!("max_output_tokens"), &json!("incomplete")));
    let last = events(service.post("/v1/responses", &streamed(body)).await).await.pop().unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.incomplete"), &json!("incomplete")));
    let answered = service.json(&format!("/rag/answer?query={QUESTION}")).await;
    assert_eq!(answered["finish_reason"], "length");
    assert!(answered["remarks"][0].as_str().unwrap().contains("cut off"), "{answered}");
    let queried = workspace.run(&["query", "What is said of owls?"]).succeeds();
    assert!(queried.err.contains("note: the answer was cut off"), "{}", queried.err);
    script.writes(&json!("Owls."), "stop");
    let (_, whole) = told(service.post("/v1/chat/completions", &chat("What is said of whales?")).await).await;
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    let shown = workspace.run(&["query", "What is said of whales?"]).succeeds();
    assert!(!shown.err.contains("cut off"), "{}", shown.err);
}

#[tokio::test]
async fn each_passage_is_a_citation_of_its_own() {
    let (_workspace, _server, _script, service) = scripted(&[]).await;
    let (_, whole) = told(service.post("/v1/chat/completions", &chat(QUESTION)).await).await;
    let sources = whole["sources"].as_array().unwrap();
    let files: Vec<&Value> = sources.iter().map(|source| &source["metadata"][0]["file"]).collect();
    assert_eq!(sources.len(), 3);
    assert!((1..files.len()).any(|i| files[..i].contains(&files[i])), "two passages are of one document: {files:?}");
    for field in ["source", "name"] {
        let mut values: Vec<&str> = sources.iter().map(|it| it["metadata"][0][field].as_str().unwrap()).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), sources.len(), "{field} tells them apart");
    }
    let first = &sources[0];
    assert_eq!(first["metadata"][0]["source_url"], first["source"]["url"]);
    assert!(first["source"]["name"].as_str().unwrap().ends_with(" [1]"), "{first}");
}

#[tokio::test]
async fn what_the_pipeline_cannot_do_is_refused_before_it_is_paid() {
    let (_workspace, server, _script, service) = scripted(&[]).await;
    let before = endpoint::asked(&server).await.len();
    let named = json!({ "type": "function", "function": { "name": "f" } });
    let with = |path: &'static str, field: &str, value: Value| {
        let mut body =
            if path.ends_with("responses") { json!({ "model": "animals", "input": "a" }) } else { chat("a") };
        body[field] = value;
        (path, body)
    };
    let format = json!({ "format": { "type": "json_schema", "name": "a", "schema": {} } });
    for ((path, body), param) in [
        (with("/v1/responses", "text", format), "text.format"),
        (with("/v1/responses", "tool_choice", json!("required")), "tool_choice"),
        (with("/v1/chat/completions", "tool_choice", json!("required")), "tool_choice"),
        (with("/v1/chat/completions", "tool_choice", named.clone()), "tool_choice"),
        (with("/v1/chat/completions", "function_call", json!({ "name": "f" })), "function_call"),
        (with("/v1/chat/completions", "response_format", json!({ "type": "json_object" })), "response_format"),
        (with("/v1/chat/completions", "n", json!(2)), "n"),
    ] {
        let (status, refused) = told(service.post(path, &body).await).await;
        assert_eq!((status, &refused["error"]["param"]), (400, &json!(param)), "{refused}");
    }
    assert_eq!(endpoint::asked(&server).await.len(), before);
    for (path, body) in [
        with("/v1/responses", "text", json!({ "format": { "type": "text" }, "verbosity": "low" })),
        with("/v1/responses", "tool_choice", json!("auto")),
        with("/v1/chat/completions", "tool_choice", json!("none")),
        with("/v1/chat/completions", "tools", json!([named])),
        with("/v1/chat/completions", "n", json!(1.0)),
    ] {
        assert_eq!(service.post(path, &body).await.status(), StatusCode::OK, "{body}");
    }
}

#[tokio::test]
async fn no_text_of_a_model_is_a_failure_of_the_model_and_no_word_about_the_sources() {
    let (workspace, _server, script, service) = scripted(&[]).await;
    let fails = async |question: &str| {
        let (status, told) = told(service.post("/v1/chat/completions", &chat(question)).await).await;
        assert_eq!((status, told["error"]["code"].as_str()), (502, Some("upstream_error")), "{told}");
        assert_eq!(told["error"]["message"], "the chat model wrote no answer");
    };
    script.writes(&json!(""), "length");
    fails("a").await;
    script.writes(&Value::Null, "length");
    fails("b").await;
    let call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    script.says(200, json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "tool_calls" }] }));
    fails("c").await;
    script.writes(&json!(""), "stop");
    let (_, whole) = told(service.post("/v1/chat/completions", &chat("d")).await).await;
    assert_eq!(whole["choices"][0]["message"]["content"], "The sources do not answer this question.");
    // A run counts it as missing, and not as an answer.
    script.writes(&json!(""), "length");
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace("\"store\"", "\"other\""));
    let ran = workspace.run(&["run", "--quiet"]).ends_with(3);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("4 answers or verdicts are missing because a model failed"), "{said}");
}

#[tokio::test]
async fn a_model_that_takes_no_calls_is_told_with_the_time_to_come_again() {
    let (_workspace, _server, script, service) = scripted(&["--first-token", "2"]).await;
    script.says(429, json!({ "error": { "message": "slow down, sk-123" } }));
    let begun = Instant::now();
    let refused = service.post("/v1/chat/completions", &chat("a")).await;
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(refused.headers().contains_key("retry-after"));
    let (status, body) = told(refused).await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("model_rate_limited")), "{body}");
    for (status, words) in [(401, "refuses the service's key"), (404, "is not there under its name")] {
        script.says(status, json!({ "error": { "message": "no" } }));
        let (code, body) = told(service.post("/v1/chat/completions", &chat(&format!("b {status}"))).await).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert_eq!(code, 502, "{body}");
        assert!(message.contains(words) && !message.contains("try again later"), "{message}");
    }
}

#[tokio::test]
async fn a_withheld_answer_is_told_as_such_in_a_stream_of_responses() {
    let (_workspace, _server, script, service) = scripted(&[]).await;
    script.writes(&Value::Null, "content_filter");
    let body = streamed(json!({ "model": "animals", "input": "a" }));
    let last = events(service.post("/v1/responses", &body).await).await.pop().unwrap();
    let reason = &last["response"]["incomplete_details"]["reason"];
    assert_eq!((&last["type"], reason), (&json!("response.incomplete"), &json!("content_filter")), "{last}");
    let (status, whole) = told(service.post("/v1/responses", &json!({ "model": "animals", "input": "b" })).await).await;
    assert_eq!((status, whole["error"]["code"].as_str()), (400, Some("content_filter")));
}

#[tokio::test]
async fn tools_of_mcp_have_whole_addresses_and_refusals_have_words() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let public = Service::start(&workspace, &["bundle", "--public-url", "https://host.example/app/"]);
    let post = async |service: &Service, body: &Value, accept: Option<&str>| {
        let request = service.client.post(format!("{}/mcp", service.url)).json(body);
        accept.into_iter().fold(request, |request, accept| request.header("accept", accept)).send().await.unwrap()
    };
    let call = |name: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
    for (service, base) in [(&service, service.url.as_str()), (&public, "https://host.example/app")] {
        let found = post(service, &call("search", json!({ "query": QUESTION })), Some("*/*")).await;
        let (_, found) = told(found).await;
        let first = &found["result"]["structuredContent"]["results"][0];
        let (_, fetched) = told(post(service, &call("fetch", json!({ "id": first["id"] })), None).await).await;
        for url in [&first["url"], &fetched["result"]["structuredContent"]["url"]] {
            let url = url.as_str().unwrap();
            assert!(url.starts_with(&format!("{base}/rag/sources/")) && url.ends_with("#quote"), "{url}");
        }
    }
    let page = service.client.get(format!("{}/rag/sources/x", service.url)).header("accept", "text/html");
    assert_eq!(page.send().await.unwrap().status(), StatusCode::NOT_FOUND);
    let (status, unknown) =
        told(post(&service, &call("search", json!({ "query": "a", "top_k": 1 })), None).await).await;
    assert_eq!((status, &unknown["error"]["code"]), (200, &json!(-32602)), "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("`top_k` is unknown"), "{unknown}");
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {} });
    let (_, unknown) = told(post(&service, &list, None).await).await;
    let message = unknown["error"]["message"].as_str().unwrap();
    assert_eq!(unknown["error"]["code"], -32601);
    assert!(message.contains("no method `resources/list`") && message.contains("tools/call"), "{message}");
    for body in [json!([list]), json!({ "jsonrpc": "2.0", "id": null, "method": "ping" }), json!({})] {
        let (status, refused) = told(post(&service, &body, Some("application/json, text/event-stream")).await).await;
        assert_eq!((status, refused["error"]["type"].as_str()), (400, Some("invalid_request_error")), "{refused}");
    }
    assert_eq!(post(&service, &list, Some("text/html")).await.status(), StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn a_page_under_a_prefix_finds_its_style_and_asks_for_no_verdict_that_nobody_keeps() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let found = service.json(&format!("/rag/retrieve?query={QUESTION}")).await;
    let page = service.client.get(found["passages"][0]["url"].as_str().unwrap()).header("accept", "text/html");
    let page = page.send().await.unwrap().text().await.unwrap();
    assert!(page.contains("href=\"../../page.css\"") && page.contains("href=\"../../favicon.ico\""), "{page}");
    assert!(!page.contains("href=\"/") && !page.contains("src=\"/"), "nothing is named from the root: {page}");
    let index = service.get("/").await.text().await.unwrap();
    assert!(index.contains("<body class=\"no-feedback\">") && index.contains("href=\"favicon.ico\""), "{index}");
    let keeping = Service::start(&workspace, &["bundle", "--feedback", "feedback.jsonl"]);
    assert!(keeping.get("/").await.text().await.unwrap().contains("<body>"));
}

#[tokio::test]
async fn the_text_around_a_passage_is_that_of_the_document() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let found = service.json(&format!("/rag/retrieve?query={QUESTION}")).await;
    // The text of HTML is not that of its file.
    let is_text = |passage: &&Value| !passage["file"].as_str().unwrap().ends_with("html");
    let passages: Vec<&Value> = found["passages"].as_array().unwrap().iter().filter(is_text).collect();
    assert!(!passages.is_empty());
    for passage in passages {
        let file = workspace.file("documents").join(passage["file"].as_str().unwrap());
        let document = std::fs::read_to_string(file).unwrap();
        let opened = service.json(&format!("/rag/sources/{}", passage["id"].as_str().unwrap())).await;
        let part = |name: &str| opened[name].as_str().unwrap().to_owned();
        let shown = format!("{}{}{}", part("before"), part("text"), part("after"));
        assert!(document.contains(&shown), "{shown:?}");
        assert!(shown.len() > part("text").len(), "something stands around it");
    }
}

#[tokio::test]
async fn a_text_that_the_embedder_does_not_read_whole_is_refused_and_tokens_are_counted() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let embed = |input: Value| json!({ "model": "tiny", "input": input });
    let long = "owls ".repeat(5000);
    let (status, refused) = told(service.post("/v1/embeddings", &embed(json!(["owls", long]))).await).await;
    let error = &refused["error"];
    assert_eq!((status, &error["code"], &error["param"]), (400, &json!("context_length_exceeded"), &json!("input[1]")));
    assert!(error["message"].as_str().unwrap().contains("5000 tokens, and `tiny` reads 512"), "{error}");
    let (_, embedded) = told(service.post("/v1/embeddings", &embed(json!(["owls owls", "owls"]))).await).await;
    assert_eq!(embedded["usage"]["prompt_tokens"], 3, "{}", embedded["usage"]);
    let (_, tokens) = told(service.post("/v1/embeddings", &embed(json!([[1, 2]]))).await).await;
    assert!(tokens["error"]["message"].as_str().unwrap().contains("check_embedding_ctx_length=False"), "{tokens}");
    let rank =
        |top_n: Value| json!({ "model": "animals", "query": "owls", "documents": ["a", "owls"], "top_n": top_n });
    let (status, ranked) = told(service.post("/v1/rerank", &rank(json!(1.0))).await).await;
    assert_eq!((status, ranked["results"].as_array().unwrap().len()), (200, 1), "{ranked}");
    let (status, refused) = told(service.post("/v1/rerank", &rank(json!(1.5))).await).await;
    assert_eq!((status, &refused["error"]["param"]), (400, &json!("top_n")), "{refused}");
}

#[tokio::test]
async fn sources_come_with_their_text_and_metrics_in_the_format_that_is_accepted() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let answered = service.json(&format!("/rag/answer?query={QUESTION}&include_sources=text")).await;
    let found = service.json(&format!("/rag/retrieve?query={QUESTION}")).await;
    let texts = |of: &Value| of.as_array().unwrap().iter().map(|one| one["text"].clone()).collect::<Vec<_>>();
    assert_eq!(texts(&answered["sources"]), texts(&found["passages"]));
    let quoted = service.json(&format!("/rag/answer?query={QUESTION}")).await;
    assert!(quoted["sources"][0].get("text").is_none() && quoted["sources"][0]["quote"].is_string());
    let without = service.json(&format!("/rag/answer?query={QUESTION}&include_sources=false")).await;
    assert_eq!(without["sources"], json!([]));
    let scrape = async |accept: &str| {
        let response = service.client.get(format!("{}/metrics", service.url)).header("accept", accept).send().await;
        let response = response.unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        (kind, response.text().await.unwrap())
    };
    let (kind, text) = scrape("text/plain;version=0.0.4").await;
    assert!(kind.starts_with("text/plain; version=0.0.4") && !text.contains("# EOF"), "{kind}");
    let (kind, text) = scrape("application/openmetrics-text;version=1.0.0,text/plain;q=0.5").await;
    assert!(kind.starts_with("application/openmetrics-text") && text.ends_with("# EOF\n"), "{kind}");
}
