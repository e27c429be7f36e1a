//! Runs in which scores are missing from the beginning.

use crate::{endpoint, workspace::Workspace};
use wiremock::{Request, Respond, ResponseTemplate};

/// A provider that is down.
struct Down;

impl Respond for Down {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        ResponseTemplate::new(500).set_body_string("{\"error\": {\"message\": \"down\"}}")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tpe_ends_with_results_if_no_answer_ever_comes() {
    let server = endpoint::start_with(Down).await;
    let workspace = Workspace::new();
    workspace.experiment(
        "chunker = [\"sentence\"]\nretriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 2 } }, { bm25 = { top_k = 3 } }, { bm25 = { top_k = 4 } }]\ngenerator = { compact = { model = \"gpt\" } }",
        &format!(
            "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\" }}\n\n[dataset]\npath = \"golden.jsonl\"\n\n[evaluate]\nmetrics = [\"token_f1\"]\nanswered = 1",
            server.uri()
        ),
    );
    let search = "search={ tpe = { share = 1.0, startup = 0.25 } }";
    let ended = workspace.run(&["run", "--json", "--set", search]).ends_with(3);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    let results = ended.json();
    assert_eq!(results["trials"].as_array().map(Vec::len), Some(4));
    assert!(results["winner"]["refused"].is_string(), "{}", results["winner"]);
    workspace.run(&["leaderboard"]).succeeds();
}
