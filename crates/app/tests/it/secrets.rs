//! A key is in no file and in no output, whatever the other side sends back.

use crate::{
    endpoint,
    serve::{Service, chat},
    traces::{collector, ended},
    workspace::Workspace,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use wiremock::{Request, Respond, ResponseTemplate};

const KEY: &str = "sk-planted-0123456789abcdef";
const TEAM: &str = "team-planted-fedcba98765";
const SECRETS: [(&str, &str); 2] = [("PLANTED_KEY", KEY), ("PLANTED_TEAM", TEAM)];

/// Sends our secrets back in answers and in every kind of refusal.
#[derive(Clone, Default)]
struct Gossip(Arc<AtomicUsize>);

impl Respond for Gossip {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let said = format!("you sent {} and {}", header("authorization"), header("x-team"));
        assert!(said.contains(KEY) && said.contains(TEAM));
        let refusal = |status: u16, code: &str| {
            let error = json!({ "error": { "message": said, "code": code, "type": said } });
            ResponseTemplate::new(status).insert_header("retry-after-ms", "1").set_body_json(error)
        };
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => refusal(500, ""),
            1 => refusal(429, "rate_limit_exceeded"),
            2 => refusal(503, ""),
            3 => refusal(400, "content_filter"),
            4 => refusal(422, ""),
            5 => refusal(401, "invalid_api_key"),
            6 => refusal(429, "insufficient_quota"),
            7 => ResponseTemplate::new(200).insert_header("retry-after-ms", "1").set_body_string(said),
            _ => ResponseTemplate::new(200).set_body_json(json!({
                "choices": [{ "message": { "role": "assistant", "content": said }, "finish_reason": "stop" }],
            })),
        }
    }
}

/// An experiment whose chat model wants the secrets.
fn experiment(workspace: &Workspace, server: &str) {
    let space = "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"dense\"]\ngenerator = [{ compact = { model = \"gpt\" } }]";
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{server}/v1\", concurrency = 1, api_key_env = \"PLANTED_KEY\", headers = {{ x-team = \"env:PLANTED_TEAM\" }} }}\n"
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    workspace.experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));
}

/// Runs a command with the secrets in its environment.
fn run(workspace: &Workspace, arguments: &[&str]) -> crate::workspace::Outcome {
    let mut command = workspace.command(arguments);
    command.envs(SECRETS);
    crate::workspace::Outcome::of(command.output().unwrap())
}

#[tokio::test]
async fn a_planted_key_is_in_no_file_of_the_store_and_in_no_output() {
    let server = endpoint::start_with(Gossip::default()).await;
    let workspace = Workspace::new();
    workspace.multiply_questions(3);
    experiment(&workspace, &server.uri());
    let run = |arguments: &[&str]| run(&workspace, arguments);
    let mut outputs = vec![run(&["run", "--json"]).ends_with(3)];
    let results = outputs[0].json().to_string();
    for part in ["withheld", "refused the request", "refused the key", "quota is used up", "you sent Bearer [redacted]"]
    {
        assert!(results.contains(part), "`{part}` is not in the results, so it was not tested");
    }
    for arguments in [["leaderboard"].as_slice(), &["show", "t01"], &["journal", "stats"], &["query", "Why?"]] {
        outputs.push(run(arguments).ends_with(0));
    }
    outputs.push(run(&["run", "--json"]).ends_with(0));
    for output in &outputs {
        for text in [&output.out, &output.err] {
            assert!(!text.contains(KEY) && !text.contains(TEAM), "{text}");
        }
    }
    let files = files(&workspace.file("store"));
    assert!(files.len() > 10, "{files:?}");
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        for secret in [KEY, TEAM] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds {secret}", path.display());
        }
    }
}

#[tokio::test]
async fn a_planted_key_is_in_no_answer_of_a_service_and_in_none_of_its_logs_and_traces() {
    let gossip = Gossip::default();
    let server = endpoint::start_with(gossip.clone()).await;
    let collector = collector().await;
    let workspace = Workspace::new();
    experiment(&workspace, &server.uri());
    gossip.0.store(8, Ordering::SeqCst);
    run(&workspace, &["run", "--quiet"]).ends_with(0);
    run(&workspace, &["promote", "--output", "bundle"]).ends_with(0);
    gossip.0.store(0, Ordering::SeqCst);
    let content = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let variables = [SECRETS[0], SECRETS[1], content];
    let traces = collector.uri();
    let arguments = ["bundle", "--traces", &traces, "--traffic", "traffic.jsonl", "--traffic-share", "1"];
    let service = Service::start_with(&workspace, &arguments, &variables);
    let (mut told, mut statuses) = (String::new(), std::collections::BTreeSet::new());
    for number in 0..8 {
        let mut body = chat(&format!("What do owls swallow at {number} o'clock?"));
        body["stream"] = json!(number % 2 == 0);
        let answer = service.post("/v1/chat/completions", &body).await;
        statuses.insert(answer.status().as_u16());
        told.push_str(&format!("{:?}", answer.headers()));
        told.push_str(&answer.text().await.unwrap());
    }
    for path in ["/metrics", "/admin/status", "/openapi.json", "/health/ready"] {
        told.push_str(&service.get(path).await.text().await.unwrap());
    }
    told.push_str(&ended(service));
    told.push_str(&std::fs::read_to_string(workspace.file("traffic.jsonl")).unwrap());
    for request in collector.received_requests().await.unwrap() {
        told.push_str(&String::from_utf8_lossy(&request.body));
    }
    assert!(statuses.contains(&200) && statuses.len() > 1, "{statuses:?}");
    assert!(told.contains("you sent Bearer [redacted]"), "{told}");
    assert!(!told.contains(KEY) && !told.contains(TEAM), "{told}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
