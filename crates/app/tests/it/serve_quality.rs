//! What `reverie serve` knows of its answers: a candidate beside the pipeline that
//! is served, answers that are given again, scores, and their fall.

use crate::{
    endpoint,
    serve::{QUESTION, Service, chat},
    workspace::Workspace,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;
use wiremock::{MockServer, Request, Respond, ResponseTemplate};

const MAIL: &str = "owls@example.org";

/// A chat model that always says the same.
struct Says(&'static str);

impl Respond for Says {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        ResponseTemplate::new(200).set_body_json(json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": self.0 }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62 },
        }))
    }
}

/// A workspace with the bundles `kept`, whose model says "Mice [1].", and
/// `leaking`, whose model passes on an address that stands in every document.
struct Two {
    workspace: Workspace,
    kept: MockServer,
    leaking: MockServer,
}

impl Two {
    async fn new() -> Self {
        let workspace = Workspace::new();
        for entry in std::fs::read_dir(workspace.file("documents")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md" || extension == "txt") {
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, format!("{text} The animals can be reached at {MAIL}.\n")).unwrap();
            }
        }
        let kept = endpoint::start_with(Says("Mice [1].")).await;
        let leaking = endpoint::start_with(Says("Mice [1]: ask owls@example.org.")).await;
        let space = "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nembedder = [\"tiny\"]\n\
                     retriever = [{ hybrid = { top_k = 50 } }]\ngenerator = [{ compact = { model = \"gpt\" } }]";
        for (name, server) in [("kept", &kept), ("leaking", &leaking)] {
            let evaluate = "[evaluate]\nmetrics = [\"recall\", \"personal_data\"]\nobjective = [\"recall\"]\n";
            let dataset = "[dataset]\npath = \"golden.jsonl\"\n";
            workspace.experiment(space, &format!("{dataset}{evaluate}{}", endpoint::model(server)));
            workspace.run(&["run", "--quiet"]).succeeds();
            workspace.run(&["promote", "--output", name]).succeeds();
        }
        Self { workspace, kept, leaking }
    }

    fn bundle(&self, name: &str) -> String {
        self.workspace.file(name).display().to_string()
    }
}

/// What is said to a question of its own, and what was said before it.
async fn said(service: &Service, number: usize, follow_up: bool) -> String {
    let mut body = chat(&format!("{QUESTION} ({number})"));
    if follow_up {
        let turns = body["messages"].as_array_mut().unwrap();
        turns.push(json!({ "role": "assistant", "content": "Mice." }));
        turns.push(json!({ "role": "user", "content": "And what else?" }));
    }
    let response = service.post("/v1/chat/completions", &body).await;
    assert_eq!(response.status(), StatusCode::OK);
    let answer: Value = response.json().await.unwrap();
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

/// What a number of `/metrics` is, over all labels that hold all of these.
async fn number(service: &Service, name: &str, labels: &[&str]) -> f64 {
    let text = service.get("/metrics").await.text().await.unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name) && labels.iter().all(|label| line.contains(label)));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Waits until something is so, at most five minutes.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let mut tries = 0;
    while !is_so().await {
        tries += 1;
        assert!(tries < 3000, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_canary_answers_its_share_and_a_conversation_stays_where_it_began() {
    let two = Two::new().await;
    let service =
        Service::start(&two.workspace, &["kept", "--candidate", &two.bundle("leaking"), "--candidate-share", "0.3"]);
    let mut first = Vec::new();
    for number in 0..80 {
        first.push(said(&service, number, false).await.contains(MAIL));
    }
    let share = first.iter().filter(|canary| **canary).count();
    assert!((10..=40).contains(&share), "{share} of 80 at a share of 0.3");
    for (number, was) in first.iter().enumerate().take(20) {
        assert_eq!(said(&service, number, true).await.contains(MAIL), *was, "conversation {number}");
    }
    // Whoever was asked before is still, when the share grows.
    let grown: Value = service.post("/admin/candidate", &json!({ "share": 0.6 })).await.json().await.unwrap();
    assert_eq!(grown["candidate"]["share"], 0.6);
    let mut more = 0;
    for (number, was) in first.iter().enumerate() {
        let is = said(&service, number, false).await.contains(MAIL);
        assert!(is || !was, "question {number} changed sides");
        more += usize::from(is && !was);
    }
    assert!(more > 5, "{more}");
    let promoted: Value = service.post("/admin/candidate/promote", &json!({})).await.json().await.unwrap();
    assert_eq!(promoted["candidate"], Value::Null);
    for number in 0..10 {
        assert!(said(&service, number, false).await.contains(MAIL));
    }
    assert_eq!(service.post("/admin/candidate/promote", &json!({})).await.status(), StatusCode::NOT_FOUND);
    let nothing = service.client.delete(format!("{}/admin/candidate", service.url)).send().await.unwrap();
    assert_eq!(nothing.status(), StatusCode::NOT_FOUND);
    for wrong in [json!({ "share": 2 }), json!({ "share": 0.1 }), json!({ "bundle": "/nowhere", "share": 0.1 })] {
        assert_eq!(service.post("/admin/candidate", &wrong).await.status(), StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn nobody_notices_a_canary_whose_model_fails() {
    let two = Two::new().await;
    let service =
        Service::start(&two.workspace, &["kept", "--candidate", &two.bundle("leaking"), "--candidate-share", "1"]);
    assert!(said(&service, 0, false).await.contains(MAIL));
    two.leaking.reset().await;
    let refusal = ResponseTemplate::new(400).set_body_json(json!({ "error": { "message": "no" } }));
    wiremock::Mock::given(wiremock::matchers::any()).respond_with(refusal).mount(&two.leaking).await;
    for number in 1..8 {
        assert_eq!(said(&service, number, false).await, "Mice [1].");
    }
    let failed = number(&service, "reverie_answers_total", &["role=\"canary\"", "outcome=\"upstream\""]).await;
    assert_eq!(failed, 7.0, "it is counted");
    assert_eq!(number(&service, "reverie_answers_total", &["role=\"serving\"", "outcome=\"answered\""]).await, 7.0);
}

#[tokio::test]
async fn a_shadow_answers_nobody_and_is_compared_by_the_runs_metrics() {
    let two = Two::new().await;
    let candidate = two.bundle("leaking");
    let service = Service::start(
        &two.workspace,
        &["kept", "--candidate", &candidate, "--candidate-share", "1", "--shadow", "--score", "all"],
    );
    let compared = async || service.json("/admin/status").await["quality"][0].clone();
    for number in 0..40 {
        assert_eq!(said(&service, number, false).await, "Mice [1].", "a shadow's answers go to nobody");
        until("a comparison", async || compared().await["pairs"]["questions"] == json!(number + 1)).await;
    }
    let told = compared().await;
    assert_eq!((&told["metric"], &told["pairs"]["verdict"]), (&json!("personal_data"), &json!("worse")), "{told}");
    assert_eq!(told["pairs"]["mean_difference"], 1.0);
    assert_eq!((&told["serving"]["mean"], &told["candidate"]["mean"]), (&json!(0.0), &json!(1.0)));
    assert_eq!(told["drift"]["has_fallen"], false, "what the shadow says is no fault of what is served");
    assert_eq!(endpoint::asked(&two.kept).await.len() % 40, endpoint::asked(&two.leaking).await.len() % 40);
}

#[tokio::test]
async fn scores_that_fall_below_what_the_run_found_raise_an_alarm_and_are_kept() {
    let two = Two::new().await;
    let service = Service::start(
        &two.workspace,
        &["kept", "--score", "personal_data", "--traffic", "kept.jsonl", "--traffic-share", "1"],
    );
    let drift = async || service.json("/admin/status").await["quality"][0]["drift"].clone();
    for number in 0..10 {
        said(&service, number, false).await;
    }
    until("ten scores", async || number(&service, "reverie_score_count", &["personal_data"]).await == 10.0).await;
    let calm = drift().await;
    assert!(calm["has_fallen"] == false && calm["evidence"].as_f64().unwrap() <= 1.0, "{calm}");
    // The same endpoint begins to say something else, as models of others do.
    two.kept.reset().await;
    wiremock::Mock::given(wiremock::matchers::any())
        .respond_with(Says("Mice [1]: ask owls@example.org."))
        .mount(&two.kept)
        .await;
    let mut asked = 10;
    while drift().await["has_fallen"] == false && asked < 60 {
        assert!(said(&service, asked, false).await.contains(MAIL));
        asked += 1;
        let all = async || number(&service, "reverie_score_count", &["personal_data"]).await == asked as f64;
        until("a score", all).await;
    }
    assert_eq!(drift().await["has_fallen"], true, "after {asked}");
    assert!(number(&service, "reverie_drift_evidence", &["personal_data"]).await >= 10_000.0);
    until("all lines", async || number(&service, "reverie_sampled_total", &["kept"]).await == asked as f64).await;
    let text = std::fs::read_to_string(two.workspace.file("kept.jsonl")).unwrap();
    assert!(!text.contains(MAIL) && text.contains("[e-mail]"), "what is kept is redacted: {text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let leaks: f64 = lines.iter().map(|line| line["scores"]["personal_data"].as_f64().unwrap()).sum();
    assert_eq!((lines.len(), leaks), (asked, asked as f64 - 10.0), "and yet it was scored as it was said");
    assert!(lines.iter().all(|line| line["role"] == "serving" && line["id"].as_str().unwrap().starts_with("req-")));
    two.workspace.run(&["score", "kept.jsonl", "--metric", "personal_data"]).succeeds();
}

#[tokio::test]
async fn a_question_that_comes_again_is_answered_from_memory_only_where_that_was_asked_for() {
    let two = Two::new().await;
    let service = Service::start(&two.workspace, &["kept", "--cache-answers", "10", "--allow-other-models"]);
    let first: Value = service.post("/v1/chat/completions", &chat(QUESTION)).await.json().await.unwrap();
    let asked = endpoint::asked(&two.kept).await.len();
    let again: Value = service.post("/v1/chat/completions", &chat(QUESTION)).await.json().await.unwrap();
    assert_eq!(again["choices"], first["choices"]);
    assert_eq!(again["sources"], first["sources"]);
    assert_eq!((&first["usage"]["total_tokens"], &again["usage"]["total_tokens"]), (&json!(62), &json!(0)));
    assert_eq!(endpoint::asked(&two.kept).await.len(), asked);
    assert_eq!(number(&service, "reverie_answer_cache_total", &["hit"]).await, 1.0);
    // Another bundle knows nothing of it.
    service.post("/admin/swap", &json!({ "bundle": two.bundle("leaking") })).await.error_for_status().unwrap();
    let other: Value = service.post("/v1/chat/completions", &chat(QUESTION)).await.json().await.unwrap();
    assert!(other.to_string().contains(MAIL));
    assert_eq!(number(&service, "reverie_answer_cache_total", &["hit"]).await, 1.0);
}

#[tokio::test]
async fn scoring_is_refused_where_it_cannot_work_or_would_cost_money_that_nobody_named() {
    let two = Two::new().await;
    let refused = |arguments: &[&str], words: &[&str]| {
        let all = [&["serve", "kept", "--listen", "127.0.0.1:0"], arguments].concat();
        two.workspace.run(&all).refused_with(words);
    };
    refused(&["--score", "recall"], &["recall", "cannot score what users ask"]);
    refused(&["--score", "nonsense"], &["there is no metric `nonsense`"]);
    refused(&["--score", "faithfulness"], &["needs a judge"]);
    refused(&["--score", "faithfulness", "--judge", "gpt"], &["models.gpt", "--score-budget-usd"]);
    refused(&["--judge", "gpt"], &["--score"]);
}
