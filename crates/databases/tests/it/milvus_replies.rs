//! Logins at Milvus, TLS, and replies that are not Milvus'.

use crate::{
    milvus::open,
    servers::{MilvusServer, PASSWORD},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use databases::{AccessSettings, CollectionPlace, DatabaseProblem, Error, MilvusDatabase, VectorDatabase};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

const KEY: &str = "planted-user:planted-key-0123";

/// What a server that always replies like this makes of a call.
async fn reply_within(reply: ResponseTemplate, timeout: Duration) -> (Error, usize) {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(reply).mount(&server).await;
    let settings = AccessSettings { api_key: Some(KEY.to_owned()), timeout, ..AccessSettings::new(&server.uri()) };
    let database = MilvusDatabase::open(settings, "default").unwrap();
    let error = database.count(&CollectionPlace::filled("reverie_a")).await.unwrap_err();
    let (text, debug) = (error.to_string(), format!("{error:?} {database:?}"));
    let encoded = BASE64_STANDARD.encode(KEY);
    for secret in [KEY, &encoded] {
        assert!(!text.contains(secret) && !debug.contains(secret), "{text} {debug}");
    }
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.headers["authorization"] == encoded.as_str()));
    assert!(requests.iter().all(|request| request.url.path().starts_with("/milvus.proto.milvus.MilvusService/")));
    (error, requests.len())
}

async fn with_reply(reply: ResponseTemplate) -> (Error, usize) {
    reply_within(reply, Duration::from_secs(60)).await
}

fn grpc(code: &str, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(200)
        .insert_header("content-type", "application/grpc")
        .insert_header("grpc-status", code)
        .insert_header("grpc-message", message)
}

#[tokio::test]
async fn replies_that_are_not_those_of_milvus_have_their_errors() {
    let (error, requests) = with_reply(grpc("16", "no: planted-user:planted-key-0123 %C3%A4")).await;
    assert!(
        matches!(&error.problem, DatabaseProblem::Credentials { message } if message == "no: [secret] ä")
            && requests == 1,
        "{error}"
    );
    let (error, _) = with_reply(grpc("7", "no")).await;
    assert!(matches!(error.problem, DatabaseProblem::Permission { .. }), "{error}");
    let (error, _) = with_reply(grpc("12", "unknown service")).await;
    assert!(error.to_string().contains("is it Milvus"), "{error}");
    let (error, _) = with_reply(grpc("8", "received message larger than max (9 vs. 4)")).await;
    assert!(matches!(error.problem, DatabaseProblem::TooLarge { .. }), "{error}");
    let (error, requests) = with_reply(grpc("14", "not ready")).await;
    assert!(error.is_transient() && requests == 5, "{error} after {requests}");
    let page = "<html><body>Log in, planted-key-0123</body></html>";
    let (error, _) = with_reply(ResponseTemplate::new(200).set_body_raw(page, "text/html")).await;
    assert!(
        matches!(&error.problem, DatabaseProblem::Malformed { reason } if reason.contains("an HTML page")),
        "{error}"
    );
    let (error, _) = with_reply(ResponseTemplate::new(200).set_body_json(json!({ "code": 0 }))).await;
    assert!(error.to_string().contains("not from a gRPC service"), "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(401)).await;
    assert!(matches!(error.problem, DatabaseProblem::Credentials { .. }), "{error}");
    // A reply without its end, which is where gRPC tells whether the call succeeded.
    let cut = ResponseTemplate::new(200).set_body_raw(vec![0, 0, 0, 0, 9, 1], "application/grpc");
    let (error, requests) = with_reply(cut).await;
    assert!(matches!(error.problem, DatabaseProblem::ConnectionLost { .. }) && requests == 5, "{error}");
    let slow = grpc("0", "").set_delay(Duration::from_secs(600));
    let (error, requests) = reply_within(slow, Duration::from_secs(1)).await;
    assert!(matches!(error.problem, DatabaseProblem::TimedOut { .. }) && requests == 1, "{error}");
    let huge = ResponseTemplate::new(200).set_body_raw(vec![0; (64 << 20) + 1], "application/grpc");
    let (error, _) = with_reply(huge).await;
    assert!(matches!(error.problem, DatabaseProblem::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_server_of_another_protocol_is_named_as_such() {
    // Some servers close the connection after their refusal, and some keep it.
    for closes in [false, true] {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                assert!(stream.read(&mut [0; 1000]).await.unwrap() > 0);
                let reply = "HTTP/1.1 400 Bad Request\r\nContent-Length: 13\r\n\r\n<html></html>";
                stream.write_all(reply.as_bytes()).await.unwrap();
                while !closes && stream.read(&mut [0; 1000]).await.is_ok_and(|length| length > 0) {}
            }
        });
        let error = open(&url).describe_server().await.unwrap_err();
        assert!(
            matches!(&error.problem, DatabaseProblem::Malformed { reason } if reason.contains("HTTP/2")),
            "{error}"
        );
        serving.abort();
    }
}

#[tokio::test]
async fn a_token_goes_to_another_machine_with_tls_only() {
    let with_key = |url: &str| AccessSettings { api_key: Some(KEY.to_owned()), ..AccessSettings::new(url) };
    for settings in [with_key("http://10.0.0.1:19530"), AccessSettings::new("http://root:planted-0123@10.0.0.1")] {
        let error = MilvusDatabase::open(settings, "default").unwrap_err();
        assert!(error.to_string().contains("without TLS") && !error.to_string().contains("planted"), "{error}");
    }
    assert!(MilvusDatabase::open(with_key("https://10.0.0.1:19530"), "d").is_ok());
    let plain = AccessSettings { plain: true, ..with_key("http://10.0.0.1:19530") };
    assert_eq!(MilvusDatabase::open(plain, "d").unwrap().address(), "http://10.0.0.1:19530/d");
    let unreachable = open("http://root:planted-0123@127.0.0.1:9").describe_server().await.unwrap_err();
    assert!(matches!(unreachable.problem, DatabaseProblem::Unreachable { .. }), "{unreachable}");
    assert!(!format!("{unreachable:?}").contains("planted"));

    // User and password of the address are sent as they are meant.
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(grpc("16", "no")).mount(&server).await;
    let url = server.uri().replace("http://", "http://ro%20ot:p%C3%A4ss@");
    open(&url).describe_server().await.unwrap_err();
    let sent = server.received_requests().await.unwrap().remove(0);
    assert_eq!(sent.headers["authorization"], BASE64_STANDARD.encode("ro ot:päss").as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_over_tls_is_checked_and_a_refusal_holds_no_secret() {
    let Some(server) = MilvusServer::start_with_login().await else { return };
    let settings = |key: Option<&str>| AccessSettings {
        api_key: key.map(str::to_owned),
        root_certificate: Some(server.certificate()),
        ..AccessSettings::new(&server.url().replace("127.0.0.1", "localhost"))
    };
    let open = |settings| MilvusDatabase::open(settings, "default").unwrap();
    let right = format!("root:{PASSWORD}");
    let version = open(settings(Some(&right))).describe_server().await.unwrap().version;
    assert!(version.starts_with("Milvus Lite"), "{version}");
    let mut in_address = settings(None);
    in_address.url = in_address.url.replace("https://", &format!("https://{right}@"));
    open(in_address).describe_server().await.unwrap();
    for key in [None, Some("root:wrong-password")] {
        let database = open(settings(key));
        let error = database.describe_server().await.unwrap_err();
        assert!(matches!(error.problem, DatabaseProblem::Credentials { .. }) && !error.is_transient(), "{error}");
        let text = format!("{error} {error:?} {database:?}");
        assert!(!text.contains("wrong-password") && !text.contains(PASSWORD), "{text}");
    }
    // A certificate that nobody vouches for, and no TLS where it is asked for.
    let unknown = AccessSettings { root_certificate: None, ..settings(Some(&right)) };
    let error = open(unknown).describe_server().await.unwrap_err();
    assert!(
        matches!(&error.problem, DatabaseProblem::Unreachable { reason } if reason.contains("certificate")),
        "{error}"
    );
    let mut plain = settings(Some(&right));
    plain.url = plain.url.replace("https://", "http://");
    let error = open(plain).describe_server().await.unwrap_err();
    assert!(!error.to_string().contains(PASSWORD), "{error}");
    println!("without TLS: {error}");
}
