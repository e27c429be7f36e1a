//! `journal stats|verify|gc`, and what becomes of a journal that is damaged.

use crate::{endpoint, workspace::Workspace};
use serde_json::Value;
use std::{path::PathBuf, time::Duration};
use wiremock::MockServer;

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\", max_tokens = 16 } }]";

fn experiment(workspace: &Workspace, server: &MockServer) {
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", price = {{ input = 1000, output = 1000 }} }}\n",
        server.uri()
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    workspace.experiment(SPACE, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));
}

/// The journal's file, with nothing left in SQLite's own log.
fn file(workspace: &Workspace) -> PathBuf {
    let path = workspace.file("store/journal.db");
    drop(store::Journal::open(&path).unwrap());
    path
}

fn answers(results: &Value) -> Vec<String> {
    let questions = results["trials"][0]["questions"].as_array().unwrap().iter();
    questions.map(|question| question["answer"]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_was_paid_is_counted_and_what_was_saved_too() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    experiment(&workspace, &server);
    workspace.run(&["journal", "stats"]).refused_with(&["there is no journal", "nothing was run yet"]);
    workspace.run(&["run"]).succeeds();
    let stats = workspace.run(&["journal", "stats", "--json"]).succeeds().json();
    // 50 tokens read and 12 written, for four questions.
    assert_eq!((&stats["entries"], &stats["prompt_tokens"]), (&4.into(), &200.into()), "{stats}");
    assert!((stats["cost_usd"].as_f64().unwrap() - 0.248).abs() < 1e-9 && stats["saved_usd"] == 0.0, "{stats}");
    assert_eq!((&stats["models"][0]["model"], &stats["models"][0]["kind"]), (&"m".into(), &"chat".into()));
    workspace.forget_artifacts();
    workspace.run(&["run"]).succeeds();
    let stats = workspace.run(&["journal", "stats"]).succeeds();
    assert!(stats.out.contains("reused without paying: 4 answers, $0.2480 saved"), "{}", stats.out);
    assert_eq!(endpoint::asked(&server).await.len(), 4);
}

#[tokio::test]
async fn a_damaged_answer_is_named_and_asked_again_by_the_next_run() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    experiment(&workspace, &server);
    let first = workspace.run(&["run", "--json"]).succeeds().json();
    workspace.run(&["journal", "verify"]).succeeds();
    let path = file(&workspace);
    let mut bytes = std::fs::read(&path).unwrap();
    let mark = b"\"finish\":\"stop\"";
    let at = bytes.windows(mark.len()).position(|window| window == mark).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let found = workspace.run(&["journal", "verify", "--json"]).ends_with(1).json();
    assert_eq!(found["damaged"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["damaged"][0]["key"].as_str().unwrap().len(), 64);
    let told = workspace.run(&["journal", "verify"]).ends_with(1);
    assert!(told.out.contains("damaged: ") && told.out.contains("the next run asks for them again"), "{}", told.out);
    let dry = workspace.run(&["journal", "gc", "--dry-run"]).succeeds();
    assert!(dry.out.contains("would remove 0 answers and 1 damaged") && dry.out.contains("--yes"), "{}", dry.out);

    workspace.forget_artifacts();
    let second = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(second["damaged_entries"], 1);
    assert_eq!(answers(&second), answers(&first));
    assert_eq!(endpoint::asked(&server).await.len(), 5, "only the damaged answer was asked again");
    workspace.run(&["journal", "verify"]).succeeds();
    assert!(workspace.events().iter().any(|event| event["kind"] == "journal_damaged"));
}

#[tokio::test]
async fn a_journal_that_was_cut_off_stops_the_run_until_it_is_mended() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    workspace.multiply_questions(20);
    experiment(&workspace, &server);
    let first = workspace.run(&["run", "--json"]).succeeds().json();
    let path = file(&workspace);
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length * 6 / 10).unwrap();

    let stopped = workspace.run(&["run"]).ends_with(1);
    assert!(stopped.err.contains("is damaged") && stopped.err.contains("journal gc --yes"), "{}", stopped.err);
    let found = workspace.run(&["journal", "verify"]).ends_with(1);
    assert!(found.out.contains("damaged: the file"), "{}", found.out);
    let dry = workspace.run(&["journal", "gc", "--dry-run"]).ends_with(1);
    assert!(dry.err.contains("with --yes a new journal is built"), "{}", dry.err);
    let salvaged = workspace.run(&["journal", "gc", "--yes", "--json"]).succeeds().json();
    let kept = salvaged["salvaged"]["kept"].as_u64().unwrap();
    assert!((1..80).contains(&kept), "{salvaged}");

    workspace.forget_artifacts();
    let second = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(answers(&second), answers(&first));
    assert_eq!(endpoint::asked(&server).await.len() as u64, 80 + 80 - kept, "what was saved is not paid again");
    workspace.run(&["journal", "verify"]).succeeds();
}

#[tokio::test]
async fn answers_of_an_age_or_a_model_are_taken_out_only_when_told_so() {
    let server = endpoint::start(Duration::ZERO).await;
    let workspace = Workspace::new();
    experiment(&workspace, &server);
    workspace.run(&["run"]).succeeds();
    let entries = || workspace.run(&["journal", "stats", "--json"]).succeeds().json()["entries"].as_u64();
    let nothing = workspace.run(&["journal", "gc", "--older-than", "1d", "--yes"]).succeeds();
    assert!(nothing.out.contains("there is nothing to remove"), "{}", nothing.out);
    workspace.run(&["journal", "gc", "--model", "other", "--yes"]).succeeds();
    let dry = workspace.run(&["journal", "gc", "--model", "m", "--dry-run"]).succeeds();
    assert!(dry.out.contains("would remove 4 answers") && dry.out.contains("costs $0.2480"), "{}", dry.out);
    assert_eq!(entries(), Some(4));
    let swept = workspace.run(&["journal", "gc", "--model", "m", "--older-than", "0s", "--yes", "--json"]);
    assert_eq!(swept.succeeds().json()["selected"], 4);
    assert_eq!(entries(), Some(0));
    workspace.run(&["journal", "gc", "--older-than", "soon"]).refused_with(&["--older-than", "such as 90d"]);
    for verb in [["journal", "stats"], ["journal", "verify"], ["journal", "gc"]] {
        let help = workspace.run(&[verb[0], verb[1], "--help"]).succeeds();
        assert!(help.out.contains("Examples:"), "{}", help.out);
    }
}
