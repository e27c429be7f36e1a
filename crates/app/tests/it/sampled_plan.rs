//! `reverie plan --sample`: the cost of a first run, before everything was read.

use crate::{corpus, endpoint, workspace::Workspace};
use serde_json::{Value, json};
use std::time::Duration;
use wiremock::MockServer;

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\", max_tokens = 16 } }]";

fn experiment(workspace: &Workspace, server: &MockServer, budget: &str) {
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", price = {{ input = 40, output = 300 }} }}\n",
        server.uri()
    );
    let evaluate = format!("[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n{budget}\n");
    workspace.experiment(SPACE, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));
}

/// Adds files of many sizes: text, Markdown, and some without a text.
fn add_files(workspace: &Workspace, files: usize) {
    for i in 0..files {
        let text = corpus::OWLS.repeat(1 + i * 7 % 30);
        let text = if i % 10 == 3 { " ".repeat(text.len()) } else { text };
        workspace.write(&format!("documents/{i:03}.{}", if i.is_multiple_of(5) { "md" } else { "txt" }), text);
    }
}

#[tokio::test]
async fn a_corpus_that_is_no_larger_than_the_sample_costs_what_a_plan_says() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    experiment(&workspace, &server, "");
    let sampled = workspace.run(&["plan", "--sample", "--json"]).succeeds().json();
    assert!(!workspace.file("store").exists(), "a store that was not there is not made");
    let planned = workspace.run(&["plan", "--json"]).succeeds().json();
    let exact = |value: &Value| json!({ "estimate": value, "low": value, "high": value });
    for key in ["calls", "tokens", "cost_usd"] {
        assert_eq!(sampled["cost"][key], exact(&planned["cost"][key]), "{key}: {sampled}");
    }
    for (sampled, planned) in
        sampled["cost"]["models"].as_array().unwrap().iter().zip(planned["cost"]["models"].as_array().unwrap())
    {
        assert_eq!(sampled["model"], planned["model"]);
        for key in ["calls", "prompt_tokens", "completion_tokens"] {
            assert_eq!(sampled[key], exact(&planned[key]), "{key}: {sampled}");
        }
    }
    assert_eq!((&sampled["is_whole"], &sampled["documents"]), (&json!(true), &exact(&json!(3))));
    let told = workspace.run(&["plan", "--sample"]).succeeds().out;
    assert!(told.contains("all files were read") && told.contains("no sampling error"), "{told}");
    assert!(endpoint::asked(&server).await.is_empty(), "a plan spends nothing");
}

#[tokio::test]
async fn a_sample_is_told_in_eighty_columns_and_nothing_is_stored() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    experiment(&workspace, &server, "");
    add_files(&workspace, 200);
    let told = workspace.run(&["plan", "--sample", "40"]).succeeds().out;
    assert!(!workspace.file("store").exists());
    for part in [
        "4 trials, 203 files",
        "as if nothing was stored",
        "estimated from a sample of 40 of 203 files",
        "gives no document: ",
        "no text",
        "low to high",
        " to ",
        "chunks of sentence_window",
        "tokens read",
        "`reverie plan` without --sample",
    ] {
        assert!(told.contains(part), "`{part}` is not in:\n{told}");
    }
    let tables = told.lines().filter(|line| line.starts_with([' ', '─']));
    let widest = tables.map(|line| line.trim_end().chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{widest:?}\n{told}");

    // What is stored makes no difference.
    let before = workspace.run(&["plan", "--sample", "40", "--json"]).succeeds().json();
    workspace.run(&["run"]).succeeds();
    let after = workspace.run(&["plan", "--sample", "40", "--json"]).succeeds().json();
    assert_eq!(before["cost"], after["cost"]);
    let whole = workspace.run(&["plan", "--sample", "1000", "--json"]).succeeds().json();
    let number = |value: &Value| value.as_f64().unwrap();
    for key in ["documents", "text_bytes", "tokens"] {
        let (low, high) = (number(&before[key]["low"]), number(&before[key]["high"]));
        let truth = number(&whole[key]["estimate"]);
        assert!(low <= truth && truth <= high && low < high, "{key}: {truth} is not in {}", before[key]);
    }
}

#[tokio::test]
async fn a_budget_is_compared_with_both_ends_of_the_interval() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    add_files(&workspace, 200);
    experiment(&workspace, &server, "");
    let sampled = ["plan", "--sample", "40", "--json"];
    let tokens = workspace.run(&sampled).succeeds().json()["cost"]["tokens"].clone();
    let [low, estimate, high] = ["low", "estimate", "high"].map(|end| tokens[end].as_u64().unwrap());
    for (limit, exceeds, may_exceed, words) in [
        (low / 2, json!(["tokens"]), json!([]), ": a run would end there, with partial results"),
        (estimate, json!([]), json!(["tokens"]), ": a run may end there, with partial results"),
        (high * 2, json!([]), json!([]), " tokens\n"),
    ] {
        experiment(&workspace, &server, &format!("budget = {{ tokens = {limit} }}"));
        let cost = workspace.run(&sampled).succeeds().json()["cost"].clone();
        assert_eq!((&cost["exceeds"], &cost["may_exceed"]), (&exceeds, &may_exceed), "{cost}");
        let told = workspace.run(&["plan", "--sample", "40"]).succeeds().out;
        let line = told.lines().find(|line| line.starts_with("the budget is ")).unwrap();
        assert!(format!("{line}\n").contains(words), "{line}");
    }
}

#[test]
fn mistakes_are_refused_as_in_a_plan() {
    let workspace = Workspace::new();
    workspace.experiment("chunker = \"sentence\"\nretriever = \"bm25\"", "[dataset]\npath = \"golden.jsonl\"");
    workspace.run(&["plan", "--sample", "9"]).refused_with(&["--sample", "at least 10"]);
    workspace.write("golden.jsonl", "{\"id\": \"a\", \"question\": \"Why\"\n");
    let [planned, sampled] = [&["plan"][..], &["plan", "--sample"]].map(|verb| workspace.run(verb).ends_with(2));
    assert_eq!(sampled.err, planned.err);
    workspace.experiment("chunker = \"sentense\"\nretriever = \"bm25\"", "");
    workspace.run(&["plan", "--sample"]).refused_with(&["space.chunker", "sentense"]);
    let model = "[models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:9/v1\" }";
    let generate = format!("[dataset]\npath = \"none.jsonl\"\ngenerate = {{ model = \"gpt\" }}\n{model}");
    workspace.experiment("chunker = \"sentence\"\nretriever = \"bm25\"", &generate);
    workspace.run(&["plan", "--sample"]).refused_with(&["none.jsonl", "reverie golden generate --dry-run"]);
}
