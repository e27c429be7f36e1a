//! Runs that are killed within a task, that run at the same time, and that
//! nobody watches.

use crate::workspace::{Outcome, Workspace};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::path_regex};

/// Texts that were embedded, and how often.
type Counts = Arc<Mutex<BTreeMap<String, usize>>>;

/// An embedding model behind an endpoint: each call takes `delay`. Once `most_texts` are embedded, further calls are
/// refused, and a run tries them again until a test raises the number.
struct Slow {
    delay: Duration,
    counts: Counts,
    most_texts: Arc<AtomicUsize>,
}

impl Respond for Slow {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let texts: Vec<String> = serde_json::from_value(body["input"].clone()).unwrap();
        let mut counts = self.counts.lock().unwrap();
        if counts.values().sum::<usize>() >= self.most_texts.load(SeqCst) {
            let refusal = json!({ "error": { "message": "slow down", "code": "rate_limit_exceeded" } });
            return ResponseTemplate::new(429).insert_header("retry-after", "0.1").set_body_json(refusal);
        }
        let mut data = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            *counts.entry(text.clone()).or_default() += 1;
            let sum = text.bytes().map(u32::from).sum::<u32>();
            let vector = [1.0, f64::from(sum % 97), f64::from(sum % 89), text.len() as f64 % 7.0];
            data.push(json!({ "object": "embedding", "index": i, "embedding": vector }));
        }
        let usage = json!({ "prompt_tokens": 1, "total_tokens": 1 });
        ResponseTemplate::new(200)
            .set_delay(self.delay)
            .set_body_json(json!({ "object": "list", "data": data, "model": body["model"], "usage": usage }))
    }
}

const BATCH: usize = 8;

async fn endpoint(delay: Duration) -> (MockServer, Counts) {
    let (server, counts, _) = endpoint_with_limit(delay).await;
    (server, counts)
}

/// The same, with the number of texts that it embeds before it refuses calls.
async fn endpoint_with_limit(delay: Duration) -> (MockServer, Counts, Arc<AtomicUsize>) {
    let (server, counts) = (MockServer::start().await, Counts::default());
    let most_texts = Arc::new(AtomicUsize::new(usize::MAX));
    let slow = Slow { delay, counts: counts.clone(), most_texts: most_texts.clone() };
    Mock::given(path_regex("/embeddings$")).respond_with(slow).mount(&server).await;
    Mock::given(path_regex("/models$"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({ "object": "list", "data": [] })))
        .mount(&server)
        .await;
    (server, counts, most_texts)
}

/// One document that is cut into so many chunks, so that it is one task.
fn workspace(server: &MockServer, chunks: usize) -> Workspace {
    let workspace = Workspace::new();
    let lines: Vec<String> =
        (0..chunks).map(|i| format!("Paragraph number {i} tells of thing {}.", i * 7919)).collect();
    workspace.write("documents/large.md", lines.join("\n\n"));
    let space = "chunker = [{ sentence = { chunk_size = 16, chunk_overlap = 0 } }]\nembedder = [\"slow\"]\nretriever = [{ dense = { top_k = 2 } }]";
    let model = format!(
        "[models.slow]\nembedding.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 1, batch_size = {BATCH} }}\n",
        server.uri()
    );
    workspace.experiment(space, &format!("[engine.local]\ncheckpoint_seconds = 0.4\n{model}"));
    workspace
}

fn total(counts: &Counts) -> usize {
    counts.lock().unwrap().values().sum()
}

/// Forgets paid answers, so that only what the store has of the task is left.
fn forget_journal(workspace: &Workspace) {
    for entry in std::fs::read_dir(workspace.file("store")).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("journal") && entry.path().is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// Waits until so many texts are embedded in all, by a run that goes on.
async fn embedded(counts: &Counts, run: &mut Child, until: usize) {
    while total(counts) < until {
        assert!(run.try_wait().unwrap().is_none(), "it ended before it was killed");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The bytes of all artifacts, by name.
fn artifacts(workspace: &Workspace) -> BTreeMap<String, Vec<u8>> {
    fn read(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.path() {
                path if path.is_dir() => read(&path, found),
                path => {
                    _ = found
                        .insert(path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    read(&workspace.file("store/artifacts"), &mut found);
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedding_that_is_killed_five_times_goes_on_where_it_was() {
    const CHUNKS: usize = 1200;
    const DELAY: Duration = Duration::from_millis(25);
    let (server, counts, most_texts) = endpoint_with_limit(DELAY).await;
    let untouched = workspace(&server, CHUNKS);
    let started = Instant::now();
    untouched.run(&["run"]).succeeds();
    let whole = started.elapsed();
    let needed = total(&counts);
    assert!(needed >= CHUNKS, "{needed}");
    counts.lock().unwrap().clear();

    let workspace = workspace(&server, CHUNKS);
    for _ in 0..5 {
        // The model embeds no more texts than this, so on a busy machine too the run is not over before it is killed.
        let until = total(&counts) + needed / 6;
        most_texts.store(until, SeqCst);
        let mut run = workspace.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        embedded(&counts, &mut run, until).await;
        run.kill().unwrap();
        run.wait().unwrap();
        forget_journal(&workspace);
    }
    most_texts.store(usize::MAX, SeqCst);
    workspace.run(&["run"]).succeeds();
    let twice = total(&counts) - needed;
    // What is embedded between two checkpoints, and what was in flight. Each call takes `DELAY` or longer, so a busy
    // machine only lowers the number of calls between two checkpoints.
    let per_checkpoint = (0.4 / DELAY.as_secs_f64()).ceil() as usize * BATCH + 2 * BATCH;
    println!("{needed} texts, {twice} of them again after 5 kills; uninterrupted it took {whole:?}");
    assert!(
        twice <= 5 * per_checkpoint,
        "{twice} texts were embedded again, at most {per_checkpoint} a kill are right"
    );
    let most = counts.lock().unwrap().values().copied().max().unwrap();
    assert!(most <= 3, "a text was embedded {most} times");
    assert_eq!(artifacts(&workspace), artifacts(&untouched), "the same bytes as without interruption");
    let parts =
        store::ArtifactStore::open(&workspace.file("store").to_string_lossy(), &[], lab::layout::LAYOUT).unwrap();
    assert_eq!(parts.list("partial").await.unwrap(), [""; 0], "what is finished needs no parts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_at_once_embed_everything_once_and_one_says_that_it_waits() {
    let (server, counts, most_texts) = endpoint_with_limit(Duration::from_millis(40)).await;
    let workspace = workspace(&server, 800);
    // The first run cannot end before the second one is there.
    most_texts.store(2 * BATCH, SeqCst);
    let spawn = |log: &Path| {
        let log = std::fs::File::create(log).unwrap();
        workspace.command(&["run", "--json"]).stdout(Stdio::piped()).stderr(log).spawn().unwrap()
    };
    let logs = ["first.log", "second.log"].map(|name| workspace.file(name));
    let mut runs = [spawn(&logs[0]), spawn(&logs[1])];
    let read_logs = || logs.each_ref().map(|log| std::fs::read_to_string(log).unwrap());
    let n_waiting = || read_logs().iter().filter(|log| log.contains("waits for another run (process ")).count();
    while n_waiting() == 0 {
        assert!(runs.iter_mut().all(|run| run.try_wait().unwrap().is_none()), "{:#?}", read_logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    most_texts.store(usize::MAX, SeqCst);
    let outcomes = runs.map(|run| Outcome::of(run.wait_with_output().unwrap()).succeeds());
    let most = counts.lock().unwrap().values().copied().max().unwrap();
    assert_eq!(most, 1, "nothing was embedded twice");
    let [one, other] = outcomes.map(|outcome| outcome.json());
    assert_eq!(one["trials"], other["trials"]);
    let executed = |results: &Value| results["executed"].as_u64().unwrap();
    // Each may have done a part of the work while the other waited.
    let tasks = executed(&one) + one["reused"].as_u64().unwrap();
    assert!(executed(&one) + executed(&other) < 2 * tasks, "they shared the work");
    assert!(std::fs::read_dir(workspace.file("store/scratch/tasks")).unwrap().next().is_none(), "locks are given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_when_the_one_that_it_waits_for_is_killed() {
    let (server, counts) = endpoint(Duration::from_millis(40)).await;
    let workspace = workspace(&server, 2000);
    let mut first = workspace.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    embedded(&counts, &mut first, 40).await;
    let told = workspace.file("second.log");
    let log = std::fs::File::create(&told).unwrap();
    let mut second = workspace.command(&["run"]).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let waits = format!("waits for another run (process {} on", first.id());
    while !std::fs::read_to_string(&told).unwrap().contains(&waits) {
        assert!(first.try_wait().unwrap().is_none(), "{}", std::fs::read_to_string(&told).unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success(), "{}", std::fs::read_to_string(&told).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_terminal_rows_are_told_from_the_first_second() {
    let (server, _counts) = endpoint(Duration::from_millis(700)).await;
    let workspace = workspace(&server, 128);
    let outcome = workspace.run(&["run"]).succeeds();
    let begins = outcome
        .err
        .lines()
        .find(|line| line.contains("] embed: begins, "))
        .unwrap_or_else(|| panic!("{}", outcome.err));
    assert!(begins.contains(" rows"), "{begins}");
    let going = outcome.err.lines().find(|line| line.contains("] embed: ") && line.contains(" of "));
    let going = going.unwrap_or_else(|| panic!("{}", outcome.err));
    assert!(going.contains(" of ") && going.contains(" rows/s"), "{going}");
    assert!(outcome.err.contains("] the run: about "), "{}", outcome.err);
    assert!(outcome.err.contains("] embed: done, "), "{}", outcome.err);
    assert!(!outcome.err.contains("0/?"), "{}", outcome.err);

    // What it took is what the next plan of the same work says.
    workspace.forget_artifacts();
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    let component = |plan: &Value| {
        let components = plan["time"]["components"].as_array().unwrap().clone();
        components.into_iter().find(|component| component["operator"] == "embed").unwrap()
    };
    let seconds = component(&plan)["seconds"].as_f64().unwrap();
    let ended = |event: &Value| event["kind"] == "task_finished" && event["operator"] == "embed";
    let took = workspace.events().iter().find(|event| ended(event)).unwrap()["seconds"].as_f64().unwrap();
    assert!((0.7 * took..1.5 * took).contains(&seconds), "{seconds} of {took}");
    let text = workspace.run(&["plan"]).succeeds();
    assert!(text.out.contains("on this machine, estimated from earlier runs"), "{}", text.out);
}

#[test]
fn a_plan_lists_its_trials_and_what_was_never_run_has_no_time() {
    let workspace = Workspace::new();
    let space = "chunker = [\"sentence\", { sentence_window = { window_size = 1 } }]\nembedder = [\"tiny\"]\nretriever = [{ dense = { top_k = 2 } }, { bm25 = { top_k = 2 } }]";
    workspace.experiment(space, "[dataset]\npath = \"golden.jsonl\"\n");
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    let ids: Vec<&str> =
        plan["combinations"].as_array().unwrap().iter().map(|trial| trial["trial"].as_str().unwrap()).collect();
    assert_eq!(ids, ["t01", "t02", "t03", "t04"]);
    assert_eq!(plan["combinations"][1]["labels"]["retriever"], "bm25");
    assert!(plan["time"]["seconds"].is_null(), "{}", plan["time"]);
    let text = workspace.run(&["plan"]).succeeds().out;
    assert!(text.contains("t03: chunker sentence_window, embedder tiny, retriever dense"), "{text}");
    assert!(text.contains("unknown"), "{text}");
    workspace.run(&["run"]).succeeds();
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    assert_eq!(plan["combinations"][0]["stored"], true);
    assert_eq!(plan["time"]["seconds"], 0.0, "nothing is left to do");
    workspace.forget_artifacts();
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    assert!(plan["time"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{}", plan["time"]);
}
