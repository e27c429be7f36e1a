//! Servers that tests need beside the binary, from where `make test` puts
//! them: `REVERIE_TEST_SERVICES` names that folder. A test whose server is not
//! there says so and is skipped.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};
use store::ArtifactStore;

pub const KEY: &str = "testkey";
pub const SECRET: &str = "secret-planted-0123456789abcdef";

/// Where a server's program is, if the servers are installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("REVERIE_TEST_SERVICES") else {
        skips::skip(&format!("REVERIE_TEST_SERVICES names no folder with {name}; `make test` puts one there"));
        return None;
    };
    let path = PathBuf::from(folder).join("bin").join(name);
    assert!(path.is_file(), "{} is missing: run `make services`", path.display());
    Some(path)
}

/// An S3 server (SeaweedFS) of one test, with one bucket: `bucket`.
pub struct S3 {
    program: PathBuf,
    folder: tempfile::TempDir,
    ports: Vec<u16>,
    process: Child,
}

impl S3 {
    /// Starts a server on free ports; none, if it is not installed.
    pub async fn start() -> Option<Self> {
        let program = program("weed")?;
        let mut folder = tempfile::tempdir().unwrap();
        let identity = serde_json::json!({ "identities": [{
            "name": "test", "credentials": [{ "accessKey": KEY, "secretKey": SECRET }],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }] });
        std::fs::write(folder.path().join("s3.json"), identity.to_string()).unwrap();
        for attempt in 1.. {
            let ports = free_ports(9);
            let process = spawn(&program, &folder, &ports);
            let mut server = Self { program: program.clone(), folder, ports, process };
            // The first object makes the bucket. It fails where somebody else listens at the port.
            if server.is_up().await && server.store("s3://bucket/first").put("object", "").await.is_ok() {
                return Some(server);
            }
            // Somebody was faster at one of the ports.
            assert!(attempt < 5, "the S3 server does not start");
            folder = std::mem::replace(&mut server.folder, tempfile::tempdir().unwrap());
        }
        None
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again where it was. Another test may have taken one of its ports in the meantime, for a moment.
    pub async fn start_again(&mut self) {
        for attempt in 1.. {
            self.process = spawn(&self.program, &self.folder, &self.ports);
            if self.is_up().await {
                return;
            }
            assert!(attempt < 100, "the S3 server does not start again");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// What a store at a URL is opened with.
    pub fn store(&self, url: &str) -> ArtifactStore {
        let options = [
            ("aws_access_key_id", KEY.to_owned()),
            ("aws_secret_access_key", SECRET.to_owned()),
            ("aws_endpoint_url", self.endpoint()),
        ];
        ArtifactStore::open(url, &options.map(|(name, value)| (name.to_owned(), value)), lab::layout::LAYOUT).unwrap()
    }

    /// A command that finds this server, and no other.
    pub fn known_to(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.env("AWS_ENDPOINT_URL", self.endpoint());
        command
    }

    async fn is_up(&mut self) -> bool {
        for _ in 0..6000 {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if tokio::net::TcpStream::connect(("127.0.0.1", self.ports[0])).await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // It may be stopped already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(program: &PathBuf, folder: &tempfile::TempDir, ports: &[u16]) -> Child {
    let names = [
        "s3.port",
        "s3.port.grpc",
        "master.port",
        "master.port.grpc",
        "volume.port",
        "volume.port.grpc",
        "filer.port",
        "filer.port.grpc",
        "s3.port.lance",
    ];
    let mut command = Command::new(program);
    command.args(["server", "-dir=.", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-s3.config=s3.json"]);
    command.args(["-s3.port.iceberg=0", "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=100"]);
    command.arg(format!("-filer.localSocket={}", folder.path().join("filer.sock").display()));
    command.args(names.iter().zip(ports).map(|(name, port)| format!("-{name}={port}")));
    let log = std::fs::File::create(folder.path().join("log.txt")).unwrap();
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().unwrap()
}

pub fn free_ports(n: usize) -> Vec<u16> {
    let bound: Vec<TcpListener> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    bound.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
