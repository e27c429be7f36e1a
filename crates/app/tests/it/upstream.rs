//! A chat model behind OpenAI's protocol for tests under load. Its answer holds
//! the number of the question and a digest of the rest of the prompt, so that an
//! answer to another question, or from other passages, is seen. It fails where
//! the question says so, and keeps nothing of what it was asked.

use serde_json::{Value, json};
use std::{
    collections::HashSet,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

/// How long an answer with [`Fault::Pauses`] stops.
pub const PAUSE: Duration = Duration::from_millis(500);

/// What the model does with a question that has this word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It says nothing, and leaves the connection open.
    Hang,
    /// 500.
    Fails,
    /// 500 the first time, and an answer the second time.
    FailsOnce,
    /// 429 the first time, and an answer the second time.
    LimitsOnce,
    /// It breaks off after some words.
    Cut,
    /// It breaks off the first time, and answers the second time.
    CutOnce,
    /// It answers after 300 ms.
    Slow,
    /// It pauses for half a second after its first words.
    Pauses,
}

impl Fault {
    const ALL: [(Self, &str); 8] = [
        (Self::Hang, "zzhang"),
        (Self::Fails, "zzfails"),
        (Self::FailsOnce, "zzfailsonce"),
        (Self::LimitsOnce, "zzlimitsonce"),
        (Self::Cut, "zzcut"),
        (Self::CutOnce, "zzcutonce"),
        (Self::Slow, "zzslow"),
        (Self::Pauses, "zzpauses"),
    ];

    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(fault, _)| *fault == self).unwrap().1
    }
}

/// The word of a question that gives it a number.
pub fn number_word(number: u64) -> String {
    format!("zz{number}")
}

pub struct Upstream {
    pub url: String,
    state: Arc<State>,
    /// It ends with this.
    _ends: oneshot::Sender<()>,
}

#[derive(Default)]
struct State {
    answering: AtomicUsize,
    asked: AtomicUsize,
    /// The numbers of questions that failed once.
    failed: Mutex<HashSet<u64>>,
}

/// Counts an answer until it is written or nobody waits for it any more.
struct Answering<'a>(&'a State);

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, SeqCst);
    }
}

impl Upstream {
    /// It has a thread of its own, so that it answers while a test waits for a command.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (state, (ends, ended)) = (Arc::new(State::default()), oneshot::channel::<()>());
        let of_all = state.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let accepts = accept(TcpListener::from_std(listener).unwrap(), of_all);
                tokio::select! {
                    () = accepts => {}
                    _ = ended => {}
                }
            });
        });
        Self { url, state, _ends: ends }
    }

    /// The sections of an experiment that name it as `gpt`.
    pub fn model(&self) -> String {
        format!("[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 64 }}\n", self.url)
    }

    /// How many answers are being written.
    pub fn answering(&self) -> usize {
        self.state.answering.load(SeqCst)
    }

    /// How many questions came so far.
    pub fn asked(&self) -> usize {
        self.state.asked.load(SeqCst)
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        stream.set_nodelay(true).unwrap();
        // Whoever calls may leave at any time.
        tokio::spawn(async move { drop(connection(stream, &state).await) });
    }
}

/// Answers requests until the other side leaves.
async fn connection(stream: TcpStream, state: &State) -> io::Result<()> {
    let mut stream = BufStream::new(stream);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
        stream.read_exact(&mut body).await?;
        if body.is_empty() {
            let list = json!({ "object": "list", "data": [] }).to_string();
            respond(&mut stream, "200 OK", "application/json", &list).await?;
            continue;
        }
        state.asked.fetch_add(1, SeqCst);
        state.answering.fetch_add(1, SeqCst);
        let _answering = Answering(state);
        let mut rest = [0; 1];
        let goes_on = {
            let asked: Value = serde_json::from_slice(&body).unwrap();
            // Who reads nothing more and closes is seen while nothing is said.
            let (mut reads, mut writes) = tokio::io::split(&mut stream);
            tokio::select! {
                done = answer(&mut writes, &asked, state) => done?,
                _ = reads.read(&mut rest) => return Ok(()),
            }
        };
        if !goes_on {
            return Ok(());
        }
    }
}

/// Whether the connection goes on.
async fn answer(stream: &mut (impl AsyncWriteExt + Unpin), asked: &Value, state: &State) -> io::Result<bool> {
    let prompt = asked["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    let is_plain = |word: &&str| !word.starts_with("zz");
    let mut digest: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in prompt.split_whitespace().filter(is_plain).flat_map(str::bytes) {
        digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let words: Vec<&str> = prompt.split_whitespace().filter(|word| word.starts_with("zz")).collect();
    let number = words.iter().filter_map(|word| word[2..].parse::<u64>().ok()).next_back().unwrap_or(0);
    let fault = Fault::ALL.iter().find(|(_, name)| words.contains(name)).map(|(fault, _)| *fault);
    let is_first = || state.failed.lock().unwrap().insert(number);
    let fails = match fault {
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Slow) => {
            tokio::time::sleep(Duration::from_millis(300)).await;
            None
        }
        Some(Fault::Fails) => Some("500 Internal Server Error"),
        Some(Fault::FailsOnce) => is_first().then_some("500 Internal Server Error"),
        Some(Fault::LimitsOnce) => is_first().then_some("429 Too Many Requests"),
        Some(Fault::Cut | Fault::CutOnce | Fault::Pauses) | None => None,
    };
    if let Some(status) = fails {
        let body = json!({ "error": { "message": "planted", "type": "server_error" } }).to_string();
        respond(stream, status, "application/json", &body).await?;
        return Ok(true);
    }
    let cuts = fault == Some(Fault::Cut) || fault == Some(Fault::CutOnce) && is_first();
    let text = format!("question {number} reads {digest:016x} as the passage says [1]");
    let usage = json!({ "prompt_tokens": 50, "completion_tokens": 8, "total_tokens": 58 });
    let chunk = |object: &str, choices: Value, usage: &Value| json!({ "id": "c", "object": object, "created": 1, "model": "m", "choices": choices, "usage": usage });
    if asked["stream"] != true {
        let message =
            json!([{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": text } }]);
        let body = chunk("chat.completion", message, &usage).to_string();
        let half = if cuts { body.len() / 2 } else { body.len() };
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{}", &body[..half]).as_bytes()).await?;
        stream.flush().await?;
        return Ok(!cuts);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for (at, word) in text.split_inclusive(' ').enumerate() {
        if cuts && at == 4 {
            stream.flush().await?;
            return Ok(false);
        }
        if fault == Some(Fault::Pauses) && at == 4 {
            stream.flush().await?;
            tokio::time::sleep(PAUSE).await;
        }
        let delta = json!([{ "index": 0, "delta": { "content": word }, "finish_reason": null }]);
        event(stream, &chunk("chat.completion.chunk", delta, &Value::Null).to_string()).await?;
    }
    let last = json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]);
    event(stream, &chunk("chat.completion.chunk", last, &Value::Null).to_string()).await?;
    event(stream, &chunk("chat.completion.chunk", json!([]), &usage).to_string()).await?;
    event(stream, "[DONE]").await?;
    stream.write_all(b"0\r\n\r\n").await?;
    stream.flush().await?;
    Ok(true)
}

async fn event(stream: &mut (impl AsyncWriteExt + Unpin), data: &str) -> io::Result<()> {
    let event = format!("data: {data}\n\n");
    stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await
}

async fn respond(stream: &mut (impl AsyncWriteExt + Unpin), status: &str, kind: &str, body: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.flush().await
}
