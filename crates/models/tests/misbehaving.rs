//! Providers that misbehave, over real connections: whatever an endpoint
//! sends, a call ends within its limits and says why, nothing panics, and
//! later attempts are as good as if nothing had been.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends, and says where")]

use executor::RetryPolicy;
use futures::StreamExt;
use models::{
    Budget, Caps, Chat, ChatConfig, ChatRequest, ChatResponse, Client, CpuBudget, Error, Message, ModelDirectory,
    provider::ModelContext,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};

/// `timeout_seconds` of the models: what is slow ends then.
const TIMEOUT: f64 = 3.0;
/// What any call may take, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(300);
/// Calls that are tried at once: on a busy machine more would be late by themselves.
const AT_ONCE: usize = 24;
/// More than this is never taken of one answer: the limit, and what is under way.
const MOST_TAKEN: usize = (16 << 20) + (8 << 20);
/// The server's send buffer. Without a limit, the system lets both sides' buffers grow, on a fast machine beyond what
/// may be under way.
const SEND_BUFFER: u32 = 256 << 10;

/// What a server does with one request.
#[derive(Clone)]
enum Deed {
    /// Sends this, then closes the connection.
    Send(Vec<u8>),
    /// Sends this, then resets the connection.
    Reset(Vec<u8>),
    /// Sends the first, then the second for ever, in pauses of this length.
    Drip(Vec<u8>, Vec<u8>, Duration),
}

/// The status line and headers, with the length of the body.
fn response(status: &str, headers: &[(&str, &str)], body: &str) -> Deed {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        head.push_str("content-type: application/json\r\n");
    }
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    Deed::Send(format!("{head}connection: close\r\n\r\n{body}").into_bytes())
}

fn ok(body: &str) -> Deed {
    response("200 OK", &[], body)
}

fn answer_with(content: &Value, usage: &str) -> String {
    format!(
        r#"{{"id":"1","choices":[{{"index":0,"message":{{"role":"assistant","content":{content}}},"finish_reason":"stop"}}],"usage":{usage}}}"#
    )
}

fn good() -> Deed {
    ok(&answer_with(&json!("good"), r#"{"prompt_tokens":5,"completion_tokens":1}"#))
}

fn refusal(headers: &[(&str, &str)]) -> Deed {
    response("429 Too Many Requests", headers, r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#)
}

/// A server that does one thing after the other, then the last one for ever.
struct Server {
    url: String,
    sent: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(deeds: Vec<Deed>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(SEND_BUFFER).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // Connections have the buffer of the socket that listens.
        let listener = socket.listen(1024).unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (sent, next) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = sent.clone();
        let task = tokio::spawn(async move {
            let deeds = Arc::new(deeds);
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (deeds, next, sent) = (deeds.clone(), next.clone(), counted.clone());
                connections.spawn(async move {
                    let mut stream = stream;
                    if read_request(&mut stream).await.is_some() {
                        let number = next.fetch_add(1, Ordering::SeqCst).min(deeds.len() - 1);
                        // Whoever has enough hangs up.
                        let _ = act(stream, &deeds[number], &sent).await;
                    }
                });
            }
        });
        Self { url, sent, task }
    }
}

/// Reads one request to its end.
async fn read_request(stream: &mut TcpStream) -> Option<()> {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    loop {
        let n = stream.read(&mut part).await.ok().filter(|n| *n > 0)?;
        request.extend_from_slice(&part[..n]);
        let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        if request.len() >= end + 4 + length.unwrap_or_default() {
            return Some(());
        }
    }
}

async fn act(mut stream: TcpStream, deed: &Deed, sent: &AtomicUsize) -> std::io::Result<()> {
    match deed {
        Deed::Send(bytes) => {
            stream.write_all(bytes).await?;
            stream.shutdown().await?;
            // Until the other side has hung up too, or what it did not read
            // would become a reset.
            let mut rest = [0; 1024];
            while stream.read(&mut rest).await? > 0 {}
            Ok(())
        }
        Deed::Reset(bytes) => {
            stream.write_all(bytes).await?;
            stream.set_zero_linger()
        }
        Deed::Drip(first, again, pause) => {
            stream.write_all(first).await?;
            loop {
                stream.write_all(again).await?;
                sent.fetch_add(again.len(), Ordering::SeqCst);
                if pause.is_zero() {
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(*pause).await;
                }
            }
        }
    }
}

/// How a call that meets only this ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Answered,
    Stalled,
    Malformed,
    TooLarge,
    Connection,
    Timeout,
    Redirected,
    Refused,
}

fn ending(outcome: &Result<ChatResponse, Error>) -> Option<Ends> {
    Some(match outcome {
        Ok(_) => Ends::Answered,
        Err(Error::Stalled { .. }) => Ends::Stalled,
        Err(Error::Malformed { .. }) => Ends::Malformed,
        Err(Error::TooLarge { .. }) => Ends::TooLarge,
        Err(Error::Connection { .. }) => Ends::Connection,
        Err(Error::Timeout { .. }) => Ends::Timeout,
        Err(Error::Redirected { .. }) => Ends::Redirected,
        Err(Error::Refused { .. }) => Ends::Refused,
        Err(_) => return None,
    })
}

const ZERO: Duration = Duration::ZERO;

/// What a misbehaving provider sends, and how a call ends that meets nothing else.
fn deeds() -> Vec<(&'static str, Deed, Ends)> {
    use Ends::{Answered, Connection, Malformed, Redirected, Refused, Stalled, Timeout, TooLarge};
    let usage = |usage: &str| ok(&answer_with(&json!("good"), usage));
    let brackets = "[".repeat(200_000);
    let head = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}").into_bytes();
    let many_headers: String = (0..10_000).map(|i| format!("x-{i}: y\r\n")).collect();
    let megabyte = vec![b' '; 1 << 20];
    let chunk = [b"100000\r\n".as_slice(), &megabyte, b"\r\n"].concat();
    let stream = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let comment = b"8\r\n: ping\n\n\r\n".to_vec();
    let second = Duration::from_secs(1);
    vec![
        ("Retry-After of a day", refusal(&[("retry-after", "86400")]), Stalled),
        ("Retry-After of 10^19", refusal(&[("retry-after", "10000000000000000000")]), Stalled),
        ("Retry-After of 10^20", refusal(&[("retry-after", "100000000000000000000")]), Stalled),
        ("a negative Retry-After", refusal(&[("retry-after", "-5"), ("retry-after-ms", "-1e300")]), Stalled),
        ("Retry-After in the year 9999", refusal(&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")]), Stalled),
        (
            "resets in the year 99999999999",
            refusal(&[
                ("x-ratelimit-limit-requests", "6000"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "99999999999-01-01T00:00:00Z"),
                ("x-ratelimit-reset-tokens", "9223372036854775807-12-31T23:59:59Z"),
                ("anthropic-ratelimit-tokens-reset", "99999999999999999999s"),
            ]),
            Stalled,
        ),
        (
            "limits that are no numbers",
            refusal(&[
                ("x-ratelimit-limit-requests", "1e308"),
                ("x-ratelimit-remaining-requests", "1e308"),
                ("x-ratelimit-limit-tokens", "NaN"),
                ("x-ratelimit-remaining-tokens", "inf"),
            ]),
            Stalled,
        ),
        ("503 for a day", response("503 Service Unavailable", &[("retry-after", "86400")], "overloaded"), Stalled),
        ("a refusal under status 200", ok(r#"{"error":{"message":"slow down","code":429}}"#), Stalled),
        (
            "usage of 2^64 - 1",
            usage(r#"{"prompt_tokens":18446744073709551615,"completion_tokens":18446744073709551615}"#),
            Answered,
        ),
        ("usage of -10", usage(r#"{"prompt_tokens":-10,"completion_tokens":-10}"#), Answered),
        ("usage of 10^400", usage(r#"{"prompt_tokens":1e300,"completion_tokens":0.5}"#), Answered),
        ("usage in words", usage(r#"{"prompt_tokens":"many","completion_tokens":null}"#), Answered),
        ("null content", ok(&answer_with(&Value::Null, "{}")), Malformed),
        ("no choices", ok(r#"{"choices":[]}"#), Malformed),
        ("truncated JSON", ok(r#"{"choices":[{"message":{"content":"go"#), Malformed),
        ("HTML", response("200 OK", &[("content-type", "text/html")], "<html>\u{1b}[2J</html>"), Malformed),
        ("nothing", ok(""), Malformed),
        ("bytes that are no text", Deed::Send([head("\r\n"), vec![0xff; 1000]].concat()), Malformed),
        ("a short body", Deed::Send(head("content-length: 1000\r\n\r\n{\"choices\":")), Connection),
        ("a reset", Deed::Reset(Vec::new()), Connection),
        ("a reset in the middle", Deed::Reset(head("content-length: 1000\r\n\r\n{\"choices\":")), Connection),
        ("no HTTP", Deed::Send(vec![0; 5000]), Connection),
        ("200,000 brackets", ok(&brackets), Malformed),
        ("200,000 brackets in an error", response("400 Bad Request", &[], &brackets), Refused),
        ("ten million values", ok(&format!("[{}0]", "0,".repeat(5_000_000))), Malformed),
        ("a text of 2 MB", ok(&answer_with(&json!("x".repeat(2_000_000)), "{}")), Malformed),
        ("100 MB", Deed::Drip(head("content-length: 104857600\r\n\r\n"), megabyte.clone(), ZERO), TooLarge),
        (
            "100 MB without a length",
            Deed::Drip(head("transfer-encoding: chunked\r\n\r\n"), chunk.clone(), ZERO),
            TooLarge,
        ),
        ("100 MB of an event", Deed::Drip(head(stream), chunk, ZERO), TooLarge),
        ("100 MB of an error", Deed::Drip(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), megabyte, ZERO), Refused),
        ("10,000 headers", Deed::Send(head(&format!("{many_headers}\r\n"))), Connection),
        ("a header of 2 MB", Deed::Send(head(&format!("x: {}\r\n\r\n", "y".repeat(2 << 20)))), Connection),
        (
            "a redirect to itself",
            response("307 Temporary Redirect", &[("location", "/v1/chat/completions")], ""),
            Redirected,
        ),
        ("a slow byte per second", Deed::Drip(head("content-length: 1000\r\n\r\n"), b" ".to_vec(), second), Timeout),
        ("a slow byte of the head per second", Deed::Drip(head("x: "), b"y".to_vec(), second), Timeout),
        (
            "a slow byte of an error per second",
            Deed::Drip(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), b"x".to_vec(), second),
            Refused,
        ),
        ("signs of life, for ever", Deed::Drip(head(stream), comment, Duration::from_millis(50)), Timeout),
        (
            "promises of an answer, for ever",
            Deed::Drip(Vec::new(), b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), Duration::from_millis(50)),
            Timeout,
        ),
        ("silence", Deed::Drip(Vec::new(), Vec::new(), second), Timeout),
        (
            "an escape sequence in an error",
            response("400 Bad Request", &[], r#"{"error":{"message":"\u001b[2J\u001b]0;gone\u0007 \u202e"}}"#),
            Refused,
        ),
        (
            "an escape sequence in an address",
            Deed::Send(b"HTTP/1.1 308 Permanent Redirect\r\nlocation: /\x9b2J\r\ncontent-length: 0\r\n\r\n".to_vec()),
            Redirected,
        ),
        ("an escape sequence in an answer", ok(&answer_with(&json!("\u{1b}[2Jgood"), "{}")), Answered),
    ]
}

fn chat_at(url: &str, client: &Client, timeout: f64) -> Chat {
    let settings = json!({ "openai": {
        "model": "m",
        "base_url": url,
        "timeout_seconds": timeout,
        "limits": { "refusal_timeout_seconds": timeout },
        "price": { "input": 1.0, "output": 1.0 },
    } });
    let config: ChatConfig = serde_json::from_value(settings).unwrap();
    let cx = ModelContext {
        directory: ModelDirectory::new(std::env::temp_dir(), Vec::new()),
        cpu: CpuBudget::new(1),
        environment: Arc::new(|_| None),
    };
    client.chat(config.build(&cx).unwrap())
}

fn request(number: usize) -> ChatRequest {
    ChatRequest::new(vec![Message::user(format!("Question {number}"))], 16)
}

/// Two attempts, so that what is tried again is.
fn impatient() -> RetryPolicy {
    RetryPolicy { max_attempts: 2, base_delay: Duration::from_millis(10), ..RetryPolicy::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_provider_sends_a_call_ends_within_its_limits_and_says_why() {
    let calls = deeds()
        .into_iter()
        .flat_map(|(name, deed, ends)| [(name, deed.clone(), ends, false), (name, deed, ends, true)]);
    let calls = calls.map(|(name, deed, expected, streams)| async move {
        let server = Server::start(vec![deed]).await;
        let budget = Budget::new(Caps { tokens: Some(1_000_000), ..Caps::default() });
        let client = Client::new(None).with_retry(impatient()).with_budget(budget);
        // What is only large may be slow on a busy machine.
        let ends_by_time = matches!(expected, Ends::Timeout | Ends::Stalled) || name.contains("slow");
        let chat = chat_at(&server.url, &client, if ends_by_time { TIMEOUT } else { 40.0 * TIMEOUT });
        let started = Instant::now();
        let asked = request(0);
        let answer = async {
            match streams {
                true => chat.stream(&asked).finish().await,
                false => chat.chat(&asked).await,
            }
        };
        let outcome = tokio::time::timeout(LIMIT, answer).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("{name}: it did not end"));
        assert_eq!(ending(&outcome), Some(expected), "{name}, streams: {streams}: {outcome:?}");
        assert!(started.elapsed() < LIMIT);
        // So that three of them halve the concurrency.
        let timed_out: u64 = client.limits().values().map(|limit| limit.status.timed_out).sum();
        assert!(expected != Ends::Timeout || timed_out == 2, "{name}, streams: {streams}: {timed_out} were told");
        let taken = server.sent.load(Ordering::SeqCst);
        assert!(taken <= 2 * MOST_TAKEN, "{name}: {taken} bytes were taken in two attempts");
        match outcome {
            Ok(answer) => {
                let spent = client.budget().spent();
                assert!(answer.usage.total() < 100 && spent.tokens < 100 && spent.usd < 0.01, "{name}: {answer:?}");
                assert!(client.meter().total().tokens() < 100, "{name}");
            }
            Err(error) => {
                let shown = error.to_string();
                let hidden = |c: char| c.is_control() || c == '\u{202e}';
                assert!(!shown.contains(hidden) && shown.len() < 4000, "{name}: {shown:?}");
            }
        }
    });
    futures::stream::iter(calls).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rows_are_answered_where_later_attempts_are_good() {
    let mut script: Vec<Deed> = deeds()
        .into_iter()
        .filter(|(_, _, ends)| !matches!(ends, Ends::Refused | Ends::Answered))
        // So that no row meets all of them, whichever order they come in.
        .flat_map(|(_, deed, _)| [deed, good(), good()])
        .collect();
    let n_bad = script.len() / 3;
    script.push(good());
    let server = Server::start(script).await;
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(store::Journal::open(folder.path().join("journal.sqlite")).unwrap());
    // On a busy machine good answers may be late too, which must not use up the attempts of a row.
    let quick = RetryPolicy { max_attempts: 64, base_delay: Duration::from_millis(50), ..RetryPolicy::default() };
    let client = Client::new(Some(journal.clone())).with_retry(quick);
    let chat = chat_at(&server.url, &client, TIMEOUT);
    let requests: Vec<ChatRequest> = (0..60).map(request).collect();
    let started = Instant::now();
    let answers = futures::future::join_all(requests.iter().map(|request| chat.chat(request)));
    let answers = tokio::time::timeout(2 * LIMIT, answers).await.expect("an end");
    for (number, answer) in answers.iter().enumerate() {
        assert!(answer.as_ref().is_ok_and(|answer| answer.text == "good"), "row {number}: {answer:?}");
    }
    assert_eq!(journal.statistics().unwrap().entries, 60);
    println!("60 rows past {n_bad} misdeeds in {:.1} s", started.elapsed().as_secs_f64());
}

/// A provider that takes 12 at once, for 300 ms each, and claims with each
/// refusal that its limit is 0.
async fn claims_a_limit_of_zero() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (in_flight, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let n_refused = refused.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (in_flight, refused) = (in_flight.clone(), refused.clone());
            tokio::spawn(async move {
                if read_request(&mut stream).await.is_none() {
                    return;
                }
                let deed = if in_flight.fetch_add(1, Ordering::SeqCst) < 12 {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    good()
                } else {
                    refused.fetch_add(1, Ordering::SeqCst);
                    refusal(&[
                        ("x-ratelimit-limit-requests", "0"),
                        ("x-ratelimit-remaining-requests", "0"),
                        ("retry-after", "0.05"),
                    ])
                };
                in_flight.fetch_sub(1, Ordering::SeqCst);
                let _ = act(stream, &deed, &AtomicUsize::new(0)).await;
            });
        }
    });
    (url, n_refused)
}

/// How much of the possible rate is used next to such claims is measured on a paused clock, in the tests of
/// `executor::adaptive`. Over real connections, calls that wait for a limit of 0 would not end within [`LIMIT`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_that_claim_a_limit_of_zero_stop_no_call() {
    let (url, refused) = claims_a_limit_of_zero().await;
    let client = Client::new(None);
    // On a busy machine answers may be late.
    let chat = chat_at(&url, &client, 40.0 * TIMEOUT);
    let requests: Vec<ChatRequest> = (0..400).map(request).collect();
    let calls = futures::future::join_all(requests.iter().map(|request| chat.chat(request)));
    let answers = tokio::time::timeout(LIMIT, calls).await.expect("an end");
    let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} failed: {:?}", failed.len(), failed.first());
    let refused = refused.load(Ordering::SeqCst);
    // How many there are depends on how busy the machine is.
    assert!(refused > 0);
    let told: u64 = client.limits().values().map(|limit| limit.status.refused).sum();
    assert!((1..=refused as u64).contains(&told), "the limiter learned of {told} of {refused} refusals");
}
