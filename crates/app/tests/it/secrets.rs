//! A key is in no file and in no output, whatever the other side sends back.

use crate::{endpoint, workspace::Workspace};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};
use wiremock::{Request, Respond, ResponseTemplate};

const KEY: &str = "sk-planted-0123456789abcdef";
const TEAM: &str = "team-planted-fedcba98765";

/// Sends our secrets back in answers and in every kind of refusal.
#[derive(Default)]
struct Gossip(AtomicUsize);

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

#[tokio::test]
async fn a_planted_key_is_in_no_file_of_the_store_and_in_no_output() {
    let server = endpoint::start_with(Gossip::default()).await;
    let workspace = Workspace::new();
    workspace.multiply_questions(3);
    let space = "chunker = [\"sentence\"]\nembedder = [\"tiny\"]\nretriever = [\"dense\"]\ngenerator = [{ compact = { model = \"gpt\" } }]";
    let model = format!(
        "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 1, api_key_env = \"PLANTED_KEY\", headers = {{ x-team = \"env:PLANTED_TEAM\" }} }}\n",
        server.uri()
    );
    let evaluate = "[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\n";
    workspace.experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n{evaluate}{model}"));
    let run = |arguments: &[&str]| {
        let mut command = workspace.command(arguments);
        command.env("PLANTED_KEY", KEY).env("PLANTED_TEAM", TEAM);
        crate::workspace::Outcome::of(command.output().unwrap())
    };
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

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
