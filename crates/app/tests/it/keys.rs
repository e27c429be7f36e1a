//! What is computed again after a change, and what is not.

use crate::{endpoint, workspace::Workspace};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a plan says is to run, by operator, of how many tasks.
fn to_run(workspace: &Workspace) -> BTreeMap<String, (u64, u64)> {
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    let of = |row: &Value| {
        let unique = row["unique"].as_u64().unwrap();
        (row["operator"].as_str().unwrap().to_owned(), (unique - row["stored"].as_u64().unwrap(), unique))
    };
    plan["operators"].as_array().unwrap().iter().map(of).collect()
}

/// 200 files, parsed, cut, embedded and indexed.
fn with_200_files() -> Workspace {
    let workspace = Workspace::new();
    for i in 0..200 {
        workspace.write(&format!("documents/b{i:03}.txt"), text(i, 60));
    }
    let space = "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"bm25\", \"hybrid\"]";
    workspace.experiment(space, "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]");
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace
}

fn text(seed: usize, sentences: usize) -> String {
    (0..sentences)
        .map(|i| format!("Owl {seed} eats {} mice in winter and {} in summer. ", i * seed % 97, i + seed))
        .collect()
}

#[test]
fn a_file_that_is_added_changed_or_removed_makes_at_most_two_blocks_new() {
    let workspace = with_200_files();
    let changes: [(&str, &dyn Fn()); 3] = [
        ("added at the front", &|| workspace.write("documents/a.txt", text(7, 60))),
        ("changed", &|| workspace.write("documents/b100.txt", text(7, 120))),
        ("removed", &|| std::fs::remove_file(workspace.file("documents/b050.txt")).unwrap()),
    ];
    for (what, change) in changes {
        change();
        let planned = to_run(&workspace);
        for operator in ["chunk", "embed"] {
            let (new, all) = planned[operator];
            assert!((1..=2).contains(&new) && all > 3, "{what}: {new} of {all} are to {operator}");
        }
        workspace.run(&["run", "--quiet"]).succeeds();
    }
}

/// A workspace whose generator and metric are functions that note each of their calls.
fn with_functions(uri: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.multiply_questions(20);
    let note = |name: &str| {
        let file = workspace.file(name).display().to_string();
        format!("    with open({file:?}, 'a') as file:\n        file.write(question + '\\n')\n")
    };
    let write =
        format!("def write(question, passages):\n{}    return question + ' '.join(passages)\n", note("written"));
    workspace.write("write.py", write);
    let score = format!("def score(question, answer):\n{}    return len(answer + question) % 7 / 7\n", note("scored"));
    workspace.write("score.py", score);
    workspace.write("golden.toml", uri);
    workspace
}

/// Runs a search over four trials and 80 questions. Returns the questions that
/// it asked, and those that were written and scored so far.
fn search(workspace: &Workspace, search: &str) -> (u64, [usize; 2]) {
    search_among(workspace, 80, search)
}

/// The same, where only the first questions are answered.
fn search_among(workspace: &Workspace, answered: usize, search: &str) -> (u64, [usize; 2]) {
    let uri = std::fs::read_to_string(workspace.file("golden.toml")).unwrap();
    let space = "chunker = [\"sentence\", { sentence = { chunk_size = 24, chunk_overlap = 0 } }]\n\
        retriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 3 } }]\n\
        generator = { python = { file = \"write.py\", settings = { model = \"gpt\" } } }";
    let rest = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{uri}/v1\" }}\n\
         [dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", {{ python = {{ name = \"own\", \
         file = \"score.py\" }} }}]\nobjective = [\"own\"]\nanswered = {answered}\n[search]\n{search}\n"
    );
    workspace.experiment(space, &rest);
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let lines = |name: &str| std::fs::read_to_string(workspace.file(name)).unwrap().lines().count();
    (results["search"]["answers"].as_u64().unwrap_or(4 * 80), ["written", "scored"].map(lines))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_race_asked_is_neither_written_nor_scored_again_by_the_race_a_grid_or_another_search() {
    let server = endpoint::start(std::time::Duration::ZERO).await;
    let workspace = with_functions(&server.uri());
    let (asked, done) = search(&workspace, "race = { share = 0.5, block = 3 }");
    assert!((20..250).contains(&asked), "{asked} of 320");
    assert_eq!(done, [asked as usize; 2], "no step does again what a step before it did");
    assert_eq!(search(&workspace, "race = { share = 0.5, block = 3 }").1, done, "a race that is repeated does nothing");
    let (_, done) = search(&workspace, "successive_halving = { least = 7 }");
    assert!(done[0] >= asked as usize && done[0] == done[1], "{done:?}");
    assert_eq!(search(&workspace, "grid = {}"), (320, [320, 320]), "the grid does the rest");
    let (asked, done) = search(&workspace, "race = { share = 0.7 }");
    assert!(asked > 0);
    assert_eq!(done, [320, 320], "and leaves nothing to do to a race");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_answered_questions_are_only_these() {
    let server = endpoint::start(std::time::Duration::ZERO).await;
    let workspace = with_functions(&server.uri());
    for (answered, expected) in [(9, 36), (30, 120), (31, 124)] {
        assert_eq!(search_among(&workspace, answered, "grid = {}").1, [expected; 2], "{answered} of 80");
    }
}
