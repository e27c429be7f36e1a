//! The axis `index` with databases: the chunks of a run are written into servers that the tests start.

use crate::workspace::{Outcome, Workspace};
use serde_json::Value;

#[path = "../../../databases/tests/it/servers.rs"]
#[allow(dead_code, clippy::panic, reason = "the tests of the crate `databases` use all of it")]
pub mod servers;

use servers::{ChromaServer, MilvusServer, PASSWORD, PostgresServer, QdrantServer, SearchStub};

const REST: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n";

fn workspace(index: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.experiment(&space(index, 2), REST);
    workspace
}

fn space(index: &str, top_k: usize) -> String {
    format!(
        "chunker = {{ sentence = {{ chunk_size = 16, chunk_overlap = 0 }} }}\nembedder = \"tiny\"\nindex = {index}\nretriever \
         = {{ dense = {{ top_k = {top_k} }} }}"
    )
}

/// Runs it with the address of the database in a variable.
pub fn run(workspace: &Workspace, url: &str, arguments: &[&str]) -> Outcome {
    Outcome::of(workspace.command(arguments).env("DATABASE_URL", url).output().unwrap())
}

pub async fn tables(server: &PostgresServer) -> Vec<String> {
    let client: tokio_postgres::Client = server.client().await.unwrap();
    let rows = client.query("select relname::text from pg_class where relname like 'reverie%' and relkind = 'r'", &[]);
    rows.await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_chunks_are_found_in_every_database_and_trials_share_what_was_written() {
    let (Some(postgres), Some(chroma)) = (PostgresServer::start().await, ChromaServer::start().await) else { return };
    let (Some(qdrant), Some(milvus)) = (QdrantServer::start(&[]).await, MilvusServer::start().await) else { return };
    let Some(elasticsearch) = SearchStub::start("elasticsearch", "9.2.0", &[]).await else { return };
    let index = format!(
        "[\"flat\", {{ pgvector = {{}} }}, {{ pgvector = {{ ef = 200 }} }}, {{ pgvector = {{ kind = \"ivfflat\" }} }}, {{ \
         pgvector = {{ precision = \"binary\", oversampling = 10 }} }}, {{ chroma = {{ url = \"{}\" }} }}, {{ qdrant = {{ \
         url = \"{}\" }} }}, {{ qdrant = {{ url = \"{}\", precision = \"int8\" }} }}, {{ milvus = {{ url = \"{}\" }} }}, {{ \
         elasticsearch = {{ url = \"{}\" }} }}]",
        chroma.url(),
        qdrant.url(),
        qdrant.url(),
        milvus.url(),
        elasticsearch.url()
    );
    let (workspace, url) = (workspace(&index), postgres.url());
    let results = run(&workspace, &url, &["run", "--json"]).succeeds().json();
    let trials = results["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 10);
    for trial in trials {
        assert_eq!(trial["metrics"], trials[0]["metrics"], "{trial}");
        let is_flat = trial["trial"]["labels"]["index"] == "flat";
        assert_eq!(trial.get("index_recall").map(|recall| recall["mean"].clone()), (!is_flat).then(|| 1.0.into()));
        // PostgreSQL and Reverie say how large an index is.
        let says_size = is_flat || trial["trial"]["labels"]["index"].as_str().unwrap().starts_with("pgvector");
        assert!(!says_size || trial["index_bytes"].as_u64().unwrap() > 0, "{trial}");
    }
    assert_eq!(tables(&postgres).await.len(), 3, "one for each kind of index");
    assert_eq!(run(&workspace, &url, &["run", "--json"]).succeeds().json()["executed"], 0);
    // The password is in no file.
    let files = walk(workspace.path());
    assert!(files.iter().all(|file| !String::from_utf8_lossy(&std::fs::read(file).unwrap()).contains(PASSWORD)));
    // A question to a trial asks the database.
    let id = trials[1]["trial"]["id"].as_str().unwrap();
    let found = run(&workspace, &url, &["query", "--trial", id, "How far does an owl turn its head?"]).succeeds();
    assert!(found.out.contains("owl"), "{}", found.out);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_gone_is_filled_again_and_one_that_nobody_needs_is_removed() {
    let Some(postgres) = PostgresServer::start().await else { return };
    let (workspace, url) = (workspace("{ pgvector = { kind = \"exact\" } }"), postgres.url());
    run(&workspace, &url, &["run"]).succeeds();
    let before = tables(&postgres).await;
    postgres.run(&format!("drop table {}", before[0])).await;
    workspace.experiment(&space("{ pgvector = { kind = \"exact\" } }", 3), REST);
    run(&workspace, &url, &["run"]).succeeds();
    assert_eq!(tables(&postgres).await, before, "under the same name");

    let gc = ["store", "gc", "--unused", "--older-than", "0s", "--yes", "--json"];
    let kept = run(&workspace, &url, &gc).succeeds().json();
    assert_eq!(kept["collections"], Value::Array(Vec::new()), "a finished run uses it");
    std::fs::remove_dir_all(workspace.file("store/runs")).unwrap();
    let without = Outcome::of(workspace.command(&gc).env_remove("DATABASE_URL").output().unwrap()).succeeds().json();
    let reason = without["collections"][0]["kept"].as_str().unwrap();
    assert!(reason.contains("DATABASE_URL") && tables(&postgres).await == before, "{reason}");
    let removed = run(&workspace, &url, &gc).succeeds().json();
    assert_eq!(removed["collections"][0]["kept"], Value::Null, "{removed}");
    assert!(tables(&postgres).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_used_is_told_before_anything_is_done() {
    let Some(postgres) = PostgresServer::start_without_extension().await else { return };
    let workspace = workspace("{ pgvector = {} }");
    let refused = |url: &str, parts: &[&str]| run(&workspace, url, &["run"]).refused_with(parts);
    refused(&postgres.url(), &["space.index: pgvector", "create extension"]);
    postgres.run("create extension vector; create role reader login password 'planted-0123456789'").await;
    let reader = postgres.address("reader", PASSWORD, "postgres");
    refused(&reader, &["space.index: pgvector", "may create nothing"]);
    refused(&postgres.address("owner", "wrong", "postgres"), &["space.index: pgvector", "login was refused"]);
    refused("postgresql://127.0.0.1:1/postgres", &["space.index: pgvector", "cannot be reached"]);
    refused("", &["DATABASE_URL", "not set"]);
    assert!(!workspace.file("store/artifacts").exists(), "nothing was done");
    workspace.experiment(&space("{ pgvector = { url = \"postgresql://me:secret@h/d\" } }", 2), REST);
    workspace.run(&["plan"]).refused_with(&["experiment.toml:", "env:DATABASE_URL"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_mean_the_same_in_every_database() {
    let (Some(postgres), Some(chroma)) = (PostgresServer::start().await, ChromaServer::start().await) else { return };
    let (Some(qdrant), Some(milvus)) = (QdrantServer::start(&[]).await, MilvusServer::start().await) else { return };
    let Some(elasticsearch) = SearchStub::start("elasticsearch", "9.2.0", &[]).await else { return };
    let index = format!(
        "[\"flat\", {{ pgvector = {{}} }}, {{ chroma = {{ url = \"{}\" }} }}, {{ qdrant = {{ url = \"{}\" }} }}, {{ milvus \
         = {{ url = \"{}\" }} }}, {{ elasticsearch = {{ url = \"{}\" }} }}]",
        chroma.url(),
        qdrant.url(),
        milvus.url(),
        elasticsearch.url()
    );
    let (workspace, url) = (workspace(&index), postgres.url());
    for filter in ["path = { glob = \"*.md\" }", "path = { ne = \"none.md\" }", "path = { ge = \"b\" }"] {
        let space = format!("{}\nquery = {{ filter = {{ where = {{ {filter} }} }} }}", space(&index, 2));
        workspace.experiment(&space, REST);
        let results = run(&workspace, &url, &["run", "--json"]).succeeds().json();
        let trials = results["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 6);
        for trial in trials {
            assert_eq!(trial["metrics"], trials[0]["metrics"], "{filter}: {trial}");
        }
    }
}
