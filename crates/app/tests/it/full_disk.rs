//! A disk that is full, before a run, in the midst of it and at any moment: nothing is paid that cannot be kept, what is
//! on its way is kept if that is possible, and the next run pays for nothing that was kept.

use crate::{
    attacks::PATIENCE,
    judge::Words,
    serve::{QUESTION, Service, promoted},
    workspace::{Outcome, Workspace},
};
use simulator::{LatencyModel, RunningSimulator, SimulatorSettings, Stats};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

const CONCURRENCY: u64 = 8;
/// What every message about a full disk says.
const ADVICE: &str = "free space there and run again";

async fn provider(answer_tokens: u64) -> RunningSimulator {
    let latency = LatencyModel::Uniform { shortest: 0.002, longest: 0.01 };
    simulator::start(SimulatorSettings { latency, answer_tokens, ..SimulatorSettings::default() }).await.unwrap()
}

/// Four questions times `times`, each answered with so many tokens by the provider.
fn workspace(provider: &RunningSimulator, times: usize, answer_tokens: u64, store: &Path) -> Workspace {
    let workspace = Workspace::new();
    workspace.multiply_questions(times);
    let space = format!(
        "chunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]\nretriever = [{{ bm25 = {{ top_k = 2 }} }}]\n\
         generator = [{{ compact = {{ model = \"gpt\", max_tokens = {answer_tokens} }} }}]"
    );
    workspace.experiment(&space, &format!("[dataset]\npath = \"golden.jsonl\"\n{}", model(provider)));
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write(
        "experiment.toml",
        text.replace("store = \"store\"", &format!("store = {:?}", store.display().to_string())),
    );
    workspace
}

fn model(provider: &RunningSimulator) -> String {
    let price = "price = { input = 1.0, output = 1.0 }";
    let url = &provider.url;
    format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{url}/v1\", concurrency = {CONCURRENCY}, \
         context_length = 200000, {price} }}\n"
    )
}

/// A command that gets an error, instead of a signal, when a file grows beyond its limit: so many KiB.
fn limited(workspace: &Workspace, kib: Option<u64>, arguments: &[&str]) -> Command {
    let plain = workspace.command(arguments);
    let limit = kib.map_or_else(String::new, |kib| format!("ulimit -S -f {kib}; "));
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("trap '' XFSZ; {limit}exec \"$0\" \"$@\"")).arg(plain.get_program());
    command.args(plain.get_args()).current_dir(workspace.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn run_limited(workspace: &Workspace, kib: Option<u64>, arguments: &[&str]) -> Outcome {
    Outcome::of(limited(workspace, kib, arguments).output().unwrap())
}

/// From now on a process may write no file beyond so many bytes; without a number, as it likes.
fn set_limit(process: &Child, bytes: Option<u64>) {
    let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    let arguments = ["--pid".to_owned(), process.id().to_string(), format!("--fsize={limit}:")];
    // It may be over already.
    let _ = Command::new("prlimit").args(arguments).stderr(Stdio::null()).status();
}

fn has_prlimit() -> bool {
    let there =
        Command::new("prlimit").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !there {
        skips::skip("there is no `prlimit`, which limits a running process");
    }
    there
}

fn kept(store: &Path) -> u64 {
    let journal = store::Journal::open(store.join(store::Journal::FILE)).unwrap();
    assert!(journal.verify().unwrap().is_empty());
    journal.statistics().unwrap().entries
}

/// How many calls were paid twice.
fn twice(stats: &Stats) -> u64 {
    stats.answered - stats.unique_answered
}

/// How many answers an error says are lost.
fn lost(error: &str) -> u64 {
    let words: Vec<&str> = error.split_whitespace().collect();
    let at = words.windows(3).position(|three| three == ["paid", "answers", "could"]);
    at.map_or(0, |at| words[at - 1].parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_for_answers_nothing_is_paid() {
    let provider = provider(8).await;
    let folder = tempfile::tempdir().unwrap();
    let workspace = workspace(&provider, 150, 8, folder.path());
    let first = run_limited(&workspace, Some(160), &["run"]).ends_with(1);
    assert!(first.err.contains(ADVICE) && first.err.contains("journal.reserve"), "{}", first.err);
    assert_eq!(provider.stats().answered, 0, "the space is looked at before the first call");
    run_limited(&workspace, None, &["run", "--quiet"]).succeeds();
    let stats = provider.stats();
    println!(
        "600 calls, ulimit -f 160: first run 0 paid, 0 kept; second run {} paid, {} twice",
        stats.answered,
        twice(&stats)
    );
    assert_eq!((stats.answered, twice(&stats)), (600, 0));
    assert!(!folder.path().join("journal.reserve").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_may_not_grow_ends_the_run_within_the_calls_in_flight() {
    let provider = provider(4000).await;
    let folder = tempfile::tempdir().unwrap();
    let workspace = workspace(&provider, 150, 4000, folder.path());
    let first = run_limited(&workspace, Some(4500), &["run"]).ends_with(1);
    let (paid, kept) = (provider.stats().answered, kept(folder.path()));
    assert!(first.err.contains(ADVICE) && !first.err.contains("generate: done, 600 rows"), "{}", first.err);
    assert!(paid < 600 && paid - kept <= CONCURRENCY, "{paid} paid, {kept} kept");
    assert_eq!(lost(&first.err), paid - kept, "{}", first.err);
    run_limited(&workspace, None, &["run", "--quiet"]).succeeds();
    let stats = provider.stats();
    println!(
        "600 calls, ulimit -f 4500: first run {paid} paid, {kept} kept; second run {} paid, {} twice",
        stats.answered - paid,
        twice(&stats)
    );
    assert_eq!((stats.unique_answered, twice(&stats)), (600, paid - kept));
}

/// A file system of its own, of so many MB.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(megabytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(folder.path());
        if command.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        skips::skip("a small file system cannot be mounted here: that needs root");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn resize(&self, megabytes: u64) {
        let size = format!("remount,size={megabytes}m");
        assert!(Command::new("mount").args(["-o", &size]).arg(self.path()).status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_file_system_the_answers_on_their_way_find_the_reserved_space() {
    let Some(disk) = Mounted::new(12) else { return };
    let provider = provider(4000).await;
    let store = disk.path().join("store");
    let workspace = workspace(&provider, 150, 4000, &store);
    let first = workspace.run(&["run"]).ends_with(1);
    assert!(first.err.contains(ADVICE), "{}", first.err);
    let paid = provider.stats().answered;
    assert!((1..600).contains(&paid), "{paid}");
    assert_eq!(kept(&store), paid, "{}", first.err);
    assert_eq!(lost(&first.err), 0);
    disk.resize(200);
    workspace.run(&["run", "--quiet"]).succeeds();
    let stats = provider.stats();
    println!(
        "600 calls on a full tmpfs: first run {paid} paid, {paid} kept; second run {} paid",
        stats.answered - paid
    );
    assert_eq!((stats.answered, twice(&stats)), (600, 0));
    workspace.run(&["store", "verify"]).succeeds();
}

/// Starts a command whose standard error can be watched.
fn start(mut command: Command) -> (Child, std::sync::mpsc::Receiver<String>) {
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (said, lines) = std::sync::mpsc::channel();
    let pipe = BufReader::new(process.stderr.take().unwrap());
    std::thread::spawn(move || pipe.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
    (process, lines)
}

/// Waits until so many calls are answered, in a process that goes on.
async fn answered(
    process: &mut Child,
    lines: &std::sync::mpsc::Receiver<String>,
    n: u64,
    count: impl AsyncFn() -> u64,
) {
    while count().await < n {
        let is_over = process.try_wait().unwrap().is_some();
        assert!(!is_over, "it ended before: {:?}", if is_over { lines.iter().collect() } else { Vec::new() });
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until a command ends. If it waits for space, it gets some, or none and Ctrl-C.
fn end(mut process: Child, lines: &std::sync::mpsc::Receiver<String>, gives_space: bool) -> (Option<i32>, String) {
    let mut said = String::new();
    while let Ok(line) = lines.recv() {
        if line.contains("until there is space") && gives_space {
            set_limit(&process, None);
        } else if line.contains("until there is space") {
            Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
        }
        said.push_str(&line);
        said.push('\n');
    }
    (process.wait().unwrap().code(), said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_fifty_moments_of_a_run_a_full_disk_costs_at_most_the_calls_in_flight() {
    if !has_prlimit() {
        return;
    }
    let (mut ended, mut n_lost, mut held) = (0, 0, 0);
    // On a busy machine a run may end before its disk is full: then more moments are tried.
    let (begun, mut n_moments) = (Instant::now(), 0);
    while n_moments < 50 || ((ended < 10 || held == 0) && begun.elapsed() < PATIENCE) {
        let moment = n_moments;
        n_moments += 1;
        let provider = provider(16).await;
        let folder = tempfile::tempdir().unwrap();
        let workspace = workspace(&provider, 10, 16, folder.path());
        let (process, lines) = start(limited(&workspace, None, &["run"]));
        // Spread over the run: before the first call, in its midst, after its last.
        let calls = (moment * 17) % 42;
        let mut lines_before = String::new();
        while provider.stats().answered < calls {
            match lines.recv_timeout(Duration::from_millis(1)) {
                Ok(line) => lines_before.push_str(&format!("{line}\n")),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        // Even a byte is too much for any file.
        set_limit(&process, Some(1));
        let (code, said) = end(process, &lines, moment % 2 == 0);
        let said = lines_before + &said;
        let paid = provider.stats().answered;
        let kept = kept(folder.path());
        let lost = lost(&said);
        assert!(code == Some(0) || said.contains(ADVICE), "moment {moment}: {code:?} {said}");
        assert!(paid - kept <= CONCURRENCY && lost == paid - kept, "moment {moment}: {paid} paid, {kept} kept: {said}");
        if said.contains("until there is space") && moment % 2 == 0 {
            held += 1;
            assert_eq!(lost, 0, "moment {moment}: there was space in time: {said}");
        }
        if moment % 2 == 1 && code != Some(0) {
            assert!(
                said.contains("missing in") && said.contains("events.jsonl"),
                "moment {moment}: no event fits: {said}"
            );
        }
        (ended, n_lost) = (ended + u64::from(code != Some(0)), n_lost + lost);
        let second = workspace.run(&["run"]).succeeds();
        let stats = provider.stats();
        assert_eq!((stats.unique_answered, twice(&stats)), (40, lost), "moment {moment}: {said}\n{}", second.err);
    }
    println!(
        "{n_moments} moments: {ended} runs ended early, {n_lost} answers lost in all; {held} waited for space and lost none"
    );
    assert!(ended >= 10 && held > 0, "{ended} runs met the full disk, {held} waited for space");
}

/// Judges by words after 100 ms, so that the disk is full before all answers are judged.
struct SlowWords;

impl Respond for SlowWords {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        Words.respond(request).set_delay(Duration::from_millis(100))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generating_questions_and_scoring_end_in_the_same_way() {
    if !has_prlimit() {
        return;
    }
    let provider = provider(16).await;
    let folder = tempfile::tempdir().unwrap();
    let workspace = workspace(&provider, 1, 16, folder.path());
    for i in 0..30 {
        let text = format!(
            "Bees of hive {i} that have found food dance on the comb in the dark. The angle of the dance tells the direction \
             of the flowers against the sun. Its length tells the others of hive {i} how far away the flowers are. In this \
             way they lose no time with searching, and they bring home honey for {i} winters.\n"
        );
        workspace.write(&format!("documents/bees-{i}.txt"), text);
    }
    let generate = ["golden", "generate", "--model", "gpt", "--size", "40", "--output", "made.jsonl", "--yes"];
    let before = provider.stats().answered;
    let (mut process, lines) = start(limited(&workspace, None, &generate));
    answered(&mut process, &lines, before + 3, async || provider.stats().answered).await;
    set_limit(&process, Some(1));
    // Nothing tells it that there is space, so it waits for some seconds.
    let (code, said) = end(process, &lines, false);
    let (paid, kept_then) = (provider.stats().answered, kept(folder.path()));
    assert!(code == Some(1) && said.contains(ADVICE), "{said}");
    assert!(
        paid - kept_then <= CONCURRENCY && lost(&said) == paid - kept_then,
        "{paid} paid, {kept_then} kept: {said}"
    );
    assert!(!workspace.file("made.jsonl").exists());

    let server = crate::endpoint::start_with(SlowWords).await;
    let rows: String = (0..60)
        .map(|i| format!("{{\"user_input\": \"When do {i} owls hunt?\", \"response\": \"{i} owls hunt at night.\", \"retrieved_contexts\": [\"Owls hunt at night.\"]}}\n"))
        .collect();
    workspace.write("rows.jsonl", rows);
    let judge = format!(
        "[models.judge]\nchat.openai = {{ model = \"judge\", base_url = \"{}/v1\", omit = [\"logprobs\"], concurrency = 2 }}\n",
        server.uri()
    );
    workspace.write(
        "scoring.toml",
        format!("store = \"scored\"\n{judge}[evaluate]\nmetrics = [\"faithfulness\"]\njudge = \"judge\"\n"),
    );
    let (mut process, lines) = start(limited(&workspace, None, &["score", "rows.jsonl", "-f", "scoring.toml"]));
    answered(&mut process, &lines, 5, async || crate::endpoint::asked(&server).await.len() as u64).await;
    set_limit(&process, Some(1));
    let (code, said) = end(process, &lines, false);
    let asked = crate::endpoint::asked(&server).await.len() as u64;
    let kept_then = kept(&workspace.file("scored"));
    assert!(code == Some(1) && said.contains(ADVICE), "{code:?} {said}");
    assert!(asked < 120 && asked - kept_then <= 2, "{asked} paid, {kept_then} kept");
    workspace.run(&["score", "rows.jsonl", "-f", "scoring.toml", "--quiet"]).succeeds();
    let all = crate::endpoint::asked(&server).await;
    let different: std::collections::HashSet<&String> = all.iter().collect();
    assert!((all.len() - different.len()) as u64 <= asked - kept_then, "paid twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_whose_traffic_file_is_full_answers_on_and_tells_it_once() {
    if !has_prlimit() {
        return;
    }
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let traffic = workspace.file("traffic.jsonl");
    let arguments = ["bundle", "--traffic", traffic.to_str().unwrap(), "--traffic-share", "1", "--admin-without-key"];
    // The limit is set later, when the signal would end a process that does not ignore it.
    let mut command =
        limited(&workspace, None, &[&["serve", "--listen", "127.0.0.1:0", "--json"], &arguments[..]].concat());
    let said = std::fs::File::create(workspace.file("serve.err")).unwrap();
    let mut process = command.stdout(Stdio::piped()).stderr(said).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = told["url"].as_str().unwrap().to_owned();
    store::choose_cryptography();
    let service = Service { process, url, client: reqwest::Client::new() };
    let lines = || std::fs::read_to_string(&traffic).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let ask = async |number: usize| {
        let response = service.get(&format!("/rag/answer?query={QUESTION} ({number})")).await;
        assert_eq!(response.status(), reqwest::StatusCode::OK);
    };
    let counted = async |kind: &str| {
        let text = service.get("/metrics").await.text().await.unwrap();
        let line =
            text.lines().find(|line| line.starts_with("reverie_sampled") && line.contains(&format!("\"{kind}\"")));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let until = async |kind: &str, n: u64| {
        for _ in 0..600 {
            if counted(kind).await >= n {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{n} answers are never counted as {kind}");
    };
    ask(0).await;
    until("kept", 1).await;
    // The next line fits by half.
    let length = std::fs::metadata(&traffic).unwrap().len();
    set_limit(&service.process, Some(length + length / 2));
    for number in 1..11 {
        ask(number).await;
    }
    until("not_written", 10).await;
    assert_eq!(std::fs::metadata(&traffic).unwrap().len(), length, "no torn line stays");
    set_limit(&service.process, None);
    for number in 11..16 {
        ask(number).await;
    }
    until("kept", 6).await;
    let lines = lines();
    assert_eq!(lines.len(), 6);
    assert!(lines.iter().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{lines:?}");
    drop(service);
    let mut said = String::new();
    std::fs::File::open(workspace.file("serve.err")).unwrap().read_to_string(&mut said).unwrap();
    // An operator sees the beginning and the end of it.
    assert_eq!(said.matches("cannot be written, answers go on").count(), 1, "{said}");
    assert_eq!(said.matches("is written again; 10 answers are missing").count(), 1, "{said}");
}

/// A bucket behind S3's protocol, as far as a run needs it, which can be full.
#[derive(Clone, Default)]
struct Bucket(Arc<BucketState>);

#[derive(Default)]
struct BucketState {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    is_full: AtomicBool,
    n_refused: AtomicUsize,
}

const MODIFIED: &str = "Tue, 24 Nov 2026 10:00:00 GMT";

impl Respond for Bucket {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut objects = self.0.objects.lock().unwrap();
        let name = request.url.path().trim_start_matches("/bucket").trim_start_matches('/').replace("%23", "#");
        let found = |bytes: &Vec<u8>| {
            let found =
                ResponseTemplate::new(200).insert_header("etag", "\"1\"").insert_header("last-modified", MODIFIED);
            found.insert_header("content-length", bytes.len().to_string()).set_body_bytes(bytes.clone())
        };
        let missing = || ResponseTemplate::new(404).set_body_string("<Error><Code>NoSuchKey</Code></Error>");
        let query: BTreeMap<_, _> = request.url.query_pairs().into_owned().collect();
        match request.method.as_str() {
            "GET" if query.contains_key("list-type") => {
                let prefix = query.get("prefix").cloned().unwrap_or_default();
                let listed = objects.iter().filter(|(name, _)| name.starts_with(&prefix)).map(|(name, bytes)| {
                    format!(
                        "<Contents><Key>{name}</Key><LastModified>2026-11-24T10:00:00.000Z</LastModified>\
                         <ETag>\"1\"</ETag><Size>{}</Size></Contents>",
                        bytes.len()
                    )
                });
                let listed: String = listed.collect();
                ResponseTemplate::new(200).set_body_string(format!(
                    "<?xml version=\"1.0\"?><ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"
                ))
            }
            "GET" | "HEAD" => objects.get(&name).map_or_else(missing, found),
            "PUT" if request.headers.contains_key("if-none-match") && objects.contains_key(&name) => {
                ResponseTemplate::new(412)
            }
            "PUT" if self.0.is_full.load(Relaxed) => {
                self.0.n_refused.fetch_add(1, Relaxed);
                ResponseTemplate::new(507).set_body_string("<Error><Code>InsufficientStorage</Code></Error>")
            }
            "PUT" => {
                objects.insert(name, request.body.clone());
                ResponseTemplate::new(200).insert_header("etag", "\"1\"")
            }
            "DELETE" => {
                objects.remove(&name);
                ResponseTemplate::new(204)
            }
            "POST" if query.contains_key("delete") => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
                keys.for_each(|key| _ = objects.remove(key));
                ResponseTemplate::new(200).set_body_string("<DeleteResult></DeleteResult>")
            }
            _ => ResponseTemplate::new(400),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_store_that_is_full_ends_the_run_soon_and_loses_no_answer() {
    let (bucket, server) = (Bucket::default(), MockServer::start().await);
    Mock::given(any()).respond_with(bucket.clone()).mount(&server).await;
    let provider = provider(16).await;
    let folder = tempfile::tempdir().unwrap();
    let workspace = workspace(&provider, 10, 16, folder.path());
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let place = format!("store = {:?}", folder.path().display().to_string());
    workspace.write("experiment.toml", text.replace(&place, "store = \"s3://bucket/x\""));
    let command = || {
        let mut command = workspace.command(&["run"]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret").env("AWS_REGION", "eu-1");
        command.env("AWS_ENDPOINT_URL", server.uri());
        command
    };
    let (mut process, lines) = start(command());
    answered(&mut process, &lines, 5, async || provider.stats().answered).await;
    bucket.0.is_full.store(true, Relaxed);
    let (code, said) = end(process, &lines, false);
    assert!(code == Some(1) && said.contains(ADVICE) && said.contains("s3://bucket/x"), "{code:?} {said}");
    assert!(said.contains("507"), "{said}");
    let paid = provider.stats().answered;
    assert_eq!(kept(&workspace.file(".reverie")), paid, "every paid answer waits in the file of this machine");
    // A store that is away is asked for a minute and a half; one that is full says so at once.
    assert!(bucket.0.n_refused.load(Relaxed) < 60, "{} requests", bucket.0.n_refused.load(Relaxed));

    bucket.0.is_full.store(false, Relaxed);
    Outcome::of(command().output().unwrap()).succeeds();
    let stats = provider.stats();
    assert_eq!((stats.unique_answered, twice(&stats)), (40, 0));
    let calls = bucket.0.objects.lock().unwrap().keys().filter(|name| name.starts_with("x/journal/")).count();
    assert_eq!(calls, 40, "all answers are in the store, also those that waited");
}
