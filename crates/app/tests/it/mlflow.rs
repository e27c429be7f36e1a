//! Runs on a real MLflow server: what is there, that nothing is there twice,
//! and that nothing is missing after the server was away. One test, because
//! the servers take long to start.

use crate::{
    mlflow_server::MlflowServer,
    workspace::{Outcome, Workspace},
};
use eval::Dataset;
use serde_json::{Value, json};
use simulator::{LatencyModel, RunningSimulator, SimulatorSettings};
use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Child, Stdio},
    time::Duration,
};

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }, { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { hybrid = { top_k = 3 } }]";
const GENERATOR: &str = "generator = [{ compact = { model = \"gpt\", max_tokens = 16 } }]";
const TOKEN: &str = "token-planted-0123456789abcdef";
/// How long the end of a run waits for the server.
const WAIT_SECONDS: f64 = 8.0;

/// An experiment whose answers come from a provider over HTTP.
fn workspace(provider: &RunningSimulator, server: &MlflowServer, experiment: &str) -> Workspace {
    let workspace = Workspace::new();
    let models = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 2, price = {{ input = 2, output = 8 }}, headers = {{ x-plain = \"header-planted\" }} }}\n",
        provider.url
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"ndcg\", \"token_f1\"]\n";
    let rest = format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{models}{}", track(server, experiment));
    workspace.experiment(&format!("{SPACE}\n{GENERATOR}"), &rest);
    workspace
}

fn track(server: &MlflowServer, experiment: &str) -> String {
    format!(
        "[track]\nmlflow = {{ uri = \"{}\", experiment = \"{experiment}\", every_seconds = 0.3, wait_seconds = {WAIT_SECONDS:?}, tags = {{ team = \"zoo\" }} }}\n",
        server.uri()
    )
}

fn reverie(workspace: &Workspace, arguments: &[&str]) -> Outcome {
    Outcome::of(workspace.command(arguments).env("MLFLOW_TRACKING_TOKEN", TOKEN).output().unwrap())
}

fn id(run: &Value) -> &str {
    run["info"]["run_id"].as_str().unwrap()
}

/// Keys and values of a list.
fn pairs(list: &Value) -> BTreeMap<&str, &Value> {
    list.as_array().into_iter().flatten().map(|item| (item["key"].as_str().unwrap(), &item["value"])).collect()
}

/// The run for the whole, and those for trials by the trial's id.
fn split(runs: &[Value]) -> (&Value, BTreeMap<&str, &Value>) {
    let trial =
        |run: &Value| pairs(&run["data"]["tags"]).get("reverie.trial").map(|id| id.as_str().unwrap().to_owned());
    let parents: Vec<&Value> = runs.iter().filter(|run| trial(run).is_none()).collect();
    assert_eq!(parents.len(), 1, "{runs:#?}");
    let mut trials = BTreeMap::new();
    for run in runs.iter().filter(|run| trial(run).is_some()) {
        let tags = pairs(&run["data"]["tags"]);
        assert_eq!(tags["mlflow.parentRunId"], id(parents[0]));
        assert!(trials.insert(tags["reverie.trial"].as_str().unwrap(), run).is_none(), "twice: {run}");
    }
    (parents[0], trials)
}

/// Everything that a server has of an experiment, without what changes when
/// a report is written anew.
async fn everything(server: &MlflowServer, experiment: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for run in server.runs(experiment).await {
        let mut histories = BTreeMap::new();
        for metric in pairs(&run["data"]["metrics"]).keys() {
            let history = server.history(id(&run), metric).await;
            assert!(history.windows(2).all(|two| two[0].0 < two[1].0), "{metric} has a step twice: {history:?}");
            histories.insert((*metric).to_owned(), history);
        }
        let mut tags: BTreeMap<_, Value> =
            pairs(&run["data"]["tags"]).into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
        tags.remove("reverie.files");
        let whole = json!({
            "status": run["info"]["status"], "params": run["data"]["params"], "inputs": run["inputs"],
            "tags": tags, "metrics": histories,
        });
        all.insert(id(&run).to_owned(), whole);
    }
    all
}

/// Holds what a server has against a run's results.
async fn check(server: &MlflowServer, workspace: &Workspace, experiment: &str, results: &Value) {
    let runs = server.runs(experiment).await;
    let (parent, trials) = split(&runs);
    let found = results["trials"].as_array().unwrap();
    assert_eq!(trials.len(), found.len());
    let digest = Dataset { questions: serde_json::from_value(results["questions"].clone()).unwrap() }.version();
    for run in &runs {
        assert_eq!(run["info"]["status"], "FINISHED");
        assert!(run["info"]["end_time"].as_i64() >= run["info"]["start_time"].as_i64());
        assert_eq!(pairs(&run["data"]["tags"])["team"], "zoo");
        let inputs = run["inputs"]["dataset_inputs"].as_array().unwrap();
        let golden = inputs.iter().find(|input| input["dataset"]["name"] == "golden.jsonl").unwrap();
        assert_eq!(golden["dataset"]["digest"], digest.as_str());
        assert_eq!(pairs(&golden["tags"])["mlflow.data.context"], "eval");
        assert!(inputs.iter().any(|input| input["dataset"]["name"] == "documents"), "{inputs:?}");
        assert_eq!(inputs.len(), 2);
    }

    let keys: BTreeSet<Vec<&str>> =
        trials.values().map(|run| pairs(&run["data"]["params"]).into_keys().collect()).collect();
    assert_eq!(keys.len(), 1, "every trial has the same parameters: {keys:?}");
    assert!(keys.first().unwrap().contains(&"retriever.top_k"), "{keys:?}");
    for trial in found {
        let run = trials[trial["trial"]["id"].as_str().unwrap()];
        let params = pairs(&run["data"]["params"]);
        for (axis, label) in trial["trial"]["labels"].as_object().unwrap() {
            assert_eq!(params[axis.as_str()], label);
        }
        let top_k = trial["trial"]["retriever"].as_object().unwrap().values().next().unwrap()["top_k"].to_string();
        assert_eq!(params["retriever.top_k"], &top_k);
        let metrics = pairs(&run["data"]["metrics"]);
        assert!(metrics.values().all(|value| value.is_number()), "{metrics:?}");
        for (metric, summary) in trial["metrics"].as_object().unwrap() {
            assert_eq!(metrics[metric.as_str()].as_f64(), summary["mean"].as_f64(), "{metric}");
            assert_eq!(metrics[format!("n/{metric}").as_str()].as_f64(), summary["n_scored"].as_f64());
            assert_eq!(metrics[format!("low/{metric}").as_str()].as_f64(), summary["low"].as_f64());
        }
        assert_eq!(metrics["objective"].as_f64(), trial["objective"]["mean"].as_f64());
        assert_eq!(metrics["cost_usd"].as_f64(), trial["cost_usd"].as_f64());
        let table: Value = serde_json::from_slice(&server.file(run, "questions.json").await).unwrap();
        assert_eq!(table["data"].as_array().unwrap().len(), results["questions"].as_array().unwrap().len());
    }
    let tags = pairs(&parent["data"]["tags"]);
    assert_eq!(tags.get("reverie.winner").copied(), results["winner"].get("trial"));
    assert_eq!(tags.get("reverie.leads").copied(), Some(&results["trials"][0]["trial"]["id"]));

    let folder = workspace.file("store/runs").join(results["run"].as_str().unwrap());
    let page = server.file(parent, "report.html").await;
    assert_eq!(page, std::fs::read(folder.join("report.html")).unwrap());
    let golden = String::from_utf8(server.file(parent, "golden.jsonl").await).unwrap();
    let golden: Vec<Value> = golden.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(&json!(golden), &results["questions"]);
    let table = String::from_utf8(server.file(parent, "questions.csv").await).unwrap();
    assert_eq!(table.lines().count(), 1 + found.len() * golden.len());
    let shown = String::from_utf8(server.file(parent, "experiment.toml").await).unwrap();
    assert!(shown.contains("top_k = 3") && !shown.contains("header-planted"), "{shown}");
}

/// What the run of a process used, as the parent's metrics should end.
fn used(results: &Value) -> (f64, f64) {
    let of =
        |name: &str| results["spending"].as_object().unwrap().values().map(|spent| spent[name].as_f64().unwrap()).sum();
    (of("calls"), of("cost_usd"))
}

async fn wait_until(run: &mut Child, mut happened: impl AsyncFnMut() -> bool) {
    while !happened().await {
        assert!(run.try_wait().unwrap().is_none(), "the run ended too early");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_shown_once_and_whole_whether_the_server_was_there_or_not() {
    let Some(mut server) = MlflowServer::start().await else { return };
    let provider =
        simulator::start(SimulatorSettings { answer_tokens: 8, ..SimulatorSettings::default() }).await.unwrap();

    // All is there after a run, and the same after the same run again.
    let plain = workspace(&provider, &server, "plain");
    let first = reverie(&plain, &["run", "--json"]).succeeds();
    assert!(!first.err.contains("note: MLflow"), "{}", first.err);
    let results = first.json();
    check(&server, &plain, "plain", &results).await;
    let shown = everything(&server, "plain").await;
    let again = reverie(&plain, &["run", "--json"]).succeeds().json();
    assert_eq!(again["executed"], 0);
    check(&server, &plain, "plain", &again).await;
    assert_eq!(everything(&server, "plain").await, shown);
    let told = reverie(&plain, &["track"]).succeeds();
    assert!(told.out.contains(&server.uri()), "{}", told.out);
    assert_eq!(everything(&server, "plain").await, shown);
    let events = json!(plain.events()).to_string();
    assert!(!events.contains(TOKEN) && !first.err.contains(TOKEN) && !told.out.contains(TOKEN));

    search_shows_its_steps(&server).await;

    // The server is killed while a run goes on.
    let slow = simulator::start(SimulatorSettings {
        answer_tokens: 8,
        latency: LatencyModel::Constant { seconds: 0.8 },
        ..SimulatorSettings::default()
    })
    .await
    .unwrap();
    let away = workspace(&slow, &server, "away");
    away.multiply_questions(30);
    let mut run = away.command(&["run", "--json"]);
    let log = std::fs::File::create(away.file("log.txt")).unwrap();
    let mut run = run.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    wait_until(&mut run, async || {
        let runs = server.runs("away").await;
        runs.iter()
            .any(|run| pairs(&run["data"]["metrics"]).get("calls").is_some_and(|calls| calls.as_f64() > Some(5.0)))
    })
    .await;
    server.kill();

    // A run that never finds the server ends as well as any other.
    let alone = workspace(&provider, &server, "alone");
    let ended = reverie(&alone, &["run", "--json"]).succeeds();
    let unseen = ended.json();
    let note = format!("MLflow at {} does not have all of this run", server.uri());
    assert!(ended.err.contains(&note) && ended.err.contains("reverie track"), "{}", ended.err);
    let events = alone.events();
    let tracked = events.iter().find(|event| event["kind"] == "tracked").unwrap();
    assert!(tracked["waited"].as_f64().unwrap() < WAIT_SECONDS + 120.0, "{tracked}");
    let refused = reverie(&alone, &["track"]).ends_with(1);
    assert!(refused.err.contains(&server.uri()), "{}", refused.err);

    server.begin();
    server.is_up().await;
    wait_until(&mut run, async || {
        let text = std::fs::read_to_string(away.file("log.txt")).unwrap();
        assert!(text.contains("is behind, the run goes on"), "{text}");
        away.events().iter().any(|event| event["kind"] == "track_caught_up")
    })
    .await;
    slow.set(json!({ "latency": { "constant": { "seconds": 0.0 } } }).as_object().unwrap()).unwrap();
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", std::fs::read_to_string(away.file("log.txt")).unwrap());
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&server, &away, "away", &results).await;
    let all = everything(&server, "away").await;
    let runs = server.runs("away").await;
    let (parent, _) = split(&runs);
    let metrics = &all[id(parent)]["metrics"];
    let last = |metric: &str| metrics[metric].as_array().unwrap().last().unwrap()[1].as_f64().unwrap();
    assert_eq!((last("calls"), last("cost_usd")), used(&results));
    let steps: Vec<i64> = metrics["calls"].as_array().unwrap().iter().map(|point| point[0].as_i64().unwrap()).collect();
    assert_eq!(steps, (0..steps.len() as i64).collect::<Vec<_>>(), "also what happened while the server was away");

    reverie(&alone, &["track"]).succeeds();
    check(&server, &alone, "alone", &unseen).await;
    everything(&server, "alone").await;
}

/// A search that stops trials shows what it knew after each step.
async fn search_shows_its_steps(server: &MlflowServer) {
    let workspace = Workspace::new();
    workspace.multiply_questions(20);
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n[search]\nrace = { share = 0.9 }\n";
    workspace.experiment(SPACE, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{}", track(server, "race")));
    let results = reverie(&workspace, &["run", "--json"]).succeeds().json();
    check(server, &workspace, "race", &results).await;
    let runs = server.runs("race").await;
    let (_, trials) = split(&runs);
    let mut longest = 0;
    for (trial, run) in trials {
        let history = server.history(id(run), "search_objective").await;
        let asked = history.last().unwrap().0;
        let stop = &results["search"]["stops"][trial];
        assert_eq!(asked, stop["questions"].as_i64().unwrap_or(80), "{trial}: {stop}");
        longest = longest.max(history.len());
    }
    assert!(longest > 2, "a point for each step");
    let shown = everything(server, "race").await;
    reverie(&workspace, &["run", "--json"]).succeeds();
    assert_eq!(everything(server, "race").await, shown);
}
