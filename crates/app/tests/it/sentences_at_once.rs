//! `sentences` handles several questions at once while it waits for an embedder behind an endpoint.

use crate::workspace::Workspace;
use serde_json::{Value, json};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

/// Each question is about one of these, and each document too.
const MILLS: [&str; 4] = ["amber", "birch", "cedar", "daisy"];

/// How the second sentence of each document begins. No chunk and no question begins so, because a chunk is a whole
/// document: a call with such a text comes from `sentences`.
const SECOND: &str = "It has";

/// Calls of `sentences`.
#[derive(Default)]
struct Calls {
    all: usize,
    in_flight: usize,
    most_in_flight: usize,
    /// Whether one was held for as long as the endpoint has patience; then none is held any more.
    is_over: bool,
}

/// An embedding model behind an endpoint, which holds each call of `sentences` until a second one is in flight.
struct Endpoint {
    patience: Duration,
    calls: Mutex<Calls>,
    changed: Condvar,
}

impl Endpoint {
    /// Its address, and itself. Each connection has a thread of its own.
    fn start(patience: Duration) -> (String, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let endpoint = Arc::new(Self { patience, calls: Mutex::default(), changed: Condvar::new() });
        let of_all = endpoint.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let endpoint = of_all.clone();
                // Whoever calls may leave at any time.
                std::thread::spawn(move || drop(endpoint.serve(stream)));
            }
        });
        (url, endpoint)
    }

    /// Answers requests until the other side leaves.
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse::<usize>().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let answer = match body.is_empty() {
                true => json!({ "object": "list", "data": [] }),
                false => self.embed(&serde_json::from_slice(&body).unwrap()),
            };
            let answer = answer.to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all([head, answer].concat().as_bytes())?;
        }
    }

    /// The vectors of a call: a text is near the questions about the mills that it names.
    fn embed(&self, body: &Value) -> Value {
        let texts: Vec<String> = serde_json::from_value(body["input"].clone()).unwrap();
        if texts.iter().any(|text| text.trim_start().starts_with(SECOND)) {
            self.hold();
        }
        let row = |(index, text): (usize, &String)| {
            let text = text.to_lowercase();
            let mut vector: Vec<f64> = MILLS.iter().map(|mill| f64::from(u8::from(text.contains(mill)))).collect();
            vector.push(0.1);
            json!({ "object": "embedding", "index": index, "embedding": vector })
        };
        let data: Vec<Value> = texts.iter().enumerate().map(row).collect();
        let usage = json!({ "prompt_tokens": texts.len(), "total_tokens": texts.len() });
        json!({ "object": "list", "data": data, "model": "far", "usage": usage })
    }

    /// Waits until two calls of `sentences` were in flight at once.
    fn hold(&self) {
        let mut calls = self.calls.lock().unwrap();
        calls.all += 1;
        calls.in_flight += 1;
        calls.most_in_flight = calls.most_in_flight.max(calls.in_flight);
        self.changed.notify_all();
        let waits = |calls: &mut Calls| calls.most_in_flight < 2 && !calls.is_over;
        let (mut calls, waited) = self.changed.wait_timeout_while(calls, self.patience, waits).unwrap();
        calls.is_over |= waited.timed_out();
        calls.in_flight -= 1;
    }
}

/// Runs an experiment with `sentences`, in which so many questions may be handled at once; gives how many calls of
/// `sentences` there were, and the most that were in flight.
fn run(at_once: usize, patience: Duration) -> (usize, usize) {
    let (url, endpoint) = Endpoint::start(patience);
    let workspace = Workspace::new();
    let mut golden = Vec::new();
    for mill in MILLS {
        let fact = format!("{SECOND} wheels of {mill}.");
        workspace.write(&format!("documents/{mill}.txt"), format!("The mill of {mill} ground corn. {fact}"));
        let evidence = json!([{ "document": format!("{mill}.txt"), "quote": fact }]);
        let question = format!("What has the mill of {mill}?");
        golden.push(json!({ "id": mill, "question": question, "reference": fact, "evidence": evidence }).to_string());
    }
    workspace.write("golden.jsonl", golden.join("\n"));
    // Each question finds its own document alone, so that no two have a sentence in common: that would be sent once.
    let space = "chunker = [{ sentence = { chunk_size = 64, chunk_overlap = 0 } }]\nembedder = [\"far\"]\n\
                 retriever = [{ dense = { top_k = 1 } }]\nrefine = [\"sentences\"]";
    // A call that is held must not be given up and sent again: that would be a second one in flight.
    let model = format!(
        "[models.far]\nembedding.openai = {{ model = \"far\", base_url = \"{url}\", timeout_seconds = 600.0 }}\n"
    );
    workspace.experiment(
        space,
        &format!(
            "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\n\
             [engine.local]\ntasks = {at_once}\n{model}"
        ),
    );
    workspace.run(&["run", "--quiet"]).succeeds();
    let calls = endpoint.calls.lock().unwrap();
    (calls.all, calls.most_in_flight)
}

#[test]
fn several_questions_wait_for_a_remote_embedder_at_once() {
    // Where only one call comes at a time, the first waits for a minute, and the number below is 1.
    let (all, most) = run(16, Duration::from_secs(60));
    assert_eq!(all, MILLS.len(), "a call for each question");
    assert!(most >= 2, "one question was handled after the other");
}

#[test]
fn with_one_task_at_once_the_questions_come_one_after_the_other() {
    assert_eq!(run(1, Duration::ZERO), (MILLS.len(), 1));
}
