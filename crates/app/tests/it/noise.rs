//! `reverie noise` in conversations: it asks what the run asked, and one call
//! that fails loses nothing else.

use crate::{endpoint, workspace::Workspace};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};
use wiremock::{MockServer, Request, Respond, ResponseTemplate};

/// The documents tell of each.
const ANIMALS: [&str; 4] = ["owls", "beavers", "otters", "wolves"];

/// Rewrites each question as a standalone one, and gives a different answer to each call.
#[derive(Clone, Default)]
struct Talk {
    calls: Arc<AtomicUsize>,
    /// Whether answers to the question about beavers are refused.
    refuses: Arc<AtomicBool>,
}

impl Respond for Talk {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let prompt = body["messages"].to_string();
        let asked = |animal: &&str| prompt.contains(&format!("o {animal} work?"));
        let animal = ANIMALS.into_iter().find(asked).unwrap();
        let content = match body.get("response_format") {
            Some(_) => json!({ "question": format!("When do {animal} work?") }).to_string(),
            None if animal == "beavers" && self.refuses.load(SeqCst) => {
                return ResponseTemplate::new(400).set_body_json(json!({ "error": { "message": "no beavers" } }));
            }
            None => ["They work at night.", "By day."][self.calls.fetch_add(1, SeqCst) % 2].to_owned(),
        };
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 40, "completion_tokens": 10 },
        }))
    }
}

/// The prompts of answers so far; those that make a question stand alone are no answers.
async fn prompts(server: &MockServer) -> Vec<String> {
    let asked = endpoint::asked(server).await;
    let bodies = asked.iter().map(|body| serde_json::from_str::<Value>(body).unwrap());
    bodies.filter(|body| body.get("response_format").is_none()).map(|body| body["messages"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_asks_the_question_that_stands_alone_and_one_failed_call_loses_no_other() {
    let talk = Talk::default();
    let server = endpoint::start_with(talk.clone()).await;
    let workspace = Workspace::new();
    let question = |animal: &str| {
        let turns = json!([
            { "role": "user", "content": format!("Do {animal} work?") }, { "role": "assistant", "content": "Yes." },
        ]);
        json!({ "id": animal, "question": "And when?", "turns": turns, "reference": "At night." }).to_string()
    };
    workspace.write("golden.jsonl", ANIMALS.map(question).join("\n"));
    let space = "chunker = [\"sentence\"]\nquery = [{ condense = { model = \"gpt\" } }]\nretriever = [{ bm25 = { top_k = 1 } }]\n\
                 generator = [{ compact = { model = \"gpt\" } }]";
    let rest = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"token_f1\"]\n";
    workspace.experiment(space, &format!("{rest}{}", endpoint::model(&server)));
    workspace.run(&["run", "--quiet"]).succeeds();
    let asked: BTreeSet<String> = prompts(&server).await.into_iter().collect();
    assert!(asked.len() == 4 && asked.iter().all(|prompt| prompt.contains(" work?")), "{asked:?}");

    talk.refuses.store(true, SeqCst);
    let noise = ["noise", "t01", "--metric", "token_f1", "--questions", "4", "--answers", "3", "--json"];
    let found = workspace.run(&noise).succeeds().json();
    assert_eq!((&found["used"], &found["left_out"]), (&json!(3), &json!(1)), "{found}");
    let all = prompts(&server).await;
    assert!(all.len() > 4 + 3, "each repeat is a call of its own: {}", all.len());
    for prompt in &all {
        assert!(asked.contains(prompt), "the run asked nothing like it: {prompt}");
    }
}
