//! Reranking by token vectors: these are made once, whatever reranks by them.

use crate::workspace::{Outcome, Workspace};
use models::Matrix;
use rag::index::TokenBlock;
use serde_json::Value;
use std::path::PathBuf;

const CHUNKERS: &str =
    "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]";
const RERANKERS: &str = "reranker = [\"none\", { late_interaction = { top_n = 2 } }, { late_interaction = { top_n = 3 } }, { late_interaction = { weights = { dense = 0 } } }]";
const DATASET: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"mrr\"]\n";

fn space(retriever: &str, reranker: &str) -> String {
    format!("{CHUNKERS}\nembedder = [\"tiny\"]\nretriever = [{{ {retriever} = {{ top_k = 4 }} }}]\n{reranker}")
}

/// The tasks of a plan that make vectors: their labels, and how many of them
/// are different.
fn embedding(workspace: &Workspace) -> (Vec<String>, u64) {
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    let operators = plan["operators"].as_array().unwrap();
    let Some(embed) = operators.iter().find(|operator| operator["operator"] == "embed") else { return (vec![], 0) };
    let labels = embed["detail"].as_array().unwrap().iter().map(|label| label.as_str().unwrap().to_owned());
    (labels.collect(), embed["unique"].as_u64().unwrap())
}

/// The files of token vectors below a folder of the store.
fn token_files(workspace: &Workspace, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![workspace.file("store").join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "tokens") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What was found for each question of each trial, with scores.
fn passages(results: &Value) -> Vec<&Value> {
    let trials = results["trials"].as_array().unwrap().iter();
    trials.flat_map(|trial| trial["questions"].as_array().unwrap()).map(|question| &question["passages"]).collect()
}

#[test]
fn all_trials_of_a_chunker_share_its_token_vectors_and_later_runs_use_them() {
    let workspace = Workspace::new();
    workspace.experiment(&space("bm25", RERANKERS), DATASET);
    let (labels, unique) = embedding(&workspace);
    let of_tokens: Vec<&String> = labels.iter().filter(|label| label.starts_with("embed tokens with tiny")).collect();
    assert_eq!((of_tokens.len(), unique), (2, 4), "{labels:?}: one shard for each of two chunkers, and its vectors");
    assert!(workspace.run(&["plan"]).succeeds().out.contains("embed tokens with tiny on sentence"));

    let first = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(first["trials"].as_array().unwrap().len(), 8);
    let made = token_files(&workspace, "artifacts");
    assert_eq!(made.len(), 2, "{made:?}");
    let second = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!((&second["executed"], passages(&second)), (&Value::from(0), passages(&first)));

    // Another experiment on the same chunks makes only what is new.
    workspace.experiment(&space("hybrid", "reranker = [{ late_interaction = { top_n = 1 } }]"), DATASET);
    let other = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(other["trials"].as_array().unwrap().len(), 2);
    assert_eq!(token_files(&workspace, "artifacts"), made);
    let verified = workspace.run(&["store", "verify"]).succeeds();
    assert!(verified.out.contains("intact"), "{}", verified.out);

    // A new question is answered from the same vectors, as in a run.
    let question = "What do beavers build dams from?";
    let asked = workspace.run(&["query", question, "--trial", "t01", "--json"]).succeeds().json();
    let trials = other["trials"].as_array().unwrap();
    let t01 = trials.iter().find(|trial| trial["trial"]["id"] == "t01").unwrap();
    let same = t01["questions"].as_array().unwrap().iter().find(|one| one["question"] == "dam").unwrap();
    assert_eq!(asked["passages"][0]["text"], same["passages"][0]["text"]);
    assert_eq!(asked["passages"][0]["score"], same["passages"][0]["score"]);
}

#[test]
fn only_what_counts_is_made() {
    let workspace = Workspace::new();
    let weights = |weights: &str| format!("reranker = [{{ late_interaction = {{ weights = {{ {weights} }} }} }}]");
    workspace.experiment(&space("bm25", &weights("maxsim = 0, dense = 0")), DATASET);
    assert_eq!(embedding(&workspace).1, 0, "words alone need no vectors");
    workspace.experiment(&space("bm25", &weights("dense = 0")), DATASET);
    let (labels, _) = embedding(&workspace);
    assert!(labels.len() == 2 && labels.iter().all(|label| label.starts_with("embed tokens")), "{labels:?}");
    workspace.experiment(&space("bm25", &weights("maxsim = 0")), DATASET);
    let (labels, _) = embedding(&workspace);
    assert!(labels.len() == 2 && !labels.iter().any(|label| label.starts_with("embed tokens")), "{labels:?}");
    workspace.run(&["run"]).succeeds();
    assert!(token_files(&workspace, "artifacts").is_empty());
}

#[test]
fn damaged_token_vectors_are_named_where_they_are_read() {
    let workspace = Workspace::new();
    workspace.experiment(&space("bm25", "reranker = [{ late_interaction = { top_n = 2 } }]"), DATASET);
    workspace.run(&["run"]).succeeds();
    let files = token_files(&workspace, "artifacts");
    for file in &files {
        let mut bytes = std::fs::read(file).unwrap();
        // The first numbers of each file, and so of its first chunk.
        bytes[64..128].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::remove_file(file).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
    let ask = |question: &str| workspace.run(&["query", question, "--trial", "t01", "--json"]);
    let outcomes: Vec<Outcome> = ["Where do otters live?", "Do otters sleep on rivers and coasts?"].map(ask).into();
    let named = |outcome: &Outcome| outcome.code != Some(0) && outcome.err.contains("checksum");
    assert!(outcomes.iter().any(named), "{outcomes:#?}");
}

#[test]
fn what_was_put_aside_before_a_kill_is_not_encoded_again_and_damage_is() {
    let workspace = Workspace::new();
    workspace.experiment(&space("bm25", "reranker = [{ late_interaction = { top_n = 2 } }]"), DATASET);
    workspace.run(&["run"]).succeeds();
    let made = token_files(&workspace, "artifacts");
    let read = || made.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>();
    let good = read();
    // The first chunk of each file, as no model would encode it.
    let mut block = TokenBlock::default();
    block.push(&[Matrix { columns: 64, data: vec![0.0; 64] }]).unwrap();
    let put_aside = |bytes: &[u8]| {
        workspace.forget_artifacts();
        for file in &made {
            let key = file.file_stem().unwrap();
            let folder = workspace.file("store/partial/tokens").join(key);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("00000000.tokens"), bytes).unwrap();
        }
        workspace.run(&["run"]).succeeds();
        assert!(token_files(&workspace, "partial").is_empty(), "what is done needs no parts");
        read()
    };
    for (made, good) in put_aside(&block.to_bytes()).iter().zip(&good) {
        assert_eq!(made[56..64], good[56..64], "the same number of chunks");
        assert!(made[64..132].iter().all(|byte| *byte == 0), "the first is the one that was put aside");
        assert!(made.ends_with(&good[good.len() - 12..]), "the last is encoded");
    }
    let mut damaged = block.to_bytes();
    damaged[70] ^= 1;
    assert!(put_aside(&damaged) == good);
}
