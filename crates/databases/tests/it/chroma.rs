//! Chroma: the conformance test, a kill in the middle of a fill, and replies that are not Chroma's.

use crate::{
    conformance::{self, DIMENSIONS, TestDatabase, clustered, spec},
    servers::ChromaServer,
};
use databases::{
    AccessSettings, ChromaDatabase, CollectionPlace, DatabaseProblem, Error, ExistingFields, IndexedRecord, RecordId,
    SearchIndexSpec, StoredPrecision, VectorDatabase, VectorMetric,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

const HNSW: SearchIndexSpec = SearchIndexSpec::Hnsw { m: 16, ef_construction: 100, ef: 100 };

fn open(url: &str) -> ChromaDatabase {
    ChromaDatabase::open(AccessSettings::new(url), "default_tenant", "default_database").unwrap()
}

struct Chroma(ChromaServer);

impl Chroma {
    async fn post(&self, path: &str, body: serde_json::Value) -> serde_json::Value {
        let url = format!("{}/api/v2/tenants/default_tenant/databases/default_database/{path}", self.0.url());
        let sent = store::http_client().build().unwrap().post(url).json(&body).send().await.unwrap();
        assert!(sent.status().is_success(), "{}", sent.status());
        sent.json().await.unwrap()
    }
}

impl TestDatabase for Chroma {
    fn open(&self) -> Arc<dyn VectorDatabase> {
        Arc::new(open(&self.0.url()))
    }

    fn index(&self) -> SearchIndexSpec {
        HNSW
    }

    async fn make_existing(&self, name: &str, records: &[IndexedRecord]) -> CollectionPlace {
        // Without settings, as most collections are made: compared by l2.
        let made = self.post("collections", json!({ "name": name })).await;
        let body = json!({
            "ids": records.iter().map(|record| record.id.to_string()).collect::<Vec<_>>(),
            "embeddings": records.iter().map(|record| &record.vector).collect::<Vec<_>>(),
            "documents": records.iter().map(|record| &record.text).collect::<Vec<_>>(),
            "metadatas": records.iter().map(|record| &record.fields).collect::<Vec<_>>(),
        });
        self.post(&format!("collections/{}/upsert", made["id"].as_str().unwrap()), body).await;
        let fields = ExistingFields { text: None, metric: VectorMetric::Euclidean, ..ExistingFields::default() };
        CollectionPlace::existing(name, fields)
    }

    fn stores_null_characters(&self) -> bool {
        true
    }

    fn ties_users_ids_to_text(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chroma_conforms() {
    let Some(server) = ChromaServer::start().await else { return };
    conformance::conforms(&Chroma(server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroma_server_killed_while_it_is_written_to_loses_and_doubles_nothing() {
    let Some(mut server) = ChromaServer::start().await else { return };
    let (place, spec) = (CollectionPlace::filled("reverie_killed"), spec("killed", DIMENSIONS, HNSW));
    let records = clustered(6_000);
    let database = Arc::new(open(&server.url()));
    database.create(&place, &spec).await.unwrap();
    let parts: Vec<Vec<IndexedRecord>> = records.chunks(1_000).map(<[_]>::to_vec).collect();
    let (mut written, mut kills) = (0, 0);
    while written < parts.len() {
        let writing = tokio::spawn({
            let (database, place, part) = (database.clone(), place.clone(), parts[written].clone());
            async move { database.write(&place, &part).await }
        });
        if kills < 2 && written % 2 == 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            server.kill();
            kills += 1;
            match writing.await.unwrap() {
                Ok(()) => written += 1,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
            server.restart().await;
            continue;
        }
        writing.await.unwrap().unwrap();
        written += 1;
    }
    database.complete(&place, &spec, &|_| {}).await.unwrap();
    assert_eq!((database.count(&place).await.unwrap(), kills), (6_000, 2));
    let read = database.read(&place, &(0..6_000).map(RecordId::Number).collect::<Vec<_>>()).await.unwrap();
    assert!(read.iter().zip(&records).all(|(read, record)| read.as_ref().is_some_and(|read| read.text == record.text)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_chroma_cannot_do_and_a_tenant_that_is_not_there_are_named() {
    let Some(server) = ChromaServer::start().await else { return };
    let database = open(&server.url());
    let place = CollectionPlace::filled("reverie_a");
    let refuse = async |spec| database.create(&place, &spec).await.unwrap_err().to_string();
    assert!(refuse(spec("k", 3, SearchIndexSpec::Exact)).await.contains("only the index `hnsw`"));
    let half = databases::CollectionSpec { precision: StoredPrecision::F16, ..spec("k", 3, HNSW) };
    assert!(refuse(half).await.contains("32 bits"));
    let name = database.create(&CollectionPlace::filled("ü"), &spec("k", 3, HNSW)).await.unwrap_err();
    assert!(matches!(&name.problem, DatabaseProblem::Refused { message } if message.contains("name")), "{name}");
    let elsewhere = ChromaDatabase::open(AccessSettings::new(&server.url()), "default_tenant", "absent").unwrap();
    let missing = elsewhere.describe_server().await.unwrap_err();
    assert!(matches!(missing.problem, DatabaseProblem::InvalidSettings { .. }), "{missing}");
}

/// What a server that always replies like this makes of a call.
async fn with_reply(reply: ResponseTemplate) -> (Error, usize) {
    reply_within(reply, Duration::from_secs(120)).await
}

async fn reply_within(reply: ResponseTemplate, timeout: Duration) -> (Error, usize) {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(reply).mount(&server).await;
    let settings =
        AccessSettings { api_key: Some("planted-key-0123".to_owned()), timeout, ..AccessSettings::new(&server.uri()) };
    let database = ChromaDatabase::open(settings, "t", "d").unwrap();
    let error = database.count(&CollectionPlace::filled("reverie_a")).await.unwrap_err();
    let (text, debug) = (error.to_string(), format!("{error:?} {database:?}"));
    assert!(!text.contains("planted-key-0123") && !debug.contains("planted-key-0123"), "{text} {debug}");
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.headers["x-chroma-token"] == "planted-key-0123"));
    (error, requests.len())
}

#[tokio::test]
async fn a_reply_of_html_is_named_as_such() {
    let page = "<html><body>Log in, planted-key-0123</body></html>";
    let (error, requests) = with_reply(ResponseTemplate::new(200).set_body_raw(page, "text/html")).await;
    assert!(
        matches!(&error.problem, DatabaseProblem::Malformed { reason } if reason.contains("an HTML page")),
        "{error}"
    );
    assert_eq!(requests, 1);
    let (error, _) = with_reply(ResponseTemplate::new(404).set_body_raw(page, "text/html")).await;
    assert!(error.to_string().contains("not an error of Chroma"), "{error}");
}

#[tokio::test]
async fn other_replies_have_their_errors() {
    let said = |status: u16, error: &str, message: &str| {
        ResponseTemplate::new(status).set_body_json(json!({ "error": error, "message": message }))
    };
    let (error, _) = with_reply(said(401, "AuthError", "no: planted-key-0123")).await;
    assert!(matches!(&error.problem, DatabaseProblem::Credentials { message } if message == "no: [secret]"), "{error}");
    let (error, _) = with_reply(said(403, "AuthError", "no")).await;
    assert!(matches!(error.problem, DatabaseProblem::Permission { .. }), "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(302).insert_header("location", "https://elsewhere")).await;
    assert!(matches!(error.problem, DatabaseProblem::InvalidSettings { .. }), "{error}");
    let (error, requests) = with_reply(ResponseTemplate::new(503).insert_header("retry-after", "0")).await;
    assert!(error.is_transient() && requests == 5, "{error} after {requests}");
    let (error, _) = with_reply(ResponseTemplate::new(200).set_body_json(json!({ "no": "id" }))).await;
    assert!(matches!(&error.problem, DatabaseProblem::Malformed { reason } if reason.contains("id")), "{error}");
    let (error, _) = with_reply(ResponseTemplate::new(200).set_body_bytes(vec![b'1'; (64 << 20) + 1])).await;
    assert!(matches!(error.problem, DatabaseProblem::TooLarge { .. }), "{error}");
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(600));
    let (error, requests) = reply_within(slow, Duration::from_secs(1)).await;
    assert!(matches!(error.problem, DatabaseProblem::TimedOut { .. }) && requests == 1, "{error}");
}

#[tokio::test]
async fn a_key_goes_to_another_machine_with_tls_only() {
    let with_key =
        |url: &str| AccessSettings { api_key: Some("planted-key-0123".to_owned()), ..AccessSettings::new(url) };
    let error = ChromaDatabase::open(with_key("http://10.0.0.1:8000"), "t", "d").unwrap_err();
    assert!(error.to_string().contains("without TLS") && !error.to_string().contains("planted"), "{error}");
    assert!(ChromaDatabase::open(with_key("https://10.0.0.1:8000"), "t", "d").is_ok());
    let plain = AccessSettings { plain: true, ..with_key("http://10.0.0.1:8000") };
    assert_eq!(ChromaDatabase::open(plain, "t", "d").unwrap().address(), "http://10.0.0.1:8000/t/d");
    let unreachable = open("http://127.0.0.1:9").describe_server().await.unwrap_err();
    assert!(matches!(unreachable.problem, DatabaseProblem::Unreachable { .. }), "{unreachable}");
}
