//! How things end: a service that must stop while a request goes on, a comparison on too few questions, a connection
//! after an ambiguous request, and streams of HTTP/2 that their client resets.

use crate::{
    attacks::{PATIENCE, eventually, is_unharmed, memory, served},
    limits::exchange,
    serve::{Service, chat},
    upstream::{Fault, number_word},
    workspace::Workspace,
};
use serde_json::json;
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Mutex, mpsc},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// Time limits that no request of these tests reaches.
const PATIENT: [&str; 4] = ["--first-token", "600", "--deadline", "600"];

#[tokio::test]
async fn a_request_that_outlasts_the_drain_is_cut_off_and_the_exit_code_is_1() {
    let (workspace, upstream, mut service) = served(&[&["--drain", "1"], &PATIENT[..]].concat());
    let body = chat(&format!("What do owls swallow? {}", Fault::Hang.word())).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    eventually("the model is asked", async || upstream.answering() == 1).await;
    service.terminate();
    eventually("the service ends", async || service.process.try_wait().unwrap().is_some()).await;
    assert_eq!(service.process.wait().unwrap().code(), Some(1));
    let log = std::fs::read_to_string(workspace.file("serve.err")).unwrap();
    assert!(log.contains("requests that took longer than --drain 1 s were cut off"), "{log}");
    // The system may report the end of the connection as a reset.
    let mut answer = Vec::new();
    drop(client.read_to_end(&mut answer).await);
    assert_eq!(String::from_utf8_lossy(&answer), "", "the client is told nothing that looks like an answer");
    eventually("the call of the model ends", async || upstream.answering() == 0).await;
}

#[test]
fn a_loss_on_four_questions_is_inconclusive_and_ends_with_code_3() {
    let metrics = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n\
                   objective = [\"recall\", \"ndcg\"]";
    let space = |chunk_size: usize, top_k: usize| {
        format!(
            "chunker = [{{ sentence = {{ chunk_size = {chunk_size}, chunk_overlap = 0 }} }}]\n\
             retriever = [{{ bm25 = {{ top_k = {top_k} }} }}]"
        )
    };
    let workspace = Workspace::new();
    workspace.experiment(&space(32, 3), metrics);
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "good"]).succeeds();
    let check = ["check", "--against", "good"];
    workspace.run(&check).succeeds();
    // The worse pipeline of the tests of `check`, which 24 questions prove to be worse.
    workspace.experiment(&space(8, 1), metrics);
    workspace.run(&["run", "--quiet"]).succeeds();
    let open = workspace.run(&check).ends_with(3);
    assert!(open.out.starts_with("INCONCLUSIVE"), "{}", open.out);
    let open = workspace.run(&[&check[..], &["--json"]].concat()).ends_with(3).json();
    assert_eq!((&open["verdict"], &open["questions"]), (&json!("inconclusive"), &json!(4)));
    let recall = &open["metrics"][0];
    assert_eq!((&recall["metric"], &recall["outcome"]), (&json!("recall"), &json!("too_few")), "{open}");
}

#[tokio::test]
async fn no_request_after_one_with_two_lengths_is_answered() {
    let (workspace, _upstream, service) = served(&[]);
    let body = json!({ "model": "animals", "query": "owls", "documents": ["owls"] }).to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let next = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let send = |framing: &str| {
        let head = "POST /v1/rerank HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        exchange(&service, format!("{head}\r\n{framing}\r\n\r\n{chunked}{next}").as_bytes()).to_ascii_lowercase()
    };
    let answers = |all: &str| all.matches("http/1.1 ").count();
    // With one length, the next request is answered too.
    let both = send("transfer-encoding: chunked");
    assert!(both.starts_with("http/1.1 200 ") && answers(&both) == 2, "{both}");
    // Both readings end before the next request; one ends before it; one takes it for a part of the body.
    for length in [chunked.len(), 5, chunked.len() + next.len()] {
        for framing in [
            format!("content-length: {length}\r\ntransfer-encoding: chunked"),
            format!("transfer-encoding: chunked\r\ncontent-length: {length}"),
        ] {
            let all = send(&framing);
            // A server may refuse the request or read it by its chunks, and must close the connection after it.
            // Source: RFC 9112, section 6.1.
            let is_answer = all.starts_with("http/1.1 400 ") || all.starts_with("http/1.1 200 ");
            assert!(is_answer && answers(&all) == 1, "{framing}: {all}");
            assert!(all.contains("\r\nconnection: close\r\n"), "{framing}: {all}");
        }
    }
    for framing in [
        "transfer-encoding: gzip",
        "transfer-encoding: chunked, identity",
        "content-length: 5\r\ntransfer-encoding: gzip",
        "content-length: 5\r\ntransfer-encoding : chunked",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
    ] {
        let all = send(framing);
        assert!(all.starts_with("http/1.1 400 ") && answers(&all) == 1, "{framing}: {all}");
    }
    is_unharmed(&workspace, &service).await;
}

// Frames of HTTP/2. Source: RFC 9113, section 6.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();
const ENHANCE_YOUR_CALM: [u8; 4] = 11_u32.to_be_bytes();
/// `:status: 200` in the static table of HPACK. Source: RFC 7541, appendix A.
const STATUS_200: u8 = 0x80 | 8;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Frame {
    fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        Self { kind, flags, stream, payload: payload.to_vec() }
    }

    /// A request without a body. Its header block refers to the static table, and adds nothing to the dynamic one.
    fn get(stream: u32, path: &str) -> Self {
        // `:method: GET` and `:scheme: http`, then `:authority` (1) and `:path` (4) with values.
        let mut block = vec![0x80 | 2, 0x80 | 6];
        for (name, value) in [(1, "localhost"), (4, path)] {
            block.extend([name, u8::try_from(value.len()).unwrap()]);
            block.extend(value.as_bytes());
        }
        Self::new(HEADERS, END_STREAM | END_HEADERS, stream, &block)
    }

    fn reset(stream: u32) -> Self {
        Self::new(RST_STREAM, 0, stream, &CANCEL)
    }

    fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[self.kind, self.flags], &self.stream.to_be_bytes(), &self.payload].concat()
    }

    async fn read(reads: &mut OwnedReadHalf) -> io::Result<Self> {
        let mut head = [0; 9];
        reads.read_exact(&mut head).await?;
        let number = |bytes: [u8; 4]| u32::from_be_bytes(bytes);
        let mut payload = vec![0; number([0, head[0], head[1], head[2]]) as usize];
        reads.read_exact(&mut payload).await?;
        Ok(Self { kind: head[3], flags: head[4], stream: number([head[5], head[6], head[7], head[8]]), payload })
    }
}

/// A connection of HTTP/2 that answers the pings of the service.
struct Http2 {
    writes: Arc<Mutex<OwnedWriteHalf>>,
    frames: mpsc::UnboundedReceiver<Frame>,
    _reading: AbortOnDropHandle<()>,
}

impl Http2 {
    async fn connect(service: &Service) -> Self {
        let stream = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut reads, writes) = stream.into_split();
        let (writes, (sender, frames)) = (Arc::new(Mutex::new(writes)), mpsc::unbounded_channel());
        let answers = writes.clone();
        let reading = tokio::spawn(async move {
            while let Ok(frame) = Frame::read(&mut reads).await {
                if frame.kind == PING && frame.flags & ACK == 0 {
                    let answer = Frame::new(PING, ACK, 0, &frame.payload).bytes();
                    drop(answers.lock().await.write_all(&answer).await);
                }
                drop(sender.send(frame));
            }
        });
        let http2 = Self { writes, frames, _reading: AbortOnDropHandle::new(reading) };
        let settings = [Frame::new(SETTINGS, 0, 0, &[]).bytes(), Frame::new(SETTINGS, ACK, 0, &[]).bytes()].concat();
        http2.send(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings].concat()).await.unwrap();
        http2
    }

    async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.writes.lock().await.write_all(bytes).await
    }

    /// The next frame that is one of these; none if the service ended the connection before it.
    async fn next(&mut self, is_wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        loop {
            let frame = timeout(PATIENCE, self.frames.recv()).await.unwrap()?;
            if is_wanted(&frame) {
                return Some(frame);
            }
        }
    }

    /// `/health/live` is answered on this connection.
    async fn is_served(&mut self, stream: u32) {
        self.send(&Frame::get(stream, "/health/live").bytes()).await.unwrap();
        let answer = self.next(|frame| frame.kind == HEADERS && frame.stream == stream).await.unwrap();
        assert_eq!(answer.payload[0], STATUS_200, "{:?}", answer.payload);
    }
}

/// A question that the model never answers, on a stream.
fn hanging(stream: u32) -> Frame {
    let (number, hang) = (number_word(u64::from(stream)), Fault::Hang.word());
    Frame::get(stream, &format!("/rag/answer?query=owls+{number}+{hang}"))
}

#[tokio::test]
async fn a_stream_of_http_2_that_is_reset_ends_its_call_of_the_model() {
    let (workspace, upstream, service) = served(&PATIENT);
    let mut http2 = Http2::connect(&service).await;
    http2.is_served(1).await;
    for round in 0..3 {
        let streams: Vec<u32> = (0..8).map(|number| 3 + 2 * (8 * round + number)).collect();
        let opened: Vec<u8> = streams.iter().flat_map(|stream| hanging(*stream).bytes()).collect();
        http2.send(&opened).await.unwrap();
        eventually("the model is asked all questions", async || upstream.answering() == 8).await;
        let reset: Vec<u8> = streams.iter().flat_map(|stream| Frame::reset(*stream).bytes()).collect();
        http2.send(&reset).await.unwrap();
        eventually("the calls of the model end", async || upstream.answering() == 0).await;
    }
    http2.is_served(1001).await;
    is_unharmed(&workspace, &service).await;
}

#[tokio::test]
async fn forty_thousand_streams_that_are_opened_and_reset_leave_nothing_behind() {
    let (workspace, upstream, service) = served(&PATIENT);
    // What the first requests load is not counted.
    is_unharmed(&workspace, &service).await;
    let before = memory(&service);
    // A connection that resets too much is ended, so many connections do the same with fewer streams each.
    let connections = [vec![20_000_u32], vec![400; 50]].concat();
    let mut ended = 0;
    for streams in connections {
        let mut http2 = Http2::connect(&service).await;
        let ids = (0..streams).map(|number| 2 * number + 1);
        let mut flood: Vec<u8> =
            ids.flat_map(|stream| [hanging(stream).bytes(), Frame::reset(stream).bytes()].concat()).collect();
        flood.extend(Frame::new(PING, 0, 0, b"all read").bytes());
        // The service may end the connection before all is sent.
        drop(http2.send(&flood).await);
        let is_last = |frame: &Frame| frame.kind == GOAWAY || frame.kind == PING && frame.payload == b"all read";
        match http2.next(is_last).await {
            Some(frame) if frame.kind == GOAWAY => {
                assert_eq!(frame.payload[4..8], ENHANCE_YOUR_CALM, "{:?}", frame.payload);
                ended += 1;
            }
            Some(_) => {}
            None => ended += 1,
        }
        let live = service.client.get(format!("{}/health/live", service.url)).timeout(PATIENCE);
        assert_eq!(live.send().await.unwrap().status().as_u16(), 200);
    }
    eventually("the calls of the model end", async || upstream.answering() == 0).await;
    eventually("no answer is worked on", async || {
        service.json("/admin/status").await["answers"] == json!({ "worked_on": 0, "waiting": 0 })
    })
    .await;
    let after = memory(&service);
    assert!(after <= before + 64.0, "{before} MiB before, {after} MiB after; {ended} of 51 connections were ended");
    is_unharmed(&workspace, &service).await;
}
