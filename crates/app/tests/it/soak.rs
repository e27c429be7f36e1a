//! A service under load for a long time, with a chat model that fails now and
//! then, clients that leave, and another bundle in the middle: no answer is wrong,
//! nothing fails that was not planted but a refusal for want of room, and the
//! memory stays what it was.
//!
//! `REVERIE_TEST_SOAK_SECONDS` (20) or `REVERIE_TEST_SOAK_REQUESTS` say how long.

use crate::{
    attacks::{eventually, is_unharmed, memory, served},
    serve::Service,
    upstream::{Fault, number_word},
};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

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
    /// It was refused for want of room, with the time to come again.
    Refused,
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
        let retry = response.headers().contains_key("retry-after");
        let told: Value = response.json().await.unwrap_or_default();
        let has_shape = told["error"]["message"].is_string();
        Err(match (status, kind) {
            (503, _) if retry && has_shape => Outcome::Refused,
            (502 | 504, Kind::Rare(_)) if has_shape => Outcome::Failed,
            _ => Outcome::Wrong(format!("{status}: {told}")),
        })
    }

    async fn one(&self, number: u64) -> (Kind, Outcome) {
        let kind = Kind::of(number);
        let done = self.outcome(number, kind).await;
        (kind, done.unwrap_or_else(|error| Outcome::Wrong(format!("{error:?}"))))
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
                    let overloaded = data.last().is_some_and(|last| last.contains("\"overloaded\""));
                    return Ok(if overloaded {
                        Outcome::Refused
                    } else {
                        Outcome::Wrong(format!("ended with {:?}", data.last()))
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
                // One that is refused at once is told before it leaves.
                match tokio::time::timeout(patience, self.ask(number, Some(Fault::Slow), false)).await {
                    Err(_) => Ok(Outcome::Right),
                    Ok(response) => Ok(match Self::failure(response?, kind).await {
                        Ok(response) => Outcome::Wrong(format!("{} too early", response.status())),
                        Err(outcome) => outcome,
                    }),
                }
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

/// Requests per second that are answered while so many clients ask one after the other.
async fn capacity(load: &Arc<Load>, numbers: &Arc<AtomicU64>) -> f64 {
    let (begun, asked) = (Instant::now(), numbers.load(SeqCst));
    let time = Duration::from_secs(4);
    let clients = (0..24).map(|_| {
        let (load, numbers) = (load.clone(), numbers.clone());
        tokio::spawn(async move {
            while begun.elapsed() < time {
                // Those that wait on purpose say nothing about what there is room for.
                let number = numbers.fetch_add(1, SeqCst);
                if !matches!(Kind::of(number), Kind::Leaves | Kind::Rare(_) | Kind::Planted(_)) {
                    let (kind, outcome) = load.one(number).await;
                    assert!(matches!(outcome, Outcome::Right | Outcome::Refused), "{kind:?} {number}: {outcome:?}");
                }
            }
        })
    });
    for client in futures::future::join_all(clients).await {
        client.unwrap();
    }
    (numbers.load(SeqCst) - asked) as f64 / begun.elapsed().as_secs_f64()
}

/// The value in the middle.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_under_load_gives_no_wrong_answer_and_keeps_its_memory() {
    let (workspace, upstream, service) = served(&["--deadline", "5", "--first-token", "3"]);
    // Another pipeline: one passage instead of two.
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", text.replace("top_k = 2", "top_k = 1"));
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "second"]).succeeds();
    let second = Service::logging(&workspace, &["second"]);
    let known = vec![knowledge(&service).await, knowledge(&second).await];
    assert_ne!(known[0], known[1]);
    drop(second);
    let vectors: Value =
        service.post("/v1/embeddings", &json!({ "model": "tiny", "input": TEXTS })).await.json().await.unwrap();
    let load = Arc::new(Load {
        client: store::http_client().pool_max_idle_per_host(512).timeout(Duration::from_secs(60)).build().unwrap(),
        url: service.url.clone(),
        known,
        vectors: vectors["data"].clone(),
        serving: AtomicUsize::new(0),
    });
    let numbers = Arc::new(AtomicU64::new(1));
    let most = capacity(&load, &numbers).await;
    let rate = most * 0.8;
    let seconds = ::fuzz::setting("REVERIE_TEST_SOAK_REQUESTS").map(|requests| requests / rate);
    let seconds = seconds.or_else(|| ::fuzz::setting("REVERIE_TEST_SOAK_SECONDS")).unwrap_or(20.0);
    let total = (rate * seconds) as u64;

    let start = Instant::now();
    let swaps = async {
        sleep(Duration::from_secs_f64(seconds / 2.0)).await;
        load.serving.store(1, SeqCst);
        let bundle = workspace.file("second").display().to_string();
        let swapped = service.post("/admin/swap", &json!({ "bundle": bundle })).await;
        load.serving.store(2, SeqCst);
        swapped.status().as_u16()
    };
    let (ended, seen) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    let watches = async {
        while ended.load(SeqCst) == 0 {
            seen.lock().unwrap().push(memory(&service));
            sleep(Duration::from_secs_f64((seconds / 60.0).min(5.0))).await;
        }
    };
    let asks = async {
        let mut tasks = JoinSet::new();
        let (mut told, mut wrong) = (BTreeMap::<(&str, &str), u64>::new(), Vec::new());
        let mut count = |(number, kind, outcome): (u64, Kind, Outcome)| {
            let outcome = match outcome {
                Outcome::Right => "right",
                Outcome::Refused => "refused",
                Outcome::Failed => "failed as planted",
                Outcome::Wrong(reason) => {
                    wrong.push((number, kind, reason));
                    "wrong"
                }
            };
            *told.entry((kind.name(), outcome)).or_default() += 1;
        };
        for n in 0..total {
            tokio::time::sleep_until((start + Duration::from_secs_f64(n as f64 / rate)).into()).await;
            let (load, number) = (load.clone(), numbers.fetch_add(1, SeqCst));
            tasks.spawn(async move {
                let (kind, outcome) = load.one(number).await;
                (number, kind, outcome)
            });
            while let Some(done) = tasks.try_join_next() {
                count(done.unwrap());
            }
        }
        while let Some(done) = tasks.join_next().await {
            count(done.unwrap());
        }
        ended.store(1, SeqCst);
        (told, wrong)
    };
    let ((told, wrong), swapped, ()) = tokio::join!(asks, swaps, watches);
    let seen = seen.into_inner().unwrap();
    let part = |from: usize, to: usize| {
        middle(&seen[seen.len() * from / 8..(seen.len() * to / 8).max(seen.len() * from / 8 + 1)])
    };
    // The second quarter of the time before the swap, and the last one after it.
    let (warm, last) = (part(1, 3), part(7, 8));
    println!(
        "{total} requests at {rate:.0} of {most:.0} a second in {:?}: {told:?}; {} questions came to the model; \
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
    assert!(total < 10 * RARE || told.contains_key(&("fails", "failed as planted")), "{told:?}");
    assert!(last < warm * 1.15 + 16.0, "from {warm} to {last} MiB: {seen:?}");
    eventually("the calls of the model end", async || upstream.answering() == 0).await;
    eventually("nobody waits", async || {
        service.json("/admin/status").await["answers"] == json!({ "worked_on": 0, "waiting": 0 })
    })
    .await;
    is_unharmed(&workspace, &service).await;
}
