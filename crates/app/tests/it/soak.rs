//! A service under load, with a chat model that fails now and then, clients that
//! leave, and another bundle in the middle. At any speed: no answer is wrong, every
//! refusal is a documented one, every request is answered in the end, and the
//! memory stays what it was.
//!
//! The load fits itself to the machine: a fixed number of clients ask one request
//! after the other, and a client that is refused waits for as long as `Retry-After`
//! says and asks again. `REVERIE_TEST_SOAK_REQUESTS` (6,000) sets how many requests.
//!
//! The same mixture is a measurement too, which is run by hand on an idle machine
//! (`--run-ignored only`): how many requests a second the service answers, and then
//! 80 % of that rate, open-loop, without asking again.

use crate::{
    attacks::{PATIENCE, eventually, is_unharmed, memory, served},
    serve::Service,
    upstream::{Fault, number_word},
};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::sleep};

/// How many clients ask at the same time.
const CLIENTS: usize = 24;
/// How many requests there are, unless the environment says otherwise.
const REQUESTS: f64 = 6000.0;
/// How often the memory is read.
const LOOKS: u64 = 64;

const QUESTIONS: [&str; 4] = [
    "By how many degrees does an owl turn its head?",
    "What do beavers build dams from?",
    "How much does the heart of the blue whale weigh?",
    "How long do songs of humpback whales last?",
];
const TEXTS: [&str; 2] = ["owls swallow mice", "a dam of branches"];
/// Of a hundred requests, how many are of each kind.
const MIX: [(Kind, u64); 14] = [
    (Kind::Retrieve, 38),
    (Kind::Whole, 16),
    (Kind::Streamed, 16),
    (Kind::Answer, 8),
    (Kind::Embeddings, 8),
    (Kind::Bad, 6),
    (Kind::Leaves, 4),
    (Kind::LeavesStream, 2),
    (Kind::Planted(Fault::FailsOnce), 1),
    (Kind::Planted(Fault::CutOnce), 1),
    (Kind::Rare(Fault::LimitsOnce), 0),
    (Kind::Rare(Fault::Fails), 0),
    (Kind::Rare(Fault::Cut), 0),
    (Kind::Rare(Fault::Hang), 0),
];
/// Every so many requests is one of the rare kinds.
const RARE: u64 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Retrieve,
    Whole,
    Streamed,
    Answer,
    Embeddings,
    Bad,
    /// The client leaves before the answer.
    Leaves,
    /// The client leaves after the first piece.
    LeavesStream,
    /// The model fails once, and the answer comes all the same.
    Planted(Fault),
    /// The model fails in a way that may be seen.
    Rare(Fault),
}

impl Kind {
    fn of(number: u64) -> Self {
        if number.is_multiple_of(RARE) {
            let rare: Vec<Self> =
                MIX.iter().map(|(kind, _)| *kind).filter(|kind| matches!(kind, Self::Rare(_))).collect();
            return rare[(number / RARE) as usize % rare.len()];
        }
        // Spread, so that neighbours differ.
        let mut at = number * 37 % 100;
        for (kind, share) in MIX {
            if at < share {
                return kind;
            }
            at -= share;
        }
        Self::Retrieve
    }

    fn name(self) -> &'static str {
        match self {
            Self::Retrieve => "retrieve",
            Self::Whole => "whole",
            Self::Streamed => "streamed",
            Self::Answer => "answer",
            Self::Embeddings => "embeddings",
            Self::Bad => "bad",
            Self::Leaves => "leaves",
            Self::LeavesStream => "leaves a stream",
            Self::Planted(_) => "fails once",
            Self::Rare(_) => "fails",
        }
    }
}

/// What a bundle says of each question.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    /// The ids of its passages.
    found: Value,
    /// The digest of the prompt, as the model tells it.
    digest: String,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    /// The service had no room or no time, said so as documented, and may be asked
    /// again after this time.
    Refused(u16, Duration),
    /// It failed as was planted.
    Failed,
    Wrong(String),
}

struct Load {
    client: Client,
    url: String,
    known: Vec<Vec<Known>>,
    vectors: Value,
    /// Which bundles may answer: before, while and after one takes over.
    serving: AtomicUsize,
}

/// A question of its own for each request. What makes it so is left out of the
/// digest, and no document has it.
fn question(number: u64, fault: Option<Fault>) -> String {
    let words = fault.map(Fault::word).unwrap_or_default();
    format!("{} {} {words}", QUESTIONS[number as usize % QUESTIONS.len()], number_word(number))
}

/// A question in a URL.
fn asking(url: &str, path: &str, question: &str) -> String {
    format!("{url}{path}?query={}", question.replace('?', "%3F").replace(' ', "+"))
}

fn ids(passages: &Value) -> Value {
    passages.as_array().unwrap().iter().map(|passage| passage["id"].clone()).collect()
}

async fn knowledge(service: &Service) -> Vec<Known> {
    let mut known = Vec::new();
    for at in 0..QUESTIONS.len() as u64 {
        let get = async |path: &str| -> Value {
            let request = service.client.get(asking(&service.url, path, &question(at, None)));
            request.send().await.unwrap().error_for_status().unwrap().json().await.unwrap()
        };
        let (found, answered) = (get("/rag/retrieve").await, get("/rag/answer").await);
        assert_eq!(ids(&found["passages"]), ids(&answered["sources"]));
        let digest = answered["answer"].as_str().unwrap().split(' ').nth(3).unwrap().to_owned();
        known.push(Known { found: ids(&found["passages"]), digest });
    }
    known
}

impl Load {
    /// A load on a service, with what its bundles say.
    async fn new(service: &Service, known: Vec<Vec<Known>>) -> Arc<Self> {
        let vectors: Value =
            service.post("/v1/embeddings", &json!({ "model": "tiny", "input": TEXTS })).await.json().await.unwrap();
        Arc::new(Self {
            client: store::http_client().pool_max_idle_per_host(512).timeout(PATIENCE).build().unwrap(),
            url: service.url.clone(),
            known,
            vectors: vectors["data"].clone(),
            serving: AtomicUsize::new(0),
        })
    }

    /// What may be known to whoever answers a request that was begun under `before`.
    fn candidates(&self, number: u64, before: usize) -> impl Iterator<Item = &Known> {
        // 0: the first bundle; 1: one takes over from the other; 2: the second one.
        let (first, last) = (before / 2, self.serving.load(SeqCst).div_ceil(2));
        self.known[first..=last].iter().map(move |known| &known[number as usize % QUESTIONS.len()])
    }

    /// Whether a text is the answer to this question.
    fn check(&self, number: u64, before: usize, text: &str) -> Outcome {
        let is_right =
            |known: &Known| text == format!("question {number} reads {} as the passage says [1]", known.digest);
        if self.candidates(number, before).any(is_right) {
            Outcome::Right
        } else {
            Outcome::Wrong(format!("answered {text}"))
        }
    }

    async fn ask(&self, number: u64, fault: Option<Fault>, streams: bool) -> reqwest::Result<Response> {
        let body = json!({ "model": "animals", "stream": streams, "messages": [
            { "role": "system", "content": "Be brief." }, { "role": "user", "content": question(number, fault) },
        ]});
        self.client.post(format!("{}/v1/chat/completions", self.url)).json(&body).send().await
    }

    /// Reads a failure, if it is one that may be.
    async fn failure(response: Response, kind: Kind) -> Result<Response, Outcome> {
        let status = response.status().as_u16();
        if status < 400 {
            return Ok(response);
        }
        let headers = response.headers();
        let retry = headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let has_id = headers.get("x-request-id").is_some_and(|id| id.as_bytes().starts_with(b"req-"));
        let told: Value = response.json().await.unwrap_or_default();
        let error = &told["error"];
        let has_shape = error["message"].is_string() && error["type"] == "server_error" && has_id;
        Err(match (status, error["code"].as_str(), retry) {
            (502 | 504, _, _) if has_shape && matches!(kind, Kind::Rare(_)) => Outcome::Failed,
            (503, Some("overloaded"), Some(seconds @ 1..)) if has_shape => {
                Outcome::Refused(status, Duration::from_secs(seconds))
            }
            (504, Some("timeout"), _) if has_shape => Outcome::Refused(status, Duration::ZERO),
            _ => Outcome::Wrong(format!("{status}, retry after {retry:?}: {told}")),
        })
    }

    /// Asks once.
    async fn once(&self, number: u64) -> (Kind, Outcome) {
        let kind = Kind::of(number);
        let outcome = self.outcome(number, kind).await.unwrap_or_else(|error| Outcome::Wrong(format!("{error:?}")));
        match (kind, outcome) {
            // A model that hangs is a planted failure, whatever the service calls it.
            (Kind::Rare(_), Outcome::Refused(..)) => (kind, Outcome::Failed),
            (kind, outcome) => (kind, outcome),
        }
    }

    /// Asks until there is an answer; how often it was refused before, by status.
    async fn one(&self, number: u64) -> (Kind, Vec<u16>, Outcome) {
        let (kind, begun, mut refused) = (Kind::of(number), Instant::now(), Vec::new());
        loop {
            let done = self.outcome(number, kind).await;
            match done.unwrap_or_else(|error| Outcome::Wrong(format!("{error:?}"))) {
                Outcome::Refused(status, wait) if begun.elapsed() < PATIENCE => {
                    refused.push(status);
                    if kind == Kind::Rare(Fault::Hang) {
                        // While the model answers others, its silence is called a lack of time.
                        return (kind, refused, Outcome::Failed);
                    }
                    sleep(wait).await;
                }
                Outcome::Refused(status, _) => {
                    return (kind, refused, Outcome::Wrong(format!("{status} for {PATIENCE:?}")));
                }
                outcome => return (kind, refused, outcome),
            }
        }
    }

    async fn outcome(&self, number: u64, kind: Kind) -> reqwest::Result<Outcome> {
        let before = self.serving.load(SeqCst);
        match kind {
            Kind::Retrieve | Kind::Answer => {
                let path = if kind == Kind::Answer { "/rag/answer" } else { "/rag/retrieve" };
                let response = self.client.get(asking(&self.url, path, &question(number, None))).send().await?;
                let response = match Self::failure(response, kind).await {
                    Ok(response) => response,
                    Err(outcome) => return Ok(outcome),
                };
                let told: Value = response.json().await?;
                let found = ids(&told[if kind == Kind::Answer { "sources" } else { "passages" }]);
                if !self.candidates(number, before).any(|known| known.found == found) {
                    return Ok(Outcome::Wrong(format!("found {found}")));
                }
                Ok(match told["answer"].as_str() {
                    Some(text) => self.check(number, before, text),
                    None => Outcome::Right,
                })
            }
            Kind::Whole | Kind::Planted(_) | Kind::Rare(_) => {
                let fault = match kind {
                    Kind::Planted(fault) | Kind::Rare(fault) => Some(fault),
                    _ => None,
                };
                let response = match Self::failure(self.ask(number, fault, false).await?, kind).await {
                    Ok(response) => response,
                    Err(outcome) => return Ok(outcome),
                };
                let told: Value = response.json().await?;
                Ok(self.check(number, before, told["choices"][0]["message"]["content"].as_str().unwrap_or_default()))
            }
            Kind::Streamed => {
                let response = match Self::failure(self.ask(number, None, true).await?, kind).await {
                    Ok(response) => response,
                    Err(outcome) => return Ok(outcome),
                };
                let text = response.text().await?;
                let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                if data.last() != Some(&"[DONE]") {
                    // What failed after its beginning says so at its end.
                    let last = data.last().copied().unwrap_or_default();
                    let told: Value = serde_json::from_str(last).unwrap_or_default();
                    return Ok(match told["error"]["code"].as_str() {
                        Some("overloaded") => Outcome::Refused(503, Duration::from_secs(1)),
                        Some("timeout") => Outcome::Refused(504, Duration::ZERO),
                        _ => Outcome::Wrong(format!("ended with {last:?}")),
                    });
                }
                let chunks = data[..data.len() - 1].iter().map(|chunk| serde_json::from_str::<Value>(chunk).unwrap());
                let words =
                    chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned));
                Ok(self.check(number, before, &words.collect::<String>()))
            }
            Kind::Embeddings => {
                let body = json!({ "model": "tiny", "input": TEXTS });
                let response = self.client.post(format!("{}/v1/embeddings", self.url)).json(&body).send().await?;
                let response = match Self::failure(response, kind).await {
                    Ok(response) => response,
                    Err(outcome) => return Ok(outcome),
                };
                let told: Value = response.json().await?;
                Ok(if told["data"] == self.vectors {
                    Outcome::Right
                } else {
                    Outcome::Wrong("other vectors".to_owned())
                })
            }
            Kind::Bad => {
                let post = |path: &str| {
                    self.client.post(format!("{}{path}", self.url)).header("content-type", "application/json")
                };
                let (request, expected) = match number % 5 {
                    0 => (post("/v1/chat/completions").body("{\"model\": \"animals\""), 400),
                    1 => (post("/v1/chat/completions").json(&json!({ "model": "x", "messages": [] })), 404),
                    2 => (post("/v1/rerank").body(" ".repeat(3 << 20)), 413),
                    3 => (self.client.get(format!("{}/rag/retrieve?query=%20", self.url)), 400),
                    _ => (self.client.delete(format!("{}/v1/models", self.url)), 405),
                };
                let response = request.send().await?;
                let status = response.status().as_u16();
                Ok(if status == expected {
                    Outcome::Right
                } else {
                    Outcome::Wrong(format!("{status} instead of {expected}"))
                })
            }
            Kind::Leaves => {
                let patience = Duration::from_millis(number * 7 % 60);
                // A refusal comes before it leaves; on a busy machine so may the answer.
                let Ok(response) = tokio::time::timeout(patience, self.ask(number, Some(Fault::Slow), false)).await
                else {
                    return Ok(Outcome::Right);
                };
                let response = match Self::failure(response?, kind).await {
                    Ok(response) => response,
                    Err(outcome) => return Ok(outcome),
                };
                let told: Value = response.json().await?;
                Ok(self.check(number, before, told["choices"][0]["message"]["content"].as_str().unwrap_or_default()))
            }
            Kind::LeavesStream => {
                let response = self.ask(number, None, true).await?;
                Ok(match Self::failure(response, kind).await {
                    Ok(mut response) => {
                        response.chunk().await?;
                        Outcome::Right
                    }
                    Err(outcome) => outcome,
                })
            }
        }
    }
}

/// What the clients share.
#[derive(Default)]
struct Progress {
    next: AtomicU64,
    done: AtomicU64,
    /// Half of the requests are done.
    half: Notify,
    /// Resident memory of the service in MiB, after every so many requests.
    memory: Mutex<Vec<f64>>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// By kind and outcome.
    told: BTreeMap<(&'static str, &'static str), u64>,
    /// By status.
    refusals: BTreeMap<u16, u64>,
    wrong: Vec<(u64, Kind, String)>,
}

impl Progress {
    fn count(&self, number: u64, (kind, refused, outcome): (Kind, Vec<u16>, Outcome)) {
        let mut counts = self.counts.lock().unwrap();
        refused.into_iter().for_each(|status| *counts.refusals.entry(status).or_default() += 1);
        let outcome = match outcome {
            Outcome::Right => "right",
            Outcome::Failed => "failed as planted",
            Outcome::Refused(..) => "refused",
            Outcome::Wrong(reason) => {
                counts.wrong.push((number, kind, reason));
                "wrong"
            }
        };
        *counts.told.entry((kind.name(), outcome)).or_default() += 1;
    }
}

/// The value in the middle.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// How many requests of the mixture are answered in a second, asked by so many
/// clients one after the other.
async fn capacity(load: &Arc<Load>, clients: u64, seconds: u64) -> f64 {
    let (next, done, start) = (Arc::new(AtomicU64::new(1 << 40)), Arc::new(AtomicU64::new(0)), Instant::now());
    let until = start + Duration::from_secs(seconds);
    let asking = (0..clients).map(|_| {
        let (load, next, done) = (load.clone(), next.clone(), done.clone());
        tokio::spawn(async move {
            while Instant::now() < until {
                let (kind, outcome) = load.once(next.fetch_add(1, SeqCst)).await;
                assert!(!matches!(outcome, Outcome::Wrong(_)), "{kind:?}: {outcome:?}");
                if Instant::now() < until && !matches!(outcome, Outcome::Refused(..)) {
                    done.fetch_add(1, SeqCst);
                }
            }
        })
    });
    for client in futures::future::join_all(asking).await {
        client.unwrap();
    }
    done.load(SeqCst) as f64 / seconds as f64
}

#[ignore = "a measurement, for an idle machine"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_80_percent_of_its_capacity_a_service_refuses_less_than_1_percent() {
    let (_workspace, upstream, service) = served(&["--deadline", "20", "--first-token", "5"]);
    let load = Load::new(&service, vec![knowledge(&service).await]).await;
    capacity(&load, 128, 5).await;
    let most = capacity(&load, 128, 20).await;
    let (rate, total) = (0.8 * most, ::fuzz::setting("REVERIE_TEST_SOAK_REQUESTS").unwrap_or(REQUESTS) as u64);
    println!("{most:.0} requests a second; {total} are sent at {rate:.0}");
    let (told, mut seen) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
    let (start, mut sent) = (Instant::now(), 0);
    while sent < total {
        let due = (start.elapsed().as_secs_f64() * rate) as u64;
        while sent < due.min(total) {
            sent += 1;
            let due = start + Duration::from_secs_f64(sent as f64 / rate);
            let (load, told, number) = (load.clone(), told.clone(), sent);
            tokio::spawn(async move {
                let (kind, outcome) = load.once(number).await;
                told.lock().unwrap().push((kind, outcome, due.elapsed().as_secs_f64()));
            });
            if sent.is_multiple_of((total / LOOKS).max(1)) {
                seen.push(memory(&service));
            }
        }
        sleep(Duration::from_millis(1)).await;
    }
    eventually("all are answered", async || told.lock().unwrap().len() as u64 == total).await;
    let told = std::mem::take(&mut *told.lock().unwrap());
    let (mut counts, mut latencies) = (BTreeMap::<(&str, &str), u64>::new(), BTreeMap::<&str, Vec<f64>>::new());
    let mut refused = 0;
    for (kind, outcome, seconds) in &told {
        let word = match outcome {
            Outcome::Right => "right",
            Outcome::Failed => "failed as planted",
            Outcome::Refused(..) => "refused",
            Outcome::Wrong(reason) => panic!("{kind:?}: {reason}"),
        };
        refused += u64::from(word == "refused");
        *counts.entry((kind.name(), word)).or_default() += 1;
        if word == "right" {
            latencies.entry(kind.name()).or_default().push(*seconds);
        }
    }
    let share = refused as f64 / total as f64;
    println!("{:.1} s; refused {refused}, {:.3} %; {counts:?}", start.elapsed().as_secs_f64(), 100.0 * share);
    for (kind, seconds) in &mut latencies {
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| 1000.0 * seconds[((seconds.len() - 1) as f64 * share) as usize];
        println!("{kind}: p50 {:.1} ms, p99 {:.1}, p99.9 {:.1}", at(0.5), at(0.99), at(0.999));
    }
    let part = |from: usize, to: usize| middle(&seen[seen.len() * from / 8..seen.len() * to / 8]);
    let (warm, last) = (part(1, 3), part(7, 8));
    println!("{} questions came to the model; memory {warm:.1} MiB, then {last:.1}", upstream.asked());
    assert!(share < 0.01, "{:.2} % were refused", 100.0 * share);
    assert!(last < warm * 1.15 + 16.0, "from {warm} to {last} MiB: {seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_under_load_gives_no_wrong_answer_and_keeps_its_memory() {
    let (workspace, upstream, service) = served(&["--deadline", "20", "--first-token", "5"]);
    // Another pipeline: one passage instead of two.
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace("top_k = 2", "top_k = 1"));
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "second"]).succeeds();
    let second = Service::logging(&workspace, &["second"]);
    let known = vec![knowledge(&service).await, knowledge(&second).await];
    assert_ne!(known[0], known[1]);
    drop(second);
    let load = Load::new(&service, known).await;
    let total = ::fuzz::setting("REVERIE_TEST_SOAK_REQUESTS").unwrap_or(REQUESTS) as u64;
    let (service, progress) = (Arc::new(service), Arc::new(Progress::default()));
    let start = Instant::now();
    let swaps = async {
        progress.half.notified().await;
        load.serving.store(1, SeqCst);
        let bundle = workspace.file("second").display().to_string();
        let swapped = service.post("/admin/swap", &json!({ "bundle": bundle })).await;
        load.serving.store(2, SeqCst);
        swapped.status().as_u16()
    };
    let clients = (0..CLIENTS).map(|_| {
        let (load, service, progress) = (load.clone(), service.clone(), progress.clone());
        tokio::spawn(async move {
            loop {
                let number = progress.next.fetch_add(1, SeqCst) + 1;
                if number > total {
                    return;
                }
                progress.count(number, load.one(number).await);
                let done = progress.done.fetch_add(1, SeqCst) + 1;
                if done.is_multiple_of((total / LOOKS).max(1)) {
                    progress.memory.lock().unwrap().push(memory(&service));
                }
                if done == total / 2 {
                    progress.half.notify_one();
                }
            }
        })
    });
    let (clients, swapped) = tokio::join!(futures::future::join_all(clients), swaps);
    clients.into_iter().for_each(|client| client.unwrap());
    let seen = progress.memory.lock().unwrap().clone();
    let Counts { told, refusals, wrong } = std::mem::take(&mut *progress.counts.lock().unwrap());
    let part = |from: usize, to: usize| {
        middle(&seen[seen.len() * from / 8..(seen.len() * to / 8).max(seen.len() * from / 8 + 1)])
    };
    // The second quarter of the requests, before the swap, and the last ones after it.
    let (warm, last) = (part(1, 3), part(7, 8));
    println!(
        "{total} requests in {:?}: {told:?}; refusals {refusals:?}; {} questions came to the model; \
         memory {warm:.1} MiB, then {last:.1}",
        start.elapsed(),
        upstream.asked(),
    );
    let shown = &wrong[..wrong.len().min(20)];
    assert!(wrong.is_empty(), "{} of them: {shown:#?}", wrong.len());
    assert_eq!(swapped, 200);
    for kind in
        ["retrieve", "whole", "streamed", "answer", "embeddings", "bad", "leaves", "leaves a stream", "fails once"]
    {
        assert!(told.contains_key(&(kind, "right")), "{kind}: {told:?}");
    }
    assert!(total < 5 * RARE || told.contains_key(&("fails", "failed as planted")), "{told:?}");
    assert!(last < warm * 1.15 + 16.0, "from {warm} to {last} MiB: {seen:?}");
    eventually("the calls of the model end", async || upstream.answering() == 0).await;
    eventually("nobody waits", async || {
        service.json("/admin/status").await["answers"] == json!({ "worked_on": 0, "waiting": 0 })
    })
    .await;
    is_unharmed(&workspace, &service).await;
}
