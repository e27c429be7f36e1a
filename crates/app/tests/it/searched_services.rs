//! The retriever `http`. The search service is a `reverie serve` of another experiment, or a stub.

use crate::{serve::Service, workspace::Workspace};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

const REST: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]\n";
const CHUNKS: &str =
    "chunker = { sentence = { chunk_size = 16, chunk_overlap = 0 } }\nretriever = { bm25 = { top_k = 2 } }";

/// An experiment whose only trial searches at this address.
fn searching(url: &str, settings: &str) -> Workspace {
    let workspace = Workspace::new();
    let settings = if settings.is_empty() { String::new() } else { format!(", {settings}") };
    workspace.experiment(&format!("retriever = {{ http = {{ url = \"{url}\", top_k = 2{settings} }} }}"), REST);
    workspace
}

/// Replies with one passage of the corpus, and counts.
#[derive(Clone, Default)]
struct OnePassage(Arc<AtomicUsize>);

impl Respond for OnePassage {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.0.fetch_add(1, SeqCst);
        let asked: Value = serde_json::from_slice(&request.body).unwrap();
        if asked["question"].as_str().unwrap().contains("songs") && asked["top_k"] == 3 {
            return ResponseTemplate::new(400).set_body_string("no songs");
        }
        let passage = json!({ "text": "Its heart weighs as much as a small car.", "file": "whales.html" });
        ResponseTemplate::new(200).set_body_json(json!({ "passages": [passage] }))
    }
}

async fn one_passage() -> (MockServer, OnePassage) {
    let (server, replies) = (MockServer::start().await, OnePassage::default());
    Mock::given(any()).respond_with(replies.clone()).mount(&server).await;
    (server, replies)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_service_gives_the_scores_of_what_it_searches() {
    let theirs = Workspace::new();
    theirs.experiment(CHUNKS, REST);
    let measured = theirs.run(&["run", "--json"]).succeeds().json();
    let service = Service::start(&theirs, &[]);
    let ours = searching(
        &format!("{}/rag/retrieve", service.url),
        "method = \"GET\", query = { query = \"{question}\", top_k = \"{top_k}\" }, passage = { text = \"text\", document = \
         \"file\", page = \"page\", score = \"score\" }, version = \"1\"",
    );
    let planned = ours.run(&["plan"]).succeeds().out;
    assert!(planned.contains("searches an index that exists, so its chunker is `none`"), "{planned}");
    let results = ours.run(&["run", "--json"]).succeeds().json();
    assert_eq!(results["trials"][0]["metrics"], measured["trials"][0]["metrics"], "{results}");
    assert_eq!(results["trials"][0]["trial"]["labels"]["chunker"], "none");
    assert!(results["trials"][0]["latency_p50"].as_f64().unwrap() > 0.0, "{results}");
    let found = ours.run(&["query", "How far does an owl turn its head?"]).succeeds().out;
    assert!(found.contains("owl"), "{found}");
    ours.run(&["promote", "--output", "bundle"]).succeeds();
    let bundled = Service::start(&ours, &["bundle"]);
    let found = bundled.json("/rag/retrieve?query=owl").await;
    assert_eq!(found["passages"][0]["file"], "owls.txt", "a bundle names the service and holds no index: {found}");
    // The pipeline that searches there is served as any other.
    let served = Service::start(&ours, &[]);
    let found = served.json("/rag/retrieve?query=owl").await;
    assert_eq!(found["passages"][0]["file"], "owls.txt", "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_keeps_the_replies_until_the_version_changes_and_a_question_of_now_is_always_asked() {
    let (server, replies) = one_passage().await;
    let path = "passage = { document = \"file\" }, version = \"1\"";
    let workspace = searching(&server.uri(), path);
    let asked = |arguments: &[&str]| {
        let before = replies.0.load(SeqCst);
        workspace.run(arguments).succeeds();
        replies.0.load(SeqCst) - before
    };
    assert_eq!(asked(&["run"]), 4);
    workspace.forget_artifacts();
    assert_eq!(asked(&["run"]), 0, "the replies are in the journal");
    assert_eq!(asked(&["query", "What do whales weigh?"]), 1);
    assert_eq!(asked(&["query", "What do whales weigh?"]), 1);
    let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", file.replace("version = \"1\"", "version = \"2\""));
    assert_eq!(asked(&["run"]), 4, "another version is another index");
    workspace.write("experiment.toml", file.replace(", version = \"1\"", ""));
    let said = workspace.run(&["run"]).succeeds().err;
    assert!(said.contains("has no `version`"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_without_a_reply_ends_the_search_and_the_next_run_asks_for_it_alone() {
    let (server, replies) = one_passage().await;
    let workspace = searching(&server.uri(), "version = \"1\"");
    let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace.write("experiment.toml", file.replace("top_k = 2", "top_k = 3"));
    let failed = workspace.run(&["run"]);
    assert!(failed.out.contains("no songs") && failed.out.contains("[retriever.http]"), "{}", failed.out);
    assert_eq!(replies.0.load(SeqCst), 4);
    workspace.run(&["run"]);
    assert_eq!(replies.0.load(SeqCst), 5, "three replies were kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_searched_is_told_before_the_run_or_named_with_its_setting() {
    let refused = |settings: &str, parts: &[&str]| {
        searching("http://127.0.0.1:9/search", settings).run(&["run"]).refused_with(parts);
    };
    refused("body = { q = \"{queston}\" }", &["experiment.toml:", "`{queston}`", "{question}"]);
    refused("body = { q = \"all\" }", &["{question} is not sent"]);
    refused("api_key_env = \"UNSET_KEY\"", &["space.retriever: http", "UNSET_KEY"]);
    refused("body = [\"{vector}\"]", &["embedder"]);
    let page = MockServer::start().await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200).set_body_raw("<html>Please log in</html>", "text/html"))
        .mount(&page)
        .await;
    let failed = searching(&page.uri(), "").run(&["run"]);
    assert!(failed.out.contains("it sent HTML, not JSON: check `url`"), "{}", failed.out);
    let (server, replies) = one_passage().await;
    let failed = searching(&server.uri(), "passages = \"hits\"").run(&["run"]);
    assert_eq!(replies.0.load(SeqCst), 1, "the other questions would be asked in vain");
    assert!(failed.out.contains("`passages`") && failed.out.contains("[retriever.http]"), "{}", failed.out);
}
