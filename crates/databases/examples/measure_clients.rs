//! How fast collections of Chroma, Qdrant and Milvus are filled, beside the Python clients of the databases
//! (`examples/clients_fill.py`). Rounds take turns, and the better ones count, because other programs run. Qdrant is a
//! stub over Qdrant's engine, so that only the two clients can be compared there.
//!
//! `REVERIE_TEST_DATABASES=.tools/databases cargo run --release -p databases --example measure_clients [NAME] [ROUNDS]`

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement ends where it fails, and prints")]
#![allow(dead_code, unreachable_pub, clippy::panic, reason = "it uses a part of the tests' servers")]

#[path = "../tests/it/servers.rs"]
mod servers;

use databases::{
    AccessSettings, ChromaDatabase, CollectionPlace, CollectionSpec, IndexedRecord, MilvusDatabase, QdrantDatabase,
    RecordId, SearchIndexSpec, StoredPrecision, VectorDatabase,
};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use std::{path::PathBuf, process::Command, time::Instant};

const ROWS: usize = 100_000;
const DIMENSIONS: usize = 384;
const PART: usize = 4_000;

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
    println!("{name}, best: Reverie {:.2} s, its own client {:.2} s", best[0], best[1]);
}

#[tokio::main]
async fn main() {
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
        beside("chroma", &server.url(), &database, rounds).await;
    }
    if is_asked("qdrant")
        && let Some(server) = servers::QdrantServer::start(&[]).await
    {
        beside("qdrant", &server.url(), &QdrantDatabase::open(access(&server.url())).unwrap(), rounds).await;
    }
    if is_asked("milvus")
        && let Some(server) = servers::MilvusServer::start().await
    {
        beside("milvus", &server.url(), &MilvusDatabase::open(access(&server.url()), "default").unwrap(), rounds).await;
    }
}
