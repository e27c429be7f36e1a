//! Streamed answers of a server that sends what a test tells it.

use super::{
    super::http::tests::{Bench, part_by_part},
    tests::model,
};
use crate::{ChatModel, ChatRequest, ChatResponse, Error, Finish, Message, OnPiece, Role};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc;
use wiremock::ResponseTemplate;

fn request() -> ChatRequest {
    ChatRequest::new(vec![Message::user("hi")], 16)
}

fn chunk(delta: Value, finish: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

/// A chunk with this content.
fn says(content: &str) -> Value {
    chunk(json!({ "content": content }), Value::Null)
}

fn ends(why: &str) -> Value {
    chunk(json!({}), json!(why))
}

/// A stream of these chunks, which ends well.
fn stream(chunks: &[Value]) -> ResponseTemplate {
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    raw(&format!(": hello\n\n{events}data: [DONE]\n\n"))
}

fn raw(body: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(body, "text/event-stream; charset=utf-8")
}

/// What a stream gave: the response or error, and the pieces.
async fn asked(model: &dyn ChatModel, request: &ChatRequest) -> (Result<ChatResponse, Error>, Vec<String>) {
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let heard = pieces.clone();
    let on_piece: OnPiece = Arc::new(move |piece| heard.lock().expect("no panic").push(piece.to_owned()));
    let response = model.chat_streaming(request, &on_piece).await;
    let pieces = pieces.lock().expect("no panic").clone();
    (response, pieces)
}

async fn answered_with(response: ResponseTemplate) -> (Result<ChatResponse, Error>, Vec<String>) {
    let bench = Bench::new().await;
    bench.respond(response).await;
    asked(&*model(&bench, |_| ()), &request()).await
}

#[tokio::test]
async fn a_streamed_answer_is_the_one_that_comes_without_a_stream() {
    let usage = json!({ "prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": { "cached_tokens": 8 } });
    let tokens = [json!({ "token": " Yes", "top_logprobs": [{ "token": "Yes", "logprob": -0.1 }] }), json!({})];
    let mut first = says("Yes");
    first["choices"][0]["logprobs"] = json!({ "content": [tokens[0]] });
    let mut second = says(", é");
    second["choices"][0]["logprobs"] = json!({ "content": [tokens[1]] });
    let other = json!({ "choices": [{ "index": 1, "delta": { "content": "another" }, "finish_reason": "length" }] });
    let role = chunk(json!({ "role": "assistant", "content": "" }), Value::Null);
    let counts = json!({ "choices": [], "usage": usage });
    let streamed = Bench::new().await;
    streamed.respond(stream(&[role, first, other, second, ends("stop"), counts])).await;
    let whole = Bench::new().await;
    let choice = json!({
        "message": { "content": "Yes, é" }, "finish_reason": "stop", "logprobs": { "content": tokens }
    });
    whole.answer(200, json!({ "choices": [choice], "usage": usage })).await;
    let request = ChatRequest { choices: vec!["Yes".to_owned(), "No".to_owned()], ..request() };

    let (response, pieces) = asked(&*model(&streamed, |_| ()), &request).await;
    let mut expected = model(&whole, |_| ()).chat(&request).await.expect("an answer");
    let response = response.expect("an answer");
    expected.seconds = response.seconds;
    assert_eq!(response, expected);
    // An `s` may be the beginning of the key.
    assert_eq!(pieces, ["Ye", "s, é"]);
    let (sent, _) = streamed.last_request().await;
    assert_eq!((&sent["stream"], &sent["stream_options"]), (&json!(true), &json!({ "include_usage": true })));
    let (sent, _) = whole.last_request().await;
    assert_eq!(sent.get("stream"), None);
}

#[tokio::test]
async fn a_stream_that_does_not_say_that_it_is_whole_is_no_answer() {
    let text = |chunks: &[Value]| chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>();
    let (response, pieces) = answered_with(raw(&text(&[says("half of")]))).await;
    let error = response.expect_err("it broke off");
    assert!(matches!(error, Error::Connection { .. }) && error.is_transient(), "{error:?}");
    assert_eq!(pieces, ["half of"]);
    let (response, _) = answered_with(raw("")).await;
    assert!(matches!(response, Err(Error::Connection { .. })), "{response:?}");
    let (response, _) = answered_with(raw(&text(&[says("all"), ends("stop")]))).await;
    assert_eq!(response.expect("it said why it ends").text, "all");
    let (response, _) = answered_with(stream(&[says("all")])).await;
    assert_eq!(response.expect("the server said that this is all").text, "all");
    let (response, _) = answered_with(raw("data: {\"choices\": [{\"del\n\n")).await;
    let error = response.expect_err("half an event");
    assert!(matches!(error, Error::Malformed { .. }) && error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn an_error_in_the_stream_has_its_type() {
    type Expected = fn(&Error) -> bool;
    let coded = |code: Value| json!({ "error": { "message": "said", "code": code } });
    let cases: [(String, Expected); 5] = [
        (format!("data: {}", coded(json!(429))), |e| matches!(e, Error::RateLimited { .. })),
        (format!("data: {}", coded(json!("insufficient_quota"))), |e| matches!(e, Error::Server { .. })),
        (format!("data: {}", coded(json!(null))), |e| matches!(e, Error::Server { status: 500, .. })),
        ("event: error\ndata: {\"message\": \"said\", \"code\": 503}".to_owned(), |e| {
            matches!(e, Error::Server { status: 503, .. })
        }),
        // After a beginning, a refusal is a failure of the server.
        (format!("data: {}\n\ndata: {}", says("a"), coded(json!(400))), |e| {
            matches!(e, Error::Server { status: 400, .. }) && e.is_transient()
        }),
    ];
    for (events, expected) in cases {
        let (response, _) = answered_with(raw(&format!("{events}\n\n"))).await;
        let error = response.expect_err("an error");
        assert!(expected(&error), "{events}: {error:?}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_part_of_a_stream_is_asked_without_and_not_again_with() {
    let bench = Bench::new().await;
    let refusal = |message: &str| json!({ "error": { "message": message, "code": 400 } });
    bench.answer_once(400, refusal("Unknown parameter: stream_options")).await;
    bench.answer_once(400, refusal("This model cannot stream.")).await;
    bench.answer(200, json!({ "choices": [{ "message": { "content": "ok" }, "finish_reason": "stop" }] })).await;
    let model = model(&bench, |_| ());
    let (response, pieces) = asked(&*model, &request()).await;
    assert_eq!((response.expect("an answer").text.as_str(), pieces.as_slice()), ("ok", &["ok".to_owned()][..]));
    asked(&*model, &request()).await.0.expect("an answer");
    assert_eq!(bench.n_requests().await, 4, "it was remembered");
    let (sent, _) = bench.last_request().await;
    assert_eq!((sent.get("stream"), sent.get("stream_options")), (None, None));
}

#[tokio::test]
async fn a_server_that_answers_as_one_gives_one_piece() {
    let bench = Bench::new().await;
    bench.answer(200, json!({ "choices": [{ "message": { "content": "all" }, "finish_reason": "length" }] })).await;
    let model = model(&bench, |config| config.omit = vec!["stream_options".to_owned()]);
    let (response, pieces) = asked(&*model, &request()).await;
    assert_eq!((response.expect("an answer").finish, pieces), (Finish::Length, vec!["all".to_owned()]));
    let (sent, _) = bench.last_request().await;
    assert_eq!((&sent["stream"], sent.get("stream_options")), (&json!(true), None));
}

#[tokio::test]
async fn a_call_of_a_tool_in_the_place_of_a_text_is_told_as_that() {
    let call = json!({ "id": "a", "type": "function", "function": { "name": "look", "arguments": "{}" } });
    let message = json!({ "content": null, "tool_calls": [call] });
    let whole = json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] });
    let called = chunk(json!({ "tool_calls": [call] }), Value::Null);
    for is_stream in [false, true] {
        let bench = Bench::new().await;
        match is_stream {
            true => bench.respond(stream(&[called.clone(), ends("stop")])).await,
            false => bench.answer(200, whole.clone()).await,
        }
        let (response, _) = asked(&*model(&bench, |_| ()), &request()).await;
        let error = response.expect_err("no text");
        assert!(matches!(error, Error::NoText { .. }) && error.to_string().contains("called a tool"), "{error}");
        assert!(!error.is_transient(), "it would call it again");
        assert_eq!(bench.n_requests().await, 1);
    }
}

#[tokio::test]
async fn a_key_that_is_sent_back_in_pieces_is_shown_in_none() {
    let parts = ["the key sk-", "very", "-secret of team-", "secret, not sk-", "very"];
    let mut chunks: Vec<Value> = parts.map(says).to_vec();
    chunks.push(ends("stop"));
    let bench = Bench::new().await;
    bench.respond(stream(&chunks)).await;
    let with_both = model(&bench, |config| {
        config.headers.insert("x-team".to_owned(), "env:TEAM".to_owned());
    });
    let (response, pieces) = asked(&*with_both, &request()).await;
    let expected = "the key [redacted] of [redacted], not sk-very";
    assert_eq!((response.expect("an answer").text.as_str(), pieces.concat().as_str()), (expected, expected));
    assert!(pieces.len() > 2, "{pieces:?}");
}

#[tokio::test]
async fn a_refused_schema_goes_into_the_instructions() {
    let bench = Bench::new().await;
    let refusal = json!({ "error": { "message": "'response_format' of type 'json_schema' is not supported" } });
    bench.answer_once(400, refusal).await;
    bench.answer(200, json!({ "choices": [{ "message": { "content": "{}" }, "finish_reason": "stop" }] })).await;
    let model = model(&bench, |_| ());
    let request = ChatRequest { schema: Some(json!({ "type": "object" })), ..request() };
    for _ in 0..2 {
        model.chat(&request).await.expect("an answer");
    }
    assert_eq!(bench.n_requests().await, 3, "it was remembered");
    let (sent, _) = bench.last_request().await;
    assert_eq!(sent.get("response_format"), None);
    let first: Message = serde_json::from_value(sent["messages"][0].clone()).expect("a message");
    assert!(first.role == Role::System && first.content.contains(r#"{"type":"object"}"#), "{first:?}");
    assert_eq!(sent["messages"][1], json!({ "role": "user", "content": "hi" }));
}

#[tokio::test]
async fn pieces_come_while_the_rest_is_not_written_yet() {
    let (server_url, server) = part_by_part().await;
    let base_url = format!("{server_url}/v1");
    let model = model(&Bench::new().await, |config| config.base_url = base_url);
    let (told, mut pieces) = mpsc::unbounded_channel();
    let on_piece: OnPiece = Arc::new(move |piece| told.send(piece.to_owned()).expect("the test listens"));
    let call = tokio::spawn(async move { model.chat_streaming(&request(), &on_piece).await });
    let event = |chunk: Value| format!("data: {chunk}\n\n");
    server.send(event(says("one")).into_bytes()).expect("it listens");
    assert_eq!(pieces.recv().await.as_deref(), Some("one"));
    // Half an event is no piece, and the other half makes it one.
    let (first, second) = (event(says("two"))[..20].to_owned(), event(says("two"))[20..].to_owned());
    server.send(first.into_bytes()).expect("it listens");
    server.send(second.into_bytes()).expect("it listens");
    assert_eq!(pieces.recv().await.as_deref(), Some("two"));
    assert!(!call.is_finished());
    server.send((event(ends("stop")) + "data: [DONE]\n\n").into_bytes()).expect("it listens");
    assert_eq!(call.await.expect("no panic").expect("an answer").text, "onetwo");
}

#[tokio::test]
async fn silence_is_a_timeout_and_a_comment_is_silence() {
    let (server_url, server) = part_by_part().await;
    let base_url = format!("{server_url}/v1");
    let patience = 300.0;
    let model = model(&Bench::new().await, |config| {
        (config.base_url, config.timeout_seconds) = (base_url, patience);
    });
    let (told, mut pieces) = mpsc::unbounded_channel();
    let on_piece: OnPiece = Arc::new(move |piece| told.send(piece.to_owned()).expect("the test listens"));
    let call = tokio::spawn(async move { model.chat_streaming(&request(), &on_piece).await });
    server.send(format!("data: {}\n\n", says("one")).into_bytes()).expect("it listens");
    assert_eq!(pieces.recv().await.as_deref(), Some("one"));
    // From here on time passes only while nothing else is to do, so a busy machine delays no comment.
    tokio::time::pause();
    let keep_alive = tokio::spawn(async move {
        while server.send(b": still here\n\n".to_vec()).is_ok() {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    });
    let response = call.await.expect("no panic");
    keep_alive.abort();
    let error = response.expect_err("nothing more came");
    assert!(matches!(error, Error::Timeout { after, .. } if after.as_secs_f64() == patience), "{error:?}");
    assert_eq!(pieces.recv().await, None, "no other piece came");
}
