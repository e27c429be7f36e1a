//! A run that goes on is steered from another process, and its statistics are those of a run that was planned so.

use crate::{
    endpoint,
    workspace::{Outcome, Workspace},
};
use serde_json::{Value, json};
use std::{
    process::{Child, Stdio},
    time::Duration,
};
use wiremock::MockServer;

/// Trials that differ in what they retrieve, so that each has answers of its own.
fn space(top_k: &[u32]) -> String {
    let retrievers: Vec<String> = top_k.iter().map(|k| format!("{{ bm25 = {{ top_k = {k} }} }}")).collect();
    format!(
        "chunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]\nretriever = [{}]\ngenerator = [{{ compact = {{ model = \"gpt\", max_tokens = 16 }} }}]",
        retrievers.join(", ")
    )
}

/// An experiment of more questions than are scored together.
fn workspace(server: &MockServer, top_k: &[u32], evaluate: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.multiply_questions(20);
    experiment(&workspace, server, top_k, evaluate);
    workspace
}

fn experiment(workspace: &Workspace, server: &MockServer, top_k: &[u32], evaluate: &str) {
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 2, price = {{ input = 40.0, output = 300.0 }} }}\n",
        server.uri()
    );
    let dataset = "[dataset]\npath = \"golden.jsonl\"\n";
    let evaluate =
        format!("[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\nobjective = [\"token_f1\"]\n{evaluate}\n");
    workspace.experiment(&space(top_k), &format!("{dataset}{evaluate}{model}"));
}

fn start(workspace: &Workspace) -> Child {
    workspace.command(&["run", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn wait_for_calls(server: &MockServer, n: usize) {
    while endpoint::asked(server).await.len() < n {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Posts an act, as soon as the run has written how it is doing.
async fn ctl(workspace: &Workspace, arguments: &[&str]) -> Outcome {
    let command = [&["ctl"], arguments, &["--json"]].concat();
    let mut attempts = 0;
    loop {
        let outcome = workspace.run(&command);
        if !outcome.err.contains("goes on in this store") {
            return outcome;
        }
        attempts += 1;
        assert!(attempts < 100, "no run goes on");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A trial's numbers, without its id.
fn numbers(results: &Value, top_k: u32) -> Value {
    let trials = results["trials"].as_array().unwrap();
    let trial = trials.iter().find(|trial| trial["trial"]["retriever"]["bm25"]["top_k"] == top_k).unwrap();
    json!({
        "metrics": trial["metrics"], "objective": trial["objective"], "group": trial["group"], "tied": trial["tied"],
        "p_value": trial["p_value"], "effect_size": trial["effect_size"], "front_share": trial["front_share"],
    })
}

#[tokio::test]
async fn a_trial_that_a_person_stops_keeps_its_scores_and_the_others_are_as_if_it_had_not_been_planned() {
    let server = endpoint::start(Duration::from_millis(15)).await;
    let steered = workspace(&server, &[1, 2, 3], "");
    let run = start(&steered);
    wait_for_calls(&server, 20).await;
    ctl(&steered, &["pause"]).await.succeeds();
    let status = ctl(&steered, &[]).await.succeeds().json();
    assert_eq!(status["state"], "paused");
    assert_eq!(status["trials"].as_array().unwrap().len(), 3);
    // Two calls were in flight.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let asked = endpoint::asked(&server).await.len();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(endpoint::asked(&server).await.len(), asked, "nothing is asked during a pause");
    assert!(asked < 200, "{asked}");
    let again = ctl(&steered, &["pause"]).await.ends_with(1).json();
    assert_eq!((&again["refused"], &again["outcome"]), (&json!(true), &json!("it was paused already")));
    ctl(&steered, &["stop", "t09"]).await.ends_with(1);
    let stopped = ctl(&steered, &["stop", "t02"]).await.succeeds().json();
    assert!(stopped["outcome"].as_str().unwrap().starts_with("t02 is asked nothing more"), "{stopped}");
    ctl(&steered, &["continue"]).await.succeeds();
    let results = Outcome::of(run.wait_with_output().unwrap()).succeeds().json();

    let acts: Vec<&str> =
        results["acts"].as_array().unwrap().iter().map(|act| act["act"]["act"].as_str().unwrap()).collect();
    assert_eq!(acts, ["pause", "pause", "stop_trial", "stop_trial", "continue"]);
    let listed: Vec<&str> =
        results["trials"].as_array().unwrap().iter().map(|trial| trial["trial"]["id"].as_str().unwrap()).collect();
    assert_eq!(
        listed.last(),
        if listed.len() == 3 { Some(&"t02") } else { Some(&listed[1]) },
        "it comes after the others"
    );
    for trial in results["trials"].as_array().unwrap().iter().filter(|trial| trial["trial"]["id"] == "t02") {
        assert_eq!(trial["stopped"]["kind"], "by_person");
        assert_eq!((&trial["group"], &trial["p_value"], &trial["tied"]), (&Value::Null, &Value::Null, &json!(false)));
    }
    let board = steered.run(&["leaderboard"]).succeeds().out;
    assert!(board.contains("stop t02, by "), "{board}");
    assert!(!board.contains("t02 is worse") && !board.contains("3 trials are worse"), "{board}");
    let events = steered.events();
    assert_eq!(events.iter().filter(|event| event["kind"] == "steered").count(), 5);

    let planned = workspace(&server, &[1, 3], "");
    let expected = planned.run(&["run", "--json"]).succeeds().json();
    for top_k in [1, 3] {
        assert_eq!(numbers(&results, top_k), numbers(&expected, top_k), "the trial with top_k = {top_k}");
    }
    let winner = |results: &Value| {
        let first = results["winner"]["trial"].as_str().or(results["winner"]["leads"].as_str()).unwrap().to_owned();
        let trials = results["trials"].as_array().unwrap();
        let trial = trials.iter().find(|trial| trial["trial"]["id"] == first.as_str()).unwrap();
        (results["winner"].as_object().unwrap().keys().next().unwrap().clone(), trial["trial"]["retriever"].clone())
    };
    assert_eq!(winner(&results), winner(&expected));

    // Nobody goes on any more, and another start is whole.
    steered.run(&["ctl", "pause"]).fails_with(&["no run of `animals` goes on in this store"]);
    let whole = steered.run(&["run", "--json"]).succeeds().json();
    assert!(
        whole["trials"].as_array().unwrap().iter().all(|trial| trial["stopped"].is_null()),
        "acts are of one start"
    );
    assert_eq!(whole["acts"], Value::Null);
}

#[tokio::test]
async fn a_budget_that_is_raised_in_time_ends_nothing_and_a_limit_holds_from_then_on() {
    let server = endpoint::start(Duration::from_millis(60)).await;
    // Enough for about half of the calls: each costs 50 × $40 + 12 × $300 per million.
    let workspace = workspace(&server, &[1, 2], "budget = { usd = 0.6 }");
    let run = start(&workspace);
    wait_for_calls(&server, 10).await;
    let raised = ctl(&workspace, &["budget", "--usd", "20"]).await.succeeds().json();
    assert!(raised["outcome"].as_str().unwrap().starts_with("the caps are $20.00; "), "{raised}");
    ctl(&workspace, &["limit", "chat other", "3"]).await.ends_with(1);
    let status = ctl(&workspace, &[]).await.succeeds().json();
    assert_eq!(status["spending"]["caps"]["usd"], 20.0);
    let model = status["models"][0]["name"].as_str().unwrap().to_owned();
    ctl(&workspace, &["limit", &model, "1"]).await.succeeds();
    ctl(&workspace, &["budget", "--usd=-1"]).await.ends_with(2);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let status = ctl(&workspace, &[]).await;
    if status.code == Some(0) {
        assert!(status.json()["models"][0]["target"].as_u64().unwrap() <= 1, "{}", status.out);
    }
    let results = Outcome::of(run.wait_with_output().unwrap()).succeeds().json();
    assert_eq!((&results["partial"], &results["budget"]["caps"]["usd"]), (&Value::Null, &json!(20.0)));
    assert!(results["budget"]["spent"]["usd"].as_f64().unwrap() > 0.6, "{}", results["budget"]);
}

#[tokio::test]
async fn a_trial_that_a_person_adds_gives_the_numbers_of_a_run_in_which_it_was_planned() {
    let server = endpoint::start(Duration::from_millis(15)).await;
    let steered = workspace(&server, &[1, 2], "budget = { usd = 50.0 }");
    let run = start(&steered);
    wait_for_calls(&server, 20).await;
    // Nothing is asked while the acts are tried.
    ctl(&steered, &["pause"]).await.succeeds();
    let first = ctl(&steered, &[]).await.succeeds().json()["run"].as_str().unwrap().to_owned();
    for (arguments, reason) in [
        (["add", "t09", "--set", "retriever.bm25.top_k=3"], "there is no trial `t09`"),
        (["add", "t01", "--set", "retriever.bm25.top_k=2"], "there is such a trial already"),
        (["add", "t01", "--set", "retriever.bm25.topk=2"], "topk"),
        (["add", "t01", "--set", "generator.compact.model=other"], "other"),
    ] {
        let refused = ctl(&steered, &arguments).await.ends_with(1).json();
        assert!(refused["outcome"].as_str().unwrap().contains(reason), "{arguments:?}: {refused}");
    }
    ctl(&steered, &["ask", "500"]).await.ends_with(1);
    ctl(&steered, &["stop", "t02"]).await.succeeds();
    let added = ctl(&steered, &["add", "t01", "--set", "retriever.bm25.top_k=3"]).await.succeeds().json();
    let outcome = added["outcome"].as_str().unwrap();
    assert!(outcome.starts_with("t03 is added"), "{outcome}");
    ctl(&steered, &["continue"]).await.succeeds();
    let next = outcome.rsplit(' ').next().unwrap().to_owned();
    let results = Outcome::of(run.wait_with_output().unwrap()).succeeds().json();
    assert_eq!(results["run"], next.as_str());
    assert_ne!(first, next);
    let acts: Vec<(u64, &str)> = results["acts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|act| (act["number"].as_u64().unwrap(), act["act"]["act"].as_str().unwrap()))
        .collect();
    assert_eq!(acts[..1], [(1, "pause")], "what was done before belongs to the run that goes on: {acts:?}");
    assert!(acts.contains(&(8, "add_trial")), "{acts:?}");
    let paid: u64 = results["budget"]["spent"]["calls"].as_u64().unwrap();
    assert_eq!(paid, endpoint::asked(&server).await.len() as u64, "one budget for both, and no call twice");

    // The same plan, written by somebody who knew.
    let planned = workspace(&server, &[1, 2, 3], "budget = { usd = 50.0 }");
    let run = start(&planned);
    ctl(&planned, &["pause"]).await.succeeds();
    ctl(&planned, &["stop", "t02"]).await.succeeds();
    ctl(&planned, &["continue"]).await.succeeds();
    let expected = Outcome::of(run.wait_with_output().unwrap()).succeeds().json();
    assert_eq!(expected["run"], next.as_str(), "it is the same run");
    for top_k in [1, 3] {
        assert_eq!(numbers(&results, top_k), numbers(&expected, top_k), "the trial with top_k = {top_k}");
    }
    let runs = steered.run(&["runs", "--json"]).succeeds().json();
    let ended: Vec<&str> = runs.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(ended, [next.as_str()], "the run that it was has no results of its own");
    // What was added is served like any other trial.
    steered.run(&["promote", "t03", "--output", "bundle"]).succeeds();
}

#[tokio::test]
async fn more_questions_are_asked_of_the_run_that_goes_on() {
    // Slow enough that the run goes on when the first act comes, also on a busy machine.
    let server = endpoint::start(Duration::from_millis(200)).await;
    let workspace = workspace(&server, &[1, 2], "answered = 10");
    let run = start(&workspace);
    wait_for_calls(&server, 3).await;
    ctl(&workspace, &["pause"]).await.succeeds();
    ctl(&workspace, &["ask", "10"]).await.ends_with(1);
    ctl(&workspace, &["ask", "14"]).await.succeeds();
    ctl(&workspace, &["ask", "20"]).await.succeeds();
    ctl(&workspace, &["continue"]).await.succeeds();
    let results = Outcome::of(run.wait_with_output().unwrap()).succeeds().json();
    let asked: Vec<u64> = results["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["metrics"]["token_f1"]["n_scored"].as_u64().unwrap_or_default())
        .collect();
    assert!(asked.iter().all(|n| *n == 20), "{asked:?}: {}", results["trials"][0]["metrics"]);
    assert_eq!(endpoint::asked(&server).await.len(), 40);
}

#[tokio::test]
async fn a_search_asks_a_trial_nothing_more_that_a_person_has_stopped() {
    let server = endpoint::start(Duration::from_millis(10)).await;
    let workspace = workspace(&server, &[1, 2, 3, 4], "");
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", format!("{text}\n[search]\nsuccessive_halving = {{ least = 8 }}\n"));
    let run = start(&workspace);
    wait_for_calls(&server, 5).await;
    ctl(&workspace, &["stop", "t01"]).await.succeeds();
    let results = Outcome::of(run.wait_with_output().unwrap()).succeeds().json();
    for trial in results["trials"].as_array().unwrap().iter().filter(|trial| trial["trial"]["id"] == "t01") {
        assert_eq!(trial["stopped"]["kind"], "by_person", "{}", trial["stopped"]);
    }
    assert_ne!(results["winner"]["trial"].as_str().or(results["winner"]["leads"].as_str()), Some("t01"));
    assert_eq!(results["trials"].as_array().unwrap().iter().filter(|trial| trial["stopped"].is_null()).count(), 1);
}
