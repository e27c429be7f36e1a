//! Runs in Weights & Biases (offline) and in Trackio, with their real packages: what is there, that nothing is there
//! twice, and what happens without a package.

use crate::{
    services,
    workspace::{Outcome, Workspace},
};
use serde_json::{Value, json};
use simulator::{LatencyModel, RunningSimulator, SimulatorSettings};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// Prints what the packages hold of a run.
const READER: &str = include_str!("package_trackers.py");
const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\", max_tokens = 16 } }]";
const TRACK: &str = "[track]\nwandb = { project = \"zoo\", tags = [\"team\"], every_seconds = 0.3, wait_seconds = 600 }\ntrackio = { project = \"zoo\", every_seconds = 0.3, wait_seconds = 600 }\n";

/// An experiment whose answers come from a provider over HTTP.
fn workspace(provider: &RunningSimulator) -> Workspace {
    let workspace = Workspace::new();
    let models = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 2, price = {{ input = 2, output = 8 }}, headers = {{ x-plain = \"header-planted\" }} }}\n",
        provider.url
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    workspace.experiment(SPACE, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{models}{TRACK}"));
    workspace
}

/// A command in the virtual environment of this folder, which finds no account.
fn command(workspace: &Workspace, environment: &Path, arguments: &[&str]) -> Command {
    let mut command = workspace.command(arguments);
    in_environment(&mut command, workspace, environment);
    command
}

fn in_environment(command: &mut Command, workspace: &Workspace, environment: &Path) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WANDB_") || name.starts_with("TRACKIO_")) {
        command.env_remove(name);
    }
    command.env("VIRTUAL_ENV", environment).env("TRACKIO_DIR", workspace.file("trackio"));
    // What the packages keep for themselves.
    command.env("HOME", workspace.path()).env("XDG_CACHE_HOME", workspace.file("cache"));
}

/// What the packages hold of the run.
fn held(workspace: &Workspace, environment: &Path, run: &str) -> Value {
    let mut command = Command::new(environment.join("bin/python"));
    in_environment(&mut command, workspace, environment);
    command.args(["-c", READER]).arg(workspace.file("store/runs").join(run)).args(["zoo", run]);
    let read = Outcome::of(command.output().unwrap()).succeeds();
    serde_json::from_str(&read.out).unwrap()
}

/// The steps of a history that have a value of this name.
fn points<'a>(history: &'a Value, name: &str) -> Vec<&'a Value> {
    history.as_array().unwrap().iter().filter_map(|row| row.get(name)).collect()
}

/// Holds what the packages have against a run's results.
fn check(held: &Value, results: &Value) {
    let (wandb, trackio) = (&held["wandb"], &held["trackio"]);
    let run = &results["run"];
    assert_eq!((&wandb["id"], &wandb["project"], &wandb["tags"]), (run, &json!("zoo"), &json!(["team"])));
    assert_eq!((&wandb["folders"], &trackio["runs"]), (&json!(1), &json!(1)));
    assert_eq!((&wandb["exit_code"], &wandb["summary"]["state"]), (&json!(0), &json!("finished")));
    assert_eq!(trackio["config"]["state"], "finished");
    let text = held.to_string();
    assert!(!text.contains("header-planted"), "{text}");

    for (config, outcome) in [(&wandb["config"], &wandb["summary"]), (&trackio["config"], &trackio["config"])] {
        assert_eq!(config["experiment"]["models"]["gpt"]["chat"]["openai"]["model"], "m");
        assert!(config["dataset"]["version"].is_string() && config["corpus"]["version"].is_string(), "{config}");
        assert_eq!(outcome.get("winner"), results["winner"].get("trial"));
        assert_eq!(outcome["leads"], results["trials"][0]["trial"]["id"]);
        let verdict = outcome["verdict"].as_str().unwrap();
        assert!(results["verdict"].as_array().unwrap().iter().all(|said| verdict.contains(said.as_str().unwrap())));
    }
    let spent = |name: &str| -> f64 {
        results["spending"].as_object().unwrap().values().map(|spent| spent[name].as_f64().unwrap()).sum()
    };
    for history in [&wandb["history"], &trackio["history"]] {
        let key = if std::ptr::eq(history, &wandb["history"]) { "_step" } else { "step" };
        let steps: Vec<i64> = points(history, key).iter().map(|step| step.as_i64().unwrap()).collect();
        assert!(steps.windows(2).all(|two| two[0] < two[1]), "a step is there twice: {steps:?}");
        for (name, used) in [("usage/calls", spent("calls")), ("usage/dollars", spent("cost_usd"))] {
            assert_eq!(points(history, name).last().unwrap().as_f64(), Some(used), "{name}");
        }
        for trial in results["trials"].as_array().unwrap() {
            let id = trial["trial"]["id"].as_str().unwrap();
            for (metric, summary) in trial["metrics"].as_object().unwrap() {
                let means = points(history, &format!("{id}/{metric}"));
                assert_eq!(means.last().unwrap().as_f64(), summary["mean"].as_f64(), "{id} {metric}");
            }
        }
        assert!(points(history, "questions").iter().all(|count| count.as_i64() > Some(0)));
        assert_eq!(points(history, "leaderboard").len(), 1);
    }
    let trials: Vec<&Value> = results["trials"].as_array().unwrap().iter().map(|trial| &trial["trial"]["id"]).collect();
    let rows = wandb["table"]["data"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row[0]).collect::<Vec<_>>(), trials, "best first");
    let rows = points(&trackio["history"], "leaderboard")[0]["_value"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["trial"]).collect::<Vec<_>>(), trials);
}

/// The folder with the packages.
fn packages() -> Option<PathBuf> {
    services::program("trackio")?;
    Some(services::program("wandb")?.parent()?.parent()?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_shown_once_and_whole_by_packages_without_an_account() {
    let Some(environment) = packages() else { return };
    let provider =
        simulator::start(SimulatorSettings { answer_tokens: 8, ..SimulatorSettings::default() }).await.unwrap();
    let plain = workspace(&provider);
    let run = |workspace: &Workspace, arguments: &[&str]| {
        Outcome::of(command(workspace, &environment, arguments).output().unwrap())
    };
    let first = run(&plain, &["run", "--json"]).succeeds();
    assert!(!first.err.contains("does not have all of this run"), "{}", first.err);
    let results = first.json();
    let id = results["run"].as_str().unwrap();
    let shown = held(&plain, &environment, id);
    check(&shown, &results);

    // The same again: nothing is written.
    let again = run(&plain, &["run", "--json"]).succeeds().json();
    assert_eq!((&again["run"], &again["executed"]), (&results["run"], &json!(0)));
    let told = run(&plain, &["track"]).succeeds();
    assert!(
        told.out.contains("Weights & Biases (offline) shows the run") && told.out.contains("Trackio shows the run")
    );
    assert_eq!(held(&plain, &environment, id), shown);

    // A run that was lost elsewhere is written anew.
    std::fs::remove_dir_all(plain.file("trackio")).unwrap();
    std::fs::remove_dir_all(plain.file("store/runs").join(id).join("wandb")).unwrap();
    run(&plain, &["track"]).succeeds();
    check(&held(&plain, &environment, id), &results);

    interrupted_run_goes_on(&environment).await;
}

/// An interrupted run is shown as one, and as a whole after it has gone on.
async fn interrupted_run_goes_on(environment: &Path) {
    let slow = simulator::start(SimulatorSettings {
        answer_tokens: 8,
        latency: LatencyModel::Constant { seconds: 0.5 },
        ..SimulatorSettings::default()
    })
    .await
    .unwrap();
    let workspace = workspace(&slow);
    workspace.multiply_questions(20);
    let log = std::fs::File::create(workspace.file("log.txt")).unwrap();
    let mut child = command(&workspace, environment, &["run", "--json"]);
    let mut child = child.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let runs = workspace.file("store/runs");
    // Trackio has something before the run ends.
    let database = workspace.file("trackio/zoo.db");
    while !database.is_file() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended too early");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let told = || std::fs::read_to_string(workspace.file("log.txt")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", told());
    assert!(!told().contains("does not have all of this run"), "{}", told());
    let names: BTreeSet<String> = std::fs::read_dir(&runs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("animals-"))
        .collect();
    let id = names.first().unwrap();
    let held_now = held(&workspace, environment, id);
    assert_eq!(
        (&held_now["wandb"]["exit_code"], &held_now["wandb"]["summary"]["state"]),
        (&json!(255), &json!("killed"))
    );
    assert_eq!(held_now["trackio"]["config"]["state"], "killed");

    slow.set(json!({ "latency": { "constant": { "seconds": 0.0 } } }).as_object().unwrap()).unwrap();
    let ended = Outcome::of(command(&workspace, environment, &["run", "--json"]).output().unwrap()).succeeds();
    let held_later = held(&workspace, environment, id);
    for history in ["wandb", "trackio"].map(|name| &held_later[name]["history"]) {
        assert_eq!(points(history, "leaderboard").len(), 1);
    }
    assert_eq!(held_later["wandb"]["summary"]["state"], "finished");
    assert_eq!(held_later["trackio"]["config"]["state"], "finished");
    assert_eq!(ended.json()["run"], id.as_str());
}

#[test]
fn a_missing_package_is_told_before_anything_is_done() {
    let workspace = Workspace::new();
    workspace.experiment("chunker = \"sentence\"\nretriever = \"bm25\"", TRACK);
    let environment = workspace.file("environment");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&environment).status();
    assert!(made.unwrap().success());
    // A folder of the same name, such as the package itself makes, is no package.
    std::fs::create_dir(workspace.file("wandb")).unwrap();
    let refused = Outcome::of(command(&workspace, &environment, &["run"]).output().unwrap()).ends_with(2);
    for package in ["wandb", "trackio"] {
        let advice = format!("{} -m pip install {package}", environment.join("bin/python").display());
        assert!(refused.err.contains(&advice) && refused.err.contains(&format!("track.{package}")), "{}", refused.err);
    }
    assert!(!workspace.file("store/runs").exists(), "nothing was run");
}
