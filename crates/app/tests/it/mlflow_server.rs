//! A real MLflow server of one test: runs in PostgreSQL, files in an S3
//! server (SeaweedFS), all on free ports. `REVERIE_TEST_SERVICES` names the
//! folder where `make services` puts MLflow and SeaweedFS; PostgreSQL comes
//! from the system.

use crate::services::{self, S3};
use serde_json::{Value, json};
use std::{
    fs::File,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A busy machine takes a minute.
const PATIENCE: Duration = Duration::from_secs(240);

pub struct MlflowServer {
    /// Where they lie.
    programs: PathBuf,
    folder: tempfile::TempDir,
    http: reqwest::Client,
    ports: Vec<u16>,
    // In the order in which they end.
    mlflow: Option<Server>,
    _postgres: Server,
    s3: S3,
}

/// A process with all that it started; they end with this.
struct Server(Child);

impl Server {
    fn start(mut command: Command, log: &Path) -> Self {
        let log = File::create(log).unwrap();
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

impl MlflowServer {
    /// Starts everything; none, if a server is not installed.
    pub async fn start() -> Option<Self> {
        let programs = services::program("mlflow")?.parent()?.to_owned();
        let Some(postgres) = postgres_programs() else {
            skips::skip("PostgreSQL is neither in /usr/lib/postgresql nor in PATH");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let s3 = S3::start().await?;
        let ports = services::free_ports(2);
        let postgres = start_postgres(&postgres, folder.path(), ports[1]);
        let http = store::http_client().no_proxy().build().unwrap();
        wait_for(ports[1]).await;
        let mut server = Self { programs, folder, http, ports, mlflow: None, _postgres: postgres, s3 };
        server.begin();
        server.is_up().await;
        Some(server)
    }

    pub fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Starts MLflow.
    pub fn begin(&mut self) {
        let mut command = self.s3.known_to(Command::new(self.programs.join("mlflow")));
        let backend = format!("postgresql+psycopg2://mlflow@127.0.0.1:{}/postgres", self.ports[1]);
        let port = self.ports[0].to_string();
        command.args(["server", "--host", "127.0.0.1", "--port", &port, "--backend-store-uri", &backend]);
        command.args(["--artifacts-destination", "s3://bucket/mlflow", "--workers", "1"]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.programs.display()));
        command.env("MLFLOW_S3_ENDPOINT_URL", self.s3.endpoint());
        command.env("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false").env("MLFLOW_DISABLE_TELEMETRY", "true");
        command.current_dir(self.folder.path());
        self.mlflow = Some(Server::start(command, &self.folder.path().join("mlflow.log")));
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.mlflow = None;
    }

    /// Waits until MLflow answers.
    pub async fn is_up(&self) {
        let started = Instant::now();
        let address = format!("{}/health", self.uri());
        while !self.http.get(&address).send().await.is_ok_and(|answer| answer.status().is_success()) {
            let log = || std::fs::read_to_string(self.folder.path().join("mlflow.log")).unwrap_or_default();
            assert!(started.elapsed() < PATIENCE, "MLflow does not start: {}", log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn json(&self, request: reqwest::RequestBuilder) -> Value {
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{status}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}/api/2.0/{path}", self.uri()))
    }

    /// All runs of an experiment; none if there is no such experiment.
    pub async fn runs(&self, experiment: &str) -> Vec<Value> {
        let found = self.get(&format!("mlflow/experiments/get-by-name?experiment_name={experiment}"));
        let found: Value = found.send().await.unwrap().json().await.unwrap();
        let Some(id) = found["experiment"]["experiment_id"].as_str() else { return Vec::new() };
        let body = json!({ "experiment_ids": [id], "max_results": 1000, "run_view_type": "ALL" });
        let search = self.http.post(format!("{}/api/2.0/mlflow/runs/search", self.uri())).json(&body);
        self.json(search).await["runs"].as_array().cloned().unwrap_or_default()
    }

    /// Steps and values of a metric, as they were logged.
    pub async fn history(&self, run: &str, metric: &str) -> Vec<(i64, f64)> {
        let found = self.json(self.get(&format!("mlflow/metrics/get-history?run_id={run}&metric_key={metric}"))).await;
        let points = found["metrics"].as_array().cloned().unwrap_or_default();
        points.iter().map(|point| (point["step"].as_i64().unwrap(), point["value"].as_f64().unwrap())).collect()
    }

    /// A file of a run, through the server.
    pub async fn file(&self, run: &Value, name: &str) -> Vec<u8> {
        let place = run["info"]["artifact_uri"].as_str().unwrap().strip_prefix("mlflow-artifacts:/").unwrap();
        let answer = self.get(&format!("mlflow-artifacts/artifacts/{place}/{name}")).send().await.unwrap();
        assert!(answer.status().is_success(), "{name}: {}", answer.status());
        answer.bytes().await.unwrap().to_vec()
    }
}

/// The folder of PostgreSQL's programs; the empty one if they are in PATH.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let folders = versions.map(|version| version.path().join("bin"));
    folders.filter(|folder| folder.join("initdb").is_file()).max().or_else(|| {
        let found = Command::new("initdb").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.is_ok().then(PathBuf::new)
    })
}

/// A new database, for everybody on this machine. PostgreSQL refuses to be
/// root, so root starts it as `postgres`.
fn start_postgres(programs: &Path, folder: &Path, port: u16) -> Server {
    let data = folder.join("postgres");
    std::fs::create_dir(&data).unwrap();
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().ok()
    };
    let user = match id(&["-u"]) {
        Some(0) => id(&["-u", "postgres"]).zip(id(&["-g", "postgres"])),
        _ => None,
    };
    if let Some((user, group)) = user {
        chown(&data, Some(user), Some(group)).unwrap();
        // The way there is open, what lies beside it is not.
        let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(folder, open).unwrap();
    }
    let program = |name: &str| {
        let mut command = Command::new(programs.join(name));
        if let Some((user, group)) = user {
            command.uid(user).gid(group);
        }
        command.current_dir(&data).env_remove("PGDATA").arg("-D").arg(&data);
        command
    };
    let made = program("initdb").args(["-A", "trust", "-U", "mlflow", "--no-sync"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = program("postgres");
    command.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
    Server::start(command, &folder.join("postgres.log"))
}

async fn wait_for(port: u16) {
    let started = Instant::now();
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(started.elapsed() < PATIENCE, "nothing listens at {port}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
