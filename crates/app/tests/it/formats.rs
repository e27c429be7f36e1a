//! Files of earlier versions, opened by this one. `tests/formats/0.1` holds a
//! store with its journal, and a bundle, as version 0.1 wrote them; they are
//! never written anew.

use crate::{serve::Service, workspace::Workspace};
use std::{fs, path::Path};

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() { copied(&from, &to) } else { fs::copy(from, to).map(drop).unwrap() }
    }
}

fn of_version(version: &str) -> Workspace {
    let workspace = Workspace::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(version);
    copied(&from, workspace.path());
    workspace
}

#[test]
fn a_store_and_a_journal_of_version_0_1_are_read() {
    let workspace = of_version("0.1");
    workspace.run(&["store", "verify", "store"]).succeeds();
    workspace.run(&["journal", "verify"]).succeeds();
    let stats = workspace.run(&["journal", "stats", "--json"]).succeeds().json();
    assert_eq!((&stats["entries"], &stats["prompt_tokens"]), (&2.into(), &326.into()), "{stats}");
    let board = workspace.run(&["leaderboard", "--json"]).succeeds().json();
    assert!(board.to_string().contains("\"token_f1\""), "{board}");
    let shown = workspace.run(&["show", "t01", "--json"]).succeeds();
    assert!(shown.out.contains("270 degrees"), "{}", shown.out);
    assert!(workspace.run(&["runs"]).succeeds().out.contains("animals-abb7314769d9"));
    // Its results have the rows of their trials inside. Without a summary, the leaderboard is made of them.
    let folder = workspace.file("store/runs/animals-abb7314769d9");
    let results = fs::read_to_string(folder.join("results.json")).unwrap();
    assert!(results.contains("270 degrees") && !folder.join("trials").exists());
    fs::remove_file(folder.join("summary.json")).unwrap();
    let again = workspace.run(&["leaderboard", "--json"]).succeeds().json();
    let ids = |board: &serde_json::Value| {
        board["rows"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((ids(&again), &again["leads"]), (ids(&board), &board["leads"]));
    assert_eq!(workspace.run(&["show", "t01", "--json"]).succeeds().json(), shown.json());
}

#[tokio::test]
async fn a_bundle_of_version_0_1_is_served() {
    let workspace = of_version("0.1");
    let service = Service::start(&workspace, &["bundle"]);
    let told = service.json("/rag/retrieve?query=By+how+many+degrees+does+an+owl+turn+its+head").await;
    assert!(told["passages"][0]["text"].as_str().unwrap().contains("270 degrees"), "{told}");
}
