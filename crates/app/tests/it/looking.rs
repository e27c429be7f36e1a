//! Verbs that only show something, on a store that cannot be written to; and a
//! store that goes away.

use crate::workspace::{Outcome, Workspace};
use simulator::{LatencyModel, SimulatorSettings};
use std::{
    collections::BTreeMap,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]";
/// Somebody whom permissions stop.
const NOBODY: u32 = 65_534;

/// Everything below a folder, with times and lengths.
fn state(folder: &Path) -> BTreeMap<PathBuf, (SystemTime, u64)> {
    let (mut found, mut open) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(path) = open.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path, (metadata.modified().unwrap(), metadata.len()));
    }
    found
}

fn permit(folder: &Path, writing: bool) {
    for path in state(folder).into_keys() {
        let mode = match (path.is_dir(), writing) {
            (true, true) => 0o755,
            (true, false) => 0o555,
            (false, true) => 0o644,
            (false, false) => 0o444,
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn a_store_that_cannot_be_written_to_is_shown_and_asked_and_stays_as_it_is() {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]");
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let trial = |i: usize| results["trials"][i]["trial"]["id"].as_str().unwrap();
    permit(workspace.path(), false);
    let before = state(workspace.path());
    // Who may write anywhere becomes somebody who may not.
    let is_root = std::fs::write(workspace.file("store/probe"), "").is_ok();
    if is_root {
        std::fs::remove_file(workspace.file("store/probe")).unwrap();
    }
    let before = if is_root { state(workspace.path()) } else { before };
    let run = |arguments: &[&str]| {
        let mut command = workspace.command(arguments);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.env("TMPDIR", "/tmp");
        let outcome = Outcome::of(command.output().unwrap());
        assert_eq!(state(workspace.path()), before, "{arguments:?} changed something");
        outcome
    };
    let refused = run(&["run"]).ends_with(1);
    assert!(refused.err.contains("ermission denied"), "{}", refused.err);
    let shown = run(&["leaderboard", "--json"]).succeeds().json();
    assert_eq!(shown["run"], results["run"]);
    assert!(run(&["leaderboard"]).succeeds().out.contains("report: "));
    run(&["show", trial(0)]).succeeds();
    run(&["show", trial(0), "owl"]).succeeds();
    run(&["compare", trial(0), trial(1)]).succeeds();
    run(&["plan"]).succeeds();
    let asked = run(&["query", "What do barn owls swallow?", "--json"]).succeeds();
    assert_eq!(asked.json()["passages"][0]["document"], "owls.txt");
    assert!(asked.err.contains("cannot be written to"), "{}", asked.err);
    run(&["store", "stats"]).succeeds();
    run(&["store", "verify"]).succeeds();
    run(&["store", "verify", "--dry-run"]).succeeds();
    run(&["journal", "stats"]).succeeds();
    run(&["journal", "verify"]).succeeds();
    permit(workspace.path(), true);
}

#[test]
fn looking_at_a_store_writes_nothing_also_where_it_could() {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]");
    let told = workspace.run(&["leaderboard"]).ends_with(1);
    assert!(told.err.contains("has no finished run") && !workspace.file("store").exists(), "{}", told.err);
    workspace.run(&["run"]).succeeds();
    // What SQLite's own log holds goes into the file, as after any clean end.
    drop(store::Journal::open(workspace.file("store/journal.db")).unwrap());
    let before = state(&workspace.file("store"));
    for verb in
        [&["leaderboard"][..], &["show", "t01"], &["store", "stats"], &["store", "verify"], &["journal", "stats"]]
    {
        workspace.run(verb).succeeds();
        assert_eq!(state(&workspace.file("store")), before, "{verb:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_removed_while_a_run_goes_on_ends_it_at_once_with_its_path() {
    let latency = LatencyModel::Uniform { shortest: 0.2, longest: 0.4 };
    let provider = simulator::start(SimulatorSettings { latency, answer_tokens: 8, ..SimulatorSettings::default() })
        .await
        .unwrap();
    let workspace = Workspace::new();
    workspace.multiply_questions(100);
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 4 }}\n",
        provider.url
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    let space = format!("{SPACE}\ngenerator = [{{ compact = {{ model = \"gpt\", max_tokens = 16 }} }}]");
    workspace.experiment(&space, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));
    let mut run = workspace.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while provider.stats().answered < 20 {
        assert!(run.try_wait().unwrap().is_none(), "it ended before its store went away");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // What is written at the same moment may be in the way.
    while std::fs::remove_dir_all(workspace.file("store")).is_err() && workspace.file("store").exists() {}
    let before = provider.stats().answered;
    let outcome = tokio::task::spawn_blocking(move || Outcome::of(run.wait_with_output().unwrap())).await.unwrap();
    let paid = provider.stats().answered - before;
    assert!(paid <= 40, "{paid} calls were paid after the store was removed");
    let outcome = outcome.ends_with(1);
    let path = workspace.path().canonicalize().unwrap().join("store");
    assert!(outcome.err.contains(&*path.to_string_lossy()) && outcome.err.contains("removed"), "{}", outcome.err);
    assert!(!workspace.file("store/artifacts").exists(), "no half of a store is left in its place");
}
