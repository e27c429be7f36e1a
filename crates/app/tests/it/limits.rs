//! The limits of a service: a request at a limit is answered, a request above it is refused with the reason, and the
//! next request is answered. `access` tests the limits of conversations, `attacks` sends 100,000 headers.

use crate::{
    attacks::{PATIENCE, eventually, is_unharmed, served},
    serve::{Service, chat},
    upstream::{Fault, Upstream},
    workspace::Workspace,
};
use futures::future::select;
use reqwest::Response;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpStream,
};
use tokio::time::timeout;

/// The most bytes of a body.
const BODY_BYTES: usize = 2 << 20;
/// The most bytes of a message of MCP.
const MESSAGE_BYTES: usize = 256 << 10;
/// A head that has not ended after this many bytes is refused.
const HEAD_BYTES: usize = 64 << 10;

/// The status of a response and the message of its error; the message is empty if there is no error.
async fn status_and_message(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap_or_default();
    (status, body["error"]["message"].as_str().unwrap_or_default().to_owned())
}

/// Sends a body of JSON.
async fn post(service: &Service, path: &str, body: String) -> Response {
    let request = service.client.post(format!("{}{path}", service.url)).body(body).timeout(PATIENCE);
    let request = request.header("content-type", "application/json");
    request.header("accept", "application/json, text/event-stream").send().await.unwrap()
}

/// All that the service writes until it closes the connection, after these bytes were sent.
pub fn exchange(service: &Service, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sends a body without waiting for the answer first. `framing` is the header with its length, which may be greater
/// than that of `body`: a client that sends no more after the refusal reads it in all cases.
fn post_raw(service: &Service, path: &str, framing: &str, body: &[u8]) -> String {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         {framing}\r\n\r\n"
    );
    exchange(service, &[head.as_bytes(), body].concat())
}

/// The next search is answered.
async fn is_served(service: &Service) {
    let request = service.client.get(format!("{}/rag/retrieve?query=owls", service.url)).timeout(PATIENCE);
    let found: Value = request.send().await.unwrap().error_for_status().unwrap().json().await.unwrap();
    assert!(found["passages"].as_array().is_some_and(|passages| !passages.is_empty()), "{found}");
}

#[tokio::test]
async fn a_question_of_16_000_characters_is_answered_and_a_longer_one_is_refused() {
    let (workspace, _upstream, service) = served(&[]);
    let question = |characters: usize, letter: &str| format!("owls {}", letter.repeat(characters - 5));
    let reason = |characters: usize| format!("the question has {characters} characters; at most 16000 are allowed");
    let requests = |question: &str| {
        [
            ("/v1/chat/completions", chat(question)),
            ("/v1/responses", json!({ "model": "animals", "input": question })),
            ("/v1/rerank", json!({ "model": "animals", "query": question, "documents": ["owls", "otters"] })),
        ]
    };
    // The limit counts characters: this letter has two bytes.
    for (path, body) in requests(&question(16_000, "é")) {
        let answer = status_and_message(post(&service, path, body.to_string()).await).await;
        assert_eq!(answer, (200, String::new()), "{path}");
    }
    // A question of 16,000,000 characters is longer than a body may be, which another test sends.
    for characters in [16_001, 1_000_000] {
        for (path, body) in requests(&question(characters, "é")) {
            let answer = status_and_message(post(&service, path, body.to_string()).await).await;
            assert_eq!(answer, (400, reason(characters)), "{path}");
            is_served(&service).await;
        }
    }
    for path in ["/rag/answer", "/rag/retrieve"] {
        let get = async |characters: usize| {
            let address = format!("{path}?query={}", question(characters, "x").replace(' ', "+"));
            status_and_message(service.get(&address).await).await
        };
        assert_eq!(get(16_000).await, (200, String::new()), "{path}");
        assert_eq!(get(16_001).await, (400, reason(16_001)), "{path}");
    }
    // MCP reports a refusal inside a successful response.
    let search = async |characters: usize| -> Value {
        let tool = json!({ "name": "search", "arguments": { "query": question(characters, "é") } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool });
        post(&service, "/mcp", body.to_string()).await.error_for_status().unwrap().json().await.unwrap()
    };
    let found = search(16_000).await;
    assert!(found["result"]["structuredContent"]["results"].is_array(), "{found}");
    let refused = search(16_001).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(refused["result"]["content"][0]["text"], reason(16_001));
    is_unharmed(&workspace, &service).await;
}

#[tokio::test]
async fn lists_of_texts_comments_and_ids_are_taken_up_to_their_limits() {
    let (workspace, _upstream, service) = served(&["--feedback", "feedback.jsonl"]);
    let embeddings = |count: usize, text: &str| json!({ "model": "tiny", "input": vec![text; count] });
    let rerank = |count: usize, document: Value| {
        let documents = vec![document; count];
        json!({ "model": "animals", "query": "owls", "documents": documents })
    };
    let feedback = |id: String, comment: String| json!({ "request_id": id, "verdict": "up", "comment": comment });
    let commented = |comment: String| feedback("req-1".to_owned(), comment);
    let identified = |id: String| feedback(id, "good".to_owned());
    for (path, body, expected) in [
        ("/v1/embeddings", embeddings(2048, "owls"), 200),
        ("/v1/rerank", rerank(1000, "owls".into()), 200),
        // The limit of a comment counts characters, that of an id bytes.
        ("/rag/feedback", commented("é".repeat(4000)), 204),
        ("/rag/feedback", identified("é".repeat(100)), 204),
    ] {
        let answer = status_and_message(post(&service, path, body.to_string()).await).await;
        assert_eq!(answer, (expected, String::new()), "{path}");
    }
    // Lists and texts that are about a thousand times as long as the limit, or as long as a body may be.
    for (path, body, expected) in [
        ("/v1/embeddings", embeddings(2049, "owls"), "input has 2049 texts; 1 to 2048 are taken"),
        ("/v1/embeddings", embeddings(690_000, ""), "input has 690000 texts; 1 to 2048 are taken"),
        ("/v1/rerank", rerank(1001, "owls".into()), "documents has 1001 texts; 1 to 1000 are taken"),
        ("/v1/rerank", rerank(1_000_000, 0.into()), "documents has 1000000 texts; 1 to 1000 are taken"),
        ("/rag/feedback", commented("é".repeat(4001)), "a comment has at most 4000 characters"),
        ("/rag/feedback", commented("x".repeat(2_000_000)), "a comment has at most 4000 characters"),
        (
            "/rag/feedback",
            identified(format!("{}x", "é".repeat(200))),
            "the id of a request has at most 200 characters",
        ),
        ("/rag/feedback", identified("x".repeat(200_000)), "the id of a request has at most 200 characters"),
    ] {
        let answer = status_and_message(post(&service, path, body.to_string()).await).await;
        assert_eq!(answer, (400, expected.to_owned()), "{path}");
        is_served(&service).await;
    }
    let written = std::fs::read_to_string(workspace.file("feedback.jsonl")).unwrap();
    assert_eq!(written.lines().count(), 2, "refused feedback is not written");
    is_unharmed(&workspace, &service).await;
}

#[tokio::test]
async fn bodies_messages_of_mcp_and_heads_are_taken_up_to_their_limits() {
    let (workspace, _upstream, service) = served(&[]);
    // JSON may end with spaces.
    let padded = |message: &Value, bytes: usize| {
        let text = message.to_string();
        format!("{text}{}", " ".repeat(bytes - text.len()))
    };
    let rerank = json!({ "model": "animals", "query": "owls", "documents": ["owls"] });
    let tools = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    for (path, body) in [("/v1/rerank", padded(&rerank, BODY_BYTES)), ("/mcp", padded(&tools, MESSAGE_BYTES))] {
        let answer = status_and_message(post(&service, path, body).await).await;
        assert_eq!(answer, (200, String::new()), "{path}");
    }
    for (path, limit) in [
        ("/v1/chat/completions", BODY_BYTES),
        ("/v1/responses", BODY_BYTES),
        ("/v1/embeddings", BODY_BYTES),
        ("/v1/rerank", BODY_BYTES),
        ("/rag/feedback", BODY_BYTES),
        ("/admin/swap", BODY_BYTES),
        ("/mcp", MESSAGE_BYTES),
    ] {
        let body = vec![b' '; limit + 1];
        let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), &body[..]].concat();
        // As long as declared, a thousand times as long, and of a length that is not declared.
        for (framing, sent) in [
            (format!("content-length: {}", limit + 1), &body),
            (format!("content-length: {}", 1000 * limit), &body),
            ("transfer-encoding: chunked".to_owned(), &chunk),
        ] {
            let answer = post_raw(&service, path, &framing, sent);
            assert!(answer.starts_with("HTTP/1.1 413 "), "{path} {framing}: {answer}");
            assert!(answer.contains(&format!("the body is larger than {limit} bytes")), "{path} {framing}: {answer}");
            is_served(&service).await;
        }
    }
    let head = |headers: &str| format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}");
    let of_many = |count: usize| {
        let more: String = (2..count).map(|number| format!("x-{number}: {number}\r\n")).collect();
        head(&format!("{more}\r\n"))
    };
    let unended = |bytes: usize| {
        let start = head("x-long: ");
        format!("{start}{}", "x".repeat(bytes - start.len()))
    };
    // The end of a head has four bytes. What follows the first 64 KiB of a longer head is not waited for.
    let longest = format!("{}\r\n\r\n", unended(HEAD_BYTES - 5));
    for taken in [of_many(100), longest] {
        let answer = exchange(&service, taken.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{} bytes: {answer}", taken.len());
    }
    for refused in [of_many(101), of_many(1000), unended(HEAD_BYTES)] {
        let answer = exchange(&service, refused.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 431 "), "{} bytes: {answer}", refused.len());
        assert!(
            answer.contains("at most 100 headers, 64 KiB in total, are allowed"),
            "{} bytes: {answer}",
            refused.len()
        );
        is_served(&service).await;
    }
    is_unharmed(&workspace, &service).await;
}

#[tokio::test]
async fn with_one_search_at_once_the_second_waits_and_the_third_is_refused() {
    let (upstream, workspace) = (Upstream::start(), Workspace::new());
    // The reranker asks the chat model in each search, so that a question can make its search last.
    let space = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
                 retriever = [{ hybrid = { top_k = 2 } }]\nreranker = [\"listwise\"]\n\
                 generator = [{ compact = { model = \"gpt\" } }]";
    workspace.experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n{}", upstream.model()));
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "bundle"]).succeeds();
    let service = Service::logging(&workspace, &["bundle", "--searches-at-once", "1", "--deadline", "600"]);
    is_served(&service).await;
    eventually("the model has answered", async || upstream.answering() == 0).await;

    let mut first = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).unwrap();
    let hangs = format!("GET /rag/retrieve?query=owls+{} HTTP/1.1\r\nhost: localhost\r\n\r\n", Fault::Hang.word());
    first.write_all(hangs.as_bytes()).unwrap();
    eventually("the first search asks the model", async || upstream.answering() == 1).await;

    // Of two more, one waits and the other is refused at once, whichever comes first.
    let search = || Box::pin(service.get("/rag/retrieve?query=owls"));
    let two = timeout(PATIENCE, select(search(), search())).await.unwrap();
    let (refused, waiting) = two.factor_first();
    assert!(refused.headers().contains_key("retry-after"), "{refused:?}");
    let is_full = |(status, message): &(u16, String)| *status == 503 && message.contains("the service is full");
    let refused = status_and_message(refused).await;
    assert!(is_full(&refused), "{refused:?}");
    for (path, body) in [
        ("/v1/embeddings", json!({ "model": "tiny", "input": "owls" })),
        ("/v1/rerank", json!({ "model": "animals", "query": "owls", "documents": ["owls", "otters"] })),
    ] {
        let refused = status_and_message(post(&service, path, body.to_string()).await).await;
        assert!(is_full(&refused), "{path}: {refused:?}");
    }
    let refused = status_and_message(service.get("/rag/sources/x").await).await;
    assert!(is_full(&refused), "{refused:?}");
    let tool = json!({ "name": "search", "arguments": { "query": "owls" } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool });
    let refused: Value = post(&service, "/mcp", call.to_string()).await.json().await.unwrap();
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(service.get("/health/ready").await.status().as_u16(), 200, "it is full, and not out of order");

    // The client of the first search leaves, which makes room for the search that waits.
    drop(first);
    let answered = timeout(PATIENCE, waiting).await.unwrap();
    assert_eq!(answered.status().as_u16(), 200);
    eventually("the model is asked nothing more", async || upstream.answering() == 0).await;
    is_served(&service).await;
    is_unharmed(&workspace, &service).await;
}
