//! The axis `index`: trials whose vectors are found by a graph beside those that compare all.

use crate::workspace::Workspace;
use serde_json::Value;

const REST: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n";

fn workspace(index: &str) -> Workspace {
    let workspace = Workspace::new();
    let space = format!(
        "chunker = {{ sentence = {{ chunk_size = 16, chunk_overlap = 0 }} }}\nembedder = \"tiny\"\n{index}\nretriever = [{{ \
         dense = {{ top_k = 2 }} }}, {{ bm25 = {{ top_k = 2 }} }}]"
    );
    workspace.experiment(&space, REST);
    workspace
}

/// The number of artifacts whose name has this ending.
fn artifacts(workspace: &Workspace, ending: &str) -> usize {
    let folders = std::fs::read_dir(workspace.file("store/artifacts")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().ends_with(ending)).count()
}

#[test]
fn trials_that_differ_in_the_effort_of_a_search_share_one_graph_and_words_have_none() {
    let workspace = workspace("index = [\"flat\", { hnsw = { ef = 8 } }, { hnsw = { ef = 200 } }]");
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let trials: Vec<&Value> = results["trials"].as_array().unwrap().iter().collect();
    // Words are searched without vectors, so all indexes are one trial.
    assert_eq!(trials.len(), 4);
    assert_eq!((artifacts(&workspace, ".hnsw"), artifacts(&workspace, ".dense")), (1, 1));
    let of = |label: &str| trials.iter().find(|found| found["trial"]["labels"]["index"] == label).unwrap();
    assert_eq!(trials.iter().filter(|found| found["trial"]["labels"]["index"] == "none").count(), 1, "words");
    let (flat, deep) = (of("flat"), of("hnsw(ef=200)"));
    assert_eq!(flat["metrics"], deep["metrics"], "so few vectors are all compared");
    assert_eq!(deep["index_recall"]["mean"], 1.0);
    assert!(flat.get("index_recall").is_none());
    let board = workspace.run(&["leaderboard"]).succeeds().out;
    assert!(board.contains("index") && board.contains("hnsw(ef=8)"), "{board}");
    let cost =
        board.lines().find(|line| line.contains("the index hnsw(ef=200) finds 100.0 % of the nearest chunks")).unwrap();
    assert!(
        cost.contains("; against flat: objective +0.000 [") && cost.contains(" ms a question instead of "),
        "{cost}"
    );
    assert!(cost.contains("KB instead of") && deep["index_bytes"].as_u64() > flat["index_bytes"].as_u64(), "{cost}");
    let again = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(again["executed"], 0);
}

#[test]
fn an_index_that_is_left_out_is_flat_and_changes_nothing() {
    let without = workspace("");
    without.run(&["run"]).succeeds();
    let file = std::fs::read_to_string(without.file("experiment.toml")).unwrap();
    without.write("experiment.toml", file.replace("retriever =", "index = \"flat\"\nretriever ="));
    assert_eq!(without.run(&["run", "--json"]).succeeds().json()["executed"], 0);
}

#[test]
fn a_bundle_of_a_trial_with_a_graph_answers_by_it() {
    let workspace = workspace("index = { hnsw = {} }");
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let dense = results["trials"].as_array().unwrap().iter().find(|found| found["trial"]["labels"]["index"] == "hnsw");
    let id = dense.unwrap()["trial"]["id"].as_str().unwrap().to_owned();
    workspace.run(&["promote", &id, "--output", "bundle"]).succeeds();
    let files = std::fs::read_to_string(workspace.file("bundle/manifest.json")).unwrap();
    assert!(files.contains(".hnsw") && files.contains(".dense"), "{files}");
    let found = workspace.run(&["query", "--trial", &id, "How far does an owl turn its head?"]).succeeds();
    assert!(found.out.contains("owl"), "{}", found.out);
}

#[test]
fn settings_of_a_graph_that_cannot_work_are_told_with_their_line() {
    workspace("index = { hnsw = { ef = 0 } }").run(&["plan"]).refused_with(&["experiment.toml:", "ef is 0"]);
    workspace("index = { hnsv = {} }").run(&["plan"]).refused_with(&["experiment.toml:", "hnsw"]);
}
