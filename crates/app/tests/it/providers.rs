//! A model of a provider with a protocol of its own, in a whole experiment.
#![cfg(feature = "providers")]

use crate::workspace::{Outcome, Workspace};
use serde_json::{Value, json};
use wiremock::{
    Mock, MockServer, Request, Respond, ResponseTemplate,
    matchers::{header, method, path},
};

const KEY: &str = "sk-ant-0123456789abcdef";

/// Answers with the beginning of the prompt's end, as Anthropic puts it.
struct Claude;

impl Respond for Claude {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let prompt = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let words: Vec<&str> = prompt.split_whitespace().rev().take(12).collect();
        let answer = format!("{} [1]", words.into_iter().rev().collect::<Vec<_>>().join(" "));
        ResponseTemplate::new(200).set_body_json(json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
            "content": [{ "type": "text", "text": answer }], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 50, "output_tokens": 12 },
        }))
    }
}

#[tokio::test]
async fn an_experiment_runs_on_a_provider_that_only_its_name_and_its_key_tell() {
    let server = MockServer::start().await;
    let models = ResponseTemplate::new(200).set_body_json(json!({ "data": [] }));
    Mock::given(method("GET"))
        .and(path("/v1/models"))
        .and(header("x-api-key", KEY))
        .respond_with(models)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .and(path("/v1/messages"))
        .and(header("x-api-key", KEY))
        .and(header("anthropic-version", "2023-06-01"))
        .respond_with(Claude)
        .mount(&server)
        .await;
    let workspace = Workspace::new();
    let space = "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"dense\"]\ngenerator = [{ compact = { model = \"claude\" } }]";
    let model = format!(
        "[models.claude]\nchat.anthropic = {{ model = \"claude-sonnet-4-5\", base_url = \"{}/v1\", price = {{ input = 3, output = 15 }} }}\n",
        server.uri()
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\nbudget = { usd = 1 }\n";
    workspace.experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));

    let missing = workspace.command(&["run"]).env_remove("ANTHROPIC_API_KEY").output().unwrap();
    Outcome::of(missing).refused_with(&["ANTHROPIC_API_KEY"]);

    let run = || {
        let output = workspace.command(&["run", "--json"]).env("ANTHROPIC_API_KEY", KEY).output().unwrap();
        Outcome::of(output).succeeds().json()
    };
    let results = run();
    let scored = &results["trials"][0]["metrics"]["token_f1"];
    assert!(scored["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{results}");
    let asked = server.received_requests().await.unwrap().iter().filter(|request| request.method == "POST").count();
    assert!(asked > 0);

    workspace.forget_artifacts();
    run();
    let asked_again =
        server.received_requests().await.unwrap().iter().filter(|request| request.method == "POST").count();
    assert_eq!(asked_again, asked, "what was paid is in the journal");
}
