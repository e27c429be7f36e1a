//! How fast tables of pgvector are filled, beside psycopg's binary copy (`examples/psycopg_copy.py`), and what a search adds
//! to the same query of `tokio_postgres`. Rounds take turns, and the better ones count, because other programs run.
//!
//! `REVERIE_TEST_DATABASES=.tools/databases cargo run --release -p databases --example measure [ROUNDS]`

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement ends where it fails, and prints"
)]
#![allow(dead_code, unreachable_pub, reason = "it uses a part of the tests' servers")]

#[path = "../tests/it/servers.rs"]
mod servers;

use databases::{
    AccessSettings, CollectionPlace, CollectionSpec, DatabaseQuery, IndexedRecord, PgvectorDatabase, RecordId,
    SearchIndexSpec, SearchOptions, StoredPrecision, VectorDatabase,
};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use std::{path::PathBuf, process::Command, time::Instant};
use tokio_postgres::types::{ToSql, Type, to_sql_checked};

const ROWS: usize = 100_000;
const DIMENSIONS: usize = 384;
const PART: usize = 4_000;
const SEARCHES: usize = 2_000;
const SMALL: usize = 1_000;

fn records(rows: usize) -> Vec<IndexedRecord> {
    let mut random = fastrand::Rng::with_seed(1);
    let records = (0..rows).map(|row| {
        let vector: Vec<f32> = (0..DIMENSIONS).map(|_| random.f32() - 0.5).collect();
        let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        let fields = json!({ "path": format!("guides/{}.md", row / 10), "page": row % 10 });
        IndexedRecord {
            id: RecordId::Number(row as u64),
            vector: vector.iter().map(|value| value / norm).collect(),
            text: "text of a chunk ".repeat(20),
            fields: fields.as_object().unwrap().clone(),
        }
    });
    records.collect()
}

fn spec(key: &str) -> CollectionSpec {
    CollectionSpec {
        key: key.to_owned(),
        dimensions: DIMENSIONS,
        index: SearchIndexSpec::Exact,
        precision: StoredPrecision::F32,
    }
}

/// Seconds for all records, with two parts in flight.
async fn fill(database: &PgvectorDatabase, records: &[IndexedRecord]) -> f64 {
    let (place, spec) = (CollectionPlace::filled("reverie_fill"), spec("fill"));
    database.drop_collection(&place, "fill").await.unwrap();
    database.create(&place, &spec).await.unwrap();
    let started = Instant::now();
    let parts = stream::iter(records.chunks(PART)).map(|part| database.write(&place, part)).buffer_unordered(2);
    parts.try_collect::<Vec<()>>().await.unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(database.count(&place).await.unwrap(), records.len() as u64);
    database.drop_collection(&place, "fill").await.unwrap();
    seconds
}

/// A vector as pgvector takes it.
#[derive(Debug)]
struct RawVector(Vec<f32>);

impl ToSql for RawVector {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&(self.0.len() as u16).to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        self.0.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes()));
        Ok(tokio_postgres::types::IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The fields of a process after its name: state, parent, …, user time, system time, and those of processes that ended.
fn process_fields(process: &str) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// Seconds of processor time in these fields, in hundredths.
fn seconds_in(fields: &[String]) -> f64 {
    fields.iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

fn own_processor_seconds() -> f64 {
    seconds_in(&process_fields("self").unwrap()[11..13])
}

/// Seconds of processor time that a server and its processes have used so far.
fn server_processor_seconds(server: &str) -> f64 {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let seconds = processes.filter_map(|process| {
        let fields = process_fields(&process)?;
        (process == server || fields[1] == server).then(|| seconds_in(&fields[11..15]))
    });
    seconds.sum()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Median milliseconds of a search, and of the same statement without anything around it; they take turns.
async fn search(database: &PgvectorDatabase, client: &tokio_postgres::Client, records: &[IndexedRecord]) -> (f64, f64) {
    let place = CollectionPlace::filled("reverie_small");
    let sql = "select id, vector <=> $1 from reverie_small order by vector <=> $1 limit 18";
    let statement = client.prepare(sql).await.unwrap();
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for record in records.iter().cycle().take(SEARCHES) {
        let started = Instant::now();
        let query = [DatabaseQuery { vector: &record.vector, filter: None }];
        let found = database.search(&place, &query, &SearchOptions::top(10)).await.unwrap();
        ours.push(started.elapsed().as_secs_f64());
        assert!(found[0].records[0].id == record.id);
        let vector = RawVector(record.vector.clone());
        let started = Instant::now();
        let rows = client.query(&statement, &[&vector]).await.unwrap();
        raw.push(started.elapsed().as_secs_f64());
        assert_eq!(rows.len(), 18);
    }
    (median(ours) * 1e3, median(raw) * 1e3)
}

#[tokio::main]
async fn main() {
    let Some(server) = servers::PostgresServer::start().await else { return };
    let rounds = std::env::args().nth(1).map_or(4, |rounds| rounds.parse().unwrap());
    let database = PgvectorDatabase::open(AccessSettings::new(&server.url())).unwrap();
    let python = PathBuf::from(std::env::var_os("REVERIE_TEST_DATABASES").unwrap()).join("bin/python");
    let copy = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/psycopg_copy.py");
    let client = server.client().await.unwrap();
    let backend: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let postgres = process_fields(&backend.to_string()).unwrap().remove(1);
    let all = records(ROWS);
    let mut best = [f64::MAX; 4];
    for round in 0..rounds {
        let (server_before, own_before) = (server_processor_seconds(&postgres), own_processor_seconds());
        let ours = fill(&database, &all).await;
        let (server_seconds, own) =
            (server_processor_seconds(&postgres) - server_before, own_processor_seconds() - own_before);
        println!("round {round}: Reverie {ours:.2} s (processor: client {own:.2} s, server {server_seconds:.2} s)");
        for (number, table) in ["same table", "default table", "without fields"].into_iter().enumerate() {
            let before = server_processor_seconds(&postgres);
            let copied = Command::new(&python).arg(&copy).arg(server.url()).arg(number.to_string()).output().unwrap();
            assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
            let text = String::from_utf8(copied.stdout).unwrap();
            let (seconds, client) = text.trim().split_once(' ').unwrap();
            let (seconds, server_seconds): (f64, f64) =
                (seconds.parse().unwrap(), server_processor_seconds(&postgres) - before);
            println!(
                "round {round}: psycopg, {table}, {seconds:.2} s (processor: client {client} s, server {server_seconds:.2} s)"
            );
            best[number + 1] = seconds.min(best[number + 1]);
        }
        best[0] = ours.min(best[0]);
    }
    println!(
        "best: Reverie {:.2} s; psycopg: same table {:.2} s, default table {:.2} s, without fields {:.2} s",
        best[0], best[1], best[2], best[3]
    );

    let place = CollectionPlace::filled("reverie_small");
    database.create(&place, &spec("small")).await.unwrap();
    database.write(&place, &all[..SMALL]).await.unwrap();
    database.complete(&place, &spec("small"), &|_| {}).await.unwrap();
    for round in 0..rounds {
        let (ours, raw) = search(&database, &client, &all[..SMALL]).await;
        println!("round {round}: search {ours:.3} ms, raw query {raw:.3} ms, added {:.3} ms", ours - raw);
    }
}
