//! The provider as a client sees it: answers, streams, vectors, limits and
//! their headers, counts and control.
#![expect(clippy::expect_used, reason = "a test that cannot go on should say so")]

use reqwest::{Client, Response, header::HeaderMap};
use serde_json::{Value, json};
use simulator::{RunningSimulator, SimulatorSettings, start};

fn client() -> Client {
    store::http_client().build().expect("a client")
}

async fn provider(settings: Value) -> RunningSimulator {
    start(serde_json::from_value(settings).expect("settings")).await.expect("a provider")
}

fn question(text: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": text }], "max_tokens": 8 })
}

async fn post(client: &Client, provider: &RunningSimulator, path: &str, body: &Value) -> Response {
    client.post(format!("{}{path}", provider.url)).json(body).send().await.expect("an answer")
}

async fn chat(client: &Client, provider: &RunningSimulator, body: &Value) -> Response {
    post(client, provider, "/v1/chat/completions", body).await
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[tokio::test]
async fn an_answer_has_the_shape_of_openai_and_depends_on_the_request_only() {
    let (client, provider) = (client(), provider(json!({})).await);
    let first: Value = chat(&client, &provider, &question("why?")).await.json().await.expect("JSON");
    let again: Value = chat(&client, &provider, &question("why?")).await.json().await.expect("JSON");
    let other: Value = chat(&client, &provider, &question("how?")).await.json().await.expect("JSON");
    assert_eq!((&first["object"], &first["model"]), (&json!("chat.completion"), &json!("m")));
    assert_eq!(first["choices"][0]["message"]["role"], "assistant");
    assert_eq!(first["usage"]["completion_tokens"], 8);
    assert_eq!(first, again);
    assert_ne!(first["choices"], other["choices"]);
    let stats = provider.stats();
    assert_eq!((stats.requests, stats.answered, stats.unique_answered, stats.answered_twice), (3, 3, 2, 1));
    assert_eq!((stats.in_flight, stats.completion_tokens), (0, 24));
    let models: Value =
        client.get(format!("{}/v1/models", provider.url)).send().await.expect("sent").json().await.expect("JSON");
    assert_eq!(models["data"][0]["object"], "model");
}

#[tokio::test]
async fn a_stream_brings_the_same_words_piece_by_piece() {
    let (client, provider) = (client(), provider(json!({ "latency": { "constant": { "seconds": 0.01 } } })).await);
    let mut body = question("why?");
    body["stream"] = json!(true);
    body["stream_options"] = json!({ "include_usage": true });
    let response = chat(&client, &provider, &body).await;
    assert!(header(response.headers(), "content-type").is_some_and(|kind| kind.starts_with("text/event-stream")));
    let text = response.text().await.expect("a whole stream");
    let events: Vec<&str> = text.split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    let (last, events) = events.split_last().expect("events");
    assert_eq!(*last, "[DONE]");
    let events: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).expect("JSON")).collect();
    let words: String = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(words.split(' ').count(), 8);
    let (usage, chunks) = events.split_last().expect("chunks");
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(8)));
    assert_eq!(chunks.last().map(|chunk| &chunk["choices"][0]["finish_reason"]), Some(&json!("length")));
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["usage"].is_null()));
    assert_eq!((provider.stats().answered, provider.stats().in_flight), (1, 0));
}

#[tokio::test]
async fn structured_answers_match_their_schema() {
    let (client, provider) = (client(), provider(json!({})).await);
    let mut body = question("is it?");
    body["max_tokens"] = json!(100);
    let schema = json!({ "type": "object", "properties": { "verdict": { "enum": ["yes", "no"] } },
        "required": ["verdict"], "additionalProperties": false });
    body["response_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": schema } });
    let answer: Value = chat(&client, &provider, &body).await.json().await.expect("JSON");
    let content = answer["choices"][0]["message"]["content"].as_str().expect("a text");
    let content: Value = serde_json::from_str(content).expect("JSON");
    assert!(["yes", "no"].contains(&content["verdict"].as_str().expect("a verdict")));
}

#[tokio::test]
async fn vectors_come_for_each_text() {
    let (client, provider) = (client(), provider(json!({ "dimensions": 5 })).await);
    let body = json!({ "model": "m", "input": ["a", "b"] });
    let answer: Value = post(&client, &provider, "/v1/embeddings", &body).await.json().await.expect("JSON");
    let lengths: Vec<_> =
        [0, 1].iter().map(|i| answer["data"][*i]["embedding"].as_array().expect("numbers").len()).collect();
    assert_eq!(lengths, [5, 5]);
    assert_eq!(provider.stats().answered, 1);
}

#[tokio::test]
async fn every_answer_tells_the_limits_and_a_refusal_when_to_come_back() {
    let limits = json!({ "requests_per_minute": 1, "request_burst": 2, "tokens_per_minute": 600 });
    let (client, provider) = (client(), provider(limits).await);
    let first = chat(&client, &provider, &question("1234")).await;
    let headers = first.headers();
    assert_eq!(header(headers, "x-ratelimit-limit-requests"), Some("1"));
    assert_eq!(header(headers, "x-ratelimit-remaining-requests"), Some("1"));
    assert_eq!(header(headers, "x-ratelimit-reset-requests"), Some("1m0s"));
    assert_eq!(header(headers, "x-ratelimit-limit-tokens"), Some("600"));
    // 5 of the prompt, 8 of the answer.
    assert_eq!(header(headers, "x-ratelimit-remaining-tokens"), Some("587"));
    assert_eq!(header(headers, "x-ratelimit-reset-tokens"), Some("1.3s"));
    assert_eq!(header(headers, "retry-after"), None);
    chat(&client, &provider, &question("again")).await.error_for_status().expect("the burst is two");
    let refused = chat(&client, &provider, &question("and again")).await;
    assert_eq!(refused.status(), 429);
    let wait: u64 = header(refused.headers(), "retry-after-ms").and_then(|ms| ms.parse().ok()).expect("a number");
    assert!((30_000..=60_000).contains(&wait), "{wait}");
    let seconds: u64 = header(refused.headers(), "retry-after").and_then(|wait| wait.parse().ok()).expect("a number");
    assert_eq!(seconds, wait.div_ceil(1_000));
    assert_eq!(header(refused.headers(), "x-ratelimit-remaining-requests"), Some("0"));
    let error: Value = refused.json().await.expect("JSON");
    assert_eq!((&error["error"]["code"], &error["error"]["type"]), (&json!("rate_limit_exceeded"), &json!("requests")));
    let stats = provider.stats();
    assert_eq!((stats.rejected.requests, stats.rejected.total(), stats.answered), (1, 1, 2));
    assert_eq!(
        (stats.from_second(0).requests, stats.from_second(0).rejected, stats.from_second(60).requests),
        (3, 1, 0)
    );
}

#[tokio::test]
async fn a_silent_provider_tells_nothing() {
    let limits = json!({ "requests_per_minute": 1, "request_burst": 1, "rate_headers": false });
    let (client, provider) = (client(), provider(limits).await);
    for status in [200, 429] {
        let answer = chat(&client, &provider, &question("why?")).await;
        assert_eq!(answer.status(), status);
        let telling = |name: &str| name.starts_with("x-ratelimit") || name.starts_with("retry-after");
        assert!(!answer.headers().keys().any(|name| telling(name.as_str())), "{:?}", answer.headers());
    }
}

#[tokio::test]
async fn one_request_too_many_in_flight_is_refused_at_once() {
    let settings = json!({ "concurrency": 1, "concurrency_retry_after_ms": 40, "faults": { "hang": 1.0 } });
    let (client, provider) = (client(), provider(settings).await);
    let (one, other) = (question("one"), question("other"));
    // Whichever comes first hangs, so only the refusal of the other ends.
    let refused = tokio::select! {
        answer = chat(&client, &provider, &one) => answer,
        answer = chat(&client, &provider, &other) => answer,
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(header(refused.headers(), "retry-after-ms"), Some("40"));
    assert!(!refused.headers().keys().any(|name| name.as_str().starts_with("x-ratelimit")));
    assert_eq!((provider.stats().rejected.concurrency, provider.stats().max_in_flight), (1, 1));
}

#[tokio::test]
async fn settings_change_while_it_runs() {
    let (client, provider) = (client(), provider(json!({})).await);
    let control = async |body: Value| post(&client, &provider, "/control", &body).await;
    let settings: SimulatorSettings =
        control(json!({ "faults": { "server_error": 1.0 }, "answer_tokens": 3 })).await.json().await.expect("settings");
    assert_eq!((settings.faults.server_error, settings.answer_tokens), (1.0, 3));
    assert_eq!(chat(&client, &provider, &question("why?")).await.status(), 500);
    control(json!({ "faults": { "server_error": 0.0 } })).await.error_for_status().expect("taken");
    let answer: Value = chat(&client, &provider, &question("why?")).await.json().await.expect("JSON");
    assert_eq!(answer["usage"]["completion_tokens"], 3);
    let refused = control(json!({ "no_such_setting": 1 })).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.text().await.expect("a text").contains("no_such_setting"));
    let stats: Value =
        client.get(format!("{}/stats", provider.url)).send().await.expect("sent").json().await.expect("JSON");
    assert_eq!((&stats["faults"]["server_error"], &stats["answered"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn what_is_no_request_is_answered_with_400() {
    let (client, provider) = (client(), provider(json!({})).await);
    let answer = chat(&client, &provider, &json!({ "model": "m" })).await;
    assert_eq!(answer.status(), 400);
    let error: Value = answer.json().await.expect("JSON");
    assert_eq!(error["error"]["type"], "invalid_request_error");
    assert_eq!((provider.stats().not_understood, provider.stats().requests), (1, 0));
}

#[tokio::test]
async fn nothing_answers_after_a_shutdown() {
    let (client, provider) = (client(), provider(json!({})).await);
    let url = format!("{}/stats", provider.url);
    client.get(&url).send().await.expect("it answers");
    provider.shutdown().await;
    assert!(client.get(&url).send().await.is_err());
}
