//! Requests, answers and refusals of a simulated chat endpoint.

use super::Config;
use crate::{ChatModel, ChatRequest, Error, Finish, Message, Usage, provider::ModelSettings, remote::testing::Bench};
use serde_json::{Value, json};
use std::sync::Arc;

fn request() -> ChatRequest {
    ChatRequest::new(vec![Message::system("be short"), Message::user("hi")], 16)
}

pub(super) fn model(bench: &Bench, change: impl FnOnce(&mut Config)) -> Arc<dyn ChatModel> {
    let mut config = Config {
        model: "m".to_owned(),
        base_url: bench.base_url(),
        api_key_env: Some("KEY".to_owned()),
        timeout_seconds: 120.0,
        ..Config::default()
    };
    change(&mut config);
    config.build(&bench.context()).expect("a model")
}

fn answer(message: Value, finish: &str) -> Value {
    json!({
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": { "cached_tokens": 8 } },
    })
}

#[tokio::test]
async fn a_request_and_its_answer_follow_the_protocol() {
    let bench = Bench::new().await;
    bench.answer(200, answer(json!({ "role": "assistant", "content": "hello" }), "stop")).await;
    let model = model(&bench, |config| {
        config.headers.insert("x-team".to_owned(), "env:TEAM".to_owned());
        config.omit = vec!["seed".to_owned()];
        config.extra.insert("reasoning_effort".to_owned(), json!("low"));
    });
    let mut request = request();
    request.temperature = 0.1;
    request.stop = vec!["\n".to_owned()];
    request.schema = Some(json!({ "type": "object" }));
    let response = model.chat(&request).await.expect("an answer");
    assert_eq!((response.text.as_str(), response.finish), ("hello", Finish::Stop));
    assert_eq!(response.usage, Usage { prompt_tokens: 12, cached_tokens: 8, completion_tokens: 3, ..Usage::default() });
    let (sent, headers) = bench.last_request().await;
    assert_eq!(headers.get("authorization").and_then(|key| key.to_str().ok()), Some("Bearer sk-very-secret"));
    assert_eq!(headers.get("x-team").and_then(|team| team.to_str().ok()), Some("team-secret"));
    let schema = json!({ "name": "answer", "strict": true, "schema": { "type": "object" } });
    let expected = json!({
        "model": "m",
        "messages": [{ "role": "system", "content": "be short" }, { "role": "user", "content": "hi" }],
        "max_tokens": 16,
        "temperature": 0.1,
        "stop": ["\n"],
        "response_format": { "type": "json_schema", "json_schema": schema },
        "reasoning_effort": "low",
    });
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn choices_are_read_from_the_first_token() {
    let bench = Bench::new().await;
    let alternatives = json!([
        { "token": " Yes", "logprob": (0.5f64).ln() },
        { "token": "yes", "logprob": (0.1f64).ln() },
        { "token": "No", "logprob": (0.2f64).ln() },
        { "token": "", "logprob": 0.0 },
        { "token": "Maybe", "logprob": (0.2f64).ln() },
    ]);
    let mut body = answer(json!({ "content": "Yes" }), "stop");
    let blank = json!({ "token": "\n", "top_logprobs": [] });
    body["choices"][0]["logprobs"] = json!({ "content": [blank, { "token": " Yes", "top_logprobs": alternatives }] });
    bench.answer(200, body).await;
    let mut request = request();
    request.choices = vec!["Yes".to_owned(), "No".to_owned()];
    let response = model(&bench, |_| ()).chat(&request).await.expect("an answer");
    assert!((response.choices[0] - 0.75).abs() < 1e-9 && (response.choices[1] - 0.25).abs() < 1e-9);
    let (sent, _) = bench.last_request().await;
    assert_eq!((&sent["logprobs"], &sent["top_logprobs"]), (&json!(true), &json!(20)));
}

#[tokio::test]
async fn the_newer_name_of_the_limit_is_used_where_it_is_wanted() {
    let bench = Bench::new().await;
    let refusal = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
    bench.answer_once(400, json!({ "error": { "message": refusal, "code": "unsupported_parameter" } })).await;
    bench.answer(200, answer(json!({ "content": "ok" }), "stop")).await;
    let model = model(&bench, |_| ());
    model.chat(&request()).await.expect("the second try");
    model.chat(&request()).await.expect("the newer name at once");
    let (sent, _) = bench.last_request().await;
    assert_eq!((&sent["max_completion_tokens"], sent.get("max_tokens")), (&json!(16), None));
    assert_eq!(bench.n_requests().await, 3);
}

#[tokio::test]
async fn what_was_withheld_cut_or_broken_is_told_apart() {
    let cases = [
        (answer(json!({ "content": null, "refusal": "no" }), "stop"), "withheld"),
        (answer(json!({ "content": "half" }), "content_filter"), "withheld"),
        (answer(json!({ "content": null }), "stop"), "cannot be read"),
        (json!({ "choices": [] }), "cannot be read"),
    ];
    for (body, expected) in cases {
        let bench = Bench::new().await;
        bench.answer(200, body).await;
        let error = model(&bench, |_| ()).chat(&request()).await.expect_err("no answer").to_string();
        assert!(error.contains(expected), "{error}");
    }
    let bench = Bench::new().await;
    let parts = json!({ "content": [{ "type": "text", "text": "ab" }] });
    bench.answer(200, json!({ "choices": [{ "message": parts, "finish_reason": "length" }] })).await;
    let response = model(&bench, |_| ()).chat(&request()).await.expect("an answer");
    assert_eq!((response.text.as_str(), response.finish), ("ab", Finish::Length));
    assert!(response.usage.prompt_tokens > 0 && response.usage.completion_tokens > 0, "they are estimated");
}

#[tokio::test]
async fn a_context_that_is_too_small_is_told_in_tokens() {
    let bench = Bench::new().await;
    let message = "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens.";
    bench.answer_once(400, json!({ "error": { "message": message, "code": 400 } })).await;
    bench.answer(400, json!({ "error": { "message": "too long", "code": "context_length_exceeded" } })).await;
    let model = model(&bench, |_| ());
    let error = model.chat(&request()).await.expect_err("too long");
    assert!(matches!(error, Error::ContextTooLong { tokens: 9001, limit: 8192, .. }), "{error:?}");
    let error = model.chat(&request()).await.expect_err("too long");
    assert!(matches!(error, Error::ContextTooLong { tokens: 19.., limit: 32_768, .. }), "{error:?}");
}

#[test]
fn settings_that_cannot_work_are_refused_before_any_call() {
    let identity = |base_url: &str| {
        let config = Config { model: "m".to_owned(), base_url: base_url.to_owned(), ..Config::default() };
        config.settings().base(&crate::remote::testing::context())
    };
    assert_eq!(identity("http://h:1/v1/").ok().as_deref(), Some("http://h:1/v1"));
    for base_url in ["h/v1", "ftp://h", "http://user:secret@h/v1", "http://h/v1?key=secret"] {
        let error = identity(base_url).expect_err("refused").to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn without_an_address_it_is_openai_s_own_or_what_its_variable_holds() {
    let config = Config { model: "gpt-4o-mini".to_owned(), ..Config::default() };
    let with = |address: Option<&'static str>| crate::provider::ModelContext {
        environment: std::sync::Arc::new(move |name: &str| match name {
            "OPENAI_BASE_URL" => address.map(str::to_owned),
            _ => None,
        }),
        ..crate::remote::testing::context()
    };
    let base = |cx: &crate::provider::ModelContext| config.settings().base(cx).expect("an address");
    assert_eq!(base(&with(None)), "https://api.openai.com/v1");
    assert_eq!(base(&with(Some("http://127.0.0.1:9/v1/"))), "http://127.0.0.1:9/v1");
    assert_eq!(config.settings().key_variable(), Some("OPENAI_API_KEY"));
    let error = config.settings().build_endpoint(&with(None)).expect_err("no key").to_string();
    assert!(error.contains("OPENAI_API_KEY"), "{error}");
    // Another address has no key by default, and an empty name turns it off.
    let own = Config { base_url: "http://h/v1".to_owned(), ..config.clone() };
    assert_eq!(own.settings().key_variable(), None);
    let free = Config { api_key_env: Some(String::new()), ..config.clone() };
    assert_eq!(free.settings().key_variable(), None);
}
