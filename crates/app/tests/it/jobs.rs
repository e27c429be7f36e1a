//! A run as a job of a cluster: a server that speaks Ray's Jobs API, and runs
//! what is submitted with this binary, its output in one log with others'.

use crate::workspace::Workspace;
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{Cursor, Write},
    path::PathBuf,
    process::{Child, Command},
    sync::{Arc, Mutex},
};
use wiremock::{
    Mock, MockServer, Request, Respond, ResponseTemplate,
    matchers::{method, path_regex},
};

/// The cluster's one job.
struct Cluster {
    folder: tempfile::TempDir,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    package: Vec<u8>,
    job: Option<Child>,
    submitted: Value,
}

impl Cluster {
    async fn start() -> (Arc<Self>, MockServer) {
        let cluster = Arc::new(Self { folder: tempfile::tempdir().unwrap(), state: Mutex::default() });
        let server = MockServer::start().await;
        let answer = Answers(cluster.clone());
        Mock::given(method("GET")).and(path_regex("^/api/")).respond_with(answer.clone()).mount(&server).await;
        Mock::given(method("PUT")).and(path_regex("^/api/")).respond_with(answer.clone()).mount(&server).await;
        Mock::given(method("POST")).and(path_regex("^/api/")).respond_with(answer).mount(&server).await;
        (cluster, server)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn submit(&self, submitted: Value) {
        let mut state = self.state.lock().unwrap();
        let folder = self.folder.path().join("job");
        zip::ZipArchive::new(Cursor::new(&state.package)).unwrap().extract(&folder).unwrap();
        let entry = submitted["entrypoint"].as_str().unwrap().to_owned();
        let entry = entry.replace("python -m reverie ", "").replace(" --engine ray --address auto", " --engine local");
        let mut log = File::options().create(true).append(true).open(self.log()).unwrap();
        writeln!(log, "a node says {{").unwrap();
        let environment = submitted["runtime_env"]["env_vars"].as_object().unwrap().clone();
        let mut command = Command::new(env!("CARGO_BIN_EXE_reverie"));
        command.args(entry.split(' ')).current_dir(folder).stdout(log.try_clone().unwrap()).stderr(log);
        command.env("REVERIE_HOME", self.folder.path().join("home"));
        command.envs(environment.iter().map(|(name, value)| (name, value.as_str().unwrap())));
        state.job = Some(command.spawn().unwrap());
        state.submitted = submitted;
    }

    fn job(&self) -> Value {
        match self.state.lock().unwrap().job.as_mut().unwrap().try_wait().unwrap() {
            None => json!({ "status": "RUNNING" }),
            Some(status) if status.success() => json!({ "status": "SUCCEEDED", "driver_exit_code": 0 }),
            Some(status) => json!({ "status": "FAILED", "message": "it ended", "driver_exit_code": status.code() }),
        }
    }
}

#[derive(Clone)]
struct Answers(Arc<Cluster>);

impl Respond for Answers {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let (path, ok) = (request.url.path(), ResponseTemplate::new(200));
        match request.method.as_str() {
            "GET" if path.contains("/packages/") => ResponseTemplate::new(404),
            "PUT" => {
                self.0.state.lock().unwrap().package.clone_from(&request.body);
                ok
            }
            "POST" => {
                self.0.submit(serde_json::from_slice(&request.body).unwrap());
                ok.set_body_json(json!({}))
            }
            _ if path.ends_with("/logs") => {
                ok.set_body_json(json!({ "logs": std::fs::read_to_string(self.0.log()).unwrap() }))
            }
            _ => ok.set_body_json(self.0.job()),
        }
    }
}

/// An experiment that a job can run: what it names is far, its questions travel.
fn workspace(metrics: &str) -> Workspace {
    let workspace = Workspace::new();
    let rest =
        format!("[dataset]\npath = \"golden.jsonl\"\n\n[evaluate]\nmetrics = [{metrics}]\nobjective = [\"recall\"]");
    workspace.experiment("chunker = \"sentence\"\nretriever = \"bm25\"", &rest);
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let far = |name: &str| Value::from(workspace.file(name).display().to_string()).to_string();
    let text = text.replace("\"store\"", &far("store")).replace("\"documents\"", &far("documents"));
    workspace.write("experiment.toml", text);
    workspace
}

#[tokio::test]
async fn the_result_of_a_job_is_alone_on_standard_output() {
    let (cluster, server) = Cluster::start().await;
    let workspace = workspace("\"recall\"");
    let run = workspace.run(&["run", "--address", &server.uri(), "--json"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    let results: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(results["experiment"], "animals");
    assert!(run.err.contains("a node says {"), "{}", run.err);
    let mark = cluster.state.lock().unwrap().submitted["runtime_env"]["env_vars"]["REVERIE_RESULT_MARK"].clone();
    assert!(!run.err.contains(mark.as_str().unwrap()), "{}", run.err);
    // The same is in the shared store.
    let here = workspace.run(&["leaderboard", "--json"]);
    let here: Value = serde_json::from_str(&here.out).unwrap();
    assert_eq!((&here["run"], &here["rows"][0]["id"]), (&results["run"], &results["trials"][0]["trial"]["id"]));
}

#[tokio::test]
async fn a_job_ends_with_the_code_of_its_run_and_shows_what_it_found() {
    let (_cluster, server) = Cluster::start().await;
    let workspace = workspace("\"recall\", { python = { name = \"broken\", file = \"own.py\" } }");
    workspace.write("own.py", "def score(passages):\n    return passages.oats\n");
    let run = workspace.run(&["run", "--address", &server.uri()]);
    assert_eq!(run.code, Some(5), "{}{}", run.out, run.err);
    assert!(run.out.contains("recall") && !run.out.contains("a node says"), "{}", run.out);
    assert!(run.err.contains("AttributeError") && run.err.contains("return passages.oats"), "{}", run.err);
}

#[test]
fn a_job_is_planned_here_and_not_submitted_where_only_the_plan_is_wanted() {
    let workspace = workspace("\"recall\"");
    let plan = workspace.run(&["plan"]).succeeds().out;
    let told = workspace.run(&["run", "--dry-run", "--address", "http://127.0.0.1:1"]).succeeds();
    assert_eq!(told.out, plan);
    assert!(told.err.contains("planned on this machine"), "{}", told.err);
}

#[test]
fn an_engine_that_contradicts_the_address_is_refused_before_anything_runs() {
    let workspace = workspace("\"recall\"");
    let run = workspace.run(&["run", "--engine", "local", "--address", "head:6379"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("leave one of them out"), "{}", run.err);
    assert!(!workspace.file("store").exists());
}

#[test]
fn a_token_that_crosses_a_network_without_tls_is_told() {
    let workspace = workspace("\"recall\"");
    // Nothing listens there, and it is no address of this machine alone.
    for (address, is_told) in [("http://0.0.0.0:1", true), ("http://127.0.0.1:1", false), ("https://0.0.0.0:1", false)]
    {
        let mut command = workspace.command(&["run", "--address", address]);
        let outcome = crate::workspace::Outcome::of(command.env("RAY_AUTH_TOKEN", "secret-token").output().unwrap());
        assert_ne!(outcome.code, Some(0));
        let told = format!("the token in RAY_AUTH_TOKEN goes to {address} without TLS");
        assert_eq!(outcome.err.contains(&told), is_told, "{}", outcome.err);
        assert!(!outcome.err.contains("secret-token"), "{}", outcome.err);
    }
}
