//! Open-loop load on a service: requests are sent on schedule, whether or not earlier
//! ones were answered, so that a slow service cannot slow its own test down (G. Tene,
//! "coordinated omission"). Latency counts from a request's scheduled time.
//!
//! `open_loop URL RATE SECONDS [BODY]` sends GETs, or POSTs of the JSON file BODY.
//! `{n}` in the URL or body becomes the request's number. Prints one line of
//! JSON. With `REVERIE_KEY` it sends that key. `REVERIE_CLIENTS` (256) is the most
//! requests in flight; further ones are sent late, which counts as latency.
//!
//! Each client is a thread with a connection of its own: the generator shares cores
//! with the service, so it must cost little, and a thread wakes with an accuracy of
//! 50 µs, while an asynchronous runtime's timer counts milliseconds.

use serde_json::json;
use std::{
    collections::BTreeMap,
    error::Error,
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The longest time to wait for more bytes of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Measurements {
    /// Seconds from the scheduled time to the end of each answer with status 200.
    latencies: Vec<f64>,
    /// Seconds from the scheduled time to the first word of each answer that has words.
    first_words: Vec<f64>,
    /// The other outcomes by status or kind of error.
    others: BTreeMap<String, usize>,
    /// How late each request was sent, in seconds.
    late: Vec<f64>,
}

/// The requests to send.
struct Load {
    host: String,
    target: String,
    body: Option<String>,
    key: Option<String>,
    rate: f64,
    total: usize,
    next: AtomicUsize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, rate, seconds, body @ ..] = arguments.as_slice() else {
        return Err("usage: open_loop URL RATE SECONDS [BODY]".into());
    };
    let (rate, seconds): (f64, f64) = (rate.parse()?, seconds.parse()?);
    let rest = url.strip_prefix("http://").ok_or("the URL must begin with http://")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let load = Arc::new(Load {
        host: host.to_owned(),
        target: format!("/{path}"),
        body: body.first().map(std::fs::read_to_string).transpose()?,
        key: std::env::var("REVERIE_KEY").ok(),
        rate,
        total: (rate * seconds) as usize,
        next: AtomicUsize::new(0),
    });
    let clients = std::env::var("REVERIE_CLIENTS").map_or(Ok(256), |clients| clients.parse::<usize>())?;
    // By then, all threads have started.
    let start = Instant::now() + Duration::from_millis(200);
    let threads: Vec<_> = (0..clients.min(load.total))
        .map(|_| {
            let load = load.clone();
            std::thread::spawn(move || client(&load, start))
        })
        .collect();
    let mut seen = Measurements::default();
    for thread in threads {
        let one = thread.join().map_err(|_| "a client failed")?;
        seen.latencies.extend(one.latencies);
        seen.first_words.extend(one.first_words);
        seen.late.extend(one.late);
        one.others.into_iter().for_each(|(kind, times)| *seen.others.entry(kind).or_default() += times);
    }
    let took = start.elapsed().as_secs_f64();
    let report = json!({
        "sent": load.total, "ok": seen.latencies.len(), "others": seen.others, "wanted_per_s": rate,
        "ok_per_s": seen.latencies.len() as f64 / took, "ms": quantiles(&mut seen.latencies),
        "first_word_ms": quantiles(&mut seen.first_words), "generator_late_ms": quantiles(&mut seen.late),
    });
    writeln!(io::stdout(), "{report}")?;
    Ok(())
}

/// Sends requests one after the other, each at its time or as soon as the one
/// before was answered.
fn client(load: &Load, start: Instant) -> Measurements {
    let (mut seen, mut connection) = (Measurements::default(), None);
    let mut buffer = Vec::new();
    loop {
        let n = load.next.fetch_add(1, Relaxed);
        if n >= load.total {
            return seen;
        }
        let due = start + Duration::from_secs_f64(n as f64 / load.rate);
        #[expect(clippy::disallowed_methods, reason = "the time of a request is what is waited for")]
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        seen.late.push(due.elapsed().as_secs_f64());
        let is_reused = connection.is_some();
        let mut answer = one(load, n, &mut connection, &mut buffer);
        if is_reused && buffer.is_empty() && answer.as_ref().is_err_and(is_closed) {
            // The server closed a connection that was idle: every client then opens another one.
            connection = None;
            answer = one(load, n, &mut connection, &mut buffer);
        }
        match answer {
            Ok((200, first)) => {
                seen.latencies.push(due.elapsed().as_secs_f64());
                seen.first_words.extend(first.map(|first| first.saturating_duration_since(due).as_secs_f64()));
            }
            Ok((status, _)) => *seen.others.entry(status.to_string()).or_default() += 1,
            Err(error) => {
                connection = None;
                *seen.others.entry(error.kind().to_string()).or_default() += 1;
            }
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// One request: its status, and when its first word came.
fn one(
    load: &Load,
    n: usize,
    connection: &mut Option<TcpStream>,
    buffer: &mut Vec<u8>,
) -> io::Result<(u16, Option<Instant>)> {
    let number = n.to_string();
    let target = load.target.replace("{n}", &number);
    let key = load.key.as_ref().map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let request = match &load.body {
        None => format!("GET {target} HTTP/1.1\r\nhost: {}\r\n{key}\r\n", load.host),
        Some(body) => {
            let body = body.replace("{n}", &number);
            let length = body.len();
            format!(
                "POST {target} HTTP/1.1\r\nhost: {}\r\n{key}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}",
                load.host
            )
        }
    };
    let stream = match connection {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(&load.host)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(READ_TIMEOUT))?;
            connection.insert(stream)
        }
    };
    buffer.clear();
    stream.write_all(request.as_bytes())?;
    let (mut first, mut body) = (None, None);
    let mut piece = [0; 16 << 10];
    let mut head = String::new();
    loop {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        buffer.extend_from_slice(&piece[..read]);
        let from = match body {
            Some(from) => from,
            None => match find(buffer, b"\r\n\r\n") {
                Some(end) => {
                    head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
                    *body.insert(end + 4)
                }
                None => continue,
            },
        };
        if first.is_none() && has_word(&buffer[from..]) {
            first = Some(Instant::now());
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let is_whole = match length {
            Some(length) => buffer.len() >= from + length,
            None => buffer.ends_with(b"\r\n0\r\n\r\n"),
        };
        if is_whole {
            let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or(ErrorKind::InvalidData)?;
            if head.contains("\nconnection: close") {
                *connection = None;
            }
            return Ok((status, first));
        }
    }
}

/// Whether there is a word of an answer among these bytes of chunks.
fn has_word(bytes: &[u8]) -> bool {
    const CONTENT: &[u8] = b"\"content\":\"";
    let mut rest = bytes;
    while let Some(at) = find(rest, CONTENT) {
        rest = &rest[at + CONTENT.len()..];
        if rest.first().is_some_and(|next| *next != b'"') {
            return true;
        }
    }
    false
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Median, 99 % and 99.9 % in milliseconds.
fn quantiles(seconds: &mut [f64]) -> serde_json::Value {
    seconds.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = ((seconds.len() as f64 * share).ceil() as usize).clamp(1, seconds.len().max(1)) - 1;
        seconds.get(index).map(|seconds| (seconds * 1e6).round() / 1e3)
    };
    json!({ "p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999) })
}
