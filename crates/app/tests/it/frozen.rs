//! What a run found belongs to that run: whatever happens to the experiment
//! file, the documents or the questions, it answers as it did, and what changed
//! is told.

use crate::workspace::{Outcome, Workspace};
use serde_json::Value;

const DATASET: &str = "[dataset]\npath = \"golden.jsonl\"\n";
const SENTENCE: &str = "{ sentence = { chunk_size = 32, chunk_overlap = 0 } }";
const WINDOW: &str = "{ sentence_window = { window_size = 1 } }";
const QUESTION: &str = "What do barn owls swallow?";

fn space(chunkers: &[&str], retrievers: &[&str]) -> String {
    format!("chunker = [{}]\nembedder = [\"tiny\"]\nretriever = [{}]", chunkers.join(", "), retrievers.join(", "))
}

const DENSE: &str = "{ dense = { top_k = 2 } }";
const HYBRID: &str = "{ hybrid = { top_k = 2 } }";

/// A workspace with a finished run of four trials.
fn finished() -> (Workspace, Value) {
    let workspace = Workspace::new();
    workspace.experiment(&space(&[SENTENCE, WINDOW], &[DENSE, HYBRID]), DATASET);
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    (workspace, results)
}

fn query(workspace: &Workspace, trial: &str) -> (Value, Outcome) {
    let outcome = workspace.run(&["query", QUESTION, "--trial", trial, "--json"]).succeeds();
    (outcome.json(), outcome)
}

/// What an answer is, but for when it was asked.
fn essence(answered: &Value) -> (Value, Value, Value) {
    (answered["run"].clone(), answered["trial"].clone(), answered["passages"].clone())
}

#[test]
fn a_trial_answers_as_in_its_run_though_its_components_were_removed_from_the_file() {
    let (workspace, results) = finished();
    let ids: Vec<&str> =
        results["trials"].as_array().unwrap().iter().map(|trial| trial["trial"]["id"].as_str().unwrap()).collect();
    let before: Vec<Value> = ids.iter().map(|id| query(&workspace, id).0).collect();
    let winner = workspace.run(&["query", QUESTION, "--json"]).succeeds().json();
    assert_eq!(winner["trial"]["id"], results["trials"][0]["trial"]["id"]);
    assert_eq!(winner["changed_since"], serde_json::json!([]));

    // The first chunker gone, the retrievers the other way round: every id now
    // stands for something else in the file.
    workspace.experiment(&space(&[WINDOW], &[HYBRID, DENSE]), DATASET);
    for (id, before) in ids.iter().zip(&before) {
        let (after, outcome) = query(&workspace, id);
        assert_eq!(essence(&after), essence(before), "{id}");
        let told = "since that run: chunker `sentence` was removed from the experiment file";
        assert!(outcome.err.contains(told), "{}", outcome.err);
        assert!(outcome.err.contains("the values of `retriever` are in another order"), "{}", outcome.err);
        assert_eq!(after["changed_since"].as_array().unwrap().len(), 2, "{after}");
    }
    let run = results["run"].as_str().unwrap();
    let shown = workspace.run(&["query", QUESTION]).succeeds();
    assert!(shown.out.contains(&format!("of run {run} of 20")), "{}", shown.out);
    for arguments in [&["show", ids[0], "owl"][..], &["show", ids[3]], &["compare", ids[0], ids[1]]] {
        let shown = workspace.run(arguments).succeeds();
        assert!(shown.out.contains(run), "{arguments:?}: {}", shown.out);
        assert!(shown.err.contains("chunker `sentence` was removed"), "{arguments:?}: {}", shown.err);
    }
    let board = workspace.run(&["leaderboard", "--json"]).succeeds();
    assert_eq!(board.json()["rows"][0]["id"], results["trials"][0]["trial"]["id"]);
    assert_eq!(board.json()["rows"].as_array().unwrap().len(), results["trials"].as_array().unwrap().len());
    assert!(board.err.contains("chunker `sentence` was removed"), "{}", board.err);
}

#[test]
fn documents_that_changed_are_told_and_the_run_answers_as_it_was() {
    let (workspace, results) = finished();
    let id = results["trials"][0]["trial"]["id"].as_str().unwrap();
    let before = query(&workspace, id).0;
    workspace.write("documents/new.md", "# Barn owls\n\nBarn owls swallow thunder.\n");
    let (after, outcome) = query(&workspace, id);
    assert_eq!(essence(&after), essence(&before));
    let told = "since that run: 1 document was added and is not searched (run again): new.md";
    assert!(outcome.err.contains(told), "{}", outcome.err);

    // Of the same length, so that only its content tells.
    let owls = std::fs::read_to_string(workspace.file("documents/owls.txt")).unwrap();
    workspace.write("documents/owls.txt", owls.replace("mice", "rats"));
    std::fs::remove_file(workspace.file("documents/otters.md")).unwrap();
    workspace.write("documents/more.md", "More.\n");
    let (after, outcome) = query(&workspace, id);
    assert_eq!(essence(&after), essence(&before));
    for line in [
        "2 documents were added and are not searched (run again): more.md, new.md",
        "1 document was changed; the old text is still searched (run again): owls.txt",
        "1 document was removed and is still searched (run again): otters.md",
    ] {
        assert!(outcome.err.contains(line), "{line}: {}", outcome.err);
    }

    // Nothing there at all: the run needs none of it.
    std::fs::remove_dir_all(workspace.file("documents")).unwrap();
    std::fs::remove_file(workspace.file("golden.jsonl")).unwrap();
    let (after, outcome) = query(&workspace, id);
    assert_eq!(essence(&after), essence(&before));
    assert!(outcome.err.contains("the documents cannot be looked at now"), "{}", outcome.err);
    assert!(outcome.err.contains("the dataset cannot be read now"), "{}", outcome.err);
    workspace.run(&["show", id, "owl"]).succeeds();
}

#[test]
fn questions_that_changed_are_counted() {
    let (workspace, results) = finished();
    let id = results["trials"][0]["trial"]["id"].as_str().unwrap();
    let golden = std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    let kept: Vec<&str> = golden.lines().skip(1).collect();
    workspace.write("golden.jsonl", kept.join("\n").replace("What do beavers build", "Whatever do beavers build"));
    let shown = workspace.run(&["show", id, "owl"]).succeeds();
    assert!(shown.out.contains("By how many degrees does an owl"), "{}", shown.out);
    assert!(shown.err.contains("the dataset was changed: questions 1 removed, 1 changed"), "{}", shown.err);
}

#[test]
fn a_model_that_changed_does_not_search_the_index_of_another() {
    let (workspace, results) = finished();
    let id = results["trials"][0]["trial"]["id"].as_str().unwrap();
    models::testing::write_tiny_model(&workspace.file("tiny"), &["owl", "other"]).unwrap();
    let told = workspace.run(&["query", QUESTION, "--trial", id]).ends_with(1);
    assert!(told.err.contains("models.tiny is not what it was in run"), "{}", told.err);
    assert!(told.err.contains("`reverie run` makes the index anew"), "{}", told.err);
}

#[tokio::test]
async fn a_run_of_before_and_what_is_gone_are_told_with_what_to_do() {
    let (workspace, results) = finished();
    let (id, run) = (results["trials"][0]["trial"]["id"].as_str().unwrap(), results["run"].as_str().unwrap());
    let frozen = workspace.file(&format!("store/runs/{run}/frozen.json"));
    let kept = std::fs::read(&frozen).unwrap();
    std::fs::remove_file(&frozen).unwrap();
    let told = workspace.run(&["query", QUESTION]).ends_with(1);
    assert!(told.err.contains("kept no record of its pipelines: `reverie run` makes it anew"), "{}", told.err);
    let shown = workspace.run(&["show", id, "owl"]).succeeds();
    assert!(shown.err.contains("what changed since is not known"), "{}", shown.err);
    workspace.run(&["run"]).succeeds();
    assert_eq!(std::fs::read(&frozen).unwrap().len(), kept.len());
    workspace.run(&["query", QUESTION]).succeeds();
    let text = String::from_utf8(kept).unwrap();
    let newer = text.replacen("\"formats\":{", "\"formats\":{\"graph\":9,", 1);
    let other = newer.replace("\"inputs\":{", "\"inputs\":{\"graph\":1,");
    assert!(newer != text && other != newer);
    // As another version would write it, with a checksum: one with an index of a kind that is not known here.
    let store =
        store::ArtifactStore::open(&workspace.file("store").display().to_string(), &[], lab::layout::LAYOUT).unwrap();
    store.replace(&format!("runs/{run}/frozen.json"), other.clone()).await.unwrap();
    let told = workspace.run(&["query", QUESTION]).ends_with(1);
    assert!(told.err.contains("another version of reverie wrote it in another format"), "{}", told.err);
    workspace.run(&["leaderboard"]).succeeds();
    store.replace(&format!("runs/{run}/frozen.json"), text.clone()).await.unwrap();
    std::fs::write(&frozen, other.replacen("\"graph\":9", "\"graph\":98", 1)).unwrap();
    let told = workspace.run(&["query", QUESTION]).ends_with(1);
    assert!(told.err.contains("frozen.json is damaged") && told.err.contains("`reverie run`"), "{}", told.err);
    std::fs::write(&frozen, text).unwrap();
    workspace.forget_artifacts();
    let told = workspace.run(&["query", QUESTION]).ends_with(1);
    assert!(told.err.contains("has no index in the store") && told.err.contains("`reverie run`"), "{}", told.err);
    let told = workspace.run(&["query", QUESTION, "--trial", "t77"]).ends_with(1);
    assert!(told.err.contains("there is no trial `t77`"), "{}", told.err);
}

#[test]
fn who_answers_without_a_winner_is_said() {
    let workspace = Workspace::new();
    workspace.experiment(&space(&[SENTENCE, WINDOW], &[DENSE]), "");
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    assert!(results["winner"]["refused"].is_string(), "{}", results["winner"]);
    let asked = workspace.run(&["query", QUESTION, "--json"]).succeeds();
    assert_eq!(asked.json()["trial"]["id"], results["trials"][0]["trial"]["id"]);
    assert!(asked.err.contains("no winner was named; t01 answers, the first of 2"), "{}", asked.err);
}

#[test]
fn a_conversation_is_read_line_by_line_and_each_answer_names_its_sources() {
    let (workspace, _) = finished();
    let mut command = workspace.command(&["query", "--chat"]);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), format!("{QUESTION}\n\nAnd what else?").as_bytes())
        .unwrap();
    let outcome = Outcome::of(child.wait_with_output().unwrap()).succeeds();
    assert_eq!(outcome.out.matches("sources (trial ").count(), 2, "{}", outcome.out);
    assert!(outcome.err.contains("has no `query` component"), "{}", outcome.err);
    let alone = workspace.run(&["query", QUESTION]).succeeds().out;
    let told = format!("> {QUESTION}\n{}", alone.trim_end());
    assert!(outcome.out.starts_with(&told), "{told} in {}", outcome.out);
    assert_eq!(workspace.run(&["query"]).code, Some(2), "a question or --chat is needed");
}
