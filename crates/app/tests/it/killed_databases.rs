//! Databases that are killed while a run fills them or searches in them, and runs that are killed while they fill one:
//! nothing is lost, and what was written is not written again.

use crate::{
    corpus,
    databases::servers::{ChromaServer, MilvusServer, PostgresServer, QdrantServer, SearchStub},
    workspace::{Outcome, Workspace},
};
use serde_json::Value;
use std::{
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

const REST: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n";
/// More records than three parts hold.
const SENTENCES: usize = 16_000;
/// How often each golden question is asked while the server dies.
const QUESTIONS: usize = 10;
/// A guard against what hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server of a test, which can be killed.
enum KilledServer {
    Postgres(PostgresServer),
    Chroma(ChromaServer),
    Qdrant(QdrantServer),
    Milvus(MilvusServer),
    Elasticsearch(SearchStub),
}

impl KilledServer {
    fn kill(&mut self) {
        match self {
            Self::Postgres(server) => server.kill(),
            Self::Chroma(server) => server.kill(),
            Self::Qdrant(server) => server.kill(),
            Self::Milvus(server) => server.kill(),
            Self::Elasticsearch(server) => server.kill(),
        }
    }

    async fn restart(&mut self) {
        match self {
            Self::Postgres(server) => server.restart().await,
            Self::Chroma(server) => server.restart().await,
            Self::Qdrant(server) => server.restart().await,
            Self::Milvus(server) => server.restart().await,
            Self::Elasticsearch(server) => server.restart().await,
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::Chroma(server) => server.url(),
            Self::Qdrant(server) => server.url(),
            Self::Milvus(server) => server.url(),
            Self::Elasticsearch(server) => server.url(),
        }
    }

    /// The index in this database, as an experiment names it, with the address in a variable.
    fn index(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "{ pgvector = { kind = \"exact\" } }",
            Self::Chroma(_) => "{ chroma = { url = \"env:DATABASE_URL\", ef = 400 } }",
            Self::Qdrant(_) => "{ qdrant = { url = \"env:DATABASE_URL\", kind = \"exact\" } }",
            Self::Milvus(_) => "{ milvus = { url = \"env:DATABASE_URL\", kind = \"exact\" } }",
            // The stub takes long for each search.
            Self::Elasticsearch(_) => {
                "{ elasticsearch = { url = \"env:DATABASE_URL\", kind = \"exact\", concurrency = 4, timeout_seconds = 300 } }"
            }
        }
    }
}

/// A workspace with many chunks, no two of them equal.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    let words = corpus::words();
    let mut random = fastrand::Rng::with_seed(3);
    let sentence = |_| {
        let chosen: Vec<&str> = (0..7).map(|_| words[random.usize(..words.len())]).collect();
        format!("{}.\n\n", chosen.join(" "))
    };
    let text: String = (0..SENTENCES).map(sentence).collect();
    workspace.write("documents/many.txt", text);
    workspace
}

fn experiment(workspace: &Workspace, server: &KilledServer, chunk_size: usize, top_k: usize) {
    let space = format!(
        "chunker = {{ sentence = {{ chunk_size = {chunk_size}, chunk_overlap = 0 }} }}\nembedder = \"tiny\"\nindex = [\"flat\", \
         {}]\nretriever = {{ dense = {{ top_k = {top_k} }} }}",
        server.index()
    );
    workspace.experiment(&space, REST);
}

fn start(workspace: &Workspace, server: &KilledServer) -> Child {
    let mut command = workspace.command(&["run", "--json", "--quiet"]);
    command.env("DATABASE_URL", server.url()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// How many records a fill that is not finished has noted.
fn noted(workspace: &Workspace) -> Option<(PathBuf, usize)> {
    let mut files = std::fs::read_dir(workspace.file("store/partial/fills")).ok()?;
    let path = files.find_map(|entry| {
        let path = entry.ok()?.path();
        // A writer that was killed leaves its draft, which `store gc` removes.
        (!path.to_string_lossy().contains('#')).then_some(path)
    })?;
    let written = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
    Some((path, written))
}

async fn after_a_part(workspace: &Workspace) {
    let begun = Instant::now();
    while noted(workspace).is_none_or(|(_, written)| written == 0) {
        assert!(begun.elapsed() < PATIENCE, "no part was written");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The results of a run that ends well, after checking them.
async fn finished(workspace: &Workspace, run: Child) -> Value {
    let output = tokio::task::spawn_blocking(move || run.wait_with_output()).await.unwrap().unwrap();
    let outcome = Outcome::of(output);
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    let results = outcome.json();
    let trials = results["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    let recall = trials[1]["index_recall"]["mean"].as_f64().unwrap();
    assert!(recall >= 0.95, "{recall}");
    if recall >= 1.0 {
        assert_eq!(trials[0]["metrics"], trials[1]["metrics"]);
    }
    assert_eq!(noted(workspace), None, "nothing is left of the fill");
    results
}

async fn records(workspace: &Workspace, server: &KilledServer) -> Vec<u64> {
    let name = server.index();
    let mut command = workspace.command(&["database", "list", name, "--json"]);
    let listed = Outcome::of(command.env("DATABASE_URL", server.url()).output().unwrap()).succeeds().json();
    let mut records: Vec<u64> =
        listed["collections"].as_array().unwrap().iter().map(|it| it["records"].as_u64().unwrap()).collect();
    records.sort_unstable();
    records
}

async fn nothing_is_lost(mut server: KilledServer) {
    let workspace = workspace();
    // The server dies after the first part, and is away for a second.
    experiment(&workspace, &server, 14, 3);
    let run = start(&workspace, &server);
    after_a_part(&workspace).await;
    server.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.restart().await;
    finished(&workspace, run).await;
    let whole = records(&workspace, &server).await;
    assert!(whole.len() == 1 && whole[0] > 5_000, "{whole:?} are more than one part");

    // The run dies after the first part, and the next one goes on there.
    experiment(&workspace, &server, 12, 3);
    let mut run = start(&workspace, &server);
    after_a_part(&workspace).await;
    run.kill().unwrap();
    run.wait().unwrap();
    let (_, written) = noted(&workspace).unwrap();
    assert!(written > 0);
    let results = finished(&workspace, start(&workspace, &server)).await;
    let resumed = events(&workspace, &results).into_iter().filter_map(|event| event["resumed"].as_u64()).max();
    assert!(resumed >= Some(written as u64), "{resumed:?} of {written} records were not written again");
    let both = records(&workspace, &server).await;
    assert_eq!(both.len(), 2);

    // The server dies while questions are searched: the run waits for it, and writes nothing again.
    workspace.multiply_questions(QUESTIONS);
    experiment(&workspace, &server, 14, 5);
    let before = runs(&workspace);
    let run = start(&workspace, &server);
    // The run has checked the server when it has a folder of its own.
    let begun = Instant::now();
    while runs(&workspace) == before {
        assert!(begun.elapsed() < PATIENCE, "the run has not begun");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.restart().await;
    let results = finished(&workspace, run).await;
    let made = events(&workspace, &results).into_iter().filter(|event| event["kind"] == "task_finished");
    let labels: Vec<String> = made.filter_map(|event| Some(event["label"].as_str()?.to_owned())).collect();
    assert!(labels.iter().any(|label| label.starts_with("retrieve")), "{labels:?}");
    assert_eq!(records(&workspace, &server).await, both, "nothing was written again");
}

/// The lines of a run's log.
fn events(workspace: &Workspace, results: &Value) -> Vec<Value> {
    let path = format!("store/runs/{}/events.jsonl", results["run"].as_str().unwrap());
    let log = std::fs::read_to_string(workspace.file(&path)).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How many runs have a log.
fn runs(workspace: &Workspace) -> usize {
    let runs = std::fs::read_dir(workspace.file("store/runs")).unwrap();
    runs.filter(|run| run.as_ref().unwrap().path().join("events.jsonl").is_file()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_and_a_run_are_killed_and_nothing_is_lost() {
    let Some(server) = PostgresServer::start().await else { return };
    nothing_is_lost(KilledServer::Postgres(server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chroma_and_a_run_are_killed_and_nothing_is_lost() {
    let Some(server) = ChromaServer::start().await else { return };
    nothing_is_lost(KilledServer::Chroma(server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qdrant_and_a_run_are_killed_and_nothing_is_lost() {
    let Some(server) = QdrantServer::start(&[]).await else { return };
    nothing_is_lost(KilledServer::Qdrant(server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn milvus_and_a_run_are_killed_and_nothing_is_lost() {
    let Some(server) = MilvusServer::start().await else { return };
    nothing_is_lost(KilledServer::Milvus(server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_and_a_run_are_killed_and_nothing_is_lost() {
    let Some(server) = SearchStub::start("elasticsearch", "9.2.0", &[]).await else { return };
    nothing_is_lost(KilledServer::Elasticsearch(server)).await;
}
