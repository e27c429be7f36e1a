//! A simulated endpoint, and what its refusals become.

use super::*;
use crate::{CpuBudget, EndpointLimits, ModelDirectory, provider::ModelContext};
use reqwest::header::HeaderMap;
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{any, method},
};

/// A context that knows two keys.
pub(crate) fn context() -> ModelContext {
    let environment = |name: &str| match name {
        "KEY" => Some("sk-very-secret".to_owned()),
        "TEAM" => Some("team-secret".to_owned()),
        _ => None,
    };
    ModelContext {
        directory: ModelDirectory::new(PathBuf::from("/nonexistent"), Vec::new()),
        cpu: CpuBudget::new(1),
        environment: Arc::new(environment),
    }
}

/// A server that answers, and a context that knows the keys.
pub(crate) struct Bench {
    server: MockServer,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self { server: MockServer::start().await }
    }

    pub(crate) fn base_url(&self) -> String {
        self.address("/v1")
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.server.uri())
    }

    pub(crate) fn context(&self) -> ModelContext {
        context()
    }

    pub(crate) async fn answer(&self, status: u16, body: Value) {
        self.respond(ResponseTemplate::new(status).set_body_json(body)).await;
    }

    pub(crate) async fn answer_once(&self, status: u16, body: Value) {
        self.answer_once_with(ResponseTemplate::new(status).set_body_json(body)).await;
    }

    pub(crate) async fn answer_once_with(&self, response: ResponseTemplate) {
        Mock::given(method("POST")).respond_with(response).up_to_n_times(1).mount(&self.server).await;
    }

    pub(crate) async fn respond(&self, response: ResponseTemplate) {
        Mock::given(any()).respond_with(response).mount(&self.server).await;
    }

    pub(crate) async fn last_request(&self) -> (Value, HeaderMap) {
        let requests = self.server.received_requests().await.unwrap_or_default();
        let last = requests.last().expect("a request");
        (serde_json::from_slice(&last.body).expect("a JSON body"), self.last_headers().await)
    }

    /// The path and the query of the last request.
    pub(crate) async fn last_address(&self) -> (String, Option<String>) {
        let requests = self.server.received_requests().await.unwrap_or_default();
        let url = &requests.last().expect("a request").url;
        (url.path().to_owned(), url.query().map(str::to_owned))
    }

    /// The headers of the last request.
    pub(crate) async fn last_headers(&self) -> HeaderMap {
        let requests = self.server.received_requests().await.unwrap_or_default();
        let last = requests.last().expect("a request");
        last.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The method of the last request.
    pub(crate) async fn last_method(&self) -> String {
        let requests = self.server.received_requests().await.unwrap_or_default();
        requests.last().expect("a request").method.to_string()
    }

    pub(crate) async fn n_requests(&self) -> usize {
        self.server.received_requests().await.unwrap_or_default().len()
    }

    async fn call(&self, settings: EndpointSettings<'_>) -> Result<Value, Error> {
        settings.build_endpoint(&self.context())?.post("x", &json!({})).await
    }
}

/// A server that answers one request with the parts that it is given, each as
/// it comes; then it keeps the connection open until the end of the test.
pub(crate) async fn part_by_part() -> (String, mpsc::UnboundedSender<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, mut parts) = mpsc::unbounded_channel::<Vec<u8>>();
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.expect("a connection");
        let mut request = vec![0; 1 << 16];
        let _ = connection.read(&mut request).await.expect("a request");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        connection.write_all(head.as_bytes()).await.expect("the head");
        while let Some(part) = parts.recv().await {
            let part = [format!("{:x}\r\n", part.len()).as_bytes(), &part, b"\r\n"].concat();
            connection.write_all(&part).await.expect("a part");
        }
        std::future::pending::<()>().await;
    });
    (url, sender)
}

fn headers() -> BTreeMap<String, String> {
    BTreeMap::from([("x-team".to_owned(), "env:TEAM".to_owned())])
}

fn settings<'a>(base_url: &'a str, headers: &'a BTreeMap<String, String>) -> EndpointSettings<'a> {
    EndpointSettings {
        model: "m",
        base_url,
        api_key_env: Some("KEY"),
        headers,
        timeout_seconds: 120.0,
        connect_timeout_seconds: 120.0,
        plain_http: false,
        max_response_bytes: MAX_RESPONSE,
        concurrency: None,
        limits: EndpointLimits::default(),
        query: NO_QUERY,
        conventions: Conventions::DEFAULT,
    }
}

type Expected = fn(&Error) -> bool;

async fn refused(response: ResponseTemplate) -> Error {
    let bench = Bench::new().await;
    bench.respond(response).await;
    bench.call(settings(&bench.base_url(), &headers())).await.expect_err("a refusal")
}

fn json_refusal(status: u16, body: Value) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(body)
}

#[tokio::test]
async fn every_envelope_is_understood() {
    let bodies = [
        json!({ "error": { "message": "no such model", "type": "invalid_request_error", "code": "model_not_found" } }),
        json!({ "error": { "message": "no such model", "type": "NotFoundError", "code": 404 } }),
        json!({ "object": "error", "message": "no such model", "type": "NotFoundError", "code": 404 }),
        json!({ "error": "no such model" }),
        json!({ "detail": "no such model" }),
        json!({ "Message": "no such model" }),
        json!([{ "error": { "message": "no such model", "status": "NOT_FOUND" } }]),
        json!("no such model"),
    ];
    for body in bodies {
        let error = refused(json_refusal(404, body)).await;
        assert!(
            matches!(&error, Error::Refused { status: 404, message, .. } if message.contains("no such model")),
            "{error:?}"
        );
    }
    let error = refused(ResponseTemplate::new(404).set_body_string("no such\n  model")).await;
    assert!(matches!(&error, Error::Refused { message, .. } if message == "no such model"), "{error:?}");
}

#[tokio::test]
async fn each_refusal_has_its_type() {
    let coded = |code: &str| json!({ "error": { "message": "said", "code": code } });
    let worded = |message: &str| json!({ "error": { "message": message, "type": "invalid_request_error" } });
    let azure = json!({ "error": { "message": "m", "innererror": { "code": "ResponsibleAIPolicyViolation" } } });
    let is: [(u16, Value, Expected); 14] = [
        (401, coded("invalid_api_key"), |e| matches!(e, Error::Authentication { .. })),
        (403, coded(""), |e| matches!(e, Error::Authentication { .. })),
        (402, coded(""), |e| matches!(e, Error::QuotaExhausted { .. })),
        (429, coded("insufficient_quota"), |e| matches!(e, Error::QuotaExhausted { .. })),
        (429, coded("rate_limit_exceeded"), |e| matches!(e, Error::RateLimited { retry_after: None, .. })),
        (403, worded("Out of call volume quota."), |e| matches!(e, Error::QuotaExhausted { .. })),
        (400, worded("Your credit balance is too low."), |e| matches!(e, Error::QuotaExhausted { .. })),
        (400, azure, |e| matches!(e, Error::ContentFiltered { .. })),
        (400, coded("content_filter"), |e| matches!(e, Error::ContentFiltered { .. })),
        (400, coded("context_length_exceeded"), |e| matches!(e, Error::ContextTooLong { .. })),
        (422, coded("invalid"), |e| matches!(e, Error::Refused { status: 422, .. })),
        (500, coded(""), |e| matches!(e, Error::Server { status: 500, .. })),
        (503, coded("overloaded"), |e| matches!(e, Error::Server { status: 503, .. })),
        (200, json!({ "error": { "message": "slow down", "code": 429 } }), |e| matches!(e, Error::RateLimited { .. })),
    ];
    for (status, body, expected) in is {
        let error = refused(json_refusal(status, body.clone())).await;
        assert!(expected(&error), "{status} {body}: {error:?}");
    }
    let llama = json!({ "type": "exceed_context_size_error", "message": "big", "n_prompt_tokens": 900, "n_ctx": 512 });
    let error = refused(json_refusal(400, json!({ "error": llama }))).await;
    assert!(matches!(error, Error::ContextTooLong { tokens: 900, limit: 512, .. }), "{error:?}");
}

#[tokio::test]
async fn what_headers_say_of_limits_comes_with_answers_and_refusals() {
    let bench = Bench::new().await;
    let limited = ResponseTemplate::new(429)
        .insert_header("retry-after-ms", "1500")
        .insert_header("x-ratelimit-remaining-requests", "0")
        .insert_header("x-ratelimit-reset-requests", "6m0s");
    bench.respond(limited).await;
    let (base_url, headers) = (bench.base_url(), headers());
    let endpoint = settings(&base_url, &headers).build_endpoint(&bench.context()).expect("an endpoint");
    assert_eq!(endpoint.hints(), None);
    let error = endpoint.post("x", &json!({})).await.expect_err("limited");
    assert_eq!(error.retry_after(), Some(Duration::from_millis(1500)));
    let hints = endpoint.hints().expect("hints");
    assert_eq!((hints.requests.remaining, hints.requests.reset), (Some(0.0), Some(Duration::from_secs(360))));

    bench.server.reset().await;
    bench.respond(json_refusal(200, json!({})).insert_header("x-ratelimit-limit-tokens", "9000")).await;
    endpoint.post("x", &json!({})).await.expect("an answer");
    assert_eq!(endpoint.hints().and_then(|hints| hints.tokens.per_minute), Some(9000.0));
    bench.server.reset().await;
    bench.respond(json_refusal(200, json!({}))).await;
    endpoint.post("x", &json!({})).await.expect("an answer");
    assert!(endpoint.hints().is_some(), "an answer that says nothing takes nothing back");
    let error = refused(ResponseTemplate::new(503).insert_header("retry-after", "3")).await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn every_way_to_say_that_a_text_is_too_long_is_understood() {
    let cases = [
        ("This model's maximum context length is 8192 tokens. However, you requested 9001 tokens.", 9001, 8192),
        ("prompt is too long: 210000 tokens > 200000 maximum", 210_000, 200_000),
        (
            "The input token count (1,000,001) exceeds the maximum number of tokens allowed (1000000).",
            1_000_001,
            1_000_000,
        ),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 40_000, 32_768),
        ("the request exceeds the context of 4096", 0, 4096),
    ];
    for (message, asked, fits) in cases {
        let error = refused(json_refusal(400, json!({ "error": { "message": message } }))).await;
        assert!(
            matches!(error, Error::ContextTooLong { tokens, limit, .. } if (tokens, limit) == (asked, fits)),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn what_does_not_answer_is_told_apart() {
    let bench = Bench::new().await;
    bench.respond(ResponseTemplate::new(200).set_delay(Duration::from_secs(600))).await;
    let (base_url, headers) = (bench.base_url(), headers());
    let slow = EndpointSettings { timeout_seconds: 0.1, ..settings(&base_url, &headers) };
    assert!(matches!(bench.call(slow).await, Err(Error::Timeout { .. })));
    let nobody = settings("http://127.0.0.1:9/v1", &headers);
    let error = bench.call(nobody).await.expect_err("nobody is there");
    assert!(matches!(error, Error::Connection { .. }));
    let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    let system =
        causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()).next().expect("what the system said");
    assert_eq!(system.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(error.to_string().contains(&system.to_string()), "{error}");
    let error = refused(ResponseTemplate::new(200).set_body_string("<html>")).await;
    assert!(matches!(error, Error::Malformed { .. }) && error.is_transient());
}

#[tokio::test]
async fn a_key_is_shown_nowhere_even_if_it_is_sent_back() {
    let bench = Bench::new().await;
    let (base_url, headers) = (bench.base_url(), headers());
    let settings = settings(&base_url, &headers);
    let endpoint = settings.build_endpoint(&bench.context()).expect("an endpoint");
    let body = json!({ "error": { "message": "the key sk-very-secret of team-secret is wrong" } });
    let error = refused(json_refusal(401, body)).await;
    let shown = format!("{error} {error:?} {endpoint:?} {settings:?} {:?}", bench.context());
    assert!(shown.contains("the key [redacted] of [redacted] is wrong"), "{shown}");
    assert!(!shown.contains("sk-very-secret") && !shown.contains("team-secret"), "{shown}");
}

#[tokio::test]
async fn an_answer_that_repeats_a_key_is_kept_without_it() {
    let bench = Bench::new().await;
    bench.answer(200, json!({ "text": "you sent sk-very-secret, said team-secret" })).await;
    let answer = bench.call(settings(&bench.base_url(), &headers())).await.expect("an answer");
    assert_eq!(answer, json!({ "text": "you sent [redacted], said [redacted]" }));
}

#[tokio::test]
async fn every_error_of_a_provider_says_what_to_do() {
    let coded = |code: &str| json!({ "error": { "message": "said", "code": code } });
    let cases = [
        (401, coded(""), "api_key_env"),
        (402, coded(""), "add credit"),
        (429, coded("insufficient_quota"), "add credit"),
        (429, coded(""), "lower `concurrency`"),
        (400, coded("context_length_exceeded"), "max_tokens"),
        (400, coded("content_filter"), "another model"),
        (404, coded(""), "check `model`"),
        (500, coded(""), "run again"),
        (200, json!("no object"), "check the server"),
    ];
    for (status, body, advice) in cases {
        let error = match status {
            200 => refused(ResponseTemplate::new(200).set_body_string("<html>")).await,
            status => refused(json_refusal(status, body)).await,
        };
        assert!(error.to_string().contains(advice), "{status}: {error}");
    }
}

#[tokio::test]
async fn a_missing_key_and_a_written_one_are_refused() {
    let bench = Bench::new().await;
    let (base_url, headers) = (bench.base_url(), headers());
    let unset = EndpointSettings { api_key_env: Some("UNSET"), ..settings(&base_url, &headers) };
    assert!(matches!(bench.call(unset).await, Err(Error::MissingKey { variable, .. }) if variable == "UNSET"));
    let written = BTreeMap::from([("Authorization".to_owned(), "Bearer sk-1".to_owned())]);
    let error =
        bench.call(EndpointSettings { headers: &written, ..settings(&base_url, &headers) }).await.expect_err("refused");
    assert!(
        matches!(&error, Error::Config(text) if text.contains("env:VARIABLE") && !text.contains("sk-1")),
        "{error:?}"
    );
    assert_eq!(bench.n_requests().await, 0);
}

#[tokio::test]
async fn a_key_goes_to_no_other_machine_without_tls() {
    let (none, with_key) = (BTreeMap::new(), headers());
    let bench = Bench::new().await;
    let connect = |base_url, api_key_env, headers, plain_http| {
        let settings = EndpointSettings { api_key_env, headers, plain_http, ..settings(base_url, headers) };
        settings.build_endpoint(&bench.context()).map(drop)
    };
    for (base_url, key, headers) in
        [("http://10.0.0.1/v1", Some("KEY"), &none), ("http://models.example.com/v1", None, &with_key)]
    {
        let refused = connect(base_url, key, headers, false).expect_err("refused");
        let text = refused.to_string();
        assert!(text.contains(base_url) && text.contains("plain_http = true"), "{text}");
        assert!(connect(base_url, key, headers, true).is_ok());
    }
    for (base_url, key) in [
        ("https://models.example.com/v1", Some("KEY")),
        ("http://127.0.0.1:9/v1", Some("KEY")),
        ("http://localhost:9/v1", Some("KEY")),
        ("http://vllm:8000/v1", None),
    ] {
        assert!(connect(base_url, key, &none, false).is_ok(), "{base_url}");
    }
}

#[tokio::test]
async fn an_endpoint_is_ready_when_it_answers_and_takes_the_key() {
    for (status, is_ready) in [(200, true), (404, true), (405, true), (401, false), (503, false)] {
        let bench = Bench::new().await;
        bench.respond(ResponseTemplate::new(status)).await;
        let ready = settings(&bench.base_url(), &headers()).ready(&bench.context()).await;
        assert_eq!(ready.is_ok(), is_ready, "{status}: {ready:?}");
    }
    let ready = settings("http://127.0.0.1:9/v1", &headers()).ready(&Bench::new().await.context()).await;
    assert!(matches!(ready, Err(Error::Connection { .. })));
}

#[tokio::test]
async fn headers_of_the_connection_and_secrets_in_headers_are_refused() {
    let bench = Bench::new().await;
    for (name, reason) in [
        ("Host", "set by the connection"),
        ("transfer-encoding", "set by the connection"),
        ("Connection", "set by the connection"),
        ("X-Api-Key", "is a secret"),
    ] {
        let headers = BTreeMap::from([(name.to_owned(), "evil.example".to_owned())]);
        let base_url = bench.base_url();
        let refused = settings(&base_url, &headers).build_endpoint(&bench.context()).map(drop).expect_err("a refusal");
        assert!(refused.to_string().contains(reason), "{name}: {refused}");
    }
    assert_eq!(bench.n_requests().await, 0);
}
