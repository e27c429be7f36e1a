//! Logins of Elasticsearch and OpenSearch, and replies that are errors or not theirs.

use crate::{elasticsearch::open, servers::SearchStub};
use databases::{AccessSettings, CollectionPlace, DatabaseProblem, ElasticsearchDatabase, Error, VectorDatabase};
use serde_json::json;
use std::{
    io::{Read, Write},
    time::Duration,
};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

const KEY: &str = "cGxhbnRlZDpzZWNyZXQ=";

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_is_named_and_no_secret_is_shown() {
    for product in ["elasticsearch", "opensearch"] {
        let version = if product == "opensearch" { "2.19.0" } else { "8.15.0" };
        let Some(stub) = SearchStub::start(product, version, &["reader:planted-0123", KEY]).await else { return };
        let with = |login: &str, key: Option<&str>| {
            let url = stub.url().replace("http://", &format!("http://{login}"));
            ElasticsearchDatabase::open(AccessSettings { api_key: key.map(str::to_owned), ..AccessSettings::new(&url) })
        };
        with("reader:planted-0123@", None).unwrap().describe_server().await.unwrap();
        for (login, key) in [("", None), ("reader:planted-9876@", None), ("", Some("cGxhbnRlZDp3cm9uZw=="))] {
            let database = with(login, key).unwrap();
            let error = database.describe_server().await.unwrap_err();
            assert!(matches!(error.problem, DatabaseProblem::Credentials { .. }), "{error}");
            let shown = format!("{error} {error:?} {database:?} {}", database.address());
            assert!(["planted", "cGxhb", "cmVhZGVyO"].iter().all(|secret| !shown.contains(secret)), "{shown}");
        }
        for key in [KEY.to_owned(), format!("ApiKey {KEY}")] {
            let described = with("", Some(&key)).unwrap().describe_server().await;
            // OpenSearch has no API keys.
            assert_eq!(described.is_ok(), product == "elasticsearch");
        }
        let both = with("reader:planted-0123@", Some(KEY)).unwrap_err().to_string();
        assert!(both.contains("leave one of them out") && !both.contains("planted"), "{both}");
    }
    let key = |url: &str| AccessSettings { api_key: Some(KEY.to_owned()), ..AccessSettings::new(url) };
    assert!(ElasticsearchDatabase::open(key("http://10.0.0.1:9200")).unwrap_err().to_string().contains("without TLS"));
    assert!(ElasticsearchDatabase::open(key("https://10.0.0.1:9200")).is_ok());
    assert_eq!(open("https://me:secret@DB.example:9243/es/").address(), "https://db.example:9243/es");
    let unreachable = open("http://127.0.0.1:9").describe_server().await.unwrap_err();
    assert!(matches!(unreachable.problem, DatabaseProblem::Unreachable { .. }), "{unreachable}");
}

async fn with_reply(reply: ResponseTemplate) -> (Error, usize) {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(reply).mount(&server).await;
    let settings = AccessSettings {
        api_key: Some(KEY.to_owned()),
        timeout: Duration::from_secs(2),
        ..AccessSettings::new(&server.uri())
    };
    let database = ElasticsearchDatabase::open(settings).unwrap();
    let error = database.count(&CollectionPlace::filled("reverie_a")).await.unwrap_err();
    assert!(!format!("{error} {error:?} {database:?}").contains(KEY), "{error}");
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.headers["authorization"] == format!("ApiKey {KEY}").as_str()));
    (error, requests.len())
}

#[tokio::test]
async fn replies_of_other_services_and_errors_have_their_meaning() {
    let page = format!("<html><body>Log in, {KEY}</body></html>");
    let html = |status: u16| ResponseTemplate::new(status).set_body_raw(page.clone(), "text/html");
    for (reply, expected) in [(html(200), "an HTML page"), (html(404), "not an error of Elasticsearch")] {
        let (error, requests) = with_reply(reply).await;
        assert!(error.to_string().contains(expected) && requests == 1, "{error}");
    }
    let said = |status: u16, kind: &str, reason: &str| {
        let error = json!({ "type": kind, "reason": reason, "root_cause": [{ "type": kind, "reason": reason }] });
        ResponseTemplate::new(status).set_body_json(json!({ "error": error, "status": status }))
    };
    let (error, _) = with_reply(said(401, "security_exception", &format!("no: {KEY}"))).await;
    assert!(matches!(&error.problem, DatabaseProblem::Credentials { message } if message == "no: [secret]"), "{error}");
    let (error, _) = with_reply(said(403, "security_exception", "no")).await;
    assert!(matches!(error.problem, DatabaseProblem::Permission { .. }), "{error}");
    let (error, _) = with_reply(said(403, "cluster_block_exception", "index read-only")).await;
    assert!(matches!(error.problem, DatabaseProblem::Refused { .. }), "{error}");
    let (error, _) = with_reply(said(404, "index_not_found_exception", "no such index")).await;
    assert_eq!(error.problem, DatabaseProblem::MissingCollection);
    let (error, _) = with_reply(said(413, "x", "too large")).await;
    assert!(matches!(error.problem, DatabaseProblem::TooLarge { .. }), "{error}");
    let (error, _) = with_reply(said(400, "x", "No handler for type [knn_vector] declared on field [vector]")).await;
    assert!(matches!(error.problem, DatabaseProblem::ExtensionMissing { .. }), "{error}");
    for status in [429, 503] {
        let busy = said(status, "es_rejected_execution_exception", "full").insert_header("retry-after", "0");
        let (error, requests) = with_reply(busy).await;
        assert!(error.is_transient() && requests == 5, "{error} after {requests}");
    }
    let (error, _) = with_reply(ResponseTemplate::new(302).insert_header("location", "https://elsewhere")).await;
    assert!(matches!(error.problem, DatabaseProblem::InvalidSettings { .. }), "{error}");
    for body in [json!({}), json!([1]), json!({ "reverie_a": 3 })] {
        let (error, _) = with_reply(ResponseTemplate::new(200).set_body_json(body)).await;
        assert!(matches!(error.problem, DatabaseProblem::Malformed { .. }), "{error}");
    }
    let (error, requests) = with_reply(ResponseTemplate::new(200).set_delay(Duration::from_secs(600))).await;
    assert!(matches!(error.problem, DatabaseProblem::TimedOut { .. }) && requests == 1, "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(200).set_body_bytes(vec![b'1'; (64 << 20) + 1])).await;
    assert!(matches!(error.problem, DatabaseProblem::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn another_service_an_old_server_and_a_reply_that_is_cut_off_are_named() {
    for (body, expected) in [
        (json!({ "status": "ok" }), "is another service at this address?"),
        (
            json!({ "version": { "number": "8.1.3" }, "tagline": "You Know, for Search" }),
            "Elasticsearch 8.1.3 is too old",
        ),
        (json!({ "version": { "number": "1.3.2", "distribution": "opensearch" } }), "OpenSearch 1.3.2 is too old"),
    ] {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(ResponseTemplate::new(200).set_body_json(body)).mount(&server).await;
        let error = open(&server.uri()).describe_server().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{\"vers");
        }
    });
    let error = open(&address).describe_server().await.unwrap_err();
    assert!(matches!(error.problem, DatabaseProblem::ConnectionLost { .. }), "{error}");
}
