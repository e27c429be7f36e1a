//! Models of every provider that is known by its name, in one experiment, at
//! servers that speak their protocols.
#![cfg(feature = "providers")]

use crate::workspace::{Outcome, Workspace};
use serde_json::{Value, json};
use std::process::Command;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// A provider, as its protocol has it.
struct Provider {
    name: &'static str,
    /// The settings that the experiment gives besides the address.
    settings: &'static str,
    /// Below its name.
    base_path: &'static str,
    /// Of its calls, below the base path.
    path: &'static str,
    /// The variable and the header of its key, and what stands before it there.
    key: Option<(&'static str, &'static str, &'static str)>,
    /// Where the text of the last message stands, from its end.
    prompt: fn(&Value) -> Option<&Value>,
    answer: fn(&str) -> Value,
}

const OPENAI: Provider = Provider {
    name: "",
    settings: "model = \"m\"",
    base_path: "/v1",
    path: "/chat/completions",
    key: None,
    prompt: |body| body["messages"].as_array()?.last()?.get("content"),
    answer: |text| {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62 },
        })
    },
};

const PROVIDERS: [Provider; 7] = [
    Provider {
        name: "anthropic",
        path: "/messages",
        key: Some(("ANTHROPIC_API_KEY", "x-api-key", "")),
        answer: |text| {
            json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": { "input_tokens": 50, "output_tokens": 12 },
            })
        },
        ..OPENAI
    },
    Provider { name: "azure", key: Some(("AZURE_OPENAI_API_KEY", "api-key", "")), base_path: "/openai/v1", ..OPENAI },
    Provider {
        name: "bedrock",
        settings: "model = \"amazon.m-v1:0\"",
        base_path: "",
        path: "/model/amazon.m-v1%3A0/converse",
        key: Some(("AWS_BEARER_TOKEN_BEDROCK", "authorization", "Bearer ")),
        prompt: |body| body["messages"].as_array()?.last()?.pointer("/content/0/text"),
        answer: |text| {
            json!({
                "output": { "message": { "role": "assistant", "content": [{ "text": text }] } },
                "stopReason": "end_turn", "usage": { "inputTokens": 50, "outputTokens": 12, "totalTokens": 62 },
            })
        },
    },
    Provider {
        name: "cohere",
        base_path: "/compatibility/v1",
        key: Some(("COHERE_API_KEY", "authorization", "Bearer ")),
        ..OPENAI
    },
    Provider {
        name: "gemini",
        base_path: "/v1beta",
        path: "/models/m:generateContent",
        key: Some(("GEMINI_API_KEY", "x-goog-api-key", "")),
        prompt: |body| body["contents"].as_array()?.last()?.pointer("/parts/0/text"),
        answer: |text| {
            json!({
                "candidates": [{ "content": { "parts": [{ "text": text }], "role": "model" }, "finishReason": "STOP" }],
                "usageMetadata": { "promptTokenCount": 50, "candidatesTokenCount": 12, "totalTokenCount": 62 },
            })
        },
        ..OPENAI
    },
    Provider { name: "mistral", key: Some(("MISTRAL_API_KEY", "authorization", "Bearer ")), ..OPENAI },
    Provider { name: "ollama", ..OPENAI },
];

impl Provider {
    fn secret(&self) -> String {
        format!("key-of-{}", self.name)
    }

    fn root(&self) -> String {
        format!("/{}{}", self.name, self.base_path)
    }
}

/// Answers with the beginning of the prompt's end, whoever is asked.
struct Everyone;

impl Respond for Everyone {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let path = request.url.path();
        let Some(provider) = PROVIDERS.iter().find(|provider| path.starts_with(&provider.root())) else {
            return ResponseTemplate::new(404);
        };
        if let Some((_, header, before)) = provider.key {
            let expected = format!("{before}{}", provider.secret());
            if request.headers.get(header).and_then(|key| key.to_str().ok()) != Some(&expected) {
                return ResponseTemplate::new(401);
            }
        }
        if request.method == "GET" && path == format!("{}/models", provider.root()) {
            return ResponseTemplate::new(200).set_body_json(json!({ "data": [] }));
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let prompt = (provider.prompt)(&body).and_then(Value::as_str);
        match prompt.filter(|_| path == format!("{}{}", provider.root(), provider.path)) {
            Some(prompt) => {
                let words: Vec<&str> = prompt.split_whitespace().rev().take(12).collect();
                let answer = format!("{} [1]", words.into_iter().rev().collect::<Vec<_>>().join(" "));
                ResponseTemplate::new(200).set_body_json((provider.answer)(&answer))
            }
            None => ResponseTemplate::new(400).set_body_json(json!({ "message": "no conversation" })),
        }
    }
}

/// How many answers each provider gave.
async fn answers(server: &MockServer) -> Vec<usize> {
    let requests = server.received_requests().await.unwrap();
    let calls = |provider: &Provider| {
        let path = format!("{}{}", provider.root(), provider.path);
        let is_call = |request: &&Request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            request.url.path() == path && (provider.prompt)(&body).is_some()
        };
        requests.iter().filter(is_call).count()
    };
    PROVIDERS.iter().map(calls).collect()
}

/// A command that finds all keys but this.
fn without(workspace: &Workspace, arguments: &[&str], missing: &str) -> Command {
    let mut command = workspace.command(arguments);
    for provider in &PROVIDERS {
        if let Some((variable, ..)) = provider.key {
            match variable == missing {
                true => command.env_remove(variable),
                false => command.env(variable, provider.secret()),
            };
        }
    }
    command
}

#[tokio::test]
async fn an_experiment_runs_on_each_provider_that_only_its_name_and_its_key_tell() {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(Everyone).mount(&server).await;
    let workspace = Workspace::new();
    let generators: Vec<String> =
        PROVIDERS.iter().map(|provider| format!("{{ compact = {{ model = \"{}\" }} }}", provider.name)).collect();
    let space = format!(
        "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"dense\"]\ngenerator = [{}]",
        generators.join(", ")
    );
    let models: String = PROVIDERS
        .iter()
        .map(|provider| {
            let (name, settings, base_url) = (provider.name, provider.settings, server.uri() + &provider.root());
            format!(
                "{name}.chat.{name} = {{ {settings}, base_url = \"{base_url}\", price = {{ input = 3, output = 15 }} }}\n"
            )
        })
        .collect();
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\nbudget = { usd = 1 }\n";
    workspace.experiment(&space, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}[models]\n{models}"));

    for (variable, ..) in PROVIDERS.iter().filter_map(|provider| provider.key) {
        Outcome::of(without(&workspace, &["run"], variable).output().unwrap()).refused_with(&[variable]);
    }
    assert_eq!(answers(&server).await, [0; 7], "what is missing is found before any call");

    let run = || Outcome::of(without(&workspace, &["run", "--json"], "").output().unwrap()).succeeds().json();
    let results = run();
    let scores: Vec<f64> = results["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["metrics"]["token_f1"]["mean"].as_f64().unwrap())
        .collect();
    assert_eq!(scores.len(), 7);
    assert!(scores[0] > 0.0 && scores.iter().all(|score| *score == scores[0]), "{results}");
    let asked = answers(&server).await;
    assert!(asked[0] > 0 && asked.iter().all(|n| *n == asked[0]), "{asked:?}");

    workspace.forget_artifacts();
    run();
    assert_eq!(answers(&server).await, asked, "what was paid is in the journal");
}
