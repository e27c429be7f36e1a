//! Damaged artifacts: named, set aside and made again.

use crate::workspace::Workspace;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]";

fn experiment() -> Workspace {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]");
    workspace
}

/// What the leaderboard says, without times.
pub fn leaderboard(results: &Value) -> Vec<Value> {
    let one = |trial: &Value| serde_json::json!([trial["trial"]["id"], trial["objective"], trial["questions"]]);
    results["trials"].as_array().unwrap().iter().map(one).collect()
}

/// The artifacts of a store, sorted.
pub fn artifacts(store: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(store.join("artifacts")).unwrap() {
        files.extend(std::fs::read_dir(folder.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    files.sort();
    files
}

fn flip(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

fn empty(file: &Path) {
    std::fs::write(file, "").unwrap();
}

fn halve(file: &Path) {
    let bytes = std::fs::read(file).unwrap();
    std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn every_artifact_that_is_damaged_is_named_set_aside_and_made_again() {
    let workspace = experiment();
    let expected = workspace.run(&["run", "--json"]).succeeds().json();
    let files = artifacts(&workspace.file("store"));
    let bytes: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    for ending in ["parquet", "dense", "bm25"] {
        assert!(files.iter().any(|file| file.extension().is_some_and(|extension| extension == ending)), "{ending}");
    }
    workspace.run(&["store", "verify"]).succeeds();
    for damage in [flip, halve, empty] {
        files.iter().for_each(|file| damage(file));
        // All are named, and left where they are.
        let found = workspace.run(&["store", "verify", "--dry-run", "--json"]).ends_with(1).json();
        assert_eq!(found["damaged"].as_array().unwrap().len(), files.len());
        assert!(found["damaged"][0]["name"].as_str().unwrap().starts_with("artifacts/"));
        // What the run reads it makes again at once.
        let healed = workspace.run(&["run", "--json"]).succeeds().json();
        assert_eq!(leaderboard(&healed), leaderboard(&expected));
        assert!(workspace.events().iter().any(|event| event["kind"] == "artifacts_lost"));
        // What it had no need to read is found by `verify`, and made by the next run.
        let told = workspace.run(&["store", "verify"]);
        assert!(told.code == Some(0) || told.out.contains("damaged: artifacts/"), "{told:?}");
        let again = workspace.run(&["run", "--json"]).succeeds().json();
        assert_eq!(leaderboard(&again), leaderboard(&expected));
        let intact = workspace.run(&["store", "verify"]).succeeds();
        assert!(intact.out.contains("is intact") && intact.out.contains("set aside as damaged"), "{}", intact.out);
        for (file, bytes) in files.iter().zip(&bytes) {
            assert!(std::fs::read(file).is_ok_and(|now| now == *bytes), "{} was made again", file.display());
        }
    }
    let swept = workspace.run(&["store", "gc", "--older-than", "0s", "--yes", "--json"]).succeeds().json();
    assert!(
        swept["damaged"].as_array().unwrap().len() >= 3 * files.len(),
        "nothing that was damaged was deleted before"
    );
    assert!(!workspace.run(&["store", "verify"]).succeeds().out.contains("set aside"));
    assert_eq!(workspace.run(&["run", "--json"]).succeeds().json()["executed"], 0);
}

#[test]
fn a_question_never_gets_an_answer_from_a_damaged_index_and_the_next_run_makes_it() {
    let workspace = experiment();
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    for (ending, retriever) in [("dense", "dense"), ("bm25", "bm25")] {
        let trials = results["trials"].as_array().unwrap();
        let of = |trial: &&Value| trial["trial"]["labels"].to_string().contains(retriever);
        let trial = trials.iter().find(of).unwrap()["trial"]["id"].as_str().unwrap();
        let ask = || workspace.run(&["query", "What do barn owls swallow?", "--trial", trial, "--json"]);
        let right = ask().succeeds().json()["passages"].clone();
        for damage in [flip, halve] {
            let files = artifacts(&workspace.file("store"));
            files
                .iter()
                .filter(|file| file.extension().is_some_and(|found| found == ending))
                .for_each(|file| damage(file));
            let told = ask().ends_with(1);
            assert!(told.err.contains(&format!(".{ending} is damaged")) && told.err.contains("again"), "{}", told.err);
            workspace.run(&["run"]).succeeds();
            // Of two indexes the other may be the one that no run reads.
            workspace.run(&["store", "verify"]);
            workspace.run(&["run"]).succeeds();
            assert_eq!(ask().succeeds().json()["passages"], right);
        }
    }
}

#[test]
fn a_store_of_an_earlier_version_is_read_and_its_damage_found_too() {
    let workspace = experiment();
    let expected = workspace.run(&["run", "--json"]).succeeds().json();
    std::fs::remove_dir_all(workspace.file("store/checksums")).unwrap();
    let told = workspace.run(&["store", "verify"]).succeeds();
    assert!(told.out.contains("without a checksum"), "{}", told.out);
    assert_eq!(workspace.run(&["run", "--json"]).succeeds().json()["executed"], 0);
    let files = artifacts(&workspace.file("store"));
    files.iter().for_each(|file| halve(file));
    assert_eq!(
        workspace.run(&["store", "verify", "--json"]).ends_with(1).json()["damaged"].as_array().unwrap().len(),
        files.len()
    );
    let healed = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(leaderboard(&healed), leaderboard(&expected));
    assert_eq!(artifacts(&workspace.file("store")), files);
    // The vectors' own checksum.
    std::fs::remove_dir_all(workspace.file("store/checksums")).unwrap();
    let dense = files.iter().find(|file| file.extension().is_some_and(|found| found == "dense")).unwrap();
    flip(dense);
    let told = workspace.run(&["store", "verify"]).ends_with(1);
    assert!(told.out.contains(".dense: ") && told.out.contains("checksum"), "{}", told.out);
}

#[test]
fn the_rows_of_a_trial_that_are_damaged_or_gone_concern_that_trial_alone_and_the_next_run_makes_them_again() {
    let workspace = experiment();
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let folder = workspace.file(&format!("store/runs/{}/trials", results["run"].as_str().unwrap()));
    let files = || -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    };
    let (ids, before) = (results["trials"].as_array().unwrap(), files());
    assert_eq!(before.len(), ids.len(), "{before:?}");
    let shown = workspace.run(&["show", "t01", "--json"]).succeeds().json();
    let of_first = ids.iter().find(|trial| trial["trial"]["id"] == "t01").unwrap();
    assert_eq!(shown, of_first["questions"], "what `run --json` has");
    let first = before.iter().find(|file| file.file_name().unwrap().to_string_lossy().starts_with("t01-")).unwrap();
    flip(first);
    let told = workspace.run(&["show", "t01"]).ends_with(1);
    assert!(told.err.contains("t01-") && told.err.contains("run again"), "{}", told.err);
    assert!(workspace.run(&["store", "verify"]).ends_with(1).out.contains("trials/t01-"));
    workspace.run(&["leaderboard"]).succeeds();
    if let Some(other) = ids.iter().find_map(|trial| trial["trial"]["id"].as_str().filter(|id| *id != "t01")) {
        workspace.run(&["show", other]).succeeds();
    }
    workspace.run(&["run"]).succeeds();
    assert_eq!((workspace.run(&["show", "t01", "--json"]).succeeds().json(), files()), (shown, before.clone()));
    std::fs::remove_file(first).unwrap();
    // A file that nothing names, as a killed run left it two hours before.
    let unnamed = std::fs::File::create(folder.join("t01-0123456789ab.parquet")).unwrap();
    unnamed.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    let told = workspace.run(&["show", "t01"]).ends_with(1);
    assert!(told.err.contains("t01-") && told.err.contains("run again"), "{}", told.err);
    workspace.run(&["run"]).succeeds();
    assert_eq!(files(), before);
    workspace.run(&["store", "verify"]).succeeds();
}

#[test]
fn results_that_are_not_what_was_written_are_not_shown() {
    let workspace = experiment();
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let file = workspace.file(&format!("store/runs/{}/results.json", results["run"].as_str().unwrap()));
    let text = std::fs::read_to_string(&file).unwrap();
    // One digit of a score, and still JSON.
    std::fs::write(
        &file,
        text.replacen("\"objective\":1", "\"objective\":2", 1).replacen("\"version\":2", "\"version\": 2", 1),
    )
    .unwrap();
    let told = workspace.run(&["leaderboard"]).ends_with(1);
    assert!(told.err.contains("results.json is damaged") && told.err.contains("run"), "{}", told.err);
    // Of the same length: the leaderboard is in a file of its own, the questions are not.
    let other = text.replacen("\"time_ms\":1", "\"time_ms\":2", 1);
    assert_ne!(other, text);
    std::fs::write(&file, other).unwrap();
    workspace.run(&["leaderboard"]).succeeds();
    let told = workspace.run(&["show", "t01"]).ends_with(1);
    assert!(told.err.contains("results.json is damaged"), "{}", told.err);
    assert!(workspace.run(&["store", "verify"]).ends_with(1).out.contains("results.json"));
    workspace.run(&["run"]).succeeds();
    workspace.run(&["leaderboard"]).succeeds();
}
