//! Qdrant: replies of other services, errors of the server, and servers that are not there.

use databases::{AccessSettings, CollectionPlace, DatabaseProblem, Error, QdrantDatabase, VectorDatabase};
use serde_json::{Value, json};
use std::time::Duration;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

fn open(url: &str) -> QdrantDatabase {
    QdrantDatabase::open(AccessSettings::new(url)).unwrap()
}

/// What a server that always replies like this makes of a call.
async fn with_reply(reply: ResponseTemplate) -> (Error, usize) {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(reply).mount(&server).await;
    let settings = AccessSettings {
        api_key: Some("planted-key-0123".to_owned()),
        timeout: Duration::from_secs(5),
        ..AccessSettings::new(&server.uri())
    };
    let database = QdrantDatabase::open(settings).unwrap();
    let error = database.count(&CollectionPlace::filled("reverie_a")).await.unwrap_err();
    let (text, debug) = (error.to_string(), format!("{error:?} {database:?}"));
    assert!(!text.contains("planted-key-0123") && !debug.contains("planted-key-0123"), "{text} {debug}");
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.headers["api-key"] == "planted-key-0123"));
    (error, requests.len())
}

#[tokio::test]
async fn replies_that_are_not_qdrants_and_errors_are_named() {
    let said = |status: u16, message: &str| {
        ResponseTemplate::new(status).set_body_json(json!({ "status": { "error": message }, "time": 0.0 }))
    };
    let page = "<html><body>Log in, planted-key-0123</body></html>";
    let (error, requests) = with_reply(ResponseTemplate::new(200).set_body_raw(page, "text/html")).await;
    assert!(error.to_string().contains("an HTML page") && requests == 1, "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(404).set_body_raw(page, "text/html")).await;
    assert!(error.to_string().contains("not an error of Qdrant"), "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(404)).await;
    assert!(matches!(error.problem, DatabaseProblem::Malformed { .. }), "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(200).set_body_string("{\"result\": {\"count\"")).await;
    assert!(error.to_string().contains("it is not JSON"), "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(200).set_body_json(json!({ "result": {} }))).await;
    assert!(matches!(&error.problem, DatabaseProblem::Malformed { reason } if reason.contains("count")), "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(401).set_body_string("no: planted-key-0123")).await;
    assert!(matches!(&error.problem, DatabaseProblem::Credentials { message } if message == "no: [secret]"), "{error}");
    let (error, _) = with_reply(said(403, "Forbidden: Global access is required")).await;
    assert!(matches!(error.problem, DatabaseProblem::Permission { .. }), "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(413)).await;
    assert!(matches!(error.problem, DatabaseProblem::TooLarge { .. }), "{error}");
    let (error, _) = with_reply(said(404, "Not found: Collection `reverie_a` doesn't exist!")).await;
    assert_eq!(error.problem, DatabaseProblem::MissingCollection);
    let (error, _) = with_reply(said(400, "Wrong input: Vector dimension error: expected dim: 4, got 3")).await;
    assert_eq!(error.problem, DatabaseProblem::Dimensions { found: 4, expected: 3 });
    let (error, requests) = with_reply(ResponseTemplate::new(429).insert_header("retry-after", "0")).await;
    assert!(error.is_transient() && requests == 5, "{error} after {requests}");
    let (error, _) = with_reply(said(408, "Timeout: Operation 'Count' timed out after 60s")).await;
    assert!(error.is_transient(), "{error}");
    let (error, _) = with_reply(said(507, "Insufficient storage: the disk is full")).await;
    assert!(matches!(&error.problem, DatabaseProblem::Refused { message } if message.contains("disk")), "{error}");
    let (error, requests) = with_reply(ResponseTemplate::new(200).set_delay(Duration::from_secs(600))).await;
    assert!(matches!(error.problem, DatabaseProblem::TimedOut { .. }) && requests == 1, "{error}");
}

#[tokio::test]
async fn servers_that_are_not_there_too_old_or_something_else_are_named() {
    let describe = async |body: Value| {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(ResponseTemplate::new(200).set_body_json(body)).mount(&server).await;
        open(&server.uri()).describe_server().await.unwrap_err()
    };
    let old = describe(json!({ "title": "qdrant - vector search engine", "version": "1.9.7" })).await;
    assert!(matches!(&old.problem, DatabaseProblem::TooOld { found, .. } if found == "1.9.7"), "{old}");
    let other = describe(json!({ "title": "OpenSearch", "version": "3.1.0" })).await;
    assert!(other.to_string().contains("by default port 6333"), "{other}");
    let unreachable = open("http://127.0.0.1:9").describe_server().await.unwrap_err();
    assert!(matches!(unreachable.problem, DatabaseProblem::Unreachable { .. }), "{unreachable}");
    let with_key =
        |url: &str| AccessSettings { api_key: Some("planted-key-0123".to_owned()), ..AccessSettings::new(url) };
    let error = QdrantDatabase::open(with_key("http://10.0.0.1:6333")).unwrap_err();
    assert!(error.to_string().contains("without TLS") && !error.to_string().contains("planted"), "{error}");
    assert_eq!(QdrantDatabase::open(with_key("https://10.0.0.1:6333")).unwrap().address(), "https://10.0.0.1:6333");
    let plain = AccessSettings { plain: true, ..with_key("http://10.0.0.1:6333") };
    assert!(QdrantDatabase::open(plain).is_ok());
}
