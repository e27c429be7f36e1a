//! Retrievers that search a table which somebody else has filled.

use crate::{
    databases::{
        run,
        servers::{ChromaServer, MilvusServer, PostgresServer, QdrantServer, SearchStub},
        tables,
    },
    workspace::Workspace,
};
use serde_json::Value;

const REST: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n";
const FLAT: &str = "[[space]]\nchunker = { sentence = { chunk_size = 16, chunk_overlap = 0 } }\nembedder = \"tiny\"\nretriever = { \
                    dense = { top_k = 2 } }\n";

/// A table of the user's own, with the chunks and vectors that a run has written, under other names.
async fn filled_table(server: &PostgresServer) -> Workspace {
    let workspace = Workspace::new();
    let space = "chunker = { sentence = { chunk_size = 16, chunk_overlap = 0 } }\nembedder = \"tiny\"\nindex = { pgvector = { \
                 kind = \"exact\" } }\nretriever = { dense = { top_k = 2 } }";
    workspace.experiment(space, REST);
    run(&workspace, &server.url(), &["run"]).succeeds();
    let table = tables(server).await.remove(0);
    server
        .run(&format!(
            "create table docs as select 'c' || id as number, vector as embedding, text as body, fields->>'path' as file, \
             fields as meta from {table}; alter table docs add primary key (number); create index on docs using hnsw \
             (embedding vector_cosine_ops)"
        ))
        .await;
    workspace
}

fn experiment(workspace: &Workspace, retriever: &str, more: &str) {
    let space = format!("embedder = \"tiny\"\nretriever = {retriever}\n{more}");
    workspace.experiment(&space, REST);
}

/// The retriever `pgvector` on the table `docs`, with more settings.
fn pgvector(settings: &str) -> String {
    format!("{{ pgvector = {{ table = \"docs\", text = \"body\", document = \"file\", top_k = 2{settings} }} }}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_the_users_own_gives_the_passages_that_flat_gives_and_is_asked_again_when_it_has_changed() {
    let Some(server) = PostgresServer::start().await else { return };
    let workspace = filled_table(&server).await;
    experiment(&workspace, &pgvector(", metadata = \"meta\""), "");
    let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", file.replace("[space]\n", &format!("{FLAT}[[space]]\n")));
    let ran = || run(&workspace, &server.url(), &["run", "--json"]).succeeds().json();
    let results = ran();
    let trials = results["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    assert_eq!(trials[0]["metrics"], trials[1]["metrics"], "{results}");
    assert_eq!(trials[1]["trial"]["labels"]["chunker"], "none");
    assert_eq!(ran()["executed"], 0);
    server.run("delete from docs where number = 'c0'").await;
    assert_ne!(ran()["executed"], 0, "another content is another search");
    let id = trials[1]["trial"]["id"].as_str().unwrap();
    let found = run(&workspace, &server.url(), &["query", "--trial", id, "How far does an owl turn its head?"]);
    assert!(found.succeeds().out.contains("owl"));
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_question_are_searched_in_the_table_too_and_both_lists_are_joined() {
    let Some(server) = PostgresServer::start().await else { return };
    let workspace = filled_table(&server).await;
    experiment(&workspace, &pgvector(", hybrid = true"), "");
    let hybrid = run(&workspace, &server.url(), &["run", "--json"]).succeeds().json();
    assert!(hybrid["trials"][0]["metrics"]["recall"]["mean"].as_f64().unwrap() > 0.0, "{hybrid}");
    let question = ["query", "How far does an owl turn its head?", "--json"];
    let found = run(&workspace, &server.url(), &question).succeeds().json();
    let score = found["passages"][0]["score"].as_f64().unwrap();
    assert!(score > 1.0 / 60.0 + 1e-6, "it is in both lists: {found}");
    let refused = |settings: &str, parts: &[&str]| {
        experiment(&workspace, &pgvector(settings), "");
        run(&workspace, &server.url(), &["run"]).refused_with(parts);
    };
    refused(", hybrid = true, language = \"klingon\"", &["space.retriever: pgvector", "klingon", "does not exist"]);
    refused(", hybrid = true, words = \"absent\"", &["space.retriever: pgvector", "absent"]);
    refused(", words = \"body\"", &["`words` is used by a search with `hybrid = true` alone"]);
    refused(", oversampling = 0", &["oversampling must be from 1 to 100"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_of_each_database_gives_the_passages_that_flat_gives() {
    let (Some(chroma), Some(qdrant)) = (ChromaServer::start().await, QdrantServer::start(&[]).await) else { return };
    let (Some(milvus), Some(opensearch)) =
        (MilvusServer::start().await, SearchStub::start("opensearch", "3.2.0", &[]).await)
    else {
        return;
    };
    let payload = ", vector = \"embedding\", metadata = \"fields\", document = \"fields.path\"";
    let fields = ", metadata = \"fields\", document = \"fields.path\"";
    for (name, url, settings) in [
        ("chroma", chroma.url(), ", document = \"path\""),
        ("qdrant", qdrant.url(), payload),
        ("milvus", milvus.url(), fields),
        ("elasticsearch", opensearch.url(), fields),
    ] {
        let key = if name == "elasticsearch" { "index" } else { "collection" };
        let workspace = Workspace::new();
        let database = format!("{{ {name} = {{ url = \"{url}\" }} }}");
        let flat = FLAT.strip_prefix("[[space]]\n").unwrap();
        workspace.experiment(&format!("{flat}index = [\"flat\", {database}]"), REST);
        workspace.run(&["run", "--quiet"]).succeeds();
        // To another program, what Reverie has written is a collection like any other.
        let listed = workspace.run(&["database", "list", &database, "--json"]).succeeds().json();
        let collection = listed["collections"][0]["name"].as_str().unwrap().to_owned();
        let retriever = format!("{{ {name} = {{ url = \"{url}\", {key} = \"{collection}\", top_k = 2{settings} }} }}");
        experiment(&workspace, &retriever, "");
        let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
        workspace.write("experiment.toml", file.replace("[space]\n", &format!("{FLAT}[[space]]\n")));
        let results = workspace.run(&["run", "--json"]).succeeds().json();
        let trials = results["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 2);
        assert_eq!(trials[0]["metrics"], trials[1]["metrics"], "{name}: {results}");
        if name == "elasticsearch" {
            experiment(&workspace, &retriever.replace("top_k = 2", "top_k = 2, hybrid = true"), "");
            let hybrid = workspace.run(&["run", "--json"]).succeeds().json();
            assert!(hybrid["trials"][0]["metrics"]["recall"]["mean"].as_f64().unwrap() > 0.0, "{hybrid}");
            // The first passage is the first of both lists: twice 1 / 60, by reciprocal rank fusion.
            let found = workspace.run(&["query", "How far does an owl turn its head?", "--json"]).succeeds().json();
            let score = found["passages"][0]["score"].as_f64().unwrap();
            assert!((score - 2.0 / 60.0).abs() < 1e-6, "{found}");
        }
        let filter = |path: &str| format!("query = {{ filter = {{ where = {{ path = \"{path}\" }} }} }}\n");
        experiment(&workspace, &retriever, &filter("none.md"));
        let none = workspace.run(&["run", "--json"]).succeeds().json();
        assert_eq!(none["trials"][0]["metrics"]["recall"]["mean"], Value::from(0.0), "{name}");
        experiment(&workspace, &retriever.replace(&collection, "absent"), "");
        workspace.run(&["run"]).refused_with(&["space.retriever:", name, "absent", "does not exist"]);
        workspace.experiment("embedder = \"tiny\"\nretriever = { dense = {} }", REST);
        experiment(&workspace, &format!("{{ {name} = {{ url = \"{url}\" }} }}"), "");
        workspace.run(&["run"]).refused_with(&["is missing"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_of_questions_are_asked_of_the_table() {
    let Some(server) = PostgresServer::start().await else { return };
    let workspace = filled_table(&server).await;
    let found = |filter: &str| {
        let retriever = pgvector(", metadata = \"meta\"");
        experiment(&workspace, &retriever, &format!("query = {{ filter = {{ where = {{ {filter} }} }} }}\n"));
        run(&workspace, &server.url(), &["run", "--json"]).succeeds().json()["trials"][0]["metrics"].clone()
    };
    let all = found("path = { ne = \"none.md\" }");
    assert_ne!(all["recall"]["mean"], Value::from(0.0));
    assert_eq!(found("path = \"none.md\"")["recall"]["mean"], Value::from(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_searched_is_told_before_the_run() {
    let Some(server) = PostgresServer::start().await else { return };
    let workspace = filled_table(&server).await;
    let url = server.url();
    let refused = |retriever: &str, more: &str, parts: &[&str]| {
        experiment(&workspace, retriever, more);
        run(&workspace, &url, &["run"]).refused_with(parts);
    };
    server
        .run(
            "create table empty (like docs including all); create table keyless as select * from docs; create table \
             wide (id int primary key, embedding vector(3), body text, file text); insert into wide values (1, \
             '[1,0,0]', 'a', 'b'); create table shuffled as select number, embedding, (select body from docs other where \
             other.number <> docs.number order by md5(other.number || docs.number) limit 1) as body, file from docs; alter \
             table shuffled add primary key (number); create table by_l2 (like docs including defaults); insert into \
             by_l2 select * from docs; alter table by_l2 add primary key (number); create index on by_l2 using hnsw \
             (embedding vector_l2_ops)",
        )
        .await;
    let table = |name: &str| pgvector("").replace("\"docs\"", &format!("\"{name}\""));
    refused(&table("absent"), "", &["space.retriever: pgvector", "`absent`", "does not exist"]);
    refused(&table("empty"), "", &["`empty`", "is empty"]);
    refused(&table("keyless"), "", &["`keyless`", "primary key"]);
    refused(&table("wide"), "", &["`wide`", "3 dimensions"]);
    refused(&table("shuffled"), "", &["`shuffled`", "median cosine", "`tiny`"]);
    refused(&table("by_l2"), "", &["`by_l2`", "Euclidean"]);
    refused(&pgvector("").replace("\"body\"", "\"content\""), "", &["`content`", "body"]);
    refused("{ pgvector = { top_k = 2 } }", "", &["table is missing"]);
    refused(&pgvector(""), "refine = { neighbours = {} }\n", &["experiment.toml:", "neighbours", "pgvector"]);
    refused("{ dense = {} }", "chunker = \"none\"\n", &["experiment.toml:", "chunker `none`", "dense"]);
    refused("{ dense = {} }", "", &["the axis `chunker` is missing"]);
}
