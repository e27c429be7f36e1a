//! Verbs that are killed at any moment: nothing that was there is lost.
//!
//! `REVERIE_TEST_KILLS=70` kills each of the three as often; without it, a few times.

use crate::{
    damage::{artifacts, leaderboard},
    workspace::Workspace,
};
use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};
use store::{ArtifactStore, Journal, JournalEntry, Key, SharedJournal};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]";

fn kills() -> u64 {
    std::env::var("REVERIE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(6)
}

fn experiment() -> Workspace {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]");
    workspace
}

/// Kills a command after some of the time that it takes; whether it was in time.
fn killed(workspace: &Workspace, arguments: &[&str], usual: Duration, kill: u64) -> bool {
    let mut child = workspace.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // At no regular moment, from its beginning to a little after its end.
    let wait = usual.mul_f64((kill * 7919 % 997) as f64 / 997.0 * 1.1);
    let start = Instant::now();
    while start.elapsed() < wait {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

fn timed(workspace: &Workspace, arguments: &[&str]) -> Duration {
    let start = Instant::now();
    workspace.run(arguments).succeeds();
    start.elapsed()
}

fn entry(i: usize) -> JournalEntry {
    JournalEntry {
        model: "m".to_owned(),
        kind: "chat".to_owned(),
        response: format!("answer-{i}-{}", "x".repeat(700)),
        prompt_tokens: 3,
        completion_tokens: 2,
        cost_usd: 0.5,
        seconds: 1.5,
        created_unix_ms: 7,
    }
}

fn key(i: usize) -> Key {
    Key::of_bytes(&i.to_le_bytes())
}

#[test]
fn a_run_that_is_killed_leaves_nothing_damaged_and_goes_on() {
    let undisturbed = experiment();
    let usual = timed(&undisturbed, &["run"]);
    // The second run only reads what the first one found.
    let expected = undisturbed.run(&["run", "--json"]).succeeds().json();
    let workspace = experiment();
    let (mut in_time, mut there) = (0, Vec::new());
    for kill in 0..kills() {
        in_time += u64::from(killed(&workspace, &["run"], usual, kill));
        if !workspace.file("store/artifacts").exists() {
            continue;
        }
        let now = artifacts(&workspace.file("store"));
        let whole = |file: &&std::path::PathBuf| !file.to_string_lossy().contains('#');
        let now: Vec<_> = now.iter().filter(whole).cloned().collect();
        assert!(there.iter().all(|file| now.contains(file)), "kill {kill}: an artifact is gone");
        there = now;
        let found = workspace.run(&["store", "verify", "--dry-run", "--json"]).succeeds().json();
        assert_eq!(found["without_checksum"]["objects"], 0, "kill {kill}: {found}");
        if in_time == kill + 1 {
            continue;
        }
        // It ended before it was killed: another one from the start.
        std::fs::remove_dir_all(workspace.file("store")).unwrap();
        there.clear();
    }
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(leaderboard(&results), leaderboard(&expected));
    workspace.run(&["store", "verify"]).succeeds();
    assert!(in_time > 0);
}

#[tokio::test]
async fn a_copy_that_is_killed_changes_nothing_and_goes_on() {
    let workspace = experiment();
    workspace.run(&["run"]).succeeds();
    let journal = Journal::open(workspace.file("store/journal.db")).unwrap();
    (0..300).for_each(|i| journal.put(&key(i), &entry(i)).unwrap());
    drop(journal);
    let usual = timed(&workspace, &["store", "copy", "store", "first"]);
    let open =
        |name: &str| ArtifactStore::open(&workspace.file(name).to_string_lossy(), &[], lab::layout::LAYOUT).unwrap();
    let content = async |name: &str| {
        let mut all = Vec::new();
        for object in open(name).list("").await.unwrap() {
            // Checksums of what was replaced stay in the source for a while.
            if !object.starts_with("checksums") && !object.starts_with("journal.") && !object.starts_with("scratch") {
                all.push((object.clone(), open(name).get(&object).await.unwrap()));
            }
        }
        all
    };
    let expected = content("store").await;
    for kill in 0..kills() {
        let target = format!("copied-{kill}");
        killed(&workspace, &["store", "copy", "store", &target], usual, kill);
        if workspace.file(&target).exists() {
            for (name, bytes) in content(&target).await {
                assert!(expected.contains(&(name.clone(), bytes)), "kill {kill}: {name} is another");
            }
            workspace.run(&["store", "verify", &target]).succeeds();
        }
        workspace.run(&["store", "copy", "store", &target]).succeeds();
        assert!(content(&target).await == expected, "kill {kill}");
        let journal = Journal::open(workspace.file(&format!("{target}/journal.db"))).unwrap();
        (0..300).for_each(|i| assert_eq!(journal.get(&key(i)).unwrap(), Some(entry(i)), "kill {kill}"));
        std::fs::remove_dir_all(workspace.file(&target)).unwrap();
    }
    assert!(content("store").await == expected, "the source is as it was");
}

#[tokio::test]
async fn a_journal_that_is_mended_loses_nothing_when_that_is_killed() {
    let workspace = experiment();
    std::fs::create_dir(workspace.file("store")).unwrap();
    let path = workspace.file("store/journal.db");
    // Paid, and not sent: the shared store is a file that is in the way.
    workspace.write("away", "no folder");
    let scratch = tempfile::tempdir().unwrap();
    let away = ArtifactStore::open(&scratch.path().join("x").to_string_lossy(), &[], lab::layout::LAYOUT).unwrap();
    std::fs::write(scratch.path().join("x/journal"), "in the way").unwrap();
    let journal = SharedJournal::new(std::sync::Arc::new(Journal::open(&path).unwrap()), away);
    for i in 0..300 {
        journal.put(&key(i), &entry(i)).await.unwrap();
    }
    assert_eq!(journal.n_unsent().unwrap(), 300);
    drop(journal);
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length * 6 / 10).unwrap();
    let damaged = std::fs::read(&path).unwrap();
    let renew = || {
        std::fs::remove_dir_all(workspace.file("store")).unwrap();
        std::fs::create_dir(workspace.file("store")).unwrap();
        std::fs::write(&path, &damaged).unwrap();
    };
    renew();
    let usual = timed(&workspace, &["journal", "gc", "--yes"]);
    let numbers = |workspace: &Workspace| {
        let stats = workspace.run(&["journal", "stats", "--json"]).succeeds().json();
        (stats["entries"].as_u64().unwrap(), stats["unsent"].as_u64().unwrap())
    };
    let expected = numbers(&workspace);
    assert!(expected.0 > 50 && expected.1 == expected.0, "{expected:?}");
    let has_damaged = |folder: &Path| {
        let files = std::fs::read_dir(folder).unwrap();
        files
            .filter_map(|file| std::fs::metadata(file.unwrap().path()).ok())
            .any(|file| file.len() == damaged.len() as u64)
    };
    let mut in_time = 0;
    for kill in 0..kills() {
        renew();
        in_time += u64::from(killed(&workspace, &["journal", "gc", "--yes"], usual, kill));
        assert!(path.is_file() && has_damaged(&workspace.file("store")), "kill {kill}");
        // One that was killed before its work was done is done again.
        workspace.run(&["journal", "gc", "--yes"]).succeeds();
        assert_eq!(numbers(&workspace), expected, "kill {kill}");
        workspace.run(&["journal", "verify"]).succeeds();
        assert!(has_damaged(&workspace.file("store")), "kill {kill}: the damaged file is kept");
    }
    assert!(in_time > 0);
}
