//! What is computed again after a change, and what is not.

use crate::workspace::Workspace;
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
