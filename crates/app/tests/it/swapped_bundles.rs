//! Bundles that are named over HTTP: what a hostile one cannot do, which secrets
//! of its address are hidden, and that a swap blocks no other request.

use crate::{
    access::{get, status},
    attacks::eventually,
    serve::{Service, promoted},
    workspace::Workspace,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Makes the bundle `evil` of the experiment with these changes.
pub fn evil(workspace: &Workspace, name: &str, change: impl Fn(&str) -> String) -> String {
    let before = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let changed = change(&before);
    assert_ne!(before, changed);
    workspace.write("experiment.toml", changed);
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", name]).succeeds();
    workspace.write("experiment.toml", before);
    json!({ "bundle": workspace.file(name).display().to_string() }).to_string()
}

/// Makes the bundle `code`, whose function leaves the file that is returned when
/// it runs. Also returns the body that names the bundle.
fn bundle_of_code(workspace: &Workspace) -> (PathBuf, String) {
    let proof = workspace.file("code-was-run");
    workspace.write(
        "own.py",
        format!("def rerank(question, passages):\n    open({proof:?}, 'w').close()\n    return [0] * len(passages)\n"),
    );
    let function = |text: &str| text.replace("[space]\n", "[space]\nreranker = [{ python = { file = \"own.py\" } }]\n");
    let body = evil(workspace, "code", function);
    std::fs::remove_file(&proof).unwrap();
    (proof, body)
}

/// The bundle with its function's settings as a list, which is read like a table,
/// and all digests made anew.
fn hidden_function(workspace: &Workspace, from: &str, name: &str) -> String {
    let (from, folder) = (workspace.file(from), workspace.file(name));
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(from.join("manifest.json")).unwrap()).unwrap();
    let code = |settings: &mut Value| {
        if let Some(fields) = settings.as_object() {
            let source = fields.get("source").or_else(|| fields.get("file")).cloned().unwrap();
            *settings = json!(["", source, "rerank"]);
        }
    };
    fn each(value: &mut Value, change: &dyn Fn(&mut Value)) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| each(value, change)),
            Value::Object(values) => {
                for (name, value) in values {
                    if name == "python" { change(value) } else { each(value, change) }
                }
            }
            _ => {}
        }
    }
    for file in manifest["files"].as_array_mut().unwrap() {
        let path = file["name"].as_str().unwrap().to_owned();
        let mut bytes = std::fs::read(from.join(&path)).unwrap();
        if path.ends_with("frozen.json") {
            let mut record: Value = serde_json::from_slice(&bytes).unwrap();
            each(&mut record["trials"], &code);
            let mut experiment: toml::Table = toml::from_str(record["experiment"].as_str().unwrap()).unwrap();
            let mut value = serde_json::to_value(&experiment).unwrap();
            each(&mut value, &code);
            experiment = serde_json::from_value(value).unwrap();
            record["experiment"] = toml::to_string(&experiment).unwrap().into();
            bytes = serde_json::to_vec(&record).unwrap();
        } else if path == "experiment.toml" {
            let mut value = serde_json::to_value(toml::from_slice::<toml::Table>(&bytes).unwrap()).unwrap();
            each(&mut value, &code);
            bytes = toml::to_string(&serde_json::from_value::<toml::Table>(value).unwrap()).unwrap().into_bytes();
        }
        file["bytes"] = bytes.len().into();
        file["blake3"] = store::Key::of_bytes(&bytes).hex().into();
        let to = folder.join(&path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
    sign(&folder, manifest);
    json!({ "bundle": folder.display().to_string() }).to_string()
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = std::fs::copy(entry.path(), target).unwrap(),
        }
    }
}

/// Writes a bundle's manifest with its digest made anew.
fn sign(folder: &Path, mut manifest: Value) {
    manifest["digest"] = "".into();
    manifest["digest"] = store::Key::of_bytes(&serde_json::to_vec(&manifest).unwrap()).hex().into();
    std::fs::write(folder.join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
}

/// Writes a bundle's manifest, changed, with its digest made anew.
fn forge(folder: &Path, change: impl Fn(&mut Value)) {
    let path = folder.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    sign(folder, manifest);
}

#[tokio::test]
async fn what_is_opened_is_what_was_checked() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let (proof, _) = bundle_of_code(&workspace);
    let run_of = |bundle: &str| {
        let manifest = std::fs::read(workspace.file(bundle).join("manifest.json")).unwrap();
        serde_json::from_slice::<Value>(&manifest).unwrap()["run"].as_str().unwrap().to_owned()
    };
    let record = |bundle: &str| workspace.file(bundle).join("store/runs").join(run_of(bundle));

    // The run's name leads to the record of another bundle, the checked one lies where its digest says.
    let elsewhere = workspace.file("elsewhere");
    copy(&workspace.file("bundle"), &elsewhere);
    let target = record("code");
    let inside = elsewhere.join("store/runs").join(target.strip_prefix("/").unwrap());
    copy(&record("bundle"), &inside);
    let target = target.display().to_string();
    forge(&elsewhere, |manifest| {
        let run = manifest["run"].as_str().unwrap().to_owned();
        for file in manifest["files"].as_array_mut().unwrap() {
            file["name"] =
                file["name"].as_str().unwrap().replace(&format!("runs/{run}/"), &format!("runs/{target}/")).into();
        }
        manifest["run"] = target.clone().into();
    });

    // The record is a pipe that holds another text each time that it is read.
    let pipe = workspace.file("pipe");
    copy(&workspace.file("bundle"), &pipe);
    let (frozen, clean) = (pipe.join("store/runs").join(run_of("bundle")).join("frozen.json"), record("bundle"));
    std::fs::remove_file(&frozen).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&frozen).status().unwrap().success());
    // The record is one that the manifest does not know.
    let unnamed = workspace.file("unnamed");
    copy(&workspace.file("code"), &unnamed);
    forge(&unnamed, |manifest| {
        manifest["files"]
            .as_array_mut()
            .unwrap()
            .retain(|file| !file["name"].as_str().unwrap().ends_with("frozen.json"));
    });
    assert!(clean.join("frozen.json").exists());
    // Its files lie elsewhere.
    let linked = workspace.file("linked");
    copy(&workspace.file("bundle"), &linked);
    std::fs::rename(linked.join("store"), workspace.file("moved-store")).unwrap();
    std::os::unix::fs::symlink(workspace.file("moved-store"), linked.join("store")).unwrap();
    // An index that the manifest does not know.
    let unlisted = workspace.file("unlisted");
    copy(&workspace.file("bundle"), &unlisted);
    forge(&unlisted, |manifest| {
        let files = manifest["files"].as_array_mut().unwrap();
        let is_artifact = |file: &Value| file["name"].as_str().unwrap().starts_with("store/artifacts/");
        let at = files.iter().position(is_artifact).unwrap();
        files.remove(at);
    });
    // A prompt that is read from where the service runs.
    let prompted = workspace.file("prompted");
    copy(&workspace.file("bundle"), &prompted);
    workspace.write("private.toml", "DB_PASSWORD = \"HUNTER2\"\n");
    let private = workspace.file("private.toml").display().to_string();
    let experiment = std::fs::read_to_string(prompted.join("experiment.toml")).unwrap();
    let changed = experiment.replace("[space]\n", &format!("[space]\nprompt = [{private:?}]\n"));
    assert_ne!(experiment, changed);
    std::fs::write(prompted.join("experiment.toml"), &changed).unwrap();
    forge(&prompted, |manifest| {
        let files = manifest["files"].as_array_mut().unwrap();
        let file = files.iter_mut().find(|file| file["name"] == "experiment.toml").unwrap();
        file["bytes"] = changed.len().into();
        file["blake3"] = store::Key::of_bytes(changed.as_bytes()).hex().into();
    });

    let service = Service::start(&workspace, &["bundle"]);
    for (bundle, reason) in [
        (&elsewhere, "no name of a run"),
        (&pipe, "regular file"),
        (&unnamed, "has no store/runs/"),
        (&linked, "leads through the link"),
        (&unlisted, "has no store/artifacts/"),
        (&prompted, "is not in the bundle"),
    ] {
        let swap = service.post("/admin/swap", &json!({ "bundle": bundle.display().to_string() })).await;
        let (status, told) = (swap.status().as_u16(), swap.text().await.unwrap());
        assert!(status == 400 && told.contains(reason), "{reason}: {status} {told}");
        assert!(!told.contains("DB_PASSWORD"), "{told}");
    }
    let address = format!("file://{}", workspace.file("bundle").display());
    let swap = service.post("/admin/swap", &json!({ "bundle": address })).await;
    let (status, told) = (swap.status().as_u16(), swap.text().await.unwrap());
    assert!(status == 400 && told.contains("name it by its path"), "{status} {told}");
    for run in ["../runs/x", "x/", "x/.", "./x", ""] {
        forge(&unnamed, |manifest| manifest["run"] = run.into());
        let swap = service.post("/admin/swap", &json!({ "bundle": unnamed.display().to_string() })).await;
        assert_eq!(swap.status().as_u16(), 400, "{run}");
    }
    assert_eq!(get(&service, "/rag/retrieve?query=owls", &[]).await, 200);
    assert!(!proof.exists(), "no code was run");
}

#[tokio::test]
async fn a_journal_beside_the_files_of_a_bundle_is_not_opened() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let folder = workspace.file("journalled");
    copy(&workspace.file("bundle"), &folder);
    let store = folder.join("store");
    let journal = store::Journal::open(store.join("journal.db")).unwrap();
    drop(journal);
    std::fs::write(store.join("journal.db-wal"), "").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(store.join("journal.replacement")).status().unwrap().success());
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let service = Service::start(&workspace, &["bundle"]);
    let body = json!({ "bundle": folder.display().to_string() });
    let swap = tokio::time::timeout(Duration::from_secs(120), service.post("/admin/swap", &body))
        .await
        .expect("no pipe is opened");
    assert_eq!(swap.status().as_u16(), 200, "{}", swap.text().await.unwrap());
    assert_eq!(get(&service, "/rag/retrieve?query=owls", &[]).await, 200);
    assert_eq!(names(), before, "nothing is written beside it");
}

#[tokio::test]
async fn a_secret_in_the_address_of_a_bundle_is_told_to_nobody() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::logging(&workspace, &["bundle"]);
    for address in [
        "s3://bucket/x?sig=HUNTER2",
        "s3://u:HUNTER2@bucket/x",
        "https://h.invalid/x#HUNTER2",
        "https:/u:HUNTER2@h",
        "u:HUNTER2@host:/p",
        "s3:/b/x?sig=HUNTER2",
        "token=HUNTER2@h://x",
        "data:text,HUNTER2",
    ] {
        let swap = service.post("/admin/swap", &json!({ "bundle": address })).await;
        let (status, told) = (swap.status().as_u16(), swap.text().await.unwrap());
        assert!(status >= 400 && !told.contains("HUNTER2"), "{address}: {status} {told}");
    }
    let status = service.get("/admin/status").await.text().await.unwrap();
    assert!(!status.contains("HUNTER2"), "{status}");
    let said = async || std::fs::read_to_string(workspace.file("serve.err")).unwrap();
    eventually("all are noted", async || said().await.matches("\"action\":\"swap\"").count() == 8).await;
    assert!(!said().await.contains("HUNTER2"), "{}", said().await);
    assert!(said().await.contains("\"id\":\"req-"), "{}", said().await);
}

#[tokio::test]
async fn a_bundle_that_is_named_over_http_brings_no_code_no_variable_and_no_host() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let (proof, code) = bundle_of_code(&workspace);
    let variable = evil(&workspace, "variable", |text| {
        text.replace("concurrency = 1", "concurrency = 1, headers = { x = \"env:PATH\" }")
    });
    let host = evil(&workspace, "host", |text| text.replace("127.0.0.1", "localhost"));
    let same = evil(&workspace, "same", |text| text.replace("top_k = 2", "top_k = 1"));
    let hidden = hidden_function(&workspace, "code", "hidden");

    let service = Service::start(&workspace, &["bundle"]);
    let json = [("content-type", "application/json")];
    let post = async |service: &Service, path: &str, body: &str| {
        let request = service.client.post(format!("{}{path}", service.url)).header("content-type", "application/json");
        let response = request.body(body.to_owned()).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    for (bundle, reason) in [(&code, "code"), (&hidden, "code"), (&variable, "`PATH`"), (&host, "localhost")] {
        let (status, told) = post(&service, "/admin/swap", bundle).await;
        assert!(status == 400 && told.contains(reason), "{status} {told}");
        let candidate = json!({ "bundle": serde_json::from_str::<Value>(bundle).unwrap()["bundle"], "share": 1.0 });
        let (status, told) = post(&service, "/admin/candidate", &candidate.to_string()).await;
        assert!(status == 400 && told.contains(reason), "{status} {told}");
    }
    assert_eq!(get(&service, "/rag/retrieve?query=owls", &[]).await, 200);
    assert!(!proof.exists(), "no code was run");
    assert_eq!(status(&service, "POST", "/admin/swap", &json, &same).await, 200);

    let willing = Service::start(&workspace, &["bundle", "--allow-functions", "--allow-other-models"]);
    for bundle in [&variable, &host] {
        assert_eq!(status(&willing, "POST", "/admin/swap", &json, bundle).await, 200);
    }
    assert_eq!(status(&willing, "POST", "/admin/swap", &json, &code).await, 200);
    assert_eq!(get(&willing, "/rag/retrieve?query=owls", &[]).await, 200);
    assert!(proof.exists());

    let allowed = workspace.file("bundles");
    std::fs::create_dir(&allowed).unwrap();
    std::fs::rename(workspace.file("same"), allowed.join("same")).unwrap();
    let listed = Service::start(&workspace, &["bundle", "--bundles-from", "bundles"]);
    for path in [workspace.file("bundle"), "/etc".into(), "/nowhere".into(), allowed.join("../bundle")] {
        let (status, told) = post(&listed, "/admin/swap", &json!({ "bundle": path }).to_string()).await;
        assert!(status == 400 && told.contains("bundles are opened from"), "{status} {told}");
    }
    let inside = json!({ "bundle": allowed.join("same") }).to_string();
    assert_eq!(status(&listed, "POST", "/admin/swap", &json, &inside).await, 200);
}

/// The variables with which a service uses this object store.
fn variables_of(store: &str) -> [(&str, &str); 4] {
    let [key, secret] = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
    [("AWS_ENDPOINT_URL", store), key, secret, ("AWS_REGION", "r")]
}

/// An object store that says nothing until it is released, and then that
/// nothing is there.
async fn silent_store() -> (String, tokio::sync::watch::Sender<bool>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (release, released) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut released = released.clone();
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while connection.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                    if released.wait_for(|released| *released).await.is_err() {
                        return;
                    }
                    let _ = connection.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
                }
            });
        }
    });
    (url, release)
}

/// An object store in which every object has no end, whatever it says of its size; and how many bytes it has sent.
async fn endless_store() -> (String, Arc<AtomicU64>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicU64::new(0));
    let counter = sent.clone();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let counter = counter.clone();
            tokio::spawn(async move {
                let (mut request, piece) = ([0; 4096], vec![b' '; 1 << 16]);
                let read = connection.read(&mut request).await.unwrap_or_default();
                let is_head = request[..read].starts_with(b"HEAD");
                let length: u64 = if is_head { 100 } else { 1 << 40 };
                let date = "Wed, 25 Nov 2026 00:00:00 GMT";
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nlast-modified: {date}\r\netag: \"1\"\r\n\r\n"
                );
                let _ = connection.write_all(head.as_bytes()).await;
                while !is_head && connection.write_all(&piece).await.is_ok() {
                    counter.fetch_add(piece.len() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    (url, sent)
}

#[tokio::test]
async fn of_an_object_store_that_sends_without_end_no_more_is_read_than_a_manifest_may_have() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let (store, sent) = endless_store().await;
    let service = Service::start_with(&workspace, &["bundle"], &variables_of(&store));
    let swap = service.post("/admin/swap", &json!({ "bundle": "s3://bucket/endless" })).await;
    let (status, told) = (swap.status().as_u16(), swap.text().await.unwrap());
    assert!(status == 400 && told.contains("manifest.json has more than 16777216 bytes"), "{status} {told}");
    // What the two systems hold between them comes on top.
    let sent = sent.load(Ordering::Relaxed);
    assert!((16 << 20..128 << 20).contains(&sent), "{sent} bytes were sent");
}

#[tokio::test]
async fn a_swap_goes_on_without_its_client_and_holds_up_nobody() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let (store, release) = silent_store().await;
    let service = Service::start_with(&workspace, &["bundle"], &variables_of(&store));
    let swap = |bundle: &str| {
        let body = json!({ "bundle": bundle });
        service.client.post(format!("{}/admin/swap", service.url)).json(&body)
    };
    let opening = async || service.json("/admin/status").await["opening"].clone();
    assert_eq!(opening().await, Value::Null);
    // A client that leaves while the store says nothing.
    let leaves = swap("s3://bucket/far").send();
    tokio::select! {
        _ = leaves => panic!("the store said nothing"),
        () = eventually("it is being opened", async || opening().await["bundle"] == "s3://bucket/far") => {}
    }
    let bundle = workspace.file("bundle").display().to_string();
    let refused = swap(&bundle).send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 409);
    let secret = "s3://bucket/near?sig=SECRET-SIGNATURE";
    assert_eq!(swap(secret).send().await.unwrap().status().as_u16(), 409);
    assert!(refused.text().await.unwrap().contains("s3://bucket/far is being opened"));
    let dropped = service.client.delete(format!("{}/admin/candidate", service.url)).send().await.unwrap();
    assert_eq!(dropped.status().as_u16(), 404, "there is no candidate, which is told at once");
    assert_eq!(opening().await["until"], Value::Null);
    release.send(true).unwrap();
    eventually("it has ended", async || opening().await["until"].is_u64()).await;
    assert!(opening().await["outcome"].as_str().unwrap().contains("what was served before is served still"));
    assert_eq!(swap(&bundle).send().await.unwrap().status().as_u16(), 200);
    assert_eq!(opening().await["outcome"], "done");
}
