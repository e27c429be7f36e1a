//! A remote embedder is paid once for each text, whatever files come and go.

use crate::workspace::Workspace;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::path_regex};

/// Embeds by the counts of letters, and records the texts that it is sent.
#[derive(Clone, Default)]
struct Letters(Arc<Mutex<Vec<String>>>);

impl Respond for Letters {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let texts: Vec<String> = serde_json::from_value(body["input"].clone()).unwrap();
        let row = |(index, text): (usize, &String)| {
            let count = |letter: char| 1 + text.chars().filter(|c| *c == letter).count();
            let vector = ['a', 'e', 'o', '1', '2', '3'].map(count);
            json!({ "object": "embedding", "index": index, "embedding": vector })
        };
        let data: Vec<Value> = texts.iter().enumerate().map(row).collect();
        let tokens = texts.len() * 10;
        self.0.lock().unwrap().extend(texts);
        ResponseTemplate::new(200).set_body_json(json!({
            "object": "list", "data": data, "model": "letters", "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
        }))
    }
}

#[tokio::test]
async fn a_file_that_is_added_at_the_front_is_all_that_is_embedded_again() {
    let (letters, server) = (Letters::default(), MockServer::start().await);
    Mock::given(path_regex("/embeddings$")).respond_with(letters.clone()).mount(&server).await;
    let workspace = Workspace::new();
    for i in 0..200 {
        workspace.write(
            &format!("documents/mill-{i:03}.txt"),
            format!("Mill {i} ground corn for {i} farmers of the valley."),
        );
    }
    let model = format!(
        "[models.far]\nembedding.openai = {{ model = \"letters\", base_url = \"{}/v1\", price = 1.0 }}\n",
        server.uri()
    );
    let space = "chunker = [{ sentence = { chunk_size = 64, chunk_overlap = 0 } }]\nembedder = [\"far\"]\nretriever = [\"dense\"]";
    workspace
        .experiment(space, &format!("[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]\n{model}"));
    let sent = || std::mem::take(&mut *letters.0.lock().unwrap());
    workspace.run(&["run", "--quiet"]).succeeds();
    let all = sent();
    assert!(all.len() > 200, "{} texts", all.len());
    let different: std::collections::HashSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len());

    workspace.write("documents/aaa.txt", "A file that comes first, of which nobody has heard before.");
    workspace.run(&["run", "--quiet"]).succeeds();
    assert_eq!(sent(), ["A file that comes first, of which nobody has heard before."]);

    // Everything is computed again, but not paid, in whatever groups.
    workspace.forget_artifacts();
    std::fs::remove_file(workspace.file("documents/mill-000.txt")).unwrap();
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(sent(), [""; 0]);
    let spent = &results["spending"]["letters"];
    assert_eq!((&spent["calls"], &spent["cost_usd"]), (&json!(0), &json!(0.0)), "{spent}");
    let stats = workspace.run(&["journal", "stats", "--json"]).succeeds().json();
    let texts = all.len() + 1;
    assert_eq!((&stats["entries"], &stats["prompt_tokens"]), (&json!(texts), &json!(texts * 10)), "{stats}");
}
