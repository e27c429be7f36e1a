//! `kill -9` and Ctrl-C lose nothing that was finished.

use crate::{endpoint, workspace::Workspace};
use std::{
    collections::BTreeMap,
    process::{Child, Command, Stdio},
    time::Duration,
};
use wiremock::MockServer;

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\" } }]";

fn experiment(workspace: &Workspace, server: &MockServer) {
    let rest = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\", \"token_f1\"]\n";
    workspace.experiment(SPACE, &format!("{rest}\n{}", endpoint::model(server)));
}

async fn calls(server: &MockServer) -> usize {
    server
        .received_requests()
        .await
        .unwrap()
        .iter()
        .filter(|request| request.url.path().ends_with("/chat/completions"))
        .count()
}

/// Starts a run and waits until the endpoint has been asked a few times.
async fn start_and_wait(workspace: &Workspace, server: &MockServer) -> Child {
    let mut child = workspace.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while calls(server).await < 5 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was to be stopped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child
}

#[tokio::test]
async fn after_kill_9_the_next_run_has_the_same_leaderboard_and_repeats_no_finished_task() {
    let server = endpoint::start(Duration::from_millis(60)).await;
    let untouched = Workspace::new();
    experiment(&untouched, &server);
    let expected = untouched.run(&["run", "--json"]).succeeds().json();
    let needed = calls(&server).await;
    server.reset().await;
    drop(server);

    let server = endpoint::start(Duration::from_millis(60)).await;
    let workspace = Workspace::new();
    experiment(&workspace, &server);
    let mut child = start_and_wait(&workspace, &server).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let results = workspace.run(&["run", "--json"]).succeeds().json();

    assert_eq!(scores(&results), scores(&expected));
    let mut finished: BTreeMap<String, usize> = BTreeMap::new();
    for event in workspace.events().iter().filter(|event| event["kind"] == "task_finished") {
        *finished.entry(event["task"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!(finished.values().all(|&count| count == 1), "{finished:?}");
    assert!(calls(&server).await <= needed + 1, "only the call in flight is paid again");
}

/// Everything of the leaderboard but the times and the model's address.
fn scores(results: &serde_json::Value) -> Vec<(String, serde_json::Value, serde_json::Value)> {
    let trials = results["trials"].as_array().unwrap().iter();
    trials
        .map(|trial| {
            (trial["trial"]["id"].as_str().unwrap().to_owned(), trial["objective"].clone(), trial["metrics"].clone())
        })
        .collect()
}

#[tokio::test]
async fn after_ctrl_c_the_trials_that_are_scored_are_shown() {
    let server = endpoint::start(Duration::from_millis(60)).await;
    let workspace = Workspace::new();
    workspace.multiply_questions(8);
    experiment(&workspace, &server);
    // One trial retrieves only, and is scored while others still answer.
    let file = workspace.file("experiment.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let retrieval = "[[space]]\nchunker = \"sentence\"\nretriever = \"bm25\"\n\n[[space]]\n";
    std::fs::write(&file, text.replace("[space]\n", retrieval)).unwrap();
    let mut child = workspace.command(&["run"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while calls(&server).await < 30 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was to be stopped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(130), "{err}");
    assert!(
        out.contains("PARTIAL: the run was interrupted: ") && out.contains("no winner: not all trials"),
        "{out}{err}"
    );
    assert!(out.contains("recall") && !out.contains("budget"), "{out}");
    workspace.run(&["leaderboard"]).ends_with(1);
}

#[tokio::test]
async fn after_ctrl_c_the_next_run_goes_on() {
    let server = endpoint::start(Duration::from_millis(60)).await;
    let workspace = Workspace::new();
    experiment(&workspace, &server);
    let mut child = start_and_wait(&workspace, &server).await;
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before = calls(&server).await;
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    assert!(results["winner"]["refused"].is_null());
    let asked = endpoint::asked(&server).await;
    let different: std::collections::HashSet<&String> = asked.iter().collect();
    assert_eq!(asked.len(), different.len(), "also the calls in flight were kept");
    let spent = &results["spending"];
    assert!(spent.to_string().contains("from_journal"), "{spent}");
    assert!(calls(&server).await > before);
}
