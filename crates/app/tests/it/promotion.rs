//! `promote --into`: the winner's vectors in a database, served from there, swapped, rolled back and checked.

use crate::{
    attacks::eventually,
    databases::{
        run,
        servers::{ChromaServer, PASSWORD, PostgresServer},
        tables,
    },
    serve::{QUESTION, Service},
    workspace::{Outcome, Workspace},
};
use serde_json::{Value, json};
use std::path::Path;

const REST: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n";

fn space(chunk_size: usize, retriever: &str) -> String {
    format!(
        "chunker = {{ sentence = {{ chunk_size = {chunk_size}, chunk_overlap = 0 }} }}\nembedder = \"tiny\"\nretriever = \
         {retriever}"
    )
}

/// A workspace with a finished run of one trial whose vectors are compared exactly.
fn finished(retriever: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.experiment(&space(16, retriever), REST);
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace
}

fn bytes_below(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        bytes.extend(if path.is_dir() { bytes_below(&path) } else { std::fs::read(&path).unwrap() });
    }
    bytes
}

fn index_files(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder.join("store/artifacts")).unwrap();
    let all = all.flat_map(|entry| std::fs::read_dir(entry.unwrap().path()).unwrap());
    all.map(|entry| entry.unwrap().path().extension().unwrap().to_string_lossy().into_owned()).collect()
}

async fn sources(service: &Service) -> Value {
    let found = service.json(&format!("/rag/retrieve?query={QUESTION}&top_k=3")).await;
    let passages = found["passages"].as_array().unwrap();
    assert!(!passages.is_empty());
    passages.iter().map(|passage| json!([passage["text"], passage["document"], passage["span"]])).collect()
}

fn serve(workspace: &Workspace, url: &str, bundle: &str) -> Service {
    Service::start_with(workspace, &[bundle], &[("DATABASE_URL", url)])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_winner_is_served_from_a_database_by_several_processes_swapped_and_rolled_back() {
    let Some(mut postgres) = PostgresServer::start().await else { return };
    let url = postgres.url();
    let workspace = finished("{ dense = { top_k = 3 } }");
    workspace.run(&["promote", "--output", "own"]).succeeds();
    let promote = ["promote", "--output", "first", "--into", "pgvector", "--alias", "manuals"];
    let made = run(&workspace, &url, &promote).succeeds();
    assert!(made.out.contains("100.0 % of the nearest chunks are found"), "{}", made.out);
    assert!(made.out.contains("`manuals`") && made.err.contains("chunks go into pgvector"), "{}", made.err);
    assert!(!String::from_utf8_lossy(&bytes_below(&workspace.file("first"))).contains(PASSWORD));
    // It holds no vectors of chunks.
    assert!(index_files(&workspace.file("own")).contains(&"dense".to_owned()));
    let files = index_files(&workspace.file("first"));
    assert!(files.contains(&"database".to_owned()) && !files.contains(&"dense".to_owned()), "{files:?}");

    // Another program reads the alias as a table.
    let client: tokio_postgres::Client = postgres.client().await.unwrap();
    let count = async || client.query_one("select count(*) from manuals", &[]).await.unwrap().get::<_, i64>(0);
    let of_first = count().await;

    // Two processes give the answers of the bundle that holds everything itself; one is killed.
    let own = Service::start(&workspace, &["own"]);
    let (one, other) = (serve(&workspace, &url, "first"), serve(&workspace, &url, "first"));
    let expected = sources(&own).await;
    assert_eq!(sources(&one).await, expected);
    assert_eq!(sources(&other).await, expected);
    drop(one);
    assert_eq!(sources(&other).await, expected);

    // The database ends and comes back.
    postgres.kill();
    postgres.restart().await;
    eventually("the service finds its database again", async || {
        let found = other.get(&format!("/rag/retrieve?query={QUESTION}&top_k=3")).await;
        found.status().is_success()
    })
    .await;
    assert_eq!(sources(&other).await, expected);

    // Another winner takes its place, and the first one comes back.
    workspace.experiment(&space(48, "{ dense = { top_k = 3 } }"), REST);
    workspace.run(&["run", "--quiet"]).succeeds();
    run(&workspace, &url, &["promote", "--output", "second", "--into", "pgvector", "--alias", "manuals"]).succeeds();
    let client: tokio_postgres::Client = postgres.client().await.unwrap();
    let count = async || client.query_one("select count(*) from manuals", &[]).await.unwrap().get::<_, i64>(0);
    assert_ne!(count().await, of_first);
    assert_eq!(tables(&postgres).await.len(), 2);
    let list =
        |what: &str| run(&workspace, &url, &["database", "list", "pgvector", "--json"]).succeeds().json()[what].clone();
    let collections = list("collections");
    let with_alias = collections.as_array().unwrap().iter().find(|it| it["aliases"] == json!(["manuals"])).unwrap();
    assert_eq!(with_alias["facts"]["experiment"], "animals");
    let back = run(&workspace, &url, &["database", "roll-back", "pgvector", "manuals", "--json"]).succeeds().json();
    assert_eq!((&back["to"], &back["from"]), (&with_alias["previous"]["manuals"], &with_alias["name"]));
    assert_eq!(count().await, of_first);
    assert_eq!(sources(&other).await, expected, "a bundle searches in its own collection, wherever the alias points");
    run(&workspace, &url, &["database", "roll-back", "pgvector", "manuals"]).fails_with(&["pointed to no other"]);

    // A service takes the second bundle, and the first one back.
    for (bundle, is_first) in [("second", false), ("first", true)] {
        let body = json!({ "bundle": workspace.file(bundle).display().to_string() });
        let swapped = other.post("/admin/swap", &body).await;
        assert!(swapped.status().is_success(), "{}", swapped.text().await.unwrap());
        assert_eq!(sources(&other).await == expected, is_first);
    }

    // Another alias has a way back of its own.
    let swap = |alias: &str, to: &Value| {
        run(&workspace, &url, &["database", "swap", "pgvector", alias, to.as_str().unwrap(), "--json"])
            .succeeds()
            .json()
    };
    assert_eq!(swap("staging", &back["from"])["from"], Value::Null);
    assert_eq!(swap("staging", &back["to"])["from"], back["from"]);
    assert_eq!(swap("manuals", &back["to"])["from"], back["to"], "it points there already");
    run(&workspace, &url, &["database", "roll-back", "pgvector", "manuals"]).fails_with(&["pointed to no other"]);
    let staged = run(&workspace, &url, &["database", "roll-back", "pgvector", "staging", "--json"]).succeeds().json();
    assert_eq!(staged["to"], back["from"]);
    swap("staging", &back["to"]);
    postgres.run("create table theirs (id int primary key)").await;
    run(&workspace, &url, &["database", "swap", "pgvector", "theirs", back["to"].as_str().unwrap()])
        .fails_with(&["did not make it"]);

    // What is in use stays; the rest is removed.
    let first = back["to"].as_str().unwrap();
    run(&workspace, &url, &["database", "remove", "pgvector", first, "--yes"]).fails_with(&["alias"]);
    run(&workspace, &url, &["database", "remove", "pgvector", first, "--dry-run"]).fails_with(&["alias"]);
    let second = back["from"].as_str().unwrap();
    run(&workspace, &url, &["database", "remove", "pgvector", second, "--dry-run"]).succeeds();
    assert_eq!(tables(&postgres).await.len(), 2);
    run(&workspace, &url, &["database", "remove", "pgvector", second, "--yes"]).succeeds();
    assert_eq!(tables(&postgres).await.len(), 1);
    run(&workspace, &url, &["database", "remove", "pgvector", second, "--yes"]).fails_with(&["does not exist"]);
    run(&workspace, &url, &["database", "remove", "pgvector", "theirs", "--yes"]).fails_with(&["did not make it"]);
    let shown = run(&workspace, &url, &["database", "list", "pgvector"]).succeeds();
    assert!(shown.out.contains("manuals") && shown.out.contains("of animals"), "{}", shown.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_that_the_database_is_not_what_was_promoted() {
    let Some(postgres) = PostgresServer::start().await else { return };
    let (url, workspace) = (postgres.url(), finished("{ dense = { top_k = 3 } }"));
    run(&workspace, &url, &["promote", "--output", "bundle", "--into", "{ pgvector = { kind = \"exact\" } }"])
        .succeeds();
    // The check needs neither the run nor the models.
    std::fs::remove_dir_all(workspace.file("store")).unwrap();
    std::fs::remove_file(workspace.file("experiment.toml")).unwrap();
    let check = |code: i32| {
        run(&workspace, &url, &["check", "--against", "bundle", "--database", "--json"]).ends_with(code).json()
    };
    let passed = check(0);
    assert_eq!((&passed["problem"], &passed["now"]["recall"]), (&Value::Null, &json!(1.0)));
    let told = run(&workspace, &url, &["check", "--against", "bundle", "--database"]).succeeds();
    assert!(told.out.starts_with("PASS  animals in postgresql://"), "{}", told.out);

    let table = &tables(&postgres).await[0];
    assert_eq!(tables(&postgres).await.len(), 1);
    // The same records with other vectors: only a search finds it.
    postgres.run(&format!("create table kept as select * from {table}")).await;
    postgres.run(&format!("update {table} set vector = (select vector from {table} order by id limit 1)")).await;
    let changed = check(6)["problem"].as_str().unwrap().to_owned();
    assert!(changed.contains("100.0 % were after the promotion"), "{changed}");
    postgres.run(&format!("truncate {table}; insert into {table} select * from kept")).await;
    assert_eq!(check(0)["problem"], Value::Null);
    // The same vectors under other numbers, so that other chunks would be cited.
    postgres
        .run(&format!(
            "truncate {table}; insert into {table} (id, vector, text, fields) select (id + 1) % (select count(*) from kept), \
             vector, text, fields from kept"
        ))
        .await;
    assert!(check(6)["problem"].as_str().unwrap().contains("were after the promotion"));
    postgres.run(&format!("truncate {table}; insert into {table} select * from kept")).await;

    postgres.run(&format!("delete from {table} where id = 0")).await;
    assert!(check(6)["problem"].as_str().unwrap().contains("were written"));
    postgres.run(&format!("drop table {table}")).await;
    assert!(check(6)["problem"].as_str().unwrap().contains("is gone"));
    let failed = run(&workspace, &url, &["check", "--against", "bundle", "--database"]).ends_with(6);
    assert!(failed.out.contains("FAIL") && failed.out.contains("promote"), "{}", failed.out);
    let refused = workspace.command(&["serve", "bundle", "--listen", "127.0.0.1:0"]).env("DATABASE_URL", &url).output();
    Outcome::of(refused.unwrap()).fails_with(&["is gone", "promot"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hybrid_trial_keeps_its_words_and_one_that_compares_vectors_of_chunks_keeps_those() {
    let (Some(postgres), Some(chroma)) = (PostgresServer::start().await, ChromaServer::start().await) else { return };
    let url = postgres.url();
    let into_chroma = chroma.url().replace("http://", "chroma://");
    for (retriever, kept) in [("{ hybrid = { top_k = 3 } }", "bm25"), ("{ mmr = { top_k = 3 } }", "dense")] {
        let workspace = finished(retriever);
        workspace.run(&["promote", "--output", "own"]).succeeds();
        let expected = sources(&Service::start(&workspace, &["own"])).await;
        for (name, into) in [("there", "pgvector"), ("elsewhere", &into_chroma)] {
            run(&workspace, &url, &["promote", "--output", name, "--into", into]).succeeds();
            let files = index_files(&workspace.file(name));
            assert!(files.contains(&kept.to_owned()) && files.contains(&"database".to_owned()), "{files:?}");
            assert_eq!(sources(&serve(&workspace, &url, name)).await, expected, "{retriever} in {into}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_promoted_into_a_database_is_told_before_anything_is_written() {
    let Some(postgres) = PostgresServer::start().await else { return };
    let (url, workspace) = (postgres.url(), finished("\"bm25\""));
    let promote = |into: &str| run(&workspace, &url, &["promote", "--output", "bundle", "--into", into]);
    promote("pgvector").fails_with(&["compares no vectors", "without --into"]);
    for into in ["mysql", "flat", "pgvector://me:planted-0123456789@h/d", "{ pgvector = { eff = 1 } }"] {
        let refused = promote(into);
        assert!(!refused.err.contains(PASSWORD), "{}", refused.err);
        refused.refused_with(&["--into"]);
    }
    let listed = run(&workspace, &url, &["database", "list", "pgvector://h/d?user=me&password=planted-0123456789"]);
    assert!(!listed.err.contains(PASSWORD), "{}", listed.err);
    listed.refused_with(&["env:DATABASE_URL"]);
    workspace.run(&["promote", "--output", "bundle", "--alias", "a"]).refused_with(&["--into"]);
    let dense = finished("{ dense = { top_k = 2 } }");
    let of = |url: &str, output: &str| run(&dense, url, &["promote", "--output", output, "--into", "pgvector"]);
    of("postgresql://127.0.0.1:1/postgres", "bundle").fails_with(&["cannot be reached"]);
    postgres.run("create role reader login password 'planted-0123456789'").await;
    of(&postgres.address("reader", PASSWORD, "postgres"), "bundle").fails_with(&["may create nothing"]);
    assert!(!dense.file("bundle").exists() && tables(&postgres).await.is_empty());
    postgres.run("create table taken (id int primary key)").await;
    let taken = ["promote", "--output", "bundle", "--into", "pgvector", "--alias", "taken"];
    run(&dense, &url, &taken).fails_with(&["taken", "did not make it"]);
    assert!(!dense.file("bundle").exists() && tables(&postgres).await.is_empty());
    of(&url, "made").succeeds();
    of(&url, "made").fails_with(&["is there already"]);
    let elsewhere = PostgresServer::start().await.unwrap();
    let check = ["check", "--against", "made", "--database"];
    run(&dense, &elsewhere.url(), &check).fails_with(&["were put into", "lead to"]);
    dense.run(&["check", "--against", "made", "--database"]).fails_with(&["DATABASE_URL"]);
    dense.run(&["promote", "--output", "own"]).succeeds();
    dense.run(&["check", "--against", "own", "--database"]).fails_with(&["promote --into"]);
}
