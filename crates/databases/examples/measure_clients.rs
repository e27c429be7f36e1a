//! How fast collections of Chroma, Qdrant and Milvus are filled, beside the Python clients of the databases
//! (`examples/clients_fill.py`), and what a search adds to the same HTTP request, sent by itself. Rounds take turns, and the better ones count, because other programs run. Qdrant is a
//! stub over Qdrant's engine, so that only the two clients can be compared there.
//!
//! `REVERIE_TEST_DATABASES=.tools/databases cargo run --release -p databases --example measure_clients [NAME] [ROUNDS]`

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement ends where it fails, and prints")]
#![allow(dead_code, unreachable_pub, clippy::panic, reason = "it uses a part of the tests' servers")]

#[path = "../tests/it/servers.rs"]
mod servers;

use databases::{
    AccessSettings, ChromaDatabase, CollectionPlace, CollectionSpec, DatabaseQuery, IndexedRecord, MilvusDatabase,
    QdrantDatabase, RecordId, SearchIndexSpec, SearchOptions, StoredPrecision, VectorDatabase,
};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use std::{path::PathBuf, process::Command, time::Instant};

const ROWS: usize = 100_000;
const DIMENSIONS: usize = 384;
const PART: usize = 4_000;
const SEARCHES: usize = 1_000;
const SMALL: usize = 1_000;
const AT_ONCE: usize = 64;

fn records() -> Vec<IndexedRecord> {
    let mut random = fastrand::Rng::with_seed(1);
    let record = |row: usize| {
        let vector: Vec<f32> = (0..DIMENSIONS).map(|_| random.f32() - 0.5).collect();
        let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        let fields = json!({ "path": format!("guides/{}.md", row / 10), "page": row % 10 });
        IndexedRecord {
            id: RecordId::Number(row as u64),
            vector: vector.iter().map(|value| value / norm).collect(),
            text: "text of a chunk ".repeat(20),
            fields: fields.as_object().unwrap().clone(),
        }
    };
    (0..ROWS).map(record).collect()
}

/// Seconds for all records, with two parts in flight.
async fn fill(database: &dyn VectorDatabase, records: &[IndexedRecord]) -> f64 {
    let (place, key) = (CollectionPlace::filled("reverie_fill"), "fill".to_owned());
    let index = SearchIndexSpec::Hnsw { m: 16, ef_construction: 100, ef: 100 };
    let spec = CollectionSpec { key, dimensions: DIMENSIONS, index, precision: StoredPrecision::F32 };
    database.create(&place, &spec).await.unwrap();
    let started = Instant::now();
    let parts = stream::iter(records.chunks(PART)).map(|part| database.write(&place, part)).buffer_unordered(2);
    parts.try_collect::<Vec<()>>().await.unwrap();
    assert_eq!(database.count(&place).await.unwrap(), records.len() as u64);
    let seconds = started.elapsed().as_secs_f64();
    database.drop_collection(&place, "fill").await.unwrap();
    seconds
}

async fn beside(name: &str, url: &str, database: &dyn VectorDatabase, rounds: usize) {
    let python = PathBuf::from(std::env::var_os("REVERIE_TEST_DATABASES").unwrap()).join("bin/python");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/clients_fill.py");
    let records = records();
    let mut best = [f64::MAX; 2];
    for round in 0..rounds {
        let ours = fill(database, &records).await;
        let theirs = Command::new(&python).arg(&script).args([name, url]).output().unwrap();
        assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
        let theirs = String::from_utf8(theirs.stdout).unwrap();
        let (seconds, _) = theirs.trim().split_once(' ').unwrap();
        let seconds: f64 = seconds.parse().unwrap();
        println!("{name}, round {round}: Reverie {ours:.2} s, its own client {seconds:.2} s");
        best = [best[0].min(ours), best[1].min(seconds)];
    }
    if rounds == 0 {
        return;
    }
    println!("{name}, best: Reverie {:.2} s, its own client {:.2} s", best[0], best[1]);
}

/// Milliseconds of the fastest half of `SEARCHES` calls, on average, and those of 64 at once.
async fn milliseconds<F: Future<Output = ()>>(call: impl Fn(usize) -> F) -> (f64, f64) {
    let mut alone = Vec::with_capacity(SEARCHES);
    for number in 0..SEARCHES {
        let started = Instant::now();
        call(number).await;
        alone.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    alone.sort_by(f64::total_cmp);
    let half = &alone[..SEARCHES / 2];
    let started = Instant::now();
    stream::iter((0..SEARCHES).map(&call)).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    (half.iter().sum::<f64>() / half.len() as f64, started.elapsed().as_secs_f64() * 1000.0 / SEARCHES as f64)
}

/// What a search costs more than the request `raw` that it sends.
async fn overhead(name: &str, database: &dyn VectorDatabase, raw: impl AsyncFn(&str) -> (String, serde_json::Value)) {
    let (place, key) = (CollectionPlace::filled("reverie_search"), "search".to_owned());
    let index = SearchIndexSpec::Hnsw { m: 16, ef_construction: 100, ef: 100 };
    let spec = CollectionSpec { key, dimensions: DIMENSIONS, index, precision: StoredPrecision::F32 };
    let few = &records()[..SMALL];
    database.create(&place, &spec).await.unwrap();
    database.write(&place, few).await.unwrap();
    database.complete(&place, &spec, &|_| {}).await.unwrap();
    let options = SearchOptions { ef: Some(100), ..SearchOptions::top(10) };
    let (url, body) = raw("reverie_search").await;
    let client = reqwest::Client::new();
    let near = |number: usize| &few[number % SMALL].vector;
    let ours = async |number: usize| {
        let query = DatabaseQuery { vector: near(number), filter: None };
        assert_eq!(database.search(&place, &[query], &options).await.unwrap()[0].records.len(), 10);
    };
    let theirs = async |number: usize| {
        let text = body.to_string().replace("\"NEAR\"", &json!(near(number)).to_string());
        let request = client.post(&url).header("content-type", "application/json").body(text);
        let reply: serde_json::Value = request.send().await.unwrap().error_for_status().unwrap().json().await.unwrap();
        assert!(reply.is_object());
    };
    for round in 0..3 {
        let (raw, search) = (milliseconds(&theirs).await, milliseconds(&ours).await);
        println!(
            "{name}, round {round}: search {:.3} ms, raw request {:.3} ms, added {:.3}; {AT_ONCE} at once: {:.3}, {:.3}, added {:.3}",
            search.0,
            raw.0,
            search.0 - raw.0,
            search.1,
            raw.1,
            search.1 - raw.1
        );
    }
    database.drop_collection(&place, "search").await.unwrap();
}

#[tokio::main]
async fn main() {
    store::choose_cryptography();
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next().filter(|name| name != "all");
    let rounds = arguments.next().map_or(3, |rounds| rounds.parse().unwrap());
    let is_asked = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let access =
        |url: &str| AccessSettings { timeout: std::time::Duration::from_secs(300), ..AccessSettings::new(url) };
    if is_asked("chroma")
        && let Some(server) = servers::ChromaServer::start().await
    {
        let database = ChromaDatabase::open(access(&server.url()), "default_tenant", "default_database").unwrap();
        let url = format!("{}/api/v2/tenants/default_tenant/databases/default_database/collections", server.url());
        let raw = async |name: &str| {
            let reply = reqwest::get(format!("{url}/{name}")).await.unwrap();
            let found: serde_json::Value = reply.json().await.unwrap();
            let id = found["id"].as_str().unwrap();
            // What the client asks for: some more, so that equal scores at the end are ordered by id.
            let body = json!({ "query_embeddings": ["NEAR"], "n_results": 18, "include": ["distances"] });
            (format!("{url}/{id}/query"), body)
        };
        overhead("chroma", &database, raw).await;
        beside("chroma", &server.url(), &database, rounds).await;
    }
    if is_asked("qdrant")
        && let Some(server) = servers::QdrantServer::start(&[]).await
    {
        let database = QdrantDatabase::open(access(&server.url())).unwrap();
        let url = server.url();
        let raw = async |name: &str| {
            let body = json!({ "query": "NEAR", "using": "embedding", "limit": 18, "params": { "hnsw_ef": 100 } });
            (format!("{url}/collections/{name}/points/query"), body)
        };
        overhead("qdrant", &database, raw).await;
        beside("qdrant", &server.url(), &database, rounds).await;
    }
    if is_asked("milvus")
        && let Some(server) = servers::MilvusServer::start().await
    {
        beside("milvus", &server.url(), &MilvusDatabase::open(access(&server.url()), "default").unwrap(), rounds).await;
    }
}
