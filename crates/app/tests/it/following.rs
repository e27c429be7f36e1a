//! `reverie watch`: what changes in the documents is served, what is removed is not, and no kill leaves half a version.

use crate::{
    attacks::eventually,
    corpus,
    serve::Service,
    services::S3,
    workspace::{Outcome, Workspace},
};
use serde_json::Value;
use std::{
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
                     retriever = [{ hybrid = { top_k = 3 } }]";
const REST: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n";
const BADGERS: &str = "Badgers dig setts with many tunnels. A badger eats two hundred earthworms in a night.\n";
const ASKED: &str = "/rag/retrieve?query=how+many+earthworms+does+a+badger+eat&top_k=3";

/// A workspace with a finished run.
fn finished() -> Workspace {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, REST);
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace
}

/// A process that is ended with the test.
struct Watcher(Child);

impl Watcher {
    fn start(workspace: &Workspace) -> Self {
        let mut command = workspace.command(&["watch", "--output", "live", "--every", "0.1", "--json"]);
        let log = std::fs::OpenOptions::new().append(true).create(true).open(workspace.file("watch.out")).unwrap();
        let said = std::fs::OpenOptions::new().append(true).create(true).open(workspace.file("watch.err")).unwrap();
        Self(command.stdout(log).stderr(said).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn once(workspace: &Workspace) -> Outcome {
    workspace.run(&["watch", "--output", "live", "--once", "--json"])
}

fn update(workspace: &Workspace) -> Value {
    once(workspace).succeeds().json()
}

fn versions(workspace: &Workspace) -> Vec<Value> {
    workspace.run(&["versions", "live", "--json"]).succeeds().json().as_array().unwrap().clone()
}

fn document(workspace: &Workspace, name: &str) -> std::path::PathBuf {
    workspace.file("documents").join(name)
}

async fn texts(service: &Service) -> String {
    service.json(ASKED).await["passages"].to_string()
}

/// Folders and files that are neither a version nor the name of the current one.
fn leftovers(place: &Path) -> Vec<String> {
    let names = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap());
    let is_known =
        |entry: &std::fs::DirEntry| entry.file_name() == "current.json" || entry.path().join("manifest.json").is_file();
    names.filter(|entry| !is_known(entry)).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_in_the_documents_is_served_and_what_is_removed_is_in_no_answer() {
    let workspace = finished();
    let first = update(&workspace);
    assert_eq!(
        (first["executed"].as_u64(), first["is_current"].as_bool()),
        (Some(0), Some(true)),
        "the run has made it"
    );
    let _watcher = Watcher::start(&workspace);
    let service = Service::logging(&workspace, &["live", "--cache-answers", "10"]);
    let before = service.json(ASKED).await;
    assert_eq!(before["corpus"]["version"], first["corpus"]["version"]);
    assert_eq!(before["corpus"]["files"], 3);
    assert!(!texts(&service).await.contains("earthworms"));

    let begun = Instant::now();
    std::fs::write(document(&workspace, "badgers.txt"), BADGERS).unwrap();
    eventually("an added document is found", async || texts(&service).await.contains("two hundred earthworms")).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(service.json(ASKED).await["corpus"]["files"], 4);
    let with_badgers = versions(&workspace)[0]["version"].as_str().unwrap().to_owned();

    std::fs::write(document(&workspace, "badgers.txt"), BADGERS.replace("two hundred", "ninety")).unwrap();
    eventually("the edit is served", async || texts(&service).await.contains("ninety earthworms")).await;
    std::fs::rename(document(&workspace, "badgers.txt"), document(&workspace, "diggers.txt")).unwrap();
    eventually("the new path is served", async || texts(&service).await.contains("diggers.txt")).await;
    std::fs::remove_file(document(&workspace, "diggers.txt")).unwrap();
    eventually("what was removed is gone", async || !texts(&service).await.contains("earthworms")).await;

    // Rolled back by name: the version is served until another is chosen, and new ones are made all the same.
    let pinned = workspace.run(&["versions", "live", &with_badgers]).succeeds();
    assert!(pinned.out.contains("until another version is chosen"), "{}", pinned.out);
    eventually("the old version is served", async || texts(&service).await.contains("two hundred earthworms")).await;
    std::fs::write(document(&workspace, "moles.txt"), "Moles eat earthworms too, and dig faster than badgers.\n")
        .unwrap();
    eventually("a version is made", async || versions(&workspace)[0]["corpus"]["files"] == 4).await;
    assert!(!texts(&service).await.contains("Moles"));
    workspace.run(&["versions", "live", "newest"]).succeeds();
    eventually("the newest version is served", async || texts(&service).await.contains("Moles eat")).await;

    let status = service.json("/admin/status").await;
    assert_eq!(status["follows"]["version"], versions(&workspace)[0]["version"]);
    assert_eq!(status["serving"]["corpus"]["files"], 4);
    let kept = versions(&workspace);
    assert!(kept.iter().filter(|version| version["is_current"] == true).count() == 1, "{kept:?}");
    // The line of each version says what has changed.
    let told = std::fs::read_to_string(workspace.file("watch.out")).unwrap();
    let changes: Vec<Value> =
        told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["changes"].clone()).collect();
    let of =
        |kind: &str| changes.iter().filter(|change| change[kind].as_array().is_some_and(|it| !it.is_empty())).count();
    assert_eq!((of("added"), of("edited"), of("moved"), of("removed")), (2, 1, 1, 1), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_if_nothing_has_changed_and_two_cannot_follow_into_one_place() {
    let workspace = finished();
    update(&workspace);
    let kept = versions(&workspace);
    let again = once(&workspace).succeeds();
    assert_eq!(again.out, "");
    // A copy with other times has the same contents.
    std::fs::write(document(&workspace, "owls.txt"), corpus::OWLS).unwrap();
    assert_eq!(once(&workspace).succeeds().out, "");
    assert_eq!(versions(&workspace), kept);

    let _watcher = Watcher::start(&workspace);
    eventually("it has begun", async || {
        std::fs::read_to_string(workspace.file("watch.err")).is_ok_and(|said| said.contains("follows its documents"))
    })
    .await;
    once(&workspace).fails_with(&["another process follows this corpus into live"]);
}

#[test]
fn without_a_readable_document_the_last_version_stays() {
    let workspace = finished();
    let first = update(&workspace);
    let names = ["otters.md", "owls.txt", "whales.html"];
    for name in names {
        std::fs::write(document(&workspace, name), "").unwrap();
    }
    let told = once(&workspace).ends_with(1);
    assert!(told.err.contains("holds no readable document now"), "{}", told.err);
    for name in names {
        std::fs::remove_file(document(&workspace, name)).unwrap();
    }
    assert!(once(&workspace).ends_with(2).err.contains("there are no files"));
    std::fs::remove_dir(workspace.file("documents")).unwrap();
    assert!(once(&workspace).ends_with(2).err.contains("documents"), "a folder that is gone");
    let kept = versions(&workspace);
    assert_eq!((kept.len(), &kept[0]["version"], &kept[0]["is_current"]), (1, &first["version"], &Value::Bool(true)));
    assert_eq!(leftovers(&workspace.file("live")), [""; 0]);
}

#[tokio::test]
async fn old_versions_and_what_they_were_made_from_do_not_fill_the_disk() {
    let workspace = finished();
    update(&workspace);
    let artifacts = || {
        let folders = std::fs::read_dir(workspace.file("store/artifacts")).unwrap().map(|entry| entry.unwrap().path());
        let files =
            folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()));
        files.map(|name| name.to_string_lossy().into_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    let of_run = artifacts();
    let mut watcher = Watcher::start(&workspace);
    let made = async |n: usize| {
        let begun = Instant::now();
        while std::fs::read_to_string(workspace.file("watch.out")).unwrap().lines().count() < n {
            assert!(begun.elapsed() < Duration::from_secs(60), "version {n} was not made");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    for n in 1..=6 {
        std::fs::write(document(&workspace, "badgers.txt"), format!("{BADGERS} Counted {n} times.")).unwrap();
        made(n).await;
    }
    watcher.0.kill().unwrap();
    watcher.0.wait().unwrap();
    let now = artifacts();
    assert!(of_run.is_subset(&now), "what the run needs is there");
    let more = now.len() - of_run.len();
    assert!(more < 2 * of_run.len(), "{more} more than the {} of the run after six changes", of_run.len());
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    assert!(results["winner"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_moment_leaves_a_version_that_can_be_served() {
    let workspace = finished();
    update(&workspace);
    for kill in 0..20_u64 {
        std::fs::write(document(&workspace, "badgers.txt"), format!("{BADGERS} Counted {kill} times.")).unwrap();
        let mut watcher = Watcher::start(&workspace);
        tokio::time::sleep(Duration::from_millis(30 + (kill * 7919) % 900)).await;
        watcher.0.kill().unwrap();
        watcher.0.wait().unwrap();
        let current: Value =
            serde_json::from_slice(&std::fs::read(workspace.file("live/current.json")).unwrap()).unwrap();
        let bundle = format!("live/{}", current["version"].as_str().unwrap());
        // Every file is compared with the manifest.
        lab::Bundle::open(&workspace.file(&bundle).display().to_string(), &setup(&workspace), &workspace.file("cache"))
            .await
            .unwrap();
    }
    once(&workspace).succeeds();
    assert_eq!(leftovers(&workspace.file("live")), [""; 0]);
    let service = Service::logging(&workspace, &["live"]);
    assert!(
        texts(&service).await.contains("two hundred earthworms. Counted 19 times")
            || texts(&service).await.contains("19 times")
    );
}

fn setup(workspace: &Workspace) -> lab::Setup {
    let directory = models::ModelDirectory::new(workspace.file("home"), Vec::new());
    lab::Setup::new(directory, std::sync::Arc::new(|_: &str| None))
}

#[test]
fn a_question_whose_evidence_was_edited_away_is_named_and_left_out_until_it_is_there_again() {
    let workspace = finished();
    let edited = corpus::OWLS.replace("270", "280");
    std::fs::write(document(&workspace, "owls.txt"), &edited).unwrap();
    let told = once(&workspace).succeeds();
    let lost = told.json()["lost"].clone();
    assert_eq!((lost[0]["question"].as_str(), lost[0]["document"].as_str()), (Some("owl"), Some("owls.txt")));
    assert!(told.err.contains("question `owl`: its evidence is in no document any more"), "{}", told.err);

    for _ in 0..2 {
        let results = workspace.run(&["run", "--json"]).succeeds().json();
        assert_eq!(results["questions"].as_array().unwrap().len(), 3);
        let warnings = results["warnings"].to_string();
        assert!(warnings.contains("lost-evidence") && warnings.contains("owl (owls.txt)"), "{warnings}");
    }
    let shown = workspace.run(&["leaderboard"]).succeeds();
    assert!(format!("{}{}", shown.out, shown.err).contains("1 question is left out"), "{}{}", shown.out, shown.err);
    std::fs::write(document(&workspace, "owls.txt"), corpus::OWLS).unwrap();
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(results["questions"].as_array().unwrap().len(), 4);

    // A quote that was never there is a mistake, as before.
    let golden = std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    workspace.write(
        "golden.jsonl",
        golden.replace("turns its head by up to 270 degrees", "turns its head by up to 290 degrees"),
    );
    workspace.run(&["run"]).refused_with(&["question `owl`", "290 degrees"]);
    // Of a dataset whose evidence is all gone nothing is left to ask.
    workspace.write("golden.jsonl", golden);
    for name in ["otters.md", "owls.txt", "whales.html"] {
        std::fs::write(document(&workspace, name), BADGERS).unwrap();
    }
    workspace.run(&["run"]).refused_with(&["question `owl`: its evidence is in no document any more"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_and_versions_may_be_on_an_object_store() {
    let Some(server) = S3::start().await else { return };
    let workspace = finished();
    let bucket = server.store("s3://bucket/");
    for (name, text) in [("otters.md", corpus::OTTERS), ("owls.txt", corpus::OWLS), ("whales.html", corpus::WHALES)] {
        bucket.put(&format!("documents/{name}"), text).await.unwrap();
    }
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let text = text.replace("store = \"store\"", "store = \"s3://bucket/store\"");
    workspace.write("experiment.toml", text.replace("source = \"documents\"", "source = \"s3://bucket/documents\""));
    let run = |arguments: &[&str]| Outcome::of(server.known_to(workspace.command(arguments)).output().unwrap());
    run(&["run", "--quiet"]).succeeds();
    let place = "s3://bucket/live/manuals";
    let watch = ["watch", "--output", place, "--once", "--json"];
    let first = run(&watch).succeeds().json();
    assert_eq!(first["is_current"], true);

    let variables: Vec<(String, String)> = server
        .known_to(workspace.command(&[]))
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_str()?.to_owned())))
        .collect();
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let service = Service::start_with(&workspace, &[place], &variables);
    assert!(!texts(&service).await.contains("earthworms"));
    bucket.put("documents/badgers.txt", BADGERS).await.unwrap();
    let second = run(&watch).succeeds().json();
    assert_eq!(second["corpus"]["files"], 4);
    eventually("the next version is served", async || texts(&service).await.contains("two hundred earthworms")).await;
    let listed = run(&["versions", place, "--json"]).succeeds().json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    run(&["versions", place, first["version"].as_str().unwrap()]).succeeds();
    eventually("the first version is served", async || !texts(&service).await.contains("earthworms")).await;
}
