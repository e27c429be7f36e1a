//! What comes over a connection may be anything: the service answers it with the
//! right 4xx in OpenAI's shape, and goes on.
//!
//! The crate `fuzz` says how to fuzz for longer than a test may take.

use crate::{
    serve::Service,
    upstream::{Fault, PAUSE, Upstream, number_word},
    workspace::Workspace,
};
use ::fuzz::{Draw, mutated};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

/// Longer than the service waits for anything, and than a busy machine needs. Only what hangs takes as long.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A service of a small bundle.
pub fn served(arguments: &[&str]) -> (Workspace, Upstream, Service) {
    let (upstream, workspace) = (Upstream::start(), Workspace::new());
    let space = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
                 retriever = [{ hybrid = { top_k = 2 } }]\ngenerator = [{ compact = { model = \"gpt\" } }]";
    workspace.experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n{}", upstream.model()));
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "bundle"]).succeeds();
    let service = Service::logging(&workspace, &[&["bundle"], arguments].concat());
    (workspace, upstream, service)
}

/// One answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl Answer {
    fn error(&self) -> Option<Value> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let error = &body["error"];
        (error["message"].is_string() && error["type"].is_string() && error["code"].is_string()).then(|| error.clone())
    }
}

/// All whole answers among these bytes, and whether there is nothing else.
fn answers(mut bytes: &[u8], is_head: bool) -> (Vec<Answer>, bool) {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return (found, false) };
        let headers = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        bytes = &bytes[end + 4..];
        let Some(status) = headers.strip_prefix("http/1.").and_then(|rest| rest.get(2..5)?.parse().ok()) else {
            return (found, false);
        };
        if status == 100 {
            continue;
        }
        let field = |name: &str| headers.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let mut body = Vec::new();
        if is_head || status == 204 {
        } else if let Some(length) = field("content-length:") {
            let length: usize = length.parse().unwrap();
            if bytes.len() < length {
                return (found, false);
            }
            body = bytes[..length].to_vec();
            bytes = &bytes[length..];
        } else if field("transfer-encoding:") == Some("chunked") {
            loop {
                let Some(line) = bytes.windows(2).position(|window| window == b"\r\n") else { return (found, false) };
                let size = usize::from_str_radix(&String::from_utf8_lossy(&bytes[..line]), 16).unwrap();
                if bytes.len() < line + size + 4 {
                    return (found, false);
                }
                body.extend(&bytes[line + 2..line + 2 + size]);
                bytes = &bytes[line + size + 4..];
                if size == 0 {
                    break;
                }
            }
        } else {
            // To an old client: until the connection ends.
            body = std::mem::take(&mut bytes).to_vec();
        }
        found.push(Answer { status, headers, body });
    }
    (found, true)
}

/// What becomes of the client's side of a connection once all was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It listens, and sends nothing more.
    Listens,
    /// It ends its direction, and listens.
    Ends,
    /// It is gone.
    Leaves,
}

/// Sends these parts one after the other, and reads until the service ends the
/// connection or has answered.
async fn said(address: &str, parts: &[&[u8]], pause: Duration, then: Then) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut reads, mut writes) = stream.split();
    let sends = async {
        for part in parts {
            // The service may end the connection before all is sent.
            if writes.write_all(part).await.is_err() {
                return;
            }
            sleep(pause).await;
        }
        if then == Then::Ends {
            let _ = writes.shutdown().await;
        }
    };
    let mut all = Vec::new();
    if then == Then::Leaves {
        sends.await;
        return all;
    }
    let listens = async {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(Ok(read @ 1..)) = timeout(PATIENCE, reads.read(&mut buffer)).await {
            all.extend(&buffer[..read]);
            if then == Then::Listens && answers(&all, false).1 {
                return;
            }
        }
    };
    tokio::join!(sends, listens);
    all
}

/// A request with this body.
fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn chat(question: &str) -> Vec<u8> {
    let body = json!({ "model": "animals", "messages": [{ "role": "user", "content": question }] });
    post("/v1/chat/completions", body.to_string().as_bytes())
}

fn open_files(service: &Service) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", service.process.id())).unwrap().count()
}

/// Resident memory in MiB.
pub fn memory(service: &Service) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap() / 1024.0
}

/// Nothing panicked, and a question is answered as before.
pub async fn is_unharmed(workspace: &Workspace, service: &Service) {
    let text = std::fs::read_to_string(workspace.file("serve.err")).unwrap();
    assert!(!text.contains("panicked"), "{text}");
    let answered = service.json("/rag/answer?query=What+do+barn+owls+swallow").await;
    assert!(answered["answer"].as_str().unwrap().starts_with("question 0 reads"), "{answered}");
}

/// Waits until this holds. What never does fails the test after [`PATIENCE`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused_in_openais_shape() {
    let (workspace, _upstream, service) = served(&[]);
    let address = service.url.strip_prefix("http://").unwrap().to_owned();
    let many = format!(
        "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        (0..100_000).map(|n| format!("x-{n}: {n}\r\n")).collect::<String>()
    );
    let few = format!(
        "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        (0..200).map(|n| format!("x-{n}: {n}\r\n")).collect::<String>()
    );
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(200_000));
    let plain = |line: &str, headers: &str| format!("{line}\r\nhost: localhost\r\n{headers}\r\n").into_bytes();
    let json = "content-type: application/json\r\n";
    let whole: Vec<(&str, Vec<u8>, &[u16])> = vec![
        ("100,000 headers", many.into_bytes(), &[431]),
        ("200 headers", few.into_bytes(), &[431]),
        ("a long address", long.into_bytes(), &[414, 431]),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and more than enough\r\n\r\n".to_vec(), &[400]),
        ("zeros", vec![0; 5000], &[400]),
        ("no version", b"GET /v1/models\r\n\r\n and more of it".to_vec(), &[400]),
        ("a version to come", plain("GET /v1/models HTTP/3.0", ""), &[400]),
        ("a name with a space", plain("GET /v1/models HTTP/1.1", "a b: c\r\n"), &[400]),
        ("a length that is none", plain("POST /v1/rerank HTTP/1.1", "content-length: -1\r\n"), &[400]),
        ("two lengths", plain("POST /v1/rerank HTTP/1.1", "content-length: 1\r\ncontent-length: 2\r\n"), &[400]),
        (
            "a chunk that is none",
            [
                plain("POST /v1/rerank HTTP/1.1", &format!("{json}transfer-encoding: chunked\r\n")),
                b"xyz\r\n{}\r\n0\r\n\r\n".to_vec(),
            ]
            .concat(),
            &[400],
        ),
        (
            "a huge length",
            plain("POST /v1/rerank HTTP/1.1", &format!("{json}content-length: 99999999999999\r\n")),
            &[400, 408, 413],
        ),
        ("no host", b"GET /v1/models HTTP/1.1\r\n\r\n".to_vec(), &[400, 403]),
        (
            "invalid UTF-8 in a body",
            post("/v1/rerank", b"{\"model\": \"animals\", \"query\": \"\xf0\x28\x8c\x28\", \"documents\": [\"a\"]}"),
            &[400],
        ),
        ("a deep body", post("/v1/rerank", "[".repeat(100_000).as_bytes()), &[400]),
        ("half a body", post("/v1/rerank", b"{\"model\": \"animals\", "), &[400]),
        ("no body", post("/v1/rerank", b""), &[400]),
        ("wrong types", post("/v1/chat/completions", b"{\"model\": 1, \"messages\": {}}"), &[400]),
        ("another model", post("/v1/chat/completions", b"{\"model\": \"x\", \"messages\": []}"), &[404]),
        ("an empty question", chat(""), &[400]),
        ("a question of 1 MB", chat(&"x".repeat(1 << 20)), &[400]),
        ("3 MB", chat(&"x".repeat(3 << 20)), &[413]),
        ("3 MB for the tools", post("/mcp", &vec![b' '; 3 << 20]), &[413]),
        (
            "a message without an id that can be answered",
            post("/mcp", b"{\"jsonrpc\": \"2.0\", \"id\": null, \"method\": \"ping\"}"),
            &[400],
        ),
        (
            "tools asked for nothing",
            plain("POST /mcp HTTP/1.1", &format!("{json}accept: application/json\r\ncontent-length: 0\r\n")),
            &[400],
        ),
        ("tools without a body", plain("GET /mcp HTTP/1.1", ""), &[405, 406]),
        ("no route", plain("GET /nothing HTTP/1.1", ""), &[404]),
        ("no such method", plain("BREW /v1/models HTTP/1.1", ""), &[405]),
    ];
    let mut wrong = Vec::new();
    for (what, request, expected) in &whole {
        let all = said(&address, &[request], Duration::ZERO, Then::Listens).await;
        let (found, is_whole) = answers(&all, false);
        match found.first() {
            Some(answer) if expected.contains(&answer.status) && answer.error().is_some() && is_whole => {
                assert!(answer.headers.contains("x-request-id: req-"), "{what}: {answer:?}");
                // Who is told before all was sent must not send another request after it.
                let closes = answer.headers.contains("\nconnection: close");
                assert!(closes || answer.status != 413, "{what}: {answer:?}");
            }
            _ => wrong.push((what, String::from_utf8_lossy(&all).into_owned())),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    is_unharmed(&workspace, &service).await;
}

#[tokio::test]
async fn who_speaks_too_slowly_is_told_so_and_who_ends_its_direction_is_answered() {
    let (workspace, upstream, service) = served(&[]);
    let address = service.url.strip_prefix("http://").unwrap().to_owned();
    // It says that nothing follows, so its end is not that of somebody who leaves.
    let search = b"GET /rag/retrieve?query=owls HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let rerank = post("/v1/rerank", br#"{"model": "animals", "query": "owls", "documents": ["a"]}"#);
    let (begun, rest) = rerank.split_at(rerank.len() - 5);
    let slow = chat(&format!("What do owls swallow? {}", Fault::Hang.word()));
    let once = async |parts: Vec<&[u8]>, pause: u64, then: Then| {
        let all = said(&address, &parts, Duration::from_secs(pause), then).await;
        let (found, is_whole) = answers(&all, false);
        assert!(is_whole, "{}", String::from_utf8_lossy(&all));
        found
            .into_iter()
            .map(|answer| (answer.status, answer.status == 200 || answer.error().is_some()))
            .collect::<Vec<_>>()
    };
    let (headers, few, body, patient, half, closed, left) = tokio::join!(
        once(vec![&b"GET /rag/retrieve?query=owls HTTP/1.1\r\nhost: loc"[..]], 0, Then::Listens),
        once(vec![&b"GET /ra"[..]], 0, Then::Listens),
        once(vec![begun], 0, Then::Listens),
        once(vec![begun, rest], 1, Then::Listens),
        once(vec![&b"GET /rag/retr"[..]], 0, Then::Ends),
        once(vec![search.as_slice()], 0, Then::Ends),
        once(vec![slow.as_slice()], 0, Then::Ends),
    );
    assert_eq!(headers, [(408, true)], "half of the headers");
    assert_eq!(few, [(408, true)], "some bytes");
    assert_eq!(body, [(408, true)], "half of the body");
    assert_eq!(patient, [(200, true)], "the rest came in time");
    assert_eq!(half, [(400, true)], "the end of the client came before that of its headers");
    assert_eq!(closed, [(200, true)], "a quick answer");
    assert_eq!(left, [(400, true)], "no paid call goes on for somebody who may be gone");
    eventually("the call of the model ends", async || upstream.answering() == 0).await;
    is_unharmed(&workspace, &service).await;
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing_behind() {
    let (workspace, upstream, service) = served(&[]);
    let address = service.url.strip_prefix("http://").unwrap().to_owned();
    let idle = open_files(&service);
    for number in 1..200 {
        let hang = chat(&format!("What do owls swallow? {} {}", number_word(number), Fault::Hang.word()));
        let cut = if number % 4 == 0 { hang.len() / 2 } else { hang.len() };
        said(&address, &[&hang[..cut]], Duration::from_millis(number % 7), Then::Leaves).await;
    }
    eventually("the calls of the model end", async || upstream.answering() == 0).await;
    eventually("nobody is waited for", async || {
        service.json("/admin/status").await["answers"] == json!({ "worked_on": 0, "waiting": 0 })
    })
    .await;
    eventually("their connections are closed", async || open_files(&service) <= idle + 8).await;
    let left = r#"reverie_requests_total{route="/v1/chat/completions",status="499"}"#;
    eventually("those that left are counted", async || value(&service, left).await > 100.0).await;
    is_unharmed(&workspace, &service).await;
}

/// The value of a metric; 0 if there is none.
async fn value(service: &Service, metric: &str) -> f64 {
    let text = service.get("/metrics").await.text().await.unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse().ok());
    value.unwrap_or_default()
}

#[tokio::test]
async fn a_stream_is_timed_to_its_end() {
    let (_workspace, _upstream, service) = served(&[]);
    let question = format!("What do owls swallow? {}", Fault::Pauses.word());
    let message = json!({ "role": "user", "content": question });
    let body = json!({ "model": "animals", "messages": [message], "stream": true });
    let streamed = service.post("/v1/chat/completions", &body).await.text().await.unwrap();
    assert!(streamed.trim_end().ends_with("data: [DONE]"), "{streamed}");
    let seconds = r#"reverie_request_seconds_sum{route="/v1/chat/completions"}"#;
    eventually("the stream is timed", async || value(&service, seconds).await > 0.0).await;
    let seconds = value(&service, seconds).await;
    assert!(seconds >= PAUSE.as_secs_f64(), "{seconds} s are from its end, not from its beginning");
}

/// How many connections each worker makes at least, whatever time that takes.
const LEAST: u64 = 25;

/// Requests that are right, to begin with.
fn seeds() -> Vec<Vec<u8>> {
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n").into_bytes();
    let asked = json!({ "model": "animals", "stream": true, "stream_options": { "include_usage": true }, "n": 1,
        "response_format": { "type": "text" },
        "messages": [{ "role": "system", "content": "a" }, { "role": "user", "content": [{ "type": "text", "text": "What do owls swallow?" }] }] });
    let input = json!({ "model": "animals", "input": "What do owls swallow?", "stream": false, "include": ["file_search_call.results"] });
    let tool = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "search", "arguments": { "query": "owls" } } });
    let body = |path: &str, body: Value| post(path, body.to_string().as_bytes());
    let chunked = format!(
        "POST /v1/rerank HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{}",
        "10\r\n{\"model\":\"animal\r\n2e\r\ns\",\"query\":\"owls\",\"documents\":[\"a\",\"owls\"]}  \r\n0\r\n\r\n"
    );
    let mut seeds = vec![
        get("/rag/retrieve?query=owls&top_k=1"),
        get("/rag/answer?query=owls&include_sources=true"),
        get("/rag/sources/b3dscy50eHQ.0-90"),
        get("/v1/models"),
        get("/v1/models/animals"),
        get("/metrics"),
        get("/openapi.json"),
        get("/admin/status"),
        get("/"),
        chat("What do owls swallow?"),
        body("/v1/chat/completions", asked),
        body("/v1/responses", input),
        body("/v1/embeddings", json!({ "model": "tiny", "input": ["owls", "mice"], "encoding_format": "base64" })),
        body("/v1/rerank", json!({ "model": "animals", "query": "owls", "documents": ["a", { "text": "owls" }], "top_n": 1, "return_documents": true })),
        body("/rag/feedback", json!({ "request_id": "req-1", "verdict": "up", "comment": "a" })),
        body("/mcp", tool),
        body("/admin/swap", json!({ "bundle": "/nowhere" })),
        chunked.into_bytes(),
        b"OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\naccess-control-request-method: POST\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00@\x00\x00\x00\x04\x01\x05\x00\x00\x00\x01\x82\x84\x86A".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
    ];
    // Several in one connection.
    seeds.push([get("/v1/models"), chat("What do owls swallow?"), get("/rag/retrieve?query=owls")].concat());
    seeds
}

const WORDS: [&[u8]; 34] = [
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b"\xff",
    b"\xf0\x28\x8c\x28",
    b"%00",
    b"%ff",
    b"%",
    b"&",
    b"?query=",
    b"\"",
    b"{",
    b"[[[[[[[[",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\\ud800",
    b"\\u0000",
    b"content-length: 0\r\n",
    b"content-length: 18446744073709551615\r\n",
    b"transfer-encoding: chunked\r\n",
    b"expect: 100-continue\r\n",
    b"upgrade: h2c\r\nconnection: upgrade\r\n",
    b"connection: close\r\n",
    b"host: evil.example\r\n",
    b"HEAD ",
    b"CONNECT ",
    b"http://user:pass@[::1]:99999/",
    b"HTTP/1.0",
    b"accept: text/html\r\n",
    b"authorization: Bearer \xff\r\n",
    b"ffffffffffffffff\r\n",
];

/// An error as JSON-RPC tells it, to who speaks JSON-RPC.
fn is_rpc(answer: &Answer) -> bool {
    let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    told["jsonrpc"] == "2.0" && told["error"]["message"].is_string()
}

/// What is wrong with what came back, if anything is.
fn mistake(sent: &[u8], all: &[u8], then: Then, took: Duration) -> Option<String> {
    if took >= PATIENCE {
        return Some("it neither answered nor closed".to_owned());
    }
    // Frames of HTTP/2; and who leaves hears nothing.
    if then == Then::Leaves || sent.starts_with(b"PRI ") || !all.starts_with(b"HTTP/") {
        let is_frames = all.is_empty() || sent.starts_with(b"PRI ") || all.first() == Some(&0);
        return (!is_frames).then(|| "that is no answer".to_owned());
    }
    let is_head = sent.windows(5).any(|window| window.eq_ignore_ascii_case(b"HEAD "));
    if is_head {
        return None;
    }
    let (found, is_whole) = answers(all, is_head);
    // A stream ends for who ends its direction after its beginning: that is how clients leave.
    let is_cut = all.windows(17).any(|window| window == b"text/event-stream");
    if !is_whole && !is_cut {
        return Some("the answer is not whole".to_owned());
    }
    for answer in found {
        let is_error = answer.status >= 400;
        if answer.status >= 500 && !(answer.status == 503 && answer.headers.contains("retry-after")) {
            return Some(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)));
        }
        if is_error && answer.error().is_none() && !is_rpc(&answer) {
            return Some(format!("{} without an error in its body: {}", answer.status, answer.headers));
        }
        if !answer.headers.contains("x-request-id: req-") {
            return Some(format!("{} without an id", answer.status));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bytes_on_a_connection_make_it_fail() {
    let (workspace, upstream, service) = served(&["--feedback", "feedback.jsonl"]);
    let address = service.url.strip_prefix("http://").unwrap().to_owned();
    let idle = open_files(&service);
    let begun = Instant::now();
    let ends = begun + ::fuzz::seconds(5.0);
    let workers = (0..8).map(|worker: u64| {
        let address = address.clone();
        tokio::spawn(async move {
            let (mut draw, seeds) = (Draw::new(worker + 1), seeds());
            let (mut sent, mut statuses, mut wrong) = (0_u64, BTreeMap::<u16, u64>::new(), Vec::new());
            while (Instant::now() < ends || sent < LEAST) && wrong.len() < 20 {
                let bytes = mutated(&mut draw, &seeds, &WORDS);
                let cuts = [draw.below(bytes.len() + 1), draw.below(bytes.len() + 1)];
                let (first, last) = (cuts[0].min(cuts[1]), cuts[0].max(cuts[1]));
                let parts = [&bytes[..first], &bytes[first..last], &bytes[last..]];
                let then = if draw.below(8) == 0 { Then::Leaves } else { Then::Ends };
                let (pause, asked) = (Duration::from_micros(draw.number() % 500), Instant::now());
                let all = said(&address, &parts, pause, then).await;
                sent += 1;
                for answer in answers(&all, false).0 {
                    *statuses.entry(answer.status).or_default() += 1;
                }
                if let Some(mistake) = mistake(&bytes, &all, then, asked.elapsed()) {
                    let heard = String::from_utf8_lossy(&all[..all.len().min(2000)]).into_owned();
                    wrong.push((mistake, String::from_utf8_lossy(&bytes).into_owned(), then, heard));
                }
            }
            (sent, statuses, wrong)
        })
    });
    let watches = async {
        let mut seen = Vec::new();
        while Instant::now() < ends || seen.is_empty() {
            seen.push((memory(&service), open_files(&service)));
            sleep(Duration::from_secs(1)).await;
        }
        seen
    };
    let (workers, seen) = tokio::join!(futures::future::join_all(workers), watches);
    let (mut sent, mut statuses, mut wrong) = (0, BTreeMap::<u16, u64>::new(), Vec::new());
    for worker in workers {
        let (one, those, mistakes) = worker.unwrap();
        sent += one;
        those.into_iter().for_each(|(status, times)| *statuses.entry(status).or_default() += times);
        wrong.extend(mistakes);
    }
    let most = seen.iter().map(|(_, files)| files).max();
    println!(
        "{sent} connections in {:?}, {statuses:?}, {} questions; MiB {:?} to {:?}, at most {most:?} files",
        begun.elapsed(),
        upstream.asked(),
        seen.get(seen.len() / 4).map(|(memory, _)| memory),
        seen.last().map(|(memory, _)| memory),
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(statuses.contains_key(&200) && statuses.contains_key(&400), "{statuses:?}");
    eventually("the calls of the model end", async || upstream.answering() == 0).await;
    eventually("its connections are closed", async || open_files(&service) <= idle + 8).await;
    is_unharmed(&workspace, &service).await;
}
