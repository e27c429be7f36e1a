//! Winners by judged scores: when three judge calls in ten fail, when the judge
//! was never tried, and when a model refuses some questions.

use crate::{
    endpoint,
    judge::Words,
    services::S3,
    workspace::{Outcome, Workspace},
};
use serde_json::{Value, json};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use wiremock::{Request, Respond, ResponseTemplate};

/// Answers every question in nearly the same way, and judges by words; once it fails,
/// it refuses to judge three bodies in ten, the same ones each time.
struct Model(Arc<AtomicBool>);

impl Respond for Model {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let mut hasher = DefaultHasher::new();
        request.body.hash(&mut hasher);
        let hash = hasher.finish();
        if body.get("response_format").is_some() {
            if self.0.load(Ordering::SeqCst) && hash % 10 < 3 {
                return ResponseTemplate::new(400).set_body_string("{\"error\": {\"message\": \"no judging today\"}}");
            }
            return Words.respond(request);
        }
        let content = format!(
            "Barn owls swallow mice whole. The blue whale is the largest animal that has ever lived. Answer {hash} ends."
        );
        chat_response(&content)
    }
}

fn chat_response(content: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 40, "completion_tokens": 10 },
    }))
}

/// Two trials that are chosen by a judge's verdicts, and a sound judge.
fn workspace(uri: &str) -> Workspace {
    let space = "chunker = [{ sentence = { chunk_size = 64, chunk_overlap = 0 } }, { sentence = { chunk_size = 128, chunk_overlap = 0 } }]\nretriever = { bm25 = { top_k = 1 } }\ngenerator = { compact = { model = \"gpt\", max_tokens = 40 } }";
    judged(uri, 6, space, "")
}

/// These trials over `4 × times` questions, chosen by the verdicts of a sound judge. `models` are further models.
fn judged(uri: &str, times: usize, space: &str, models: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.multiply_questions(times);
    workspace.experiment(
        space,
        &format!(
            "{models}[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{uri}/v1\", concurrency = 1 }}\n\n[dataset]\npath = \"golden.jsonl\"\n\n[evaluate]\nmetrics = [\"faithfulness\", \"hit_rate\"]\njudge = \"gpt\"\nobjective = [\"faithfulness\"]"
        ),
    );
    let case = |i: usize| {
        let item = if i.is_multiple_of(2) { format!("Owl {i} hunts") } else { format!("Owl {i} reads") };
        let against = format!("Owl {i} hunts.");
        json!({ "kind": "supported", "against": against, "item": item, "label": i.is_multiple_of(2) }).to_string()
    };
    workspace.write("cases.jsonl", (0..80).map(case).collect::<Vec<_>>().join("\n"));
    workspace
}

fn faithfulness(results: &Value, trial: &str) -> Value {
    let trials = results["trials"].as_array().unwrap();
    let found = trials.iter().find(|found| found["trial"]["id"] == trial).unwrap();
    found["metrics"]["faithfulness"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_nobody_tried_chooses_no_winner() {
    let server = endpoint::start_with(Model(Arc::default())).await;
    let workspace = workspace(&server.uri());
    workspace.run(&["run"]).refused_with(&["`faithfulness` cannot choose a winner", "`gpt` was never tried"]);
    let tried = workspace.run(&["judge", "--cases", "cases.jsonl", "--json"]).succeeds().json();
    assert_eq!(tried[0]["kinds"][0]["qualified"], true, "{tried}");
    let chosen = workspace.run(&["run"]).succeeds();
    assert!(chosen.out.contains("t01 leads") && chosen.out.contains("supported qualified"), "{}", chosen.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_one_machine_tried_counts_on_every_machine_of_the_store() {
    let Some(store) = S3::start().await else { return };
    let server = endpoint::start_with(Model(Arc::default())).await;
    let machine = || {
        let workspace = workspace(&server.uri());
        let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
        workspace.write("experiment.toml", text.replace("store = \"store\"", "store = \"s3://bucket/judged\""));
        workspace
    };
    let run = |workspace: &Workspace, arguments: &[&str]| {
        Outcome::of(store.known_to(workspace.command(arguments)).output().unwrap())
    };
    let (first, second) = (machine(), machine());
    run(&second, &["run"]).refused_with(&["`faithfulness` cannot choose a winner", "`gpt` was never tried"]);
    run(&first, &["judge", "--cases", "cases.jsonl"]).succeeds();
    let chosen = run(&second, &["run"]).succeeds();
    assert!(chosen.out.contains("t01 leads") && chosen.out.contains("supported qualified"), "{}", chosen.out);
    // A record that only this machine has counts here: older versions kept it so.
    let kept = store.store("s3://bucket/judged");
    for name in kept.list("qualifications").await.unwrap() {
        kept.remove(&name).await.unwrap();
    }
    run(&first, &["run", "--quiet"]).succeeds();
    run(&second, &["run"]).refused_with(&["`gpt` was never tried"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_three_judge_calls_in_ten_failing_the_truth_is_within_the_bounds_and_no_winner_is_named() {
    let failing = Arc::new(AtomicBool::new(false));
    let server = endpoint::start_with(Model(failing.clone())).await;
    let (sound, broken) = (workspace(&server.uri()), workspace(&server.uri()));
    for workspace in [&sound, &broken] {
        workspace.run(&["judge", "--cases", "cases.jsonl"]).succeeds();
    }
    let truth = sound.run(&["run", "--json"]).succeeds().json();
    failing.store(true, Ordering::SeqCst);
    let found = broken.run(&["run", "--json"]).ends_with(3).json();
    for trial in ["t01", "t02"] {
        let (whole, part) = (faithfulness(&truth, trial), faithfulness(&found, trial));
        let mean = whole["mean"].as_f64().unwrap();
        assert!(mean > 0.0 && mean < 1.0, "{whole}");
        let bounds = part["worst"].as_f64().unwrap()..=part["best"].as_f64().unwrap();
        assert!(bounds.contains(&mean), "{trial}: {mean} is not within {bounds:?}");
        let (scored, failed) = (part["n_scored"].as_u64().unwrap(), part["n_failed"].as_u64().unwrap());
        assert!(failed > 0 && scored > 0 && scored + failed == 24, "{part}");
    }
    let refused = found["winner"]["refused"].as_str().unwrap_or_default();
    assert!(refused.contains("scores are missing"), "{}", found["winner"]);
    let shown = broken.run(&["leaderboard"]).succeeds().out;
    assert!(shown.contains("/24") && shown.contains("no winner"), "{shown}");
}

/// Judges by words. Gives one answer to every question, but the model `shy` refuses every tenth question.
struct Refusing;

impl Respond for Refusing {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        if body.get("response_format").is_some() {
            return Words.respond(request);
        }
        let prompt = body["messages"].to_string();
        let is_tenth = ["(2)", "(12)", "(22)"].iter().any(|number| prompt.contains(number));
        let refuses = body["model"] == "shy" && is_tenth;
        chat_response(if refuses {
            "I don't know."
        } else {
            "Barn owls swallow mice whole. Beavers build dams from branches and mud. \
             The blue whale is the largest animal that has ever lived."
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_refuses_a_tenth_of_the_questions_loses_by_faithfulness_and_a_winner_is_named() {
    let server = endpoint::start_with(Refusing).await;
    let space = "chunker = [\"sentence\"]\nretriever = { bm25 = { top_k = 1 } }\ngenerator = [{ compact = { model = \"shy\" } }, { compact = { model = \"gpt\" } }]";
    let shy = format!("[models.shy]\nchat.openai = {{ model = \"shy\", base_url = \"{}/v1\" }}\n", server.uri());
    let workspace = judged(&server.uri(), 30, space, &shy);
    workspace.run(&["judge", "--cases", "cases.jsonl"]).succeeds();
    let results = workspace.run(&["run", "--json"]).succeeds().json();
    let trials = results["trials"].as_array().unwrap();
    let of = |model: &str| {
        let found = trials.iter().find(|found| found["trial"]["labels"]["generator"].as_str().unwrap().contains(model));
        let found = found.unwrap();
        (found["trial"]["id"].clone(), found["metrics"]["faithfulness"].clone())
    };
    let ((gpt, whole), (_, refused)) = (of("gpt"), of("shy"));
    assert_eq!((&whole["n_scored"], &refused["n_scored"]), (&120.into(), &120.into()), "a refusal has a score");
    assert!(refused["mean"].as_f64() < whole["mean"].as_f64(), "{refused} {whole}");
    assert_eq!(results["winner"]["trial"], gpt, "{}", results["winner"]);
}
