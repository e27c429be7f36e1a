//! A program on a simulated server, and what its replies become.

use super::*;
use crate::{Client, JsonService, RetryPolicy, StatedUsage, remote::testing::Bench, system_section};
use async_trait::async_trait;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use wiremock::ResponseTemplate;

fn settings(bench: &Bench) -> JsonEndpointSettings {
    JsonEndpointSettings {
        section: system_section("app"),
        url: bench.address("/ask"),
        ..JsonEndpointSettings::default()
    }
}

fn endpoint(bench: &Bench, settings: JsonEndpointSettings) -> JsonEndpoint {
    build(bench, settings).expect("an endpoint")
}

fn build(bench: &Bench, settings: JsonEndpointSettings) -> Result<JsonEndpoint, Error> {
    let address = settings.address(&bench.context())?;
    let [provider, model, revision] = ["http", &address, &address].map(str::to_owned);
    JsonEndpoint::new(Identity { provider, model, revision, parameters: json!({}) }, settings, &bench.context())
}

/// The reply to a request without parameters.
async fn reply_to(response: ResponseTemplate) -> Result<ServiceReply, Error> {
    let bench = Bench::new().await;
    bench.respond(response).await;
    endpoint(&bench, settings(&bench)).call(&BTreeMap::new(), Some(&json!({}))).await
}

#[tokio::test]
async fn any_method_is_sent_with_parameters_and_a_body() {
    let bench = Bench::new().await;
    bench.answer(200, json!({ "answer": "yes" })).await;
    for method in ["POST", "put", "PATCH", "QUERY"] {
        let settings = JsonEndpointSettings { method: method.to_owned(), ..settings(&bench) };
        let body = json!({ "question": "Why?", "k": 5 });
        let reply = endpoint(&bench, settings).call(&BTreeMap::new(), Some(&body)).await.expect("a reply");
        assert_eq!((reply.body, bench.last_method().await), (json!({ "answer": "yes" }), method.to_uppercase()));
        assert_eq!(bench.last_request().await.0, body);
        assert_eq!(bench.last_address().await, ("/ask".to_owned(), None));
    }
    let get = JsonEndpointSettings { method: "GET".to_owned(), url: bench.address("/ask/"), ..settings(&bench) };
    let query = [("q", "Was kostet {das} & wo?"), ("k", "5")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    endpoint(&bench, get).call(&query.into(), None).await.expect("a reply");
    let (path, query) = bench.last_address().await;
    assert_eq!((path.as_str(), bench.last_method().await.as_str()), ("/ask/", "GET"), "the slash is kept");
    assert_eq!(query.as_deref(), Some("k=5&q=Was+kostet+%7Bdas%7D+%26+wo%3F"));
    let wrong = JsonEndpointSettings { method: "GET it".to_owned(), ..settings(&bench) };
    let error = build(&bench, wrong).expect_err("no method").to_string();
    assert!(error.starts_with("[systems.app]: `method` is no HTTP method: `GET it`"), "{error}");
}

#[tokio::test]
async fn headers_come_from_settings_and_variables_and_asked_ones_come_back() {
    let bench = Bench::new().await;
    let response = ResponseTemplate::new(200).set_body_json(json!({})).insert_header("X-Version", "7 of team-secret");
    bench.respond(response).await;
    let headers = [("x-team", "env:TEAM"), ("x-tenant", "a")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = JsonEndpointSettings {
        headers: headers.into(),
        api_key_env: Some("KEY".to_owned()),
        kept_headers: vec!["x-version".to_owned(), "x-missing".to_owned()],
        ..settings(&bench)
    };
    let access = settings.access();
    assert_eq!(access.variables, ["KEY", "TEAM"]);
    assert_eq!((access.address, access.headers), (bench.address("/ask"), vec![("x-tenant".into(), "a".into())]));
    let endpoint = endpoint(&bench, settings);
    assert_eq!(endpoint.account(), "KEY");
    let reply = endpoint.call(&BTreeMap::new(), Some(&json!({}))).await.expect("a reply");
    assert_eq!(reply.headers, BTreeMap::from([("x-version".to_owned(), "7 of [redacted]".to_owned())]));
    let sent = bench.last_request().await.1;
    let sent = ["x-team", "x-tenant", "authorization", "accept"].map(|name| sent[name].to_str().expect("text"));
    assert_eq!(sent, ["team-secret", "a", "Bearer sk-very-secret", "application/json"]);
}

#[tokio::test]
async fn secrets_are_removed_from_replies_and_errors() {
    let bench = Bench::new().await;
    let keyed = JsonEndpointSettings { api_key_env: Some("KEY".to_owned()), ..settings(&bench) };
    let endpoint = endpoint(&bench, keyed);
    let call = || async { endpoint.call(&BTreeMap::new(), Some(&json!({}))).await };
    // JSON may write characters of a secret as escapes.
    let spelt = r#"{ "answer": "I saw sk-very-secret", "sk\u002dvery-secret": ["sk-very\u002dsecret"] }"#;
    bench.answer_once_with(ResponseTemplate::new(200).set_body_string(spelt)).await;
    let reply = call().await.expect("a reply");
    assert_eq!(reply.body, json!({ "answer": "I saw [redacted]", "[redacted]": ["[redacted]"] }));
    for response in [
        ResponseTemplate::new(400).set_body_string("bad key sk-very-secret"),
        ResponseTemplate::new(200).set_body_string("plain sk-very-secret"),
        ResponseTemplate::new(200).set_body_json(json!({ "error": "no sk-very-secret" })),
        ResponseTemplate::new(307).insert_header("location", "/sk-very-secret"),
    ] {
        bench.answer_once_with(response).await;
        let error = call().await.expect_err("an error");
        let text = format!("{error} {error:?} {endpoint:?}");
        assert!(text.contains("[redacted]") && !text.contains("very-secret"), "{text}");
    }
}

#[tokio::test]
async fn replies_that_are_no_json_are_named_as_what_they_are() {
    let html = ResponseTemplate::new(200).set_body_raw("\n<!DOCTYPE html><html></html>", "text/plain");
    let login = ResponseTemplate::new(200).set_body_raw("Please log in", "text/html; charset=utf-8");
    let stream = ResponseTemplate::new(200).set_body_raw("data: {}\n\n", "text/event-stream");
    let cases = [
        (html, "it sent HTML, not JSON: check `url`"),
        (login, "it sent HTML, not JSON: check `url`"),
        (ResponseTemplate::new(204), "it is empty (status 204): check `url`"),
        (ResponseTemplate::new(200).set_body_string(" \n"), "it is empty (status 200): check `url`"),
        (stream, "a stream of events"),
        (ResponseTemplate::new(200).set_body_string("Paris, I think"), "it begins with: Paris, I think"),
        (ResponseTemplate::new(200).set_body_string("{\"answer\": \"cut"), "not JSON: EOF while parsing"),
    ];
    for (response, expected) in cases {
        let error = reply_to(response).await.expect_err("no reply");
        // A page or a stream comes again at each attempt; a reply that is empty or cut may not.
        let is_of_another_kind = expected.contains("HTML") || expected.contains("stream");
        assert_eq!(matches!(error, Error::NotJson { .. }), is_of_another_kind, "{error:?}");
        assert_eq!(error.is_transient(), !is_of_another_kind, "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("[systems.app] sent an answer that cannot be read: "), "{text}");
        assert!(text.contains(expected), "{text} lacks {expected}");
    }
    let spoken = ResponseTemplate::new(200).set_body_raw("{\"answer\": \"a\"}", "text/html");
    assert!(reply_to(spoken).await.is_ok(), "JSON is read whatever its type is called");
}

#[tokio::test]
async fn an_error_in_a_reply_is_an_error_unless_it_is_blank() {
    for blank in [json!(null), json!(""), json!(false), json!([]), json!({})] {
        let body = json!({ "answer": "a", "error": blank });
        assert!(reply_to(ResponseTemplate::new(200).set_body_json(body)).await.is_ok());
    }
    let body = json!({ "error": "the index is being built" });
    let error = reply_to(ResponseTemplate::new(200).set_body_json(body)).await.expect_err("an error");
    assert!(error.to_string().contains("the index is being built"), "{error}");
}

#[tokio::test]
async fn a_reply_beyond_the_limit_is_too_large() {
    let bench = Bench::new().await;
    bench.answer(200, json!({ "answer": "x".repeat(5000) })).await;
    let small = JsonEndpointSettings { max_response_bytes: 4096, ..settings(&bench) };
    let error = endpoint(&bench, small).call(&BTreeMap::new(), None).await.expect_err("too large");
    assert!(matches!(error, Error::TooLarge { limit: 4096, .. }), "{error:?}");
    assert!(error.to_string().starts_with("[systems.app] sent an answer of more than 4096 bytes"), "{error}");
}

#[tokio::test]
async fn a_call_that_hangs_times_out_and_is_final_if_it_must_not_be_repeated() {
    let bench = Bench::new().await;
    bench.respond(ResponseTemplate::new(200).set_delay(Duration::from_secs(600))).await;
    let hasty = JsonEndpointSettings { timeout_seconds: 0.05, ..settings(&bench) };
    let once = JsonEndpointSettings { retry_timeouts: false, ..hasty.clone() };
    let error = endpoint(&bench, hasty).call(&BTreeMap::new(), None).await.expect_err("a timeout");
    assert!(matches!(error, Error::Timeout { .. }) && error.is_transient(), "{error:?}");
    let error = endpoint(&bench, once).call(&BTreeMap::new(), None).await.expect_err("a timeout");
    assert!(matches!(error, Error::FinalTimeout { .. }) && !error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn a_redirect_says_where_to_and_what_to_set() {
    let bench = Bench::new().await;
    bench.respond(ResponseTemplate::new(307).insert_header("location", "/ask/")).await;
    let error = endpoint(&bench, settings(&bench)).call(&BTreeMap::new(), None).await.expect_err("a redirect");
    let (from, to) = (bench.address("/ask"), bench.address("/ask/"));
    assert_eq!(
        error.to_string(),
        format!(
            "{from} (`url` of [systems.app]) redirects to {to} (307), which is not followed; if that address is \
             right, set `url` to it"
        )
    );
}

#[tokio::test]
async fn refusals_have_the_types_of_those_of_models_and_name_the_systems_settings() {
    let missing = reply_to(ResponseTemplate::new(404).set_body_json(json!({ "detail": "Not Found" }))).await;
    let text = missing.expect_err("a refusal").to_string();
    assert!(
        text.ends_with("refused the request (404): Not Found; check `url`, `method`, `headers`, `query` and `body`")
    );
    let busy = ResponseTemplate::new(503).insert_header("retry-after", "2");
    let error = reply_to(busy).await.expect_err("a refusal");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    let error =
        reply_to(ResponseTemplate::new(429).insert_header("retry-after-ms", "30")).await.expect_err("a refusal");
    assert!(
        matches!(error, Error::RateLimited { retry_after: Some(after), .. } if after.as_millis() == 30),
        "{error:?}"
    );
}

/// An endpoint as a service whose requests are bodies.
struct Bodies(JsonEndpoint);

impl Model for Bodies {
    fn identity(&self) -> &Identity {
        self.0.identity()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn rate_hints(&self) -> Option<executor::RateHints> {
        self.0.rate_hints()
    }
}

#[async_trait]
impl JsonService for Bodies {
    async fn call(&self, request: &Value) -> Result<ServiceReply, Error> {
        self.0.call(&BTreeMap::new(), Some(request)).await
    }

    fn stated_usage(&self, _: &ServiceReply) -> StatedUsage {
        StatedUsage::default()
    }
}

#[tokio::test]
async fn a_rate_limited_call_is_made_again_after_the_wait_that_was_asked_for() {
    let bench = Bench::new().await;
    bench.answer_once_with(ResponseTemplate::new(429).insert_header("retry-after-ms", "40")).await;
    bench.answer(200, json!({ "answer": "a" })).await;
    let service = Arc::new(Bodies(endpoint(&bench, settings(&bench))));
    let policy = RetryPolicy { base_delay: Duration::from_millis(1), ..RetryPolicy::default() };
    let client = Client::new(None).with_retry(policy);
    let began = Instant::now();
    let reply = client.service(service).ask(&json!({ "question": "q" })).await.expect("a reply");
    assert_eq!((reply.body["answer"].as_str(), bench.n_requests().await), (Some("a"), 2));
    assert!(began.elapsed() >= Duration::from_millis(40), "{:?}", began.elapsed());
    assert_eq!(client.meter().total().refused, 1);
}

#[tokio::test]
async fn a_version_is_asked_for_with_secrets_only_at_the_same_server() {
    let (bench, elsewhere) = (Bench::new().await, Bench::new().await);
    let version = || ResponseTemplate::new(200).set_body_string("2025-11-03 of sk-very-secret");
    bench.respond(version()).await;
    elsewhere.respond(version()).await;
    let headers = [("x-team", "env:TEAM"), ("x-tenant", "a")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings =
        JsonEndpointSettings { headers: headers.into(), api_key_env: Some("KEY".to_owned()), ..settings(&bench) };
    let endpoint = endpoint(&bench, settings);
    let text = endpoint.get_text(&bench.address("/version"), "version.url").await.expect("a version");
    assert_eq!(text, "2025-11-03 of [redacted]");
    assert_eq!(bench.last_method().await, "GET");
    let sent = bench.last_headers().await;
    assert!(sent.contains_key("authorization") && sent.contains_key("x-team") && sent.contains_key("x-tenant"));
    endpoint.get_text(&elsewhere.address("/version"), "version.url").await.expect("a version");
    let sent = elsewhere.last_headers().await;
    assert!(!sent.contains_key("authorization") && !sent.contains_key("x-team") && sent.contains_key("x-tenant"));
    let error = endpoint.get_text("no address", "version.url").await.expect_err("no address").to_string();
    assert!(error.starts_with("[systems.app]: `version.url` is no address"), "{error}");
}

#[tokio::test]
async fn addresses_that_cannot_be_are_refused_by_the_name_of_their_setting() {
    let bench = Bench::new().await;
    for (url, expected) in [
        ("", "[systems.app]: `url` is missing, such as http://127.0.0.1:8000/ask"),
        ("localhost:8000/ask", "`url` must begin with http:// or https://"),
        ("http://me:secret@h/ask", "`url` must hold no user, password or query"),
        ("http://h/ask?k=5", "`url` must hold no parameters: write what follows the `?` under `query`"),
    ] {
        let error = settings_at(url).address(&bench.context()).expect_err(url).to_string();
        assert!(error.contains(expected) && !error.contains("me:secret"), "{error}");
    }
    let keyed = JsonEndpointSettings { api_key_env: Some("KEY".to_owned()), ..settings_at("http://10.0.0.1/ask") };
    let error = build(&bench, keyed).expect_err("no TLS").to_string();
    assert!(error.contains("without TLS") && error.contains("plain_http"), "{error}");
    let secret = JsonEndpointSettings {
        query: [("api_key".to_owned(), "sk-1".to_owned())].into(),
        ..settings_at("http://h/ask")
    };
    let error = build(&bench, secret).expect_err("a secret").to_string();
    assert!(error.contains("`query.api_key` is a secret") && !error.contains("sk-1"), "{error}");
}

fn settings_at(url: &str) -> JsonEndpointSettings {
    JsonEndpointSettings { section: system_section("app"), url: url.to_owned(), ..JsonEndpointSettings::default() }
}
